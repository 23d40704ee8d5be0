"""Starting runs: what is sent, and what a second start with the same id means."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import BaseModel
from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.agent import Agent
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.config.run_config import RunConfig
from outlast.agents.errors import RunAlreadyStarted, RunNotFound, ServerUnavailable, UserError
from outlast.agents.hooks import RunHooks
from outlast.agents.registry import Registry
from outlast.agents.run_objects import RunKey, RunObjectTable
from outlast.client.handle import RunHandle
from outlast.client.results.run_result import RunResult
from outlast.client.results.run_state import RunState
from outlast.client.start import run_host, runner
from outlast.client.start.runner import (
    AgentRunner,
    Runner,
    get_default_agent_runner,
    set_default_agent_runner,
)
from outlast.client.start.tenant import Tenant
from outlast.client.transport import connection
from outlast.contract import names
from outlast.loop.start import Customer as Named
from outlast.sessions import SQLiteSession
from outlast.tracing.provider import trace
from tests.eventually import eventually
from tests.unit.client.recorded import FakeClient, Kind, Recording, refused

A = Agent[Any](name="A")
USED = WorkflowAlreadyStartedError("support-42", "AgentRun")
NO_ATTRIBUTES = refused(
    RPCStatusCode.INVALID_ARGUMENT,
    "Namespace default has no mapping defined for search attribute OutlastAgent",
)


@dataclass
class Customer:
    name: str


class Order(BaseModel):
    id: str


class StartClient(FakeClient):
    """A server that starts workflows, or refuses to.

    Attributes:
        digest: what the memo of the run that has the id says.
    """

    def __init__(
        self, *answers: Any, status: Any = None, digest: str = "", payload: Any = None
    ) -> None:
        recording = Recording()
        if payload is not None:
            recording.started(payload)
        super().__init__(recording.events, status=status)
        self.answers = [*answers, None]
        self.digest = digest
        self.started: list[dict[str, Any]] = []

    def get_workflow_handle(self, workflow_id: str, **which: Any) -> Any:
        handle: Any = FakeClient.get_workflow_handle(self, "support-42", **which)
        describe = handle.describe

        async def described() -> Any:
            description = await describe()

            async def memo_value(_name: str, _default: str) -> str:
                return self.digest

            description.memo_value = memo_value
            return description

        handle.describe = described
        return handle

    async def start_workflow(self, workflow: str, payload: Any, **options: Any) -> Any:
        self.started.append({"workflow": workflow, "payload": payload, **options})
        await self.answer("start")
        return SimpleNamespace(first_execution_run_id=self.first)


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> RunObjectTable:
    table = RunObjectTable()
    for user in (run_host, runner):
        monkeypatch.setattr(user, "RUN_OBJECTS", table)
    return table


@pytest.fixture(autouse=True)
def _attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cannot_add(_client: object) -> bool:
        return False

    monkeypatch.setattr(connection, "add_search_attributes", cannot_add)


async def start(client: StartClient, *arguments: Any, **options: Any) -> dict[str, Any]:
    """Start a run, and return what the server was asked for last."""
    given: Any = arguments or (A, "Hello")
    handle = await Runner.start(
        *given, client=cast("Client", client), **{"id": "support-42", **options}
    )
    assert handle.id == client.started[-1]["id"]
    return client.started[-1]


# --- What is sent ---------------------------------------------------------------------------------------------


async def test_a_run_is_a_workflow_under_the_users_id() -> None:
    started = await start(StartClient())
    assert (started["workflow"], started["id"]) == ("AgentRun", "support-42")
    assert started["task_queue"] == names.TASK_QUEUE
    assert started["payload"] == {
        "agent": "A",
        "input": "Hello",
        "visibility": True,
        "schema_version": names.SCHEMA_VERSION,
    }
    assert started["static_summary"] == "A: Hello"
    assert len(started["search_attributes"].search_attributes) == 2


async def test_an_id_is_made_where_none_is_given() -> None:
    first, second = await start(StartClient(), id=None), await start(StartClient(), id=None)
    assert first["id"].startswith("run-")
    assert first["id"] != second["id"]


async def test_everything_that_is_said_is_sent() -> None:
    started = await start(
        StartClient(),
        "Triage",
        [{"role": "user", "content": "Hi"}, {"role": "user", "content": "Hello?"}],
        context=Customer("Ann"),
        max_turns=None,
        keep_open=True,
        run_config=RunConfig(model="gpt-5", model_settings=ModelSettings(temperature=0)),
        task_queue="support",
    )
    assert started["task_queue"] == "support"
    payload = started["payload"]
    assert [one["content"] for one in payload["input"]] == ["Hi", "Hello?"]
    assert (payload["context"], payload["max_turns"], payload["keep_open"]) == (
        {"name": "Ann"},
        None,
        True,
    )
    assert payload["context_type"].endswith(":Customer")
    assert payload["settings"] == {"model": "gpt-5", "model_settings": {"temperature": 0}}


@pytest.mark.parametrize(
    ("context", "kind"),
    [
        ({"n": 1}, None),
        ([1], None),
        ("x", None),
        (True, None),
        (None, None),
        (Order(id="A-17"), "Order"),
    ],
)
async def test_the_type_of_a_context_travels_where_it_has_one(
    context: Any, kind: str | None
) -> None:
    payload = (await start(StartClient(), context=context))["payload"]
    assert payload.get("context_type", "None").endswith(str(kind))


async def test_the_summary_has_the_first_words_only() -> None:
    started = await start(StartClient(), A, "x" * 1000)
    assert started["static_summary"] == f"A: {'x' * 80}… (cut: 80 of 1,000 characters)"
    items = await start(StartClient(), A, [{"role": "user", "content": "Hi"}] * 3)
    assert items["static_summary"] == "A: 3 items"


@pytest.mark.parametrize(
    ("arguments", "options", "problem"),
    [
        ((A, "x"), {"max_turns": -1}, "max_turns=-1 must be a positive"),
        ((A, 5), {}, "string or a list of items"),
        ((A, [{"a": object()}]), {}, "plain data"),
        ((None, "x"), {}, "an Agent or an agent's name, not None"),
        (([A], "x"), {}, "an Agent or an agent's name"),
        ((A, "x"), {"context": "\ud800"}, "cannot be written as JSON"),
        ((A, "x"), {"run_config": {"model": 5}}, "a model's name"),
    ],
)
async def test_what_makes_no_sense_is_refused_before_anything_is_sent(
    arguments: tuple[Any, ...], options: dict[str, Any], problem: str
) -> None:
    client = StartClient()
    with pytest.raises(UserError, match=problem):
        await start(client, *arguments, **options)
    assert client.started == []


# --- Search attributes ----------------------------------------------------------------------------------------


async def test_a_namespace_without_search_attributes_is_done_without() -> None:
    client = StartClient(NO_ATTRIBUTES)
    started = await start(client)
    assert len(client.started) == 2
    assert started["search_attributes"] is None
    assert "visibility" not in started["payload"]


def lacks(name: str) -> RPCError:
    """Return what a server says of a start with an attribute that its namespace lacks."""
    text = f"Namespace default has no mapping defined for search attribute {name}"
    return refused(RPCStatusCode.INVALID_ARGUMENT, text)


@pytest.mark.parametrize("others", [True, False])
async def test_a_run_of_a_tenant_has_the_attributes_that_the_namespace_has(
    monkeypatch: pytest.MonkeyPatch, *, others: bool
) -> None:
    async def denied(_client: object) -> bool:
        return False

    monkeypatch.setattr(connection, "add_search_attributes", denied)
    answers = [lacks("OutlastTenant"), *([] if others else [lacks("OutlastAgent")])]
    client = StartClient(*answers)
    acme = Runner.using(client=cast("Client", client), tenant="acme")
    await acme.start("A", "Hello", id="support-42")
    set_names = [
        sorted(pair.key.name for pair in one["search_attributes"] or ()) for one in client.started
    ]
    without = ["OutlastAgent", "OutlastPendingApprovals"]
    assert set_names == [[*without, "OutlastTenant"], without, *([] if others else [[]])]
    assert {one["priority"].fairness_key for one in client.started} == {"acme"}


async def test_search_attributes_that_can_be_added_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def added(_client: object) -> bool:
        return True

    monkeypatch.setattr(connection, "add_search_attributes", added)
    started = await start(StartClient(NO_ATTRIBUTES))
    assert started["payload"]["visibility"] is True


@pytest.mark.parametrize(
    ("refusal", "kind", "message"),
    [
        (
            refused(RPCStatusCode.NOT_FOUND, "gone"),
            UserError,
            "The namespace 'default' does not exist on this server. Name another one",
        ),
        (refused(RPCStatusCode.UNAVAILABLE), ServerUnavailable, "does not answer"),
        (refused(RPCStatusCode.DEADLINE_EXCEEDED), ServerUnavailable, "does not answer"),
        (refused(RPCStatusCode.INVALID_ARGUMENT, "too large"), UserError, "refused .*: too large"),
        (refused(RPCStatusCode.PERMISSION_DENIED, "no"), UserError, "refused to start the run: no"),
    ],
)
async def test_a_refusal_of_the_server_is_said_in_our_words(
    refusal: RPCError, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        await start(StartClient(refusal))


# --- The same id again -----------------------------------------------------------------------------------------


async def digest_of(*arguments: Any, **options: Any) -> str:
    return (await start(StartClient(), *arguments, **options))["memo"][names.MEMO_INPUT_DIGEST]


async def test_the_same_question_is_the_same_run() -> None:
    first = await start(StartClient())
    digest, payload = first["memo"][names.MEMO_INPUT_DIGEST], first["payload"]
    client = StartClient(USED, digest=digest, payload=payload)
    started = await start(client)
    assert len(client.started) == 1
    assert started["id_reuse_policy"] == WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY


@pytest.mark.parametrize(
    "other",
    [
        {"input": "Another question"},
        {"context": {"customer": 7}},
        {"carried": {"agent": "A"}},
        {"settings": {"agents": {"A": {"of": "A", "instructions": "Mine."}}}},
        {"agent": 7},
    ],
)
async def test_a_run_whose_history_says_other_than_its_memo_is_another_run(other: Any) -> None:
    first = await start(StartClient())
    digest, payload = first["memo"][names.MEMO_INPUT_DIGEST], first["payload"]
    with pytest.raises(RunAlreadyStarted, match="'support-42' is in use"):
        await start(StartClient(USED, digest=digest, payload=payload | other))


async def test_a_run_whose_first_history_is_gone_is_known_by_its_memo() -> None:
    client = StartClient(USED, digest=await digest_of())
    client.first = "run-0"
    await start(client)
    assert len(client.started) == 1


async def test_another_question_under_the_id_of_a_run_that_works_is_refused() -> None:
    client = StartClient(USED, digest=await digest_of(A, "Other"))
    with pytest.raises(RunAlreadyStarted, match=r"'support-42' is in use.*Runner\.attach"):
        await start(client)


async def test_another_question_replaces_a_run_that_has_ended() -> None:
    client = StartClient(USED, status="ended", digest=await digest_of(A, "Other"))
    started = await start(client)
    assert len(client.started) == 2
    assert started["id_reuse_policy"] == WorkflowIDReusePolicy.ALLOW_DUPLICATE


async def test_what_makes_a_question_the_same() -> None:
    same = await digest_of()
    assert await digest_of(Agent[Any](name="A", instructions="new"), "Hello") == same
    assert await digest_of("A", "Hello", max_turns=3, tenant=None) == same
    others = {
        await digest_of("B", "Hello"),
        await digest_of(A, "Hello!"),
        await digest_of(A, "Hello", keep_open=True),
        await digest_of(A, [{"role": "user", "content": "Hello"}]),
        await digest_of(A, "Hello", context={"customer": 1}),
        await digest_of(A, "Hello", tenant="acme"),
        await digest_of(A, "Hello", customer="mara"),
        await digest_of(A, "Hello", session=SQLiteSession("mara")),
        await digest_of(A, "Hello", conversation_id="conv_1"),
        await digest_of(A, "Hello", previous_response_id="resp_1"),
    }
    assert len(others) == 10
    assert same not in others
    assert await digest_of(tenant=Tenant("acme", weight=3)) in others  # the weight may change
    assert await digest_of(session=SQLiteSession("mara")) in others


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"context": {"customer": 7}}, "another context. Use"),
        ({"tenant": "acme"}, "another tenant or customer. Use"),
        ({"customer": "mara"}, "another tenant or customer. Use"),
        ({"session": SQLiteSession("mara")}, "another conversation. Use"),
    ],
)
async def test_a_run_of_somebody_else_is_not_joined_and_keeps_its_objects(
    table: RunObjectTable, options: Any, words: str
) -> None:
    digest = await digest_of(id="support-43")
    mine = table.get(RunKey("default", "run-1"))
    assert mine is not None
    client = StartClient(USED, digest=digest)
    with pytest.raises(RunAlreadyStarted, match=words):
        await start(client, hooks=RunHooks(), **options)
    assert table.get(RunKey("default", "run-1")) is mine
    assert (mine.live, mine.references.objects) == ({}, {})
    # After its end, what is somebody else's is not returned either: a new run takes the id.
    ended = StartClient(USED, status="ended", digest=digest)
    ended.newest = ended.first = "run-2"
    ended.runs["run-2"] = ended.runs["run-1"]
    await start(ended, **options)
    assert len(ended.started) == 2
    assert table.get(RunKey("default", "run-1")) is mine
    assert table.get(RunKey("default", "run-2")) not in {None, mine}


async def test_a_session_that_gets_its_id_with_the_start_says_nothing() -> None:
    class Opening(SQLiteSession):
        is_open = False

        async def open(self) -> str:
            self.is_open = True
            return self.session_id

    same = await digest_of(A, "Hello", session=Opening("a"))
    assert await digest_of(A, "Hello", session=Opening("b")) == same


async def test_a_run_without_a_digest_is_another_run() -> None:
    """It was typed into the Temporal UI."""
    with pytest.raises(RunAlreadyStarted):
        await start(StartClient(USED, digest=""))


# --- Other ways in ---------------------------------------------------------------------------------------------


async def test_attaching_finds_a_run_or_says_that_there_is_none() -> None:
    client = FakeClient(Recording().events)
    assert (await Runner.attach("support-42", client=cast("Client", client))).id == "support-42"
    with pytest.raises(RunNotFound):
        await Runner.attach("support-42", client=cast("Client", FakeClient()))


async def test_a_runner_keeps_the_place_that_it_was_made_for() -> None:
    client, other = StartClient(), StartClient()
    desk = Runner.using(client=cast("Client", client), task_queue="support")
    await desk.start("A", "Hello", id="support-42")
    await desk.start("A", "Hello", id="support-42", client=None, task_queue="sales")
    await desk.using(client=cast("Client", other)).start("A", "Hello", id="support-42")
    assert [one["task_queue"] for one in client.started] == ["support", "sales"]
    assert [one["task_queue"] for one in other.started] == ["support"]
    assert (await desk.attach("support-42")).client is client
    assert issubclass(desk, Runner)
    assert desk.__name__ == "Runner"


async def test_a_run_belongs_to_a_tenant_with_a_weight() -> None:
    client = StartClient()
    acme = Runner.using(client=cast("Client", client), tenant="acme")
    await acme.start("A", "Hello", id="support-42")
    await acme.start("A", "Hello", id="support-42", tenant=Tenant("globex", weight=3))
    await Runner.start("A", "Hello", id="support-42", client=cast("Client", client))
    keys = [
        (one["priority"].fairness_key, one["priority"].fairness_weight) for one in client.started
    ]
    assert keys == [("acme", 1.0), ("globex", 3), (None, None)]
    with pytest.raises(UserError, match="tenant= must be a string or a Tenant, not 3"):
        await acme.start("A", "Hello", tenant=cast("Any", 3))
    with pytest.raises(UserError, match="A tenant's name must be a non-empty string, not ' '"):
        Runner.using(tenant=" ")
    assert len(client.started) == 3


async def test_the_first_message_has_the_id_that_its_sender_chose() -> None:
    started = await start(StartClient(), message_id="m1")
    assert started["payload"]["message_id"] == "m1"
    other = await start(StartClient())
    assert other["memo"] == started["memo"], "the id does not tell runs apart"
    assert other["payload"].get("message_id", "start") == "start"


async def test_a_runner_for_no_place_is_refused() -> None:
    with pytest.raises(UserError, match="task_queue= must be"):
        Runner.using(task_queue=" ")
    with pytest.raises(UserError, match="client= must be a connected"):
        Runner.using(client=cast("Any", "localhost:7233"))
    with pytest.raises(UserError, match="patience="):
        Runner.using(patience=cast("Any", 3))


async def test_an_option_that_there_is_not_is_a_type_error() -> None:
    wrong: Any = {"max_turn": 3}
    for way in (Runner.run, Runner.start):
        with pytest.raises(TypeError, match="unexpected keyword argument 'max_turn'"):
            await way("A", "Hello", **wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_turn'"):
        Runner.run_streamed("A", "Hello", **wrong)


async def test_running_waits_for_the_answer() -> None:
    result = await Runner.run(A, "Hello", id="support-42", client=cast("Client", Answering()))
    assert (result.final_output, result.last_agent) == ("Hi", A)
    assert attrgetter("_last_agent")(result) is A, "programs print it"


class Announcing(AgentRunner):
    """Notes each run and its answer."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def run(self, starting_agent: Any, input: Any, **options: Any) -> RunResult:  # noqa: A002  the name in the SDK
        self.seen.append(input)
        result = await super().run(starting_agent, f"{input}!", **options)
        self.seen.append(result.final_output)
        return result


@pytest.fixture
def announcing() -> Iterator[Announcing]:
    """A runner of the program's own."""
    own = Announcing()
    set_default_agent_runner(own)
    yield own
    set_default_agent_runner(None)


async def test_a_programs_own_runner_is_called_around_every_run(announcing: Announcing) -> None:
    client = Answering()
    assert get_default_agent_runner() is announcing
    bound = Runner.using(client=cast("Client", client))
    result = await bound.run(A, "Hello", id="support-42")
    assert announcing.seen == ["Hello", "Hi"]
    assert result.final_output == "Hi"
    assert client.started[-1]["payload"]["input"] == "Hello!"


def test_a_programs_own_runner_is_called_around_synchronous_runs(announcing: Announcing) -> None:
    Runner.run_sync(A, "Hello", id="support-42", client=cast("Client", Answering()))
    assert announcing.seen == ["Hello", "Hi"]


async def test_without_a_runner_of_its_own_a_program_has_outlasts() -> None:
    set_default_agent_runner(None)
    assert type(get_default_agent_runner()) is AgentRunner
    with pytest.raises(UserError, match="an object of a subclass of AgentRunner, not <class"):
        set_default_agent_runner(cast("Any", Announcing))


async def test_the_sync_way_says_that_it_is_the_wrong_one_in_async_code() -> None:
    with pytest.raises(RuntimeError, match=r"await Runner\.run"):
        Runner.run_sync(A, "Hello")


class LocalStub:
    """An engine in the process."""

    def __init__(self) -> None:
        self.client = StartClient()
        self.served: list[Agent[Any]] = []
        self.calls: list[tuple[Any, ...]] = []

    async def shared(self) -> "LocalStub":
        return self

    async def serve(self, agent: Agent[Any], *, queue: str | None = None) -> "ServingStub":
        self.served.append(agent)
        self.calls.append(("serve", queue))
        return ServingStub(self.calls, agent, queue or "outlast-local-program-A")


class ServingStub:
    """A run in the engine."""

    def __init__(self, calls: list[tuple[Any, ...]], agent: Agent[Any], queue: str) -> None:
        self.queue = queue
        self.definitions = Registry([agent], tell_apart=True)
        self._calls = calls

    def leave(self) -> None:
        self._calls.append(("leave",))

    def release(self) -> None:
        self._calls.append(("let go",))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> LocalStub:
    stub = LocalStub()
    monkeypatch.setattr(run_host, "local_engine", lambda: stub)
    return stub


@pytest.mark.parametrize(
    ("agent", "queue", "used", "served"),
    [
        (A, None, "outlast-local-program-A", [A]),
        ("A", None, "outlast", []),
        (A, "support", "support", []),
    ],
)
async def test_without_a_client_an_agent_is_carried_here_and_a_name_elsewhere(
    engine: LocalStub, agent: Any, queue: str | None, used: str, served: list[Any]
) -> None:
    await Runner.start(agent, "Hello", id="support-42", task_queue=queue)
    assert engine.client.started[0]["task_queue"] == used
    assert engine.served == served


@pytest.mark.parametrize(
    ("context", "kind"), [(None, None), ({"name": "Ann"}, None), (Customer("Ann"), Customer)]
)
async def test_the_run_has_the_agent_and_the_type_of_its_context_as_soon_as_it_has_begun(
    engine: LocalStub, table: RunObjectTable, context: Any, kind: Any
) -> None:
    await Runner.start(A, "Hello", context=context)
    objects = table.get(RunKey("default", "run-1"))
    assert objects is not None
    assert objects.context_type is kind
    assert objects.definitions is not None
    assert objects.definitions.agent("A") is A


async def test_effects_of_a_run_wait_until_its_start_has_brought_the_objects(
    engine: LocalStub, table: RunObjectTable
) -> None:
    found: list[asyncio.Task[Any]] = []

    class Eager(StartClient):
        """A server whose workers are faster than its answer to the start."""

        async def start_workflow(self, workflow: str, payload: Any, **options: Any) -> Any:
            effect = table.find(RunKey("default", "run-1"), options["id"])
            found.append(asyncio.create_task(effect))
            await asyncio.sleep(0)
            return await super().start_workflow(workflow, payload, **options)

    engine.client = Eager()
    await Runner.start(A, "Hello", id="support-42")
    assert await found[0] is table.get(RunKey("default", "run-1")) is not None


async def test_a_start_that_its_caller_gives_up_brings_the_objects_of_the_run_that_it_began(
    engine: LocalStub, table: RunObjectTable
) -> None:
    accepts, asked = asyncio.Event(), asyncio.Event()

    class Slow(StartClient):
        """A server that accepts a start and is slow to say so."""

        async def start_workflow(self, workflow: str, payload: Any, **options: Any) -> Any:
            asked.set()
            await accepts.wait()
            return await super().start_workflow(workflow, payload, **options)

    engine.client = Slow()
    starting = asyncio.create_task(Runner.start(A, "Hello", id="support-42"))
    await asked.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    accepts.set()
    await eventually(lambda: table.get(RunKey("default", "run-1")) is not None)


async def test_a_start_that_fails_brings_nothing(table: RunObjectTable) -> None:
    with pytest.raises(ServerUnavailable):
        await start(StartClient(refused(RPCStatusCode.UNAVAILABLE)), context={"pool": object()})
    assert table.is_empty


async def test_a_run_that_was_waited_for_is_let_go_and_one_that_was_started_goes_on(
    engine: LocalStub,
) -> None:
    engine.client = Answering()
    await Runner.run(A, "Hello", id="support-42")
    await Runner.start(A, "Hello", id="support-42")
    stream = Runner.run_streamed(A, "Hello", id="support-42")
    async for _ in stream.stream_events():
        pass
    assert engine.calls == [
        ("serve", None),
        ("let go",),
        ("serve", None),
        ("leave",),
        ("serve", None),
        ("let go",),
    ]


async def test_a_run_that_is_there_already_is_carried_where_it_is_and_gets_the_objects(
    engine: LocalStub, table: RunObjectTable
) -> None:
    await Runner.start(A, "Hello", id="support-42")
    begun = engine.client.started[0]
    digest = begun["memo"][names.MEMO_INPUT_DIGEST]
    engine.client = StartClient(USED, digest=digest, payload=begun["payload"])
    engine.client.task_queue = "outlast-local-shop-A"
    engine.client.first = "run-0"
    engine.client.runs["run-0"] = engine.client.runs["run-1"]
    engine.calls.clear()
    await Runner.start(A, "Hello", id="support-42")
    assert [call[1] for call in engine.calls if call[0] == "serve"] == [
        None,
        "outlast-local-shop-A",
    ]
    assert table.get(RunKey("default", "run-0")) is not None


async def test_the_sync_way_raises_what_the_other_does(engine: LocalStub) -> None:
    engine.client.answers = [refused(RPCStatusCode.UNAVAILABLE)]
    with pytest.raises(ServerUnavailable):
        await asyncio.to_thread(Runner.run_sync, A, "Hello")
    assert engine.served == [A]


async def test_what_the_sync_way_raises_has_nothing_to_do_with_event_loops(
    engine: LocalStub,
) -> None:
    del engine
    with pytest.raises(UserError) as raised:
        await asyncio.to_thread(Runner.run_sync, A, "Hello", max_turns=cast("int", "many"))
    assert raised.value.__context__ is None


# --- Reading along, and going on -------------------------------------------------------------------------------


class Answering(StartClient):
    """A server whose runs answer at once."""

    async def start_workflow(self, workflow: str, payload: Any, **options: Any) -> Any:
        one = Recording()
        one.started(payload)
        one.prepared()
        one.answered("Hi")
        one.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
        self.runs["run-1"] = [one.events]
        return await super().start_workflow(workflow, payload, **options)


@pytest.mark.parametrize("run_id", [None, "support-42"])
async def test_a_run_can_be_read_along(run_id: str | None) -> None:
    client = Answering()
    stream = Runner.run_streamed(A, "Hello", id=run_id, client=cast("Client", client), max_turns=3)
    assert client.started == [], "it is started in the background"
    assert (stream.input, stream.current_agent, stream.max_turns) == ("Hello", A, 3)
    seen = [event async for event in stream.stream_events()]
    deltas = [
        event.raw["delta"]
        for event in seen
        if event.type == "raw_response_event" and "delta" in event.raw
    ]
    assert "".join(deltas) == "Hi"
    assert [event.type for event in seen if event.type != "raw_response_event"] == [
        "agent_updated_stream_event",
        "run_item_stream_event",
    ]
    assert (stream.final_output, stream.last_agent) == ("Hi", A)
    assert client.started[0]["payload"]["settings"] == {"stream": True}
    assert client.started[0]["payload"]["max_turns"] == 3


async def test_what_is_asked_is_read_once_when_a_run_is_read_along() -> None:
    client = FakeClient()
    asked: list[Any] = [{"role": "user", "content": iter([{"type": "input_text", "text": "Hi"}])}]
    stream = Runner.run_streamed(A, asked, client=cast("Client", client))
    asked.append({"role": "user", "content": "Too late."})
    content = [{"type": "input_text", "text": "Hi"}]
    assert stream.input == [{"role": "user", "content": content}]


async def test_mistakes_are_found_before_a_run_is_read_along() -> None:
    with pytest.raises(UserError, match="max_turns=-1"):
        Runner.run_streamed("A", "Hello", max_turns=-1)
    with pytest.raises(UserError, match="an agent's name"):
        Runner.run_streamed(cast("Any", None), "Hello")


def test_reading_along_needs_an_event_loop() -> None:
    with pytest.raises(RuntimeError, match="needs a running event loop"):
        Runner.run_streamed("A", "Hello")


async def test_a_run_that_cannot_be_started_says_so_where_it_is_read() -> None:
    client = StartClient(refused(RPCStatusCode.UNAVAILABLE))
    stream = Runner.run_streamed("A", "Hello", client=cast("Client", client))
    with pytest.raises(ServerUnavailable):
        await anext(stream.stream_events())
    assert stream.current_agent.name == "A"


class Waiting(FakeClient):
    """A run that waits for a decision, and answers after it."""

    def __init__(self) -> None:
        self.one = Recording()
        self.one.started({"agent": "A", "input": "Hello", "context": {"name": "Ann"}})
        self.one.prepared()
        raw = {"type": "function_call", "call_id": "c1", "name": "refund", "arguments": "{}"}
        plan: dict[str, Any] = {"item": 0, "kind": "tool", "approval": {}}
        self.one.activity(2, {"items": [raw], "calls": [plan]})
        self.one.task()
        super().__init__(self.one.events)

    async def answer(self, *call: Any) -> Any:
        self.note(*call)
        self.one.update("decide", call[2], before=self.one.last)
        self.one.task()
        self.one.answered("Not paid.", effect=3)
        self.one.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
        return {"request_id": "a1", "status": "rejected", "by": None}


async def test_a_run_that_waited_goes_on_with_what_was_decided() -> None:
    client = Waiting()
    handle = await Runner.attach("support-42", agent=A, client=cast("Client", client))
    result = await handle.wait_for_people()
    state = result.to_state()
    state.reject(state.get_interruptions()[0])
    with pytest.raises(UserError, match=r"max_turns=1 \(the run has 10\)"):
        await Runner.run(A, state, max_turns=1)
    result = await Runner.run(A, state, max_turns=10, id="support-42")
    assert (result.final_output, result.interruptions, result.last_agent) == ("Not paid.", [], A)
    again = await Runner.run(A, state)
    assert again == result
    assert len([call for call in client.calls if call[0] == "update"]) == 1


async def test_the_context_that_a_state_was_read_with_is_that_of_the_run() -> None:
    client = cast("Client", Waiting())
    waits = (await RunHandle(client, "support-42").wait_for_people()).to_state()
    other = await RunState.from_json(A, waits.to_json(), context_override={"name": "Ben"})
    with pytest.raises(UserError, match="already has its context"):
        await Runner.run(A, other, client=client)
    same = await RunState.from_json(A, waits.to_json(), context_override={"name": "Ann"})
    same.reject(same.get_interruptions()[0])
    result = await Runner.run(A, same, client=client)
    assert result.context_wrapper.context is not same.context_override
    assert (result.final_output, result.context_wrapper.context) == ("Not paid.", {"name": "Ann"})


async def test_a_run_that_goes_on_can_be_read_along() -> None:
    client = Waiting()
    state = (await RunHandle(cast("Client", client), "support-42").wait_for_people()).to_state()
    state.reject(state.get_interruptions()[0])
    stream = Runner.run_streamed(A, state)
    names_seen = [
        getattr(event, "name", event.type)
        async for event in stream.stream_events()
        if event.type != "raw_response_event"
    ]
    assert names_seen == ["agent_updated_stream_event", "tool_output", "message_output_created"]
    assert stream.final_output == "Not paid."


async def test_a_run_joins_the_trace_that_the_program_is_in() -> None:
    with trace("Support", group_id="chat-7") as around:
        started = await start(StartClient())
        same = await start(StartClient())
    settings = started["payload"]["settings"]
    assert (settings["trace_id"], settings["group_id"]) == (around.trace_id, "chat-7")
    alone = await start(StartClient())
    digests = {one["memo"][names.MEMO_INPUT_DIGEST] for one in (started, same, alone)}
    assert len(digests) == 1, "it is the same question"


async def test_a_run_of_the_engine_goes_on_with_the_engine_of_the_time(engine: LocalStub) -> None:
    """`run_sync` closes the engine after each call; the next one is another one."""
    engine.client = cast("Any", Waiting())
    handle = await Runner.attach("support-42", agent=A)
    state = (await handle.wait_for_people()).to_state()
    state.reject(state.get_interruptions()[0])
    later = Waiting()
    engine.client = cast("Any", later)
    result = await Runner.run(A, state)
    assert result.final_output == "Not paid."
    assert [call[0] for call in later.calls if call[0] == "update"] == ["update"]
    assert engine.served == [A, A], "whoever attaches carries it, and whoever goes on"


async def nobody() -> Client:
    raise AssertionError


@pytest.mark.parametrize(
    ("option", "given", "problem"),
    [
        ("id", 3, "id= must be a non-empty string or None, not 3"),
        ("id", "", "id= must be a non-empty string or None, not ''"),
        ("id", "a\ud800", "lone surrogate"),
        ("id", "a\0b", "NUL character"),
        ("task_queue", "a\0b", "NUL character"),
        ("task_queue", "", "task_queue= must be a non-empty string or None"),
        ("task_queue", 3, "task_queue= must be a non-empty string or None"),
        ("client", "localhost:7233", r"not 'localhost:7233': await Client\.connect"),
    ],
)
async def test_options_that_cannot_say_where_a_run_is_are_refused_before_anything_is_done(
    engine: LocalStub, option: str, given: Any, problem: str
) -> None:
    options: Any = {option: given}
    with pytest.raises(UserError, match=problem):
        await Runner.run(A, "Hello", **options)
    with pytest.raises(UserError, match=problem):
        await Runner.start(A, "Hello", **options)
    with pytest.raises(UserError, match=problem):
        Runner.run_streamed(A, "Hello", **options)
    if option != "task_queue":
        with pytest.raises(UserError, match=problem):
            await Runner.attach(**({"id": "support-42"} | options))
    assert engine.calls == []


@pytest.mark.parametrize("text", ["a\nb", "a\tb", "a\u2028b", "a\u202eb", "\ufeffa"])
async def test_no_new_run_gets_an_id_that_people_cannot_read(engine: LocalStub, text: str) -> None:
    given: list[dict[str, Any]] = [{"id": text}, {"author": text}, {"customer": text}]
    for options in given:
        with pytest.raises(UserError, match="holds a character that cannot be printed"):
            await Runner.start(A, "Hello", **options)
    assert engine.calls == []


async def test_a_name_may_have_what_joins_its_letters(engine: LocalStub) -> None:
    name = "\u0646\u06cc\u06a9\u200c\u067e\u06cc"
    await Runner.start(A, "Hello", author=name, customer=Named("c-1", name=name), keep_open=True)
    assert engine.calls


async def test_a_client_that_was_not_awaited_is_told_so() -> None:
    with pytest.raises(UserError, match=r"not coroutine: await Client\.connect"):
        await Runner.run(A, "Hello", client=cast("Client", nobody()))


@pytest.mark.parametrize("run_id", ["X/ask_judge-3", "X/ask_judge-3/look_up-12", "a b/-3"])
async def test_no_new_run_gets_the_id_of_a_nested_one(engine: LocalStub, run_id: str) -> None:
    problem = "the form of the id of a nested run"
    with pytest.raises(UserError, match=problem):
        await Runner.run(A, "Hello", id=run_id)
    with pytest.raises(UserError, match=problem):
        await Runner.start(A, "Hello", id=run_id, keep_open=True)
    assert engine.calls == []
