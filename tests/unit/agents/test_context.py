"""What a callable is given."""

import copy
from dataclasses import replace
from typing import Any, cast

import pytest
from openai.types.responses import ResponseFunctionToolCall
from pydantic import BaseModel, TypeAdapter

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext, show_turn
from outlast.agents.errors import UserError
from outlast.agents.usage import Usage


def test_a_context_can_be_made_by_hand_in_a_users_test() -> None:
    wrapper = RunContextWrapper(context={"n": 1})
    assert (wrapper.context, wrapper.usage, wrapper.run_id, wrapper.turn) == (
        {"n": 1},
        Usage(),
        "",
        0,
    )


def test_the_application_s_object_may_be_given_by_place() -> None:
    wrapper = RunContextWrapper({"n": 1}, turn=2)
    assert (wrapper.context, wrapper.turn) == ({"n": 1}, 2)
    assert (wrapper.turn_input, wrapper.tool_input) == ([], None)
    context = ToolContext(None, tool_name="t", tool_call_id="c", tool_arguments="{}")
    assert (context.context, context.agent, context.run_config) == (None, None, None)


def test_a_tools_context_is_a_context() -> None:
    agent = Agent[Any](name="A")
    context = ToolContext(
        context=None, tool_name="look_up", tool_call_id="c1", tool_arguments="{}", agent=agent
    )
    assert isinstance(context, RunContextWrapper)
    assert (context.attempt, context.idempotency_key, context.tool_call) == (1, "", None)
    assert (context.tool_namespace, context.qualified_tool_name) == (None, "look_up")
    context.tool_namespace = "orders"
    assert context.qualified_tool_name == "orders.look_up"


def test_contexts_do_not_share_what_can_change() -> None:
    agent = Agent[Any](name="A")

    def one() -> ToolContext[Any]:
        return ToolContext(
            context=None, tool_name="t", tool_call_id="c", tool_arguments="", agent=agent
        )

    first, second = one(), one()
    first.turn_input.append({})
    assert second.turn_input == []


def test_what_a_run_is_asked_is_copied_once_when_somebody_looks() -> None:
    shown: list[Any] = [{"role": "user", "content": "Hello"}]
    wrapper = RunContextWrapper(context=None)
    show_turn(wrapper, lambda: shown)
    assert copy.copy(wrapper).turn_input == wrapper.turn_input == shown
    wrapper.turn_input[0]["content"] = "***"
    assert wrapper.turn_input[0]["content"] == "***"
    assert shown[0]["content"] == "Hello"
    assert not hasattr(wrapper, "something_else")


def test_what_nobody_looks_at_is_not_copied() -> None:
    wrapper = RunContextWrapper(context=None)
    show_turn(wrapper, lambda: cast("Any", [object()]))  # it could not be
    assert wrapper.turn == 0
    with pytest.raises(TypeError):
        _ = wrapper.turn_input


def test_a_tools_call_is_the_typed_object_that_programs_know() -> None:
    raw = {"type": "function_call", "name": "t", "call_id": "c", "arguments": "{}"}
    context = ToolContext(None, tool_name="t", tool_call_id="c", tool_arguments="{}", tool_call=raw)
    assert isinstance(context.tool_call, ResponseFunctionToolCall)
    assert (context.tool_call.name, context.tool_call.call_id) == ("t", "c")
    assert replace(context, tool_call=None).tool_call is None


def test_a_context_can_be_subscripted_with_the_type_of_the_application() -> None:
    assert RunContextWrapper[int](context=5).context == 5


def test_a_running_callable_does_not_decide_about_calls() -> None:
    for wrapper in (RunContextWrapper({"n": 1}, run_id="r"), RunContextWrapper(None)):
        for decide in (wrapper.approve_tool, wrapper.reject_tool):
            with pytest.raises(UserError, match="People decide"):
                decide(cast("Any", None))
        assert wrapper.is_tool_approved("refund", "c1") is None
        assert wrapper.get_rejection_message("refund", "c1") is None


def test_a_tool_context_is_made_of_a_run_context_and_a_call() -> None:
    call = {"type": "function_call", "name": "refund", "call_id": "c1", "arguments": '{"n": 1}'}
    usage, desk = Usage(requests=1), Agent(name="Desk")
    made = ToolContext.from_agent_context(
        RunContextWrapper("app", usage), "c1", {**call, "namespace": "shop"}, desk
    )
    assert (made.context, made.usage, made.agent) == ("app", usage, desk)
    assert (made.qualified_tool_name, made.tool_arguments) == ("shop.refund", '{"n": 1}')
    assert ToolContext.from_agent_context(made, "c2", call).agent is desk
    with pytest.raises(UserError, match="tool_name="):
        ToolContext.from_agent_context(made, "c3")
    with pytest.raises(TypeError, match="tool_name="):
        ToolContext(None)


def test_a_tool_knows_whether_a_person_let_its_call_run() -> None:
    context = ToolContext(
        None, tool_name="refund", tool_call_id="c1", tool_arguments="{}", approved=True
    )
    assert context.is_tool_approved("refund", "c1") is True
    assert context.is_tool_approved("refund", "c2") is None
    plain = ToolContext(None, tool_name="refund", tool_call_id="c1", tool_arguments="{}")
    assert plain.is_tool_approved("refund", "c1") is None


def test_contexts_are_told_apart_and_can_be_keys() -> None:
    one, other = RunContextWrapper(1), RunContextWrapper(1)
    assert one != other
    assert {one: "a", other: "b"}[one] == "a"
    tools = ToolContext(None, tool_name="t", tool_call_id="c", tool_arguments="{}")
    assert {tools: 1}[tools] == 1


def test_pydantic_takes_contexts() -> None:
    """Programs put them into models and validated functions, as with the SDK."""

    class Step(BaseModel):
        ctx: RunContextWrapper[int]
        call: ToolContext[int] | None = None

    wrapper = RunContextWrapper(3)
    assert Step(ctx=wrapper).ctx is wrapper
    assert TypeAdapter(RunContextWrapper[int]).validate_python({"context": 3}).context == 3
    assert "usage" in TypeAdapter(RunContextWrapper).json_schema()["properties"]
    raw = {"type": "function_call", "name": "t", "call_id": "c", "arguments": "{}"}
    made = ToolContext(3, tool_name="t", tool_call_id="c", tool_arguments="{}", tool_call=raw)
    assert isinstance(made.tool_call, ResponseFunctionToolCall)
