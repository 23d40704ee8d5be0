"""Approvals, waiting and going on: rows 36 to 39, 42 and 55 of the table."""

import json
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast import (
    Agent,
    MaxTurnsExceeded,
    ModelSettings,
    RunConfig,
    RunHooks,
    SQLiteSession,
    ToolContext,
    UserError,
    function_tool,
)
from outlast.testing import ScriptedModel, call
from tests.conformance.executors import Executor, also_on_server, row
from tests.conformance.views import outputs, saved, shapes


class Till:
    """A tool that needs approval, and what it paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @function_tool(needs_approval=True)
        async def pay(amount: int) -> str:
            self.paid.append(amount)
            return f"paid {amount}"

        self.tool = pay


def _pay(call_id: str, amount: int) -> Any:
    return call("pay", call_id, amount=amount)


@pytest.mark.smoke
@row(36)
async def test_a_run_returns_where_a_person_has_to_decide(executor: Executor) -> None:
    till = Till()
    model = ScriptedModel([_pay("c1", 5)], "Paid.")
    agent = Agent(name="A", tools=[till.tool])
    result = await executor.execute(agent, model=model)
    assert result.final_output is None
    (item,) = result.interruptions
    assert (item.type, item.tool_name, item.call_id) == ("tool_approval_item", "pay", "c1")
    assert item.agent.name == "A"
    assert json.loads(item.arguments) == {"amount": 5}
    assert (till.paid, model.calls) == ([], 1)
    assert shapes(result.to_input_list()) == ["Hello", "function_call"]

    state = result.to_state()
    state.approve(item)
    result = await executor.resume(agent, state)
    assert (result.final_output, result.interruptions) == ("Paid.", [])
    assert till.paid == [5]
    assert outputs(model.requests[1]) == {"c1": "paid 5"}
    assert shapes(result.to_input_list()) == [
        "Hello",
        "function_call",
        "function_call_output",
        "Paid.",
    ]
    assert len(result.raw_responses) == 2


def _formatter(given: Any) -> str | None:
    return f"{given.kind}: {given.tool_name}" if given.kind == "approval_rejected" else None


@also_on_server
@row(36)
@pytest.mark.parametrize(
    ("message", "formatter", "told"),
    [
        (None, None, None),
        ("Too much.", None, "Too much."),
        (None, _formatter, "approval_rejected: pay"),
        ("Too much.", _formatter, "Too much."),
    ],
    ids=["default", "message", "formatter", "both"],
)
async def test_a_rejected_call_does_not_run_and_the_model_is_told(
    executor: Executor, message: str | None, formatter: Any, told: str | None
) -> None:
    till = Till()
    model = ScriptedModel([_pay("c1", 5)], "Not paid.")
    agent = Agent(name="A", tools=[till.tool])
    config = RunConfig(tool_error_formatter=formatter)
    result = await executor.execute(agent, model=model, run_config=config)
    state = result.to_state()
    state.reject(result.interruptions[0], rejection_message=message)
    result = await executor.resume(agent, state, run_config=config)
    assert (result.final_output, till.paid) == ("Not paid.", [])
    output = outputs(model.requests[1])["c1"]
    assert isinstance(output, str)
    assert output
    if told is not None:
        assert output == told


@also_on_server
@row(36)
async def test_a_session_has_the_call_while_a_person_decides_and_then_the_rest(
    executor: Executor, tmp_path: Path
) -> None:
    till = Till()
    session = outlast.SQLiteSession("s", tmp_path / "sessions.db")
    model = ScriptedModel([_pay("c1", 5)], "Paid.")
    agent = Agent(name="A", tools=[till.tool])
    result = await executor.execute(agent, model=model, session=session)
    assert await saved(session) == ["Hello", "function_call"]
    state = result.to_state()
    state.approve(result.interruptions[0])
    await executor.resume(agent, state, session=session)
    assert await saved(session) == ["Hello", "function_call", "function_call_output", "Paid."]


@pytest.mark.smoke
@row(37)
async def test_what_is_decided_runs_and_what_is_not_interrupts_again(executor: Executor) -> None:
    till = Till()
    model = ScriptedModel([_pay("c1", 1), _pay("c2", 2)], "Both paid.")
    agent = Agent(name="A", tools=[till.tool])
    result = await executor.execute(agent, model=model)
    assert [item.call_id for item in result.interruptions] == ["c1", "c2"]
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await executor.resume(agent, state)
    assert result.final_output is None
    assert [item.call_id for item in result.interruptions] == ["c2"]
    assert (till.paid, model.calls) == ([1], 1)
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await executor.resume(agent, state)
    assert (result.final_output, result.interruptions) == ("Both paid.", [])
    assert till.paid == [1, 2]
    assert list(outputs(model.requests[1]).items()) == [("c1", "paid 1"), ("c2", "paid 2")]


@row(38)
@pytest.mark.parametrize("approved", [True, False])
async def test_a_sticky_decision_goes_for_later_calls_of_the_tool(
    executor: Executor, approved: bool
) -> None:
    till = Till()
    model = ScriptedModel([_pay("c1", 1)], [_pay("c2", 2)], "done")
    agent = Agent(name="A", tools=[till.tool])
    result = await executor.execute(agent, model=model)
    state = result.to_state()
    if approved:
        state.approve(result.interruptions[0], always_approve=True)
    else:
        state.reject(result.interruptions[0], always_reject=True)
    result = await executor.resume(agent, state)
    assert (result.final_output, result.interruptions) == ("done", [])
    assert till.paid == ([1, 2] if approved else [])
    assert list(outputs(model.requests[2])) == ["c1", "c2"]


@row(38)
@pytest.mark.parametrize("approved", [True, False])
async def test_no_rule_is_asked_about_a_tool_that_is_decided(
    executor: Executor, approved: bool
) -> None:
    asked: list[str] = []

    def rule(_context: Any, _arguments: Any, call_id: str) -> bool:
        asked.append(call_id)
        return True

    @function_tool(needs_approval=rule)
    def pay(ctx: ToolContext[Any], amount: int) -> str:
        assert ctx.approved
        return f"paid {amount}"

    model = ScriptedModel([_pay("c1", 1)], [_pay("c2", 2)], "done")
    agent = Agent(name="A", tools=[pay])
    result = await executor.execute(agent, model=model)
    state = result.to_state()
    if approved:
        state.approve(result.interruptions[0], always_approve=True)
    else:
        state.reject(result.interruptions[0], always_reject=True, rejection_message="Never.")
    result = await executor.resume(agent, state)
    assert (result.final_output, result.interruptions, asked) == ("done", [], ["c1"])
    said = "paid 2" if approved else "Never."
    assert outputs(model.requests[2])["c2"] == said


@row(38)
async def test_a_sticky_decision_does_not_go_for_another_agents_tool(executor: Executor) -> None:
    till = Till()
    billing = Agent(name="Billing", tools=[till.tool])
    triage = Agent(name="Triage", tools=[till.tool], handoffs=[billing])
    model = ScriptedModel(
        [_pay("c1", 1)], [call("transfer_to_billing", "h1")], [_pay("c2", 2)], "done"
    )
    result = await executor.execute(triage, model=model)
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    result = await executor.resume(triage, state)
    assert [(item.agent.name, item.call_id) for item in result.interruptions] == [("Billing", "c2")]
    assert till.paid == [1]


@row(39)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_stored_state_goes_on_where_the_run_waited(
    executor: Executor, streamed: bool
) -> None:
    till = Till()
    looked: list[str] = []

    @function_tool
    async def look_up(order: str) -> str:
        looked.append(order)
        return "found"

    agent = Agent(name="A", tools=[till.tool, look_up])
    model = ScriptedModel([call("look_up", "c1", order="A-17"), _pay("c2", 2)], "Paid.")
    result = await executor.execute(agent, model=model)
    assert (looked, till.paid) == (["A-17"], [])
    state = await executor.round_trip(agent, result.to_state())
    (item,) = state.get_interruptions()
    assert (item.tool_name, item.call_id) == ("pay", "c2")
    state.approve(item)
    if streamed:
        result = await executor.resume_streamed(agent, state)
        events = [event async for event in result.stream_events()]
        names = [event.name for event in events if event.type == "run_item_stream_event"]
        assert names == ["tool_output", "message_output_created"]
    else:
        result = await executor.resume(agent, state)
    assert result.final_output == "Paid."
    assert (looked, till.paid) == (["A-17"], [2])
    assert list(outputs(model.requests[1]).items()) == [("c1", "found"), ("c2", "paid 2")]


@row(42)
async def test_the_turns_before_a_decision_count_after_it(executor: Executor) -> None:
    till = Till()
    model = ScriptedModel([_pay("c1", 5)], "never")
    agent = Agent(name="A", tools=[till.tool])
    result = await executor.execute(agent, model=model, max_turns=1)
    state = result.to_state()
    state.approve(result.interruptions[0])
    with pytest.raises(MaxTurnsExceeded) as caught:
        await executor.resume(agent, state, max_turns=1)
    assert (till.paid, model.calls) == ([5], 1)
    assert "tool_call_output_item" in [item.type for item in caught.value.run_data.new_items]


class Watching(RunHooks[Any]):
    """Hooks of a run, made anew for each call."""


def _newest_first(history: list[Any], new_items: list[Any]) -> list[Any]:
    return [*new_items, *history]


def _enough(_data: Any) -> str:
    return "Enough."


def _settings(folder: Path) -> dict[str, Any]:
    return {
        "session": SQLiteSession("s", folder / "s.db"),
        "hooks": Watching(),
        "run_config": RunConfig(
            model_settings=ModelSettings(temperature=0.5),
            session_input_callback=_newest_first,
            tool_error_formatter=lambda args: args.default_message,
        ),
        "error_handlers": {"max_turns": _enough},
        "max_turns": 7,
    }


@row(36)
async def test_the_settings_that_the_run_has_may_be_passed_again(
    executor: Executor, tmp_path: Path
) -> None:
    model = ScriptedModel([_pay("c1", 5)], "Paid.")
    agent = Agent(name="A", tools=[Till().tool])
    result = await executor.execute(agent, model=model, **_settings(tmp_path))
    state = await executor.round_trip(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    result = await executor.resume(agent, state, **_settings(tmp_path))
    assert result.final_output == "Paid."


def _other_formatter(_args: Any) -> str:
    return ""


class OtherHooks(RunHooks[Any]): ...


OTHER_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"max_turns": 8}, r"differ: max_turns=8 \(the run has 7\)\. Pass the same or leave them out"),
    ({"max_turns": None}, r"max_turns=None \(the run has 7\)"),
    ({"hooks": OtherHooks()}, r"hooks='.*OtherHooks' \(the run has '.*Watching'\)"),
    ({"session": SQLiteSession("other")}, r"session= \(the run has another\)"),
    ({"error_handlers": {"max_turns": _other_formatter}}, "error_handlers="),
    ({"conversation_id": "conv_1"}, r"conversation_id='conv_1' \(the run has None\)"),
    ({"previous_response_id": "resp_1"}, r"previous_response_id='resp_1' \(the run has None\)"),
    ({"auto_previous_response_id": True}, r"auto_previous_response_id=True"),
    (
        {"run_config": RunConfig(model="other", tool_error_formatter=_other_formatter)},
        r"RunConfig\(model=\.\.\.\), RunConfig\(model_settings=.*RunConfig\(tool_error_formatter=",
    ),
    ({"run_config": {"tracing_disabled": True}}, r"RunConfig\(tracing_disabled="),
    ({"max_turns": 8, "hooks": OtherHooks()}, r"max_turns=8 .*, hooks="),
]


@row(36)
@pytest.mark.parametrize(
    ("other", "problem"), OTHER_SETTINGS, ids=[problem[:20] for _, problem in OTHER_SETTINGS]
)
async def test_settings_that_the_run_does_not_have_are_refused_by_name(
    executor: Executor, tmp_path: Path, other: dict[str, Any], problem: str
) -> None:
    till = Till()
    model = ScriptedModel([_pay("c1", 5)], "Paid.")
    agent = Agent(name="A", tools=[till.tool])
    result = await executor.execute(agent, model=model, **_settings(tmp_path))
    state = result.to_state()
    state.approve(result.interruptions[0])
    with pytest.raises(UserError, match=problem):
        await executor.resume(agent, state, **other)
    assert till.paid == []
    stream = await executor.resume_streamed(agent, state, **other)
    with pytest.raises(UserError, match=problem):
        [event async for event in stream.stream_events()]
    result = await executor.resume(agent, state)
    assert (result.final_output, till.paid) == ("Paid.", [5])


@row(36)
async def test_a_run_that_a_provider_keeps_may_be_resumed_with_the_response_it_began_with(
    executor: Executor,
) -> None:
    model = ScriptedModel([_pay("c1", 5)], "Paid.")
    agent = Agent(name="A", tools=[Till().tool])
    result = await executor.execute(agent, model=model, previous_response_id="resp_0")
    state = result.to_state()
    state.approve(result.interruptions[0])
    with pytest.raises(UserError, match=r"previous_response_id='resp_9' \(the run has 'resp_0'\)"):
        await executor.resume(agent, state, previous_response_id="resp_9")
    result = await executor.resume(
        agent, state, previous_response_id="resp_0", auto_previous_response_id=True
    )
    assert result.final_output == "Paid."


@row(55)
async def test_input_that_is_added_while_a_person_decides_comes_after_the_output(
    executor: Executor,
) -> None:
    till = Till()
    model = ScriptedModel([_pay("c1", 5)], "Paid, and yes.")
    agent = Agent(name="A", tools=[till.tool])
    result = await executor.execute(agent, model=model)
    state = result.to_state()
    state.add_input("And by card?")
    state.approve(result.interruptions[0])
    result = await executor.resume(agent, state)
    assert result.final_output == "Paid, and yes."
    expected = ["Hello", "function_call", "function_call_output", "And by card?"]
    assert shapes(model.requests[1].input) == expected
    assert shapes(result.to_input_list()) == [*expected, "Paid, and yes."]
    assert till.paid == [5]
