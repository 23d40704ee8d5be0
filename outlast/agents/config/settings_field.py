"""Settings that users pass as a record or as a dict of its fields; the field returns a record."""

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

from outlast.agents.argument_names import advice_on
from outlast.agents.checks import InvalidType
from outlast.agents.durations import ConvertedField
from outlast.agents.errors import UserError
from outlast.agents.installed_sdk import sdk_names, set_fields
from outlast.agents.json_values import is_mapping

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
    """Return a dict of settings, or the SDK's record, as the record; any other value unchanged."""
    if kind.__name__ in sdk_names(settings):
        settings = set_fields(settings)
    if not is_mapping(settings):
        return cast("Settings", settings)
    names = {field.name for field in fields(cast("Any", kind))}
    if unknown := sorted(str(name) for name in settings.keys() - names):
        label = _LABELS.get(kind.__name__, f"{kind.__name__} settings")
        advice = "".join(advice_on(kind.__name__, name, names) for name in unknown)
        raise InvalidType(
            f"Unknown {label}: {', '.join(unknown)}.{advice} "
            f"The fields of {kind.__name__} are {', '.join(sorted(names))}."
        )
    return kind(**settings)


def read_settings(kind: type[Settings], written: object) -> Settings | None:
    """Return a record from the JSON of a run, which somebody may have typed by hand; or None.

    Unknown keys are ignored.
    """
    if not is_mapping(written):
        return None
    names = {field.name for field in fields(cast("Any", kind))}
    try:
        return kind(**{name: value for name, value in written.items() if name in names})
    except (TypeError, UserError):
        return None


SettingsField: TypeAlias = ConvertedField[Settings, Mapping[str, Any], Default]
"""A field that takes a record or a dict of its fields, and returns the record or the default."""


def settings_field(kind: type[Any], default: object) -> Any:
    """Make a dataclass field for settings, with a default."""
    return ConvertedField[Any, Any, Any](partial(as_settings, kind), default)
