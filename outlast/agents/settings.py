"""Settings that travel with a run: how to call the model, and how to run.

Owns: `ModelSettings`. Everything in it is plain data, so that it can travel in a run's input.
"""

from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any


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
