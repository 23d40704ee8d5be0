"""`run_in_memory`: the same loop and effects as on a server, as a function."""

import json
from dataclasses import dataclass
from typing import Any, cast

import pytest

from outlast import (
    Agent,
    DecisionRefused,
    FunctionToolResult,
    MaxTurnsExceeded,
    ModelCallFailed,
    RunConfig,
    RunHooks,
    RunState,
    ToolContext,
    ToolFailed,
    ToolsToFinalOutputResult,
    UserError,
    WebSearchTool,
    function_tool,
    handoff,
)
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.tools.definition import (
    ToolRetry,
)
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.ports.model import ModelError
from outlast.testing import ScriptedModel, call, refuse, run_in_memory


@dataclass
class Notes:
    seen: list[str]


@function_tool
async def note(ctx: ToolContext[Notes], text: str) -> str:
    """Note something."""
    ctx.context.seen.append(text)
    return f"noted {text}"


@function_tool(needs_approval=True)
async def refund(ctx: ToolContext[Notes], amount: int) -> str:
    """Pay back."""
    return f"paid {amount} as {ctx.idempotency_key}"


async def test_an_answer_without_tools() -> None:
    result = await run_in_memory(Agent(name="A"), "hi", model=ScriptedModel("hello"))
    assert (result.final_output, result.status, result.turns) == ("hello", "completed", 1)


async def test_parallel_tools_write_into_one_context_in_the_order_of_the_calls() -> None:
    model = ScriptedModel([call("note", "c1", text="a"), call("note", "c2", text="b")], "done")
    result = await run_in_memory(
        Agent(name="A", tools=[note]), "hi", model=model, context=Notes(seen=["0"])
    )
    assert result.context == {"seen": ["0", "a", "b"]}
    assert result.context_as(Notes) == Notes(seen=["0", "a", "b"])
    assert [item.get("output") for item in model.requests[1].input[-2:]] == ["noted a", "noted b"]


async def test_a_handoff_switches_the_agent_and_its_callback_changes_the_context() -> None:
    def taken_over(ctx: RunContextWrapper[Notes]) -> None:
        ctx.context.seen.append("handed over")

    billing = Agent(name="Billing", tools=[note])
    triage = Agent(name="Triage", handoffs=[handoff(billing, on_handoff=taken_over)])
    model = ScriptedModel([call("transfer_to_billing", "c1")], "Billing here.")
    result = await run_in_memory(triage, "hi", model=model, context=Notes(seen=[]))
    assert (result.last_agent.name, result.final_output) == ("Billing", "Billing here.")
    assert result.context == {"seen": ["handed over"]}


async def test_without_a_person_the_run_returns_where_one_is_needed() -> None:
    model = ScriptedModel([call("refund", "c1", amount=5)])
    result = await run_in_memory(Agent(name="A", tools=[refund]), "hi", model=model)
    assert result.status == "waiting"
    assert [request.name for request in result.interruptions] == ["refund"]


async def test_what_was_said_to_a_run_that_waits_is_said_once() -> None:
    agent = Agent(name="A", tools=[refund])
    model = ScriptedModel([call("refund", "c1", amount=5)], "Quickly done.")
    state = (await run_in_memory(agent, "hi", model=model)).to_state()
    state.approve(state.get_interruptions()[0])
    state.add_input("Quickly, please.")
    result = await run_in_memory(agent, state, model=model)
    assert [item.get("content") for item in model.requests[1].input].count("Quickly, please.") == 1
    assert (result.final_output, state.pending_input) == ("Quickly done.", [])


async def test_the_objects_that_a_run_was_started_with_are_there_when_it_goes_on() -> None:
    heard: list[Any] = []

    class Hooks(RunHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            heard.append(result)

    agent = Agent(name="A", tools=[refund])
    model = ScriptedModel([call("refund", "c1", amount=5)], "done")
    state = (await run_in_memory(agent, "hi", model=model, hooks=Hooks())).to_state()
    state.approve(state.get_interruptions()[0])
    assert (await run_in_memory(agent, state, model=model)).final_output == "done"
    assert heard == ["paid 5 as in-memory:c1"]


@pytest.mark.parametrize(
    ("decision", "output"),
    [(True, "paid 5 as in-memory:c1"), ("too much", "too much"), (False, None)],
)
async def test_a_person_decides(decision: bool | str, output: str | None) -> None:
    asked: list[ApprovalRequest] = []

    def decide(request: ApprovalRequest) -> bool | str:
        asked.append(request)
        return decision

    model = ScriptedModel([call("refund", "c1", amount=5)], "done")
    await run_in_memory(Agent(name="A", tools=[refund]), "hi", model=model, decide=decide)
    assert [json.loads(request.arguments) for request in asked] == [{"amount": 5}]
    told = model.requests[1].input[-1]["output"]
    assert told == output if output else "must not run" in told


@pytest.mark.parametrize(
    ("choice", "output"),
    [
        ({"type": "edit", "edited_arguments": {"amount": 3}}, "paid 3 as in-memory:c1"),
        ({"type": "respond", "response": "Paid by hand."}, "Paid by hand."),
    ],
)
async def test_a_person_edits_a_call_or_answers_in_its_place(
    choice: dict[str, Any], output: str
) -> None:
    def decide(request: ApprovalRequest) -> Decision:
        return Decision(request_id=request.id, by="ann", **choice)

    model = ScriptedModel([call("refund", "c1", amount=5)], "done")
    await run_in_memory(Agent(name="A", tools=[refund]), "hi", model=model, decide=decide)
    assert any(output in str(item.get("output")) for item in model.requests[1].input)


async def test_a_decision_that_does_not_apply_is_refused_as_on_a_server() -> None:
    def decide(_request: ApprovalRequest) -> Decision:
        return Decision(request_id="a9", type="approve", by="ann")

    model = ScriptedModel([call("refund", "c1", amount=5)], "done")
    agent = Agent(name="A", tools=[refund])
    with pytest.raises(DecisionRefused, match=r"no approval 'a9'. Pending: a1"):
        await run_in_memory(agent, "hi", model=model, decide=decide)


async def test_a_tool_that_fails_is_tried_again_under_the_same_key() -> None:
    keys: list[tuple[int, str]] = []

    @function_tool(retry=ToolRetry(attempts=3))
    async def flaky(ctx: ToolContext[Notes]) -> str:
        """Fail twice."""
        keys.append((ctx.attempt, ctx.idempotency_key))
        if ctx.attempt < 3:
            raise ConnectionError("down")
        return "up"

    model = ScriptedModel([call("flaky", "c1")], "done")
    await run_in_memory(Agent(name="A", tools=[flaky]), "hi", model=model)
    assert keys == [(attempt, "in-memory:c1") for attempt in (1, 2, 3)]
    assert model.requests[1].input[-1]["output"] == "up"


async def test_a_failure_that_the_model_may_not_know_ends_the_run_and_stops_the_others() -> None:
    @function_tool(failure_error_function=None)
    async def fatal() -> str:
        """Fail."""
        raise TypeError("broken")

    model = ScriptedModel([call("fatal", "c1"), call("note", "c2", text="x")])
    with pytest.raises(ToolFailed, match="fatal raised TypeError: broken"):
        await run_in_memory(Agent(name="A", tools=[fatal, note]), "hi", model=model)


async def test_the_failure_of_a_run_that_a_tool_started_keeps_its_class() -> None:
    @function_tool(failure_error_function=None)
    async def ask_expert() -> str:
        """Ask."""
        raise MaxTurnsExceeded("The expert has no answer.")

    model = ScriptedModel([call("ask_expert", "c1")])
    with pytest.raises(MaxTurnsExceeded, match="ask_expert raised MaxTurnsExceeded: The expert"):
        await run_in_memory(Agent(name="A", tools=[ask_expert]), "hi", model=model)


async def test_failures_of_the_model_are_retried_or_raised() -> None:
    again = ModelError("busy", code="overloaded", retryable=True)
    never = ModelError("no key", code="no_api_key", retryable=False)
    result = await run_in_memory(Agent(name="A"), "hi", model=ScriptedModel(again, again, "ok"))
    assert result.final_output == "ok"
    with pytest.raises(ModelCallFailed, match="no key"):
        await run_in_memory(Agent(name="A"), "hi", model=ScriptedModel(never))
    with pytest.raises(ModelCallFailed, match="busy"):
        await run_in_memory(Agent(name="A"), "hi", model=ScriptedModel(always=again))


async def test_errors_are_those_of_a_run_on_a_server() -> None:
    endless = ScriptedModel(always=lambda r: [call("nothing", f"c{len(r.input)}")])
    with pytest.raises(MaxTurnsExceeded) as caught:
        await run_in_memory(Agent(name="A"), "hi", model=endless, max_turns=2)
    assert caught.value.run_data.turns == endless.calls == 2

    def five(_ctx: object, _agent: object) -> int:
        return 5

    bad = Agent(name="A", instructions=cast("str", five))
    with pytest.raises(UserError, match="instructions of agent 'A' returned int"):
        await run_in_memory(bad, "hi", model=ScriptedModel("x"))


async def test_run_settings_reach_the_model() -> None:
    model = ScriptedModel("ok")
    config = RunConfig(model="special")
    await run_in_memory(Agent(name="A", model="usual"), "hi", model=model, run_config=config)
    assert model.names == ["special"]


async def test_a_refusal_is_an_error() -> None:
    from outlast import ModelRefusalError

    with pytest.raises(ModelRefusalError, match="I will not"):
        await run_in_memory(Agent(name="A"), "hi", model=ScriptedModel(refuse("I will not")))


async def test_the_programs_own_context_is_told_what_the_run_made_of_it() -> None:
    agent = Agent(name="A", tools=[note])
    notes = Notes(seen=[])
    for text in ("first", "second"):
        model = ScriptedModel([call("note", "c1", text=text)], "done")
        await run_in_memory(agent, "hi", model=model, context=notes)
    assert notes == Notes(seen=["first", "second"])


async def test_a_failed_run_tells_it_too() -> None:
    notes = Notes(seen=[])
    model = ScriptedModel([call("note", "c1", text="a")])
    with pytest.raises(MaxTurnsExceeded):
        await run_in_memory(
            Agent(name="A", tools=[note]), "hi", model=model, context=notes, max_turns=1
        )
    assert notes == Notes(seen=["a"])


async def test_a_rule_for_the_answer_gets_what_the_tools_returned() -> None:
    @function_tool
    def whoami() -> Notes:
        return Notes(seen=["me"])

    def judge(context: object, results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
        return ToolsToFinalOutputResult(
            is_final_output=True, final_output=results[0].output.seen[0]
        )

    agent = Agent(name="A", tools=[whoami], tool_use_behavior=judge)
    result = await run_in_memory(agent, "hi", model=ScriptedModel([call("whoami", "c1")]))
    assert result.final_output == "me"


async def test_hosted_tools_reach_the_model() -> None:
    model = ScriptedModel("hello")
    await run_in_memory(Agent(name="A", tools=[note, WebSearchTool()]), "hi", model=model)
    (request,) = model.requests
    assert [tool.name for tool in request.tools] == ["note"]
    assert [tool.name for tool in request.hosted_tools] == ["web_search"]


async def test_a_stored_state_without_its_nested_run_says_so() -> None:
    outer = Agent("Outer", tools=[Agent("Inner", tools=[refund]).as_tool("ask_inner", "Ask.")])
    model = ScriptedModel(
        [call("ask_inner", "c1", input="?")], [call("refund", "n1", amount=5)], "inner", "outer"
    )
    result = await run_in_memory(outer, "Pay", model=model)
    stored = await RunState.from_string(outer, result.to_state().to_string())
    stored.approve(stored.get_interruptions()[0])
    with pytest.raises(
        UserError, match=r"nested run in-memory/ask_inner-3, .*to_state.*Runner\.run"
    ):
        await run_in_memory(outer, stored, model=model)
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    assert (await run_in_memory(outer, state, model=model)).final_output == "outer"
