"""Whether a person decides about a call."""

from typing import Any

import pytest
from pydantic import BaseModel

from outlast.activities.approval_rule import OPEN, ApprovalRule, approval_rule_of
from outlast.agents.agent import Agent
from outlast.agents.machine.shell import ShellActionRequest, ShellTool
from outlast.agents.tools.custom import CustomTool
from outlast.agents.tools.function_tool import FunctionTool, function_tool
from outlast.loop.values import JsonObject
from outlast.testing import call, custom_call, shell_call
from tests.unit.activities.desk import invocation_of, raising

SHUT = ApprovalRule(needs_approval=True)


def paying(rule: Any) -> FunctionTool:
    @function_tool(needs_approval=rule)
    def pay(amount: int, reason: str = "") -> None:
        """Pay."""

    return pay


def shell(rule: Any = True, **options: Any) -> ShellTool:
    return ShellTool(lambda _request: "", needs_approval=rule, **options)


def query(_context: Any, text: str) -> str:
    return text


def querying(rule: Any) -> CustomTool:
    return CustomTool("sql", "", query, needs_approval=rule)


@pytest.mark.parametrize("rule", [True, False])
async def test_a_plain_rule_is_the_answer(*, rule: bool) -> None:
    pay = call("pay", "c1", amount=5)
    assert await approval_rule_of(paying(rule), pay, invocation_of()) == ApprovalRule(
        needs_approval=rule
    )


@pytest.mark.parametrize(
    ("make", "raw", "subject"),
    [
        (paying, call("pay", "c1", amount=5, reason="x"), {"amount": 5, "reason": "x"}),
        (shell, shell_call("c1", "ls"), ShellActionRequest(["ls"])),
        (
            querying,
            custom_call("sql", "c1", "SELECT"),
            "SELECT",
        ),
    ],
    ids=["function", "shell", "custom"],
)
async def test_a_predicate_is_asked_about_what_the_call_says(
    make: Any, raw: JsonObject, subject: Any
) -> None:
    asked: list[Any] = []

    async def rule(context: Any, subject: Any, call_id: str) -> bool:
        asked.append((context, subject, call_id))
        return True

    invocation = invocation_of()
    assert await approval_rule_of(make(rule), raw, invocation) == SHUT
    assert asked == [(invocation.wrapper, subject, "c1")]


async def test_a_predicate_that_would_not_see_everything_is_not_asked() -> None:
    tool = paying(raising(AssertionError()))
    gate = await approval_rule_of(tool, call("pay", "c1", amount=5), invocation_of())
    assert gate.needs_approval
    assert gate.reason == "The call leaves reason out, so a person decides."


async def test_a_predicate_that_would_see_something_else_than_the_function_is_not_asked() -> None:
    tool = paying(raising(AssertionError()))
    gate = await approval_rule_of(
        tool, call("pay", "c1", amount="500", reason="x"), invocation_of()
    )
    assert gate.needs_approval
    assert gate.reason == "The function parses amount differently, so a person decides."


async def test_nor_is_one_of_an_agent_that_works_as_a_tool() -> None:
    class Order(BaseModel):
        cancel: bool

    def rule(_context: Any, asked: Any, _call_id: str) -> bool:
        return asked["cancel"] is True

    clerk = Agent[Any](name="Clerk").as_tool("order", "", parameters=Order, needs_approval=rule)
    kept = call("order", "c1", cancel=False)
    assert await approval_rule_of(clerk, kept, invocation_of()) == OPEN
    gate = await approval_rule_of(clerk, call("order", "c1", cancel="yes"), invocation_of())
    assert (gate.needs_approval, gate.reason) == (
        True,
        "The function parses cancel differently, so a person decides.",
    )


async def test_a_predicate_is_not_asked_about_a_number_that_passes_any_limit() -> None:
    async def pay(_context: Any, arguments: str) -> str:
        return arguments

    schema: JsonObject = {"type": "object", "properties": {"amount": {"type": "number"}}}
    rule = raising(AssertionError())
    tool = FunctionTool("pay", "", schema, pay, strict_json_schema=False, needs_approval=rule)
    raw = {**call("pay", "c1"), "arguments": '{"amount": NaN}'}
    gate = await approval_rule_of(tool, raw, invocation_of())
    assert gate.reason == "The approval rule failed (ValueError), so a person decides."


async def test_a_rule_that_fails_shuts_the_gate() -> None:
    gate = await approval_rule_of(
        shell(raising(ValueError("secret"))), shell_call("c1", "ls"), invocation_of()
    )
    assert gate.needs_approval
    assert gate.reason == "The approval rule failed (ValueError), so a person decides."


@pytest.mark.parametrize(
    ("verdict", "gate"),
    [
        ({"approve": True}, OPEN),
        ({"approve": False}, ApprovalRule(is_refused=True)),
        ({"approve": False, "reason": "Never."}, ApprovalRule(is_refused=True, reason="Never.")),
        ({}, SHUT),
        ({"approve": "yes"}, SHUT),
        (None, SHUT),
        (True, SHUT),
    ],
)
async def test_a_tool_may_decide_instead_of_a_person(verdict: Any, gate: ApprovalRule) -> None:
    items: list[Any] = []

    def decide(context: Any, item: Any) -> Any:
        items.append((context, item))
        return verdict

    invocation = invocation_of()
    tool = shell(on_approval=decide, name="bash")
    assert await approval_rule_of(tool, shell_call("c1", "ls"), invocation) == gate
    ((context, item),) = items
    assert context is invocation.wrapper
    assert (item.agent, item.tool_name, item.call_id) == (invocation.agent, "bash", "c1")
    assert item.raw_item.action.commands == ["ls"]


async def test_it_is_not_asked_about_what_needs_no_approval() -> None:
    tool = shell(rule=False, on_approval=raising(AssertionError()))
    assert await approval_rule_of(tool, shell_call("c1", "ls"), invocation_of()) == OPEN


async def test_one_that_fails_leaves_it_to_a_person() -> None:
    def decide(_context: Any, _item: Any) -> Any:
        raise KeyError("x")

    gate = await approval_rule_of(
        shell(on_approval=decide), shell_call("c1", "ls"), invocation_of()
    )
    assert gate == ApprovalRule(
        needs_approval=True, reason="on_approval failed (KeyError), so a person decides."
    )


@pytest.mark.parametrize("name", ["bash", "other"])
async def test_nobody_is_asked_about_a_tool_for_which_a_person_has_decided(name: str) -> None:
    asked: list[str] = []

    def rule(*_asked: Any) -> bool:
        asked.append("rule")
        return True

    def decide(*_asked: Any) -> dict[str, bool]:
        asked.append("on_approval")
        return {"approve": True}

    invocation = invocation_of()
    invocation.decided = (name,)
    gate = await approval_rule_of(
        shell(rule, on_approval=decide, name="bash"), shell_call("c1", "ls"), invocation
    )
    is_decided = name == "bash"
    assert gate == (ApprovalRule(needs_approval=True, is_decided=True) if is_decided else OPEN)
    assert asked == ([] if is_decided else ["rule", "on_approval"])
