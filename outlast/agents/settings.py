"""Settings that travel with a run: how to call the model, and how to run.

Owns: `ModelSettings` and `RunConfig`, and their JSON. Everything in them is plain data, so that it
can travel in a run's input.
"""

import json
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, Literal

from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How to call a model. `None` means: the provider's default.

    Attributes:
        tool_choice: `auto`, `required`, `none`, or the name of a tool.
        max_tokens: upper bound of output tokens.
        timeout: how long one attempt of a model call may take.
        extra_args: further fields of the provider's request body.
    """

    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    truncation: str | None = None
    max_tokens: int | None = None
    reasoning: dict[str, Any] | None = None
    verbosity: str | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    include: list[str] | None = None
    timeout: timedelta | None = None
    extra_headers: dict[str, str] | None = None
    extra_query: dict[str, Any] | None = None
    extra_body: dict[str, Any] | None = None
    extra_args: dict[str, Any] | None = None

    def resolve(self, override: "ModelSettings | None") -> "ModelSettings":
        """Return these settings with every field that `override` sets laid over them.

        `extra_args` merge key by key; every other field is replaced.
        """
        if override is None:
            return self
        changes = {
            field.name: value
            for field in fields(override)
            if (value := getattr(override, field.name)) is not None
        }
        if self.extra_args and override.extra_args:
            changes["extra_args"] = {**self.extra_args, **override.extra_args}
        return replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Settings of one run.

    Attributes:
        model: the model's name for every agent of the run, whatever theirs is.
        model_settings: laid over every agent's own.
        tool_not_found_behavior: what a call of an unknown tool does: the model is told, or the
            run fails with `ModelBehaviorError`.
        heartbeat_timeout: how soon a dead worker is noticed; default 10 seconds.
    """

    model: str | None = None
    model_settings: ModelSettings | None = None
    tool_not_found_behavior: Literal["return_error_to_model", "raise"] = "return_error_to_model"
    heartbeat_timeout: timedelta | None = None


def write_run_config(config: RunConfig) -> JsonObject:
    """Return a run's settings as JSON, without those that have their default.

    Raises:
        UserError: a setting is not plain data.
    """
    settings: JsonObject = {}
    if config.model is not None:
        if not isinstance(config.model, str):  # pyright: ignore[reportUnnecessaryIsInstance]  users
            raise UserError(
                "RunConfig(model=...) is a model's name, so that it can travel to the worker. Give "
                "model objects to AgentWorker(model_provider=...)."
            )
        settings["model"] = config.model
    if config.model_settings is not None:
        settings["model_settings"] = _write_model_settings(config.model_settings)
    if config.tool_not_found_behavior != "return_error_to_model":
        settings["tool_not_found_behavior"] = config.tool_not_found_behavior
    if config.heartbeat_timeout is not None:
        silence = _duration("RunConfig(heartbeat_timeout=...)", config.heartbeat_timeout)
        settings["heartbeat_ms"] = int(silence.total_seconds() * 1000)
    return settings


def _write_model_settings(settings: ModelSettings) -> JsonObject:
    if not isinstance(settings, ModelSettings):  # pyright: ignore[reportUnnecessaryIsInstance]  users
        raise UserError(f"RunConfig(model_settings=...) must be ModelSettings, not {settings!r}.")
    written: JsonObject = {
        field.name: value
        for field in fields(settings)
        if (value := getattr(settings, field.name)) is not None
    }
    timeout = written.pop("timeout", None)
    if timeout is not None:
        written["timeout_seconds"] = _duration(
            "ModelSettings(timeout=...)", timeout
        ).total_seconds()
    try:
        json.dumps(written)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"ModelSettings of a run must be plain data, to travel: {error}") from None
    return written


def _duration(what: str, value: object) -> timedelta:
    if not isinstance(value, timedelta):
        raise UserError(f"{what} must be a timedelta, not {value!r}.")
    return value


def read_model_settings(written: JsonObject | None) -> ModelSettings | None:
    """Return the model settings that a run carries as JSON.

    They may have been typed by hand, so what is no setting, and a time-out that is none, count as
    not given.
    """
    if not written or not isinstance(written, dict):  # pyright: ignore[reportUnnecessaryIsInstance]  typed by hand
        return None
    known = {field.name for field in fields(ModelSettings)}
    values = {name: value for name, value in written.items() if name in known - {"timeout"}}
    seconds = written.get("timeout_seconds")
    if isinstance(seconds, int | float) and 0 < seconds < 10**6:
        values["timeout"] = timedelta(seconds=seconds)
    return ModelSettings(**values)
