"""The history that an agent is handed: rows 20 to 22 of the table."""

import json
from typing import Any

import pytest

from outlast import Agent, HandoffInputData, RunConfig, function_tool, handoff
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel, call, say
from tests.conformance.executors import Executor, also_on_server, row
from tests.conformance.views import shapes

START, END = "<CONVERSATION HISTORY>", "</CONVERSATION HISTORY>"


def _nested(**options: Any) -> RunConfig:
    return RunConfig(nest_handoff_history=True, **options)


@pytest.mark.smoke
@row(20)
async def test_summaries_of_several_handoffs_do_not_nest(executor: Executor) -> None:
    refunds = Agent(name="Refunds")
    billing = Agent(name="Billing", handoffs=[refunds])
    triage = Agent(name="Triage", handoffs=[billing])
    model = ScriptedModel(
        [*say("I ask Billing."), call("transfer_to_billing", "h1")],
        [*say("I ask Refunds."), call("transfer_to_refunds", "h2")],
        "Refunded.",
    )
    result = await executor.execute(triage, "Hello", model=model, run_config=_nested())
    assert result.final_output == "Refunded."
    handed = model.requests[2].input
    assert "function_call" not in shapes(handed)
    assert "function_call_output" not in shapes(handed)
    summaries = [text for text in shapes(handed) if START in text]
    assert summaries
    for text in summaries:
        assert (text.count(START), text.count(END)) == (1, 1)
        assert text.index(START) < text.index(END)
    whole = json.dumps(handed)
    for once in ("Hello", "I ask Billing.", "I ask Refunds.", "transfer_to_billing"):
        assert whole.count(once) == 1, once


@row(20)
async def test_without_nesting_the_history_is_handed_over_as_it_is(executor: Executor) -> None:
    triage = Agent(name="Triage", handoffs=[Agent(name="Billing")])
    model = ScriptedModel([*say("I ask."), call("transfer_to_billing", "h1")], "Paid.")
    await executor.execute(triage, model=model)
    assert shapes(model.requests[1].input) == [
        "Hello",
        "I ask.",
        "function_call",
        "function_call_output",
    ]


@row(21)
async def test_what_a_mapper_returns_is_the_next_input(executor: Executor) -> None:
    flat: list[list[str]] = []
    mapped: list[JsonObject] = [
        {"role": "user", "content": "In short: hello."},
        {"role": "assistant", "content": "And so on."},
    ]

    def mapper(transcript: list[JsonObject]) -> list[JsonObject]:
        flat.append(shapes(transcript))
        return mapped

    triage = Agent(name="Triage", handoffs=[Agent(name="Billing")])
    model = ScriptedModel([*say("I ask."), call("transfer_to_billing", "h1")], "Paid.")
    config = _nested(handoff_history_mapper=mapper)
    await executor.execute(triage, model=model, run_config=config)
    assert list(model.requests[1].input) == mapped
    assert flat[-1] == ["Hello", "I ask.", "function_call", "function_call_output"]


@row(22)
@pytest.mark.parametrize("nested", [True, False])
async def test_a_state_that_was_stored_hands_over_the_same_history(
    executor: Executor, nested: bool
) -> None:
    """The handoff waits for the person; without nesting the next agent cannot tell that it did."""

    async def handed(*, gated: bool, stored: bool) -> list[JsonObject]:
        @function_tool(needs_approval=gated)
        async def refund() -> str:
            return "refunded"

        triage = Agent(name="Triage", tools=[refund], handoffs=[Agent(name="Billing")])
        reply = [*say("Both."), call("refund", "c1"), call("transfer_to_billing", "h1")]
        model = ScriptedModel(reply, "Paid.")
        config = _nested() if nested else RunConfig()
        result = await executor.execute(triage, model=model, run_config=config)
        if gated:
            assert model.calls == 1
            state = result.to_state()
            if stored:
                state = await executor.round_trip(triage, state)
            state.approve(state.get_interruptions()[0])
            result = await executor.resume(triage, state, run_config=config)
        assert (result.final_output, result.last_agent.name) == ("Paid.", "Billing")
        return list(model.requests[1].input)

    live = await handed(gated=True, stored=False)
    assert await handed(gated=True, stored=True) == live
    assert json.dumps(live).count("Both.") == 1
    if nested:
        assert START in json.dumps(live)
    else:
        assert await handed(gated=False, stored=False) == live


def _without(*call_ids: str) -> Any:
    def filtered(data: HandoffInputData) -> HandoffInputData:
        new = (one for one in data.new_items if one.get("call_id") not in call_ids)
        return data.clone(new_items=tuple(new))

    return filtered


NO_FILTER = ["handoff_requested h1", "handoff_requested h2", "tool_output h2", "handoff_occured h1"]


@row(22)
@also_on_server
@pytest.mark.parametrize(
    ("input_filter", "seen"),
    [
        (None, NO_FILTER),
        (_without(), NO_FILTER),
        (_without("h2"), [*NO_FILTER[:2], "handoff_occured h1"]),
        (_without("h1", "h2"), NO_FILTER[:2]),
    ],
    ids=["none", "nothing", "the ignored one", "both"],
)
async def test_what_a_filter_drops_with_its_handoff_does_not_come_in_the_stream(
    executor: Executor, input_filter: Any, seen: list[str]
) -> None:
    billing, refunds = Agent[Any](name="Billing"), Agent[Any](name="Refunds")
    entry = handoff(billing, input_filter=input_filter)
    triage = Agent[Any](name="Triage", handoffs=[entry, refunds])
    calls = [call("transfer_to_billing", "h1"), call("transfer_to_refunds", "h2")]
    stream = await executor.stream(triage, model=ScriptedModel(calls, "Paid."))
    events = [
        f"{event.name} {event.item.get('call_id')}"
        async for event in stream.stream_events()
        if event.type == "run_item_stream_event"
    ]
    assert events == [*seen, "message_output_created None"]
