"""Who may see what of a run, and do what in it: one table for every route and every page.

A caller comes from the transport: a login, a proxy's headers or a token. Nothing in the body of a
request says who somebody is. The run checks people's actions again, so this is never the only door.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, get_args

from outlast.agents.errors import IdentityRefused, UserError
from outlast.clock import now_ms
from outlast.views.acts import RUN_ACTS, canonical_name, request_problem, run_problem
from outlast.views.records import ApprovalRequest, Person
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
    """

    person: Person
    roles: frozenset[Role] = frozenset()


@dataclass(frozen=True, slots=True)
class Customer:
    """The holder of a token for one conversation.

    Attributes:
        run_id: the conversation.
        expires_at_ms: when the token ends, in milliseconds since the epoch: streams end with it.
    """

    run_id: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class Program:
    """A program with an API key, such as the backend of a shop: it acts for its customers.

    Attributes:
        name: the name of its key.
    """

    name: str


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
        groups: the roles of each group's members.
        anybody: the roles of everybody who is logged in.
    """

    groups: Mapping[str, Collection[Role]] = field(default_factory=dict[str, Collection[Role]])
    anybody: Collection[Role] = ()

    def __post_init__(self) -> None:
        named = [*self.groups.items(), ("everybody", self.anybody)]
        for group, roles in named:
            if isinstance(roles, str):
                raise UserError(f"The roles of {group!r:.80} must be a list, such as [{roles!r}].")
            for role in roles:
                if role not in ROLES:
                    raise UserError(
                        f"{role!r:.40} of {group!r:.80} is no role. Roles: {', '.join(ROLES)}."
                    )
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
        roles = set(self.anybody)
        for group, granted in self.groups.items():
            if canonical_name(group) in own:
                roles.update(granted)
        # A proof is made for one action, by the desk; none comes with a login.
        return Staff(replace(person, proof=None), frozenset(roles))


# --- The table -------------------------------------------------------------------------------------

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
    "decide",
    "claim",
    "extend_budget",
    "hold",
    "say",
    "release",
    "set_aside",
    "cancel",
    "retry",
    "finish_wait",
]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)


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
    """

    run_id: str = ""
    state: RunSnapshot | None = None
    request: ApprovalRequest | None = None
    at_ms: int = field(default_factory=now_ms)
    signs: bool = True
    authors: tuple[str, ...] | None = None


def may(caller: Caller, action: Action, target: Target | None = None) -> str | None:
    """Return why a caller may not do something, in a sentence for them; None if they may.

    A page shows the same sentence at a button that cannot be used.
    """
    rule, target = RULES[action], target or Target()
    match caller:
        case Customer():
            return _customer_problem(caller, rule, target) or _run_problem(None, action, target)
        case Program():
            return _program_problem(rule) or _run_problem(None, action, target)
        case Staff():
            return _role_problem(caller, rule) or _run_problem(caller.person, action, target)
        case _:
            return NOBODY


def _customer_problem(customer: Customer, rule: Rule, target: Target) -> str | None:
    if not rule.customers:
        return _FOR_THE_TEAM
    if target.at_ms >= customer.expires_at_ms:
        return NOT_OPENED
    named = {target.run_id, customer.run_id}
    named |= {customer.run_id} if target.state is None else {target.state.run_id}
    return None if named == {customer.run_id} else NOT_OPENED


def _program_problem(rule: Rule) -> str | None:
    return None if rule.programs else f"An API key cannot {rule.words}: that takes a person."


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
