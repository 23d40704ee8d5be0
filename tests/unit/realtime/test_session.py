"""Realtime sessions on a run in memory: its loop and activities are the real ones."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from outlast import (
    GuardrailFunctionOutput,
    ModelCallFailed,
    RunContextWrapper,
    UserError,
    function_tool,
    output_guardrail,
)
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.registry import Registry
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.loop.approvals import Decision
from outlast.loop.events import CancelRequested
from outlast.loop.items import text_of
from outlast.loop.state import LoopState
from outlast.ports.model import ModelError
from outlast.realtime.agents import RealtimeAgent, realtime_handoff
from outlast.realtime.events import RealtimeSessionEvent
from outlast.realtime.line import Line, LineOptions, Listener
from outlast.realtime.line_events import SessionEvents
from outlast.realtime.port import model_events as events
from outlast.realtime.port import model_inputs as inputs
from outlast.realtime.port.items import AssistantMessageItem, AssistantText
from outlast.realtime.port.model import RealtimeModelConfig
from outlast.realtime.session import RealtimeSession
from outlast.realtime.testing import RealtimeStep, ScriptedRealtimeModel
from outlast.testing import ScriptedModel
from tests.unit.realtime.memory_line_run import MemoryLineRun, OneModel
from tests.unit.realtime.talking_model import TalkingModel


@function_tool
async def track(order: str) -> str:
    """Track an order."""
    return f"{order} is on its way"


@function_tool(needs_approval=True)
async def refund(order: str) -> str:
    """Pay an order back."""
    return f"{order} is refunded"


TRACK = ("track", "c1", '{"order": "A-17"}')
REFUND = ("refund", "c2", '{"order": "A-17"}')


def desk(**fields: Any) -> RealtimeAgent[Any]:
    return RealtimeAgent("Desk", instructions="Be brief.", tools=[track, refund], **fields)


class Call:
    """A session under test, its events and its run."""

    def __init__(self, session: RealtimeSession, run: MemoryLineRun, model: TalkingModel) -> None:
        self.session = session
        self.run = run
        self.model = model
        self.events: list[RealtimeSessionEvent] = []
        self._came = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.session:
            self.events.append(event)
            async with self._came:
                self._came.notify_all()

    @property
    def kinds(self) -> list[str]:
        """The types of the events, without raw and history events."""
        plain = {"raw_model_event", "history_updated", "history_added"}
        return [event.type for event in self.events if event.type not in plain]

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type == kind]

    async def until(self, kind: str, count: int = 1) -> Any:
        async with asyncio.timeout(5), self._came:
            await self._came.wait_for(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[-1]

    async def heard(self, count: int) -> LoopState:
        """Wait for the run to have a number of answers."""
        return await self.run.until(lambda state: len(state.answers) >= count)

    async def end(self) -> None:
        await asyncio.wait_for(self._reading, 5)


@asynccontextmanager
async def calling(
    agent: RealtimeAgent[Any],
    model: TalkingModel,
    *,
    run: MemoryLineRun | None = None,
    **options: Any,
) -> AsyncGenerator[Call]:
    run = run or MemoryLineRun(agent)
    worker = WorkerDeps(registry=Registry([agent]), models=OneModel(ScriptedModel()))
    definitions = LocalDefinitions(agent)
    given: dict[str, Any] = {"model_config": RealtimeModelConfig(), "run_config": {}, **options}
    line_options = LineOptions(**given)

    async def open_line(made: SessionEvents, tell: Listener) -> Line:
        return Line(model, run, worker, line_options, made, tell)

    async def leave(state: LoopState) -> None:
        del state

    session = RealtimeSession(
        run=cast(
            "Any",
            SimpleNamespace(
                id=run.run_id,
                definitions=definitions,
                leave=leave,
                read_context=definitions.context,
            ),
        ),
        model=model,
        open_line=open_line,
        guardrails=[],
        debounce=20,
    )
    call = None
    try:
        async with session:
            call = Call(session, run, model)
            yield call
        with suppress(Exception):
            await call.end()
    finally:
        await run.close()


def transcript(state: LoopState) -> list[str]:
    """The items of a run in short."""
    return [
        f"{item.kind}: {text_of(item.raw)}"
        if item.kind in {"input", "message"}
        else f"{item.kind} {item.raw['call_id']}"
        for item in state.items
    ]


def output_of(state: LoopState, call_id: str) -> Any:
    outputs = (item.raw for item in state.items if item.kind.endswith("output"))
    return next(raw["output"] for raw in outputs if raw["call_id"] == call_id)


async def test_a_spoken_turn_is_in_the_run() -> None:
    model = TalkingModel("Hello, what can I do?")
    async with calling(desk(), model) as call:
        await call.session.send_message("Hi")
        state = await call.heard(1)
        assert transcript(state) == ["input: Hi", "message: Hello, what can I do?"]
        assert state.final_output == "Hello, what can I do?"
        assert state.usage.total_tokens == 12
    assert call.kinds == ["agent_start", "agent_end"]
    settings = model.configs[0].get("initial_model_settings") or {}
    assert settings.get("instructions") == "Be brief."
    assert [tool.name for tool in settings.get("tools", ())] == ["track", "refund"]
    assert [item.type for item in call.session.history] == ["message", "message"]
    assert not model.connected


async def test_a_tool_runs_as_an_effect_of_the_run_and_its_output_is_spoken() -> None:
    model = TalkingModel([TRACK], "It is on its way.")
    async with calling(desk(), model) as call:
        await call.session.send_message("Where is A-17?")
        state = await call.heard(1)
        assert transcript(state) == [
            "input: Where is A-17?",
            "tool_call c1",
            "tool_output c1",
            "message: It is on its way.",
        ]
        assert model.outputs == [("c1", "A-17 is on its way")]
    assert call.kinds == [
        "agent_start",
        "agent_end",
        "tool_start",
        "tool_end",
        "agent_start",
        "agent_end",
    ]
    [start], [end] = call.of("tool_start"), call.of("tool_end")
    assert (start.tool, start.arguments, start.agent.name) == (track, TRACK[2], "Desk")
    assert end.output == "A-17 is on its way"


async def test_the_events_of_the_model_and_of_the_run_come_in_one_order() -> None:
    orders = RealtimeAgent("Orders", tools=[refund])
    model = TalkingModel([TRACK], [("transfer_to_orders", "h1", "{}")], [REFUND], "It is back.")
    async with calling(desk(handoffs=[realtime_handoff(orders)]), model) as call:
        await call.session.send_message("Refund A-17")
        await call.until("tool_approval_required")
        await call.session.approve_tool_call("c2")
        await call.heard(1)
    came = [one.data.type if one.type == "raw_model_event" else one.type for one in call.events]
    of_a_call = "turn_started agent_start function_call usage turn_ended agent_end"
    of_an_answer = "turn_started agent_start transcript_delta transcript_delta transcript_delta"
    assert " ".join(came) == (
        f"history_updated item_updated history_added {of_a_call} tool_start tool_end {of_a_call}"
        f" handoff {of_a_call} tool_approval_required tool_start tool_end {of_an_answer}"
        " item_updated history_updated usage turn_ended agent_end"
    )


async def test_the_outputs_of_parallel_calls_start_one_response() -> None:
    calls = [("track", f"c{number}", f'{{"order": "A-{number}"}}') for number in (1, 2, 3)]
    model = TalkingModel(calls, "All are on their way.")
    async with calling(desk(), model) as call:
        await call.session.send_message("Where are they?")
        await call.heard(1)
        assert model.outputs == [
            (f"c{number}", f"A-{number} is on its way") for number in (1, 2, 3)
        ]
        starts = [
            event.start_response
            for event in model.sent
            if isinstance(event, inputs.RealtimeModelSendToolOutput)
        ]
        assert starts == [False, False, True]


async def test_a_handoff_updates_the_session_before_the_output_and_may_come_back() -> None:
    orders = RealtimeAgent("Orders", instructions="You know orders.", tools=[track])
    front = desk(handoffs=[realtime_handoff(orders)])
    orders.handoffs.append(front)
    model = TalkingModel(
        [("transfer_to_orders", "h1", "{}")],
        [TRACK],
        [("transfer_to_desk", "h2", "{}")],
        "Anything else?",
    )
    async with calling(front, model) as call:
        await call.session.send_message("Where is A-17?")
        state = await call.heard(1)
        assert state.handoff_path == ("Desk", "Orders", "Desk")
        kinds = [type(event).__name__.removeprefix("RealtimeModelSend") for event in model.sent]
        assert kinds == [
            "UserInput",
            "SessionUpdate",
            "ToolOutput",
            "ToolOutput",
            "SessionUpdate",
            "ToolOutput",
        ]
        update = model.sent[1]
        assert isinstance(update, inputs.RealtimeModelSendSessionUpdate)
        assert update.session_settings.get("instructions") == "You know orders."
    switches = [(one.from_agent.name, one.to_agent.name) for one in call.of("handoff")]
    assert switches == [("Desk", "Orders"), ("Orders", "Desk")]
    speakers = [event.agent.name for event in call.of("agent_start")]
    assert speakers == ["Desk", "Orders", "Orders", "Desk"]


async def test_an_approval_waits_while_the_conversation_goes_on() -> None:
    model = TalkingModel([REFUND], "It is sunny.", "Your money is back.")
    async with calling(desk(), model) as call:
        await call.session.send_message("Refund A-17")
        asked = await call.until("tool_approval_required")
        assert (asked.call_id, asked.tool, asked.arguments) == ("c2", refund, REFUND[2])
        await call.session.send_message("How is the weather?")
        await call.until("agent_end", 2)
        await call.run.until(lambda state: len(state.responses) == 2)
        await call.session.approve_tool_call("c2")
        await call.heard(1)
        assert model.outputs == [("c2", "A-17 is refunded")]
        assert transcript(call.run.memory_run.state)[-1] == "message: Your money is back."


async def test_an_approval_is_for_the_arguments_that_the_program_was_told() -> None:
    policy = ApprovalPolicy(quorum=2, unverified="allow")
    guarded: Any = replace(refund, needs_approval=policy)
    agent = RealtimeAgent("Desk", tools=[guarded])
    async with calling(agent, TalkingModel([REFUND])) as call:
        await call.session.send_message("Refund A-17")
        await call.until("tool_approval_required")
        edit = Decision(request_id="a1", type="edit", by="ann", edited_arguments={"order": "A-18"})
        await call.run.decide(edit)
        await call.run.until(lambda state: len(state.approvals[0].votes) == 1)
        await call.session.approve_tool_call("c2")
        request = (await call.run.state()).approvals[0]
        assert [one.decision.type for one in request.votes] == ["edit"]
        (ignored,) = call.run.memory_run.state.ignored
        assert "other arguments" in ignored.why


async def test_a_call_that_is_done_does_not_wait_for_one_that_needs_a_person() -> None:
    model = TalkingModel([REFUND], [TRACK], "A-17 is on its way, the refund waits.", "Done.")
    async with calling(desk(), model) as call:
        await call.session.send_message("Refund A-17")
        await call.until("tool_approval_required")
        await call.session.send_message("And where is it?")
        await call.until("agent_end", 3)
        assert model.outputs == [("c1", "A-17 is on its way")]
        await call.session.approve_tool_call("c2")
        await call.heard(1)
        assert model.outputs == [("c1", "A-17 is on its way"), ("c2", "A-17 is refunded")]


async def test_a_rejection_has_words_for_the_model() -> None:
    model = TalkingModel([REFUND], "I am sorry.")
    async with calling(desk(), model) as call:
        await call.session.send_message("Refund A-17")
        await call.until("tool_approval_required")
        await call.session.reject_tool_call("unknown")
        await call.session.reject_tool_call("c2", rejection_message="Only within 30 days.")
        state = await call.heard(1)
        assert model.outputs == [("c2", "Only within 30 days.")]
        assert output_of(state, "c2") == "Only within 30 days."
    assert "tool_start" not in call.kinds


async def test_the_caller_hangs_up_and_the_answer_is_a_text_turn() -> None:
    agent = desk()
    text = ScriptedModel("Your refund is done.")
    run = MemoryLineRun(agent, text)
    model = TalkingModel([REFUND])
    async with calling(agent, model, run=run) as call:
        await call.session.send_message("Refund A-17")
        await call.until("tool_approval_required")
        await call.session.close()
        [request] = run.memory_run.state.pending_approvals
        run.memory_run.decide(_approved(request.id))
        state = await call.heard(1)
    assert state.final_output == "Your refund is done."
    assert output_of(state, "c2") == "A-17 is refunded"
    assert len(text.requests) == 1


def _approved(request_id: str) -> Decision:
    return Decision(request_id=request_id, type="approve")


async def test_words_without_an_answer_are_not_lost_when_the_caller_hangs_up() -> None:
    agent = desk()
    run = MemoryLineRun(agent, ScriptedModel("We close at six."))
    async with calling(agent, TalkingModel(None), run=run) as call:
        await call.session.send_message("When do you close?")
        await call.session.close()
        state = await call.heard(1)
    assert transcript(state) == ["input: When do you close?", "message: We close at six."]


async def test_a_turn_that_is_being_reported_is_not_lost_when_the_caller_hangs_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reply = MemoryLineRun.reply

    async def slow(run: MemoryLineRun, *arguments: Any) -> None:
        await asyncio.sleep(0.1)
        await reply(run, *arguments)

    monkeypatch.setattr(MemoryLineRun, "reply", slow)
    async with calling(desk(), TalkingModel("Hello.")) as call:
        await call.session.send_message("Hi")
        await call.until("agent_end")
        await call.session.close()
        assert transcript(call.run.memory_run.state) == ["input: Hi", "message: Hello."]


async def test_a_message_by_text_is_answered_on_the_line() -> None:
    model = TalkingModel("It is open until six.")
    async with calling(desk(), model) as call:
        await call.run.send([{"role": "user", "content": "When do you close?"}])
        state = await call.heard(1)
        created, respond = model.raw
        assert created["item"]["content"] == [{"type": "input_text", "text": "When do you close?"}]
        assert respond == {"type": "response.create"}
    assert transcript(state)[-1] == "message: It is open until six."
    assert len(state.items) == 2


@output_guardrail
def no_promises(
    context: RunContextWrapper[Any], agent: Any, agent_output: str
) -> GuardrailFunctionOutput:
    del context, agent
    trips = "promise" in agent_output
    return GuardrailFunctionOutput(output_info="a promise", tripwire_triggered=trips)


@output_guardrail
def broken(context: RunContextWrapper[Any], agent: Any, agent_output: str) -> Any:
    raise RuntimeError("the check is broken")


async def test_a_guardrail_stops_the_agent_in_mid_answer() -> None:
    model = TalkingModel("I promise you that you get it all tomorrow.", "Let me check first.")
    model.pace = 0.02
    agent = desk(output_guardrails=[broken, no_promises])
    async with calling(agent, model) as call:
        await call.session.send_message("When do I get it?")
        tripped = await call.until("guardrail_tripped")
        assert [one.guardrail.get_name() for one in tripped.guardrail_results] == ["no_promises"]
        state = await call.heard(2)
        stops = [one for one in model.sent if isinstance(one, inputs.RealtimeModelSendInterrupt)]
        assert stops[0].force_response_cancel
        assert inputs.RealtimeModelSendUserInput("guardrail triggered: no_promises") in model.sent
    assert len(call.of("guardrail_tripped")) == 1
    assert state.final_output == "Let me check first."


async def test_interruptions_and_audio_are_passed_on() -> None:
    model = TalkingModel()
    async with calling(desk(), model) as call:
        await call.session.send_audio(b"\0\0", commit=True)
        await call.session.interrupt()
        assert model.sent == [
            inputs.RealtimeModelSendAudio(audio=b"\0\0", commit=True),
            inputs.RealtimeModelSendInterrupt(),
        ]
        audio = events.RealtimeModelAudioEvent(b"sound", "r1", "a1", 0)
        await model.emit(
            audio,
            events.RealtimeModelAudioInterruptedEvent("a1", 0),
            events.RealtimeModelAudioDoneEvent("a1", 0),
            events.RealtimeModelInputAudioTimeoutTriggeredEvent("u1", 0, 100),
        )
    assert call.kinds == [
        "audio",
        "audio_interrupted",
        "audio_end",
        "input_audio_timeout_triggered",
    ]
    assert call.of("audio")[0].audio is audio


async def test_a_lost_connection_is_opened_again_with_the_conversation() -> None:
    model = TalkingModel("It was sent.", "On Monday.")
    async with calling(desk(), model) as call:
        await call.session.send_message("Where is A-17?")
        await call.heard(1)
        lost = ModelError("The connection was lost.", code="unreachable", retryable=True)
        await model.emit(events.RealtimeModelExceptionEvent(lost))
        assert (await call.until("reconnected")).reason == "connection_lost"
        assert [one["item"]["content"][0]["text"] for one in model.raw] == [
            "Where is A-17?",
            "It was sent.",
        ]
        await call.session.send_message("When?")
        state = await call.heard(2)
    assert len(model.configs) == 2
    assert len(state.items) == 4


async def test_a_connection_lost_during_a_tool_call_speaks_its_output() -> None:
    model = TalkingModel([REFUND], "It is done.")
    async with calling(desk(), model) as call:
        await call.session.send_message("Refund A-17")
        await call.until("tool_approval_required")
        lost = ModelError("The connection was lost.", code="unreachable", retryable=True)
        await model.emit(events.RealtimeModelExceptionEvent(lost))
        await call.until("reconnected")
        await call.session.approve_tool_call("c2")
        state = await call.heard(1)
    assert model.outputs == [("c2", "A-17 is refunded")]
    assert state.final_output == "It is done."


async def test_a_response_lost_with_its_connection_is_asked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = TalkingModel([TRACK], None, "It is on its way.")
    async with calling(desk(), model) as call:
        await call.session.send_message("Where is A-17?")
        await call.until("tool_end")
        await call.run.until(lambda state: state.phase == "thinking")
        await asyncio.sleep(0.02)
        connect, attempts = model.connect, 0

        async def unreliable(options: RealtimeModelConfig) -> None:
            nonlocal attempts
            attempts += 1
            await connect(options)
            if attempts == 1:  # the new connection is lost while it gets the conversation
                await model.emit(events.RealtimeModelExceptionEvent(lost))

        monkeypatch.setattr(model, "connect", unreliable)
        lost = ModelError("The connection was lost.", code="unreachable", retryable=True)
        await model.emit(events.RealtimeModelExceptionEvent(lost))
        state = await call.heard(1)
        await call.until("reconnected")
        await asyncio.sleep(0.05)
        assert attempts == 2
        assert [raw["type"] for raw in model.raw].count("response.create") == 1
    assert transcript(state)[-1] == "message: It is on its way."
    assert len(state.responses) == 2


async def test_a_refused_connection_ends_the_session_with_its_error() -> None:
    refused = ModelError("The key has no access.", code="refused", retryable=False)
    agent, model = desk(), TalkingModel()
    async with calling(agent, model) as call:
        await model.emit(events.RealtimeModelExceptionEvent(refused))
        with pytest.raises(ModelCallFailed, match="no access") as raised:
            await call.end()
    assert raised.value.details == {"reason": "refused", "status": None}


async def test_an_old_connection_is_replaced_at_the_end_of_a_turn() -> None:
    model = TalkingModel("Hello.", "Yes.")
    limit = timedelta(milliseconds=30)
    async with calling(desk(), model, session_limit=limit) as call:
        await call.session.send_message("Hi")
        assert (await call.until("reconnected")).reason == "session_limit"
        await call.session.send_message("Are you there?")
        state = await call.heard(2)
    texts = [one for one in transcript(state) if one.startswith("input")]
    assert texts == ["input: Hi", "input: Are you there?"]


async def test_the_agent_says_that_it_is_working_when_a_tool_is_slow() -> None:
    done = asyncio.Event()

    @function_tool
    async def slow() -> str:
        """Take a while."""
        await done.wait()
        return "found"

    agent = RealtimeAgent("Desk", tools=[slow])
    model = TalkingModel([("slow", "c1", "{}")], "One moment.", "I have found it.")
    async with calling(agent, model, notice_after=timedelta(milliseconds=20)) as call:
        await call.session.send_message("Find it")
        await call.until("agent_end", 2)
        assert "still working" in model.raw[0]["response"]["instructions"]
        done.set()
        state = await call.heard(1)
    assert state.final_output == "I have found it."
    assert [one.split(" ")[0] for one in transcript(state)] == [
        "input:",
        "tool_call",
        "message:",
        "tool_output",
        "message:",
    ]


async def test_another_process_goes_on_with_the_same_call() -> None:
    agent = desk()
    run = MemoryLineRun(agent, ScriptedModel("unused"))
    config = RealtimeModelConfig(call_id="rtc_1")
    async with calling(
        agent, TalkingModel("Hello.", [REFUND]), run=run, model_config=config
    ) as call:
        await call.session.send_message("Hi")
        await call.heard(1)
        await call.session.send_message("Refund A-17")
        await call.until("tool_approval_required")
        await kill(call)
        await run.decide(_approved("a1"))
        await run.until(lambda state: state.phase == "thinking")
        model = TalkingModel("It is refunded.")
        model.prefix = "other-"
        async with calling(agent, model, run=run, model_config=config) as other:
            state = await other.heard(2)
        assert output_of(state, "c2") == "A-17 is refunded"
        kinds = [raw.get("item", raw)["type"] for raw in model.raw]
        assert kinds == [
            "message",  # which is deleted at once
            "conversation.item.delete",
            "function_call_output",
            "response.create",
        ], "the call has what was said in it"


async def kill(call: Call) -> None:
    """End a line as the death of its process does: without a word to anybody."""
    line: Any = vars(call.session)["_line"]
    call.session.model.remove_listener(call.session)
    for task in line._tasks:
        task.cancel()
    await asyncio.gather(*line._tasks, return_exceptions=True)


async def test_a_conversation_in_text_goes_on_as_a_call() -> None:
    agent = desk()
    run = MemoryLineRun(agent, ScriptedModel("It was sent."))
    await run.send([{"role": "user", "content": "Where is A-17?"}])
    await run.until(lambda state: state.answers)
    model = TalkingModel("On Monday.")
    async with calling(agent, model, run=run) as call:
        assert [item.type for item in call.session.history] == ["message", "message"]
        assert len(model.raw) == 2
        await call.session.send_message("When?")
        state = await call.heard(2)
    assert [one.split(":")[0] for one in transcript(state)] == ["input", "message"] * 2


async def test_a_second_line_takes_the_place_of_the_first() -> None:
    agent = desk()
    run = MemoryLineRun(agent)
    async with calling(agent, TalkingModel(), run=run) as first:
        await run.attach()
        await first.end()


async def test_a_program_may_switch_the_agent() -> None:
    orders = RealtimeAgent("Orders", instructions="You know orders.")
    front = desk(handoffs=[orders])
    model = TalkingModel("Orders here.")
    async with calling(front, model) as call:
        await call.session.update_agent(orders)
        await call.until("handoff")
        await call.run.until(lambda state: state.agent == "Orders")
        await asyncio.sleep(0.05)
        assert [type(one).__name__ for one in model.sent] == ["RealtimeModelSendSessionUpdate"]
        await call.session.send_message("Hi")
        state = await call.heard(1)
    assert state.handoff_path == ("Desk", "Orders")
    assert call.of("agent_start")[-1].agent is orders
    with pytest.raises(UserError, match="not open"):
        await call.session.update_agent(orders)


async def test_an_agent_that_is_not_known_cannot_take_over() -> None:
    async with calling(desk(), TalkingModel()) as call:
        with pytest.raises(UserError, match="Stranger"):
            await call.session.update_agent(RealtimeAgent("Stranger"))


async def test_a_response_that_failed_is_asked_for_again() -> None:
    failed = {
        "type": "response.done",
        "response": {"status": "failed", "status_details": {"error": {"message": "Overloaded"}}},
    }
    model = TalkingModel([TRACK], None, "It is on its way.")
    async with calling(desk(), model) as call:
        await call.session.send_message("Where is A-17?")
        await call.run.until(lambda state: state.phase == "thinking")
        await call.until("tool_end")
        await asyncio.sleep(0.05)
        await model.emit(
            events.RealtimeModelTurnStartedEvent(response_id="failed"),
            events.RealtimeModelRawServerEvent(failed),
            events.RealtimeModelTurnEndedEvent(response_id="failed"),
        )
        state = await call.heard(1)
    assert call.of("error")[0].error == {"message": "Overloaded"}
    assert state.final_output == "It is on its way."


async def test_the_provider_ends_the_call() -> None:
    model = TalkingModel("Bye.")
    async with calling(desk(), model) as call:
        await call.session.send_message("Bye")
        await call.heard(1)
        await model.emit(events.RealtimeModelEndOfStreamEvent())
        await call.end()
    assert call.kinds == ["agent_start", "agent_end"]


async def test_errors_of_the_provider_and_bad_messages_do_not_end_the_session() -> None:
    model = TalkingModel("Yes.")
    async with calling(desk(), model) as call:
        await model.emit(
            events.RealtimeModelErrorEvent({"message": "The item 'ol_1' already exists."}),
            events.RealtimeModelErrorEvent({"message": "Bad audio", "code": "invalid"}),
            events.RealtimeModelExceptionEvent(ValueError("no JSON"), "Failed to parse"),
        )
        await call.session.send_message("Are you there?")
        await call.heard(1)
    assert [str(event.error) for event in call.of("error")] == [
        "{'message': 'Bad audio', 'code': 'invalid'}",
        "no JSON",
    ]


async def test_other_exceptions_of_the_model_are_raised() -> None:
    model = TalkingModel()
    async with calling(desk(), model) as call:
        await model.emit(events.RealtimeModelExceptionEvent(RuntimeError("a defect")))
        with pytest.raises(RuntimeError, match="a defect"):
            await call.end()


async def test_a_session_that_is_not_open_says_how_to_open_it() -> None:
    async with calling(desk(), TalkingModel()) as call:
        with pytest.raises(UserError, match="open already"):
            await call.session.enter()
        await call.session.close()
        with pytest.raises(UserError, match="async with await"):
            await call.session.send_message("Hi")


async def test_the_end_of_the_run_ends_the_session() -> None:
    async with calling(desk(), TalkingModel("Hello.")) as call:
        await call.session.send_message("Hi")
        await call.heard(1)
        await call.run.take(CancelRequested(at_ms=0, mode="after_turn"))
        await call.end()
        assert call.run.memory_run.state.outcome == "completed"


async def test_a_program_tests_its_agents_with_the_scripted_model() -> None:
    tool_call = events.RealtimeModelToolCallEvent(*TRACK[:2], TRACK[2], "i1")
    spoken = AssistantMessageItem(item_id="a1", content=[AssistantText(text="On its way.")])
    model = ScriptedRealtimeModel(
        [
            RealtimeStep(
                expect=inputs.RealtimeModelSendUserInput("Where is A-17?"), emit=[tool_call]
            ),
            RealtimeStep(
                expect=inputs.RealtimeModelSendToolOutput(tool_call, "A-17 is on its way", True),
                emit=[
                    events.RealtimeModelTurnStartedEvent(response_id="r2"),
                    events.RealtimeModelItemUpdatedEvent(item=spoken),
                    events.RealtimeModelTurnEndedEvent(response_id="r2"),
                ],
            ),
        ]
    )
    async with calling(desk(), cast("Any", model)) as call:
        await call.session.send_message("Where is A-17?")
        state = await call.heard(1)
        model.assert_complete()
    assert transcript(state) == [
        "input: Where is A-17?",
        "tool_call c1",
        "tool_output c1",
        "message: On its way.",
    ]
    assert call.kinds == ["tool_start", "tool_end", "agent_start", "agent_end"]
