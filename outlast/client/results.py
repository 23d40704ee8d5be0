"""What a run came to, for the program that asked.

Owns: `RunResult` and the errors of failed runs. Must not know: how the state was read.
"""

from dataclasses import dataclass, replace
from typing import Any

from outlast.agents import errors
from outlast.agents.context_codec import read_context
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.items import Item, text_of
from outlast.loop.state import Answer, RunState, Status
from outlast.loop.values import Failure, Json, JsonObject, Usage

_ERRORS: dict[str, type[errors.AgentsException]] = {
    kind.code: kind
    for kind in (
        errors.UserError,
        errors.RunNotFound,
        errors.RunAlreadyStarted,
        errors.RunClosed,
        errors.MaxTurnsExceeded,
        errors.ModelBehaviorError,
        errors.ModelRefusalError,
        errors.ModelCallFailed,
        errors.ToolFailed,
        errors.ToolTimeoutError,
        errors.RunCancelled,
        errors.DecisionRefused,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run came to.

    Attributes:
        run_id: the workflow id.
        status: `completed`; or `waiting` for a person, or `idle`, where the run goes on.
        final_output: the newest answer; None where there is none.
        last_agent: the name of the agent that answered.
        items: the whole transcript, complete whatever the length of the run.
        usage: tokens spent.
        interruptions: what people have to decide before the run can go on.
        context: the application's context as JSON.
        turns: how many model calls were made.
    """

    run_id: str
    status: Status
    final_output: Json
    last_agent: str
    items: tuple[Item, ...]
    usage: Usage
    interruptions: tuple[ApprovalRequest, ...]
    context: Json
    turns: int

    def to_input_list(self) -> list[JsonObject]:
        """Return the transcript as input items, to start another run from."""
        return [item.raw for item in self.items]

    def context_as(self, context_type: type) -> Any:
        """Return the context as the application's type.

        Raises:
            UserError: it does not fit.
        """
        return read_context(self.context, context_type)


def result_of(state: RunState) -> RunResult:
    """Return the result in a state."""
    return RunResult(
        run_id=state.run_id,
        status=state.status,
        final_output=state.final_output,
        last_agent=state.agent,
        items=state.items,
        usage=state.usage,
        interruptions=state.pending_approvals,
        context=state.context,
        turns=state.turns,
    )


def result_of_answer(state: RunState, answer: Answer) -> RunResult:
    """Return the result with one of a conversation's answers, which need not be its newest."""
    result = result_of(state)
    if answer is state.answers[-1] or answer.item is None:
        return result
    text = text_of(state.items[answer.item].raw)
    return replace(result, final_output=text, last_agent=answer.agent)


def error_of(failure: Failure, state: RunState | None = None) -> errors.AgentsException:
    """Return the exception that stands for a failure."""
    kind = _ERRORS.get(failure.code, errors.AgentsException)
    run_data = result_of(state) if state is not None else None
    return kind(failure.message, run_data=run_data)
