"""What an agent's run does once its tools have answered: go on, or take a result for the answer.

Owns: the forms of `Agent.tool_use_behavior`, and how tools of one turn are run beside each other.
Must not know: how the answer becomes the run's.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, cast

from outlast.agents.callables import call, check_callable
from outlast.agents.context.wrapper import RunContextWrapper, TContext
from outlast.agents.errors import UserError
from outlast.agents.items.run_items import RunItem
from outlast.agents.tools.definition import FunctionTool


class StopAtTools(TypedDict):
    """A setting that ends the run at the first result of the listed tools.

    Attributes:
        stop_at_tool_names: the tools' names, as the model calls them.
    """

    stop_at_tool_names: list[str]


@dataclass
class ToolsToFinalOutputResult:
    """The result of a `ToolsToFinalOutputFunction`.

    Attributes:
        is_final_output: whether the run ends with them; otherwise the model is called again.
        final_output: the run's answer, where it ends.
    """

    is_final_output: bool
    final_output: Any = None


@dataclass
class FunctionToolResult:
    """The result of one tool call of a turn.

    Attributes:
        tool: the tool.
        output: what it returned, as the model would read it.
        run_item: the item of the run that holds it.
    """

    tool: FunctionTool
    output: Any
    run_item: RunItem | None = None


ToolsToFinalOutputFunction: TypeAlias = Callable[
    [RunContextWrapper[TContext], list[FunctionToolResult]],
    ToolsToFinalOutputResult | Awaitable[ToolsToFinalOutputResult],
]
"""A function that turns tool results into an answer; sync or async.

Called with (context, results in the order of the calls), in an activity.
"""

ToolUseBehavior: TypeAlias = (
    Literal["run_llm_again", "stop_on_first_tool"] | StopAtTools | ToolsToFinalOutputFunction[Any]
)
"""What follows when the tools of a turn have answered.

`run_llm_again` calls the model again; `stop_on_first_tool` takes the result of the first call for
the answer; `StopAtTools` that of the first call of certain tools; a callable decides.
"""

JUDGED: Literal["judged"] = "judged"
"""A callable has to judge the results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionConfig:
    """The execution settings for the tool calls of one turn.

    Attributes:
        max_function_tool_concurrency: how many run at the same time; None is all of them.
        pre_approval_tool_input_guardrails: whether a tool's input guardrails are asked before a
            person is, so that nobody decides on a call that is refused anyway. They are asked
            again before the tool runs.
    """

    max_function_tool_concurrency: int | None = None
    pre_approval_tool_input_guardrails: bool = False

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            UserError: one of them makes no sense.
        """
        most = cast("object", self.max_function_tool_concurrency)
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
            raise UserError(
                "ToolExecutionConfig(max_function_tool_concurrency=...) must be a whole number "
                f"from 1, or None for no limit, not {most!r}."
            )
        early = cast("object", self.pre_approval_tool_input_guardrails)
        if not isinstance(early, bool):
            raise UserError(
                "ToolExecutionConfig(pre_approval_tool_input_guardrails=...) must be True or "
                f"False, not {early!r}."
            )


def check_tool_use_behavior(behavior: object, owner: str) -> None:
    """Refuse a behaviour that is none, where it is given.

    Raises:
        UserError: it is none. The message names the owner.
    """
    if behavior in ("run_llm_again", "stop_on_first_tool"):
        return
    if isinstance(behavior, Mapping):
        _check_stops(cast("Mapping[str, object]", behavior), owner)
        return
    if callable(behavior) and not isinstance(behavior, type):
        check_callable(behavior, ("context", "results"), what=f"{owner}: tool_use_behavior")
        return
    raise UserError(
        f"{owner}: tool_use_behavior must be 'run_llm_again', 'stop_on_first_tool', "
        "StopAtTools(stop_at_tool_names=[...]) or a callable that takes (context, results), "
        f"not {behavior!r}."
    )


def _check_stops(behavior: Mapping[str, object], owner: str) -> None:
    names = behavior.get("stop_at_tool_names")
    entries = cast("Sequence[object]", names) if isinstance(names, list | tuple) else None
    fits = entries is not None and all(isinstance(name, str) for name in entries)
    if not fits or set(behavior) != {"stop_at_tool_names"}:
        raise UserError(
            f"{owner}: tool_use_behavior as a dict is StopAtTools(stop_at_tool_names=['name']), "
            f"with a list of tools' names, not {dict(behavior)!r}."
        )


def final_call(behavior: ToolUseBehavior, called: Sequence[str]) -> int | Literal["judged"] | None:
    """Return which call of a turn ends the run.

    Args:
        behavior: the agent's.
        called: the names of the function tools that were called, in the order of the calls.

    Returns:
        The position of the call, `JUDGED` where a callable has to see the results, or None where
        the model is called again.
    """
    if not called or behavior == "run_llm_again":
        return None
    if behavior == "stop_on_first_tool":
        return 0
    if callable(behavior):
        return JUDGED
    stops = behavior["stop_at_tool_names"]
    return next((index for index, name in enumerate(called) if name in stops), None)


async def judge(
    behavior: ToolsToFinalOutputFunction[Any],
    context: RunContextWrapper[Any],
    results: list[FunctionToolResult],
    *,
    owner: str,
) -> ToolsToFinalOutputResult:
    """Ask a callable whether the results of a turn end the run.

    Args:
        behavior: the callable.
        context: the run's context.
        results: in the order of the calls.
        owner: names the agent, for the error.

    Raises:
        UserError: it returned something else.
        Exception: whatever it raised.
    """
    verdict: object = await call(behavior, context, results)
    if not isinstance(verdict, ToolsToFinalOutputResult):
        raise UserError(
            f"{owner}: tool_use_behavior returned {type(verdict).__name__}: return "
            "ToolsToFinalOutputResult(is_final_output=..., final_output=...)."
        )
    return verdict
