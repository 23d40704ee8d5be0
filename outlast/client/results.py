"""Results of runs, and the errors of failed runs."""

from typing import Any

from outlast.agents.config.run_error import RunErrorDetails
from outlast.agents.errors import ContentUnavailable
from outlast.agents.usage import Usage
from outlast.client.exceptions import Tripwire, code_of_tripwire, exception_of
from outlast.client.guardrail_results import guardrail_result, tripped, tripped_inside
from outlast.client.local_definitions import LocalDefinitions
from outlast.client.result_members import NOBODY, RunResultBase, RunSnapshot, newest_answer
from outlast.client.summaries import failure_summary, result_summary
from outlast.loop.items import Item
from outlast.loop.state import Answer, Status
from outlast.loop.values import Failure


class RunResult(RunResultBase):
    """The result of a run.

    Two results are equal if they have the same state of a run.
    """

    @property
    def max_turns(self) -> int | None:
        """The maximum number of model calls for the answer; None for no limit."""
        return self.snapshot.start.max_turns

    def release_agents(self, release_new_items: bool = True) -> None:  # noqa: FBT001, FBT002  the SDK's
        """Do nothing: a result refers to agents by name and does not keep them alive."""

    def __eq__(self, other: object) -> bool:
        """Compare the states."""
        if not isinstance(other, RunResult):
            return NotImplemented
        return (self.snapshot, self._answer) == (other.snapshot, other._answer)

    __hash__ = None  # pyright: ignore[reportAssignmentType]  states hold lists

    def __repr__(self) -> str:
        return (
            f"RunResult(run_id={self.run_id!r}, status={self.status!r}, "
            f"final_output={self.final_output!r}, last_agent={self.last_agent.name!r})"
        )

    def __str__(self) -> str:
        return result_summary("RunResult", self)


def result_of(
    state: RunSnapshot, definitions: LocalDefinitions = NOBODY, *, client: Any = None
) -> RunResult:
    """Return the result of a state."""
    return RunResult(state, definitions, client=client)


def result_of_answer(
    state: RunSnapshot,
    answer: Answer,
    definitions: LocalDefinitions = NOBODY,
    *,
    client: Any = None,
) -> RunResult:
    """Return the result for one of a conversation's answers, possibly an earlier one."""
    if answer is newest_answer(state) and not state.question.answering:
        return RunResult(state, definitions, client=client)
    return RunResult(state, definitions, answer=answer, client=client)


class FailedRun(RunErrorDetails):
    """A run up to its failure, with all members of a result.

    Attributes:
        result: the result of the run.
    """

    def __init__(self, result: RunResult) -> None:
        super().__init__(
            input=result.input,
            new_items=result.new_items,
            raw_responses=result.raw_responses,
            last_agent=result.last_agent,
            context_wrapper=result.context_wrapper,
            input_guardrail_results=result.input_guardrail_results,
            output_guardrail_results=result.output_guardrail_results,
            tool_input_guardrail_results=result.tool_input_guardrail_results,
            tool_output_guardrail_results=result.tool_output_guardrail_results,
        )
        self.result = result

    def __str__(self) -> str:
        return failure_summary(self)

    @property
    def run_id(self) -> str:
        """The workflow id."""
        return self.result.run_id

    @property
    def status(self) -> Status:
        """The status of the run; a conversation continues after a failure."""
        return self.result.status

    @property
    def items(self) -> tuple[Item, ...]:
        """The whole transcript."""
        return self.result.items

    @property
    def turns(self) -> int:
        """The number of model calls."""
        return self.result.turns

    @property
    def usage(self) -> Usage:
        """The usage of the run."""
        return self.result.usage

    @property
    def final_output(self) -> Any:
        """The run's earlier answer, if it ended without answering a later message."""
        return self.result.final_output


def run_details(state: RunSnapshot, definitions: LocalDefinitions = NOBODY) -> FailedRun:
    """Return a run up to its failure; unreadable content becomes placeholders."""
    try:
        return FailedRun(RunResult(state, definitions))
    except ContentUnavailable:
        return FailedRun(RunResult(state))


def error_of(
    failure: Failure, state: RunSnapshot | None = None, definitions: LocalDefinitions = NOBODY
) -> Exception:
    """Return the exception of a failure.

    Args:
        failure: the failure.
        state: the run up to the failure, if it had started.
        definitions: the agents that this process defines.
    """
    if state is None:
        return exception_of(failure)
    stage = code_of_tripwire(failure.code)
    record = None if stage is None else tripped(state, stage) or tripped_inside(failure)
    return exception_of(
        failure,
        run_data=run_details(state, definitions),
        tripwire=None if record is None else Tripwire(result=guardrail_result(record, definitions)),
    )
