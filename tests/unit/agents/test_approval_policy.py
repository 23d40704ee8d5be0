"""Approval policies: their terms, and the mistakes in them that are refused."""

import re
from datetime import timedelta
from typing import Any, Unpack

import pytest
from pydantic import BaseModel

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import (
    ApprovalPolicy,
    Audience,
    Escalation,
    check_needs_approval,
    policy_of,
)
from outlast.agents.errors import UserError
from outlast.agents.handoffs.handoff import handoff
from outlast.agents.registry import worst_effect
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.function_tool import ToolOptions, function_tool
from outlast.agents.tools.hosted import HostedMCPTool
from outlast.extensions.machine.shell import ShellTool
from outlast.loop.approvals import DEFAULT_TERMS, ApprovalTerms, EscalationStep, terms_digest
from outlast.loop.approvals import Audience as AudienceRecord
from outlast.loop.values import JsonObject

HOUR = timedelta(hours=1)
AnyPolicy: Any = ApprovalPolicy
AnyAudience: Any = Audience
AnyEscalation: Any = Escalation


def predicate(_context: Any, _arguments: Any, _call_id: str) -> bool:
    return True


def test_the_default_policy_has_the_default_terms() -> None:
    assert ApprovalPolicy().terms() == DEFAULT_TERMS


def test_a_policy_becomes_terms() -> None:
    policy = ApprovalPolicy(
        effect="external_reversible",
        audience=Audience(subjects=["ann"], groups=["billing", "billing"], exclude_requester=True),
        quorum=2,
        expires_in=3600,
        on_expiry="escalate",
        remind_every=timedelta(minutes=20),
        escalate=[
            Escalation(after=timedelta(hours=2), to=Audience(subjects=["eve"])),
            Escalation(after=1800, to="leads"),
        ],
        allow=["reject", "approve", "respond"],
        redact=["iban"],
        response_schema={"type": "object"},
        name="refunds",
    )
    assert policy.terms("read") == ApprovalTerms(
        effect="external_reversible",
        risk="medium",
        audience=AudienceRecord(subjects=("ann",), groups=("billing",), exclude_requester=True),
        quorum=2,
        expires_in_ms=3_600_000,
        on_expiry="escalate",
        remind_every_ms=1_200_000,
        escalations=(
            EscalationStep(after_ms=1_800_000, audience=AudienceRecord(groups=("leads",))),
            EscalationStep(after_ms=7_200_000, audience=AudienceRecord(subjects=("eve",))),
        ),
        allow=("approve", "reject", "respond"),
        redact=("iban",),
        unverified=False,
        response_schema={"type": "object"},
        policy="refunds",
    )


@pytest.mark.parametrize(
    ("effect", "risk"),
    [
        (None, "low"),
        ("read", "low"),
        ("reversible", "low"),
        ("external_reversible", "medium"),
        ("irreversible", "high"),
    ],
)
def test_the_effect_of_a_tool_decides_its_risk(effect: Any, risk: str) -> None:
    terms = ApprovalPolicy(bulk=True).terms(effect)
    assert (terms.effect, terms.risk) == (effect, risk)
    assert terms.unverified is (risk == "low")
    assert terms.bulk is (risk == "low")
    assert ApprovalPolicy(risk="low").terms(effect).risk == "low"
    assert ApprovalPolicy(unverified="allow").terms(effect).unverified


def test_only_decisions_that_fit_the_call_are_allowed() -> None:
    possible = ("approve", "reject")
    assert ApprovalPolicy().terms(possible=possible).allow == possible
    assert ApprovalPolicy(allow=["approve"]).terms(possible=possible).allow == ("approve",)
    assert ApprovalPolicy(allow=["edit"]).terms(possible=possible).allow == possible


def test_a_flag_and_a_predicate_are_policies() -> None:
    policy = ApprovalPolicy(quorum=2)
    assert policy_of(setting=policy) is policy
    assert policy_of(setting=False) is None
    assert policy_of(setting=True) == ApprovalPolicy()
    assert policy_of(predicate) == ApprovalPolicy(when=predicate)


def one_parameter(_context: Any) -> bool:
    return True


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"effect": "write"}, "effect=.* must be one of 'read'"),
    ({"risk": "huge"}, "risk=.* must be one of 'low', 'medium', 'high', not 'huge'"),
    ({"audience": 5}, "audience=.* must be an Audience or the name of a group, not 5"),
    ({"audience": " "}, "audience=.* must be a non-empty string"),
    ({"quorum": 0}, "quorum=.* must be a whole number from 1, not 0"),
    ({"quorum": True}, "quorum=.* must be a whole number"),
    ({"quorum": 2, "audience": Audience(subjects=["ann"])}, "only 1 people may decide: ann"),
    ({"quorum": 2, "audience": Audience(subjects=["ann", "Ann "])}, "only 1 people may decide"),
    ({"expires_in": 0}, "expires_in=.* must be a positive timedelta or seconds"),
    ({"expires_in": "2h"}, "expires_in=.* must be a positive timedelta or seconds, not '2h'"),
    ({"expires_in": timedelta(days=4000)}, "at most ten years"),
    ({"on_expiry": "ignore"}, "on_expiry=.* must be one of"),
    ({"on_expiry": "fail"}, "has no expires_in, so requests never expire"),
    ({"on_expiry": "escalate", "expires_in": HOUR}, "the policy has no escalate"),
    ({"remind_every": -1}, "remind_every=.* must be a positive"),
    ({"remind_every": HOUR, "expires_in": HOUR}, "so nobody is reminded"),
    ({"escalate": "leads"}, "escalate=.* must be a list"),
    ({"escalate": ["leads"]}, "escalate=.* has 'leads': use Escalation"),
    ({"escalate": [Escalation(after=HOUR, to="a")]}, "everybody may decide from the start"),
    (
        {
            "escalate": [Escalation(after=HOUR, to="a")],
            "audience": "b",
            "expires_in": timedelta(minutes=5),
        },
        "has a step after 1:00:00, but requests expire after 0:05:00",
    ),
    ({"allow": "approve"}, "allow=.* must be a list"),
    ({"allow": ["aprove"]}, "allow=.*: each type must be one of"),
    ({"allow": ["reject"]}, "or no call could ever succeed"),
    ({"redact": "iban"}, r"redact=.* must be a list of names, such as \['iban'\]"),
    ({"redact": [5]}, "redact=.*: each name must be a string, got int"),
    ({"bulk": "yes"}, "bulk=.* must be True or False"),
    ({"bulk": True, "risk": "high"}, "which is for low risk only"),
    ({"takeover": 1}, "takeover=.* must be True or False"),
    ({"takeover": True, "quorum": 2}, "the policy has no quorum, no bulk"),
    ({"bulk": True, "effect": "irreversible"}, "this policy's risk is high"),
    ({"unverified": "no"}, "unverified=.* must be one of 'allow', 'refuse'"),
    ({"when": True}, "when=.* must be callable"),
    ({"when": one_parameter}, "when=.* is called with"),
    ({"reason": ""}, "reason=.* must be a non-empty string"),
    ({"response_schema": "object"}, "response_schema=.* must be a JSON Schema"),
    ({"response_schema": {"a": object()}}, "response_schema=.* must be a JSON Schema"),
    ({"response_schema": {}, "allow": ["approve"]}, "which allow does not list"),
    ({"name": None}, "name=.* must be a string"),
]


@pytest.mark.parametrize(("fields", "problem"), MISTAKES)
def test_a_mistake_in_a_policy_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        AnyPolicy(**fields)


@pytest.mark.parametrize(
    ("make", "fields", "problem"),
    [
        (AnyAudience, {"subjects": "ann"}, r"Audience\(subjects=...\) must be a list of names"),
        (AnyAudience, {"groups": {"a"}}, r"Audience\(groups=...\) must be a list, not set"),
        (AnyAudience, {"groups": [""]}, "each name must be a non-empty string"),
        (AnyAudience, {"exclude_requester": 1}, "exclude_requester=.* must be True or False"),
        (AnyEscalation, {"to": "leads"}, r"Escalation\(after=...\) must be a positive"),
        (AnyEscalation, {"after": HOUR, "to": 1}, r"Escalation\(to=...\) must be an Audience"),
        (AnyEscalation, {"after": HOUR, "to": Audience()}, "must name people or groups"),
    ],
)
def test_so_is_one_in_its_parts(make: Any, fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        make(**fields)


# --- What a policy is for ----------------------------------------------------------------------------


def make_tool(**options: Unpack[ToolOptions]) -> Any:
    @function_tool(**options)
    def pay(amount: int, iban: str) -> None:
        """Pay."""

    return pay


def test_a_policy_fits_what_it_is_for() -> None:
    assert make_tool(needs_approval=ApprovalPolicy(redact=["iban"], allow=["edit", "respond"]))
    with pytest.raises(UserError, match="Tool 'pay': needs_approval: redact names 'ibn', which is"):
        make_tool(needs_approval=ApprovalPolicy(redact=["ibn"]))
    with pytest.raises(UserError, match="fast=True does not go with needs_approval"):
        make_tool(needs_approval=ApprovalPolicy(), fast=True)
    edits = ApprovalPolicy(allow=["approve", "edit"])
    with pytest.raises(UserError, match="cannot be decided with 'edit', only with approve, reject"):
        ShellTool(lambda _request: "", needs_approval=edits)
    with pytest.raises(UserError, match=r"Handoff 'transfer_to_b': needs_approval: .*'edit'"):
        handoff(Agent[Any](name="B"), needs_approval=edits)
    with pytest.raises(UserError, match=r"HostedMCPTool: needs_approval: .*'edit'"):
        HostedMCPTool({"type": "mcp", "server_label": "crm"}, needs_approval=edits)
    with pytest.raises(UserError, match=r"Agent 'B': output_approval: .*'edit'"):
        Agent[Any](name="B", output_approval=edits)
    with pytest.raises(UserError, match="Agent 'B': output_approval must be callable"):
        Agent[Any](name="B", output_approval="yes")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match="a tool's output can be the answer"):
        Agent[Any](name="B", output_approval=True, tool_use_behavior="stop_on_first_tool")


def test_a_schema_with_free_arguments_has_no_names_to_compare() -> None:
    schema: JsonObject = {"properties": {"a": {}}, "additionalProperties": True}
    check_needs_approval("Tool", ApprovalPolicy(redact=["b"]), schema=schema)
    check_needs_approval("Tool", ApprovalPolicy(redact=["b"]), schema={})


# --- What an agent can reach -------------------------------------------------------------------------


def tool_with(name: str, effect: Any, **options: Any) -> Any:
    return function_tool(lambda: None, name_override=name, effect=effect, **options)


def own_policy(_agent: object, tool: Any) -> ApprovalPolicy | None:
    return policy_of(tool.needs_approval)


@pytest.mark.parametrize(
    ("effects", "worst"),
    [
        ([], None),
        (["read"], "read"),
        (["read", None], None),
        ([None, "reversible"], "reversible"),
        (["irreversible", "external_reversible", None], "irreversible"),
    ],
)
def test_the_worst_effect_of_an_agent(effects: list[Any], worst: Any) -> None:
    tools = [tool_with(f"t{at}", effect) for at, effect in enumerate(effects)]
    assert worst_effect(Agent[Any](name="A", tools=tools), own_policy) == worst


def test_it_is_found_through_handoffs_and_agents_as_tools_in_a_cycle() -> None:
    deep = Agent[Any](name="Deep", tools=[tool_with("wipe", "irreversible")])
    middle = Agent[Any](name="Middle", handoffs=[deep], tools=[tool_with("look", "read")])
    top = Agent[Any](name="Top", tools=[middle.as_tool("ask_middle", "")])
    deep.handoffs.append(top)
    assert worst_effect(top, own_policy) == worst_effect(deep, own_policy) == "irreversible"


def test_a_policy_may_declare_what_the_tool_does_not() -> None:
    policy = ApprovalPolicy(effect="irreversible")
    tool = tool_with("pay", None, needs_approval=policy)
    assert worst_effect(Agent[Any](name="A", tools=[tool]), own_policy) == "irreversible"


def test_what_the_customer_reads_is_part_of_the_terms_and_short() -> None:
    policy = ApprovalPolicy(customer_text="A colleague checks this.")
    assert policy.terms().customer_text == "A colleague checks this."
    assert ApprovalPolicy().terms().customer_text is None
    for wrong in ("", 7, "x" * 501):
        with pytest.raises(UserError, match="customer_text"):
            ApprovalPolicy(customer_text=wrong)  # pyright: ignore[reportArgumentType]


# --- Headlines ---------------------------------------------------------------------------------------


class Payee(BaseModel):
    """Who is paid."""

    name: str
    tags: list[str] = []


def paying(headline: str) -> FunctionTool:
    """Return a tool whose policy has a headline."""

    @function_tool(needs_approval=ApprovalPolicy(headline=headline))
    def pay(amount: int, payee: Payee) -> str:
        """Pay."""
        return f"{amount} {payee}"

    return pay


def test_a_headline_is_part_of_the_terms_and_of_what_a_vote_is_for() -> None:
    plain, named = ApprovalPolicy().terms(), ApprovalPolicy(headline="Pay {amount}").terms()
    assert (plain.headline, named.headline) == ("", "Pay {amount}")
    # Another headline is another question; titles are only names.
    assert terms_digest(plain) != terms_digest(named)
    assert terms_digest(plain) == terms_digest(
        ApprovalPolicy().terms(title="Pay", labels={"amount": "EUR"})
    )


@pytest.mark.parametrize(
    "headline", ["Pay {amount}", "Pay {payee.name}", "Tags: {payee.tags}", "Pay somebody"]
)
def test_a_headline_may_name_arguments_and_their_fields(headline: str) -> None:
    assert isinstance(paying(headline).needs_approval, ApprovalPolicy)


@pytest.mark.parametrize(
    ("headline", "why"),
    [
        ("Pay {total}", "no argument is named 'total'. There are: amount, payee"),
        ("{__class__}", "no argument is named '__class__'"),
        ("{payee.nam}", "payee has no field 'nam'. There are: name, tags"),
        ("{amount.__class__}", "amount has no fields"),
        ("{payee.tags.x}", "payee.tags has no fields"),
        ("{amount!r}", "plain name"),
        ("{amount:10}", "plain name"),
        ("{amount}{payee.name}", "run together"),
        ("Pay “{amount}”", "quotation marks"),
        ("", "non-empty"),
        (7, "must be a string"),
    ],
)
def test_any_other_headline_is_refused_where_it_is_defined(headline: Any, why: str) -> None:
    with pytest.raises(UserError, match=re.escape(why)):
        paying(headline)


def test_the_headline_of_a_tier_is_checked_too() -> None:
    tier = ApprovalPolicy(when=predicate, headline="Pay {much}")

    def pay(amount: int) -> str:
        return str(amount)

    with pytest.raises(UserError, match="no argument is named 'much'"):
        function_tool(pay, needs_approval=ApprovalPolicy(tiers=[tier]))


def test_an_open_schema_takes_any_name() -> None:
    ApprovalPolicy(headline="Pay {anything.at_all}").check_fits("Tool 'x'", schema=None)
    ApprovalPolicy(headline="{a.b}").check_fits("x", schema={"properties": {"a": {}}})
