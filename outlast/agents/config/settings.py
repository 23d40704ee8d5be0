"""The settings of a run as JSON with plain data and names.

The named objects belong to the run (see `references`); a worker elsewhere has its own table.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any, Final, TypeAlias, cast

from outlast.agents.checks import json_problem
from outlast.agents.config.fallback_model import FallbackModel, write_choices
from outlast.agents.config.model_settings import read_model_settings, write_model_settings
from outlast.agents.config.run_config import (
    RunConfig,
    as_run_config,
    is_provider,
)
from outlast.agents.config.secret_settings import secret_in
from outlast.agents.config.session_input import SessionSettings
from outlast.agents.config.settings_field import read_settings
from outlast.agents.errors import UserError
from outlast.agents.json_values import is_list, is_mapping
from outlast.agents.references import OWN
from outlast.agents.tools.use_behavior import ToolExecutionConfig
from outlast.loop.values import JsonObject

NAMED = (
    "model_provider",
    "session_input_callback",
    "handoff_input_filter",
    "handoff_history_mapper",
    "call_model_input_filter",
    "call_model_output_filter",
    "tool_error_formatter",
)
"""Fields that are written as a name under their own key."""

NAMED_LISTS = ("input_guardrails", "output_guardrails")
"""Fields that are written as a list of names."""

MODEL_REF = "model_ref"
"""The key of a model object; a model's name, or a list of several, is under `model`."""

BLOCKED_MESSAGE_REF = "output_guardrail_blocked_message_ref"
"""The key of a formatter; a text is under the field's own name."""

HOOKS = "hooks"
"""The key of the name of the `RunHooks` passed to `Runner.run`."""

ERROR_HANDLERS = "error_handlers"
"""The key of the error handlers passed to `Runner.run`: a name for each kind of error."""

AS_ITEMS = "as_items"
"""The key for input that was passed as a list with one plain text, and is shown as a list."""

_PLAIN: Mapping[str, object] = {"trace_include_sensitive_data": True} | {
    name: getattr(RunConfig, name)
    for name in (
        "nest_handoff_history", "conversation_history_wrappers", "reasoning_item_id_policy",
        "tracing_disabled", "tracing", "workflow_name", "trace_id", "group_id", "trace_metadata",
        "tool_name_collision_policy",
    )
}  # fmt: skip
"""Fields that are written unchanged, with the value that is left out: the default."""


CONFIG_FIELDS: dict[str, str] = {
    "model": "model",
    MODEL_REF: "model",
    "model_settings": "model_settings",
    "tool_not_found_behavior": "tool_not_found_behavior",
    "heartbeat_ms": "heartbeat_timeout",
    "stream_interval_ms": "stream_interval",
    "resolved_stays_ms": "resolved_stays_open",
    "reply_times": "reply_times",
    "takeover": "takeover",
    "budgets": "budgets",
    "session_settings": "session_settings",
    "tool_execution": "tool_execution",
    "output_guardrail_blocked_message": "output_guardrail_blocked_message",
    BLOCKED_MESSAGE_REF: "output_guardrail_blocked_message",
    **{name: name for name in (*_PLAIN, *NAMED, *NAMED_LISTS)},
}
"""The keys of a `RunConfig` in a run's settings, and its fields."""


NameOf: TypeAlias = Callable[[object], str]
"""Keeps an object for a run, and returns its name."""


def write_run_config(config: RunConfig | Mapping[str, Any] | None, name_of: NameOf) -> JsonObject:
    """Return a run's settings as JSON, without defaults, with the names of objects."""
    config = as_run_config(config)
    settings = _write_models(config, name_of)
    if config.tool_not_found_behavior != "return_error_to_model":
        settings["tool_not_found_behavior"] = "raise"
    if config.heartbeat_timeout is not None:
        settings["heartbeat_ms"] = int(config.heartbeat_timeout.total_seconds() * 1000)
    if config.stream_interval is not None:
        settings["stream_interval_ms"] = round(config.stream_interval.total_seconds() * 1000)
    if config.resolved_stays_open is not None:
        settings["resolved_stays_ms"] = round(config.resolved_stays_open.total_seconds() * 1000)
    if config.reply_times is not None:
        settings["reply_times"] = _sparse(config.reply_times.record)
    if config.takeover is not None:
        settings["takeover"] = _sparse(config.takeover.terms("external_reversible"))
    if config.budgets:
        settings["budgets"] = [_sparse(budget.record) for budget in config.budgets]
    for name in ("session_settings", "tool_execution"):
        if (record := getattr(config, name)) is not None:
            settings[name] = asdict(record)
    for name, default in _PLAIN.items():
        if (value := getattr(config, name)) != default:
            settings[name] = _plain(name, value)
    _refuse_secrets(settings)
    return settings | _write_names(config, name_of)


def _refuse_secrets(settings: JsonObject) -> None:
    place = secret_in(settings)
    if place is not None:
        raise UserError(
            f"RunConfig: {place} looks like a secret, which would be written into the run's "
            "history, where it can be read. Configure it where the worker runs: in the agent's own "
            "ModelSettings, in the provider of its models, or in the processor of its traces."
        )


def _sparse(record: Any) -> JsonObject:
    whole: JsonObject = asdict(record)
    defaults = {field.name: field.default for field in fields(record)}
    return {name: value for name, value in whole.items() if getattr(record, name) != defaults[name]}


def references_in(settings: Mapping[str, Any] | None) -> list[str]:
    """Return the names in a run's settings that a worker must have, each once, in order.

    Values that cannot be names are left out, because settings may be typed by hand.
    """
    written = cast("object", settings)
    if not is_mapping(written):
        return []
    found = [written.get(key) for key in (MODEL_REF, *NAMED, BLOCKED_MESSAGE_REF, HOOKS)]
    for key in NAMED_LISTS:
        names = written.get(key)
        found.extend(names if is_list(names) else ())
    handlers = written.get(ERROR_HANDLERS)
    if is_mapping(handlers):
        found.extend(handlers.values())
    model_settings = read_model_settings(written.get("model_settings"))  # pyright: ignore[reportArgumentType]
    if model_settings is not None and model_settings.retry is not None:
        found.append(model_settings.retry.policy)
    return list(dict.fromkeys(name for name in found if isinstance(name, str)))


def own_references_in(settings: Mapping[str, Any] | None) -> list[str]:
    """Return the names in a run's settings that mean objects of the run alone."""
    return [name for name in references_in(settings) if name.startswith(OWN)] if settings else []


def read_session_settings(settings: Mapping[str, Any] | None) -> SessionSettings | None:
    """Return the session settings in a run's settings; invalid ones count as unset."""
    return read_settings(SessionSettings, (settings or {}).get("session_settings"))


def read_tool_execution(settings: Mapping[str, Any] | None) -> ToolExecutionConfig:
    """Return the tool execution settings of a run; invalid ones get their defaults."""
    written = (settings or {}).get("tool_execution")
    return read_settings(ToolExecutionConfig, written) or _DEFAULT_TOOL_EXECUTION


_DEFAULT_TOOL_EXECUTION: Final = ToolExecutionConfig()


def _write_models(config: RunConfig, name_of: NameOf) -> JsonObject:
    settings: JsonObject = {}
    model: Any = config.model
    plain = write_choices(model) if isinstance(model, FallbackModel) else model
    if isinstance(plain, str | list):
        settings["model"] = plain
    elif model is not None:
        settings[MODEL_REF] = name_of(model)
    if config.model_settings is not None:
        settings["model_settings"] = write_model_settings(config.model_settings)
        retry = config.model_settings.retry
        if retry is not None and retry.policy is not None:
            settings["model_settings"]["retry"]["policy"] = as_name(retry.policy, name_of)
    return settings


def _write_names(config: RunConfig, name_of: NameOf) -> JsonObject:
    values = {name: getattr(config, name) for name in NAMED}
    if not is_provider(config.model_provider):
        del values["model_provider"]  # unset, or unused beside a model
    settings: JsonObject = {
        name: as_name(value, name_of) for name, value in values.items() if value is not None
    }
    for name in NAMED_LISTS:
        if values := getattr(config, name):
            settings[name] = [as_name(value, name_of) for value in values]
    message = config.output_guardrail_blocked_message
    if isinstance(message, str):
        settings["output_guardrail_blocked_message"] = message
    elif message is not None:
        settings[BLOCKED_MESSAGE_REF] = name_of(message)
    return settings


def as_name(value: object, name_of: NameOf) -> str:
    """Return the name of an object; a program may pass the name itself."""
    return value if isinstance(value, str) else name_of(value)


def _plain(name: str, value: object) -> object:
    if isinstance(value, tuple):
        value = list(cast("tuple[object, ...]", value))
    if (problem := json_problem(value)) is not None:
        raise UserError(f"RunConfig({name}=...) must be plain data (JSON): {problem}.")
    return value
