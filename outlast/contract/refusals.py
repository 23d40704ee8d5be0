"""Why an update is refused, before it is written into history."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from outlast.contract import failures, names
from outlast.contract.identity import Place, Signable
from outlast.contract.records import Unreadable, read
from outlast.loop import human_actions
from outlast.loop.actions import AttachLineRecord, DeliverRecord
from outlast.loop.events import (
    ConversationRated,
    Event,
    LineAttached,
    MessageReceived,
    MessageWithdrawn,
    PersonActed,
    RetryRequested,
    ValueDelivered,
)
from outlast.loop.outside import delivery_problem, is_checked_now, is_repeated
from outlast.loop.problems import (
    is_known,
    line_problem,
    rating_problem,
    retry_problem,
    withdraw_problem,
)
from outlast.loop.state import LoopState
from outlast.loop.values import Failure, Json

_SIGNED: Final[Mapping[str, type[Signable]]] = {
    **{one.name: one.record for one in human_actions.HUMAN_ACTIONS},
    names.UPDATE_ATTACH_LINE: AttachLineRecord,
    names.DELIVER: DeliverRecord,
}
"""The records of updates that prove who sends them."""


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
    kind = _SIGNED.get(name)
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
    if isinstance(record, DeliverRecord):
        words = f"The delivery {record.delivery_id!r:.80} is refused: {problem}."
        return Failure(code=failures.DELIVERY_REFUSED, message=words)
    row = human_actions.ACTION_NAMED.get(name)
    return Failure(
        code=_code(row), message=f"The {name} of {_sender(record)} is refused: {problem}."
    )


def _sender(record: Signable) -> str:
    by: object = getattr(record, "by", None)
    return f"{by!r:.80}" if by else "somebody"


def refusal_of(state: LoopState, event: Event) -> Failure | None:
    """Return why an update would have no effect on a run, or None if it has one."""
    if isinstance(event, MessageReceived | LineAttached | ValueDelivered) and state.phase in {
        "closing",
        "closed",
    }:
        message = f"The run {state.run_id} has ended. Start a new one."
        return Failure(code=failures.RUN_CLOSED, message=message)
    if isinstance(event, PersonActed):
        if is_known(state, event.nonce):
            return None  # a repetition, which has no effect
        problem, row = human_actions.problem_of(state, event), human_actions.row_of(event.action)
        return None if problem is None else Failure(code=_code(row), message=problem)
    problem = _problem_of(state, event)
    is_delivery = isinstance(event, ValueDelivered)
    if is_delivery and is_checked_now(state, event):  # the other one may not count
        message = f"Another delivery to {event.name!r} is being checked. Send it again in a moment."
        return Failure(code=failures.RUN_BUSY, message=message)
    code = failures.DELIVERY_REFUSED if is_delivery else failures.USER_ERROR
    return None if problem is None else Failure(code=code, message=problem)


def _code(row: human_actions.HumanAction[Any] | None) -> str:
    is_about_request = row is not None and row.about == "request"
    return failures.DECISION_REFUSED if is_about_request else failures.USER_ERROR


def _problem_of(state: LoopState, event: Event) -> str | None:
    match event:
        case MessageWithdrawn(message_id=message_id):
            return withdraw_problem(state, message_id)
        case RetryRequested(answers=answers):
            return retry_problem(state, answers)
        case LineAttached():
            return line_problem(state)
        case ConversationRated():
            return rating_problem(state)
        case ValueDelivered():
            return None if is_repeated(state, event) else delivery_problem(state, event)
        case _:
            return None
