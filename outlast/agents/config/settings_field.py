"""Settings that users pass as a record or as a dict of its fields.

The field of a dataclass accepts both and always returns a record.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Generic, TypeVar, cast, overload

from outlast.agents.checks import InvalidType

Settings = TypeVar("Settings")
Default = TypeVar("Default")


_LABELS = {
    "ModelSettings": "model settings",
    "ModelRetrySettings": "model settings in retry",
    "ModelRetryBackoffSettings": "model settings in retry.backoff",
    "SessionSettings": "session settings",
    "ToolExecutionConfig": "run_config.tool_execution settings",
}
"""What records are called where their dicts are written."""


def as_settings(kind: type[Settings], settings: object) -> Settings:
    """Return a dict of settings as the record, and any other value unchanged."""
    if not isinstance(settings, Mapping):
        return cast("Settings", settings)
    values = cast("Mapping[str, Any]", settings)
    names = {field.name for field in fields(cast("Any", kind))}
    if unknown := sorted(str(name) for name in values.keys() - names):
        label = _LABELS.get(kind.__name__, f"{kind.__name__} settings")
        raise InvalidType(
            f"Unknown {label}: {', '.join(unknown)}. "
            f"The fields of {kind.__name__} are {', '.join(sorted(names))}."
        )
    return kind(**values)


class SettingsField(Generic[Settings, Default]):
    """A dataclass's field for settings; make one with `settings_field`."""

    def __init__(self, kind: type[Settings], default: Default) -> None:
        self._kind = kind
        self._default = default
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Default: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Settings | Default: ...

    def __get__(self, instance: object | None, owner: type) -> Settings | Default:
        """Return the settings, or the default."""
        if instance is None:
            return self._default
        return instance.__dict__.get(self._name, self._default)

    def __set__(self, instance: object, value: Settings | Mapping[str, Any] | Default) -> None:
        """Store settings, as a record if possible."""
        instance.__dict__[self._name] = as_settings(self._kind, value)


def settings_field(kind: type[Any], default: object) -> Any:
    """Make a dataclass field with a default; see `duration_field` for the reason."""
    return SettingsField(kind, default)
