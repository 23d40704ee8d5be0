"""The engine in the process: one for each event loop, and nothing left behind."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.agent import Agent
from outlast.agents.errors import ServerUnavailable, UserError
from outlast.agents.registry import Registry
from outlast.agents.tools.function_tool import function_tool
from outlast.contract import names
from outlast.local import engine, local_worker
from outlast.local.engine import LocalEngine
from outlast.local.local_worker import HostedRun
from outlast.local.program import Program
from outlast.local.queues import QueueClaim
from outlast.tracing.provider import get_current_trace
from tests.eventually import eventually

FOREIGN = "outlast-local-shop-01234567-A"


class FakeClient:
    """What an engine uses of a client."""

    def __init__(self, where: Any, count_workflows: Any) -> None:
        self.where = where
        self.count_workflows = count_workflows


class Surroundings:
    """What an engine puts together: a configuration, a server, a client, workers."""

    def __init__(self) -> None:
        self.configured = False
        self.refusal: Exception | None = None
        self.waiting: list[str] = []
        self.port_taken: Exception | None = None
        self.connected: list[tuple[Any, ...]] = []
        self.servers: list[Any] = []
        self.workers: list[Any] = []
        self.claims = Path()

    def is_configured(self) -> bool:
        return self.configured

    async def connect(self, *where: Any) -> Any:
        await asyncio.sleep(0)
        self.connected.append(where)
        if self.refusal is not None:
            raise self.refusal
        return FakeClient(where=where, count_workflows=self.count)

    async def count(self, query: str) -> Any:
        """Answer what the engine asks: how many runs are open in a queue."""
        await asyncio.sleep(0)
        if self.refusal is not None:
            raise self.refusal
        found = [queue for queue in self.waiting if f"TaskQueue = '{queue}' AND" in query]
        return SimpleNamespace(count=len(found))

    def make_server(self, **options: Any) -> Any:
        server = FakeServer(options)
        if options["port"]:
            server.refusal = self.port_taken
        self.servers.append(server)
        return server

    def make_worker(self, client: Any, **options: Any) -> Any:
        worker = FakeWorker(client, options)
        self.workers.append(worker)
        return worker


class FakeServer:
    address = "127.0.0.1:7777"
    info = SimpleNamespace(namespace="default")

    def __init__(self, options: Any) -> None:
        self.options = options
        self.joined = False
        self.alive = True
        self.refusal: Exception | None = None
        self.calls: list[str] = []

    def keep(self) -> None:
        self.calls.append("keep")

    async def start(self) -> None:
        self.calls.append("start")
        if self.refusal is not None:
            raise self.refusal

    async def stop(self) -> None:
        self.calls.append("stop")


class FakeWorker:
    def __init__(self, client: Any, options: Any) -> None:
        self.client = client
        self.options = options
        self.registry = options["agents"]
        self.calls: list[str] = []

    async def __aenter__(self) -> Self:
        self.calls.append("enter")
        self.started_in = get_current_trace()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.calls.append("exit")


@pytest.fixture
async def around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Surroundings]:
    surroundings = Surroundings()
    monkeypatch.setattr(engine, "is_configured", surroundings.is_configured)
    monkeypatch.setattr(engine, "connect", surroundings.connect)
    monkeypatch.setattr(engine, "EmbeddedServer", surroundings.make_server)
    monkeypatch.setattr(engine, "this_program", lambda: Program("desk-0a1b2c3d", is_script=True))
    monkeypatch.setattr(engine, "LOOK_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(local_worker, "AgentWorker", surroundings.make_worker)
    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path))
    surroundings.claims = tmp_path / "queues"
    yield surroundings
    await LocalEngine.close_shared()


def definitions_of(served: HostedRun) -> Registry:
    assert served.definitions is not None
    return served.definitions


async def test_where_a_server_is_configured_none_is_started(around: Surroundings) -> None:
    around.configured = True
    await LocalEngine.shared()
    assert (around.connected, around.servers) == ([()], [])


async def test_where_none_is_configured_one_is_started_with_what_runs_need(
    around: Surroundings,
) -> None:
    one = await LocalEngine.shared()
    (server,) = around.servers
    assert server.calls == ["start"]
    assert server.options["search_attributes"] == names.SEARCH_ATTRIBUTES
    client: Any = one.client
    assert client.where == ("127.0.0.1:7777", "default")


async def test_there_is_one_engine_also_for_two_that_ask_at_once(around: Surroundings) -> None:
    engines = await asyncio.gather(*(LocalEngine.shared() for _ in range(5)))
    assert len({id(one) for one in engines}) == 1
    assert len(around.servers) == 1


async def test_another_event_loop_has_its_own(around: Surroundings) -> None:
    async def elsewhere() -> LocalEngine:
        try:
            return await LocalEngine.shared()
        finally:
            await LocalEngine.close_shared()

    here = await LocalEngine.shared()
    there = await asyncio.to_thread(asyncio.run, elsewhere())
    assert there is not here
    assert [server.calls for server in around.servers] == [["start"], ["start", "stop"]]


async def test_a_server_that_cannot_be_used_is_not_left_running(around: Surroundings) -> None:
    around.refusal = ServerUnavailable("It does not answer.")
    with pytest.raises(ServerUnavailable):
        await LocalEngine.shared()
    assert around.servers[0].calls == ["start", "stop"]
    around.refusal = None
    assert await LocalEngine.shared(), "the next one who asks tries again"


async def test_a_server_that_died_is_started_again_where_it_was(around: Surroundings) -> None:
    one = await LocalEngine.shared()
    await one.serve(Agent(name="A"))
    around.servers[0].alive = False
    assert await LocalEngine.shared() is one
    assert [server.options["port"] for server in around.servers] == [0, 7777]
    assert [server.calls for server in around.servers] == [["start", "stop"], ["start"]]
    assert [worker.calls for worker in around.workers] == [["enter"]], "its client finds it again"


async def test_where_it_was_may_be_taken_when_a_server_has_died(around: Surroundings) -> None:
    one = await LocalEngine.shared()
    await one.serve(Agent(name="A"))
    around.servers[0].alive = False
    around.port_taken = ServerUnavailable("Port 7777 cannot be used.")
    assert await LocalEngine.shared() is not one
    assert [server.options["port"] for server in around.servers] == [0, 7777, 0]
    assert [worker.calls for worker in around.workers] == [["enter", "exit"]]


async def test_a_run_is_carried_on_a_queue_of_its_program_and_agent(around: Surroundings) -> None:
    one = await LocalEngine.shared()
    agent = Agent[Any](name="Triage")
    queues = [(await one.serve(agent)).queue for _ in range(2)]
    assert queues == ["outlast-local-desk-0a1b2c3d-Triage"] * 2
    other = await one.serve(Agent(name="Other"))
    assert other.queue == "outlast-local-desk-0a1b2c3d-Other"
    first, second = around.workers
    assert (first.calls, second.calls) == (["enter"], ["enter"])
    assert first.options["task_queue"] == queues[0]
    assert first.client is one.client


async def test_runs_of_an_agent_that_start_at_once_have_one_worker(around: Surroundings) -> None:
    one = await LocalEngine.shared()
    agents = [Agent[Any](name="Triage", instructions=str(number)) for number in range(5)]
    served = await asyncio.gather(*(one.serve(agent) for agent in agents))
    assert len(around.workers) == 1
    found = [definitions_of(run).agent("Triage") for run in served]
    assert all(a is b for a, b in zip(found, agents, strict=True)), (
        "each has the agent it was given"
    )


async def test_an_agent_that_is_defined_again_is_that_of_the_next_runs(
    around: Surroundings,
) -> None:
    one = await LocalEngine.shared()
    old = Agent[Any](name="Triage", instructions="old")
    first = await one.serve(old)
    again = Agent[Any](name="Triage", instructions="new", handoffs=[Agent(name="Orders")])
    second = await one.serve(again)
    assert definitions_of(first).agent("Triage") is old
    assert definitions_of(second).agent("Triage") is again
    assert definitions_of(second).names == ["Orders", "Triage"]
    (worker,) = around.workers
    assert worker.registry.names == ["Triage"], "no run has what the worker itself was made with"


async def test_runs_with_one_agent_share_its_definitions_until_it_is_changed(
    around: Surroundings,
) -> None:
    one = await LocalEngine.shared()
    agent = Agent[Any](name="Clerk", handoffs=[Agent(name="Orders")])
    first, second = [await one.serve(agent) for _ in range(2)]
    assert definitions_of(first) is definitions_of(second)
    agent.handoffs = [orders := Agent[Any](name="Orders")]
    third = await one.serve(agent)
    assert definitions_of(third).agent("Orders") is orders
    assert definitions_of(first).agent("Orders") is not orders


async def test_agents_of_one_name_are_told_apart(around: Surroundings) -> None:
    triage = Agent[Any](name="Triage", handoffs=[Agent(name="Clerk"), Agent(name="Clerk")])
    served = await (await LocalEngine.shared()).serve(triage)
    assert definitions_of(served).names == ["Clerk", "Clerk (2)", "Triage"]


async def test_an_agent_that_does_not_fit_leaves_its_queue_to_the_next(
    around: Surroundings,
) -> None:
    one = await LocalEngine.shared()
    twice = Agent[Any](name="Triage", tools=[function_tool(print, name_override="x")] * 2)
    for queue in (None, FOREIGN):
        with pytest.raises(UserError, match="used by multiple tools"):
            await one.serve(twice, queue=queue)
    assert (await one.serve(Agent(name="Triage"))).queue.endswith("-0a1b2c3d-Triage")
    assert len(around.workers) == 1


async def test_a_queue_that_somebody_else_carries_is_left_to_them(around: Surroundings) -> None:
    claim = QueueClaim.take("outlast-local-desk-0a1b2c3d-Triage", around.claims)
    assert claim is not None
    one = await LocalEngine.shared()
    served = await one.serve(Agent(name="Triage"))
    assert served.queue == "outlast-local-desk-0a1b2c3d.2-Triage"
    claim.release()
    assert (await one.serve(Agent(name="Triage"))).queue == served.queue


async def test_a_run_on_another_programs_queue_is_carried_there_while_it_is_waited_for(
    around: Surroundings,
) -> None:
    one = await LocalEngine.shared()
    first, second = [await one.serve(Agent(name="A"), queue=FOREIGN) for _ in range(2)]
    assert [worker.options["task_queue"] for worker in around.workers] == [FOREIGN]
    first.release()
    await asyncio.sleep(0)
    assert around.workers[0].calls == ["enter"]
    second.release()
    third = await one.serve(Agent(name="A"), queue=FOREIGN)
    assert [worker.calls for worker in around.workers] == [["enter"]], "it was not stopped yet"
    third.release()
    await eventually(lambda: around.workers[0].calls == ["enter", "exit"])
    fourth = await one.serve(Agent(name="A"), queue=FOREIGN)
    fourth.leave()
    await LocalEngine.close_shared()
    assert around.workers[1].calls == ["enter", "exit"], "it goes on until the end"


async def test_the_programs_own_queue_is_carried_to_the_end(around: Surroundings) -> None:
    one = await LocalEngine.shared()
    attached = await one.serve(Agent(name="A"), queue="outlast-local-desk-0a1b2c3d-A")
    await one.serve(Agent(name="A"))
    attached.release()
    await asyncio.sleep(0)
    assert [worker.calls for worker in around.workers] == [["enter"]]


async def _ask(one: LocalEngine, name: str) -> str:
    served = await one.serve(Agent(name=name))
    served.release()
    return served.queue


async def test_queues_of_names_that_are_not_used_any_more_are_carried_no_longer(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "KEPT_IDLE", 2)
    one = await LocalEngine.shared()
    around.waiting = [await _ask(one, "waits for people")]
    busy = await one.serve(Agent(name="busy"))
    for name in ("a", "b", "a", "c's"):
        await _ask(one, name)
    await _ask(one, "d")
    await eventually(lambda: around.workers[3].calls == ["enter", "exit"])
    assert [worker.registry.names[0] for worker in around.workers] == [
        "waits for people", "busy", "a", "b", "c's", "d",
    ]  # fmt: skip
    await _ask(one, "e")
    await eventually(lambda: around.workers[2].calls == ["enter", "exit"])
    carried = [worker for worker in around.workers if worker.calls == ["enter"]]
    assert [worker.registry.names[0] for worker in carried] == [
        "waits for people", "busy", "c's", "d", "e",
    ]  # fmt: skip
    assert await _ask(one, "b") == around.workers[3].options["task_queue"], "it can be had again"
    assert around.workers[-1].calls == ["enter"]
    busy.release()


@pytest.mark.parametrize("name", ["a", 'the "best" one', "back\\slash"])
async def test_a_queue_of_which_nobody_knows_whether_it_is_used_is_kept(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(engine, "KEPT_IDLE", 0)
    one = await LocalEngine.shared()
    if name == "a":
        around.refusal = RPCError("no visibility", RPCStatusCode.UNAVAILABLE, b"")
    await _ask(one, name)
    await asyncio.sleep(0.01)
    assert around.workers[0].calls == ["enter"]
    await LocalEngine.close_shared()
    assert around.workers[0].calls == ["enter", "exit"]


def workers_that_begin(around: Surroundings, begins: asyncio.Event) -> Any:
    """Return what makes workers that take work once `begins` is set."""

    class Slow(FakeWorker):
        async def __aenter__(self) -> Self:
            await begins.wait()
            return await super().__aenter__()

    def make(client: Any, **options: Any) -> FakeWorker:
        worker = Slow(client, options)
        around.workers.append(worker)
        return worker

    return make


def claimed(around: Surroundings) -> QueueClaim:
    """Return the claim of another program on its queue."""
    claim = QueueClaim.take(FOREIGN, around.claims)
    assert claim is not None
    return claim


async def waiting_elsewhere(around: Surroundings) -> HostedRun:
    """Return a run of another program that has ended, whose worker starts here."""
    claim = claimed(around)
    run = await (await LocalEngine.shared()).serve(Agent(name="A"), queue=FOREIGN)
    claim.release()
    await eventually(lambda: bool(around.workers))
    return run


async def test_a_run_whose_program_lives_is_carried_here_once_that_has_ended(
    around: Surroundings,
) -> None:
    one = await LocalEngine.shared()
    claim = claimed(around)
    needed = await one.serve(Agent(name="A"), queue=FOREIGN)
    given_up = await one.serve(Agent(name="B"), queue=FOREIGN)
    assert (needed.queue, around.workers) == (FOREIGN, [])
    assert definitions_of(needed).names == ["A"], "the run has them when it is found"
    given_up.release()
    claim.release()
    await eventually(lambda: bool(around.workers))
    (worker,) = around.workers
    assert worker.registry.names == ["A"]
    needed.release()
    await eventually(lambda: worker.calls == ["enter", "exit"])


async def test_a_run_that_is_released_while_its_worker_starts_leaves_no_worker(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins = asyncio.Event()
    monkeypatch.setattr(local_worker, "AgentWorker", workers_that_begin(around, begins))
    run = await waiting_elsewhere(around)
    run.release()
    begins.set()
    await eventually(lambda: around.workers[0].calls == ["enter", "exit"])
    claimed(around).release()  # another process may host the queue


async def test_an_engine_that_closes_while_such_a_worker_starts_stops_it_once(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins = asyncio.Event()
    monkeypatch.setattr(local_worker, "AgentWorker", workers_that_begin(around, begins))
    await waiting_elsewhere(around)
    closing = asyncio.create_task(LocalEngine.close_shared())
    await asyncio.sleep(0)
    begins.set()
    await closing
    assert around.workers[0].calls == ["enter", "exit"]


async def test_a_queue_with_workers_of_its_own_is_left_to_them(around: Surroundings) -> None:
    one = await LocalEngine.shared()
    served = await one.serve(Agent(name="A"), queue="support")
    served.leave()
    served.release()
    assert (served.queue, served.definitions, around.workers) == ("support", None, [])


async def test_a_worker_whose_first_caller_gives_up_is_there_for_the_next(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins = asyncio.Event()
    monkeypatch.setattr(local_worker, "AgentWorker", workers_that_begin(around, begins))
    one = await LocalEngine.shared()
    first = asyncio.create_task(one.serve(Agent(name="A")))
    await eventually(lambda: bool(around.workers))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    begins.set()
    await eventually(lambda: around.workers[0].calls == ["enter"])
    await one.serve(Agent(name="A"))
    assert len(around.workers) == 1
    await LocalEngine.close_shared()
    assert around.workers[0].calls == ["enter", "exit"]


async def test_a_worker_that_has_just_begun_when_its_caller_gives_up_is_not_lost(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await LocalEngine.shared()
    start = local_worker.LocalWorker.start
    caller: list[asyncio.Task[Any]] = []

    async def start_and_give_up(self: Any) -> None:
        await start(self)
        caller[0].cancel()

    monkeypatch.setattr(local_worker.LocalWorker, "start", start_and_give_up)
    caller.append(asyncio.create_task(one.serve(Agent(name="A"))))
    with pytest.raises(asyncio.CancelledError):
        await caller[0]
    await one.serve(Agent(name="A"))
    assert [worker.calls for worker in around.workers] == [["enter"]]


async def test_closing_stops_the_workers_and_then_the_server(around: Surroundings) -> None:
    one = await LocalEngine.shared()
    await one.serve(Agent(name="A"))
    await one.serve(Agent(name="B"))
    await LocalEngine.close_shared()
    assert [worker.calls for worker in around.workers] == [["enter", "exit"]] * 2
    assert around.servers[0].calls == ["start", "stop"]
    await LocalEngine.close_shared()
    assert around.servers[0].calls == ["start", "stop"], "a second time changes nothing"


async def test_a_worker_that_breaks_does_not_keep_the_server_running(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(_worker: FakeWorker, *_error: object) -> None:
        raise ConnectionError

    one = await LocalEngine.shared()
    await one.serve(Agent(name="A"))
    monkeypatch.setattr(FakeWorker, "__aexit__", breaks)
    with pytest.raises(ConnectionError):
        await LocalEngine.close_shared()
    assert around.servers[0].calls == ["start", "stop"]


@pytest.mark.parametrize(("joined", "end"), [(False, "keep"), (True, "stop")])
async def test_at_the_end_of_a_loop_the_workers_stop_and_the_server_is_kept_for_the_next(
    around: Surroundings, *, joined: bool, end: str
) -> None:
    async def work() -> None:
        await (await LocalEngine.shared()).serve(Agent(name="A"))
        around.servers[-1].joined = joined

    for _ in range(2):
        await asyncio.to_thread(asyncio.run, work())
    assert [worker.calls for worker in around.workers] == [["enter", "exit"]] * 2
    assert [server.calls for server in around.servers] == [["start", end]] * 2
