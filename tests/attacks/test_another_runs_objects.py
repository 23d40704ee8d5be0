"""Somebody who wants the objects of Ann's run: with the Temporal server, or with a program beside hers.

Eve knows every id and everything that histories hold. Her runs say in their own data that they are
hers, and every object of Ann's notes whose run it serves. The worker's own definitions are for all.
"""

import asyncio
import json
import re
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import WorkflowIDReusePolicy
from temporalio.service import RPCError
from temporalio.worker import Worker

from outlast.agents import run_objects
from outlast.agents.errors import AgentsException, RunAlreadyStarted, RunClosed
from outlast.agents.references import OWN, RunReferences
from outlast.agents.run_objects import RUN_OBJECTS, RunKey, RunObjectTable
from outlast.client.handle import RunHandle, progress_of
from outlast.client.results.run_state import RunState
from outlast.client.start.options import run_input
from outlast.client.start.runner import Runner
from outlast.contract import names, records
from outlast.loop.effects import (
    CallModel,
    PrepareRun,
    RunHandoff,
    RunTool,
    SaveSession,
)
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.sessions.sqlite import SQLiteSession
from outlast.views.run import loop_state
from outlast.workflows.details import METADATA
from tests import servers
from tests.laws.ownership import SHARED, Customer, Ledger, desk_of
from tests.loop_states import of_loop
from tests.servers import TemporalServer
from tests.workflow.hosts import (
    PATIENCE_SECONDS,
    SENTENCES,
    HalfRun,
    Host,
    WorkerHost,
    until,
)
from tests.workflow.laws import nested_runs
from tests.workflow.test_resets import task_ends

LACKS: Final = (
    *SENTENCES,
    "The run's session is in",
    "This worker has no agent",
    "This worker cannot find the tool call",
)
"""How Eve's runs say that nobody has what they name."""

WAITS, SERVED, FAILS = "waits", "served by the worker", "fails"
"""What becomes of Eve's attempts where a worker hosts; a program hosts none of them."""

AT_WORKERS: Final = pytest.mark.host("worker")
"""The host that `make check` tries where the other one would refuse all: see conftest.py."""


# --- Ann at home ----------------------------------------------------------------------------------


@dataclass
class Home:
    """Ann's conversation, which is open, and the host that has her objects.

    Attributes:
        start: the record of Ann's start, as her history has it.
        state: her conversation after its first answer.
    """

    host: Host
    ann: Customer
    handle: RunHandle
    start: JsonObject
    state: LoopState
    queue: str
    chain_id: str

    @property
    def client(self) -> Client:
        return self.host.client

    @property
    def ledger(self) -> Ledger:
        return self.host.ledger

    @property
    def settings(self) -> JsonObject:
        return self.start["settings"]

    @contextmanager
    def watched(self) -> Generator[None]:
        """Check that the uses in the block are of the runs' own objects, or of the worker's."""
        count = len(self.ledger.uses)
        yield
        mixed = [use for use in self.ledger.uses[count:] if not use.is_own]
        assert {(one.kind, one.object_owner, one.run_owner) for one in mixed} == set()

    async def goes_on(self) -> None:
        """Check that Ann's conversation goes on with her own objects."""
        count = len(self.ledger.uses)
        async with asyncio.timeout(PATIENCE_SECONDS):
            sent = await self.handle.send("I am ann. short, please.")
            answer = await sent.answer()
        assert "Done." in repr(answer.final_output)
        used = {one.kind for one in self.ledger.uses[count:] if one.run_owner == "ann"}
        assert used >= OF_EACH_QUESTION
        assert {one.object_owner for one in self.ledger.uses[count:]} == {"ann"}


OF_EACH_QUESTION: Final = {
    "RunConfig.model_provider",
    "RunConfig.call_model_input_filter",
    "RunConfig.output_guardrails",
    "StartOptions.hooks",
    "StartOptions.session",
    "made Agent.instructions",
    "made Agent.output_guardrails",
    "made Agent.output_type",
}
"""What each further question to Ann's made agent uses."""


@asynccontextmanager
async def hosted(kind: type[Host], client: Client, **options: Any) -> AsyncGenerator[Host]:
    """Return a host in a process that has no objects yet."""
    vars(RUN_OBJECTS).update(vars(RunObjectTable()))
    async with kind(client, Ledger(), **options) as host:
        yield host


HOSTS: Final = [pytest.param(Host, id="program"), pytest.param(WorkerHost, id="worker")]


@pytest.fixture(scope="module")
def here(server: TemporalServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Programs host their own runs at the server of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEMPORAL_ADDRESS", server.address)
        patch.setenv("TEMPORAL_NAMESPACE", server.namespace)
        patch.setenv("OUTLAST_DATA_DIR", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="module", params=HOSTS)
async def home(request: pytest.FixtureRequest, client: Client, here: None) -> AsyncIterator[Home]:
    """A conversation of Ann's, with a handoff behind it, for many attempts."""
    async with hosted(request.param, client) as host:
        yield await at_home(host)


async def at_home(host: Host) -> Home:
    ann = Customer("ann", host.ledger)
    handle = await host.start(ann, "plain", host.new_id(), keep_open=True)
    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        await handle.wait_for_answer("start")
    return await home_of(host, ann, handle)


async def home_of(host: Host, ann: Customer, handle: RunHandle) -> Home:
    described = await host.workflow(handle).describe()
    history = await host.workflow(handle).fetch_history()
    started = history.events[0].workflow_execution_started_event_attributes
    (start,) = await host.client.data_converter.decode(started.input.payloads)
    return Home(
        host=host,
        ann=ann,
        handle=handle,
        start=start,
        state=loop_state(await handle.state()),
        queue=described.task_queue,
        chain_id=described.raw_info.first_run_id or described.run_id,
    )


@pytest.fixture(params=HOSTS)
async def host(request: pytest.FixtureRequest, client: Client, here: None) -> AsyncIterator[Host]:
    """A host for the runs of one test."""
    async with hosted(request.param, client) as host:
        yield host


@pytest.fixture
def people(host: Host) -> list[Customer]:
    return [Customer(name, host.ledger) for name in ("ann", "bob")]


# --- Eve's records --------------------------------------------------------------------------------


def eves(data: Any) -> Any:
    """Return data of Ann's as Eve's: with her name, and everything else as it is."""
    return json.loads(re.sub(r"\bann\b", "eve", json.dumps(data)))


def of_eve(**fields: Any) -> JsonObject:
    """Return a start of Eve's own."""
    written = records.write(
        records.RunInput(
            agent="Desk", input="I am eve. short, please.", context={"customer": "eve"}
        )
    )
    return {**written, **fields}


def copied(home: Home, **fields: Any) -> JsonObject:
    """Return a copy of Ann's start, with Eve's name and question."""
    return {**eves(home.start), "input": "I am eve. short, please.", "keep_open": False, **fields}


def naming(key: str) -> Callable[[Home], JsonObject]:
    """Return the maker of a start whose settings name one object of Ann's."""

    def make(home: Home) -> JsonObject:
        assert OWN in json.dumps(home.settings[key])
        more = {"session": True} if key == "session" else {}
        more |= {"handled": home.start["handled"]} if key == "error_handlers" else {}
        return of_eve(settings={key: home.settings[key]}, **more)

    return make


def nested_in_anns(home: Home) -> JsonObject:
    """A start that says that it answers a call of Ann's, with her hooks."""
    call = {
        "agent": "Desk",
        "tool": "ask_helper",
        "call_id": "a-1",
        "arguments": '{"text": "I am eve"}',
        "hooks": home.settings["hooks"],
    }
    parent = {"run_id": home.handle.id, "prefix": "e1.", "chain_id": home.chain_id}
    return of_eve(agent="Helper", settings={"as_tool": call}, parent=parent)


def with_her_parent(home: Home) -> JsonObject:
    parent = {"run_id": home.handle.id, "prefix": "e1.", "chain_id": home.chain_id}
    return copied(home, parent=parent)


def carried_on(home: Home) -> JsonObject:
    """A start that goes on with the state of Ann's conversation, under Eve's name."""
    state = eves(records.write_state(home.state))
    assert state["start"]["chain_id"] == home.chain_id
    return {**copied(home), "carried": state}


def carried_by_a_child(home: Home) -> JsonObject:
    record = carried_on(home)
    parent = {"run_id": home.handle.id, "prefix": "e1.", "chain_id": home.chain_id}
    record["carried"]["start"]["parent"] = parent
    return record | {"parent": parent}


def made_agent(home: Home) -> str:
    """Return the name of the agent that Ann's handoff made."""
    (name,) = {item.agent for item in home.state.items if item.agent.startswith("Personal")}
    return name


def changed_agents(
    agents: Callable[[Home], dict[str, Any]], **fields: Any
) -> Callable[[Home], JsonObject]:
    """Return the maker of a start whose settings record agents that a handoff made."""

    def make(home: Home) -> JsonObject:
        made = agents(home)
        return of_eve(**{"agent": next(iter(made)), "settings": {"agents": made}, **fields})

    return make


def with_classes(home: Home) -> JsonObject:
    """A start whose context names a class that a function of Ann's program made."""
    return of_eve(context={"customer": "eve", "record": eves(home.start["context"]["record"])})


BY_HAND: Final[dict[str, tuple[Callable[[Home], JsonObject], str]]] = {
    "a copy of her start": (copied, WAITS),
    **{
        f"a start that names her {key}": (naming(key), WAITS)
        for key in (
            "hooks",
            "session",
            "model_provider",
            "session_input_callback",
            "handoff_input_filter",
            "call_model_input_filter",
            "call_model_output_filter",
            "tool_error_formatter",
            "input_guardrails",
            "output_guardrails",
            "error_handlers",
        )
    },
    "a name of hers as the model": (
        lambda home: of_eve(settings={"model_ref": home.settings["model_provider"]}),
        WAITS,
    ),
    "a name of hers as a factory of sessions": (
        lambda home: of_eve(
            session=True,
            settings={
                "session": {"ref": "x", "factory": home.settings["hooks"], "session_id": "1"}
            },
        ),
        WAITS,
    ),
    "markers of her live values": (
        lambda home: of_eve(context=eves(home.start["context"])),
        WAITS,
    ),
    "the name of a class that her program made": (with_classes, WAITS),
    "settings that are nested in her run": (nested_in_anns, WAITS),
    "a parent that is her run": (with_her_parent, WAITS),
    "a state that is carried on from hers": (carried_on, WAITS),
    "a carried state with a parent that is her run": (carried_by_a_child, WAITS),
    "the name of the agent that her handoff made": (
        lambda home: of_eve(agent=made_agent(home)),
        FAILS,
    ),
    "her made agent as a change of the desk": (
        changed_agents(lambda home: {made_agent(home): {"of": "Desk"}}),
        SERVED,
    ),
    "a change of her made agent": (
        changed_agents(lambda home: {"Desk (9)": {"of": made_agent(home)}}),
        WAITS,
    ),
    "a change with tools that are not there": (
        changed_agents(lambda _: {"Desk (9)": {"of": "Desk", "tools": [99, -1, True, 0]}}),
        SERVED,
    ),
    "a change that puts her objects in place of tools": (
        changed_agents(
            lambda home: {
                "Desk": {"of": "Desk", "tools": [home.settings["hooks"]], "instructions": "Mine."}
            }
        ),
        SERVED,
    ),
}
"""What Eve starts by hand, and what becomes of it at a worker."""


async def begin(
    home: Home, record: JsonObject, run_id: str = "", client: Client | None = None, **options: Any
) -> RunHandle:
    """Start a run as the Temporal UI does."""
    client = client or home.client
    run_id = run_id or f"eve-{secrets.token_hex(4)}"
    options = {"task_queue": home.queue, **options}
    await client.start_workflow(names.WORKFLOW, record, id=run_id, **options)
    return RunHandle(client, run_id)


def _has_settled(state: LoopState) -> bool:
    return bool(state.blocked) or state.status in {"idle", "completed", "failed", "waiting"}


async def outcome(eve: RunHandle, *, say: bool = False) -> str:
    """Wait for what becomes of a run of Eve's, and end it."""
    if say:
        with suppress(AgentsException):
            async with asyncio.timeout(2):
                await eve.send("I am eve. short, please.")
    async with asyncio.timeout(PATIENCE_SECONDS):
        state = (await eve.wait(of_loop(_has_settled))).snapshot
    with suppress(RPCError):
        await eve.client.get_workflow_handle(eve.id).terminate()
    if loop_state(state).blocked:
        assert loop_state(state).blocked[0].lacks.startswith(LACKS), loop_state(state).blocked
        return WAITS
    return FAILS if state.status == "failed" else SERVED


def expected(home: Home, at_worker: str) -> str:
    """Return what becomes of an attempt: a program that hosts its runs serves nobody else's."""
    return at_worker if home.host.name == "worker" else WAITS


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(name, marks=[] if at_worker == WAITS else [AT_WORKERS])
        for name, (_, at_worker) in BY_HAND.items()
    ],
)
async def test_a_run_that_is_started_by_hand_gets_nothing_of_hers(home: Home, attempt: str):
    make, at_worker = BY_HAND[attempt]
    with home.watched():
        eve = await begin(home, make(home))
        assert await outcome(eve, say="carried" in attempt) == expected(home, at_worker)
        await home.goes_on()


@pytest.mark.parametrize("below", ["x-1", "ask_helper-3", "ask_helper-1", "x"])
async def test_an_id_below_hers_gets_nothing_of_hers(home: Home, below: str):
    for number, make in enumerate((copied, nested_in_anns, carried_on)):
        with home.watched():
            run_id = f"{home.handle.id}/{'ask_helper/' * number}{below}"
            eve = await begin(home, make(home), run_id)
            assert await outcome(eve, say=make is carried_on) == WAITS
    await home.goes_on()


async def test_another_namespace_with_her_id_gets_nothing_of_hers(
    home: Home, server: TemporalServer
):
    """A worker of this process serves both; so does nobody where a program hosts."""
    other = await Client.connect(server.address, namespace=f"eve-{secrets.token_hex(4)}")
    await servers._register(other)
    shared = desk_of(SHARED, home.ledger)
    async with WorkerHost(other, home.ledger, agents=[shared]) as beside:
        for make in (copied, carried_on, nested_in_anns):
            with home.watched():
                eve = await begin(home, make(home), home.handle.id, other, task_queue=beside.queue)
                assert await outcome(eve, say=make is carried_on) in {WAITS, SERVED}
                await home.goes_on()


# --- Other workflows ------------------------------------------------------------------------------


GOES_ON_AS_A_RUN: Final = "goes on as a run"
"""In place of a child's id: the foreign workflow itself becomes a run on Ann's queue."""


@workflow.defn(sandboxed=False)
class Foreign:
    """Schedules an activity, or starts a child, on the queue of somebody else's workers.

    Attributes:
        claimed: the request that it names when a worker asks for it.
    """

    claimed: ClassVar[JsonObject] = {}

    @workflow.run
    async def run(self, queue: str, kind: str, request: JsonObject, child: str = "") -> Any:
        """Return what the activity or the child returns."""
        if child == GOES_ON_AS_A_RUN:
            run: Any = names.WORKFLOW
            workflow.continue_as_new(request, workflow=run, task_queue=queue)
        if child:
            return await workflow.execute_child_workflow(
                names.WORKFLOW, request, id=child, task_queue=queue
            )
        return await workflow.execute_activity(
            kind, request, task_queue=queue, start_to_close_timeout=timedelta(seconds=20)
        )

    @workflow.query(name=names.QUERY_REQUEST)
    def request(self, _effect: int, _page: int) -> JsonObject:
        """Answer as if it were a run whose request is too large for its history."""
        return {"data": json.dumps({"effect": self.claimed}), "more": False}


@pytest.fixture
async def foreign(home: Home) -> AsyncIterator[str]:
    """The task queue of Eve's own worker."""
    queue = f"queue-{secrets.token_hex(6)}"
    async with Worker(home.client, task_queue=queue, workflows=[Foreign]):
        yield queue


@pytest.mark.parametrize("make", [copied, nested_in_anns, with_her_parent, carried_on])
@pytest.mark.parametrize("below", ["eve", "ask_helper-3"])
async def test_a_child_of_a_foreign_workflow_gets_nothing_of_hers(
    home: Home, foreign: str, make: Callable[[Home], JsonObject], below: str
):
    own_id = f"eve-{secrets.token_hex(4)}"
    child_id = f"{home.handle.id}/{own_id}/{below}"
    with home.watched():
        parent = await home.client.start_workflow(
            Foreign.run, args=[home.queue, "", make(home), child_id], id=own_id, task_queue=foreign
        )
        child = RunHandle(home.client, child_id)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                with suppress(AgentsException, RPCError):
                    await child.state()
                    break
                await asyncio.sleep(0.02)
        assert await outcome(child, say=make is carried_on) == WAITS
        with suppress(RPCError):  # it has ended with its child
            await parent.terminate()
        await home.goes_on()


@pytest.mark.parametrize("make", [copied, nested_in_anns, with_her_parent, carried_on])
async def test_a_foreign_workflow_that_goes_on_as_a_run_gets_nothing_of_hers(
    home: Home, foreign: str, make: Callable[[Home], JsonObject]
):
    own_id = f"{home.handle.id}/ask_helper-{time.time_ns()}"
    with home.watched():
        await home.client.start_workflow(
            Foreign.run,
            args=[home.queue, "", make(home), GOES_ON_AS_A_RUN],
            id=own_id,
            task_queue=foreign,
        )
        eve = home.client.get_workflow_handle(own_id)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await eve.describe()).workflow_type != names.WORKFLOW:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert await outcome(RunHandle(home.client, own_id), say=make is carried_on) == WAITS
        await home.goes_on()


def _effect(home: Home, **fields: Any) -> dict[str, Any]:
    return {
        "effect": 1,
        "agent": "Desk",
        "context": {"customer": "eve"},
        "run_id": home.handle.id,
        **fields,
    }


def _look(home: Home, **fields: Any) -> tuple[str, JsonObject]:
    effect = RunTool(
        turn=1,
        name=fields.pop("name", "look"),
        call_id="l-1",
        arguments='{"text": "I am eve"}',
        approved=True,
        **_effect(home, **fields),
    )
    return f"tool:{effect.name}", records.write(effect)


def _model(home: Home, **fields: Any) -> tuple[str, JsonObject]:
    effect = CallModel(turn=1, input_length=1, **_effect(home, **fields))
    items = eves(records.write_state(home.state))["items"][:1]
    return "call_model", {"effect": records.write(effect), "items": items}


def _save(home: Home, **fields: Any) -> tuple[str, JsonObject]:
    effect = SaveSession(
        effect=1,
        start=0,
        stop=1,
        run_id=home.handle.id,
        chain_id=home.chain_id,
        settings={"session": home.settings["session"]},
    )
    items = eves(records.write_state(home.state))["items"][:1]
    return "save_session", {"effect": records.write(effect), "items": items, **fields}


def _prepare(home: Home, **fields: Any) -> tuple[str, JsonObject]:
    said = ({"role": "user", "content": "I am eve. short, please."},)
    return "prepare_run", records.write(PrepareRun(input=said, **_effect(home, **fields)))


def _handoff(home: Home, **fields: Any) -> tuple[str, JsonObject]:
    effect = RunHandoff(
        turn=1,
        name=fields.pop("name", "to_personal"),
        target=fields.pop("target", "Personal"),
        call_id="t-1",
        arguments='{"text": "I am eve"}',
        **_effect(home, **fields),
    )
    return f"handoff:{effect.name}", records.write(effect)


def _claim(home: Home, **fields: Any) -> tuple[str, JsonObject]:
    """A request that the worker fetches from the workflow that asks."""
    del fields
    Foreign.claimed = _look(home, settings=home.settings)[1]
    return "tool:look", {"claim": 1}


def _hers(home: Home) -> JsonObject:
    return {"settings": home.settings}


RAW: Final[dict[str, tuple[Callable[[Home], tuple[str, JsonObject]], bool]]] = {
    "her tool with the id of her run": (_look, True),
    "her tool with markers of her live values": (
        lambda home: _look(home, context=eves(home.start["context"])),
        False,
    ),
    "her tool with the names of her settings": (lambda home: _look(home, **_hers(home)), False),
    "her tool with a run key of hers as the id": (
        lambda home: _look(home, run_id=f"{home.handle.id}@{home.chain_id[-12:]}"),
        True,
    ),
    "her tool with the form of a context of hers": (
        lambda home: _look(
            home, context_type=home.start["context"]["record"]["$class"], context={"text": "eve"}
        ),
        True,
    ),
    "the tool of the agent that her handoff made": (
        lambda home: _look(home, name="mine", agent=made_agent(home)),
        False,
    ),
    "the tool of her nested run": (lambda home: _look(home, name="assist", agent="Helper"), True),
    "her model with the id of her run": (_model, True),
    "her model with the names of her settings": (lambda home: _model(home, **_hers(home)), False),
    "the model of the agent that her handoff made": (
        lambda home: _model(home, agent=made_agent(home), **_hers(home)),
        False,
    ),
    "a save in her session": (_save, False),
    "the preparation of a run with her session": (
        lambda home: _prepare(home, **_hers(home)),
        False,
    ),
    "the preparation of a run with her classes": (
        lambda home: _prepare(home, context=with_classes(home)["context"]),
        False,
    ),
    "her handoff with the id of her run": (_handoff, True),
    "a handoff of the agent that her handoff made": (
        lambda home: _handoff(home, name="to_clerk", target="Clerk", agent=made_agent(home)),
        False,
    ),
    "a claim of a request that names her objects": (_claim, False),
}
"""What a foreign workflow asks of the workers on Ann's queue, and whether a worker does it."""


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(name, marks=[AT_WORKERS] if is_served else [])
        for name, (_, is_served) in RAW.items()
    ],
)
async def test_an_activity_of_a_foreign_workflow_gets_nothing_of_hers(
    home: Home, foreign: str, attempt: str
):
    make, is_served = RAW[attempt]
    activity, request = make(home)
    items = list(session_of(home).items)
    for own_id in (f"eve-{time.time_ns()}", f"{home.handle.id}/ask_helper-{time.time_ns()}"):
        with home.watched():
            asking = home.client.execute_workflow(
                Foreign.run, args=[home.queue, activity, request], id=own_id, task_queue=foreign
            )
            async with asyncio.timeout(PATIENCE_SECONDS):
                if is_served and home.host.name == "worker":
                    assert "ann" not in re.findall(r"\bann\b", json.dumps(await asking))
                else:
                    with pytest.raises(WorkflowFailureError) as raised:
                        await asking
                    said = str(getattr(raised.value.cause, "cause", raised.value.cause))
                    assert any(one in said for one in LACKS), said
    assert [one for one in session_of(home).items if one not in items and "eve" in repr(one)] == []
    await home.goes_on()


def session_of(home: Home) -> Any:
    return home.ann.options("plain")["session"]


# --- Signals, updates and resets ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("update", names.UPDATE_SEND),
        ("update", names.UPDATE_RETRY),
        ("update", names.UPDATE_ATTACH_LINE),
        ("update", "decide"),
        ("update", "deliver"),
        ("update", "takeover"),
        ("signal", names.SIGNAL_NESTED),
        ("signal", names.SIGNAL_LEND),
        ("signal", names.SIGNAL_LINE_REPLY),
        ("signal", "decide"),
        ("signal", "settings"),
    ],
)
async def test_nothing_that_is_sent_to_her_run_replaces_her_objects(
    home: Home, kind: str, name: str
):
    eve, brought = Customer("eve", home.ledger), RunReferences()
    mine = run_input(eve.agent, eve.asks("plain"), references=brought, **eve.options("plain"))
    more: JsonObject = {
        "settings": mine.settings,
        "agents": {"Clerk": {"of": "Desk"}},
        "context": {"customer": "eve"},
        "start": {"settings": mine.settings},
        "parent": {"run_id": "eve", "prefix": ""},
    }
    payload = {
        "input": "I am ann. short, please.",
        "message_id": f"m-{secrets.token_hex(4)}",
        "nested_id": f"{home.handle.id}/ask_helper-3",
        "answers": 1,
        "index": 0,
        "share": 1,
        "request_id": "a1",
        "type": "approve",
        "line": "mine",
        **more,
    }
    with home.watched():
        target = home.host.workflow(home.handle)
        if kind == "signal":
            await target.signal(name, payload)
        else:
            with suppress(Exception):
                async with asyncio.timeout(5):
                    await target.execute_update(name, payload)
        await home.goes_on()


async def reset_to_start(host: Host, handle: RunHandle) -> None:
    """Let a run begin anew, as an operator or somebody else may."""
    execution, ends = await task_ends(cast("Any", host), handle)
    request = ResetWorkflowExecutionRequest(
        namespace=host.client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=execution),
        reason="a test",
        workflow_task_finish_event_id=ends[0],
        request_id=secrets.token_hex(8),
    )
    await host.client.workflow_service.reset_workflow_execution(request)


async def test_a_reset_of_another_run_gets_nothing_of_hers(home: Home):
    """Its settings have the very names that hers have, and its own objects are gone."""
    host = home.host
    bob = Customer("bob", home.ledger)
    with home.watched():
        run_id = host.new_id()
        async with asyncio.timeout(PATIENCE_SECONDS):
            options = host._options(bob, "plain", id=run_id)
            await Runner.run(bob.agent, "I am bob. short, please.", **options)
        handle = RunHandle(host.client, run_id)
        await reset_to_start(host, handle)
        state = await until(handle, lambda one: one.blocked)
        assert state.blocked[0].lacks.startswith(LACKS)
        await home.goes_on()


@pytest.mark.parametrize("query", [METADATA, names.QUERY_STATE])
async def test_a_look_at_the_history_before_a_reset_takes_nothing_from_her(
    host: Host, people: list[Customer], monkeypatch: pytest.MonkeyPatch, query: str
):
    """Eve resets Ann's run, which waits again, and lets a worker replay the history that has ended."""
    monkeypatch.setattr(run_objects, "ENDED_SECONDS", 0.0)
    ann, bob = people
    run = await HalfRun(host, ann, "plain pay").begin()
    ended = (await host.workflow(run.handle).describe()).run_id
    attended = RunKey(host.client.namespace, ended)
    assert RUN_OBJECTS.get(attended) is not None
    await run.approve()
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for progress in progress_of(run.handle):
            if progress.state.phase == "closed":
                break
    await reset_to_start(host, run.handle)
    again = RunHandle(host.client, run.id)
    await until(again, lambda one: one.pending_approvals and not one.blocked)
    await host.start(bob, "plain", host.new_id())  # starts let objects of ended runs go
    assert RUN_OBJECTS.get(attended) is not None
    old = host.client.get_workflow_handle(run.id, run_id=ended)
    assert await old.query(query) is not None
    await host.start(bob, "plain", host.new_id())
    assert RUN_OBJECTS.get(attended) is not None, "her run is open, and its objects are gone"
    count = len(host.ledger.uses)
    run = replace_handle(run, again)
    await run.finish()
    assert {one.object_owner for one in host.ledger.uses[count:] if one.run_owner == "ann"} <= {
        "ann",
        SHARED,
    }


def replace_handle(run: HalfRun, handle: RunHandle) -> HalfRun:
    """Return a half run that is read anew, after a reset."""
    again = HalfRun(run.host, run.customer, run.plan, run.id)
    again.handle = handle
    return again


# --- After her run, and before it -----------------------------------------------------------------


async def test_her_id_after_her_run_has_ended_gets_nothing_of_hers(
    host: Host, people: list[Customer]
):
    ann = people[0]
    for wait in ("result", "run"):
        if wait == "run":
            run_id = host.new_id()
            options = host._options(ann, "plain", id=run_id)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await Runner.run(ann.agent, "I am ann. short, please.", **options)
            handle = RunHandle(host.client, run_id)
        else:
            handle = await host.start(
                ann, "plain", host.new_id(), asked="I am ann. short, please.", keep_open=False
            )
            async with asyncio.timeout(PATIENCE_SECONDS):
                await handle.result()
        home = await home_of(host, ann, handle)
        with home.watched():
            for make in (copied, nested_in_anns):
                assert await outcome(await begin(home, make(home), handle.id)) == WAITS


async def test_her_id_taken_while_her_run_is_open_gets_nothing_of_hers(
    host: Host, people: list[Customer]
):
    """Eve ends Ann's run to take its id; Ann's objects are still in the process."""
    reuse = WorkflowIDReusePolicy.TERMINATE_IF_RUNNING
    for make in (copied, nested_in_anns, naming("session")):
        run = await HalfRun(host, people[0], "plain pay").begin()
        home = await home_of(host, people[0], run.handle)
        key = RunKey(host.client.namespace, home.chain_id)
        with home.watched():
            eve = await begin(home, make(home), run.id, id_reuse_policy=reuse)
            await until(eve, lambda one: one.blocked)
            assert RUN_OBJECTS.get(key) is not None
            assert await outcome(eve) == WAITS


async def test_a_run_that_takes_her_id_and_her_digest_is_not_the_same_run(
    host: Host, people: list[Customer]
):
    """Eve knows what Ann's program will start, and has started a run of her own that says so."""
    ann = people[0]
    asked = "I am ann. short, please."
    first = await host.start(ann, "plain", host.new_id(), asked=asked, keep_open=False)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await first.result()
    home = await home_of(host, ann, first)
    memo = dict(await (await host.workflow(first).describe()).memo())
    assert memo[names.MEMO_INPUT_DIGEST]
    forged = {
        "a start of her own": of_eve(),
        "a copy of Ann's with her question": copied(home),
        "a copy of Ann's that carries a state": {
            **home.start,
            "carried": carried_on(home)["carried"],
        },
        "a copy of Ann's with agents of her own": {
            **home.start,
            "settings": {
                **home.settings,
                "agents": {"Desk": {"of": "Desk", "instructions": "Mine."}},
            },
        },
    }
    for record in forged.values():
        taken = host.new_id()
        with home.watched():
            eve = await begin(home, record, taken, memo=memo)
            key = RunKey(host.client.namespace, (await host.workflow(eve).describe()).run_id)
            with suppress(RunAlreadyStarted):  # one that has ended is replaced
                await host.start(ann, "plain", taken, asked=asked, keep_open=False)
            brought = RUN_OBJECTS.get(key)
            assert brought is None or brought.is_empty
            with suppress(RPCError):
                await host.workflow(eve).terminate()


async def test_her_program_that_attaches_to_the_run_it_started_gives_nothing_to_who_has_its_id(
    host: Host, people: list[Customer]
):
    """Eve ends Ann's run and takes its id; Ann's program comes back, with what it has noted."""
    ann = people[0]
    run = await HalfRun(host, ann, "plain pay").begin()
    home = await home_of(host, ann, run.handle)
    reuse = WorkflowIDReusePolicy.TERMINATE_IF_RUNNING
    with home.watched():
        eve = await begin(home, copied(home), run.id, id_reuse_policy=reuse)
        noted = run.handle.first_execution_id
        back = await Runner.attach(
            run.id, agent=ann.agent, first_execution_id=noted, client=host.place.get("client")
        )
        assert back.first_execution_id == noted
        assert await outcome(eve) == WAITS


async def test_the_file_of_her_session_is_open_to_her_run_alone(
    host: Host, people: list[Customer], tmp_path: Path
):
    ann = people[0]
    session = SQLiteSession("ann", tmp_path / "conversations.db")
    options: Any = {**host._options(ann, "plain", id=host.new_id()), "session": session}
    async with asyncio.timeout(PATIENCE_SECONDS):
        await Runner.run(ann.agent, "I am ann. short, please.", **options)
    handle = RunHandle(host.client, options["id"])
    home = await home_of(host, ann, handle)
    kept = await session.get_items()
    assert kept
    assert home.settings["session"]["db_path"] == session.db_path
    described = {"session": home.settings["session"]}
    for record in (copied(home), of_eve(session=True, settings=described)):
        assert await outcome(await begin(home, record)) == WAITS
    assert await session.get_items() == kept
    session.close()


async def test_a_start_of_hers_that_is_refused_gives_nothing_to_who_has_the_id(
    host: Host, people: list[Customer]
):
    ann = people[0]
    asked = "I am ann. short, please."
    first = await host.start(ann, "plain", host.new_id(), asked=asked, keep_open=False)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await first.result()
    home = await home_of(host, ann, first)
    taken = host.new_id()
    with home.watched():
        starts = [host.start(ann, "plain", taken, asked=asked) for _ in range(10)]
        eve = await begin(home, copied(home), taken)
        refused = await asyncio.gather(*starts, return_exceptions=True)
        assert {type(one) for one in refused} == {RunAlreadyStarted}
        assert await outcome(eve) == WAITS


async def test_a_run_in_the_place_of_her_nested_run_gets_nothing_of_hers(
    host: Host, people: list[Customer]
):
    """Eve knows the id that the nested run will have, and is there first."""
    ann = people[0]
    first = await HalfRun(host, ann, "plain").begin()
    await first.finish()
    history = await host.client.get_workflow_handle(first.id).fetch_history()
    (nested_id,) = nested_runs(list(history.events))
    handle = await Runner.attach(first.id, client=host.client)
    home = await home_of(host, ann, handle)
    run_id = host.new_id()
    with home.watched():
        eve = await begin(home, nested_in_anns(home), nested_id.replace(first.id, run_id))
        run = await HalfRun(host, ann, "plain", run_id).begin()
        await run.finish()
        assert await outcome(eve) == WAITS


# --- Programs in her process ----------------------------------------------------------------------


def moved(state: RunState, to: RunState) -> JsonObject:
    """Return the JSON of a state that names another run, with its requests and its execution."""
    data, other = state.to_json(), to.to_json()
    data["run_id"], data["first_execution_id"] = other["run_id"], other["first_execution_id"]
    return data


@pytest.mark.parametrize("whose", ["ann's state names bob's run", "bob's state names ann's run"])
@pytest.mark.parametrize("decides", [True, False], ids=["decides", "only resumes"])
async def test_a_state_that_was_edited_to_name_another_run_mixes_nothing(
    host: Host, people: list[Customer], whose: str, decides: bool
):
    states = [(await host.run(one, "plain pay", host.new_id())).to_state() for one in people]
    at = whose.startswith("bob")
    forger, forged = people[at], moved(states[at], states[not at])
    victim = people[not at]
    state = await RunState.from_json(forger.agent, forged)
    count = len(host.ledger.uses)
    if decides:
        for one in state.get_interruptions():
            state.approve(one)
    with suppress(AgentsException, TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            await Runner.run(forger.agent, state, **host.place)
    handle = RunHandle(host.client, states[not at].run_id)
    with suppress(AgentsException):
        for request in await handle.approvals():
            await handle.approve(request.id, args_digest=request.args_digest)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await handle.result()
    used = {one for one in host.ledger.uses[count:] if one.run_owner == victim.name}
    assert used
    assert {one for one in used if one.object_owner == forger.name} == set()
    assert host.ledger.mixed == []


async def test_a_handle_of_her_ended_run_is_none_on_the_run_that_took_its_id(
    host: Host, people: list[Customer]
):
    ann, bob = people
    asked = "I am ann. short, please."
    ended = await host.start(ann, "plain", host.new_id(), asked=asked, keep_open=False)
    async with asyncio.timeout(PATIENCE_SECONDS):
        answer = await ended.result()
    run = await HalfRun(host, bob, "plain pay", ended.id).begin()
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await ended.result()).final_output == answer.final_output
        assert "ann" in repr((await ended.state()).items)
        assert await ended.approvals() == ()
        with pytest.raises(RunClosed):
            await ended.send("I am ann. short, please.")
        with suppress(RunClosed):
            await ended.cancel()
    await run.finish()
    assert host.ledger.mixed == []


async def test_to_attach_with_an_agent_replaces_none_of_her_objects(
    host: Host, people: list[Customer]
):
    ann, bob = people
    run = await HalfRun(host, ann, "plain pay").begin()
    for _ in range(3):
        await Runner.attach(run.id, agent=bob.agent, client=host.place.get("client"))
    count = len(host.ledger.uses)
    await run.finish()
    assert {one.object_owner for one in host.ledger.uses[count:]} <= {"ann", SHARED}
    assert host.ledger.mixed == []


async def test_many_starts_with_her_id_and_another_input_bring_nothing(
    host: Host, people: list[Customer]
):
    ann, bob = people
    run = await HalfRun(host, ann, "plain").begin()
    starts = [host.start(bob, "plain", run.id) for _ in range(20)]
    refused = await asyncio.gather(*starts, return_exceptions=True)
    assert {type(one) for one in refused} == {RunAlreadyStarted}
    await run.finish()
    assert {one.run_owner for one in host.ledger.uses} == {"ann"}
    assert host.ledger.mixed == []


@pytest.mark.parametrize("times", [1, 10])
async def test_the_same_start_with_other_objects_replaces_none_while_she_waits(
    host: Host, people: list[Customer], times: int
):
    ann, mallory = people[0], Customer("mallory", host.ledger)
    run = await HalfRun(host, ann, "plain").begin()
    options = host._options(mallory, "plain", id=run.id)
    options["context"]["customer"] = "ann"
    starts = [Runner.start(mallory.agent, ann.asks("plain"), **options) for _ in range(times)]
    handles = await asyncio.gather(*starts)
    assert {one.id for one in handles} == {run.id}, "it is the same start"
    await run.finish()
    assert "mallory" not in {one.object_owner for one in host.ledger.uses}
    assert host.ledger.mixed == []
