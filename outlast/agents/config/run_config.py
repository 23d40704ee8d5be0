"""The settings of one run, as a program passes them; `settings.py` writes them as JSON."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Final, Generic, Literal, Self, TypeAlias, TypedDict, cast

from outlast.agents.approvals.budget import Budget
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.argument_names import advice_on
from outlast.agents.callables import (
    called_with,
    check_callable,
    is_async,
    list_of,
)
from outlast.agents.checks import (
    InvalidType,
    Rule,
    check_fields,
    of_kinds,
    optional,
)
from outlast.agents.config.fallback_model import check_models, choices_of
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.config.reply_times import ReplyTimes
from outlast.agents.config.session_input import (
    ReasoningItemIdPolicy,
    SessionInputCallback,
    SessionSettings,
)
from outlast.agents.config.settings_field import SettingsField, settings_field
from outlast.agents.context.wrapper import RunContextWrapper, TContext
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    InputGuardrail,
    OutputGuardrail,
    adopted_guardrail,
    guardrails,
)
from outlast.agents.handoffs.input_data import HandoffHistoryMapper, HandoffInputFilter
from outlast.agents.installed_sdk import adopted, sdk_names
from outlast.agents.logs import get_logger
from outlast.agents.tools.use_behavior import ToolExecutionConfig
from outlast.loop.values import JsonObject

logger: Final = get_logger(__name__)

DEFAULT_WORKFLOW_NAME = "Agent workflow"

_SENSITIVE_DATA_VARIABLES = (
    "OUTLAST_TRACE_INCLUDE_SENSITIVE_DATA",
    "OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA",
)


@dataclass
class ModelInputData:
    """The input and instructions of the next model call.

    Attributes:
        input: the items of the conversation.
        instructions: the system prompt.
    """

    input: list[JsonObject]
    instructions: str | None = None


@dataclass
class CallModelData(Generic[TContext]):
    """The argument of `call_model_input_filter`.

    Attributes:
        model_data: the input of the model call.
        agent: the agent of the model call: an `Agent`.
        context: the application's object, not the wrapper around it.
    """

    model_data: ModelInputData
    agent: Any
    context: TContext | None


CallModelInputFilter: TypeAlias = Callable[
    [CallModelData[Any]], ModelInputData | Awaitable[ModelInputData]
]
"""A function called with (data) that returns a model call's changed input."""


@dataclass
class ModelOutputData:
    """The output of a model call.

    Attributes:
        output: the items of the reply, in the format of the Responses API.
    """

    output: list[JsonObject]


@dataclass
class CallModelOutputData(Generic[TContext]):
    """The argument of `call_model_output_filter`.

    Attributes:
        model_data: the output of the model call.
        agent: the agent of the model call: an `Agent`.
        context: the application's object, not the wrapper around it.
    """

    model_data: ModelOutputData
    agent: Any
    context: TContext | None


CallModelOutputFilter: TypeAlias = Callable[
    [CallModelOutputData[Any]], ModelOutputData | Awaitable[ModelOutputData]
]
"""A function called with (data) that returns a reply as it is to count."""


ToolType: TypeAlias = Literal["function", "computer", "shell", "apply_patch", "custom"]


@dataclass(frozen=True, kw_only=True)
class ToolErrorFormatterArgs(Generic[TContext]):
    """The argument of `tool_error_formatter`: why a call was rejected or failed.

    Attributes:
        kind: the call was rejected, the tool does not exist, or it failed.
        default_message: the default text for the model.
        error: the tool's exception, if it raised one.
    """

    kind: Literal["approval_rejected", "tool_not_found", "tool_exception"]
    tool_type: ToolType
    tool_name: str
    call_id: str
    default_message: str
    run_context: RunContextWrapper[TContext]
    error: Exception | None = None


ToolErrorFormatter: TypeAlias = Callable[
    [ToolErrorFormatterArgs[Any]], str | Awaitable[str | None] | None
]
"""A function called with (args) that words a tool's error; None: by default."""


@dataclass(frozen=True, kw_only=True)
class OutputGuardrailBlockedMessageArgs(Generic[TContext]):
    """The argument of a callable `output_guardrail_blocked_message`.

    It names the triggered guardrail and the agent, and never holds the blocked output.
    """

    default_message: str
    guardrail_name: str
    agent: Any
    run_context: RunContextWrapper[TContext]


OutputGuardrailBlockedMessageFormatter: TypeAlias = Callable[
    [OutputGuardrailBlockedMessageArgs[Any]], str | None
]
"""A function called with (args) that words a placeholder; None: by default."""

ToolNotFoundBehavior: TypeAlias = Literal["return_error_to_model", "raise_error", "raise"]
"""The policy for calls of unknown tools: report to the model, or fail the run."""

ToolNameCollisionPolicy: TypeAlias = Literal["warn", "error"]
"""The policy where a tool and a handoff have the same name."""


class TracingConfig(TypedDict, total=False):
    """The tracing settings of one run.

    Attributes:
        include_task_and_turn_spans: whether tasks and turns have spans, as they do by default.
        api_key: refused, because a run's settings can be read in its history; configure keys in the
            worker's trace processor.
    """

    include_task_and_turn_spans: bool
    api_key: str


def _include_sensitive_data() -> bool:
    value = next((os.environ[name] for name in _SENSITIVE_DATA_VARIABLES if name in os.environ), "")
    return value.strip().lower() not in {"0", "false", "no", "off"}


@dataclass(kw_only=True)
class RunConfig:
    """The settings of one run.

    Callables and objects travel by name (see `references`). A worker in the same process finds
    them; for a worker elsewhere, register them with `AgentWorker(references=[...])`. A caller that
    does not have the object itself passes its name.

    Attributes:
        model: overrides every agent's model: a model's name, a model, or a `FallbackModel`.
        model_provider: finds models by name; None: the worker's does. With a model in `model`,
            it is not used.
        model_settings: override every agent's own. Settings may also be dicts of their fields.
        session_settings: override the session's own.
        session_input_callback: merges the session's history and the new input; called with
            (history, new items).
        input_guardrails: run after the starting agent's own.
        output_guardrails: run after the answering agent's own.
        handoff_input_filter: for handoffs without their own filter.
        nest_handoff_history: whether a handoff summarizes the earlier conversation in one message.
        handoff_history_mapper: makes that message, or others; called with the items.
        conversation_history_wrappers: the texts before and after that summary.
        call_model_input_filter: changes the input of one model call.
        call_model_output_filter: changes a model's reply before it counts. What it returns is
            recorded, so it is not called again for the same reply. If it raises, the run fails.
        reasoning_item_id_policy: whether the ids of reasoning items are kept.
        tracing_disabled: whether the run is not traced.
        tracing: the tracing settings.
        trace_include_sensitive_data: whether traces hold the inputs and outputs of models and
            tools.
        workflow_name: the name of the trace.
        trace_id: the trace's id; default: a new one.
        group_id: ties traces together, such as those of one conversation.
        trace_metadata: further data of the trace.
        tool_error_formatter: makes the model's text for rejected, unknown and failed calls.
        tool_not_found_behavior: whether a call of an unknown tool is reported to the model, or
            fails the run with `ModelBehaviorError`.
        tool_name_collision_policy: the policy for two tools, or a tool and a handoff, with one
            name.
        tool_execution: how the tools of a turn run.
        output_guardrail_blocked_message: the placeholder for a blocked output.
        heartbeat_timeout: the time after which a worker without heartbeats is considered dead;
            default 10 seconds.
        stream_interval: the time between two heartbeats with a streamed model's text; from 20
            milliseconds to a minute. By default 50 milliseconds; in Temporal Cloud, which bills each
            heartbeat, 120 milliseconds and more as the text grows.
        takeover: who may take the conversation over; only the audience, `unverified` and `risk` of
            the policy matter. None: anybody who proves who they are.
        budgets: what the run may spend before a person decides whether it goes on.
        resolved_stays_open: how long a conversation that a person has resolved waits for another
            word of the customer before it ends, to a year; default 3 days.
        reply_times: how soon a person replies in a conversation that is held or assigned.
    """

    model: Any = None
    model_provider: Any = None
    model_settings: SettingsField[ModelSettings, None] = settings_field(  # noqa: RUF009  a descriptor
        ModelSettings, None
    )
    session_settings: SettingsField[SessionSettings, None] = settings_field(  # noqa: RUF009  likewise
        SessionSettings, None
    )
    session_input_callback: SessionInputCallback | str | None = None
    input_guardrails: list[InputGuardrail[Any]] | None = None
    output_guardrails: list[OutputGuardrail[Any]] | None = None
    handoff_input_filter: HandoffInputFilter | str | None = None
    nest_handoff_history: bool = False
    handoff_history_mapper: HandoffHistoryMapper | str | None = None
    conversation_history_wrappers: tuple[str, str] | None = None
    call_model_input_filter: CallModelInputFilter | str | None = None
    call_model_output_filter: CallModelOutputFilter | str | None = None
    reasoning_item_id_policy: ReasoningItemIdPolicy | None = None
    tracing_disabled: bool = False
    tracing: TracingConfig | None = None
    trace_include_sensitive_data: bool = field(default_factory=_include_sensitive_data)
    workflow_name: str = DEFAULT_WORKFLOW_NAME
    trace_id: str | None = None
    group_id: str | None = None
    trace_metadata: dict[str, Any] | None = None
    tool_error_formatter: ToolErrorFormatter | str | None = None
    tool_not_found_behavior: ToolNotFoundBehavior = "return_error_to_model"
    tool_name_collision_policy: ToolNameCollisionPolicy = "warn"
    tool_execution: SettingsField[ToolExecutionConfig, None] = settings_field(  # noqa: RUF009  likewise
        ToolExecutionConfig, None
    )
    output_guardrail_blocked_message: str | OutputGuardrailBlockedMessageFormatter | None = None
    heartbeat_timeout: timedelta | None = None
    stream_interval: timedelta | None = None
    takeover: ApprovalPolicy | None = None
    budgets: Sequence[Budget] | None = None
    resolved_stays_open: timedelta | None = None
    reply_times: ReplyTimes | None = None

    def __new__(cls, **settings: Any) -> Self:
        """Refuse unknown fields; the message says where some of them belong."""
        _check_names(settings)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        self.input_guardrails = adopted(self.input_guardrails, adopted_guardrail)
        self.output_guardrails = adopted(self.output_guardrails, adopted_guardrail)
        if cast("object", self.tracing_disabled) is None:
            self.tracing_disabled = False  # what set_tracing_disabled(True) returned, often
        check_run_config(self)
        if self.model_provider is not None and not is_provider(self.model_provider):
            logger.warning(
                "RunConfig(model_provider=...) is of type %s, which has no get_model. It is ignored, "
                "because model= is a model and not a name: leave model_provider out.",
                type(self.model_provider).__name__,
            )


_ARGUMENTS_OF_RUN = frozenset({
    "author", "auto_previous_response_id", "context", "conversation_id", "customer",
    "error_handlers", "hooks", "id", "max_turns", "previous_response_id", "session", "tenant",
})  # fmt: skip

SHORTEST_STREAM_INTERVAL = timedelta(milliseconds=20)  # workers hold heartbeats back for this long
LONGEST_STREAM_INTERVAL = timedelta(minutes=1)  # slower is not streamed


def check_run_config(config: RunConfig) -> None:
    """Refuse invalid settings."""
    check_fields(config, _RULES)
    provider = config.model_provider
    models = [one.model for one in choices_of(config.model)]
    needs_provider = any(one is None or isinstance(one, str) for one in models)
    if provider is not None and needs_provider and not is_provider(provider):
        raise UserError(
            "RunConfig(model_provider=...) must be an object with get_model, or its registered "
            f"name at the worker, not {provider!r}."
        )


def _check_names(settings: Mapping[str, Any]) -> None:
    names = {field.name for field in fields(RunConfig)}
    unknown = sorted(str(name) for name in settings.keys() - names)
    if not unknown:
        return
    if misplaced := [name for name in unknown if name in _ARGUMENTS_OF_RUN]:
        fix = f" Pass it to Runner.run itself: Runner.run(agent, input, {misplaced[0]}=...)."
    else:
        fix = "".join(advice_on("RunConfig", name, names) for name in unknown)
        fix += f" The fields of RunConfig are {', '.join(sorted(names))}."
    raise InvalidType(f"Unknown run_config settings: {', '.join(unknown)}.{fix}")


def is_provider(value: object) -> bool:
    """Whether a value is a model provider, or the name of one."""
    is_object = callable(getattr(value, "get_model", None)) and not isinstance(value, type)
    return is_object or isinstance(value, str)


def _check_interval(place: str, interval: timedelta) -> None:
    of_kinds(timedelta)(place, interval)
    if not SHORTEST_STREAM_INTERVAL <= interval <= LONGEST_STREAM_INTERVAL:
        raise UserError(
            f"{place} must be from 20 milliseconds to a minute, not {interval.total_seconds():g} s."
            " Leave it out for the default, or start the run with Runner.run to send no text at all."
        )


def _check_stay(place: str, stay: timedelta) -> None:
    of_kinds(timedelta)(place, stay)
    if not timedelta(minutes=1) <= stay <= timedelta(days=366):
        raise UserError(f"{place} must be from a minute to a year, not {stay}.")


def _check_wrappers(place: str, wrappers: object) -> None:
    texts = cast("list[object]", wrappers) if isinstance(wrappers, list | tuple) else []
    if [type(text) for text in texts] != [str, str]:
        raise UserError(
            f"{place} must be two strings, the one before and the one after the history, "
            f"not {wrappers!r}."
        )


def _check_blocked_message(place: str, message: object) -> None:
    if not isinstance(message, str):
        check_callable(message, ("args",), what=place)
        if is_async(cast("Any", message)):
            raise UserError(f"{place} must be a string or a sync callable, not an async one.")


_NAME: Final = (str, type(None))

_RULES: Final[dict[str, Rule]] = {
    "model": check_models,
    "session_input_callback": called_with("history", "new_items", or_a=_NAME),
    "input_guardrails": optional(guardrails(InputGuardrail, str)),
    "output_guardrails": optional(guardrails(OutputGuardrail, str)),
    "handoff_input_filter": called_with("data", or_a=_NAME),
    "handoff_history_mapper": called_with("items", or_a=_NAME),
    "conversation_history_wrappers": optional(_check_wrappers),
    "call_model_input_filter": called_with("data", or_a=_NAME),
    "call_model_output_filter": called_with("data", or_a=_NAME),
    "tool_error_formatter": called_with("args", or_a=_NAME),
    "output_guardrail_blocked_message": optional(_check_blocked_message),
    "stream_interval": optional(_check_interval),
    "resolved_stays_open": optional(_check_stay),
    "budgets": optional(list_of(Budget, "use Budget(...)")),
}


def as_run_config(config: RunConfig | Mapping[str, Any] | None) -> RunConfig:
    """Return a run's settings from settings or a dict; None is the default settings.

    They are checked again, because a `RunConfig` is mutable.
    """
    if config is None:
        return RunConfig()
    if isinstance(config, RunConfig):
        check_run_config(config)
        return config
    if "RunConfig" in sdk_names(config):
        raise UserError(
            "run_config= is a RunConfig of the OpenAI Agents SDK (`agents`): make it with outlast, "
            "`from outlast import RunConfig`. Its settings, models and guardrails may stay the SDK's."
        )
    if not isinstance(cast("object", config), Mapping):
        raise UserError(f"run_config= must be a RunConfig or a dict of its fields, not {config!r}.")
    return RunConfig(**config)
