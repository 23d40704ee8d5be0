"""The operators' file of approval policies."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approval_points import approval_points
from outlast.agents.approvals.conditions import Condition
from outlast.agents.approvals.loosening import _COMPARED
from outlast.agents.approvals.policy import ApprovalPolicy, Audience, Escalation, NeedsApproval
from outlast.agents.approvals.policy_file import (
    LARGEST_BYTES,
    ApprovalFile,
    ApprovalPoint,
    PointKind,
)
from outlast.agents.durations import parse_duration
from outlast.agents.errors import UserError
from outlast.agents.handoffs.handoff import handoff
from outlast.agents.registry import Registry
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.tools.hosted import HostedMCPTool
from outlast.extensions.machine.shell import ShellTool
from outlast.loop.approvals import terms_digest

FILE = """\
[group.billing]
subjects = ["ann", "bob"]

[tool.refund]
when = "amount > 5000 and currency == 'EUR'"
reason = "Large refunds need two people."
effect = "irreversible"
audience = { groups = ["billing"], exclude_requester = true }
quorum = 2
expires_in = "8h"
on_expiry = "escalate"
remind_every = "1h 30m"
escalate = [{ after = "4h", to = "leads" }]
allow = ["approve", "reject"]
redact = ["iban"]

[agent.Desk.tool.refund]
needs_approval = false

[handoff.transfer_to_billing]
audience = "leads"

[answer.Press]
name = "published"

[agent.Desk.answer]
quorum = 2
"""


def read(text: str) -> ApprovalFile:
    return ApprovalFile("approvals.toml", text)


def problem_of(text: str) -> str:
    with pytest.raises(UserError) as caught:
        read(text)
    return caught.value.message


def at(
    kind: PointKind, agent: str, name: str, otherwise: NeedsApproval, effect: str | None = None
) -> ApprovalPoint:
    return ApprovalPoint(kind=kind, agent=agent, name=name, setting=otherwise, effect=effect)


def test_a_file_has_policies() -> None:
    file = read(FILE)
    (table,) = file.tables("tool", "Clerk", "refund")
    assert table.title == "[tool.refund]"
    assert file.needs_approval(at("tool", "Clerk", "refund", False)) == ApprovalPolicy(
        when=Condition("amount > 5000 and currency == 'EUR'"),
        reason="Large refunds need two people.",
        effect="irreversible",
        audience=Audience(subjects=["ann", "bob"], groups=["billing"], exclude_requester=True),
        quorum=2,
        expires_in=timedelta(hours=8),
        on_expiry="escalate",
        remind_every=timedelta(minutes=90),
        escalate=[Escalation(after=timedelta(hours=4), to="leads")],
        allow=["approve", "reject"],
        redact=["iban"],
        name="tool.refund",
    )


def test_a_table_of_an_agent_outranks_that_of_all_agents_and_both_the_code() -> None:
    file = read(FILE.replace("approval = false", "approval = false\nloosens = true"))
    assert file.needs_approval(at("tool", "Desk", "refund", otherwise=True)) is False
    policy: Any = file.needs_approval(at("tool", "Clerk", "refund", otherwise=False))
    assert policy.quorum == 2
    assert file.needs_approval(at("tool", "Desk", "other", otherwise=True)) is True
    policy = file.needs_approval(at("handoff", "Any", "transfer_to_billing", otherwise=False))
    assert policy.audience == Audience(groups=["leads"])
    policy = file.needs_approval(at("answer", "Press", "", otherwise=False))
    assert policy.name == "published"
    policy = file.needs_approval(at("answer", "Desk", "", otherwise=False))
    assert (policy.quorum, policy.name) == (2, "agent.Desk.answer")
    assert file.needs_approval(at("answer", "Clerk", "", otherwise=False)) is False


def test_a_table_without_keys_is_the_default_policy() -> None:
    policy = read("[tool.a]").needs_approval(at("tool", "A", "a", otherwise=False))
    assert policy == ApprovalPolicy(name="tool.a")
    assert read('[tool."crm.delete"]\nquorum = 2').tables("tool", "A", "crm.delete")
    assert read("").entries == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[tool.a\n", "1:8: this is not valid TOML: Expected ']'"),
        ("[tool.a]\nquorum = \n", "2:10: this is not valid TOML: Invalid value."),
        ('[tool.a]\nreason = """x', "2:14: this is not valid TOML"),
        ("[tool.a]\n[tool.a]\n", "2:8: this is not valid TOML: Cannot declare"),
        (
            "[tool.a]\nquorom = 2",
            "2:1: unknown key 'quorom'. Did you mean 'quorum'? Possible: needs",
        ),
        ("[tools.a]\n", "1:1: unknown table 'tools'. Did you mean 'tool'?"),
        ("quorum = 2", "1:1: unknown table 'quorum'"),
        ("[tool]\nquorum = 2", "2:1: 'quorum' stands directly under [tool]. Write it in a table"),
        ("tool = 5", "1:1: tool must be a table of tables"),
        ("[fallback]", "1:1: [fallback] needs models, a list of models' names in quotes"),
        ("fallback = 1", "1:1: [fallback] needs models"),
        ("[fallback]\nmodels = 'a'", "2:1: [fallback] needs models"),
        ("[agent.A.fallback]\nmodels = ['']", "2:1: [agent.A.fallback] needs models"),
        (
            "[fallback]\nmodels = []\nmodel = 'a'",
            "3:1: unknown key 'model'. Did you mean 'models'?",
        ),
        ("[agent.A.tols.x]", "1:1: unknown table 'tols'. Did you mean 'tool'?"),
        ("[agent.A]\nanswer = 5", "2:1: answer must be a table"),
        ("[agent.A]\ntool = 5", "2:1: agent.A.tool must be a table of tables"),
        ("[group.a]\nsubject = ['x']", "2:1: unknown key 'subject'. Did you mean 'subjects'?"),
        ("[group.a]\nloosens = 1", "2:1: loosens must be true or false"),
        ("[group.a]\nsubjects = 'x'", "2:1: subjects must be a list of names"),
        ("\n\n[tool.a]\n  quorum = 0", "4:3: quorum must be a whole number from 1, not 0."),
        ("[tool.a]\nquorum = '2'", "2:1: quorum must be a whole number from 1, not '2'."),
        ("[tool.a]\nrisk = 'huge'", "2:1: risk must be one of 'low', 'medium', 'high'"),
        ("[tool.a]\nexpires_in = 5", "2:1: expires_in must be a duration such as '90s'"),
        ("[tool.a]\nexpires_in = '2 hours'", "2:1: expires_in must be a duration"),
        ("[tool.a]\naudience = { subjects = [] }", "2:14: subjects is empty, so nobody could"),
        ("[tool.a]\nloosens = 'yes'", "2:1: loosens must be true or false."),
        ("[tool.a]\naudience = 5", "2:1: audience must be the name of a group, or a table"),
        ("[tool.a]\naudience = { group = ['x'] }", "2:1: audience: unknown key 'group'. Did you"),
        (
            "[tool.a]\naudience = { groups = 'x' }",
            "2:14: groups must be a list of names, such as ['x'], not a string.",
        ),
        ("[tool.a]\nescalate = 'x'", "2:1: escalate must be a list in brackets"),
        ("[tool.a]\nescalate = [{ to = 'x' }]", "2:1: escalate must be a list of tables such as"),
        (
            "[tool.a]\naudience = 'b'\nescalate = [\n  { after = '4x', to = 'x' },\n]",
            "3:1: after must be a duration",
        ),
        ("[tool.a]\nallow = ['aprove']", "2:1: allow: each type must be one of"),
        ("[tool.a]\nneeds_approval = 'no'", "2:1: needs_approval must be true or false."),
        (
            "[tool.a]\nneeds_approval = false\nquorum = 2",
            "3:1: with needs_approval = false, nobody",
        ),
        ("[tool.a]\nwhen = 1", "2:1: when must be a condition in quotes"),
        ('[tool.a]\nwhen = "amount > 5k"', "2:18: when: '5k' is neither an argument, a value"),
        ('[tool.a]\nwhen = "a = \\"x\\""', "2:1: when: equality is written as ==."),
        ("[tool.a]\nwhen = '''\namount > 5\nand'''", "when: an argument or a value is missing"),
        ("[tool.a]\nresponse_schema = 1979-05-27", "2:1: response_schema must be a JSON Schema"),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_column(text: str, problem: str) -> None:
    message = problem_of(text)
    place, _, rest = message.partition(": ")
    assert f"{place}: {rest}".startswith("approvals.toml:")
    assert problem in message


def test_all_mistakes_are_reported_in_the_order_of_the_file() -> None:
    lines = problem_of("[tool.a]\nx = 1\n\n[tool.b]\nquorum = 0\n\n[tol]\n").splitlines()
    assert [line.split(" ")[0] for line in lines] == [
        "approvals.toml:2:1:",
        "approvals.toml:5:1:",
        "approvals.toml:7:1:",
    ]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    place = tmp_path / "approvals.toml"
    with pytest.raises(UserError, match=r"approvals.toml cannot be read: No such file"):
        ApprovalFile.load(place)
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        ApprovalFile.load(tmp_path)
    place.write_bytes(b"\xff")
    with pytest.raises(UserError, match="byte 0 is not UTF-8"):
        ApprovalFile.load(place)
    place.write_bytes(b"#" * (LARGEST_BYTES + 1))
    with pytest.raises(UserError, match="has more than 1,000,000 bytes"):
        ApprovalFile.load(place)
    place.write_text(FILE, encoding="utf-8-sig")  # as some editors save it
    assert ApprovalFile.load(str(place)).source == str(place)


# --- Comparing with the agents -----------------------------------------------------------------------


@function_tool
def refund(amount: float, currency: str, iban: str) -> None:
    """Refund."""


def registry(**options: Any) -> Registry:
    billing = Agent[Any](name="Billing", tool_use_behavior="stop_on_first_tool")
    tools = [refund, ShellTool(lambda _request: "", name="bash"), *options.pop("tools", [])]
    desk = Agent[Any](name="Desk", tools=tools, handoffs=[handoff(billing)], **options)
    return Registry([desk])


@pytest.mark.parametrize(
    "text",
    [
        "[tool.refund]\nwhen = \"amount > 5 and currency == 'EUR'\"\nredact = ['iban']",
        "[tool.shell]\nallow = ['approve']",
        "[agent.Desk.tool.refund]\nallow = ['edit']",
        "[handoff.transfer_to_billing]",
        "[answer.Desk]\nallow = ['respond']\nwhen = \"answer == 'x'\"",
    ],
)
def test_a_file_that_fits_the_agents_is_accepted(text: str) -> None:
    read(text).check(approval_points(registry()))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "[tool.refnd]",
            "1:1: there is no tool 'refnd'. Did you mean 'refund'? There is: 'refund', 'shell'.",
        ),
        ("[tool.bash]", "1:1: there is no tool 'bash'."),
        ("[agent.Dsk.tool.refund]", "1:1: there is no agent 'Dsk'. Did you mean 'Desk'?"),
        ("[agent.Billing.tool.refund]", "1:1: there is no tool 'refund'. There is: none."),
        ("[handoff.billing]", "there is no handoff 'billing'. There is: 'transfer_to_billing'."),
        ("[agent.Dsk.fallback]\nmodels = []", "1:1: there is no agent 'Dsk'. Did you mean 'Desk'?"),
        ("[answer.Dsk]", "1:1: there is no agent 'Dsk'."),
        ("[answer.Billing]", "1:1: agent 'Billing': with tool_use_behavior='stop_on_first_tool'"),
        ("[tool.refund]\nredact = ['ibn']", "2:1: agent 'Desk', tool 'refund': redact names 'ibn'"),
        (
            "[tool.shell]\nallow = ['approve', 'edit']",
            "2:1: agent 'Desk', tool 'shell': its calls cannot be decided with 'edit'",
        ),
        (
            "[tool.shell]\nwhen = 'a > 5'",
            "2:1: agent 'Desk', tool 'shell': its calls have no named",
        ),
        (
            "[tool.refund]\nwhen = 'amont > 5'",
            "2:1: agent 'Desk', tool 'refund': there is no argument 'amont'. Did you mean 'amount'",
        ),
        (
            "[handoff.transfer_to_billing]\nwhen = 'amount > 5'",
            "2:1: agent 'Desk', handoff 'transfer_to_billing': there is no argument 'amount'.",
        ),
        ("[tool.refund]\nwhen = 'currency > 5'", "currency is a text, and cannot be compared with"),
        (
            "[tool.refund]\non_expiry = 'fail'",
            "1:1: agent 'Desk', tool 'refund': on_expiry is 'fail', but the policy has no",
        ),
    ],
)
def test_a_file_that_does_not_fit_the_agents_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UserError) as caught:
        read(text).check(approval_points(registry()))
    assert caught.value.message.startswith("approvals.toml:")
    assert problem in caught.value.message


def test_a_tool_that_no_agent_has_may_be_one_of_an_mcp_server() -> None:
    crm = HostedMCPTool({"type": "mcp", "server_label": "crm", "server_url": "https://x"})
    known = approval_points(registry(tools=[crm]))
    read('[tool."crm.delete"]').check(known)
    read('[agent.Desk.tool."crm.delete"]').check(known)
    with pytest.raises(UserError, match=r"there is no tool 'crm.delete'"):
        read('[agent.Billing.tool."crm.delete"]').check(known)


# --- Changing the code's policy ----------------------------------------------------------------------

TWO = ApprovalPolicy(
    audience=Audience(groups=["billing"], exclude_requester=True),
    quorum=2,
    redact=["iban"],
    reason="Money leaves.",
    risk="high",
)


def over(text: str, before: Any = TWO, effect: str | None = None) -> Any:
    return read(text).needs_approval(at("tool", "A", "two", before, effect))


def test_a_table_changes_only_the_keys_that_it_names() -> None:
    changed = over("[tool.two]\nexpires_in = '8h'")
    assert changed == replace(TWO, expires_in=timedelta(hours=8), name="tool.two")
    assert over("[tool.other]\nquorum = 1") is TWO
    text = (
        "[agent.A.tool.two]\nquorum = 3\n[tool.two]\nquorum = 4\nexpires_in = '8h'\nloosens = true"
    )
    assert over(text).quorum == 4  # the agent's table may not loosen the other
    assert over(f"{text}\n".replace("= 3", "= 3\nloosens = true")).quorum == 3
    assert over(f"{text}\n").expires_in == timedelta(hours=8)


def test_when_is_true_for_every_call_whatever_the_code_says() -> None:
    limited = replace(TWO, when=Condition("amount > 5"))
    assert over("[tool.two]\nwhen = true", limited).when is None


def test_reminders_and_escalations_after_an_earlier_expiry_are_left_out() -> None:
    hours = [timedelta(hours=hour) for hour in (1, 2, 4)]
    slow = ApprovalPolicy(
        audience="billing",
        remind_every=hours[1],
        escalate=[Escalation(after=after, to="leads") for after in (hours[0], hours[2])],
        expires_in=timedelta(hours=8),
    )
    quick = over('[tool.two]\nexpires_in = "2h"', slow)
    assert (quick.remind_every, [step.after for step in quick.escalate]) == (None, hours[:1])


def test_the_people_of_an_audience_change_together_and_its_other_keys_stay() -> None:
    changed = over("[tool.two]\nloosens = true\naudience = 'leads'")
    assert changed.audience == Audience(groups=["leads"], exclude_requester=True)
    changed = over("[tool.two]\nloosens = true\naudience = { exclude_requester = false }")
    assert changed.audience == Audience(groups=["billing"])
    changed = over("[tool.two]\naudience = { exclude_requester = true }", before=True)
    assert changed.audience == Audience(exclude_requester=True)


def test_a_group_of_the_file_holds_for_policies_in_code() -> None:
    groups = "[group.billing]\nsubjects = ['ann', 'bob']\n[group.leads]\nsubjects = ['eve']\n"
    assert (
        over(groups, before=TWO).audience.subjects is None
    )  # that would be a right for ann and bob
    groups = groups.replace("]\n[", "]\nloosens = true\n[") + "loosens = true\n"
    step = Escalation(after=timedelta(hours=1), to="leads")
    changed = over(groups, before=replace(TWO, escalate=[step]))
    assert changed.audience.subjects == ("ann", "bob")
    assert changed.escalate[0].to == Audience(subjects=["eve"], groups=["leads"])
    assert over(groups, before=True) is True
    # The people of a group are no further people.
    assert over(f"{groups}[tool.two]\naudience = {{ subjects = ['ann', 'bob'] }}").quorum == 2


@pytest.mark.parametrize(
    ("group", "is_concerned"), [("billing", True), ("leads", False), ("others", False)]
)
def test_a_group_makes_void_only_decisions_under_policies_for_it(
    group: str, *, is_concerned: bool
) -> None:
    step = Escalation(after=timedelta(hours=1), to="leads")
    before = replace(TWO, escalate=[step], expires_in=timedelta(hours=8))
    after = over(f"[group.{group}]\nsubjects = ['ann']\nloosens = true", before)
    is_void = terms_digest(before.terms()) != terms_digest(after.terms())
    assert is_void == is_concerned


LOOSE = [
    ("needs_approval = false", "nobody is asked"),
    ("when = 'amount > 5'", "calls run without a person unless amount > 5"),
    ("effect = 'read'", "the effect is read instead of irreversible"),
    ("risk = 'low'", "the risk is low instead of high"),
    ("audience = 'leads'", "the group leads may decide"),
    ("audience = { exclude_requester = false }", "the requester may decide"),
    ("quorum = 1", "1 instead of 2 have to approve"),
    (
        "expires_in = '1h'\non_expiry = 'approve'\nunverified = 'allow'",
        "calls that nobody decides run after 1:00:00",
    ),
    ("escalate = [{ after = '1h', to = 'leads' }]", "the group leads may decide after 1:00:00"),
    ("redact = []", "reviewers see iban"),
    ("bulk = true\nrisk = 'low'", "many may be decided at once"),
    ("unverified = 'allow'", "decisions count without proof of who decided"),
    ("allow = ['approve', 'respond']", "people may respond"),
    ("response_schema = { type = 'integer' }", "responses may be others"),
]


@pytest.mark.parametrize(("keys", "words"), LOOSE)
def test_what_a_table_loosens_needs_to_be_said(keys: str, words: str) -> None:
    before = replace(TWO, allow=["approve", "reject"], effect="irreversible")
    if "response" in keys:
        before = replace(before, allow=None, response_schema={"type": "string"})
    names = [line.split(" ")[0] for line in keys.splitlines()]
    text = f"[tool.two]\n{keys}\n"
    (change,) = read(text).changes(at("tool", "A", "two", before, "irreversible"))
    assert any(words in one for one in change.loosened.values())
    assert {*change.loosened} <= {*names}
    kept = over(text, before, "irreversible")
    assert "What [tool.two] of the operators' file would loosen does not hold." in kept.reason
    for name in change.loosened:
        assert getattr(kept, name, None) == getattr(before, name, None)
    loose = over(f"{text}loosens = true", before, "irreversible")
    assert loose is False or loose.reason == "Money leaves."


@pytest.mark.parametrize(
    "keys",
    [
        "expires_in = '8h'\nremind_every = '1h'",
        "quorum = 3",
        "redact = ['iban', 'name']",
        "risk = 'high'\nunverified = 'refuse'",
        "audience = { groups = ['billing'] }",
        "allow = ['approve', 'reject']",
        "expires_in = '8h'\nescalate = [{ after = '1h', to = 'billing' }]",
        "reason = 'Why not.'\nname = 'x'",
    ],
)
def test_a_table_that_tightens_needs_no_permission(keys: str) -> None:
    (change,) = read(f"[tool.two]\n{keys}").changes(at("tool", "A", "two", TWO))
    assert (change.loosened, change.problem) == ({}, "")
    assert (
        read(f"[tool.two]\n{keys}").changes(at("tool", "A", "two", otherwise=False))[0].loosened
        == {}
    )


def test_an_earlier_escalation_and_an_earlier_approval_by_time_are_looser() -> None:
    hour = timedelta(hours=1)
    before = replace(TWO, escalate=[Escalation(after=2 * hour, to="leads")])
    text = "[tool.two]\nescalate = [{ after = '1h', to = 'leads' }]"
    (change,) = read(text).changes(at("tool", "A", "two", before))
    assert change.loosened == {"escalate": "the group leads may decide after 1:00:00"}
    before = replace(TWO, expires_in=2 * hour, on_expiry="approve", unverified="allow")
    (change,) = read("[tool.two]\nexpires_in = '1h'").changes(at("tool", "A", "two", before))
    assert change.loosened == {"expires_in": "calls run after 1:00:00 instead of 2:00:00"}


def test_a_worker_refuses_a_table_that_loosens_unless_it_says_so() -> None:
    @function_tool(needs_approval=TWO)
    def two(amount: float, iban: str) -> None:
        """Pay."""

    points = approval_points(registry(tools=[two]))
    with pytest.raises(UserError) as caught:
        read("[tool.two]\nexpires_in = '8h'\nquorum = 1").check(points)
    assert caught.value.message == (
        "approvals.toml:3:1: agent 'Desk', tool 'two': 1 instead of 2 have to approve. "
        "If that is meant, add loosens = true to [tool.two]."
    )
    report = read("[tool.two]\nexpires_in = '8h'\nquorum = 1\nloosens = true").check(points)
    assert report.loosened == {"[tool.two]": ("quorum: 1 instead of 2 have to approve",)}
    report = read("[tool.two]\nexpires_in = '8h'").check(points)
    assert report.loosened == {"[tool.two]": ()}


def test_a_contradiction_that_shows_only_at_the_call_leaves_the_decision_to_a_person() -> None:
    # Of a tool that an MCP server lists later, say; a worker's own tools are compared at its start.
    changed = over("[tool.two]\non_expiry = 'fail'", before=False)
    assert (changed.on_expiry, changed.quorum) == ("reject", 1)
    assert "does not hold" in changed.reason


def test_a_group_that_only_one_side_names_is_a_warning() -> None:
    @function_tool(needs_approval=TWO)
    def two(amount: float, iban: str) -> None:
        """Pay."""

    points = approval_points(registry(tools=[two]))
    text = "[tool.refund]\naudience = 'biling'\n[group.leads]\nsubjects = ['ann']"
    misspelt, unused = read(text).check(points).warnings
    assert misspelt.startswith("approvals.toml:2:1: no [group.biling] and no policy of the code")
    assert misspelt.endswith("Did you mean 'billing'?")
    assert unused == "approvals.toml:3:1: no policy names the group 'leads'."
    text = "[tool.refund]\naudience = 'leads'\n[group.leads]\nsubjects = ['ann']"
    text += "\n[group.billing]\nsubjects = ['ann']"
    with pytest.raises(UserError, match="ann may decide by name, where the code names the group"):
        read(text).check(points)
    text += "\nloosens = true"
    assert read(text).check(points).warnings == ()
    step = "[tool.two]\nescalate = [{ after = '1h', to = 'lead' }]\nloosens = true"
    assert "'lead'" in read(step).check(points).warnings[0]


# --- Durations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("45m", 2700),
        ("45min", 2700),
        ("2h", 7200),
        ("1h 30m", 5400),
        ("1.5h", 5400),
        ("3d", 259_200),
        ("2w", 1_209_600),
        ("", None),
        ("5", None),
        ("-5s", None),
        ("5 s", None),
        ("2 hours", None),
        ("1e9d", None),
        ("9" * 30 + "d", None),
        ("9" * 100 + "d", None),
    ],
)
def test_durations_are_written_with_units(text: str, seconds: float | None) -> None:
    expected = None if seconds is None else timedelta(seconds=seconds)
    assert parse_duration(text) == expected


def test_a_table_that_ends_a_takeover_loosens() -> None:
    before, after = ApprovalPolicy(takeover=True), ApprovalPolicy()
    assert _COMPARED["takeover"](before, after, None) == (
        "people approve without taking the conversation over"
    )
    assert _COMPARED["takeover"](after, before, None) == ""


# --- Tiers -------------------------------------------------------------------------------------------


def is_huge(_context: Any, arguments: Any, _call_id: str) -> bool:
    return arguments["amount"] > 9000


TIERED = ApprovalPolicy(
    audience="support",
    redact=["iban"],
    expires_in=timedelta(hours=8),
    tiers=[
        ApprovalPolicy(when=is_huge, name="huge", audience="board", quorum=3),
        ApprovalPolicy(when=Condition("amount > 1000"), audience="billing", quorum=2),
    ],
)
BILLING = "when = 'amount > 1000'\naudience = 'billing'\nquorum = 2\n"


def change_of(text: str, before: Any) -> Any:
    (change,) = read(text).changes(at("tool", "A", "two", before))
    return change


def test_a_tier_changes_what_it_names_of_the_policy_for_its_calls() -> None:
    file = f"[tool.two]\nquorum = 1\n[[tool.two.tiers]]\n{BILLING}"
    changed = over(file, replace(TIERED, audience=None, tiers=[]))
    (tier,) = changed.tiers
    assert (changed.quorum, changed.audience, changed.when) == (1, None, None)
    assert (tier.quorum, tier.audience, tier.when) == (
        2,
        Audience(groups=["billing"]),
        Condition("amount > 1000"),
    )
    assert (tier.redact, tier.expires_in) == (("iban",), timedelta(hours=8))
    assert tier.name == "tool.two.tiers: amount > 1000"
    # Of an agent's own table, too, and where the code asks nobody.
    file = f"[[agent.A.tool.two.tiers]]\n{BILLING}"
    assert over(file, before=False).tiers[0].quorum == 2


def test_a_tier_of_the_codes_name_is_that_tier_and_the_others_stay() -> None:
    text = f"[tool.two]\nloosens = true\n[[tool.two.tiers]]\n{BILLING}[[tool.two.tiers]]\nname = 'huge'\nquorum = 4"
    first, huge, last = over(text, TIERED).tiers
    assert first.quorum == 2
    assert huge == replace(TIERED.tiers[0], quorum=4)
    assert last is TIERED.tiers[1]
    change = change_of("[[tool.two.tiers]]\nname = 'hugo'\nquorum = 4", TIERED)
    assert change.problem == (
        "tier 1 of [tool.two]: there is no tier 'hugo'. Did you mean 'huge'? There is: 'huge'. "
        'A tier needs when, such as "amount > 1000".'
    )
    assert change.policy.tiers == TIERED.tiers


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        # A tier with a higher threshold before that of the code takes its calls, and leaves others.
        ("when = 'amount > 9000'\nquorum = 2\naudience = 'billing'", "calls of the tier 'huge': 2"),
        ("when = 'amount > 500'", "where amount > 1000: 1 instead of 2 have to approve"),
        ("when = 'amount > 500'", "where amount > 1000: the group support may decide"),
        ("when = 'amount > 500'\naudience = 'leads'", "where amount > 500: the group leads may"),
        ("when = 'amount > 500'\nredact = []", "where amount > 500: reviewers see iban"),
        ("name = 'huge'\nquorum = 2", "calls of the tier 'huge': 2 instead of 3 have to approve"),
        ("name = 'huge'\nwhen = 'amount > 9500'", "calls of the tier 'huge': the group support"),
        ("name = 'huge'\nrisk = 'low'\nunverified = 'allow'", "count without proof of who decided"),
    ],
)
def test_what_a_tier_loosens_needs_to_be_said(keys: str, words: str) -> None:
    change = change_of(f"[[tool.two.tiers]]\n{keys}", TIERED)
    assert words in change.loosened["tiers"]
    assert change.policy.tiers == TIERED.tiers
    assert "What [tool.two] of the operators' file would loosen" in change.policy.reason
    change = change_of(f"[tool.two]\nloosens = true\n[[tool.two.tiers]]\n{keys}", TIERED)
    assert words in change.loosened["tiers"]
    assert change.policy.tiers != TIERED.tiers


@pytest.mark.parametrize(
    "keys",
    [
        "name = 'huge'\nquorum = 4",
        f"name = 'huge'\nexpires_in = '1h'\n[[tool.two.tiers]]\n{BILLING.replace('2', '3')}",
    ],
)
def test_a_tier_that_tightens_needs_no_permission(keys: str) -> None:
    assert change_of(f"[[tool.two.tiers]]\n{keys}", TIERED).loosened == {}
    plain = replace(TIERED, tiers=[])
    text = "[[tool.two.tiers]]\nwhen = 'amount > 500'\nquorum = 2\nredact = ['iban', 'name']"
    assert change_of(text, plain).loosened == {}


def test_a_lower_threshold_that_is_gone_loosens_and_a_new_one_does_not() -> None:
    low, high = (Condition(f"amount > {limit}") for limit in (1000, 5000))
    two = ApprovalPolicy(quorum=2, when=low, name="large")
    before = ApprovalPolicy(tiers=[two])
    rise = "[[tool.two.tiers]]\nname = 'large'\nwhen = 'amount > 5000'"
    assert change_of(rise, before).loosened == {
        "tiers": "where amount > 1000: 1 instead of 2 have to approve"
    }
    fall = "[[tool.two.tiers]]\nname = 'large'\nwhen = 'amount > 1000'"
    assert change_of(fall, ApprovalPolicy(tiers=[replace(two, when=high)])).loosened == {}
    # Where the policy itself does not ask about every call, some of them would run.
    rare = replace(before, when=Condition("amount > 90000"))
    assert (
        "where amount > 1000: calls may run without a person"
        in (change_of(rise, rare).loosened["tiers"])
    )
    less = change_of("[tool.two]\nwhen = 'amount > 50'", before)
    assert [*less.loosened] == ["when"]  # the tier keeps its calls
    assert change_of("[tool.two]\nneeds_approval = false", before).policy.tiers == (two,)


@pytest.mark.parametrize(
    ("one", "other", "follows"),
    [
        ("a > 2", "a > 1", True),
        ("a > 1", "a > 2", False),
        ("a >= 2", "a > 1", True),
        ("a >= 1", "a > 1", False),
        ("1 < a", "a >= 1", True),
        ("a == 3", "a > 2.5", True),
        ("a == 'x'", "a != 'y'", True),
        ("a != 'x'", "a == 'y'", False),
        ("a > 2", "b > 1", False),
        ("a > 2", "a > '1'", False),
        ("a == true", "a != false", True),
        ("a > 2 and b", "a > 1", False),  # true, but a missing b changes which of them fails
        ("a > 2 and b", "a > 2 and b", True),
        ("a > b", "a > 1", False),
    ],
)
def test_one_condition_follows_from_another(one: str, other: str, follows: bool) -> None:
    assert Condition(one).implies(Condition(other)) is follows


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[tool.a]\ntiers = 5", "2:1: tiers must be tables, each under [[tool.a.tiers]]."),
        ("[tool.a]\ntiers = []", "2:1: tiers must be tables, each under [[tool.a.tiers]]."),
        ("[[tool.a.tiers]]\nquorum = 2", "1:1: tier 1 of [tool.a]: A tier needs when, such as"),
        ("[[tool.a.tiers]]\nwhen = true", "2:1: tier 1 of [tool.a]: when = true is every call."),
        ("[[tool.a.tiers]]\nwhen = 'x > 5k'", "2:13: tier 1 of [tool.a]: when: '5k' is neither"),
        (
            "[[tool.a.tiers]]\nwhen = 'x > 5'\n[[tool.a.tiers]]\nwhen = 'x > 1'\nquorom = 2",
            "5:1: tier 2 of [tool.a]: unknown key 'quorom'. Did you mean 'quorum'?",
        ),
        (
            "[[tool.a.tiers]]\nwhen = 'x > 5'\n[[tool.a.tiers]]\nwhen = 'x > 1'\nquorum = 0",
            "5:1: tier 2 of [tool.a]: quorum must be a whole number from 1, not 0.",
        ),
        (
            "[[tool.a.tiers]]\nwhen = 'x > 5'\nloosens = true",
            "3:1: tier 1 of [tool.a]: unknown key 'loosens'.",
        ),
        (
            "[[tool.a.tiers]]\nwhen = 'x > 5'\nneeds_approval = false",
            "3:1: tier 1 of [tool.a]: unknown key 'needs_approval'.",
        ),
        (
            "[[tool.a.tiers]]\nname = 'x'\n[[tool.a.tiers]]\nname = 'x'",
            "4:1: tier 2 of [tool.a]: two tiers have the name 'x'.",
        ),
        ("[[agent.A.answer.tiers]]\nwhen = 1", "tier 1 of [agent.A.answer]: when must be"),
        (
            "[tool.a]\ntiers = [{ when = 'x > 1', quorum = 0 }]",
            "2:1: tier 1 of [tool.a]: quorum must be a whole number",
        ),
    ],
)
def test_a_mistake_in_a_tier_names_the_tier_and_the_key(text: str, problem: str) -> None:
    assert f"approvals.toml:{problem}" in problem_of(text) or problem in problem_of(text)


def test_a_tier_is_compared_with_the_agents() -> None:
    @function_tool(needs_approval=TIERED)
    def two(amount: float, iban: str) -> None:
        """Pay."""

    points = approval_points(registry(tools=[two]))
    text = "[[tool.two.tiers]]\nwhen = 'amont > 10'\nquorum = 3\n"
    with pytest.raises(
        UserError, match=r"toml:2:1: tier 1 of \[tool.two\]: .*there is no argument"
    ):
        read(text).check(points)
    text = "[[tool.two.tiers]]\nname = 'huge'\nquorum = 2\n"
    with pytest.raises(UserError) as caught:
        read(text).check(points)
    assert caught.value.message == (
        "approvals.toml:1:1: agent 'Desk', tool 'two': calls of the tier 'huge': 2 instead of 3 "
        "have to approve. If that is meant, add loosens = true to [tool.two]."
    )
    text = f"[tool.two]\nloosens = true\n{text}"
    assert read(text).check(points).loosened == {
        "[tool.two]": ("tiers: calls of the tier 'huge': 2 instead of 3 have to approve",)
    }
    people = "[group.board]\nsubjects = ['mia']\nloosens = true\n[[tool.two.tiers]]\nname = 'huge'\nquorum = 4"
    people += "\nescalate = [{ after = '1h', to = 'bord' }]\n[tool.two]\nloosens = true"
    assert over(people, TIERED).tiers[0].audience.subjects == ("mia",)
    (warning,) = read(people).check(points).warnings
    assert warning.startswith("approvals.toml:7:1: tier 1 of [tool.two]: no [group.bord]")
    assert warning.endswith("Did you mean 'board'?")


def test_operators_name_the_models_after_an_agents_first():
    text = '[fallback]\nmodels = ["b", "c"]\n[agent.Desk.fallback]\nmodels = []\n'
    file = ApprovalFile("ops.toml", text)
    assert (file.models_after("Desk"), file.models_after("Other")) == ((), ("b", "c"))
    assert ApprovalFile("ops.toml", "").models_after("Desk") is None


def test_operators_word_what_is_asked_and_a_wrong_name_is_found() -> None:
    def refund(amount: int) -> str:
        return str(amount)

    tool = function_tool(refund, needs_approval=ApprovalPolicy(headline="Pay {amount}"))
    known = approval_points(Registry([Agent(name="Desk", tools=[tool])]))
    right = ApprovalFile("a.toml", '[tool.refund]\nheadline = "Refund {amount}"\n')
    (point,) = (one for one in known.points if one.kind == "tool")
    policy = right.needs_approval(point)
    assert isinstance(policy, ApprovalPolicy)
    assert policy.headline == "Refund {amount}"
    assert right.check(known).warnings == ()
    with pytest.raises(UserError, match="no argument is named 'sum'"):
        ApprovalFile("a.toml", '[tool.refund]\nheadline = "Refund {sum}"\n').check(known)
