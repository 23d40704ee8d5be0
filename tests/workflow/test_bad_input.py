"""Whatever people, programs, tools and models send in: a clear error, nothing lost, nothing stuck."""

import asyncio
import contextlib
import socket
from dataclasses import replace
from typing import Any, cast

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import (
    ModelBehaviorError,
    ModelCallFailed,
    RunAlreadyStarted,
    RunClosed,
    RunNotFound,
    UserError,
)
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle, progress_of
from outlast.client.start.runner import Runner
from outlast.client.transport.connection import connect
from outlast.contract import policies
from outlast.loop.calls import ExecutionOptions
from outlast.models.openai.provider import OpenAIProvider
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import loop_state
from tests.servers import TemporalServer
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.laws import failed_tasks
from tests.workflow.replies import outputs

HELPER = Agent[Any](name="Helper")
TEN_MB = 10_000_000
UNDECODABLE = RawValue(Payload(metadata={"encoding": b"binary/unheard-of"}, data=b"?"))


@function_tool(needs_approval=True)
async def refund(order: int) -> str:
    return f"refunded {order}"


CLERK = Agent[Any](name="Clerk", tools=[refund])


async def waiting_clerk(desk: Desk, **options: Any) -> tuple[RunHandle, ScriptedModel]:
    """Return a run that waits for a decision on approval `a1`."""
    model = ScriptedModel([call("refund", "c1", order=17)], say("Done."))
    await desk.open(CLERK, model=model)
    handle = await desk.start(CLERK, **options)
    await desk.until_status(handle, "waiting")
    return handle, model


def code_of(failure: BaseException | None) -> str | None:
    return failure.type if isinstance(failure, ApplicationError) else None


# --- Starting a run ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="nothing"),
        pytest.param([{"agent": "Helper", "carried": {"zlib": "junk"}}], id="a damaged run"),
    ],
)
async def test_a_run_with_junk_for_its_input_fails_with_a_reason(desk: Desk, arguments: list[Any]):
    await desk.open(HELPER)
    workflow = await desk.start_raw(*arguments)
    with pytest.raises(WorkflowFailureError) as raised:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await workflow.result()
    assert code_of(raised.value.cause) == "user_error"
    with pytest.raises(UserError):
        await desk.result(RunHandle(desk.client, workflow.id))


async def test_a_run_whose_input_nobody_can_decode_fails_too(desk: Desk):
    await desk.open(HELPER)
    workflow = await desk.start_raw(UNDECODABLE)
    with pytest.raises(UserError, match="binary/unheard-of"):
        await desk.result(RunHandle(desk.client, workflow.id))
    assert not failed_tasks(list((await workflow.fetch_history()).events))


async def test_a_run_typed_by_hand_with_an_argument_too_many_runs(desk: Desk):
    await desk.open(HELPER, model=ScriptedModel("Hello."))
    workflow = await desk.start_raw({"agent": "Helper", "input": "Hi", "unheard": 1}, "and more")
    assert (await desk.result(RunHandle(desk.client, workflow.id))).final_output == "Hello."


async def test_an_unknown_agent_is_refused_with_the_names_that_there_are(desk: Desk):
    await desk.open(HELPER, CLERK)
    with pytest.raises(UserError, match=r"no agent 'Hleper'.*'Clerk', 'Helper'"):
        await desk.run("Hleper")


async def test_an_input_too_large_for_the_server_is_refused_with_its_reason(desk: Desk):
    with pytest.raises(UserError, match="bytes, of at most"):
        await desk.start(HELPER, "x" * 3_000_000)
    desk.ids.clear()


# --- The same id again ---------------------------------------------------------------------------


async def test_a_second_start_with_the_same_input_is_the_same_run(desk: Desk):
    handle, model = await waiting_clerk(desk)
    before = await desk.workflow(handle).describe()
    again = await desk.start(CLERK, id=handle.id)
    assert (await desk.workflow(again).describe()).run_id == before.run_id
    await again.approve("a1")
    assert (await desk.result(handle)).final_output == "Done."
    assert model.calls == 2


async def test_a_second_start_with_another_input_is_refused_while_the_first_run_is_open(desk: Desk):
    handle, _ = await waiting_clerk(desk)
    with pytest.raises(RunAlreadyStarted, match=handle.id):
        await desk.start(CLERK, "Something else", id=handle.id)
    with pytest.raises(RunAlreadyStarted, match="attach"):
        await desk.start(HELPER, id=handle.id)
    assert (await handle.state()).status == "waiting"


async def test_after_the_end_the_same_question_has_its_answer_and_another_one_is_asked(desk: Desk):
    model = ScriptedModel("First.", "Second.")
    await desk.open(HELPER, model=model)
    run_id = desk.new_id()
    first = await desk.run(HELPER, "One", id=run_id)
    assert await desk.run(HELPER, "One", id=run_id) == first
    assert model.calls == 1
    second = await desk.run(HELPER, "Two", id=run_id)
    assert (first.final_output, second.final_output) == ("First.", "Second.")
    assert len(second.items) == 2


async def test_another_customer_with_the_same_words_and_id_reads_no_answer_of_the_first(desk: Desk):
    model = ScriptedModel("Your IBAN is DE02.", "I do not know you.", "Nor you.")
    await desk.open(HELPER, model=model)
    run_id = desk.new_id()
    first = await desk.run(HELPER, "My IBAN?", id=run_id, context={"customer": 1})
    second = await desk.run(HELPER, "My IBAN?", id=run_id, context={"customer": 2})
    assert (first.final_output, second.final_output) == ("Your IBAN is DE02.", "I do not know you.")
    third = await desk.run(HELPER, "My IBAN?", id=run_id, context={"customer": 2}, customer="eve")
    assert third.final_output == "Nor you."


async def test_a_run_that_failed_is_asked_again_under_its_id(desk: Desk):
    model = ScriptedModel([call("refund", "", order=1)], "Now it works.")
    await desk.open(HELPER, model=model)
    run_id = desk.new_id()
    with pytest.raises(ModelBehaviorError):
        await desk.run(HELPER, id=run_id)
    assert (await desk.run(HELPER, id=run_id)).final_output == "Now it works."


# --- Messages to the wrong run -------------------------------------------------------------------


async def test_a_closed_run_takes_nothing_more_and_says_so(desk: Desk):
    await desk.open(HELPER, model=ScriptedModel("Hello."))
    handle = await desk.start(HELPER)
    await desk.result(handle)
    before = await desk.event_types(handle)
    with pytest.raises(RunClosed, match=r"has ended \(completed\)"):
        await handle.send("One more thing")
    with pytest.raises(RunClosed):
        await handle.approve("a1")
    with pytest.raises(RunClosed):
        await handle.cancel()
    with pytest.raises(RunClosed):
        await handle.cancel(mode="after_turn")
    assert await desk.event_types(handle) == before


async def test_an_unknown_id_is_not_found_whatever_is_asked(client: Client):
    handle = RunHandle(client, "no-such-run")
    actions: list[Any] = [
        handle.check(),
        handle.result(),
        handle.state(),
        handle.send("Hello"),
        handle.approvals(),
        handle.approve("a1"),
        handle.reject("a1"),
        handle.cancel(),
        handle.cancel(mode="after_turn"),
        anext(progress_of(handle)),
        anext(progress_of(handle, from_start=False)),
        anext(handle.stream_events()),
        Runner.attach("no-such-run", client=client),
    ]
    for action in actions:
        with pytest.raises(RunNotFound, match="no-such-run"):
            await action


# --- Signals and updates -------------------------------------------------------------------------

BAD_SIGNALS: list[tuple[str, list[Any]]] = [
    ("decide", []),
    ("decide", [None]),
    ("decide", ["approve"]),
    ("decide", [7]),
    ("decide", [{"request_id": 1, "type": "approve"}]),
    ("decide", [{"request_id": "a1"}]),
    ("decide", [{"request_id": "a1", "type": "perhaps"}]),
    ("decide", [["a1", "approve"], {"request_id": "a1", "type": "approve"}]),
    ("decide", [{"request_id": "a9", "type": "approve"}]),
    ("decide", [{"request_id": "a1", "type": "approve", "args_digest": "other"}]),
    ("decide", [{"request_id": "a1", "type": "approve", "schema_version": 99}]),
    ("cancel", ["now"]),
    ("cancel", [{"mode": "later"}]),
    ("cancel", [["immediate"], "immediate"]),
    ("hello", []),
    ("hello", [1, 2, 3]),
]


@pytest.mark.smoke
async def test_signals_that_make_no_sense_are_noted_and_change_nothing_else(desk: Desk):
    handle, _ = await waiting_clerk(desk)
    before = loop_state(await handle.state())
    for name, arguments in BAD_SIGNALS:
        await desk.workflow(handle).signal(name, args=arguments)
    after = await desk.until(handle, lambda state: len(state.ignored) == len(BAD_SIGNALS))
    assert replace(after, ignored=(), at_ms=before.at_ms) == before
    whys = [one.why for one in after.ignored]
    assert sum("This is not a Decision" in why for why in whys) == 8
    assert sum("newer version" in why for why in whys) == 1
    assert sum("This is not a CancelRecord" in why for why in whys) == 3
    assert sum("There is no such signal. Signals: decide, " in why for why in whys) == 2
    assert [why for why in whys if "Approval a1" in why or "'a9'" in why]
    await handle.approve("a1")
    assert (await desk.result(handle)).final_output == "Done."


async def test_a_signal_that_cannot_be_decoded_is_noted(desk: Desk):
    handle, _ = await waiting_clerk(desk)
    await desk.workflow(handle).signal("decide", UNDECODABLE)
    await desk.workflow(handle).signal("hello", UNDECODABLE)
    state = await desk.until(handle, lambda state: len(state.ignored) == 2)
    assert [one.what for one in state.ignored] == ["signal decide", "signal hello"]
    assert "binary/unheard-of" in state.ignored[0].why
    assert state.status == "waiting"
    await handle.approve("a1")
    assert (await desk.result(handle)).final_output == "Done."


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("decide", ["approve"], "not a Decision"),
        ("send", [UNDECODABLE], "unheard-of"),
        ("shout", ["Hello"], "shout"),
    ],
)
async def test_updates_that_make_no_sense_are_refused_and_leave_no_event(
    desk: Desk, name: str, arguments: list[Any], said: str
):
    handle, _ = await waiting_clerk(desk)
    before = await handle.state()
    with pytest.raises(WorkflowUpdateFailedError) as raised:
        await desk.workflow(handle).execute_update(  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
            name, args=arguments
        )
    assert said in str(raised.value.cause)
    assert await handle.state() == before
    assert "EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED" not in await desk.event_types(handle)


# --- Tools ---------------------------------------------------------------------------------------


async def raises() -> str:
    raise OSError("the disk is full of secrets")


async def hangs() -> str:
    await asyncio.Event().wait()
    return "never"


async def returns_10_mb() -> str:
    return "x" * TEN_MB


async def returns_10_mb_of_items() -> list[dict[str, str]]:
    return [{"row": "x" * 1000} for _ in range(TEN_MB // 1000)]


async def returns_a_lock() -> Any:
    return asyncio.Lock()


async def returns_bytes() -> bytes:
    return b"\xff\xfe"


async def leaves_a_lock(ctx: RunContextWrapper[Any]) -> str:
    ctx.context = asyncio.Lock()
    return "left"


def exits() -> str:
    raise SystemExit(3)


BAD_TOOLS = [
    (raises, "failed and returned no result"),
    (hangs, "timed out"),
    (returns_10_mb, "bytes is too long to read"),
    (returns_10_mb_of_items, "too long to read"),
    (returns_a_lock, "failed and returned no result"),
    (returns_bytes, "failed and returned no result"),
    (leaves_a_lock, "left"),
    (exits, "failed and returned no result"),
]


@pytest.mark.parametrize("fast", [False, True], ids=["activity", "fast"])
async def test_a_tool_that_misbehaves_is_told_to_the_model_which_goes_on(desk: Desk, fast: bool):
    tools: list[Any] = [
        function_tool(function, timeout=bound, retry=1, fast=fast, strict_mode=False)
        for function, _ in BAD_TOOLS
        for bound in [0.3 if function is hangs else PATIENCE_SECONDS]
    ]
    agent = Agent[Any](name="Breaker", tools=tools)
    calls = [call(tool.name, f"c{number}") for number, tool in enumerate(tools)]
    model = ScriptedModel(calls, say("I cannot."))
    await desk.open(agent, model=model)
    result = await desk.run(agent)
    assert result.final_output == "I cannot."
    read = outputs(model.requests[-1])
    for number, (function, said) in enumerate(BAD_TOOLS):
        assert said in read[f"c{number}"], function.__name__
        assert "secrets" not in read[f"c{number}"]


# --- Models --------------------------------------------------------------------------------------


async def test_a_model_that_answers_more_than_a_server_keeps_ends_the_run_with_a_reason(desk: Desk):
    model = ScriptedModel(always=say("x" * 3_000_000))
    await desk.open(CLERK, model=model)
    with pytest.raises(ModelBehaviorError, match=r"3,000,.* bytes"):
        await desk.run(CLERK, max_turns=2)
    assert model.calls <= 2


async def test_an_answer_with_half_a_character_comes_out_readable(desk: Desk):
    await desk.open(HELPER, model=ScriptedModel("half \ud83d"))
    answer = (await desk.run(HELPER)).final_output
    assert answer.startswith("half ")
    assert answer.encode()


# --- The provider --------------------------------------------------------------------------------


@contextlib.contextmanager
def closed_port() -> Any:
    """A port of this machine that nobody else gets and nobody answers on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without a key or an address, and two attempts in quick succession."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    quick = ExecutionOptions(
        timeout_ms=20_000, attempts=2, initial_interval_ms=50, maximum_interval_ms=50
    )
    monkeypatch.setattr(policies, "MODEL", quick)
    return monkeypatch


async def ask_provider(desk: Desk) -> ModelCallFailed:
    """Return the error of a run whose model is reached as the environment says."""
    provider = OpenAIProvider()
    try:
        await desk.open(HELPER, model=cast("Any", provider))
        with pytest.raises(ModelCallFailed) as raised:
            await desk.run(HELPER)
        return raised.value
    finally:
        await provider.aclose()


async def attempts_of_the_model(desk: Desk) -> int:
    """Return how often the model activity of the only run was tried."""
    history = await desk.client.get_workflow_handle(desk.ids[0]).fetch_history()
    return max(event.activity_task_started_event_attributes.attempt for event in history.events)


async def test_without_a_key_the_run_fails_at_once_and_says_what_to_set(
    desk: Desk, openai: pytest.MonkeyPatch
):
    error = await ask_provider(desk)
    assert "no API key" in error.message
    assert "Set OPENAI_API_KEY" in error.message
    assert await attempts_of_the_model(desk) == 1


async def test_a_server_that_is_not_there_is_tried_again_and_then_named(
    desk: Desk, openai: pytest.MonkeyPatch
):
    with closed_port() as port:
        openai.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
        error = await ask_provider(desk)
    assert f"Cannot reach the model provider at http://127.0.0.1:{port}/v1" in error.message
    assert "Check OPENAI_BASE_URL" in error.message
    assert await attempts_of_the_model(desk) == 2


# --- The Temporal server -------------------------------------------------------------------------


async def test_a_namespace_that_does_not_exist_is_named(server: TemporalServer):
    client = await connect(server.address, "nowhere")
    with pytest.raises(UserError, match="nowhere"):
        await Runner.start("Helper", "Hello", client=client)
    with pytest.raises(RunNotFound, match="nowhere"):
        await RunHandle(client, "any").state()


async def test_what_is_too_large_to_be_said_is_refused_and_stops_nothing(desk: Desk):
    run, _ = await waiting_clerk(desk, keep_open=True)
    with pytest.raises(UserError, match="bytes, of at most"):
        await run.send("x" * TEN_MB)
    with pytest.raises(UserError, match="bytes, of at most"):
        await run.reject("a1", message="x" * TEN_MB)
    await run.approve("a1")
    assert (await desk.until_status(run, "idle")).final_output == "Done."
