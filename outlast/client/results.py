"""What a run came to, for the program that asked.

Owns: `RunResult`, and the errors of failed runs. Must not know: how the state was read.
"""

from typing import Any

from outlast.agents.config.run_error import RunErrorDetails
from outlast.agents.errors import ContentUnavailable
from outlast.agents.usage import Usage
from outlast.client.guardrail_results import guardrail_result, tripped, tripped_inside
from outlast.client.known_agents import KnownAgents
from outlast.client.raising import Tripwire, code_of_tripwire, exception_of
from outlast.client.result_members import NOBODY, RunResultBase, RunSnapshot, newest_answer
from outlast.loop.items import Item
from outlast.loop.state import Answer, Status
from outlast.loop.values import Failure


class RunResult(RunResultBase):
    """The result of a run.

    Two are equal when they are of the same state of a run.
    """

    @property
    def max_turns(self) -> int | None:
        """How many model calls the answer might take; None for no bound."""
        return self.snapshot.start.max_turns

    def release_agents(self, release_new_items: bool = True) -> None:  # noqa: FBT001, FBT002  the SDK's
        """Do nothing: a result refers to agents by name and keeps none of them alive."""

    def __eq__(self, other: object) -> bool:
        """Compare what they were made of."""
        if not isinstance(other, RunResult):
            return NotImplemented
        return (self.snapshot, self._answer) == (other.snapshot, other._answer)

    __hash__ = None  # pyright: ignore[reportAssignmentType]  states hold lists

    def __repr__(self) -> str:
        return (
            f"RunResult(run_id={self.run_id!r}, status={self.status!r}, "
            f"final_output={self.final_output!r}, last_agent={self.last_agent.name!r})"
        )


def result_of(state: RunSnapshot, known: KnownAgents = NOBODY, *, client: Any = None) -> RunResult:
    """Return the result in a state."""
    return RunResult(state, known, client=client)


def result_of_answer(
    state: RunSnapshot, answer: Answer, known: KnownAgents = NOBODY, *, client: Any = None
) -> RunResult:
    """Return the result with one of a conversation's answers, which need not be its newest."""
    if answer is newest_answer(state) and not state.question.answering:
        return RunResult(state, known, client=client)
    return RunResult(state, known, answer=answer, client=client)


class FailedRun(RunErrorDetails):
    """A run up to its failure, with everything that its result would have.

    Attributes:
        result: the run as a result tells it.
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

    @property
    def run_id(self) -> str:
        """The workflow id."""
        return self.result.run_id

    @property
    def status(self) -> Status:
        """How the run stands; a conversation goes on after a failure."""
        return self.result.status

    @property
    def items(self) -> tuple[Item, ...]:
        """The whole transcript."""
        return self.result.items

    @property
    def turns(self) -> int:
        """How many model calls were made."""
        return self.result.turns

    @property
    def usage(self) -> Usage:
        """Tokens spent."""
        return self.result.usage

    @property
    def final_output(self) -> Any:
        """What the run had answered, where it ended without answering a message."""
        return self.result.final_output


def run_details(state: RunSnapshot, known: KnownAgents = NOBODY) -> FailedRun:
    """Return a run up to its failure, with placeholders for content that cannot be read."""
    try:
        return FailedRun(RunResult(state, known))
    except ContentUnavailable:
        return FailedRun(RunResult(state))


def error_of(
    failure: Failure, state: RunSnapshot | None = None, known: KnownAgents = NOBODY
) -> Exception:
    """Return the exception that stands for a failure.

    Args:
        failure: what went wrong.
        state: the run up to the failure, where there was one.
        known: the agents that this process knows.
    """
    if state is None:
        return exception_of(failure)
    stage = code_of_tripwire(failure.code)
    record = None if stage is None else tripped(state, stage) or tripped_inside(failure)
    return exception_of(
        failure,
        run_data=run_details(state, known),
        tripwire=None if record is None else Tripwire(result=guardrail_result(record, known)),
    )
