"""The settings of model calls. A run's settings override those of its agents."""

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, fields, replace
from functools import wraps
from typing import Any, Final, Protocol, TypeAlias, cast

from pydantic_core import core_schema

from outlast.agents.argument_names import advice_on
from outlast.agents.checks import (
    check_fields,
    follows,
    json_problem,
    typed_rules,
)
from outlast.agents.config.retry import ModelRetrySettings
from outlast.agents.config.settings_field import as_settings, read_settings
from outlast.agents.durations import ConvertedField, DurationField, as_duration, duration_field
from outlast.agents.errors import UserError
from outlast.agents.installed_sdk import as_ours
from outlast.agents.json_values import is_object
from outlast.agents.logs import get_logger
from outlast.loop.values import JsonObject

logger: Final = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class MCPToolChoice:
    """A tool choice that names a tool of a hosted MCP server.

    Attributes:
        server_label: the label of the server's `HostedMCPTool`.
        name: the tool's name on that server.
    """

    server_label: str
    name: str

    def __post_init__(self) -> None:
        check_fields(self)


ToolChoice: TypeAlias = str | MCPToolChoice | None
"""The value of `ModelSettings(tool_choice=...)`."""

SECRET_FIELDS: Final = ("extra_headers", "extra_query", "extra_body", "extra_args")
"""Fields that may hold keys of the provider."""

_NUMBERS: Final = {
    "temperature": float,
    "top_p": float,
    "frequency_penalty": float,
    "presence_penalty": float,
    "max_tokens": int,
    "top_logprobs": int,
}
"""The fields of numbers, which may be given as text, such as from an environment variable."""


class _Reasoning(Protocol):
    """The `openai` package's record, a pydantic model."""

    def model_dump(self, *, mode: str, exclude_none: bool) -> dict[str, Any]: ...


class _ReasoningDict(dict[str, Any]):
    """Settings of reasoning, whose keys are also attributes, None if unset."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.get(name)


def _as_reasoning(value: Any) -> Any:
    if value is None or isinstance(value, _ReasoningDict):
        return value
    if isinstance(value, dict):
        return _ReasoningDict(cast("dict[str, Any]", value))
    if not callable(getattr(value, "model_dump", None)):
        raise UserError(
            "ModelSettings(reasoning=...) must be a dict such as {'effort': 'low'}, or Reasoning, "
            f"not {value!r}."
        )
    return _ReasoningDict(value.model_dump(mode="json", exclude_none=True))


def _reasoning_field() -> Any:
    return ConvertedField[Any, Any, Any](_as_reasoning, None)


@dataclass(frozen=True)
class ModelSettings:
    """The settings of a model call.

    `None` means the provider's default. The order of the fields is that of the Agents SDK.

    Attributes:
        temperature: the sampling temperature.
        top_p: the share of probability mass to sample from.
        frequency_penalty: for Chat Completions only.
        presence_penalty: for Chat Completions only.
        tool_choice: `auto`, `required`, `none`, the name of a tool, or `MCPToolChoice`.
        parallel_tool_calls: whether one reply may hold several calls.
        truncation: `auto` lets the provider drop the oldest items; `disabled` makes it refuse.
        max_tokens: the maximum number of output tokens.
        reasoning: as in the request, `{"effort": "low"}`; the `openai` package's `Reasoning` is
            also accepted, and kept as a dict.
        verbosity: `low`, `medium` or `high`.
        metadata: data that the provider stores with the response.
        store: whether the provider stores the response.
        include: further contents of the response, such as `reasoning.encrypted_content`.
        response_include: another name for `include`, where the value is kept; set one of them.
        top_logprobs: the number of likely tokens reported for each position.
        prompt_cache_retention: `in_memory` or `24h`.
        prompt_cache_key: groups requests that are likely to share a prefix.
        prompt_cache_options: the provider's cache options, as in the request.
        include_usage: whether a streamed call of Chat Completions requests usage. By default only
            OpenAI's own server gets the option; elsewhere, usage may be zero without it.
        preserve_raw_usage: keep the provider's own usage data beside ours.
        context_management: how the provider shortens a long conversation.
        timeout: the time-out of one attempt; a number is in seconds.
        retry: how often a failed call is retried.
        background: the provider makes the response in the background, however long that takes, and
            the worker looks for it from time to time. For the Responses API; it needs `store`.
        extra_headers: further headers of the provider's request.
        extra_query: further query parameters of the request.
        extra_body: further fields of the request's body, which override all others.
        extra_args: further fields of the body; those of a run and an agent are merged.
    """

    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: str | MCPToolChoice | None = None
    parallel_tool_calls: bool | None = None
    truncation: str | None = None
    max_tokens: int | None = None
    reasoning: ConvertedField[dict[str, Any], _Reasoning, None] = _reasoning_field()  # noqa: RUF009  likewise
    verbosity: str | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    prompt_cache_retention: str | None = None
    include_usage: bool | None = None
    response_include: list[str] | None = None
    top_logprobs: int | None = None
    extra_query: dict[str, Any] | None = None
    extra_body: dict[str, Any] | None = None
    extra_headers: dict[str, str] | None = None
    extra_args: dict[str, Any] | None = None
    retry: ModelRetrySettings | None = None
    context_management: list[dict[str, Any]] | None = None
    prompt_cache_options: dict[str, Any] | None = None
    preserve_raw_usage: bool | None = None
    timeout: DurationField[None] = duration_field(None)  # noqa: RUF009  a descriptor
    include: list[str] | None = None
    prompt_cache_key: str | None = None
    background: bool | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "tool_choice", as_ours(self.tool_choice, MCPToolChoice))
        for name, number in _NUMBERS.items():
            if isinstance(text := getattr(self, name), str):
                with suppress(ValueError):
                    set_field(self, name, number(text))
        if self.include is None and self.response_include is not None:
            set_field(self, "include", list(self.response_include))
        set_field(self, "response_include", None)
        set_field(self, "retry", as_settings(ModelRetrySettings, self.retry))
        check_fields(self)
        if self.background and self.store is False:
            raise UserError(
                "ModelSettings(background=True) needs store: the provider keeps the response until "
                "a worker reads it. Leave store=False out."
            )

    def resolve(self, override: "ModelSettings | Mapping[str, Any] | None") -> "ModelSettings":
        """Return these settings, overridden by every field that `override` sets.

        `extra_args`, `retry` and its `backoff` merge key by key; every other field is replaced.

        Args:
            override: the other settings, also as a dict of the fields.

        Raises:
            UserError: a key is no field, or a field is invalid.
        """
        if override is None:
            return self
        override = as_settings(ModelSettings, override)
        changes = _set_fields(override)
        if self.extra_args and override.extra_args:
            changes["extra_args"] = {**self.extra_args, **override.extra_args}
        if self.retry and override.retry:
            retry = _set_fields(override.retry)
            if self.retry.backoff and override.retry.backoff:
                backoff = cast("Any", self.retry.backoff)
                retry["backoff"] = replace(backoff, **_set_fields(override.retry.backoff))
            changes["retry"] = replace(self.retry, **retry)
        return replace(self, **changes)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Let pydantic models have settings as a field: read from a dict, written as JSON."""
        return core_schema.no_info_plain_validator_function(
            lambda value: as_settings(cls, value),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.to_json_dict),
        )

    def to_traceable_dict(self) -> dict[str, Any]:
        """Return what traces show of the settings: all but what may hold keys of the provider."""
        hidden = {*SECRET_FIELDS, "preserve_raw_usage"}
        return {name: value for name, value in self.to_json_dict().items() if name not in hidden}

    def to_json_dict(self) -> dict[str, Any]:
        """Return every setting as JSON; unset ones as None.

        `response_include` has the value of `include`, and `timeout` is in seconds.
        """
        written = {field.name: getattr(self, field.name) for field in fields(self)}
        written["response_include"] = self.include
        written["timeout"] = None if self.timeout is None else self.timeout.total_seconds()
        written["retry"] = None if self.retry is None else self.retry.to_json_dict()
        if isinstance(self.tool_choice, MCPToolChoice):
            written["tool_choice"] = asdict(self.tool_choice)
        return deepcopy(written)


_init = ModelSettings.__init__


@wraps(_init)
def _init_known(self: ModelSettings, *values: Any, **settings: Any) -> None:
    """Ignore unknown settings with a warning: in the Agents SDK they have no effect."""
    names = {field.name for field in fields(ModelSettings)}
    if unknown := sorted(settings.keys() - names):
        advice = "".join(advice_on("ModelSettings", name, names) for name in unknown)
        logger.warning(
            "ModelSettings has no field %s, which is ignored.%s A provider's own parameters go into "
            "extra_body or extra_args.",
            ", ".join(unknown),
            advice,
        )
    _init(self, *values, **{name: value for name, value in settings.items() if name in names})


cast("Any", ModelSettings).__init__ = _init_known


def _write_retry(settings: ModelRetrySettings) -> JsonObject:
    """Return retry settings as JSON: a policy is written only by name."""
    written: JsonObject = _set_fields(settings)
    if settings.backoff is not None:
        written["backoff"] = _set_fields(settings.backoff)
    if not isinstance(settings.policy, str):
        written.pop("policy", None)
    return written


JsonSettings: TypeAlias = JsonObject
"""Model settings as JSON within a run's settings."""


def write_model_settings(settings: ModelSettings) -> JsonSettings:
    """Return model settings as JSON, without unset ones."""
    record = cast("object", settings)
    if not isinstance(record, ModelSettings):
        raise UserError(f"RunConfig(model_settings=...) must be ModelSettings, not {record!r}.")
    written: JsonObject = _set_fields(settings)
    if settings.timeout is not None:
        del written["timeout"]
        written["timeout_seconds"] = settings.timeout.total_seconds()
    if settings.retry is not None:
        written["retry"] = _write_retry(settings.retry)
    if isinstance(settings.tool_choice, MCPToolChoice):
        written["tool_choice"] = asdict(settings.tool_choice)
    for name, value in written.items():
        if (problem := json_problem(value)) is not None:
            raise UserError(f"ModelSettings of a run must be plain data (JSON): {name}: {problem}.")
    return written


def read_model_settings(written: JsonSettings | None) -> ModelSettings | None:
    """Return the model settings from a run's JSON.

    Somebody may have typed them by hand, so unknown settings and invalid time-outs or retry numbers
    are ignored.
    """
    settings = cast("object", written)
    if not settings or not is_object(settings):
        return None
    choice = settings.get("tool_choice")
    values: dict[str, Any] = {
        **settings,
        "timeout": as_duration(settings.get("timeout_seconds")),
        "retry": read_settings(ModelRetrySettings, settings.get("retry")),
        "tool_choice": read_settings(MCPToolChoice, choice) or choice,
        "response_include": None,
    }
    rules = typed_rules(ModelSettings).items()
    return ModelSettings(
        **{
            name: values[name]
            for name, rule in rules
            if name in values and follows(rule, values[name])
        }
    )


def _set_fields(record: Any) -> dict[str, Any]:
    return {
        field.name: value
        for field in fields(record)
        if (value := getattr(record, field.name)) is not None
    }
