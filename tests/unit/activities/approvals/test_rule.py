"""Whether a person decides about a call."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from outlast.activities.approvals import rule as rules
from outlast.activities.invocation import Invocation
from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.handoffs.handoff import handoff
from outlast.agents.tools.custom import CustomTool
from outlast.agents.tools.definition import (
    FunctionTool,
)
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.tools.hosted import HostedMCPTool
from outlast.extensions.machine.shell import ShellActionRequest, ShellTool
from outlast.loop.approvals import ApprovalTerms, terms_digest
from outlast.loop.approvals import Audience as AudienceRecord
from outlast.loop.canonical import digest_of
from outlast.loop.values import JsonObject
from outlast.testing import call, custom_call, shell_call
from tests.unit.activities.desk import invocation_of, raising


@dataclass(frozen=True)
class Told:
    """What a policy says of a call, in one record for tests to compare."""

    needs_approval: bool = False
    reason: str | None = None
    terms: ApprovalTerms = field(default_factory=ApprovalTerms)
    schema: Any = None
    is_refused: bool = False


def told(ruling: rules.Ruling) -> Told:
    if isinstance(ruling, rules.Refusal):
        return Told(is_refused=True, reason=ruling.reason)
    if ruling is None:
        return Told()
    return Told(needs_approval=True, reason=ruling.reason, terms=ruling.terms, schema=ruling.schema)


async def approval_rule_of(*given: Any) -> Told:
    return told(await rules.approval_rule_of(*given))


async def hosted_approval_rule(*given: Any) -> Told:
    return told(await rules.hosted_approval_rule(*given))


async def handoff_rule(*given: Any) -> Told:
    return told(await rules.handoff_rule(*given))


async def answer_rule(*given: Any) -> Told:
    return told(await rules.answer_rule(*given))


SHUT = Told(needs_approval=True, terms=ApprovalTerms(allow=("approve", "reject")))
"""The rule of a gated call of a tool with its own item type: nothing in it can be edited."""


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
    tool = paying(rule)
    schema = tool.params_json_schema if rule else None
    assert await approval_rule_of(tool, pay, invocation_of()) == Told(
        needs_approval=rule, schema=schema
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
    gate = await approval_rule_of(make(rule), raw, invocation)
    assert (gate.needs_approval, gate.reason) == (True, None)
    assert asked == [(invocation.wrapper, subject, "c1")]


async def test_a_predicate_sees_the_defaults_of_arguments_that_a_call_leaves_out() -> None:
    asked: list[Any] = []

    def rule(_context: Any, given: Any, _call_id: str) -> None:
        asked.append(given)

    tool = paying(rule)
    gate = await approval_rule_of(tool, call("pay", "c1", amount=5), invocation_of())
    assert (gate, asked) == (Told(), [{"amount": 5, "reason": ""}])


async def test_a_predicate_that_would_not_see_everything_is_not_asked() -> None:
    @function_tool(needs_approval=raising(AssertionError()))
    def pay(amount: int, at: Annotated[str, Field(default_factory=str)]) -> None:
        """Pay."""

    gate = await approval_rule_of(pay, call("pay", "c1", amount=5), invocation_of())
    assert gate.needs_approval
    assert gate.reason == "The call leaves at out, so a person decides."


def returning(value: Any) -> Any:
    def binds(_context: Any) -> Any:
        return value

    return binds


@pytest.mark.parametrize(
    ("binds", "redact", "words", "is_read"),
    [
        (returning({"payee": "Alice", "limit": 5}), (), 'The decision is for payee "Alice", limit 5.', True),
        (returning({"payee": "Alice"}), ("payee",), 'The decision is for payee "[redacted]".', True),
        (returning({}), (), None, True),
        (raising(KeyError()), (), "could not be read from the context (KeyError).", False),
        (returning(5), (), "could not be read from the context (AttributeError).", False),
        (returning({"payee": object()}), (), "could not be read from the context (TypeError).", False),
        (returning({"payee": "\u202eecilA"}), (), 'payee "\\u202eecilA"', True),
    ],
)  # fmt: skip
async def test_a_decision_is_for_values_of_the_context(
    binds: Any, redact: Any, words: str | None, *, is_read: bool
) -> None:
    @function_tool(needs_approval=ApprovalPolicy(binds=binds, redact=redact))
    def pay(amount: int, payee: str = "") -> None:
        """Pay."""

    gate = await approval_rule_of(pay, call("pay", "c1", amount=5), invocation_of())
    assert gate.needs_approval
    assert gate.reason == words or str(words) in str(gate.reason)
    unread = ApprovalPolicy(binds=binds).terms()
    assert gate.terms.bound
    assert terms_digest(gate.terms) != terms_digest(unread)
    assert is_read == (gate.terms.bound != digest_of(None))


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("when", "given", "is_gated"),
    [
        ("amount > 200", {}, False),
        ("amount > 200", {"amount": None}, False),
        ("amount > 200", {"amount": 201}, True),
        ("amount == null or amount > 200", {}, True),
        ("currency == 'EUR'", {}, True),
        ("currency == 'EUR'", {"currency": "USD"}, False),
    ],
)
async def test_a_condition_judges_an_argument_that_is_left_out_by_its_default(
    when: str, given: JsonObject, *, strict: bool, is_gated: bool
) -> None:
    @function_tool(strict_mode=strict)
    def pay(order: str, amount: float | None = None, currency: str = "EUR") -> None:
        """Pay."""

    invocation = under(f'[tool.pay]\nwhen = "{when}"')
    gate = await approval_rule_of(pay, call("pay", "c1", order="A-1", **given), invocation)
    assert (gate.needs_approval, gate.reason) == (is_gated, None)


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
    assert await approval_rule_of(clerk, kept, invocation_of()) == Told()
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
        ({"approve": True}, Told()),
        ({"approve": False}, Told(is_refused=True)),
        ({"approve": False, "reason": "Never."}, Told(is_refused=True, reason="Never.")),
        ({}, SHUT),
        ({"approve": "yes"}, SHUT),
        (None, SHUT),
        (True, SHUT),
    ],
)
async def test_a_tool_may_decide_instead_of_a_person(verdict: Any, gate: Told) -> None:
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
    assert await approval_rule_of(tool, shell_call("c1", "ls"), invocation_of()) == Told()


async def test_one_that_fails_leaves_it_to_a_person() -> None:
    def decide(_context: Any, _item: Any) -> Any:
        raise KeyError("x")

    gate = await approval_rule_of(
        shell(on_approval=decide), shell_call("c1", "ls"), invocation_of()
    )
    assert gate == replace(SHUT, reason="on_approval failed (KeyError), so a person decides.")


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
    assert gate == (SHUT if is_decided else Told())
    assert asked == ([] if is_decided else ["rule", "on_approval"])


# --- Policies ----------------------------------------------------------------------------------------


def large(_context: Any, arguments: Any, _call_id: str) -> bool:
    return arguments["amount"] > 100


REFUNDS = ApprovalPolicy(
    effect="irreversible", audience="billing", quorum=2, when=large, reason="Money leaves."
)


@pytest.mark.parametrize(("amount", "is_gated"), [(100, False), (101, True)])
async def test_a_policy_has_a_predicate_terms_and_a_reason(amount: int, *, is_gated: bool) -> None:
    tool = paying(REFUNDS)
    raw = call("pay", "c1", amount=amount, reason="x")
    gate = await approval_rule_of(tool, raw, invocation_of())
    assert gate == (
        Told(
            needs_approval=True,
            reason="Money leaves.",
            terms=ApprovalTerms(
                effect="irreversible",
                risk="high",
                audience=AudienceRecord(groups=("billing",)),
                quorum=2,
                unverified=False,
            ),
            schema=tool.params_json_schema,
        )
        if is_gated
        else Told()
    )


async def test_the_reason_of_a_policy_comes_before_why_its_predicate_could_not_judge() -> None:
    raw = call("pay", "c1", reason="x")
    gate = await approval_rule_of(paying(REFUNDS), raw, invocation_of())
    assert gate.reason == "Money leaves. The call leaves amount out, so a person decides."


async def test_a_call_that_nobody_may_edit_needs_no_schema() -> None:
    policy = ApprovalPolicy(allow=["approve", "reject"])
    gate = await approval_rule_of(paying(policy), call("pay", "c1", amount=5), invocation_of())
    assert (gate.terms.allow, gate.schema) == (("approve", "reject"), None)


@pytest.mark.parametrize(("customer", "reason"), [("ann", None), ("", rules.NO_CUSTOMER)])
async def test_a_run_that_names_no_customer_says_so(customer: str, reason: str | None) -> None:
    policy = ApprovalPolicy(audience=Audience(exclude_requester=True))
    invocation = invocation_of(settings={"customer": {"id": customer}})
    gate = await approval_rule_of(paying(policy), call("pay", "c1", amount=5), invocation)
    assert gate.reason == reason


async def test_an_agent_as_a_tool_has_the_worst_effect_that_it_can_reach() -> None:
    @function_tool(effect="irreversible")
    def wipe() -> None:
        """Wipe."""

    cleaner = Agent[Any](name="Cleaner", tools=[wipe])
    clerk = Agent[Any](name="Clerk", handoffs=[cleaner])
    tool = clerk.as_tool("work", "", needs_approval=True)
    gate = await approval_rule_of(tool, call("work", "c1", input="Go"), invocation_of())
    assert (gate.terms.effect, gate.terms.risk) == ("irreversible", "high")
    clerk.handoffs.append("nobody")  # pyright: ignore[reportArgumentType]
    gate = await approval_rule_of(tool, call("work", "c1", input="Go"), invocation_of())
    assert gate.terms.risk == "high"


@pytest.mark.parametrize(
    ("amount", "is_gated", "reason"),
    [
        ('{"amount": 5}', False, None),
        ('{"amount": 500}', True, "Money leaves."),
        (
            "{",
            True,
            "Money leaves. The approval rule failed (JSONDecodeError), so a person decides.",
        ),
    ],
)
async def test_a_handoff_may_need_a_person(
    amount: str, reason: str | None, *, is_gated: bool
) -> None:
    class Amount(BaseModel):
        amount: int

    async def ignore(_context: Any, _amount: Amount) -> None:
        """Do nothing."""

    entry = handoff(
        Agent[Any](name="Billing"), on_handoff=ignore, input_type=Amount, needs_approval=REFUNDS
    )
    raw = {**call("transfer_to_billing", "h1"), "arguments": amount}
    gate = await handoff_rule(entry, raw, invocation_of())
    assert (gate.needs_approval, gate.reason) == (is_gated, reason)
    if is_gated:
        assert gate.terms.allow == ("approve", "edit", "reject")
        assert gate.schema == entry.input_json_schema


async def test_a_handoff_without_input_cannot_be_edited() -> None:
    entry = handoff(Agent[Any](name="Billing"), needs_approval=True)
    gate = await handoff_rule(entry, call("transfer_to_billing", "h1"), invocation_of())
    assert (gate.terms.allow, gate.schema) == (("approve", "reject"), None)


@pytest.mark.parametrize(
    ("rule", "is_gated"), [(True, True), (False, False), (REFUNDS, True), (large, True)]
)
async def test_a_hosted_servers_policy_answers_the_providers_request(
    rule: Any, *, is_gated: bool
) -> None:
    config = {"type": "mcp", "server_label": "crm", "server_url": "https://x"}
    tool = HostedMCPTool(config, needs_approval=rule)
    raw: JsonObject = {"type": "mcp_approval_request", "id": "r1", "server_label": "crm"}
    raw |= {"name": "refund", "arguments": '{"amount": 500}'}
    gate = await hosted_approval_rule(tool, raw, invocation_of())
    assert gate.needs_approval is is_gated
    if is_gated:
        assert gate.terms.allow == ("approve", "reject")


@pytest.mark.parametrize(
    ("rule", "answer", "seen"),
    [
        (False, "Hi", None),
        (True, "Hi", None),
        (large, {"amount": 500}, {"amount": 500}),
        (large, "Hi", {"answer": "Hi"}),
    ],
)
async def test_an_answer_may_need_a_person(rule: Any, answer: Any, seen: Any) -> None:
    asked: list[Any] = []

    def predicate(context: Any, subject: Any, call_id: str) -> bool:
        asked.append((subject, call_id))
        return rule(context, subject, call_id)

    agent = Agent[Any](name="A", output_approval=predicate if callable(rule) else rule)
    gate = await answer_rule(answer, invocation_of(agent))
    assert asked == ([(seen, "")] if seen else [])
    assert gate.needs_approval is (rule is not False)
    if gate.needs_approval:
        assert gate.terms.allow == ("approve", "reject", "respond")


async def test_nobody_can_write_a_typed_answer_as_text() -> None:
    agent = Agent[Any](name="A", output_approval=True, output_type=list[int])
    gate = await answer_rule([1], invocation_of(agent))
    assert gate.terms.allow == ("approve", "reject")


# --- The operators' file -----------------------------------------------------------------------------


def under(file: str, *agents: Agent[Any]) -> Invocation:
    """Return an invocation on a worker with an operators' file."""
    invocation = invocation_of(*agents)
    worker = replace(invocation.worker, approvals=ApprovalFile("approvals.toml", file))
    return replace(invocation, worker=worker)


async def test_the_operators_file_outranks_the_code() -> None:
    raw = call("pay", "c1", amount=500, reason="x")
    gate = await approval_rule_of(paying(rule=False), raw, under("[tool.pay]\nquorum = 2"))
    assert (gate.needs_approval, gate.terms.quorum) == (True, 2)
    assert gate.terms.policy == "tool.pay"
    file = "[agent.A.tool.pay]\nneeds_approval = false"
    assert (await approval_rule_of(paying(rule=True), raw, under(file))).needs_approval
    file = f"{file}\nloosens = true"
    assert await approval_rule_of(paying(rule=True), raw, under(file)) == Told()
    file = "[agent.B.tool.pay]\nneeds_approval = false"
    gate = await approval_rule_of(paying(rule=True), raw, under(file))
    assert gate.needs_approval


@pytest.mark.parametrize(
    ("arguments", "is_gated", "reason"),
    [
        ({"amount": 500}, True, None),
        ({"amount": 5}, False, None),
        ({"amount": 5, "days": "3"}, False, None),
        ({"amount": "5"}, True, "The function parses amount differently, so a person decides."),
        ({"days": 3}, True, "The call leaves amount out, so a person decides."),
    ],
)
async def test_a_condition_only_judges_the_arguments_that_it_reads(
    arguments: Any, reason: str | None, *, is_gated: bool
) -> None:
    @function_tool
    def pay(amount: int, days: int = 30) -> None:
        """Pay."""

    invocation = under("[tool.pay]\nwhen = 'amount > 100'")
    gate = await approval_rule_of(pay, call("pay", "c1", **arguments), invocation)
    assert (gate.needs_approval, gate.reason) == (is_gated, reason)


async def test_a_condition_that_cannot_judge_a_call_leaves_it_to_a_person() -> None:
    invocation = under("[tool.pay]\nwhen = 'amount.cents > 100'")
    gate = await approval_rule_of(paying(rule=False), call("pay", "c1", amount=5), invocation)
    assert gate.reason == "The approval rule failed (LookupError), so a person decides."


async def test_the_file_has_policies_of_handoffs_answers_and_hosted_servers() -> None:
    billing = Agent[Any](name="Billing")
    entry = handoff(billing)
    raw = call("transfer_to_billing", "h1")
    gate = await handoff_rule(entry, raw, under("[handoff.transfer_to_billing]"))
    assert gate.needs_approval
    gate = await answer_rule("Hi", under("[answer.A]\nwhen = \"answer == 'Hi'\""))
    assert gate.needs_approval
    request: JsonObject = {"type": "mcp_approval_request", "id": "r1", "server_label": "crm"}
    request |= {"name": "delete", "arguments": "{}"}
    file = '[tool."crm.delete"]\nneeds_approval = false\nloosens = true'
    assert await hosted_approval_rule(None, request, under(file)) == Told()


async def test_the_file_can_declare_the_effect_of_a_nested_agents_tool() -> None:
    clerk = Agent[Any](name="Clerk", tools=[paying(rule=False)])
    tool = clerk.as_tool("work", "", needs_approval=True)
    raw = call("work", "c1", input="Go")
    file = "[agent.Clerk.tool.pay]\neffect = 'irreversible'"
    gate = await approval_rule_of(tool, raw, under(file))
    assert (gate.terms.effect, gate.terms.risk) == ("irreversible", "high")
