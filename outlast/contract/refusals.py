"""Why an update is refused, before it is written into history."""

from collections.abc import Mapping, Sequence
from typing import Final

from outlast.contract import failures, names
from outlast.contract.identity import KEY_VARIABLE, Signable, is_genuine
from outlast.contract.records import (
    ClaimRecord,
    HoldRecord,
    ReleaseRecord,
    SayRecord,
    Unreadable,
    read,
)
from outlast.loop.approvals import Decision
from outlast.loop.events import (
    ConversationHeld,
    ConversationReleased,
    DecisionReceived,
    Event,
    LineAttached,
    MessageReceived,
    MessageWithdrawn,
    PersonSpoke,
    RequestClaimed,
    RetryRequested,
)
from outlast.loop.state import (
    LoopState,
    claim_problem,
    decision_problem,
    hold_problem,
    line_problem,
    release_problem,
    retry_problem,
    say_problem,
    withdraw_problem,
)
from outlast.loop.values import Failure, Json
from outlast.loop.votes import is_repeated

CLOCK_DIFFERENCE_MS: Final = 5 * 60_000
"""How much the clocks of a client and of the server may differ."""

_OF_PEOPLE: Final[Mapping[str, type[Signable]]] = {
    names.UPDATE_DECIDE: Decision,
    names.CLAIM: ClaimRecord,
    names.HOLD: HoldRecord,
    names.SAY: SayRecord,
    names.RELEASE: ReleaseRecord,
}
"""The records of updates that say who sends them."""


def proof_refusal(
    state: LoopState, name: str, payload: Json | Unreadable, keys: Sequence[bytes]
) -> Failure | None:
    """Return why an update does not prove who sends it, or None if it does or need not.

    Args:
        state: the state of the run.
        name: the name of the update.
        payload: its payload, which can be read.
        keys: the worker's identity keys; without keys, every update counts as proven.
    """
    if not keys or name not in _OF_PEOPLE:
        return None
    record = read(_OF_PEOPLE[name], payload)
    request_id: object = getattr(record, "request_id", None)
    made = (one.requested_at_ms for one in state.approvals if one.id == request_id)
    since_ms = next(made, state.start.started_at_ms) - CLOCK_DIFFERENCE_MS
    if is_genuine(record, state.run_id, keys, action=name, since_ms=since_ms):
        return None
    message = (
        f"Nothing proves who sends this ({name}): it needs a signature, made with a key of the "
        f"run's workers. Set {KEY_VARIABLE} where it is sent."
    )
    decides = name in {names.UPDATE_DECIDE, names.CLAIM}
    code = failures.DECISION_REFUSED if decides else failures.USER_ERROR
    return Failure(code=code, message=message)


def refusal_of(state: LoopState, event: Event) -> Failure | None:
    """Return why an update would have no effect on a run, or None if it has one."""
    if isinstance(event, MessageReceived | LineAttached) and state.phase in {"closing", "closed"}:
        message = f"The run {state.run_id} has ended. Start a new one."
        return Failure(code=failures.RUN_CLOSED, message=message)
    problem = _problem_of(state, event)
    if problem is None:
        return None
    decides = isinstance(event, DecisionReceived | RequestClaimed)
    code = failures.DECISION_REFUSED if decides else failures.USER_ERROR
    return Failure(code=code, message=problem)


def _problem_of(state: LoopState, event: Event) -> str | None:
    match event:
        case DecisionReceived(decision=decision, at_ms=at_ms, verified=verified):
            if is_repeated(state.approvals, decision):
                return None
            return decision_problem(state, decision, at_ms, verified=verified)
        case RequestClaimed():
            return claim_problem(state, event)
        case ConversationHeld():
            return hold_problem(state, event)
        case ConversationReleased(person=person, to=to, at_ms=at_ms, verified=verified):
            return release_problem(state, person, to, at_ms, verified=verified)
        case PersonSpoke():
            return say_problem(state, event.person, event.at_ms, verified=event.verified)
        case MessageWithdrawn(message_id=message_id):
            return withdraw_problem(state, message_id)
        case RetryRequested(answers=answers):
            return retry_problem(state, answers)
        case LineAttached():
            return line_problem(state)
        case _:
            return None
