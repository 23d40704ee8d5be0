"""Who may see what of a run, and do what in it: one table for every route and every page.

A caller comes from the transport: a login, a proxy's headers or a token. Nothing in the body of a
request says who somebody is. The run checks people's actions again, so this is never the only door.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, get_args
from urllib.parse import unquote

from outlast.agents.errors import IdentityRefused, UserError
from outlast.client.run_facts import RunFacts
from outlast.edges.clock import now_ms
from outlast.temporal.visibility.scopes import EVERYTHING, RunScope, any_covers
from outlast.views.acts import RUN_ACTS, canonical_name, request_problem, run_problem
from outlast.views.records import ApprovalRequest, CaseDeed, Person
from outlast.views.redaction import Redaction, redaction_of, shown_request
from outlast.views.run import RunSnapshot

# --- Callers ---------------------------------------------------------------------------------------

Role: TypeAlias = Literal["viewer", "decider", "operator"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)


@dataclass(frozen=True, slots=True)
class Staff:
    """A member of the team, as the login proved them.

    Attributes:
        person: the person, with their groups.
        roles: what they may do; see `RoleRules`.
        scopes: the runs for which a role counts, for each role that does not count for all.
        bound: the run whose facts gave the roles, with those nested in it; None for no run.
    """

    person: Person
    roles: frozenset[Role] = frozenset()
    scopes: frozenset[tuple[Role, RunScope]] = frozenset()
    bound: str | None = None

    def scopes_of(self, roles: Collection[Role]) -> tuple[RunScope, ...]:
        """Return the runs for which one of some roles counts: `EVERYTHING`, or some scopes."""
        own = self.roles.intersection(roles)
        if own - {role for role, _ in self.scopes}:
            return EVERYTHING
        return tuple(scope for role, scope in sorted(self.scopes, key=repr) if role in own)


@dataclass(frozen=True, slots=True)
class Customer:
    """The holder of a token for one conversation.

    Attributes:
        run_id: the conversation.
        expires_at_ms: when the token ends, in milliseconds since the epoch: streams end with it.
        owner: whose the conversation is, as `RunFacts.owner`; empty for a token that does not say.
        bound: the conversation, once it was found to be that owner's.
    """

    run_id: str
    expires_at_ms: int
    owner: str = ""
    bound: str | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """A program with an API key, such as the backend of a shop: it acts for its customers.

    Attributes:
        name: the name of its key.
        scope: what the key is for; None for everything that programs may do.
        until_ms: when its streams end, in milliseconds since the epoch, so that its key is checked
            again; None for never.
        bound: the run whose facts were judged, with those nested in it; None for no run.
    """

    name: str
    scope: "KeyScope | None" = None
    until_ms: int | None = None
    bound: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyScope:
    """What an API key is for.

    Attributes:
        actions: what its program may do.
        runs: whose conversations it is for: tenants and agents.
        own_only: whether it is only for the conversations that it began.
        waits: the waits that it may finish, by name; `*` for any.
        is_begun: whether the conversation is there whose facts were judged.
    """

    actions: frozenset["Action"]
    runs: RunScope = field(default_factory=RunScope)
    own_only: bool = True
    waits: frozenset[str] = frozenset()
    is_begun: bool = True

    @property
    def is_broad(self) -> bool:
        """Whether it is for the conversations of everybody."""
        return not self.own_only and self.runs == RunScope()


Caller: TypeAlias = Staff | Customer | Program | None
"""Who sent a request; None for nobody who proved who they are."""


def redaction_for(caller: Caller, state: RunSnapshot) -> Redaction:
    """Return what a run hides from a caller of the team."""
    return redaction_of(state, groups_of(caller))


def request_for(caller: Caller, request: ApprovalRequest, state: RunSnapshot) -> ApprovalRequest:
    """Return a request of a run as a caller of the team may see it."""
    return shown_request(request, state, groups_of(caller))


def groups_of(caller: Caller) -> tuple[str, ...]:
    """Return the groups of a caller: those of a person."""
    return caller.person.groups if isinstance(caller, Staff) else ()


@dataclass(frozen=True)
class RoleRules:
    """Which groups have which roles; the program that starts the desk says it.

    Names of groups are compared as runs compare them: case and invisible characters make no
    difference.

    Attributes:
        groups: the roles of each group's members, such as `["viewer", "decider@tenant:acme"]`: a
            role counts for all runs, or for those of the tenants, agents and teams after the `@`.
            Several are joined by `+`, such as `viewer@tenant:acme+tenant:globex+agent:Billing`: one
            of the tenants, and the agent. A team is a group who may decide what a run waits for.
        anybody: the roles of everybody who is logged in.
    """

    groups: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    anybody: Collection[str] = ()

    def __post_init__(self) -> None:
        named = [*self.groups.items(), ("everybody", self.anybody)]
        for group, roles in named:
            if isinstance(roles, str):
                raise UserError(f"The roles of {group!r:.80} must be a list, such as [{roles!r}].")
            for role in roles:
                _read_role(role, group)
            if not canonical_name(group):
                raise UserError(f"A group with roles needs a name, not {group!r:.80}.")

    def staff(self, person: Person) -> Staff:
        """Return a person with the roles of their groups.

        Raises:
            IdentityRefused: the person has no name.
        """
        if not canonical_name(person.subject):
            raise IdentityRefused("The login gave no name, so nobody is signed in.")
        own = {canonical_name(group) for group in person.groups}
        granted = [("everybody", role) for role in self.anybody]
        for group, roles in self.groups.items():
            if canonical_name(group) in own:
                granted += [(group, role) for role in roles]
        found = [_read_role(role, group) for group, role in granted]
        everywhere: set[Role] = {role for role, scope in found if scope is None}
        scopes: set[tuple[Role, RunScope]] = {
            (role, scope) for role, scope in found if scope is not None and role not in everywhere
        }
        # A proof is made for one action, by the desk; none comes with a login.
        return Staff(
            replace(person, proof=None), frozenset(role for role, _ in found), frozenset(scopes)
        )


_KINDS: Final = {"tenant": "tenants", "agent": "agents", "team": "teams"}


def _read_role(text: str, group: str) -> tuple[Role, RunScope | None]:
    """Return a role, and for which runs it counts; None for all.

    Raises:
        UserError: it is no role, or its scope cannot be read.
    """
    name, at, scope = text.partition("@")
    if name not in ROLES:
        raise UserError(f"{text!r:.40} of {group!r:.80} is no role. Roles: {', '.join(ROLES)}.")
    return name, _read_scope(scope, text, group) if at else None


def _read_scope(text: str, role: str, group: str) -> RunScope:
    found: dict[str, set[str]] = {}
    for part in text.split("+"):
        kind, _, name = part.partition(":")
        if kind not in _KINDS or not name.strip():
            raise UserError(
                f"{role!r:.80} of {group!r:.80} has no scope that can be read. Write such as "
                "viewer@tenant:acme, or viewer@tenant:acme+agent:Billing. Kinds: "
                f"{', '.join(_KINDS)}."
            )
        found.setdefault(_KINDS[kind], set()).add(unquote(name.strip()))
    return RunScope(**{kind: frozenset(names) for kind, names in found.items()})


# --- The table -------------------------------------------------------------------------------------

TeamAct: TypeAlias = Literal["hold", "say", "release", "set_aside", "cancel", "retry"]
"""What people of the team do with a conversation, apart from what colleagues do with its case."""

Action: TypeAlias = Literal[
    "start_run",
    "mint_token",
    "list_runs",
    "inbox",
    "view_run",
    "view_payloads",
    "read_messages",
    "send_message",
    "withdraw_message",
    "rate",
    "decide",
    "claim",
    "extend_budget",
    TeamAct,
    "finish_wait",
    "view_teams",
    "go_on_duty",
    "change_team",
    "read_audit",
    "change_schedule",
    CaseDeed,
]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
CASE_DEEDS: Final[tuple[CaseDeed, ...]] = get_args(CaseDeed)
TEAM_ACTS: Final[tuple[Action, ...]] = (*get_args(TeamAct), *CASE_DEEDS)
"""What a conversation offers people of the team, whatever it waits for."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may do one thing.

    Attributes:
        roles: the roles of staff that may do it.
        words: what it is, after "You cannot".
        customers: whether customers may do it in their own conversation.
        programs: whether programs with an API key may do it.
    """

    roles: frozenset[Role]
    words: str
    customers: bool = False
    programs: bool = False


_ALL: Final = frozenset(ROLES)
_DECIDER: Final[frozenset[Role]] = frozenset({"decider"})
_OPERATOR: Final[frozenset[Role]] = frozenset({"operator"})
_OF_CASES: Final[dict[CaseDeed, str]] = {"comment": "on a conversation"}

RULES: Final[dict[Action, Rule]] = {
    # A customer's token names a conversation that need not have begun: the first message begins it.
    "start_run": Rule(_OPERATOR, "start a conversation", customers=True, programs=True),
    "mint_token": Rule(_OPERATOR, "let a customer in", programs=True),
    "list_runs": Rule(_ALL, "see the conversations"),
    "inbox": Rule(_ALL, "see the inbox"),
    "view_run": Rule(_ALL, "see what a run did", programs=True),
    # Arguments, outputs and reasoning: not for those who only watch.
    "view_payloads": Rule(_DECIDER | _OPERATOR, "see arguments and outputs"),
    "read_messages": Rule(_ALL, "read the conversation", customers=True, programs=True),
    # In the customer's place, to try an agent.
    "send_message": Rule(_OPERATOR, "write as the customer", customers=True, programs=True),
    "withdraw_message": Rule(
        _OPERATOR, "take a message of the customer back", customers=True, programs=True
    ),
    "rate": Rule(_OPERATOR, "rate a conversation", customers=True, programs=True),
    "decide": Rule(_DECIDER, "decide"),
    "claim": Rule(_DECIDER, "claim a request"),
    "extend_budget": Rule(_DECIDER | _OPERATOR, "extend a budget"),
    "hold": Rule(_OPERATOR, "take a conversation over"),
    "say": Rule(_OPERATOR, "speak for the team"),
    "release": Rule(_OPERATOR, "give a conversation back"),
    "set_aside": Rule(_OPERATOR, "set aside what the model reads"),
    "cancel": Rule(_OPERATOR, "cancel a run", programs=True),
    "retry": Rule(_OPERATOR, "retry a question"),
    # Tokens, and the value that a tool takes for true: never a customer's.
    "finish_wait": Rule(_OPERATOR, "deliver what a tool waits for", programs=True),
    "view_teams": Rule(_ALL, "see the teams"),
    "go_on_duty": Rule(_DECIDER | _OPERATOR, "go on duty in a team"),
    # How it assigns, and the duty of others; also, to set one up.
    "change_team": Rule(_OPERATOR, "change a team"),
    # It has arguments, and what people said.
    "read_audit": Rule(_DECIDER | _OPERATOR, "read the audit"),
    "change_schedule": Rule(_OPERATOR, "change a schedule"),
    # Whoever may take a conversation over may do what colleagues do with it.
    **{
        deed: Rule(_OPERATOR, f"{deed} {_OF_CASES.get(deed, 'a conversation')}")
        for deed in CASE_DEEDS
    },
}

NOBODY: Final = "Log in first, or send a token or an API key as `Authorization: Bearer ...`."
NOT_OPENED: Final = "This token does not open the conversation. Ask for a new one."
"""What a customer reads about every other conversation, and with every token that does not count:
nobody learns which conversations exist, or what is wrong with a token."""

_FOR_THE_TEAM: Final = "Only the team can do this."


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What an action is about, as far as it is known.

    Attributes:
        run_id: the run, as the route names it.
        state: the run's present state. Without it, only the caller is judged.
        request: the request to decide, claim or extend; it may be that of a nested run.
        at_ms: when, in milliseconds since the epoch; now, unless somebody says otherwise.
        signs: whether the desk has a key that proves who acts.
        authors: the members of the team who count as authors of the question; None for those that
            the state has.
        wait: the name of the wait to finish; None for none in particular.
    """

    run_id: str = ""
    state: RunSnapshot | None = None
    request: ApprovalRequest | None = None
    at_ms: int = field(default_factory=now_ms)
    signs: bool = True
    authors: tuple[str, ...] | None = None
    wait: str | None = None


def may(caller: Caller, action: Action, target: Target | None = None) -> str | None:
    """Return why a caller may not do something, in a sentence for them; None if they may.

    A page shows the same sentence at a button that cannot be used.
    """
    rule, target = RULES[action], target or Target()
    match caller:
        case Customer():
            return _customer_problem(caller, rule, target) or _run_problem(None, action, target)
        case Program():
            return (
                _program_problem(caller, rule, action, target)
                or _sight_problem(caller, action, target)
                or _run_problem(None, action, target)
            )
        case Staff():
            return (
                _role_problem(caller, rule)
                or _sight_problem(caller, action, target)
                or _run_problem(caller.person, action, target)
            )
        case _:
            return NOBODY


def _customer_problem(customer: Customer, rule: Rule, target: Target) -> str | None:
    if not rule.customers:
        return _FOR_THE_TEAM
    if target.at_ms >= customer.expires_at_ms:
        return NOT_OPENED
    if is_scoped(customer):  # nobody has looked whose the run is
        return NOT_OPENED if target.run_id else None
    named = {target.run_id, customer.run_id}
    named |= {customer.run_id} if target.state is None else {target.state.run_id}
    return None if named == {customer.run_id} else NOT_OPENED


def _program_problem(program: Program, rule: Rule, action: Action, target: Target) -> str | None:
    if not rule.programs:
        return f"An API key cannot {rule.words}: that takes a person."
    scope = program.scope
    if scope is None:
        return None
    if action not in scope.actions:
        return f"This API key is not for this: it cannot {rule.words}."
    if target.wait is not None and not {target.wait, "*"} & scope.waits:
        return f"This API key is not for the wait {target.wait!r:.80}."
    return None


def _role_problem(staff: Staff, rule: Rule) -> str | None:
    if rule.roles & staff.roles:
        return None
    needed = " or ".join(role for role in ROLES if role in rule.roles)
    return f"You cannot {rule.words}: that needs the role {needed}."


def _run_problem(person: Person | None, action: Action, target: Target) -> str | None:
    """Return why the run would refuse, by its own rules."""
    if action in {"decide", "claim", "extend_budget"} and person is not None:
        return _request_problem(person, action, target)
    act = RUN_ACTS.get(action)
    if target.state is None or act is None:
        return None
    return run_problem(target.state, act, person, target.at_ms, signs=target.signs)


def _request_problem(person: Person, action: Action, target: Target) -> str | None:
    """Return why a person may not decide a request now: its audience, a claim, its end."""
    request = target.request
    if request is None:
        return None
    if action == "extend_budget" and request.kind != "budget":
        return f"The request {request.id} is not about a budget."
    return request_problem(
        target.state,
        request,
        person,
        target.at_ms,
        signs=target.signs,
        authors=target.authors,
    )


# --- Who sees which run ----------------------------------------------------------------------------

NOT_SEEN: Final = "There is no such run."
"""What somebody reads about a run that they may not see, as about one that there is not."""

_BEFORE_IT_BEGINS: Final[frozenset[Action]] = frozenset(
    {"start_run", "read_messages", "send_message", "withdraw_message"}
)
"""What may be asked about a conversation that has not begun: its first message begins it."""

_OF_NESTED: Final[frozenset[Action]] = frozenset(
    {"view_run", "read_messages", "cancel", "finish_wait"}
)
"""What a key may do to a run that works for another one: nothing that speaks for its customer."""


def is_scoped(caller: Caller) -> bool:
    """Whether a caller sees some runs only, so that the facts of each have to be judged."""
    match caller:
        case Staff():
            return bool(caller.scopes) and caller.bound is None
        case Program():
            return caller.scope is not None and caller.bound is None
        case Customer():
            return bool(caller.owner) and caller.bound is None
        case _:
            return False


def seen_at(caller: Caller, run_id: str, facts: RunFacts | None) -> Caller:
    """Return a caller as they are at one run, with what they may do there, and at no other run.

    This is the only place that judges whether somebody sees a run.

    Args:
        caller: who asks; whoever sees every run is returned as they are.
        run_id: the run.
        facts: the facts of the run; None if there is no such run.

    Returns:
        The caller; None if they do not see the run, or could not begin one that there is not.
    """
    if not is_scoped(caller):
        return caller
    bound = run_id if facts is None else facts.root_id
    if isinstance(caller, Customer):  # of another run, they read the same whether there is one
        is_theirs = run_id != caller.run_id or facts is None or facts.owner == caller.owner
        return replace(caller, bound=caller.run_id) if is_theirs else None
    if facts is None and may(caller, "start_run") is not None:
        return None
    match caller:
        case Staff():
            if facts is None:
                return replace(caller, bound=bound)
            roles = frozenset(
                role for role in caller.roles if _covers(caller.scopes_of({role}), facts)
            )
            return replace(caller, roles=roles, scopes=frozenset(), bound=bound) if roles else None
        case Program(scope=KeyScope() as scope):
            if facts is None:
                return replace(caller, scope=replace(scope, is_begun=False), bound=bound)
            is_own = facts.program == caller.name
            if (scope.own_only and not is_own) or not _covers((scope.runs,), facts):
                return None
            actions = scope.actions & _OF_NESTED if facts.is_nested else scope.actions
            return replace(caller, scope=replace(scope, actions=actions), bound=bound)
        case _:
            return caller


def _covers(scopes: Sequence[RunScope], facts: RunFacts) -> bool:
    return any_covers(scopes, tenant=facts.tenant, agent=facts.agent, people=facts.people)


def scopes_for(caller: Caller, action: Action) -> tuple[RunScope, ...]:
    """Return the runs that a list shows a caller: `EVERYTHING`, or those of some scopes."""
    return caller.scopes_of(RULES[action].roles) if isinstance(caller, Staff) else EVERYTHING


def _sight_problem(caller: Staff | Program, action: Action, target: Target) -> str | None:
    """Return why a caller may not do it who sees some runs only; a run nobody judged is not seen."""
    run_id, bound = target.run_id, caller.bound
    if not run_id:
        return None
    if bound is None:
        return NOT_SEEN if is_scoped(caller) else None
    if run_id != bound and not run_id.startswith(f"{bound}/"):
        return NOT_SEEN
    is_begun = not caller.scopes if isinstance(caller, Staff) else _is_begun(caller.scope)
    return None if is_begun or action in _BEFORE_IT_BEGINS else NOT_SEEN


def _is_begun(scope: KeyScope | None) -> bool:
    return scope is None or scope.is_begun


def release_problem(caller: Caller, agent: str, facts: RunFacts | None) -> str | None:
    """Return why a caller may not give a conversation to an agent; None if they may.

    Whoever sees the runs of some agents could else have another agent do what they write.

    Args:
        caller: who releases it, with their rights at every run.
        agent: the agent that goes on; empty for the one that was active.
        facts: the facts of the run.
    """
    if not agent or facts is None or not isinstance(caller, Staff):
        return None
    scopes = caller.scopes_of(RULES["release"].roles)
    if any_covers(scopes, tenant=facts.tenant, agent=agent, people=facts.people):
        return None
    return f"You cannot give the conversation to the agent {agent!r:.80}: you do not see its runs."


def tenant_to_begin(caller: Caller, agent: str, tenant: str | None) -> str | None:
    """Return the tenant of a conversation that a caller begins: one that they then see.

    Args:
        caller: who begins it.
        agent: the agent that it begins with.
        tenant: the tenant that they name; None for none.

    Raises:
        UserError: they may not begin it; the sentence says why.
    """
    match caller:
        case Staff():
            scopes = caller.scopes_of(RULES["start_run"].roles)
        case Program(scope=KeyScope() as scope):
            scopes = (scope.runs,)
        case _:
            scopes = EVERYTHING
    if any_covers(scopes, tenant=tenant or "", agent=agent):
        return tenant
    possible = {
        name
        for one in scopes
        for name in one.tenants
        if tenant in {None, name} and one.covers(tenant=name, agent=agent)
    }
    if tenant is None and len(possible) == 1:
        return possible.pop()
    if tenant is None and possible:
        raise UserError(f"Name the tenant of the conversation: {', '.join(sorted(possible))}.")
    of = "" if tenant is None else f" of the tenant {tenant!r:.80}"
    raise UserError(f"You cannot begin a conversation{of} with the agent {agent!r:.80}.")
