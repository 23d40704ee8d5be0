"""Why a person or a program may not do something in a run now; None if they may.

`advance` and the validators of updates ask the same functions, so that what was accepted counts.
"""

from outlast.loop.actions import (
    Action,
    CaseAction,
    ClaimAction,
    HoldAction,
    ReleaseAction,
    SayAction,
    SetAsideAction,
)
from outlast.loop.approvals import ApprovalRequest, Decision, Person
from outlast.loop.aside import SOMEBODY, Aside, may_be_left_out, parts_of
from outlast.loop.canonical import canonical_name, digest_of, same_person
from outlast.loop.events import PersonActed
from outlast.loop.items import with_authors
from outlast.loop.state import Hold, LoopState, rests
from outlast.loop.votes import (
    Sender,
    aged,
    claim_refusal,
    person_problem,
    recipient_problem,
    refusal,
)


def withdraw_problem(state: LoopState, message_id: str) -> str | None:
    """Return why a message cannot be withdrawn, or None if no question has taken it yet."""
    rest = [one for one in state.inbox if one.id != message_id]
    is_begun = state.phase == "preparing" or (not rest and state.phase in {"turned", "closing"})
    if len(rest) == len(state.inbox) or is_begun:
        return "No such message waits: the run has taken it, or never had it."
    return None


def retry_problem(state: LoopState, answers: int) -> str | None:
    """Return why the last question cannot be retried, or None if it can.

    Args:
        state: the state of the run.
        answers: the number of answers that the run had for whoever asks.
    """
    if state.phase != "idle":
        return f"The run is {state.status}: only an open conversation at rest retries a question."
    if state.failure is None:
        return "The last question has an answer, so there is nothing to retry."
    if len(state.answers) != answers:
        return "Another question has been asked since, so this one cannot be retried."
    if state.start.max_turns == 0:
        return "The run was started with max_turns=0, so it may not call a model."
    return None


ENDED_UNRATED = "The conversation has ended. It is rated while it is open."


def rating_problem(state: LoopState) -> str | None:
    """Return why the conversation cannot be rated, or None if it can."""
    if state.phase in {"new", "closing", "closed"}:
        return ENDED_UNRATED
    if state.start.parent is not None:
        return f"The run works for {state.start.parent.run_id}, which is rated."
    return None


def line_problem(state: LoopState) -> str | None:
    """Return why no realtime line can be attached, or None if one can."""
    if state.phase in {"closing", "closed"}:
        return "The run has ended. Start a new one."
    if state.start.max_turns == 0:
        return "The run allows no model calls, because it was started with max_turns=0."
    return None


def sender_of(state: LoopState, event: PersonActed[Action]) -> Sender:
    """Return the circumstances of what a person does in a run."""
    return sender_at(state, event.at_ms, verified=event.verified)


def sender_at(
    state: LoopState, at_ms: int, *, verified: bool, authors: tuple[str, ...] | None = None
) -> Sender:
    """Return the circumstances in which somebody acts in a run at some time.

    `authors` are those of the question, if not those of the present one.
    """
    authors = state.question.authors if authors is None else authors
    holder = None if state.start.parent is not None else state.hold.by if state.hold else ""
    return Sender(
        at_ms=at_ms,
        verified=verified,
        requesters=with_authors(authors, (state.start.customer.id,)),
        holder=holder,
    )


def is_known(state: LoopState, nonce: str) -> bool:
    """Whether a signed action has reached the run before."""
    return nonce != "" and any(one == nonce for _, one in state.nonces)


def judged_at_ms(state: LoopState, event: PersonActed[Action]) -> int:
    """Return the time at which a person's action is judged: when it was made, if that is known.

    Where no worker ran, a decision that came before the expiry of its request reaches the run
    after it. A signed one has its time. Without it, what stops a call counts as made in time, and
    what runs a call does not.
    """
    made = event.made_at_ms
    if event.verified and made is not None:
        return min(max(made, state.at_ms), event.at_ms)
    stops = isinstance(event.action, Decision) and event.action.type in {"reject", "respond"}
    return min(state.at_ms, event.at_ms) if stops else event.at_ms


def decision_problem(state: LoopState, event: PersonActed[Decision]) -> str | None:
    """Return why a decision does not count, or None if it does.

    Whether its request had expired is judged at the time when it was made; whether somebody else
    works on the request, when it comes.
    """
    blocked = (one.request for one in state.blocked if one.request is not None)
    requests = [*_aged(state, judged_at_ms(state, event)), *blocked]
    return refusal(requests, event.action, sender_of(state, event), _of_nested(state))


def claim_problem(state: LoopState, event: PersonActed[ClaimAction]) -> str | None:
    """Return why a person cannot claim a request, or hand their claim over; None if they can."""
    return claim_refusal(
        _aged(state, event.at_ms),
        event.action.request_id,
        event.person,
        sender_of(state, event),
        force=event.action.force,
        to=event.action.to,
        nested=_of_nested(state),
    )


def _of_nested(state: LoopState) -> list[ApprovalRequest]:
    return [request for one in state.nested for request in one.requests]


def _aged(state: LoopState, at_ms: int) -> list[ApprovalRequest]:
    return [aged(request, at_ms) for request in state.approvals]


def hold_problem(state: LoopState, event: PersonActed[HoldAction]) -> str | None:
    """Return why a person cannot take the conversation over, or hand it over; None if they can."""
    if state.phase in {"new", "closing", "closed"}:
        return "The run has ended. Start a new one."
    action = event.action
    if action.to and state.hold is None:
        return "Nobody has the conversation. Hold it first."
    problem = _takeover_problem(state, event, action.to)
    if problem is not None or action.force or state.hold is None:
        return problem
    if not state.hold.by and state.case.team:  # it waits for anybody of the team
        return None
    return None if _holds(state.hold, event.person) else _of_another(state.hold)


def digest_of_given_up(action: HoldAction | ReleaseAction) -> str:
    """Return the digest of what somebody sends who gives a conversation to others."""
    words = [action.note] if isinstance(action, ReleaseAction) else []
    return digest_of([canonical_name(action.by), action.to, *words])


def gave_up_already(state: LoopState, action: HoldAction | ReleaseAction) -> bool:
    """Whether a person repeats what they did with the conversation, and nobody has acted since.

    Senders repeat what they got no answer to.
    """
    done, hold = state.given_up, state.hold
    if done is None or done.digest != digest_of_given_up(action):
        return False
    return hold is None if not done.to else hold is not None and same_person(hold.by, done.to)


def say_problem(state: LoopState, event: PersonActed[SayAction | ReleaseAction]) -> str | None:
    """Return why a person cannot speak for the team, or release the conversation."""
    if state.hold is None:
        return "Nobody has the conversation. Hold it first."
    if state.phase in {"preparing", "closing", "closed"}:
        return f"The run is {state.phase}."
    problem = _takeover_problem(state, event)
    if problem is not None or _holds(state.hold, event.person):
        return problem
    return _of_another(state.hold)


def _holds(hold: Hold, person: Person) -> bool:
    return same_person(hold.by, person.subject)


def _of_another(hold: Hold) -> str:
    return (
        f"{hold.by or 'A person'} has the conversation. Only who has it speaks in it, releases it "
        "and hands it over; `force` takes it from them."
    )


def release_problem(state: LoopState, event: PersonActed[ReleaseAction]) -> str | None:
    """Return why a person cannot release the conversation to an agent, or None if they can."""
    problem, to = say_problem(state, event), event.action.to
    if problem is None and state.unsaid:
        return "Guardrails still judge what was said to the user. Release again in a moment."
    if problem is None and state.phase != "held" and to not in {"", state.agent}:
        return (
            f"The turn of {state.agent} is not over, so {to:.80} cannot go on yet. Release without "
            "`to`, or again when the run is held."
        )
    return problem


def aside_problem(state: LoopState, event: PersonActed[SetAsideAction]) -> str | None:
    """Return why an item cannot be set aside, or taken back; None if it can."""
    action = event.action
    if state.phase in {"new", "closing", "closed"}:
        return "The run has ended. Start a new one."
    problem = _takeover_problem(state, event, what="Setting aside what the model reads")
    if problem is not None:
        return problem
    if action.item >= len(state.items):
        return f"The transcript has no item {action.item}: it has {len(state.items)}."
    raw = state.items[action.item].raw
    standing = next((one for one in state.aside if one.place == (action.item, action.part)), None)
    parts = len(parts_of(raw))
    if standing is None and action.part is not None and action.part >= parts:
        return f"Item {action.item} has no part {action.part}: it has {parts}."
    if action.back:  # what is read already stays as it is, so that senders may repeat it
        return None
    if standing is not None and not _repeats(standing, event):
        return f"Item {action.item} is set aside already."
    if not may_be_left_out(raw):
        return f"Item {action.item} is an instruction or a call, without which no model can go on."
    return None


def case_problem(state: LoopState, event: PersonActed[CaseAction]) -> str | None:
    """Return why a person cannot do something with the case, or None if they can."""
    action = event.action
    if state.phase in {"new", "closing", "closed"}:
        return "The run has ended. Start a new one."
    if state.start.parent is not None and action.do != "recount":  # it has requests of its own
        return f"The run works for {state.start.parent.run_id}, which has the case."
    problem = _takeover_problem(state, event, what="What colleagues do with a conversation")
    if problem is not None:
        return problem
    if action.do == "snooze" and (action.until_ms or 0) <= event.at_ms:
        return "The time at which the conversation comes back has passed."
    if action.do not in {"resolve", "snooze"}:
        return None
    if not rests(state):
        return f"Something still waits for an answer, so you cannot {action.do} the conversation."
    if action.do == "snooze" and state.case.resolved_ms is not None:
        return "The conversation is resolved. Reopen it first."
    if action.do == "resolve" and state.hold is not None and not _holds(state.hold, event.person):
        return _of_another(state.hold)
    return None


def _repeats(standing: Aside, event: PersonActed[SetAsideAction]) -> bool:
    is_theirs = same_person(standing.by, event.person.subject or SOMEBODY)
    return is_theirs and standing.reason == event.action.reason


def _takeover_problem(
    state: LoopState,
    event: PersonActed[Action],
    to: str = "",
    what: str = "Taking over the conversation",
) -> str | None:
    terms, sender = state.start.takeover, sender_of(state, event)
    problem = person_problem(terms, (terms.audience,), event.person, sender)
    if problem is None and to:
        problem = recipient_problem(terms, (terms.audience,), to, sender)
    return f"{what}{problem}" if problem else None
