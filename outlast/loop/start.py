"""What a run is started with, and never changes."""

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from outlast.loop.approvals import DEFAULT_TERMS, ApprovalTerms
from outlast.loop.values import JsonObject

OWN_AGENTS: Final = "agents"
"""The key of the settings with the agents that handoffs of the run have made, as recorded changes."""


RESOLVED_STAYS_MS: Final = 3 * 24 * 60 * 60_000
"""How long a resolved conversation stays open, if nobody says."""


Spending: TypeAlias = Literal["tokens", "cost_micros", "model_calls", "tool_calls", "seconds"]
Scope: TypeAlias = Literal["run", "question", "agent"]


@dataclass(frozen=True, slots=True)
class Customer:
    """The person for whom a run works.

    Attributes:
        id: what your program calls this person; runs are found, exported and deleted by it.
        name: what people call them.
        language: the language in which they are written to, as a BCP 47 tag such as `de`; empty if
            it is not known.
    """

    id: str = ""
    name: str = ""
    language: str = ""


NOBODY: Final = Customer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A limit of a run's spending.

    Attributes:
        of: what is counted; `cost_micros` are millionths of a US dollar, by the worker's prices,
            and `seconds` pass while the run works: not while it waits for people or messages.
        limit: how much may be spent.
        per: what it is counted for: the whole run, each question, or each agent of the run.
        agent: the only agent for which it counts; empty for all.
        terms: who decides whether the run goes on, once it is used up; None: the question fails.
        lent: it is the share of a nested run, of the budget with this index of its parent, which
            lends more where something is left.
    """

    of: Spending
    limit: int
    per: Scope = "run"
    agent: str = ""
    terms: ApprovalTerms | None = None
    lent: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyTimes:
    """How soon a person replies to a customer who waits for one.

    Attributes:
        first_ms: how long the first reply may take.
        next_ms: how long every other one may take.
        warn_ms: how long before the target people are warned; None for no warning.
        within: the calendar whose hours count; empty for all hours.
        away: what the customer reads while nobody is there, with `{day}`, `{date}` and `{time}` of
            the next opening; empty for nothing.
        days: the names of the days in it, from Monday; empty for English ones.
    """

    first_ms: int
    next_ms: int
    warn_ms: int | None = None
    within: str = ""
    away: str = ""
    days: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The parent of a nested run.

    Attributes:
        run_id: the parent's workflow id.
        prefix: the beginning of the nested run's approval ids, so that they differ from the
            parent's.
        chain_id: the first execution of the run that all others are nested in.
        question: the question of that run which the nested run works on, by its number.
    """

    run_id: str
    prefix: str
    chain_id: str = ""
    question: int = 0


@dataclass(frozen=True, kw_only=True)
class Start:
    """The parameters of a run's start, which never change.

    Attributes:
        max_turns: the maximum number of model calls for one answer; None for no limit.
        keep_open: whether the run takes further messages after an answer.
        settings: the run's settings, opaque to the loop. A handoff that makes an agent of data adds
            the agent.
        context_type: the registered name of the context's type.
        started_at_ms: when the run began.
        session: whether the run has a session.
        previous_response_id: the response on the provider's server that the run began to continue.
        handled: codes of the failures that a handler may turn into answers; `*` for all.
        parent: the parent of a nested run.
        chain_id: identifies the run across all its histories; unchanged by a reset.
        customer: the person for whom the run works; `NOBODY` if nobody says.
        takeover: who may take the conversation over.
        budgets: what the run may spend before a person decides whether it goes on.
        resolved_stays_ms: how long a resolved conversation stays open.
        reply_times: how soon a person replies; None for no targets.
    """

    max_turns: int | None = None
    keep_open: bool = False
    settings: JsonObject | None = None
    context_type: str | None = None
    started_at_ms: int = 0
    session: bool = False
    previous_response_id: str | None = None
    handled: tuple[str, ...] = ()
    parent: Parent | None = None
    chain_id: str = ""
    customer: Customer = NOBODY
    takeover: ApprovalTerms = DEFAULT_TERMS
    budgets: tuple[Budget, ...] = ()
    resolved_stays_ms: int = RESOLVED_STAYS_MS
    reply_times: ReplyTimes | None = None


NOT_STARTED: Final = Start()


def with_agent(start: Start, name: str, changes: JsonObject) -> Start:
    """Return a start whose settings have an agent that a handoff has made."""
    settings = start.settings or {}
    agents: JsonObject = settings.get(OWN_AGENTS) or {}
    return replace(start, settings={**settings, OWN_AGENTS: {**agents, name: changes}})
