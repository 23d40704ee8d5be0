"""Why an update is refused, before it is written into history."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from outlast.contract import failures, names
from outlast.contract.identity import Place, Signable
from outlast.contract.records import (
    AttachLineRecord,
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
    HumanAction,
    LineAttached,
    MessageReceived,
    MessageWithdrawn,
    PersonSpoke,
    RequestClaimed,
    RetryRequested,
)
from outlast.loop.problems import (
    claim_problem,
    decision_problem,
    hold_problem,
    is_known,
    line_problem,
    release_problem,
    retry_problem,
    say_problem,
    withdraw_problem,
)
from outlast.loop.state import LoopState
from outlast.loop.values import Failure, Json
from outlast.loop.votes import is_repeated

_OF_PEOPLE: Final[Mapping[str, type[Signable]]] = {
    names.UPDATE_DECIDE: Decision,
    names.CLAIM: ClaimRecord,
    names.HOLD: HoldRecord,
    names.SAY: SayRecord,
    names.RELEASE: ReleaseRecord,
    names.UPDATE_ATTACH_LINE: AttachLineRecord,
}
"""The records of updates that say who sends them."""


ProofProblem: TypeAlias = Callable[[str, Signable, Place], str | None]
"""Returns why the proof of an action does not count, or None: called with (action, record, run)."""


def proof_refusal(
    state: LoopState,
    name: str,
    payload: Json | Unreadable,
    namespace: str,
    problem_of: ProofProblem | None,
) -> Failure | None:
    """Return why the proof of an update is refused; None if it counts, or if there is none.

    An action without proof is not refused here: the terms say whether it counts. One with a proof
    that cannot be checked is: what a run has accepted with a proof counts as verified. Attaching a
    line needs one, unless the worker has no keys.

    Args:
        state: the state of the run.
        name: the name of the update.
        payload: its payload, which can be read.
        namespace: the namespace of the run.
        problem_of: checks proofs; None where nothing can.
    """
    kind = _OF_PEOPLE.get(name)
    record = None if kind is None else read(kind, payload)
    has_proof = getattr(record, "proof", None) is not None
    # Nothing later asks whoever attaches a line for a proof.
    if record is None or not (has_proof or (name == names.UPDATE_ATTACH_LINE and problem_of)):
        return None
    place = Place(namespace=namespace, chain_id=state.chain_id, run_id=state.run_id)
    problem = "this worker checks no proofs"
    if problem_of is not None:
        found = problem_of(name, record, place)
        if found is None:
            return None
        problem = found
    decides = name in {names.UPDATE_DECIDE, names.CLAIM}
    code = failures.DECISION_REFUSED if decides else failures.USER_ERROR
    return Failure(code=code, message=f"The {name} of {_sender(record)} is refused: {problem}.")


def _sender(record: Signable) -> str:
    by: object = getattr(record, "by", None)
    return f"{by!r:.80}" if by else "somebody"


def refusal_of(state: LoopState, event: Event) -> Failure | None:
    """Return why an update would have no effect on a run, or None if it has one."""
    if isinstance(event, MessageReceived | LineAttached) and state.phase in {"closing", "closed"}:
        message = f"The run {state.run_id} has ended. Start a new one."
        return Failure(code=failures.RUN_CLOSED, message=message)
    if isinstance(event, HumanAction) and is_known(state, event.nonce):
        return None  # a repetition, which has no effect
    problem = _problem_of(state, event)
    if problem is None:
        return None
    decides = isinstance(event, DecisionReceived | RequestClaimed)
    code = failures.DECISION_REFUSED if decides else failures.USER_ERROR
    return Failure(code=code, message=problem)


def _problem_of(state: LoopState, event: Event) -> str | None:
    match event:
        case DecisionReceived(decision=decision):
            repeats = is_repeated(state.approvals, decision)
            return None if repeats else decision_problem(state, event)
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
