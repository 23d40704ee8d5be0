"""Replays of recorded runs: what today's agents decide otherwise, and what they cannot do again."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from outlast import (
    Agent,
    ApprovalPolicy,
    Audience,
    Compaction,
    FallbackModel,
    GuardrailFunctionOutput,
    ModelSettings,
    ToolContext,
    function_tool,
    handoff,
    input_guardrail,
    tool_input_guardrail,
)
from outlast.agents.errors import UserError
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
)
from outlast.client.recordings import Entry, Recording
from outlast.evals.trajectory import trajectory_of
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.loop.values import Failure, JsonObject
from outlast.ports.model import ModelRequest, ModelResponse
from outlast.testing import (
    Replay,
    ScriptedModel,
    UnknownCall,
    call,
    record_in_memory,
    replay,
    say,
)
from outlast.testing.scripted_model import TOKENS

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


@function_tool
def look_up(order_id: str) -> str:
    """Look an order up."""
    CALLS.append(order_id)
    return f"{order_id}: 40 EUR"


@function_tool(needs_approval=True)
def refund(order_id: str, amount: int) -> str:
    """Refund an order."""
    CALLS.append(order_id)
    return f"refunded {amount}"


def desk(*tools: Any, **fields: Any) -> Agent[Any]:
    billing = Agent(name="Billing", tools=list(tools) or [look_up, refund], **fields)
    return Agent(name="Triage", tools=[look_up], handoffs=[billing])


SCRIPT = (
    [call("look_up", "c1", order_id="A-1")],
    [call("transfer_to_billing", "c2")],
    [call("refund", "c3", order_id="A-1", amount=40)],
    "Done.",
)


def approves(request: ApprovalRequest) -> bool:
    return True


async def recorded(agent: Agent[Any] | None = None, *script: Any, **options: Any) -> Recording:
    model = ScriptedModel(*(script or SCRIPT))
    options = {"decide": approves, **options}
    made = await record_in_memory(agent or desk(), "Refund A-1", model=model, **options)
    CALLS.clear()
    return Recording.from_json(made.to_json())  # as a file has it


def lines(replayed: Replay) -> Sequence[str]:
    return [f"{one.kind}: {one.was} -> {one.now}" for one in replayed.differences]


async def test_the_same_agents_decide_the_same_and_no_tool_runs():
    recording = await recorded()
    replayed = await replay(recording, desk())
    assert replayed.is_same, replayed.report()
    assert [one.kind for one in replayed.now.entries] == [one.kind for one in recording.entries]
    assert not CALLS


async def test_a_call_that_needs_no_approval_any_more():
    @function_tool(name_override="refund")
    def at_once(order_id: str, amount: int) -> str:
        """Refund an order."""
        raise AssertionError

    replayed = await replay(await recorded(), desk(look_up, at_once))
    assert lines(replayed) == [
        "approval: refund waits for the approval of anybody -> needs no approval"
    ]


async def test_a_new_approval_is_reported_and_the_rest_is_compared():
    recording = await recorded(Agent(name="Triage", tools=[look_up]), SCRIPT[0], "Done.")
    asks = replace_tool(look_up, needs_approval=ApprovalPolicy(audience=Audience(groups=["ops"])))
    replayed = await replay(recording, Agent(name="Triage", tools=[asks]))
    assert lines(replayed) == [
        "approval: needs no approval -> look_up waits for the approval of ops"
    ]
    assert replayed.now.status == "completed"


async def test_another_audience_is_a_difference_and_refuses_who_decided():
    policy = ApprovalPolicy(audience=Audience(groups=["finance"]), quorum=2)
    replayed = await replay(
        await recorded(), desk(look_up, replace_tool(refund, needs_approval=policy))
    )
    first, second = replayed.differences
    assert (first.kind, first.was) == ("decision", "test: decide refund")
    assert first.now.startswith("refused: ")
    assert second.now == "refund waits for the approval of 2 of finance"
    assert replayed.now.status == "completed"


async def test_a_tool_that_is_gone_and_arguments_that_do_not_fit():
    @function_tool(name_override="refund")
    def by_reason(order_id: str, amount: int, reason: str) -> str:
        """Refund an order."""
        raise AssertionError

    replayed = await replay(await recorded(), desk(look_up, by_reason))
    assert [one.kind for one in replayed.differences] == ["tool", "approval"]
    assert "reason" in replayed.differences[0].now
    replayed = await replay(await recorded(), desk(look_up))
    assert "There is no tool 'refund'" in replayed.differences[0].now


async def test_a_handoff_that_is_not_offered_ends_the_replay_there():
    alone = Agent(name="Triage", tools=[look_up])
    replayed = await replay(await recorded(), alone)
    assert [one.kind for one in replayed.differences] == ["handoff"]
    assert replayed.stopped == ("The recording has no reply of Triage at question 1, turn 3.")
    assert "stopped: The recording has no reply" in replayed.report()


async def test_a_handoff_leads_elsewhere():
    other = Agent(name="Refunds", tools=[look_up, refund])
    moved = Agent(
        name="Triage",
        tools=[look_up],
        handoffs=[handoff(other, tool_name_override="transfer_to_billing")],
    )
    replayed = await replay(await recorded(), moved)
    assert lines(replayed) == ["handoff: a handoff to Billing -> a handoff to Refunds"]


async def test_guardrails_that_trip_now_or_no_longer():
    @input_guardrail
    def no_refunds(context: Any, agent: Any, said: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    @tool_input_guardrail
    def not_today(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("not today")

    guarded = desk()
    guarded.input_guardrails.append(no_refunds)
    replayed = await replay(await recorded(), guarded)
    assert "guardrail: trips no guardrail -> the guardrail no_refunds trips" in lines(replayed)
    checked = replace_tool(look_up, tool_input_guardrails=[not_today])
    one = Agent(name="Triage", tools=[checked])
    recording = await recorded(one, SCRIPT[0], "Done.")
    assert (await replay(recording, one)).is_same
    replayed = await replay(recording, Agent(name="Triage", tools=[look_up]))
    assert lines(replayed)[0] == (
        "guardrail: the guardrail not_today trips (reject_content) -> trips no guardrail"
    )
    assert [str(one) for one in replayed.unknown] == ['look_up(order_id="A-1")']


async def test_decisions_of_people_are_made_again():
    def rejects(request: ApprovalRequest) -> str:
        return "too much"

    recording = await recorded(decide=rejects)
    assert (await replay(recording, desk())).is_same

    def edits(request: ApprovalRequest) -> Decision:
        wanted = {"order_id": "A-1", "amount": 7}
        return Decision(request_id=request.id, type="edit", edited_arguments=wanted, by="ann")

    recording = await recorded(decide=edits)
    replayed = await replay(recording, desk())
    assert replayed.is_same, replayed.report()
    outputs = [one.result for one in replayed.now.entries if one.kind == "tool"]
    assert outputs[-1] == {"output": "refunded 7"}


async def test_an_open_run_is_replayed_as_far_as_it_went():
    recording = await recorded(decide=None)
    assert (recording.complete, recording.status) == (False, "waiting")
    replayed = await replay(recording, desk())
    assert replayed.is_same, replayed.report()


@pytest.mark.parametrize("by_server", [False, True])
async def test_a_run_that_stopped_anywhere_is_replayed_to_there(*, by_server: bool):
    whole = await recorded()
    for length in range(1, len(whole.entries) - 1):
        if whole.entries[length].kind in {"request", "answer"}:
            continue  # of the same event as the entry before
        entries = [*whole.entries[:length]]
        if by_server:  # an operator has terminated it
            failure = Failure(code="terminated", message="The run was terminated.")
            ends = {"kind": "end", "name": "terminated", "by": "server", "failure": failure}
            unanswered = replace(entries[-1], kind="answer", agent=acting(entries), failure=failure)
            entries += [unanswered, replace(entries[-1], **ends)]
        cut = replace(whole, complete=by_server, entries=tuple(entries))
        replayed = await replay(cut, desk())
        assert replayed.is_same, (length, replayed.report())
        assert not replayed.unknown


def by_turn(request: ModelRequest) -> Any:
    """Reply as in `SCRIPT`, as a model does that sees the conversation."""
    done = sum(one.get("type") == "function_call_output" for one in request.input)
    return say("Done.") if done == len(SCRIPT) - 1 else SCRIPT[done]


async def test_an_open_run_is_replayed_to_its_last_answer_if_a_model_replies():
    whole = await recorded()
    (answered,) = [at for at, one in enumerate(whole.entries) if one.kind == "answer"]
    idle = replace(whole, complete=False, status="idle", entries=whole.entries[: answered + 1])
    replayed = await replay(idle, desk(), model=ScriptedModel(always=by_turn))
    assert replayed.is_same, replayed.report()
    assert [one.value for one in replayed.now.entries if one.kind == "answer"] == ["Done."]

    def asks_twice(request: ModelRequest) -> Any:
        done = sum(one.get("type") == "function_call_output" for one in request.input)
        if done < len(SCRIPT) - 1:
            return by_turn(request)
        return [call("look_up", "c9", order_id="A-1")] if done == 3 else say("Done.")

    longer = await replay(idle, desk(), model=ScriptedModel(always=asks_twice))
    assert [one.value for one in longer.now.entries if one.kind == "answer"] == ["Done."]
    assert [str(one) for one in longer.unknown] == ['look_up(order_id="A-1")']


async def test_a_run_that_stopped_anywhere_is_replayed_to_there_if_a_model_replies():
    whole = await recorded()
    for length in range(1, len(whole.entries) - 1):
        if whole.entries[length].kind in {"request", "answer"}:
            continue  # of the same event as the entry before
        cut = replace(whole, complete=False, entries=whole.entries[:length])
        model = ScriptedModel(always=by_turn)
        replayed = await replay(cut, desk(), model=model)
        assert replayed.is_same, (length, replayed.report())
        assert len(model.requests) == sum(one.kind == "model" for one in cut.entries)
        assert not replayed.unknown


def acting(entries: Sequence[Entry]) -> str:
    """Return the agent that has the conversation after some entries."""
    last = [one for one in entries if one.kind == "model"]
    took_over = len(last) > 1 and last[1] in entries
    return "Billing" if took_over else "Triage"


async def test_junk_of_a_model_fails_again():
    agent = Agent(name="Triage", tools=[look_up])
    recording = await recorded(agent, [{"type": "function_call", "name": "look_up"}])
    assert recording.status == "failed"
    assert (await replay(recording, agent)).is_same


async def test_a_tool_that_waits_gets_the_recorded_value():
    @function_tool
    async def book(context: ToolContext[Any], order_id: str) -> str:
        """Book a courier."""
        CALLS.append(order_id)
        pickup = await context.wait_for("courier", timeout=timedelta(days=1))
        return f"booked {pickup}"

    agent = Agent(name="Desk", tools=[book])
    recording = await recorded(
        agent, [call("book", "c1", order_id="A")], "Done.", deliver={"courier": "p1"}
    )
    replayed = await replay(recording, agent)
    assert replayed.is_same, replayed.report()
    assert [one.result for one in replayed.now.entries if one.kind == "tool"][-1] == {
        "output": "booked p1"
    }
    assert not CALLS


async def test_another_model_is_compared_and_unknown_calls_have_a_rule():
    recording = await recorded()
    asked: list[UnknownCall] = []

    def rule(unknown: UnknownCall) -> str:
        asked.append(unknown)
        return "A-2: 10 EUR"

    model = ScriptedModel([call("look_up", "x1", order_id="A-2")], *SCRIPT[1:])
    replayed = await replay(recording, desk(), model=model, on_unknown=rule)
    assert [str(one) for one in asked] == ['look_up(order_id="A-2")']
    assert lines(replayed) == ['arguments: look_up(order_id="A-1") -> look_up(order_id="A-2")']
    assert "A-2: 10 EUR" in json.dumps(model.requests[1].input)
    assert replayed.unknown == tuple(asked)


async def test_a_model_that_takes_another_tool_or_hands_over():
    recording = await recorded(Agent(name="Triage", tools=[look_up]), SCRIPT[0], "Done.")
    model = ScriptedModel([call("transfer_to_billing", "x1")], "Hello.")
    replayed = await replay(recording, desk(), model=model)
    assert lines(replayed) == [
        'tool: look_up(order_id="A-1") -> a handoff to Billing',
        "answer: an answer of Triage -> an answer of Billing",
    ]


async def test_contexts_that_tools_change_are_as_recorded():
    @function_tool
    def note(context: ToolContext[dict[str, Any]], order_id: str) -> str:
        """Note an order."""
        context.context["order"] = order_id
        return "noted"

    def said(context: Any, agent: Any) -> str:
        return f"order: {context.context.get('order')}"

    agent = Agent(name="Desk", instructions=said, tools=[note])
    script = ([call("note", "c1", order_id="A-9")], "Done.")
    recording = await recorded(agent, *script, context={"order": ""})
    model = ScriptedModel(*script)
    replayed = await replay(recording, agent, model=model)
    assert replayed.is_same
    assert [one.instructions for one in model.requests] == ["order: ", "order: A-9"]


async def test_agents_as_tools_are_answered_by_the_recording():
    inner = Agent(name="Judge")
    outer = Agent(name="Desk", tools=[inner.as_tool("ask_judge", "Ask.")])
    recording = await recorded(
        outer, [call("ask_judge", "c1", input="Fair?")], "It is fair.", "It is fair, we think."
    )
    replayed = await replay(recording, outer)
    assert replayed.is_same, replayed.report()
    assert [one.kind for one in replayed.now.entries].count("model") == 2


async def test_hostile_texts_are_shown_as_what_they_are():
    name = "A\u202e\x1b[2J"
    agent = Agent(name="Triage", tools=[look_up])
    recording = await recorded(agent, [call("look_up", "c1", order_id=name)], "Done.")
    report = (await replay(recording, Agent(name="Triage"))).report()
    assert "\u202e" not in report
    assert "\x1b" not in report


async def test_what_policies_redact_is_in_no_report():
    @function_tool(needs_approval=ApprovalPolicy(redact=["card", "pin"]))
    def pay(card: str, pin: int) -> str:
        """Pay."""
        return f"paid with {card}"

    agent = Agent(name="Desk", tools=[pay])
    script = ([call("pay", "c1", card="4111-1111", pin=12)], "Done.")
    recording = await recorded(agent, *script)
    assert (await replay(recording, agent)).is_same
    changed = await replay(recording, Agent(name="Desk"))
    other = ScriptedModel([call("pay", "c1", card="4222-2222", pin=34)], "Done.")
    moved = await replay(recording, agent, model=other)
    assert [one.kind for one in moved.differences] == ["arguments"]
    report = changed.report() + moved.report()
    assert "[redacted]" in report
    assert not any(secret in report for secret in ("4111", "4222", "12", "34"))


async def test_what_cannot_be_replayed_says_why():
    recording = await recorded()
    with pytest.raises(UserError, match="its beginning is no longer retained"):
        await replay(replace(recording, starts_late=True), desk())
    with pytest.raises(UserError, match="it has no first message"):
        await replay(recording.with_entries(()), desk())
    line = replace(recording.entries[0], kind="line")
    with pytest.raises(UserError, match="a realtime line made its model calls"):
        await replay(recording.with_entries([line]), desk())


def replace_tool(tool: Any, **fields: Any) -> Any:
    return replace(tool, **fields)


# --- Agents whose provider does more than reply ---------------------------------------------------


class Capable(ScriptedModel):
    """A model that can make responses in the background and compact conversations."""

    def __init__(self, *script: Any) -> None:
        super().__init__(*script)
        self.begun: list[ModelResponse] = []

    async def begin_response(self, request: ModelRequest) -> str:
        self.begun.append(await self.get_response(request))
        return f"resp_{len(self.begun)}"

    async def read_response(self, response_id: str, request: ModelRequest) -> ModelResponse:
        return self.begun[int(response_id.removeprefix("resp_")) - 1]

    async def cancel_response(self, response_id: str) -> None:
        raise AssertionError

    async def compact(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse([{"type": "compaction", "encrypted_content": "gAAAA"}], TOKENS)


def thinker(**fields: Any) -> Agent[Any]:
    return Agent(name="Thinker", tools=[look_up, refund], **fields)


BACKGROUND: dict[str, Any] = {"model_settings": ModelSettings(background=True)}
COMPACTING: dict[str, Any] = {"compaction": Compaction(window=16, by="provider")}
LOOKS = ([call("look_up", "c1", order_id="A-1")], [call("look_up", "c2", order_id="A-2")], "Done.")


@pytest.mark.parametrize("fields", [BACKGROUND, COMPACTING, BACKGROUND | COMPACTING])
async def test_background_responses_and_the_provider_s_compaction_replay(fields: Any):
    agent = thinker(**fields)
    made = await record_in_memory(agent, "Look", model=Capable(*LOOKS))
    recording = Recording.from_json(made.to_json())
    calls = [one for one in recording.entries if one.kind == "model"]
    assert len(calls) == 3, "a response that was only begun is no reply"
    replayed = await replay(recording, agent)
    assert replayed.is_same, replayed.report()
    assert [one.turn for one in replayed.calls] == [1, 2, 3]
    assert replayed.calls[0].request.input[0]["content"] == "Look"
    other = ScriptedModel([call("refund", "x", order_id="A-1", amount=1)], "Done.")
    evaluated = await replay(recording, agent, model=other)
    assert "refund" in evaluated.differences[0].now
    assert evaluated.stopped == ""


async def test_a_recording_that_tells_of_begun_responses_replays():
    agent = thinker(**BACKGROUND)
    made = await record_in_memory(agent, "Look", model=Capable(*LOOKS))
    document = json.loads(made.to_json())
    first = next(one for one in document["entries"] if one["kind"] == "model")
    begun: JsonObject = {**first, "result": {"items": [], "begun": {"response_id": "resp_1"}}}
    document["entries"].insert(document["entries"].index(first), begun)
    recording = Recording.from_json(json.dumps(document))
    assert (await replay(recording, agent)).is_same
    assert trajectory_of(recording).model_calls == 3


async def test_a_model_that_an_agent_has_as_an_object_is_not_called():
    own = ScriptedModel(*LOOKS)
    recording = await record_in_memory(thinker(), "Look", model=ScriptedModel(*LOOKS))
    for model in (own, FallbackModel(own, "gpt-5")):
        replayed = await replay(recording, thinker(model=model))
        assert replayed.is_same, replayed.report()
    assert own.requests == []


async def test_agents_without_that_of_the_run_are_named():
    recording = await recorded()
    with pytest.raises(UserError, match="its agent Triage is not here, only Thinker"):
        await replay(recording, thinker())
