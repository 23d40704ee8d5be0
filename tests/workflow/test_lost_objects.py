"""A run whose objects are gone waits for its own, in every process that ends and starts again.

It never goes on with another run's object; `test_whose_objects.py` has the other situations.
"""

import asyncio
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from outlast.agents import run_objects
from outlast.agents.run_objects import RUN_OBJECTS, RunKey, RunObjects
from outlast.client.results.run_state import RunState
from outlast.client.start.runner import Runner
from tests.laws.ownership import (
    QUESTIONS,
    Customer,
)
from tests.workflow.hosts import (
    PATIENCE_SECONDS,
    QUESTIONS_AT_WORKERS,
    SENTENCES,
    TRIPS_AT_WORKERS,
    HalfRun,
    Host,
    WorkerHost,
    all_of,
    check,
    host,
    ledger,
    people,
    situations,
    tables,
    until,
    whole,
)
from tests.workflow.test_programs import program

# Fixtures of the hosts.
__all__ = ["host", "ledger", "people", "tables"]

LOSING = pytest.mark.parametrize(
    ("host", "plan"),
    [
        pytest.param(Host, "plain pay", id="program-plain"),
        pytest.param(Host, "trip pay", id="program-trip"),
        pytest.param(Host, "questions", id="program-questions"),
        pytest.param(WorkerHost, "plain pay", id="worker-plain"),
    ],
    indirect=["host"],
)
"""A situation with a run for each object that a start names."""


# --- Processes that end ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "plan"),
    [
        pytest.param(Host, "plain pay", marks=pytest.mark.smoke, id="program-plain"),
        pytest.param(WorkerHost, "plain pay", id="worker-plain"),
    ],
    indirect=["host"],
)
async def test_a_state_in_a_new_process(host: Host, people: list[Customer], plan: str):
    ann, bob, _ = people
    text = (await host.run(ann, plan, host.new_id())).to_state().to_string()
    await host.new_process()
    await whole(host, bob, plan)
    context = ann.options(plan)["context"]
    state = await RunState.from_string(ann.agent, text, context_override=context)
    handle = await Runner.attach(state.run_id, client=host.client)
    async with asyncio.TaskGroup() as tasks:
        resuming = tasks.create_task(host.resume(ann, plan, state))
        blocked = await until(handle, lambda one: one.blocked)
        assert blocked.blocked[0].lacks.startswith(SENTENCES), blocked.blocked
        await host.start(ann, plan, state.run_id)
        await resuming
    check(host, plan, ann, bob, waited=True)


def _owners_since(host: Host, count: int, kind: str = "") -> set[str]:
    """Return whose runs have used an object of a kind, or any, after the first uses."""
    return {use.run_owner for use in host.ledger.uses[count:] if use.kind.startswith(kind)}


async def waits_and_goes_on(host: Host, run: HalfRun) -> None:
    """Check that a run waits for its own objects, and goes on when its start is repeated."""
    customer, handle = run.customer, run.handle
    count = len(host.ledger.uses)
    if run.plan == "questions":
        sent = asyncio.create_task(handle.send(f"I am {customer.name}. {QUESTIONS[1]}, please."))
    else:
        sent = asyncio.create_task(run.approve())
    state = await until(handle, lambda one: one.blocked)
    await sent
    assert state.blocked[0].lacks.startswith(SENTENCES), state.blocked
    if host.name == "program":
        assert customer.name not in _owners_since(host, count)
    assert not [use for use in host.ledger.uses if not use.is_own]
    run.handle = await host.start(customer, run.plan, run.id)


@situations(*QUESTIONS_AT_WORKERS, ending=" pay", smoke=True)
async def test_processes_that_end_and_start_in_another_order(
    host: Host, people: list[Customer], plan: str
):
    runs = [await HalfRun(host, one, plan).begin() for one in people[:2]]
    await host.new_process()
    await whole(host, people[2], plan)
    await waits_and_goes_on(host, runs[1])
    await waits_and_goes_on(host, runs[0])
    await all_of(*(one.finish() for one in runs))
    check(host, plan, *people, waited=True)


@situations(*TRIPS_AT_WORKERS, ending=" pay")
async def test_more_runs_than_a_process_keeps(
    host: Host, people: list[Customer], plan: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_objects, "MOST_KEPT", 5)
    run = await HalfRun(host, people[0], plan).begin()
    others = [await HalfRun(host, people[1], plan).begin() for _ in range(5)]
    last = await HalfRun(host, people[2], plan).begin()
    await waits_and_goes_on(host, run)
    await run.finish()
    await all_of(last.finish(), *(one.finish() for one in others[-3:]))
    check(host, plan, *people, waited=True)


LOST: ContextVar[int | None] = ContextVar("lost", default=None)
"""Which of the objects that a start names is lost on the way, by number."""


@LOSING
async def test_a_run_waits_for_each_object_that_is_missing(
    host: Host, people: list[Customer], plan: str, monkeypatch: pytest.MonkeyPatch
):
    bring, counts = RUN_OBJECTS.bring, list[int]()

    def lossy(key: Any, objects: RunObjects, **options: Any) -> RunObjects:
        found, number = objects.references.objects, LOST.get()
        counts.append(len(found))
        if number is not None:
            objects.references.objects.pop(sorted(found)[number])
        return bring(key, objects, **options)

    monkeypatch.setattr(RUN_OBJECTS, "bring", lossy)
    await whole(host, people[0], plan)

    async def lose(number: int) -> None:
        # A customer for each, since a run counts as somebody's by its data.
        one = HalfRun(host, Customer(f"ann{number}", host.ledger), plan)
        LOST.set(number)
        one.handle = await host.start(one.customer, plan, one.id)
        state = await until(one.handle, lambda state: state.blocked)
        assert state.blocked[0].lacks.startswith(SENTENCES)
        LOST.set(None)
        one.handle = await host.start(one.customer, plan, one.id)
        await one.half()
        await one.finish()
        check(host, plan, one.customer, waited=True)

    await all_of(*(asyncio.create_task(lose(number)) for number in range(counts[0])))


async def objects_of(host: Host, run: HalfRun) -> dict[str, Any]:
    """Return the objects that this process has for a run, by the names that the run has for them."""
    description = await host.workflow(run.handle).describe()
    found = RUN_OBJECTS.get(RunKey(host.client.namespace, description.raw_info.first_run_id))
    assert found is not None, run.id
    return found.references.objects


@LOSING
async def test_a_run_that_loses_an_object_half_way_never_fails_for_that(
    host: Host, people: list[Customer], plan: str
):
    faults: dict[str, str] = {}

    async def lose(number: int, one: HalfRun) -> bool:
        objects = await objects_of(host, one)
        name = sorted(objects)[number]
        del objects[name]
        finishing = asyncio.create_task(one.finish())
        blocking = asyncio.create_task(until(one.handle, lambda state: state.blocked))
        await asyncio.wait([blocking])
        waits = blocking.exception() is None
        if waits and not blocking.result().blocked[0].lacks.startswith(SENTENCES):
            faults[name] = f"waits without a sentence: {blocking.result().blocked[0].lacks}"
        if waits:
            await host.start(one.customer, plan, one.id)
        await asyncio.wait([finishing])
        if (error := finishing.exception()) is not None:
            faults[name] = str(error)
        return waits

    first = await HalfRun(host, Customer("ann0", host.ledger), plan).begin()
    others = [
        HalfRun(host, Customer(f"ann{number}", host.ledger), plan)
        for number in range(1, len(await objects_of(host, first)))
    ]
    await all_of(*(one.begin() for one in others))
    waited = await asyncio.gather(
        *(lose(number, one) for number, one in enumerate([first, *others]))
    )
    assert not faults, "\n".join(f"{name}: {error:.300}" for name, error in faults.items())
    assert any(waited)
    assert not host.ledger.mixed


# --- Processes that are killed --------------------------------------------------------------------

TENANTS = """
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from outlast import RunConfig, RunContextWrapper
from outlast.client.handle import progress_of

class TenantModels:
    def __init__(self, tenant):
        self.key = f"the key of {tenant}"

    def get_model(self, _name):
        def reply(request):
            note("used", f"{self.key} for {request.instructions} {request.input[0]['content']}")
            outputs = [one["output"] for one in request.input if "output" in one]
            return say(f"{self.key}: {outputs[0]}") if outputs else [call("work", "c1")]
        return ScriptedModel(always=reply)

    async def aclose(self):
        pass

def start(tenant):
    @dataclass
    class Case:
        customer: str
        lock: Any

    @function_tool
    async def work(ctx: RunContextWrapper[Any]) -> str:
        note("at-work", tenant)
        while not Path("door").exists():
            await asyncio.sleep(0.01)
        with ctx.context.lock:
            return f"{tenant} for {ctx.context.customer}"

    agent = Agent(name="Desk", instructions=f"You serve {tenant}.", tools=[work])
    config = RunConfig(model_provider=TenantModels(tenant), heartbeat_timeout=timedelta(seconds=2))
    context = Case(tenant, threading.Lock())
    question, case = f"I am {tenant}", f"case-{tenant}"
    return Runner.run(agent, question, id=case, context=context, run_config=config)

async def main():
    if Path("door").exists():  # after the crash
        first, second = sys.argv[1:]
        print((await start(first)).final_output)
        handle = await Runner.attach(f"case-{second}")
        async for progress in progress_of(handle):
            if progress.state.blocked:
                print(progress.state.blocked[0].lacks.split(":")[0])
                break
        print((await start(second)).final_output)
    else:
        await asyncio.gather(*(start(tenant) for tenant in sys.argv[1:]))

asyncio.run(main())
"""


async def test_tenants_of_a_program_that_is_killed_keep_their_own_keys(tmp_path: Path):
    async with program(tmp_path, "tenants.py", TENANTS, "ann", "bob") as process:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(_lines(tmp_path / "at-work")) < 2:
                assert process.returncode is None, "the program has ended"
                await asyncio.sleep(0.02)
        process.kill()
        await process.wait()
    (tmp_path / "door").touch()
    async with program(tmp_path, "tenants.py", TENANTS, "bob", "ann") as process:
        async with asyncio.timeout(PATIENCE_SECONDS):
            out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert out.decode().splitlines() == [
        "the key of bob: bob for bob",
        f"{SENTENCES[0]} that the run was started with",
        "the key of ann: ann for ann",
    ]
    used = {f"the key of {one} for You serve {one}. I am {one}" for one in ("ann", "bob")}
    assert set(_lines(tmp_path / "used")) == used


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
