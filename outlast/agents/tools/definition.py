"""Tools as records: their description for the model, and how a worker runs them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypedDict, cast

from outlast.agents.approvals.policy import (
    WITHOUT_ARGUMENTS,
    NeedsApproval,
    ToolEffect,
    check_needs_approval,
)
from outlast.agents.callables import called_with
from outlast.agents.checks import (
    Rule,
    check_count,
    check_fields,
    check_name,
    check_printable,
    duration,
    json_problem,
    optional,
)
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.durations import DurationField, duration_field
from outlast.agents.errors import MCPTaskEnded, ToolTimeoutError, UserError, WaitTimeout
from outlast.agents.guardrails.guardrail import adopted_guardrail, guardrails
from outlast.agents.guardrails.tool_guardrails import ToolInputGuardrail, ToolOutputGuardrail
from outlast.agents.installed_sdk import adopted
from outlast.agents.logs import get_logger
from outlast.agents.schemas.provider_names import is_tool_name
from outlast.agents.schemas.strict_schema import NoStrictForm, strict_form
from outlast.agents.tools.custom_data import CustomDataExtractor
from outlast.agents.tools.programs import ToolCaller, check_callers, checked_schema
from outlast.edges.rendering import head, visible
from outlast.loop.approvals import ALL_DECISIONS, DecisionType
from outlast.loop.call_forms import FORMS, FUNCTION
from outlast.loop.values import JsonObject

logger: Final = get_logger(__name__)

ToolFunction: TypeAlias = Callable[[ToolContext[Any], str], Awaitable[Any]]
EnabledPredicate: TypeAlias = Callable[[RunContextWrapper[Any], Any], bool | Awaitable[bool]]
"""Called with (context, agent) before every model call; sync or async."""

ToolErrorFunction: TypeAlias = Callable[[RunContextWrapper[Any], Exception], str | Awaitable[str]]
"""Turns a tool's failure into the output; called with (context, error)."""

TimeoutBehavior: TypeAlias = Literal["error_as_result", "raise_exception"]
"""The policy after a tool's last time-out: report to the model, or fail the run."""

DEFAULT_TIMEOUT = timedelta(minutes=2)  # longer than most APIs take; a longer tool says so itself


def check_tool_name(name: object) -> None:
    """Refuse a name that has other characters than letters, digits, `_` and `-`."""
    if not is_tool_name(name):
        raise UserError(f"A tool's name must be 1 to 64 letters, digits, '_' or '-', not {name!r}.")


class AnsweredError(Exception):
    """A failure that a server reported to the caller of its tool.

    Attributes:
        words: the server's own words; empty if it has not said anything.
    """

    words: str = ""


LONGEST_WORDS = 2_000
"""The longest text of a server's error that the model reads, in characters."""


def default_tool_error(context: RunContextWrapper[Any], error: Exception) -> str:
    """Return the default message for a failed tool, which hides the reason.

    An exception's text may be internal, secret, or written by a stranger, so it goes to the
    operator and not to the model. Set a `failure_error_function` to reveal more to the model. What
    an MCP server answers is for its caller: the model reads the words of an error as it reads those
    of a result.
    """
    tool = f"The tool {context.tool_name}" if isinstance(context, ToolContext) else "The tool"
    if isinstance(error, ToolTimeoutError):
        after = "" if error.timeout_seconds is None else f" after {error.timeout_seconds:g} seconds"
        return f"{tool} timed out{after} and returned no result. It may have had an effect."
    if isinstance(error, MCPTaskEnded):
        answered = f" Its server answered: {error.words[:LONGEST_WORDS]}" if error.words else ""
        return (
            f"{tool} began a task at its server and returned no result. The task {error.outcome}. It "
            f"may have had an effect.{answered}"
        )
    if isinstance(error, WaitTimeout):
        return f"{tool} waited in vain: {error.message} What it began may still have an effect."
    if isinstance(error, AnsweredError) and error.words:
        words = error.words[:LONGEST_WORDS]
        return f"{tool} failed. It may have had an effect. Its server answered: {words}"
    return f"{tool} failed and returned no result. It may have had an effect."


default_tool_error_function = default_tool_error
"""The SDK's name for `default_tool_error`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRetry:
    """The retry policy of a tool's calls.

    Attributes:
        attempts: the total number of attempts.
        errors: whether a call that raised is retried. False: only a call whose worker was lost or
            that took too long.
        initial_interval: the wait before the second attempt.
        backoff: the factor by which each further wait grows.
        maximum_interval: the longest wait.
    """

    attempts: int = 3
    errors: bool = True
    initial_interval: timedelta = timedelta(seconds=1)
    backoff: float = 2.0
    maximum_interval: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        check_count(
            "ToolRetry(attempts=...)",
            self.attempts,
            expected="a whole number from 1, where 1 means that a failed call is not retried",
        )
        duration("ToolRetry(initial_interval=...)", self.initial_interval)
        if self.maximum_interval < self.initial_interval:
            raise UserError(
                "ToolRetry(maximum_interval=...) must not be less than initial_interval "
                f"({self.initial_interval}), but is {self.maximum_interval}."
            )
        if not self.backoff >= 1:  # not `< 1`: that lets NaN pass
            raise UserError(f"ToolRetry(backoff=...) must be at least 1, not {self.backoff!r}.")


DEFAULT_RETRY = ToolRetry(errors=False)
"""The retry policy of a tool that declares none: a call that raised may have had its effect."""


FUNCTION_ATTRIBUTE = "tool_function"
"""The attribute of an `on_invoke_tool` that holds the plain function it was made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolNamespace:
    """A group of tools that a tool search finds together.

    Attributes:
        name: the name of the group.
        description: what its tools have in common.
    """

    name: str
    description: str


class _Wrapped:
    """The attribute `__wrapped__`: the function that the tool was made from."""

    def __get__(self, tool: "FunctionTool | None", owner: type | None = None) -> Callable[..., Any]:
        found = getattr(tool and tool.on_invoke_tool, FUNCTION_ATTRIBUTE, None)
        if found is None:
            raise AttributeError("Only tools that function_tool made have a __wrapped__.")
        return found

    def __set__(self, tool: "FunctionTool", value: object) -> None:
        raise AttributeError("__wrapped__ cannot be set: make another tool.")


@dataclass(eq=False)
class FunctionTool:
    """A tool that a model calls and a worker runs.

    `function_tool` makes one from a plain function. Create one directly for tools whose schema is
    only known at run time.

    Attributes:
        name: the tool's name; also the activity type `tool:<name>`. Providers get a name in ASCII
            instead, if it has other letters.
        description: the tool's description for the model.
        title: what people call the tool where they decide about its calls, such as "Refund"; None
            for its name. The model does not read it.
        argument_titles: what people call the arguments, by their names; None: the `title` of each
            in the schema, as `Field(title="Amount in EUR")` sets it. The model does not read them.
        params_json_schema: JSON Schema of the arguments; made strict if `strict_json_schema`.
        on_invoke_tool: called with (context, arguments as JSON text); returns the result.
        validate: called with the arguments as JSON text, also before a person decides; returns
            None if they fit, or a sentence for the model. None: any JSON object is accepted.
        altered: called with valid arguments as JSON text; returns the names of those whose parsed
            value differs from the model's text, so that `needs_approval`, a predicate on the text,
            does not judge them. None: the function gets the text.
        defaults: the values of optional arguments that a call leaves out, as JSON, as
            `needs_approval` judges them; for those without one, a person decides.
        read: called with the arguments as JSON text, once for each attempt, when the call may
            run; its validators are user code. `on_invoke_tool` finds its result in
            `context.arguments_read`. None: the function reads the text.
        strict_json_schema: whether the provider enforces the schema; set to false, with a warning
            in the log, if the schema cannot be strict, as with values of any type.
        needs_approval: whether a human decides before each call: yes, no, a predicate, or an
            `ApprovalPolicy`, which also says who decides and until when.
        timeout: the time-out of one attempt; a number is in seconds. A sync function's thread
            cannot be stopped: it continues after the time-out, but its result is dropped.
        timeout_behavior: after the last time-out, `error_as_result` reports to the model, and
            `raise_exception` ends the run with `ToolTimeoutError`.
        timeout_error_function: makes the output after a time-out; None uses
            `failure_error_function`.
        retry: how calls are retried. By default, a call that raised is retried only if `effect` is
            `read`, and one whose worker was lost or that took too long has three attempts.
        fast: runs as a local activity: for idempotent work well under a second, without approval.
            None: where `effect` is `read` and its latest calls were short.
        effect: what a call changes; None if that is not declared. A `read` tool changes nothing,
            so a call may be repeated, and cancelled while it runs.
        is_enabled: whether the agent offers the tool: yes, no, or a predicate called with (context,
            agent).
        failure_error_function: makes the output from the last attempt's failure; None lets the
            failure end the run.
        tool_input_guardrails: run before the function, in order.
        tool_output_guardrails: run on its result, in order.
        defer_loading: whether the model only reads the tool after a `ToolSearchTool` found it; for
            the Responses API.
        namespace: the tool's namespace; see `tool_namespace`.
        allowed_callers: who may call the tool: the model (`direct`), the programs that it writes
            (`programmatic`), or both; None for the model. For the Responses API.
        output_json_schema: the schema of the output for those programs; None for any text.
        context_type: the type of `ctx.context` for this tool, if known.
        result_type: the function's return type, if known.
        custom_data_extractor: makes the `custom_data` of the output's item for the program; called
            with a `CustomDataContext` after each call, and no model reads what it returns.
        timeout_seconds: another way to set `timeout`.
    """

    name: str
    description: str
    params_json_schema: JsonObject
    on_invoke_tool: ToolFunction
    _: KW_ONLY
    title: str | None = None
    argument_titles: JsonObject | None = None
    validate: Callable[[str], str | None] | None = None
    altered: Callable[[str], str] | None = None
    defaults: Mapping[str, Any] | None = None
    read: Callable[[str], Any] | None = None
    strict_json_schema: bool = True
    needs_approval: NeedsApproval = False
    timeout: DurationField[timedelta] = duration_field(DEFAULT_TIMEOUT)  # noqa: RUF009  a descriptor
    timeout_behavior: TimeoutBehavior = "error_as_result"
    timeout_error_function: ToolErrorFunction | None = None
    retry: ToolRetry = DEFAULT_RETRY
    fast: bool | None = None
    effect: ToolEffect | None = None
    is_enabled: bool | EnabledPredicate = True
    failure_error_function: ToolErrorFunction | None = default_tool_error
    tool_input_guardrails: list[ToolInputGuardrail[Any]] = field(
        default_factory=list[ToolInputGuardrail[Any]]
    )
    tool_output_guardrails: list[ToolOutputGuardrail[Any]] = field(
        default_factory=list[ToolOutputGuardrail[Any]]
    )
    defer_loading: bool = False
    namespace: ToolNamespace | None = None
    allowed_callers: list[ToolCaller] | None = None
    output_json_schema: JsonObject | None = None
    context_type: Any = None
    result_type: Any = None
    custom_data_extractor: CustomDataExtractor | None = None
    timeout_seconds: InitVar[float | None] = None

    __wrapped__: ClassVar[_Wrapped] = _Wrapped()

    form: ClassVar[str] = FUNCTION
    """The item type of the tool's calls, a key of `outlast.loop.call_forms.FORMS`."""

    @property
    def is_hosted(self) -> bool:
        """Whether the provider runs the tool instead of a worker."""
        return False

    @property
    def retries_errors(self) -> bool:
        """Whether a call that raised is retried, because the tool says that it may be repeated."""
        return self.retry.errors or self.effect == "read"

    @property
    def called_name(self) -> str:
        """The name in the tool's calls: the item type's fixed name, or its own name."""
        return FORMS[self.form].name or self.name

    def __post_init__(self, timeout_seconds: float | None) -> None:
        check_tool_name(self.name)
        owner = f"Tool {self.name!r}"
        if timeout_seconds is not None:
            self.timeout = timeout_seconds
        elif self.timeout is None:  # pyright: ignore[reportUnnecessaryComparison]  as an option
            self.timeout = DEFAULT_TIMEOUT
        for name in ("tool_input_guardrails", "tool_output_guardrails"):  # None means unset
            setattr(self, name, adopted(getattr(self, name) or [], adopted_guardrail))
        self.retry = _retry_policy(self.retry, owner)
        check_fields(self, _RULES, owner)
        if self.argument_titles is None:
            self.argument_titles = _argument_titles(self.params_json_schema)
        if self.fast and self.needs_approval is not False:
            raise UserError(
                f"{owner}: fast=True does not go with needs_approval. A fast tool runs inside the "
                "workflow's own step, which cannot wait for a person. Leave one of them out."
            )
        self.output_json_schema = checked_schema(self.output_json_schema)
        check_needs_approval(
            f"{owner}: needs_approval",
            self.needs_approval,
            possible=decisions_of(self.form),
            schema=self.params_json_schema,
        )
        if self.strict_json_schema:
            try:
                self.params_json_schema = strict_form(self.params_json_schema, owner=owner)
            except NoStrictForm as error:
                logger.warning("%s Until then it is offered without strict mode.", error)
                self.strict_json_schema = False


def _argument_titles(schema: JsonObject) -> JsonObject:
    properties = schema.get("properties")
    fields = cast("dict[str, object]", properties) if isinstance(properties, dict) else {}
    named = {name: cast("JsonObject", one) for name, one in fields.items() if isinstance(one, dict)}
    titles = {name: title_of_stranger(one.get("title")) for name, one in named.items()}
    return {name: title for name, title in titles.items() if title}


def title_of_stranger(title: object) -> str:
    """Return a title that nobody has checked as people read it: visible, in one line, and cut."""
    return head(visible(" ".join(title.split())), LONGEST_TITLE) if isinstance(title, str) else ""


def _check_title(place: str, value: object) -> None:
    check_name(place, value)
    title = cast("str", value)
    check_printable(place, title, is_name=True)
    if len(title) > LONGEST_TITLE:
        raise UserError(f"{place} must have at most {LONGEST_TITLE} characters.")


def _check_titles(place: str, value: object) -> None:
    if not isinstance(value, dict):
        raise UserError(f"{place} must be a dict of titles by the names of arguments.")
    for name, title in cast("dict[str, object]", value).items():
        _check_title(f"{place}: the title of {name!r}", title)


LONGEST_TITLE: Final = 80


class CommonToolOptions(TypedDict, total=False):
    """The options of every tool that this process makes, as in `FunctionTool`."""

    is_enabled: bool | EnabledPredicate
    failure_error_function: ToolErrorFunction | None
    tool_input_guardrails: list[ToolInputGuardrail[Any]] | None
    tool_output_guardrails: list[ToolOutputGuardrail[Any]] | None
    custom_data_extractor: CustomDataExtractor | None


class AttemptOptions(CommonToolOptions, total=False):
    """The options of a tool whose attempts run in a worker, as in `FunctionTool`."""

    timeout: timedelta | float | None
    timeout_behavior: TimeoutBehavior
    timeout_error_function: ToolErrorFunction | None
    retry: ToolRetry | int
    fast: bool | None
    allowed_callers: list[ToolCaller] | None


def decisions_of(form: str) -> tuple[DecisionType, ...]:
    """Return the types of decision that fit calls of an item type.

    Only a function's call has arguments that can be edited, and an output that can be any text.
    """
    return ALL_DECISIONS if form == FUNCTION else WITHOUT_ARGUMENTS


def _retry_policy(retry: ToolRetry | int, owner: str) -> ToolRetry:
    if isinstance(retry, ToolRetry):
        return retry
    try:
        return ToolRetry(attempts=retry)
    except UserError as error:
        raise UserError(f"{owner}: retry={retry!r}: {error.message}") from error


def _check_schema(place: str, schema: Any) -> None:
    is_dict = isinstance(schema, dict)
    problem = json_problem(cast("object", schema)) if is_dict else f"it is {type(schema).__name__}"
    if problem is not None:
        raise UserError(f"{place} must be a JSON Schema, a dict of plain data: {problem}.")


_RULES: Final[dict[str, Rule]] = {
    "title": optional(_check_title),
    "argument_titles": optional(_check_titles),
    "allowed_callers": check_callers,
    "params_json_schema": _check_schema,
    "on_invoke_tool": called_with("context", "arguments"),
    "is_enabled": called_with("context", "agent", or_a=bool),
    "failure_error_function": optional(called_with("context", "error")),
    "timeout_error_function": optional(called_with("context", "error")),
    "custom_data_extractor": optional(called_with("context")),
    "tool_input_guardrails": guardrails(ToolInputGuardrail),
    "tool_output_guardrails": guardrails(ToolOutputGuardrail),
}
