"""Handoffs: rows 9 and 11 to 19 of the table."""

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from pydantic import BaseModel

from outlast import (
    Agent,
    ModelBehaviorError,
    RunConfig,
    RunContextWrapper,
    UserError,
    function_tool,
    handoff,
)
from outlast.testing import ScriptedModel, call, say
from outlast.testing.scripted_model import raw_call
from tests.conformance.executors import Executor, row
from tests.conformance.views import (
    HANDOFF_CALL,
    HANDOFF_OUTPUT,
    MESSAGE,
    TOOL_CALL,
    TOOL_OUTPUT,
    asked,
    kinds,
    offered,
    outputs,
    shapes,
)

TO_BILLING = "transfer_to_billing"


class Reason(BaseModel):
    text: str
    priority: int


@function_tool
async def look_up() -> str:
    return "found"


@row(9)
async def test_the_agent_that_took_over_gives_the_answer(executor: Executor) -> None:
    billing = Agent(name="Billing", instructions="Bill.", handoff_description="Money.")
    triage = Agent(name="Triage", instructions="Sort.", handoffs=[billing])
    model = ScriptedModel([*say("One moment."), call(TO_BILLING, "h1")], "It is paid.")
    result = await executor.execute(triage, model=model)
    assert result.final_output == "It is paid."
    assert result.last_agent is billing
    assert len(result.raw_responses) == 2
    assert kinds(result) == [MESSAGE, HANDOFF_CALL, HANDOFF_OUTPUT, MESSAGE]
    handed_over = result.new_items[2]
    assert (handed_over.source_agent.name, handed_over.target_agent.name) == ("Triage", "Billing")
    assert [request.instructions for request in model.requests] == ["Sort.", "Bill."]
    (spec,) = model.requests[0].tools
    assert spec.name == TO_BILLING
    assert spec.description.endswith("Money.")
    assert json.loads(outputs(model.requests[1])["h1"]) == {"assistant": "Billing"}


@row(11)
async def test_of_several_handoffs_the_first_in_the_reply_wins(executor: Executor) -> None:
    called: list[str] = []

    def noting(name: str) -> Callable[[RunContextWrapper[Any]], None]:
        def on_handoff(_context: RunContextWrapper[Any]) -> None:
            called.append(name)

        return on_handoff

    orders, billing = Agent(name="Orders"), Agent(name="Billing")
    triage = Agent(
        name="Triage",
        handoffs=[
            handoff(orders, on_handoff=noting("orders")),
            handoff(billing, on_handoff=noting("billing")),
        ],
    )
    model = ScriptedModel([call(TO_BILLING, "h1"), call("transfer_to_orders", "h2")], "Paid.")
    result = await executor.execute(triage, model=model)
    assert result.last_agent.name == "Billing"
    assert called == ["billing"]
    told = outputs(model.requests[1])
    assert list(told) == ["h2", "h1"]
    assert "ignor" in told["h2"].lower()
    assert json.loads(told["h1"]) == {"assistant": "Billing"}


@row(12)
@pytest.mark.parametrize("tool_first", [True, False])
async def test_tools_of_the_same_reply_run_before_the_handoff(
    executor: Executor, tool_first: bool
) -> None:
    triage = Agent(name="Triage", tools=[look_up], handoffs=[Agent(name="Billing")])
    calls = [call("look_up", "c1"), call(TO_BILLING, "h1")]
    model = ScriptedModel(calls if tool_first else calls[::-1], "Paid.")
    result = await executor.execute(triage, model=model)
    assert list(outputs(model.requests[1])) == ["c1", "h1"]
    assert kinds(result)[2:] == [TOOL_OUTPUT, HANDOFF_OUTPUT, MESSAGE]
    assert sorted(kinds(result)[:2]) == [HANDOFF_CALL, TOOL_CALL]


@row(13)
async def test_text_beside_a_handoff_is_not_the_answer(executor: Executor) -> None:
    triage = Agent(name="Triage", handoffs=[Agent(name="Billing")])
    model = ScriptedModel([call(TO_BILLING, "h1"), *say("This is final.")], "Paid.")
    result = await executor.execute(triage, model=model)
    assert (result.final_output, result.last_agent.name) == ("Paid.", "Billing")
    assert shapes(model.requests[1].input).count("This is final.") == 1


@row(14)
@pytest.mark.parametrize(
    "arguments",
    ['{"text": "late", "priority": "1"}', '{"text": "late"}', "", "{not json"],
    ids=["text for a number", "missing", "empty", "no JSON"],
)
async def test_a_payload_that_does_not_fit_ends_the_run(executor: Executor, arguments: str) -> None:
    called: list[Reason] = []

    def on_handoff(_context: RunContextWrapper[Any], reason: Reason) -> None:
        called.append(reason)

    billing = Agent(name="Billing")
    entry = handoff(billing, on_handoff=on_handoff, input_type=Reason)
    model = ScriptedModel([raw_call(TO_BILLING, "h1", arguments)], "never")
    with pytest.raises(ModelBehaviorError):
        await executor.execute(Agent(name="Triage", handoffs=[entry]), model=model)
    assert (model.calls, called) == (1, [])


@row(14)
async def test_a_payload_that_fits_reaches_the_callback_in_its_type(executor: Executor) -> None:
    called: list[Reason] = []

    async def on_handoff(_context: RunContextWrapper[Any], reason: Reason) -> None:
        called.append(reason)

    entry = handoff(Agent(name="Billing"), on_handoff=on_handoff, input_type=Reason)
    reply = [call(TO_BILLING, "h1", text="late", priority=1, mood="the model may add this")]
    model = ScriptedModel(reply, "Paid.")
    result = await executor.execute(Agent(name="Triage", handoffs=[entry]), model=model)
    assert result.final_output == "Paid."
    assert called == [Reason(text="late", priority=1)]
    assert set(model.requests[0].tools[0].parameters["properties"]) == {"text", "priority"}


@row(15)
async def test_a_callback_has_as_many_parameters_as_it_is_called_with(executor: Executor) -> None:
    def none() -> None: ...

    def one(_context: RunContextWrapper[Any]) -> None: ...

    def two(_context: RunContextWrapper[Any], _payload: Reason) -> None: ...

    billing = Agent(name="Billing")
    wrong: list[dict[str, Any]] = [
        {"on_handoff": none},
        {"on_handoff": two},
        {"on_handoff": one, "input_type": Reason},
        {"input_type": Reason},
    ]
    for options in wrong:
        with pytest.raises(UserError):
            handoff(billing, **options)
    right: list[Any] = [
        handoff(billing, on_handoff=one),
        handoff(
            billing, on_handoff=two, input_type=Reason, tool_name_override="transfer_for_a_reason"
        ),
    ]
    model = ScriptedModel([call("transfer_for_a_reason", "h1", text="late", priority=1)], "Paid.")
    result = await executor.execute(Agent(name="Triage", handoffs=right), model=model)
    assert result.final_output == "Paid."


@row(16)
async def test_only_enabled_handoffs_reach_the_model(executor: Executor) -> None:
    asked_for: list[str] = []

    def yes(_context: RunContextWrapper[Any], agent: Agent[Any]) -> bool:
        asked_for.append(agent.name)
        return True

    async def no(_context: RunContextWrapper[Any], _agent: Agent[Any]) -> bool:
        return False

    choices: dict[str, Any] = {"A": True, "B": False, "C": yes, "D": no}
    triage = Agent(
        name="Triage",
        tools=[look_up],
        handoffs=[handoff(Agent(name=name), is_enabled=choice) for name, choice in choices.items()],
    )
    model = ScriptedModel([call("look_up", "c1")], "done")
    await executor.execute(triage, model=model)
    for request in model.requests:
        assert offered(request) == ["look_up", "transfer_to_a", "transfer_to_c"]
    assert set(asked_for) == {"Triage"}
    assert len(asked_for) >= 2, "it is asked before every model call"


@row(17)
async def test_a_filter_decides_what_the_next_agent_sees(executor: Executor) -> None:
    seen: list[Any] = []

    def only_this(data: Any) -> Any:
        seen.append(data)
        return data.clone(input_history="Only this.", pre_handoff_items=(), new_items=())

    billing = Agent(name="Billing")
    triage = Agent(
        name="Triage", tools=[look_up], handoffs=[handoff(billing, input_filter=only_this)]
    )
    model = ScriptedModel([call("look_up", "c1")], [call(TO_BILLING, "h1")], "Paid.")
    result = await executor.execute(triage, model=model)
    assert shapes(model.requests[2].input) == ["Only this."]
    data = seen[0]
    assert data.input_history == "Hello"
    assert [item.type for item in data.pre_handoff_items] == [TOOL_CALL, TOOL_OUTPUT]
    assert [item.type for item in data.new_items] == [HANDOFF_CALL, HANDOFF_OUTPUT]
    # The items of the handoff's turn are gone, those of the turns before stay with the result.
    assert kinds(result) == [TOOL_CALL, TOOL_OUTPUT, MESSAGE]
    assert asked(result) == ["Only this."]
    assert shapes(result.to_input_list(mode="normalized")) == ["Only this.", "Paid."]


@pytest.mark.smoke
@row(17)
async def test_what_only_the_model_may_not_see_stays_in_the_result(executor: Executor) -> None:
    def without_the_handoff(data: Any) -> Any:
        return data.clone(input_items=())

    entry = handoff(Agent(name="Billing"), input_filter=without_the_handoff)
    model = ScriptedModel([*say("One moment."), call(TO_BILLING, "h1")], "Paid.")
    result = await executor.execute(Agent(name="Triage", handoffs=[entry]), model=model)
    assert shapes(model.requests[1].input) == ["Hello"]
    assert kinds(result) == [MESSAGE, HANDOFF_CALL, HANDOFF_OUTPUT, MESSAGE]


@row(17)
async def test_all_tools_can_be_left_out(executor: Executor) -> None:
    filters = import_module("outlast.extensions.handoff_filters")
    entry = handoff(Agent(name="Billing"), input_filter=filters.remove_all_tools)
    triage = Agent(name="Triage", tools=[look_up], handoffs=[entry])
    model = ScriptedModel(
        [call("look_up", "c1")], [*say("One moment."), call(TO_BILLING, "h1")], "Paid."
    )
    await executor.execute(triage, model=model)
    assert shapes(model.requests[2].input) == ["Hello", "One moment."]


@row(18)
async def test_what_is_no_filter_is_refused(executor: Executor) -> None:
    no_filter: Any = "all"

    async def run() -> None:
        entry = handoff(Agent(name="Billing"), input_filter=no_filter)
        triage = Agent(name="Triage", handoffs=[entry])
        await executor.execute(triage, model=ScriptedModel([call(TO_BILLING, "h1")], "Paid."))

    with pytest.raises(UserError):
        await run()


@row(18)
@pytest.mark.parametrize("of_the_run", [True, False])
async def test_a_filter_that_returns_something_else_is_refused(
    executor: Executor, of_the_run: bool
) -> None:
    def wrong(data: Any) -> Any:
        return list(data.new_items)

    entry = handoff(Agent(name="Billing"), input_filter=None if of_the_run else wrong)
    config = RunConfig(handoff_input_filter=wrong if of_the_run else None)
    model = ScriptedModel([call(TO_BILLING, "h1")], "Paid.")
    with pytest.raises(UserError, match="list"):
        await executor.execute(
            Agent(name="Triage", handoffs=[entry]), model=model, run_config=config
        )
    assert model.calls == 1


@row(19)
@pytest.mark.parametrize("has_its_own", [True, False])
async def test_a_handoffs_own_filter_comes_before_the_runs(
    executor: Executor, has_its_own: bool
) -> None:
    called: list[str] = []

    async def own(data: Any) -> Any:
        called.append("own")
        return data

    def of_the_run(data: Any) -> Any:
        called.append("run")
        return data

    entry = handoff(Agent(name="Billing"), input_filter=own if has_its_own else None)
    model = ScriptedModel([call(TO_BILLING, "h1")], "Paid.")
    config = RunConfig(handoff_input_filter=of_the_run)
    result = await executor.execute(
        Agent(name="Triage", handoffs=[entry]), model=model, run_config=config
    )
    assert result.final_output == "Paid."
    assert called == ["own" if has_its_own else "run"]
