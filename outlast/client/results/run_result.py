"""Results of runs, and the errors of failed runs."""

from dataclasses import fields
from functools import cached_property
from typing import Any

from outlast.agents.agent_tools.nested_result import AgentToolInvocation
from outlast.agents.config.run_error import RunErrorDetails
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import ContentUnavailable, UserError
from outlast.agents.items.item_helpers import ItemHelpers
from outlast.agents.items.run_items import InputItem
from outlast.agents.usage import Usage
from outlast.client.results.guardrail_results import guardrail_result, tripped, tripped_inside
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.client.results.result_members import (
    NOBODY,
    RunResultBase,
    ToInputListMode,
    newest_answer,
)
from outlast.client.results.summaries import failure_summary, result_summary
from outlast.client.transport.exceptions import STAGES_OF_TRIPWIRES, Tripwire, exception_of
from outlast.loop.items import Item
from outlast.loop.state import Answer, LoopState, Status
from outlast.loop.values import Failure
from outlast.pricing import Cost
from outlast.views.run import snapshot_of


class RunResult(RunResultBase):  # noqa: PLW1641  unhashable: states hold lists
    """The result of a run.

    Two results are equal if they have the same state of a run. Tests may make one of its parts:
    `RunResult(input="Hi", new_items=[], final_output="Hello.", ...)` is a `MadeResult`.
    """

    def __new__(cls, *args: Any, **parts: Any) -> Any:
        """Return a `MadeResult` if there is an `input=`."""
        del args
        return object.__new__(MadeResult if cls is RunResult and "input" in parts else cls)

    @cached_property
    def max_turns(self) -> int | None:
        """The maximum number of model calls for the answer; None for no limit."""
        return self._state.start.max_turns

    def release_agents(self, release_new_items: bool = True) -> None:  # noqa: FBT001, FBT002  the SDK's
        """Do nothing: a result refers to agents by name and does not keep them alive."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunResult):
            return NotImplemented
        return (self._state, self._answer) == (other._state, other._answer)

    def __repr__(self) -> str:
        return (
            f"RunResult(run_id={self.run_id!r}, status={self.status!r}, "
            f"final_output={self.final_output!r}, last_agent={self.last_agent.name!r})"
        )

    def __str__(self) -> str:
        return result_summary("RunResult", self)


class MadeResult(RunResult):  # noqa: PLW1641  unhashable, as its base
    """A result that a program made of its parts, such as a test of what reads results.

    It belongs to no run: what a run would have to say, such as `snapshot`, is not there.
    """

    input: Any = None
    new_items: Any = None
    raw_responses: Any = None
    final_output: Any = None
    last_agent: Any = None
    context_wrapper: Any = None
    interruptions: Any = None
    input_guardrail_results: Any = None
    output_guardrail_results: Any = None
    tool_input_guardrail_results: Any = None
    tool_output_guardrail_results: Any = None
    max_turns: Any = None

    def __init__(self, *, input: str | list[Any], _last_agent: Any = None, **parts: Any) -> None:
        unknown = parts.keys() - MadeResult.__annotations__.keys()
        if unknown:
            raise UserError(f"RunResult: there is no argument {', '.join(sorted(unknown))}.")
        lists = dict.fromkeys(_LISTS, ()) | parts
        vars(self).update(parts, input=input, **{name: lists[name] or [] for name in _LISTS})
        if _last_agent is not None:
            self.last_agent = _last_agent

    def to_input_list(self, mode: ToInputListMode = "preserve_all") -> list[Any]:
        """Return the input and the new items as input items."""
        del mode
        is_text = isinstance(self.input, str)
        first = [{"role": "user", "content": self.input}] if is_text else list(self.input)
        return [*first, *(item.to_input_item() for item in self.new_items)]

    @property
    def all_items(self) -> list[Any]:
        """The input as items, and the new items."""
        given = ItemHelpers.input_to_new_input_list(self.input)
        return [*(InputItem(agent=None, raw_item=raw) for raw in given), *self.new_items]

    @property
    def agent_tool_invocation(self) -> AgentToolInvocation | None:
        """The call whose `ToolContext` is the result's context, if there is one."""
        context = self.context_wrapper
        if not isinstance(context, ToolContext):
            return None
        return AgentToolInvocation(
            tool_name=context.tool_name,
            tool_call_id=context.tool_call_id,
            tool_arguments=context.tool_arguments,
        )

    def __eq__(self, other: object) -> bool:
        """Compare the identity: there is no run to compare."""
        return self is other

    def __repr__(self) -> str:
        return f"RunResult(input={self.input!r}, final_output={self.final_output!r})"


_LISTS = (
    "new_items",
    "raw_responses",
    "interruptions",
    "input_guardrail_results",
    "output_guardrail_results",
    "tool_input_guardrail_results",
    "tool_output_guardrail_results",
)


def result_of(
    state: LoopState, definitions: LocalDefinitions = NOBODY, *, client: Any = None
) -> RunResult:
    """Return the result of a state."""
    return RunResult(snapshot_of(state), definitions, client=client)


def result_of_answer(
    state: LoopState,
    answer: Answer,
    definitions: LocalDefinitions = NOBODY,
    *,
    client: Any = None,
) -> RunResult:
    """Return the result for one of a conversation's answers, possibly an earlier one."""
    if answer is newest_answer(state) and not state.question.answering:
        return RunResult(snapshot_of(state), definitions, client=client)
    return RunResult(snapshot_of(state), definitions, answer=answer, client=client)


class FailedRun(RunErrorDetails):  # noqa: PLW1641  unhashable: states hold lists
    """A run up to its failure, with all members of a result."""

    def __init__(self, result: RunResult) -> None:
        parts = (field.name for field in fields(RunErrorDetails))
        super().__init__(**{name: getattr(result, name) for name in parts})
        self.result = result

    def __eq__(self, other: object) -> bool:
        return self.result == other.result if isinstance(other, FailedRun) else NotImplemented

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
    def cost(self) -> Cost:
        """The cost of the run so far."""
        return self.result.cost

    @property
    def final_output(self) -> Any:
        """The run's earlier answer, if it ended without answering a later message."""
        return self.result.final_output


def run_details(state: LoopState, definitions: LocalDefinitions = NOBODY) -> FailedRun:
    """Return a run up to its failure; unreadable content becomes placeholders."""
    try:
        return FailedRun(RunResult(snapshot_of(state), definitions))
    except ContentUnavailable:
        return FailedRun(RunResult(snapshot_of(state)))


def error_of(
    failure: Failure, state: LoopState | None = None, definitions: LocalDefinitions = NOBODY
) -> Exception:
    """Return the exception of a failure."""
    if state is None:
        return exception_of(failure)
    stage = STAGES_OF_TRIPWIRES.get(failure.code)
    record = None if stage is None else tripped(state, stage) or tripped_inside(failure)
    return exception_of(
        failure,
        run_data=run_details(state, definitions),
        tripwire=None if record is None else Tripwire(result=guardrail_result(record, definitions)),
    )
