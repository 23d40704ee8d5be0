"""Takes the decisions that a front end sends as answers to interrupts.

Whatever cannot be decided is answered in words, and never by an error: a client that gets an error
keeps its interrupts open, and refuses everything else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from outlast.agents.errors import AgentsException, UserError
from outlast.client.people.actions import decision_of
from outlast.client.people.nested_requests import present_requests
from outlast.serve.access import may
from outlast.serve.routing import DeskRequest
from outlast.serve.wires.ag_ui_input import Answered, interrupt_id
from outlast.views.acts import same_person, settled_problem
from outlast.views.records import ApprovalRequest
from outlast.views.run import RunSnapshot

CHANNEL: Final = "ag-ui"
"""Where these decisions are made, as the audit has it."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of the answers to interrupts.

    Attributes:
        taken: the requests that the run has a decision about.
        skipped: the requests about which the person does not want to decide now.
        words: what could not be decided, and why.
    """

    taken: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    words: tuple[str, ...] = field(default=())


NOTHING_DECIDED: Final = Decided()


async def decide(
    asked: DeskRequest, answers: Sequence[Answered], state: RunSnapshot | None
) -> Decided:
    """Send the decisions to the runs whose requests they answer.

    Args:
        asked: the request that brings them, at the conversation.
        answers: the decisions.
        state: the state of the run; None if there is no run.
    """
    skipped = frozenset(one.request_id for one in answers if one.kind is None and not one.problem)
    real = [one for one in answers if one.kind is not None or one.problem]
    if not real:
        return Decided(skipped=skipped)
    if (problem := may(asked.caller, "decide")) is not None:
        return Decided(skipped=skipped, words=(problem,))
    if state is None:
        return Decided(skipped=skipped, words=(f"There is no conversation {asked.run_id!r:.200}.",))
    requests = await present_requests(state, asked.desk.client)
    waiting = {interrupt_id(one): one for one in requests}
    taken: set[str] = set()
    words: list[str] = []
    for answer in real:
        request = waiting.get(answer.interrupt_id)
        problem = await _decided(asked, state, answer, request)
        if problem is None:
            taken.add(answer.request_id)
        else:
            words.append(problem)
    return Decided(frozenset(taken), skipped, tuple(words))


async def _decided(
    asked: DeskRequest, state: RunSnapshot, answer: Answered, request: ApprovalRequest | None
) -> str | None:
    """Send one decision; return why it is not taken, or None."""
    if request is None:
        return _not_waiting(asked, state, answer)
    if answer.kind is None:
        return f"Approval {request.id}: {answer.problem}"
    target = await asked.target(state, request)
    if (problem := may(asked.caller, "decide", target)) is not None:
        return problem
    try:
        decision = decision_of(
            request, answer.kind, by=asked.person, channel=CHANNEL, **(answer.fields or {})
        )
        await asked.handle.decide(decision, request=request)
    except (UserError, AgentsException) as error:
        return str(error)
    return None


def _not_waiting(asked: DeskRequest, state: RunSnapshot, answer: Answered) -> str | None:
    """Return why a request cannot be decided any more; None if this person has decided it."""
    for one in state.approvals:
        if one.id != answer.request_id:
            continue
        if one.settled_by is not None and same_person(one.settled_by, asked.person.subject):
            return None  # a front end that was cut off sends its decision again
        if (problem := settled_problem(one)) is not None:
            return f"Approval {one.id}{problem}"
    if any(one.id == answer.request_id for one in state.pending_approvals):
        return (
            f"Approval {answer.request_id} has changed since you were asked. "
            "Look at it again and decide again."
        )
    return f"Approval {answer.request_id:.80} does not wait for a decision any more."
