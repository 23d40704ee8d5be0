"""The policy after tool calls: call the model again, or answer with a result."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypedDict, cast

from outlast.agents.callables import call, check_callable
from outlast.agents.checks import InvalidType, Rule, check_count, check_fields, optional
from outlast.agents.context.wrapper import RunContextWrapper, TContext
from outlast.agents.errors import UserError
from outlast.agents.installed_sdk import as_ours
from outlast.agents.items.run_items import RunItem
from outlast.agents.logs import get_logger
from outlast.agents.tools.definition import FunctionTool

logger: Final = get_logger(__name__)


class StopAtTools(TypedDict):
    """A setting that ends the run with the first result of a listed tool.

    Attributes:
        stop_at_tool_names: the names of the tools, as the model calls them.
    """

    stop_at_tool_names: list[str]


@dataclass
class ToolsToFinalOutputResult:
    """The result of a `ToolsToFinalOutputFunction`.

    Attributes:
        is_final_output: whether the run ends; otherwise the model is called again.
        final_output: the run's final output, if it ends.
    """

    is_final_output: bool
    final_output: Any = None


@dataclass
class FunctionToolResult:
    """The result of one tool call of a turn.

    Attributes:
        output: the tool's result, as the model would read it.
        run_item: the run's item with the output.
    """

    tool: FunctionTool
    output: Any
    run_item: RunItem | None = None


ToolsToFinalOutputFunction: TypeAlias = Callable[
    [RunContextWrapper[TContext], list[FunctionToolResult]],
    ToolsToFinalOutputResult | Awaitable[ToolsToFinalOutputResult],
]
"""A function called with (context, results) that decides about the answer."""

ToolUseBehavior: TypeAlias = (
    Literal["run_llm_again", "stop_on_first_tool"] | StopAtTools | ToolsToFinalOutputFunction[Any]
)
"""The policy after the tool calls of a turn.

`run_llm_again` calls the model again. `stop_on_first_tool` uses the first call's result as the
final output, `StopAtTools` that of the first listed tool. A callable decides by the results.
"""

JUDGED: Literal["judged"] = "judged"
"""The value of `final_call` if a callable decides by the results."""


@dataclass(frozen=True, slots=True)
class ToolExecutionConfig:
    """The execution settings for the tool calls of one turn.

    Attributes:
        max_function_tool_concurrency: the maximum number of concurrent calls; None for no limit.
        pre_approval_tool_input_guardrails: whether a tool's input guardrails also run before a
            person decides, so that nobody decides about a call that a guardrail refuses.
            They run again before the tool runs.
    """

    max_function_tool_concurrency: int | None = None
    pre_approval_tool_input_guardrails: bool = False

    def __post_init__(self) -> None:
        check_fields(self, _RULES, "tool_execution")


_RULES: Final[dict[str, Rule]] = {
    "max_function_tool_concurrency": optional(
        partial(check_count, expected="at least 1, or None for no limit")
    ),
}


def check_tool_use_behavior(place: str, behavior: object) -> None:
    """Raise an error if a value is not a valid `tool_use_behavior`."""
    if behavior in ("run_llm_again", "stop_on_first_tool"):
        return
    if isinstance(behavior, Mapping):
        _check_stops(place, cast("Mapping[str, object]", behavior))
        return
    if callable(behavior) and not isinstance(behavior, type):
        check_callable(behavior, ("context", "results"), what=place)
        return
    raise InvalidType(
        f"{place} must be 'run_llm_again', 'stop_on_first_tool', "
        "StopAtTools(stop_at_tool_names=[...]) or a callable that takes (context, results), "
        f"not {behavior!r}."
    )


def _check_stops(place: str, behavior: Mapping[str, object]) -> None:
    names = behavior.get("stop_at_tool_names", [])
    entries = cast("Sequence[object]", names) if isinstance(names, list | tuple) else None
    fits = entries is not None and all(isinstance(name, str) for name in entries)
    if not fits:
        raise UserError(
            f"{place} as a dict is StopAtTools(stop_at_tool_names=['name']), "
            f"with a list of tools' names, not {dict(behavior)!r}."
        )
    for key in sorted(behavior.keys() - {"stop_at_tool_names"}):
        logger.warning(
            "%s has the unknown key %r, which has no effect. The key of "
            "StopAtTools is stop_at_tool_names.",
            place,
            key,
        )


def final_call(behavior: ToolUseBehavior, called: Sequence[str]) -> int | Literal["judged"] | None:
    """Return the position of the call that ends the run with its result; None for none.

    It is `JUDGED` if a callable decides by the results.
    """
    if not called or behavior == "run_llm_again":
        return None
    if behavior == "stop_on_first_tool":
        return 0
    if callable(behavior):
        return JUDGED
    stops = behavior.get("stop_at_tool_names", [])
    return next((index for index, name in enumerate(called) if name in stops), None)


async def judge(
    behavior: ToolsToFinalOutputFunction[Any],
    context: RunContextWrapper[Any],
    results: list[FunctionToolResult],
    *,
    owner: str,
) -> ToolsToFinalOutputResult:
    """Call a callable that decides whether the results of a turn end the run."""
    verdict: object = await call(behavior, context, results)
    verdict = as_ours(verdict, ToolsToFinalOutputResult)
    if not isinstance(verdict, ToolsToFinalOutputResult):
        raise UserError(
            f"{owner}: tool_use_behavior returned {type(verdict).__name__}: return "
            "ToolsToFinalOutputResult(is_final_output=..., final_output=...)."
        )
    return verdict
