"""A person takes a conversation over, speaks for the team and gives it back; and how users break in.

Holds, words and releases come by update or by signal, under one rule.
"""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.config.run_config import RunConfig
from outlast.agents.errors import DecisionRefused, UserError
from outlast.agents.guardrails.guardrail import (
    GuardrailFunctionOutput,
    output_guardrail,
)
from outlast.agents.tools.function_tool import function_tool
from outlast.client.audit import audit_run
from outlast.client.handle import RunHandle
from outlast.contract import names
from outlast.loop import phrases
from outlast.loop.approvals import Person
from outlast.loop.items import text_of
from outlast.loop.state import LoopState
from outlast.testing import ScriptedModel, call, wait_for
from outlast.views.run import loop_state
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.people import ANN, BOB, EVE, both_channels, clerk, refunds, waiting
from tests.workflow.replies import outputs


async def act(desk: Desk, handle: RunHandle, channel: str, what: str, **fields: Any) -> None:
    """Hold, say something or release, by update or by signal, and wait until it is done."""
    person: Person = fields.pop("by")
    if channel == "update":
        await getattr(handle, what)(by=person, **fields)
        return
    seen = await handle.state()
    payload = {"by": person.subject, "groups": list(person.groups), **fields}
    await desk.workflow(handle).signal(what, payload)
    await desk.until(handle, lambda one: _acts(one) > _acts(loop_state(seen)))


def _acts(state: LoopState) -> tuple[int, int]:
    """Return what grows with each thing that a person does or tries."""
    said = sum(item.raw.get("role") == "assistant" for item in state.items)
    return len(state.ignored), said + (state.hold is not None)


def texts(state: LoopState) -> list[str]:
    return [text_of(item.raw) for item in state.items if item.kind in {"input", "message", "note"}]


ANYBODY = RunConfig(takeover=ApprovalPolicy(unverified="allow"))
"""Anybody may take the conversation over, also by a signal."""


async def idle(desk: Desk, agent: Agent[Any], model: ScriptedModel, **options: Any) -> RunHandle:
    """Return a conversation whose first question is answered, and which anybody may take over."""
    options.setdefault("run_config", ANYBODY)
    await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True, **options)
    await desk.until_status(handle, "idle")
    return handle


# --- Hold, say, release --------------------------------------------------------------------------


@pytest.mark.smoke
@both_channels
async def test_while_a_person_has_the_conversation_the_agent_does_nothing(desk: Desk, channel: str):
    model = ScriptedModel("Hello.", "You are welcome.")
    handle = await idle(desk, Agent[Any](name="Front"), model)
    await act(desk, handle, channel, "hold", by=ANN)
    held = await desk.until_status(handle, "held")
    assert held.hold is not None
    assert held.hold.by == "ann"
    attributes = (await desk.workflow(handle).describe()).search_attributes
    assert attributes[names.ATTRIBUTE_STATUS] == ["held"]

    first = await handle.send("A human, please.")
    await desk.until(handle, lambda one: "A human, please." in texts(one))
    await act(desk, handle, channel, "say", by=ANN, text="I am Ann.")
    assert (await first.answer()).final_output == "I am Ann."
    second = await handle.send("Thank you.")
    state = await desk.until(handle, lambda one: "Thank you." in texts(one))
    assert (state.status, model.calls) == ("held", 1)
    assert (await second.outcome()).status == "taken"

    await desk.workflow(handle).signal("release", {"by": "ann", "note": "All is well."})
    assert (await second.answer()).final_output == "You are welcome."
    assert model.calls == 2
    said = [
        (item.get("role"), text_of(item))
        for item in model.requests[1].input
        if item.get("type", "message") == "message"
    ]
    assert said == [
        ("user", "Hello"),
        ("assistant", "Hello."),
        ("user", "A human, please."),
        ("developer", phrases.taken_over("ann")),
        ("assistant", "I am Ann."),
        ("user", "Thank you."),
        ("developer", phrases.released("ann", "All is well.", spoke=True)),
    ]
    verified = channel == "update"
    log = [
        (one.event, one.by, one.verified)
        for one in (await audit_run(desk.client, handle.id)).records
    ]
    assert log == [("held", "ann", verified), ("said", "ann", verified), ("released", "ann", False)]
    await handle.cancel("after_turn")


async def test_a_message_to_a_held_run_is_in_its_stream_and_transcript(desk: Desk):
    handle = await idle(desk, Agent[Any](name="Front"), ScriptedModel("Hello."))
    await act(desk, handle, "signal", "hold", by=ANN)
    await handle.send("Anybody there?", message_id="m1")
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in handle.stream_events():
            if "Anybody there?" in str(event):
                break
    transcript = await desk.workflow(handle).query(names.QUERY_TRANSCRIPT)
    assert "Anybody there?" in str(transcript[-1])
    await handle.cancel()


async def test_a_hold_may_cancel_the_model_call_under_way(
    desk: Desk,
):
    goes_on = asyncio.Event()
    ran: list[str] = []

    @function_tool
    async def look() -> str:
        ran.append("look")
        return "found"

    model = ScriptedModel(wait_for(goes_on, [call("look", "c1")]), "After the release.")
    agent = Agent(name="Front", tools=[look])
    await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True, run_config=ANYBODY)
    await desk.pending_activity(handle, lambda one: one.activity_type.name == names.ACTIVITY_MODEL)
    await act(desk, handle, "update", "hold", by=ANN, mode="immediate")
    assert (await handle.state()).status == "held", "also while the turn under way ends"
    state = await desk.until(handle, lambda one: one.phase == "held")
    assert state.items[1:] == ()
    goes_on.set()
    calls = model.calls
    assert (await handle.release(by=ANN)).by is None
    assert (await handle.wait_for_people()).final_output == "After the release."
    assert (calls, ran) == (1, [])
    await handle.cancel("after_turn")


async def test_only_the_audience_takes_a_conversation_over(desk: Desk):
    config = RunConfig(takeover=ApprovalPolicy(audience="billing", unverified="allow"))
    handle = await idle(desk, Agent[Any](name="Front"), ScriptedModel("Hello."), run_config=config)

    async def refused(what: str, why: str, **fields: Any) -> None:
        await act(desk, handle, "signal", what, **fields)
        assert why in (await handle.state()).ignored[-1].why
        *_, tried = (await audit_run(desk.client, handle.id)).records
        assert (tried.event, tried.by, tried.verified) == ("ignored", fields["by"].subject, False)

    await refused("hold", "eve may not do this", by=EVE)
    await refused("say", "Nobody has the conversation", by=ANN, text="Hi.")
    await act(desk, handle, "signal", "hold", by=ANN)
    await refused("hold", "ann has the conversation. Only who has it", by=BOB)
    await refused("say", "eve may not do this", by=EVE, text="Hi.")
    await refused("release", "eve may not do this", by=EVE)
    state = await desk.until_status(handle, "held")
    assert texts(state) == ["Hello", "Hello."]
    await handle.cancel()


async def test_a_name_without_proof_takes_nothing_over_where_the_policy_asks_for_proof(desk: Desk):
    policy = ApprovalPolicy(audience="billing", unverified="refuse")
    config = RunConfig(takeover=policy)
    handle = await idle(desk, Agent[Any](name="Front"), ScriptedModel("Hello."), run_config=config)
    await act(desk, handle, "signal", "hold", by=ANN)
    assert "needs proof of who decides" in (await handle.state()).ignored[-1].why
    await act(desk, handle, "update", "hold", by=ANN)
    await act(desk, handle, "signal", "say", by=ANN, text="I am Ann.")
    state = await desk.until_status(handle, "held")
    assert "needs proof of who decides" in state.ignored[-1].why
    assert texts(state) == ["Hello", "Hello."]
    await handle.cancel()


async def test_another_agent_goes_on_under_its_own_rules(desk: Desk):
    @output_guardrail
    async def no_prices(_ctx: Any, _agent: Any, output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(
            output_info="prices", tripwire_triggered="euros" in str(output)
        )

    repairs = Agent[Any](name="Repairs", instructions="repair", output_guardrails=[no_prices])
    front = Agent[Any](name="Front", instructions="greet", handoffs=[repairs])
    model = ScriptedModel("Hello.", "That is 40 euros.", "We repair it.")
    handle = await idle(desk, front, model)
    await act(desk, handle, "update", "hold", by=ANN)
    message = await handle.send("It leaks.")
    await desk.until(handle, lambda one: "It leaks." in texts(one))
    assert (await handle.release(by=ANN, note="For you.", to=repairs)).agent == "Repairs"
    with pytest.raises(Exception, match=r"no_prices"):
        await message.answer()
    assert (await (await handle.send("So?")).answer()).final_output == "We repair it."
    assert [request.instructions for request in model.requests] == ["greet", "repair", "repair"]
    state = await handle.state()
    assert (state.agent, state.handoff_path) == ("Repairs", ("Front", "Repairs"))
    await handle.cancel("after_turn")


async def test_a_remark_that_is_sent_twice_is_one(desk: Desk):
    handle = await idle(desk, Agent[Any](name="Front"), ScriptedModel("Hello."))
    await handle.hold(by=ANN)
    await act(desk, handle, "update", "say", by=ANN, text="I am Ann.", message_id="p1")
    await handle.say("I am Ann.", by=ANN, message_id="p1")
    payload = {"by": "ann", "text": "I am Ann.", "message_id": "p1"}
    await desk.workflow(handle).signal("say", payload)
    state = await desk.settled(handle)
    assert texts(state) == ["Hello", "Hello.", phrases.taken_over("ann"), "I am Ann."]
    await handle.cancel()


# --- Guardrails and people -----------------------------------------------------------------------


@output_guardrail(judges_people=True)
async def no_promises(_ctx: Any, _agent: Any, output: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(None, "I promise" in str(output))


async def test_a_person_s_words_that_an_output_guardrail_blocks_are_not_said(desk: Desk):
    agent = Agent[Any](name="Front", output_guardrails=[no_promises])
    handle = await idle(desk, agent, ScriptedModel("Hello."))
    await handle.hold(by=ANN)
    sent = await handle.send("When?")
    await desk.until(handle, lambda one: "When?" in texts(one))
    assert (await handle.say("I promise: today.", by=ANN)).is_judged
    await desk.until(handle, lambda one: bool(one.ignored))
    await handle.say("Today, I think.", by=ANN)
    assert (await sent.answer()).final_output == "Today, I think."
    state = await desk.settled(handle)
    assert not any("I promise" in text for text in texts(state))
    assert [(one.what, "no_promises" in one.why) for one in state.ignored] == [("say by ann", True)]
    await handle.release(by=ANN)
    await handle.cancel("after_turn")


# --- How a user's message meets a busy agent -----------------------------------------------------


async def test_a_message_that_steers_is_read_after_the_tool_that_has_begun(desk: Desk):
    begun, goes_on = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    @function_tool
    async def look() -> str:
        begun.set()
        await goes_on.wait()
        ran.append("look")
        return "found"

    model = ScriptedModel([call("look", "c1")], "Both.")
    agent = Agent(name="Front", tools=[look])
    await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True)
    await begun.wait()
    sent = await handle.send("And hurry!", mode="steer")
    assert (await sent.outcome()).status == "waiting"
    goes_on.set()
    assert (await sent.answer()).final_output == "Both."
    assert (await sent.outcome()).status == "answered"
    assert (model.calls, ran) == (2, ["look"]), "a tool that has begun finishes"
    assert outputs(model.requests[1]) == {"c1": "found"}
    read = [one["content"] for one in model.requests[1].input if one.get("role") == "user"]
    assert read == ["Hello", "And hurry!"]
    await handle.cancel("after_turn")


async def test_an_interruption_cancels_the_model_call_under_way(desk: Desk):
    never = asyncio.Event()
    model = ScriptedModel(wait_for(never, "Too late."), "At once.")
    agent = Agent[Any](name="Front")
    await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True)
    await desk.pending_activity(handle, lambda one: one.activity_type.name == names.ACTIVITY_MODEL)
    sent = await handle.send("Stop. Something else.", mode="interrupt")
    assert (await sent.answer()).final_output == "At once."
    types = await desk.event_types(handle)
    assert types.count("EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED") == 1
    read = [one["content"] for one in model.requests[1].input if one.get("role") == "user"]
    assert read == ["Hello", "Stop. Something else."]
    await handle.cancel("after_turn")


async def test_a_message_is_withdrawn_by_signal_too_and_only_until_it_is_taken(desk: Desk):
    model = ScriptedModel(refunds(50), "Done.", "Two.")
    handle = await waiting(desk, clerk(), model, keep_open=True)
    first = await handle.send("First.", mode="queue", message_id="m1")
    second = await handle.send("Second.", mode="queue", message_id="m2")
    await desk.workflow(handle).signal(names.WITHDRAW, {"message_id": "m1"})
    await desk.until(handle, lambda one: [it.id for it in one.inbox] == ["m2"])
    assert (await first.outcome()).status == "withdrawn"
    await handle.approve("a1", by=ANN)
    assert (await second.answer()).final_output == "Two."
    before = await desk.event_types(handle)
    with pytest.raises(UserError, match="No such message waits"):
        await second.withdraw()
    assert await desk.event_types(handle) == before
    await desk.workflow(handle).signal(names.WITHDRAW, {"message_id": "m2"})
    state = await desk.until(handle, lambda one: one.ignored != ())
    assert state.ignored[-1].why == "No such message waits: the run has taken it, or never had it."
    assert "First." not in str(model.requests[-1].input)
    await handle.cancel("after_turn")


@pytest.mark.smoke
async def test_taking_the_conversation_is_the_decision_where_the_policy_says_so(desk: Desk):
    ran: list[int] = []
    policy = ApprovalPolicy(audience="billing", takeover=True, expires_in=timedelta(hours=1))
    agent = clerk(policy, ran)
    model = ScriptedModel(refunds(50), "A colleague is here.", "Bye.")
    handle = await waiting(desk, agent, model, keep_open=True)
    [request] = await handle.approvals()
    assert request.terms.allow == ("approve", "reject")
    with pytest.raises(DecisionRefused, match="who approves this takes the conversation over"):
        await handle.approve(request, by=ANN)
    await desk.settled(handle)
    assert ran == [], "nobody is told of a colleague who is not there"
    receipt = await handle.hold(by=BOB)
    assert (receipt.by, receipt.approved) == ("bob", ("a1",))
    state = await desk.until(handle, lambda one: one.phase == "held")
    assert ran == [50]
    assert [(one.status, one.settled_by) for one in state.approvals] == [("approved", "bob")]


async def test_a_person_who_may_not_approve_only_takes_the_conversation(desk: Desk):
    policy = ApprovalPolicy(audience="billing", takeover=True)
    handle = await waiting(desk, clerk(policy), ScriptedModel(refunds(50), "Bye."), keep_open=True)
    assert (await handle.hold(by=EVE)).approved == ()
    assert [one.status for one in (await handle.state()).approvals] == ["pending"]
    await handle.release(by=EVE)
    await handle.reject("a1", by=ANN, message="Nobody is free.")
    await desk.until_status(handle, "idle")


@pytest.mark.parametrize("hands_over", [False, True], ids=["release", "hand_over"])
async def test_a_repeated_release_or_handover_gets_the_same_receipt(
    desk: Desk, *, hands_over: bool
) -> None:
    """As a desk repeats it whose connection was cut, also in a process that has just started."""
    agent = Agent[Any](name="Clerk")
    handle = await idle(desk, agent, ScriptedModel("Hello.", "You are welcome.", "Again."))
    for _ in range(2):
        await handle.hold(by=ANN)
        await handle.send("Thanks.")
        receipts: list[Any] = []
        for again in (handle, RunHandle(desk.client, handle.id)):
            gives = again.hand_over(by=ANN, to="eve") if hands_over else None
            receipts.append(await (gives or again.release(by=ANN, note="All is well.")))
            if not hands_over:
                await desk.until_status(handle, "idle")
        assert receipts[0] == receipts[1]
        assert receipts[0].status == ("held" if hands_over else "running")
        if hands_over:
            await handle.release(by=EVE)
            await desk.until_status(handle, "idle")
    with pytest.raises(UserError, match="Nobody has the conversation"):
        await handle.release(by=ANN, note="Something else.")
    state = await handle.state()
    assert len([one for one in state.items if one.kind == "note"]) == 2
    await handle.cancel()
