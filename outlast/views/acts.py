"""Says why somebody may not do something in a run now, and makes their decisions.

The run judges again, by the same functions of the loop: what is offered here counts there.
"""

from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, get_args

from outlast.edges.rendering import shell_word
from outlast.loop import schemas
from outlast.loop.actions import Action as HumanAction
from outlast.loop.actions import (
    CaseAction,
    CaseDeed,
    HoldAction,
    ReleaseAction,
    SayAction,
    SetAsideAction,
    fields_of,
)
from outlast.loop.approvals import ApprovalRequest, Decision, Person, VoteType
from outlast.loop.canonical import canonical_name, same_person
from outlast.loop.events import PersonActed
from outlast.loop.human_actions import is_queued as _is_queued
from outlast.loop.problems import (
    aside_problem,
    case_problem,
    hold_problem,
    rating_problem,
    release_problem,
    retry_problem,
    say_problem,
    sender_at,
)
from outlast.loop.votes import (
    Sender,
    aged,
    audience_text,
    claim_refusal,
    deadline_ms,
    person_problem,
    refusal,
    settled_problem,
)
from outlast.views.run import AnyState, loop_state

__all__ = (
    "RUN_ACTS",
    "aged",
    "audience_text",
    "canonical_name",
    "deadline_ms",
    "decision_about",
    "decision_problem",
    "is_for",
    "is_queued",
    "options_to_decide",
    "request_problem",
    "run_problem",
    "same_person",
    "schema_problem",
    "settled_problem",
    "vote_problem",
)

A = TypeVar("A", bound=HumanAction)

RunAct: TypeAlias = Literal[
    "send_message",
    "withdraw_message",
    "rate",
    "cancel",
    "retry",
    "hold",
    "say",
    "release",
    "set_aside",
    CaseDeed,
]
"""What is done in a run, not to one of its requests."""

RUN_ACTS: Final[dict[str, RunAct]] = {one: one for one in get_args(RunAct)}

_TAKEOVERS: Final = frozenset({"hold", "say", "release", "set_aside", *get_args(CaseDeed)})

schema_problem = schemas.problem_of


def run_problem(  # noqa: PLR0911  a row each
    run: AnyState, act: RunAct, person: Person | None, at_ms: int, *, signs: bool = True
) -> str | None:
    """Return why a person or a program may not do something in a run.

    Args:
        run: the run.
        act: what they want to do.
        person: who; None for a program.
        at_ms: when, in milliseconds since the epoch.
        signs: whether a proof of who acts comes with it.
    """
    state = loop_state(run)
    if act in {"send_message", "withdraw_message", "cancel"}:
        return "The conversation has ended." if state.phase in {"closing", "closed"} else None
    if act == "rate":
        return rating_problem(state)
    if act == "retry":
        if state.outcome == "failed":
            return None
        return retry_problem(state, len(state.answers))
    if state.phase == "new" and act in _TAKEOVERS:
        return "No worker has begun this run yet."
    if person is None:
        return None
    who = fields_of(person)

    def acted(action: A) -> PersonActed[A]:
        return PersonActed(at_ms=at_ms, action=action, verified=signs)

    match act:
        case "hold":
            return hold_problem(state, acted(HoldAction(**who)))
        case "say":
            return say_problem(state, acted(SayAction(text="…", **who)))
        case "release":
            return release_problem(state, acted(ReleaseAction(**who)))
        case "set_aside":  # any item at all
            return aside_problem(state, acted(SetAsideAction(item=0, back=True, **who)))
        case _:  # with any words, at any time
            deed = cast("CaseDeed", act)
            given: dict[str, Any] = {
                "text": "…",
                "comment_id": "…",
                "add": ("…",),
                "until_ms": at_ms + 1,
            }
            return case_problem(state, acted(CaseAction(do=deed, **given, **who)))


def request_problem(
    run: AnyState | None,
    request: ApprovalRequest,
    person: Person,
    at_ms: int,
    *,
    signs: bool = True,
    authors: tuple[str, ...] | None = None,
) -> str | None:
    """Return why a person may not decide a request: its audience, a claim, its end.

    Args:
        run: the run that made it; None if it was not read, and then nobody counts as its author.
        request: the request.
        person: who wants to decide.
        at_ms: when, in milliseconds since the epoch.
        signs: whether a proof of who acts comes with it.
        authors: the authors of the question, if not those of the run's present one.
    """
    sender = _sender(run, at_ms, signs=signs, authors=authors)
    return claim_refusal([aged(request, at_ms)], request.id, person, sender)


def vote_problem(
    run: AnyState,
    request: ApprovalRequest,
    kind: VoteType,
    person: Person,
    at_ms: int,
    *,
    signs: bool = True,
) -> str | None:
    """Return why the run would refuse a decision of a type, whatever else it says."""
    if kind == "respond":
        return None
    if kind == "edit":  # who has voted may change the arguments
        kind, request = "approve", replace(request, votes=())
    if kind not in {*request.terms.allow, "withdraw"}:
        return None
    decision = decision_about(request, kind, by=person.subject, groups=person.groups)
    return decision_problem(run, request, decision, at_ms, signs=signs)


def decision_about(request: ApprovalRequest, kind: VoteType, **fields: Any) -> Decision:
    """Return a decision about a request as its person was shown it.

    It counts for these arguments under this policy, and for nothing that has changed since.

    Args:
        request: the request that was shown.
        kind: the type of the decision.
        **fields: what else the decision says: who decides, by which channel, and its content.
    """
    return Decision(
        request_id=request.id,
        type=kind,
        args_digest=request.args_digest,
        seen=request.seen,
        **fields,
    )


def decision_problem(
    run: AnyState, request: ApprovalRequest, decision: Decision, at_ms: int, *, signs: bool = True
) -> str | None:
    """Return why the run would refuse a decision about a request."""
    sender = _sender(run, at_ms, signs=signs)
    return refusal([aged(request, at_ms)], decision, sender)


def is_for(request: ApprovalRequest, person: Person, at_ms: int) -> bool:
    """Whether a person is one of those who may decide a request now."""
    sender = Sender(at_ms=at_ms, verified=True)
    return person_problem(request.terms, request.audiences, person, sender) is None


def options_to_decide(request: ApprovalRequest, person: Person, at_ms: int) -> str:
    """Return the options that make a desk on one's own machine that of somebody who may decide.

    Empty where the person may decide, and where no group may.
    """
    groups = [name for one in request.audiences for name in one.groups]
    if not groups or is_for(request, person, at_ms):
        return ""
    return f"--as NAME --groups {shell_word(groups[0])}"


def is_queued(run: AnyState, request_id: str) -> bool:
    """Whether a call that people have approved waits for calls before it."""
    return _is_queued(loop_state(run), request_id)


def _sender(
    run: AnyState | None, at_ms: int, *, signs: bool, authors: tuple[str, ...] | None = None
) -> Sender:
    if run is None:
        return Sender(at_ms=at_ms, verified=signs)
    return sender_at(loop_state(run), at_ms, verified=signs, authors=authors)
