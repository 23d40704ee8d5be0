"""A guardrail's `output_info` as JSON, and as the object that it was.

The record of a run names the object's class. Whoever can write records chooses that name, so it is
never imported, nor looked up among the modules of the process. It only selects one of the classes
that guardrails of this process have returned, or that the guardrail's own function can name.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, cast
from weakref import WeakValueDictionary

from pydantic_core import from_json, to_json

from outlast.agents.callables import implementation
from outlast.agents.context.encoding import class_named, has_name, type_name
from outlast.agents.context.record_classes import is_record_class
from outlast.agents.schemas.agent_output import write_output
from outlast.agents.schemas.output_type import adapter_of
from outlast.loop.values import Json

LONGEST_REPR: Final = 1_000  # it is only for people to read

_KEPT_ADAPTERS: Final = 64  # a program has a few such types

_returned: "WeakValueDictionary[str, type[Any]]" = WeakValueDictionary()
"""The classes that guardrails of this process have returned, by name."""


def write_info(info: Any) -> tuple[Json, str | None]:
    """Return an `output_info` as JSON, or else as text, and its class's name if readable again."""
    kind = cast("type[Any]", type(info))
    if is_record_class(kind):
        with suppress(Exception):  # it has values that are not data
            written = _adapter(kind).dump_json(
                info, by_alias=False, round_trip=True, warnings=False
            )
            _returned[type_name(kind)] = kind
            return from_json(written), type_name(kind)
    with suppress(Exception):
        return write_output(None, info), None
    return repr(info)[:LONGEST_REPR], None


def read_info(info: Json, name: str | None, function: Callable[..., Any]) -> Any:
    """Return the `output_info` of a record: an object of its class, or without a name the JSON."""
    kind = None if name is None else _class_of(name, function)
    if kind is None:
        return info
    try:
        return _adapter(kind).validate_json(to_json(info), by_alias=False, by_name=True)
    except Exception:  # noqa: BLE001  validators are user code; and another version wrote it
        return info


def _class_of(name: str, function: Callable[..., Any]) -> type[Any] | None:
    module, _, qualname = name.partition(":")
    names: dict[str, Any] = getattr(implementation(function), "__globals__", {})
    own: Any = names.get(qualname)
    # Stand-ins for guardrails that only workers have are functions of this package.
    is_own = is_record_class(own) and has_name(own, name) and not module.startswith("outlast.")
    return own if is_own else class_named(name, _returned)


_adapter = lru_cache(maxsize=_KEPT_ADAPTERS)(adapter_of)
