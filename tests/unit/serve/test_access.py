"""Who may do what: every role with every action, and the run's own rules in the same sentence."""

import re
from dataclasses import replace
from typing import Any

import pytest

from outlast.agents.errors import IdentityRefused, UserError
from outlast.client.run_facts import RunFacts
from outlast.loop import start
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms, Audience, Claim, Person
from outlast.loop.state import LoopState
from outlast.serve.access import (
    ACTIONS,
    CASE_DEEDS,
    NOBODY,
    NOT_OPENED,
    NOT_SEEN,
    ROLES,
    RULES,
    Action,
    Customer,
    KeyScope,
    Program,
    Role,
    RoleRules,
    Staff,
    Target,
    is_scoped,
    may,
    scopes_for,
    seen_at,
    tenant_to_begin,
)
from outlast.temporal.visibility.scopes import RunScope
from outlast.views.run import snapshot_of
from tests.laws.driver import SITUATIONS, Play, gated, play_in, said

EVERYBODY = ("viewer", "decider", "operator")
PERMITTED: dict[Action, tuple[Role, ...]] = {
    "start_run": ("operator",),
    "mint_token": ("operator",),
    "list_runs": EVERYBODY,
    "inbox": EVERYBODY,
    "view_run": EVERYBODY,
    "view_payloads": ("decider", "operator"),
    "read_messages": EVERYBODY,
    "send_message": ("operator",),
    "withdraw_message": ("operator",),
    "rate": ("operator",),
    "decide": ("decider",),
    "claim": ("decider",),
    "extend_budget": ("decider", "operator"),
    "hold": ("operator",),
    "say": ("operator",),
    "release": ("operator",),
    "set_aside": ("operator",),
    "cancel": ("operator",),
    "retry": ("operator",),
    "finish_wait": ("operator",),
    "view_teams": ("viewer", "decider", "operator"),
    "go_on_duty": ("decider", "operator"),
    "change_team": ("operator",),
    **dict.fromkeys(CASE_DEEDS, ("operator",)),
}
OF_CUSTOMERS = {"start_run", "read_messages", "send_message", "withdraw_message", "rate"}
OF_PROGRAMS = {*OF_CUSTOMERS, "mint_token", "view_run", "cancel", "finish_wait"}
ANN = Person(subject="ann", groups=("billing",), method="token")
CUSTOMER = Customer("support-42", expires_at_ms=2_000_000_000_000)
THEIRS = Target(run_id="support-42")


def staff(*roles: Role, person: Person = ANN) -> Staff:
    return Staff(person, frozenset(roles))


# --- The table -------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("role", ROLES)
def test_each_role_may_do_its_own_and_nothing_else(role: Role, action: Action) -> None:
    problem = may(staff(role), action)
    assert (problem is None) == (role in PERMITTED[action])
    if problem is not None:
        assert problem.startswith(f"You cannot {RULES[action].words}: that needs the role ")
        assert all(one in problem for one in PERMITTED[action])


def test_the_table_has_every_action() -> None:
    assert set(PERMITTED) == set(ACTIONS) == set(RULES)


@pytest.mark.parametrize("action", ACTIONS)
def test_nobody_may_do_anything_without_a_login_or_a_role(action: Action) -> None:
    assert may(None, action) == NOBODY
    assert may(None, action, THEIRS) == NOBODY
    assert may(staff(), action) is not None


@pytest.mark.parametrize("action", ACTIONS)
def test_a_customer_reads_and_writes_in_one_conversation(action: Action) -> None:
    problem = may(CUSTOMER, action, THEIRS)
    assert (problem is None) == (action in OF_CUSTOMERS)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_program_acts_for_customers_and_not_for_people_of_the_team(action: Action) -> None:
    problem = may(Program("shop"), action, THEIRS)
    assert (problem is None) == (action in OF_PROGRAMS)
    if problem is not None:
        assert problem == f"An API key cannot {RULES[action].words}: that takes a person."


@pytest.mark.parametrize("action", sorted(OF_CUSTOMERS))
@pytest.mark.parametrize(
    "target",
    [
        Target(),
        Target(run_id="support-43"),
        Target(run_id="support-42/nested"),
        Target(run_id="SUPPORT-42"),
        Target(run_id="support-42", state=snapshot_of(LoopState(run_id="support-43"))),
        Target(run_id="support-43", state=snapshot_of(LoopState(run_id="support-42"))),
        Target(state=snapshot_of(LoopState(run_id="support-42"))),
        Target(run_id="support-42", state=snapshot_of(LoopState())),
        Target(run_id="support-42", at_ms=CUSTOMER.expires_at_ms),
        Target(run_id="support-42", at_ms=CUSTOMER.expires_at_ms + 1),
    ],
)
def test_no_other_conversation_opens_for_a_customer(action: Any, target: Target) -> None:
    assert may(CUSTOMER, action, target) == NOT_OPENED


def test_a_token_that_has_expired_opens_nothing_also_where_nobody_says_the_time() -> None:
    assert may(replace(CUSTOMER, expires_at_ms=1), "read_messages", THEIRS) == NOT_OPENED


def test_a_customer_reads_a_conversation_that_has_ended_and_does_not_write_to_it() -> None:
    play = Play.ready()
    play.replies(said("Bye."))
    target = Target(run_id=play.run_id, state=snapshot_of(play.state))
    assert play.state.outcome == "completed"
    assert may(CUSTOMER, "read_messages", target) is None
    assert may(CUSTOMER, "send_message", target) == "The conversation has ended."
    assert may(staff("operator"), "cancel", target) == "The conversation has ended."


def test_nobody_takes_a_run_over_that_no_worker_has_begun() -> None:
    for action in ("hold", "say", "release", "set_aside", *CASE_DEEDS):
        target = Target(run_id="support-42", state=snapshot_of(LoopState()))
        assert may(staff("operator"), action, target) == "No worker has begun this run yet."


def test_whoever_may_take_a_conversation_over_sets_aside_what_its_model_reads() -> None:
    terms = ApprovalTerms(audience=Audience(groups=("billing",)))
    play = Play.ready(keep_open=True, takeover=terms)
    play.replies(said("Hello."))
    target = Target(run_id=play.run_id, state=snapshot_of(play.state))
    for action in ("hold", "set_aside", *CASE_DEEDS):
        assert may(staff("operator"), action, target) is None
        other = staff("operator", person=Person(subject="bob", groups=("sales",)))
        assert "bob may not do this" in str(may(other, action, target))
    for one in (CUSTOMER, Program("shop"), None):
        for action in ("set_aside", *CASE_DEEDS):
            assert may(one, action, target) is not None


def test_what_still_waits_for_an_answer_is_neither_resolved_nor_put_off() -> None:
    target = Target(run_id="r", state=snapshot_of(play_in("thinking").state))
    for action in CASE_DEEDS:
        problem = may(staff("operator"), action, target)
        assert (problem is not None) == (action in {"resolve", "snooze"}), action


# --- Roles from groups -----------------------------------------------------------------------------


def test_roles_come_from_groups() -> None:
    rules = RoleRules({"billing": ["decider"], "leads": ["decider", "operator"]})
    assert rules.staff(ANN) == staff("decider")
    lead = replace(ANN, groups=("leads", "billing"))
    assert rules.staff(lead) == staff("decider", "operator", person=lead)
    stranger = replace(ANN, groups=())
    assert rules.staff(stranger).roles == frozenset()
    assert RoleRules(anybody=["viewer"]).staff(stranger).roles == {"viewer"}


def test_names_of_groups_are_compared_as_runs_compare_them() -> None:
    rules = RoleRules({"Billing": ["decider"]})
    assert rules.staff(replace(ANN, groups=("BILLING\u200b",))).roles == {"decider"}
    assert (
        rules.staff(
            replace(ANN, groups=("billings", "")),
        ).roles
        == frozenset()
    )


def test_a_login_brings_no_proof() -> None:
    assert RoleRules().staff(replace(ANN, proof="v2.forged")).person.proof is None


@pytest.mark.parametrize("subject", ["", "  ", "\u200b"])
def test_a_person_without_a_name_is_nobody(subject: str) -> None:
    with pytest.raises(IdentityRefused, match="no name"):
        RoleRules(anybody=ROLES).staff(replace(ANN, subject=subject))


@pytest.mark.parametrize(
    ("groups", "anybody", "words"),
    [
        ({"billing": ["boss"]}, (), "'boss' of 'billing' is no role"),
        ({"billing": "decider"}, (), "must be a list"),
        ({}, "viewer", "must be a list"),
        ({"": ["viewer"]}, (), "needs a name"),
        ({}, ["admin"], "'admin' of 'everybody' is no role"),
        ({"a": ["boss@tenant:acme"]}, (), "'boss@tenant:acme' of 'a' is no role"),
        ({"a": ["viewer@"]}, (), "has no scope that can be read"),
        ({"a": ["viewer@acme"]}, (), "has no scope that can be read"),
        ({"a": ["viewer@tenant: "]}, (), "has no scope that can be read"),
        ({"a": ["viewer@tenant:acme+place:Bonn"]}, (), "Kinds: tenant, agent, team"),
    ],
)
def test_wrong_rules_are_refused_at_the_start(groups: Any, anybody: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        RoleRules(groups, anybody)


# --- Who sees which run ----------------------------------------------------------------------------

OF_ACME = RunFacts(root_id="support-42", tenant="acme", agent="Billing", people=("payments",))
ACME_TOO = replace(OF_ACME, root_id="support-43", agent="Support", people=())
OF_GLOBEX = replace(OF_ACME, root_id="support-44", tenant="globex")
OF_NOBODY = replace(OF_ACME, root_id="support-45", tenant="")
NESTED = replace(OF_ACME, is_nested=True)


def with_roles(*roles: str) -> Staff:
    return RoleRules({"billing": roles}).staff(ANN)


@pytest.mark.parametrize(
    ("roles", "seen"),
    [
        (["viewer"], ["acme", "acme too", "globex", "nobody"]),
        (["viewer@tenant:acme"], ["acme", "acme too"]),
        (["viewer@tenant:acme+tenant:globex"], ["acme", "acme too", "globex"]),
        (["viewer@tenant:acme", "viewer@tenant:globex"], ["acme", "acme too", "globex"]),
        (["viewer@tenant:acme+agent:Billing"], ["acme"]),
        (["viewer@agent:Support"], ["acme too"]),
        (["viewer@team:payments"], ["acme", "globex", "nobody"]),
        (["viewer@tenant:ACME"], []),
        (["viewer@tenant:acm"], []),
        (["viewer@tenant:globex", "viewer"], ["acme", "acme too", "globex", "nobody"]),
        ([], []),
    ],
)
def test_a_role_counts_for_the_runs_of_its_scope(roles: list[str], seen: list[str]) -> None:
    runs = {"acme": OF_ACME, "acme too": ACME_TOO, "globex": OF_GLOBEX, "nobody": OF_NOBODY}
    caller = with_roles(*roles)
    found: list[str] = []
    for name, facts in runs.items():
        here = seen_at(caller, facts.root_id, facts)
        target = Target(run_id=facts.root_id)
        if here is not None and may(here, "view_run", target) is None:
            found.append(name)
    assert found == seen


@pytest.mark.parametrize("action", ACTIONS)
def test_a_scoped_role_gives_nothing_at_a_run_that_nobody_judged(action: Action) -> None:
    caller = with_roles(*(f"{role}@tenant:acme" for role in ROLES))
    here = seen_at(caller, "support-42", OF_ACME)
    assert here is not None
    assert may(caller, action, THEIRS) == NOT_SEEN
    assert may(here, action, THEIRS) is None
    assert may(here, action, Target(run_id="support-42/ask-1")) is None
    assert may(here, action, Target(run_id="support-44")) == NOT_SEEN
    assert may(here, action, Target(run_id="support-421")) == NOT_SEEN


def test_each_role_counts_in_its_own_scope() -> None:
    caller = with_roles("viewer@tenant:acme", "decider@tenant:globex")
    at_acme = seen_at(caller, "support-42", OF_ACME)
    assert may(at_acme, "view_run", THEIRS) is None
    assert "needs the role decider" in str(may(at_acme, "decide", THEIRS))
    at_globex = seen_at(caller, "support-44", OF_GLOBEX)
    assert may(at_globex, "decide", Target(run_id="support-44")) is None
    acme, globex = (RunScope(tenants=frozenset({one})) for one in ("acme", "globex"))
    assert set(scopes_for(caller, "list_runs")) == {acme, globex}
    assert scopes_for(caller, "decide") == (globex,)
    assert scopes_for(with_roles("viewer"), "list_runs") == ()


def test_a_name_in_a_scope_may_have_any_character() -> None:
    caller = with_roles("viewer@tenant:a%2Bb%2C c")
    facts = replace(OF_ACME, tenant="a+b, c")
    assert seen_at(caller, "support-42", facts) is not None


@pytest.mark.parametrize("action", ACTIONS)
def test_a_run_that_has_not_begun_may_be_begun_and_nothing_else(action: Action) -> None:
    staff_of_acme = with_roles(*(f"{role}@tenant:acme" for role in ROLES))
    key = program()
    begins = {"start_run", "send_message", "read_messages", "withdraw_message"}
    for caller in (staff_of_acme, key):
        problem = may(seen_at(caller, "support-42", None), action, THEIRS)
        if caller is staff_of_acme or action in OF_PROGRAMS:
            assert problem == (None if action in begins else NOT_SEEN)


# --- API keys with a scope ---------------------------------------------------------------------------


def program(**scope: Any) -> Program:
    fields: dict[str, Any] = {"actions": frozenset(OF_PROGRAMS), **scope}
    return Program("shop", KeyScope(**fields))


OWN = replace(OF_ACME, program="shop")
ACME_ONLY = RunScope(tenants=frozenset({"acme"}))


@pytest.mark.parametrize(
    ("scope", "facts", "is_seen"),
    [
        ({}, OWN, True),
        ({}, OF_ACME, False),
        ({}, replace(OF_ACME, program="shop2"), False),
        ({}, replace(OF_ACME, program="SHOP"), False),
        ({"own_only": False}, OF_ACME, True),
        ({"own_only": False, "runs": ACME_ONLY}, OF_ACME, True),
        ({"own_only": False, "runs": ACME_ONLY}, OF_GLOBEX, False),
        ({"runs": ACME_ONLY}, OWN, True),
        ({"runs": ACME_ONLY}, replace(OWN, tenant="globex"), False),
        ({"runs": RunScope(agents=frozenset({"Billing"}))}, OWN, True),
        ({"runs": RunScope(agents=frozenset({"Support"}))}, OWN, False),
    ],
)
def test_a_key_sees_the_conversations_of_its_scope(
    scope: dict[str, Any], facts: RunFacts, is_seen: bool
) -> None:
    assert (seen_at(program(**scope), "support-42", facts) is not None) == is_seen


@pytest.mark.parametrize("action", sorted(OF_PROGRAMS))
def test_a_key_does_what_it_is_for_at_a_run_that_was_judged(action: Any) -> None:
    key = program(waits=frozenset({"bank"}))
    assert is_scoped(key)
    assert may(key, action, THEIRS) == NOT_SEEN
    here = seen_at(key, "support-42", OWN)
    assert may(here, action, THEIRS) is None
    assert may(here, action, Target(run_id="support-44")) == NOT_SEEN
    other = seen_at(program(actions=frozenset({"view_run"})), "support-42", OWN)
    assert (may(other, action, THEIRS) is None) == (action == "view_run")


@pytest.mark.parametrize("action", sorted(OF_PROGRAMS))
def test_a_nested_run_is_read_and_ended_by_the_key_of_its_root_and_is_no_conversation(
    action: Any,
) -> None:
    target = Target(run_id="support-42/ask-1")
    here = seen_at(program(), "support-42/ask-1", replace(OWN, is_nested=True))
    allowed = {"view_run", "read_messages", "cancel", "finish_wait"}
    assert (may(here, action, target) is None) == (action in allowed)
    assert seen_at(program(), "support-42/ask-1", NESTED) is None


def test_a_key_finishes_the_waits_that_it_names() -> None:
    for waits, wait, is_allowed in (
        ({"bank"}, "bank", True),
        ({"courier"}, "bank", False),
        ({"*"}, "bank", True),
        (set[str](), "bank", False),
    ):
        here = seen_at(program(waits=frozenset(waits)), "support-42", OWN)
        problem = may(here, "finish_wait", Target(run_id="support-42", wait=wait))
        assert problem == (None if is_allowed else "This API key is not for the wait 'bank'.")


@pytest.mark.parametrize(
    ("caller", "agent", "tenant", "expected"),
    [
        (Program("shop"), "Billing", None, None),
        (Program("shop"), "Billing", "globex", "globex"),
        (program(), "Billing", None, None),
        (program(runs=ACME_ONLY), "Billing", None, "acme"),
        (program(runs=ACME_ONLY), "Billing", "acme", "acme"),
        (CUSTOMER, "Billing", None, None),
        (with_roles("operator@tenant:acme"), "Billing", None, "acme"),
        (with_roles("operator@tenant:acme", "viewer@tenant:globex"), "Billing", None, "acme"),
    ],
)
def test_a_conversation_begins_with_a_tenant_that_its_starter_sees(
    caller: Any, agent: str, tenant: str | None, expected: str | None
) -> None:
    assert tenant_to_begin(caller, agent, tenant) == expected


@pytest.mark.parametrize(
    ("caller", "tenant", "words"),
    [
        (program(runs=ACME_ONLY), "globex", "You cannot begin a conversation of the tenant 'glo"),
        (program(runs=RunScope(agents=frozenset({"Support"}))), None, "with the agent 'Billing'"),
        (with_roles("operator@team:payments"), None, "You cannot begin a conversation with"),
        (
            with_roles("operator@tenant:acme+tenant:globex"),
            None,
            "Name the tenant of the conversation: acme, globex.",
        ),
    ],
)
def test_no_conversation_begins_that_its_starter_would_not_see(
    caller: Any, tenant: str | None, words: str
) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        tenant_to_begin(caller, "Billing", tenant)


# --- The rules of the run --------------------------------------------------------------------------


def request_of(**terms: Any) -> ApprovalRequest:
    return ApprovalRequest(
        id="a1",
        call_id="c1",
        name="refund",
        agent="Triage",
        arguments="{}",
        args_digest="d",
        requested_at_ms=0,
        terms=ApprovalTerms(unverified=False, **terms),
    )


def test_only_its_audience_decides_a_request() -> None:
    request = request_of(audience=Audience(groups=("billing",)))
    bob = Person(subject="bob", groups=("sales",))
    for action in ("decide", "claim"):
        assert may(staff("decider"), action, Target(request=request)) is None
        assert may(staff("decider", person=bob), action, Target(request=request)) == (
            "Approval a1: bob may not do this. It is for the group billing."
        )


def test_no_role_opens_a_request_for_others() -> None:
    request = request_of(audience=Audience(groups=("billing",)))
    bob = staff(*ROLES, person=Person(subject="bob"))
    assert may(bob, "decide", Target(request=request)) is not None


def test_the_requester_does_not_decide_where_the_policy_says_so() -> None:
    play = Play.ready(customer=start.Customer("ann"))
    audience = Audience(groups=("billing",), exclude_requester=True)
    target = Target(state=snapshot_of(play.state), request=request_of(audience=audience))
    assert may(staff("decider"), "decide", target) == (
        "Approval a1: ann asked for this, so somebody else has to decide."
    )


def test_a_claim_keeps_others_away_until_it_ends() -> None:
    request = replace(request_of(), claim=Claim(by="bob", until_ms=5_000))
    during, after = (Target(request=request, at_ms=at) for at in (4_999, 5_000))
    assert may(staff("decider"), "decide", during) == (
        "Approval a1: bob is working on it. Claim it with force to take it over."
    )
    assert may(staff("decider"), "decide", after) is None


def test_a_request_that_has_expired_or_is_settled_is_not_decided() -> None:
    request = replace(request_of(expires_in_ms=1_000), expires_at_ms=1_000)
    late = Target(request=request, at_ms=1_000)
    assert may(staff("decider"), "decide", late) == "Approval a1 is already expired."
    settled = Target(request=replace(request, status="approved"))
    assert may(staff("decider"), "decide", settled) == "Approval a1 is already approved."


def test_a_desk_without_a_key_decides_nothing_that_needs_proof() -> None:
    for state in (None, snapshot_of(Play.ready().state)):
        target = Target(state=state, request=request_of(), signs=False)
        problem = may(staff("decider"), "decide", target)
        assert problem is not None
        assert problem.startswith("Approval a1 needs proof of who decides.")


def test_a_budget_is_extended_by_operators_of_its_audience() -> None:
    budget = replace(request_of(audience=Audience(groups=("billing",))), kind="budget")
    assert may(staff("operator"), "extend_budget", Target(request=budget)) is None
    bob = staff("operator", person=Person(subject="bob"))
    assert may(bob, "extend_budget", Target(request=budget)) is not None
    problem = may(staff("operator"), "extend_budget", Target(request=request_of()))
    assert problem == "The request a1 is not about a budget."
    assert may(staff("operator"), "decide", Target(request=budget)) is not None


def test_only_who_holds_a_conversation_speaks_in_it_and_gives_it_back() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    ann, bob = (staff("operator", person=Person(subject=name)) for name in ("ann", "bob"))
    for action in ("say", "release"):
        problem = may(ann, action, Target(state=snapshot_of(play.state)))
        assert problem == "Nobody has the conversation. Hold it first."
    assert may(ann, "hold", Target(state=snapshot_of(play.state))) is None
    play.holds("ann")
    target = Target(state=snapshot_of(play.state))
    for action in ("say", "release"):
        assert may(ann, action, target) is None
        problem = may(bob, action, target)
        assert problem is not None
        assert problem.startswith("ann has the conversation.")
    assert str(may(bob, "hold", target)).startswith("ann has the conversation.")


def test_a_takeover_is_for_its_audience() -> None:
    terms = ApprovalTerms(audience=Audience(groups=("leads",)), unverified=False)
    play = Play.ready(takeover=terms)
    assert may(staff("operator"), "hold", Target(state=snapshot_of(play.state))) == (
        "Taking over the conversation: ann may not do this. It is for the group leads."
    )


def test_a_question_is_retried_where_it_failed() -> None:
    play = Play.ready(keep_open=True)
    operator = staff("operator")
    assert str(may(operator, "retry", Target(state=snapshot_of(play.state)))).startswith(
        "The run is running"
    )
    play.fails(next(iter(play.outstanding.values())))
    assert play.state.failure is not None
    assert may(operator, "retry", Target(state=snapshot_of(play.state))) is None
    closed = Play.ready()
    closed.fails(next(iter(closed.outstanding.values())))
    assert closed.state.outcome == "failed"
    assert may(operator, "retry", Target(state=snapshot_of(closed.state))) is None


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_no_situation_of_a_run_gives_a_right(situation: str, action: Action) -> None:
    """What the run is doing may take a right away, and never adds one."""
    play = play_in(situation, keep_open=True)
    target = Target(run_id=play.run_id, state=snapshot_of(play.state))
    for role in ROLES:
        if may(staff(role), action) is not None:
            assert may(staff(role), action, target) is not None
    if action not in OF_CUSTOMERS:
        assert may(CUSTOMER, action, target) is not None


def test_a_request_of_the_run_is_judged_with_its_circumstances() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"))
    (request,) = play.state.pending_approvals
    assert (
        may(staff("decider"), "decide", Target(state=snapshot_of(play.state), request=request))
        is None
    )
