"""Contexts as JSON and back, with the same types.

Data that JSON has is written as it is. A value of another standard type, such as a date or a set,
is written as its type hint says, or else with a tag: `{"$date": "2026-11-22"}`. A value that is
not data is live: it is replaced by a marker, `{"$live": "Pool"}`, and stays in its process.
"""

import base64
import hashlib
import marshal
import math
import re
import secrets
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeVar, cast
from uuid import UUID
from weakref import WeakKeyDictionary, WeakValueDictionary
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from outlast.agents.callables import check_callable
from outlast.agents.context.live import CLASS, MARKER, LiveValues, ValuePath, absent, is_marker
from outlast.agents.context.record_classes import (
    fields_of,
    is_json_hint,
    is_named_by,
    is_plain_class,
    is_record_class,
    item_hint,
    origin_of,
    type_hints,
)
from outlast.agents.errors import UserError
from outlast.agents.json_values import is_object
from outlast.loop.values import Json, JsonObject

DEEPEST: Final = 30
"""The depth limit of fields and keys; a deeper container is one live value as a whole."""

DEEPEST_DATA: Final = 200
"""The depth limit of data."""


Kept = TypeVar("Kept")


class _Standard(NamedTuple):
    """A standard type with a text form.

    It is `plain` if its text needs no tag where a type hint names the type: pydantic reads it too.
    """

    kind: type
    write: Callable[[Any], str]
    read: Callable[[str], Any]
    plain: bool = True


def _write_datetime(value: datetime) -> str:
    zone = f"[{value.tzinfo.key}]" if isinstance(value.tzinfo, ZoneInfo) else ""
    return f"{value.isoformat()}{zone}"  # as in RFC 9557


def _read_datetime(text: str) -> datetime:
    moment, _, zone = text.partition("[")
    value = datetime.fromisoformat(moment)
    if not zone:
        return value
    local = value.replace(tzinfo=ZoneInfo(zone.removesuffix("]")))
    # An hour of autumn occurs twice; the offset tells which one is meant.
    return local if local.utcoffset() == value.utcoffset() else local.replace(fold=1)


def _write_timedelta(value: timedelta) -> str:
    sign, size = ("-", -value) if value < timedelta() else ("", value)
    return f"{sign}P{size.days}DT{size.seconds}.{size.microseconds:06}S"  # as in ISO 8601


def _read_timedelta(text: str) -> timedelta:
    parts = re.fullmatch(r"(-?)P(\d+)DT(\d+)\.(\d{6})S", text)
    if parts is None:
        raise ValueError(f"{text!r} is not a duration.")
    sign, days, seconds, microseconds = parts.groups()
    size = timedelta(int(days), int(seconds), int(microseconds))
    return -size if sign else size


def _write_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


_STANDARD: Final = {
    "$date": _Standard(date, date.isoformat, date.fromisoformat),
    "$datetime": _Standard(datetime, _write_datetime, _read_datetime),
    "$time": _Standard(time, time.isoformat, time.fromisoformat),
    "$timedelta": _Standard(timedelta, _write_timedelta, _read_timedelta),
    "$decimal": _Standard(Decimal, str, Decimal),
    "$uuid": _Standard(UUID, str, UUID),
    "$path": _Standard(type(Path()), str, Path),
    "$bytes": _Standard(bytes, _write_bytes, base64.b64decode, plain=False),
    "$float": _Standard(float, str, float, plain=False),  # nan and infinity; JSON has the others
}
_TAG_OF: Final = {row.kind: tag for tag, row in _STANDARD.items()}

_LISTS: Final[dict[str, type]] = {"$tuple": tuple, "$set": set, "$frozenset": frozenset}
_DICTS: Final[dict[str, type]] = {"$dict": dict, "$ordered": OrderedDict, "$counter": Counter}
_FACTORIES: Final[dict[str, type]] = {
    kind.__name__: kind for kind in (list, dict, set, str, int, float, bool, tuple)
}
_UNREADABLE: Final = (
    ValueError, TypeError, AttributeError, KeyError, ArithmeticError, OSError, RecursionError,
)  # fmt: skip
"""What reading a text that no writer wrote may raise."""


class _Serializer(NamedTuple):
    kind: type[Any]
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


_SERIALIZERS: Final[dict[str, _Serializer]] = {}
"""The serializers of programs, by the name of the type; like classes, they are the process's."""


def register_context_type(
    kind: type[Kept], *, write: Callable[[Kept], Any], read: Callable[[Any], Kept]
) -> None:
    """Let contexts hold values of a type as data.

    Call it in a module that the program and its workers import, such as that of the type. Contexts
    know JSON, pydantic models, dataclasses, enums, collections, and the usual types of dates,
    numbers, paths and bytes by themselves. Values of a subclass are not included.

    Args:
        kind: the type.
        write: returns a value as data that contexts know, such as a text or a dict.
        read: returns the value of such data. It must not trust it: who can start a run can write it.

    Raises:
        UserError: an argument is not a type or not callable.
    """
    if not isinstance(cast("object", kind), type):
        raise UserError(f"register_context_type({kind!r}) must be called with a type.")
    check_callable(write, ("value",), what=f"register_context_type({kind.__name__}, write=...)")
    check_callable(read, ("data",), what=f"register_context_type({kind.__name__}, read=...)")
    _SERIALIZERS[type_name(kind)] = _Serializer(kind, write, read)


class _NotData(Exception):
    """The value, or a value in it, is not data."""


# --- Writing ------------------------------------------------------------------------------------


def encode(context: Any, hint: Any = None, before: Json = None) -> tuple[Json, LiveValues]:
    """Return a context as JSON with markers, and its live values.

    The live values include the fields that pydantic excludes from JSON; these have no markers.
    `hint` is the type that the reader knows. Sets keep the order of `before`, an earlier JSON.

    Raises:
        UserError: a text is not valid Unicode.
    """
    encoder = _Encoder(before)
    return encoder.write(context, hint, ()), encoder.live


class _Encoder:
    def __init__(self, before: Json) -> None:
        self.live: LiveValues = {}
        self._before = before
        self._open: set[int] = set()

    def write(self, value: Any, hint: Any, path: ValuePath, *, may_be_live: bool = True) -> Json:
        """Return a value as JSON; `hint` is the type that the reader knows.

        `path` leads to the value, or to its container. With `may_be_live`, a marker may take the
        value's place.

        Raises:
            _NotData: the value is not data and must not be live.
        """
        is_open = id(value) in self._open  # the value contains itself
        self._open.add(id(value))
        try:
            if not is_open and len(self._open) <= DEEPEST_DATA:
                return self._written(value, hint, path, may_be_live=may_be_live)
        except (_NotData, RecursionError):
            pass
        finally:
            if not is_open:
                self._open.remove(id(value))
        if not may_be_live:
            raise _NotData
        self.live[path] = value
        return {MARKER: type(value).__name__}

    def _written(self, value: Any, hint: Any, path: ValuePath, *, may_be_live: bool) -> Json:
        kind = cast("type[Any]", type(value))
        if _is_read_otherwise(kind, origin_of(hint)):
            return {"$json": self._written(value, None, path, may_be_live=False)}
        if kind is str:
            return _checked(value, path)
        if kind in {dict, list} and is_json_hint(hint) and (copy := _copied(value)) is not None:
            return copy
        if value is None or kind in {bool, int} or (kind is float and math.isfinite(value)):
            return value
        if _SERIALIZERS and (own := _SERIALIZERS.get(type_name(kind))) and own.kind is kind:
            data = self._written(_written_by(own, value, path), None, path, may_be_live=False)
            return {"$value": type_name(kind), "json": data}
        if (tag := _TAG_OF.get(kind)) is not None:
            text = _STANDARD[tag].write(value)
            is_plain = _STANDARD[tag].plain and "[" not in text and is_named_by(hint, kind)
            return text if is_plain else {tag: text}
        held = _held(value, hint, is_root=not path and may_be_live)
        if held is None:
            return self._container(value, hint, path)
        may_be_live = may_be_live and len(path) < DEEPEST
        if may_be_live:
            self.live |= {(*path, name): one for name, one in held.excluded.items()}
        fields = {
            name: self.write(
                one, held.hints.get(name, held.hint), (*path, name), may_be_live=may_be_live
            )
            for name, one in held.values.items()
        }
        is_plain = kind is dict or is_named_by(hint, kind)
        return fields if is_plain else {"$class": self._name(kind), **fields}

    def _container(self, value: Any, hint: Any, path: ValuePath) -> Json:
        kind = cast("type[Any]", type(value))

        def data(inner: Any, inner_hint: Any = None) -> Json:
            return self.write(inner, inner_hint, path, may_be_live=False)

        if kind is list:
            return [data(item, item_hint(hint, list)) for item in value]
        for tag, tagged in _LISTS.items():
            if kind is tagged:
                is_plain = is_named_by(hint, kind)
                inner = item_hint(hint, kind) if is_plain else None
                items = [data(item, inner) for item in value]
                if kind is not tuple:
                    items = _in_order(items, _at(self._before, path))
                return items if is_plain else {tag: items}
        if kind is deque:
            return {"$deque": [data(item) for item in value], "maxlen": value.maxlen}
        for tag, tagged in _DICTS.items():
            if kind is tagged:
                return {tag: {_key(data(key)): data(one) for key, one in value.items()}}
        if kind is defaultdict and value.default_factory in {None, *_FACTORIES.values()}:
            made = value.default_factory
            pairs = {_key(data(key)): data(one) for key, one in value.items()}
            return {"$defaultdict": pairs, "factory": made and made.__name__}
        if isinstance(value, Enum):
            plain = value.value
            if is_named_by(hint, kind) and type(plain) in {str, int}:
                return plain
            return {"$enum": self._name(kind), "value": data(plain)}
        return {"$value": self._name(kind), "json": data(_dumped(value))}

    def _name(self, kind: type[Any]) -> str:
        name = type_name(kind)
        if "#" in name:
            self.live[CLASS, name] = kind
        else:
            _WRITTEN[name] = kind
        return name


def _written_by(own: _Serializer, value: Any, path: ValuePath) -> Any:
    try:
        return own.write(value)
    except Exception as error:  # the program's own function
        raise UserError(
            f"{_place(path)}, a {own.kind.__name__}, cannot be written: "
            f"register_context_type(write=...) raised {error!r}."
        ) from error


def _dumped(value: Any) -> Any:
    kind = cast("type[Any]", type(value))
    if not hasattr(kind, "__get_pydantic_core_schema__"):
        raise _NotData
    written: Any = None
    try:
        adapter = TypeAdapter[Any](kind)
        written = adapter.dump_python(value, mode="json")
        same = adapter.validate_python(written)
        is_kept = type(same) is kind and bool(same == value)
    except Exception:  # noqa: BLE001  code of other libraries
        is_kept = False
    if not is_kept:
        raise _NotData
    return written


def _copied(value: Any, *, is_json: bool = False) -> Any:
    """Return a copy of a dict or list of JSON without tags, or None for other values.

    Several times faster than a walk that writes each value, which contexts of many rows need. With
    `is_json`, the value comes from JSON, so that only tags are looked for.
    """
    try:
        if not is_json:
            marshal.dumps(value)  # refuses subclasses, which compare equal to their base
        data = to_json(value)
    except (ValueError, RecursionError):  # half a surrogate pair; too deep, or within itself
        return None
    if b'"$' in data:
        return None
    copy = from_json(data)
    return copy if is_json or copy == value else None  # tuples, numbers as keys and nan differ


class _Held(NamedTuple):
    """The named values of a record or dict; `hint` is the type of those without their own."""

    values: Mapping[str, Any]
    hints: Mapping[str, Any]
    hint: Any = None
    excluded: Mapping[str, Any] = {}


def _held(value: Any, hint: Any, *, is_root: bool) -> _Held | None:
    kind = cast("Any", type(value))
    if kind is dict:
        entries = cast("dict[Any, Any]", value)
        named = all(type(name) is str and not name.startswith("$") for name in entries)
        return _Held(entries, {}, item_hint(hint, dict)) if named else None
    if not is_record_class(kind) and not (is_root and is_plain_class(kind)):
        return None
    values: dict[str, Any] = {
        field.name: getattr(value, field.name)
        for field in fields_of(kind)
        if hasattr(value, field.name)
    }
    if getattr(kind, "model_fields", None) is None:
        values |= getattr(value, "__dict__", {})
    else:
        values |= value.model_extra or {}
        values |= value.__pydantic_private__ or {}
    if any(name.startswith("$") for name in values):
        return None
    excluded = {
        field.name: values.pop(field.name)
        for field in fields_of(kind)
        if field.is_excluded and field.name in values
    }
    return _Held(values, type_hints(kind), excluded=excluded)


def has_keys(value: Json) -> bool:
    """Return whether JSON is an object with the keys or fields of a value, not a tag."""
    if not isinstance(value, dict):
        return False
    first = next(iter(cast("JsonObject", value)), "")
    return not first.startswith("$") or first == "$class"


def _is_read_otherwise(kind: type[Any], hinted: Any) -> bool:
    if not isinstance(hinted, type):
        return False
    named: Any = hinted
    if kind is dict:
        return is_record_class(named) or is_plain_class(named)
    if kind is list:
        return named in _LISTS.values()
    if kind is str and named in _TAG_OF:
        return _STANDARD[_TAG_OF[named]].plain
    return kind in {str, int} and issubclass(named, Enum)


def _in_order(items: list[Any], before: Json) -> list[Any]:
    if isinstance(before, dict):
        before = next(iter(cast("JsonObject", before).values()), None)
    members = cast("list[Json]", before) if isinstance(before, list) else []
    earlier = [_key(item) for item in members]
    by_key = {_key(item): item for item in items}
    kept = [by_key.pop(key) for key in earlier if key in by_key]
    return kept + [by_key[key] for key in sorted(by_key)]


def _at(value: Json, path: ValuePath) -> Json:
    for name in path:
        value = value.get(name) if is_object(value) else None
    return value


def _key(value: Json) -> str:
    return to_json(value).decode()


def _checked(text: str, path: ValuePath) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        place = f"The context's {'.'.join(path)}" if path else "The context"
        raise UserError(f"{place}, {text!r:.60}, cannot be written as JSON.") from None
    return text


# --- Reading ------------------------------------------------------------------------------------


def decode(value: Json, hint: Any = None, live: Mapping[ValuePath, Any] | None = None) -> Any:
    """Return the value that was encoded; `hint` is the type that the writer knew.

    Raises:
        UserError: the JSON does not fit the type, its class is not in this process, or a live
            value is not.
    """
    return _Decoder(live or {}).read(value, hint, ())


class _Decoder:
    def __init__(self, live: Mapping[ValuePath, Any]) -> None:
        self._live = live

    def read(self, value: Json, hint: Any, path: ValuePath, *, may_be_live: bool = True) -> Any:
        """Return a value; `path` leads to it, or to its container, which holds nothing live."""
        if isinstance(value, dict | list) and is_json_hint(hint):
            copy = _copied(value, is_json=True)
            if copy is not None:
                return copy
        if isinstance(value, dict):
            return self._read(cast("JsonObject", value), hint, path, may_be_live=may_be_live)
        if isinstance(value, list):
            kind = origin_of(hint)
            inner = item_hint(hint, kind)
            items = [
                self.read(item, inner, path, may_be_live=may_be_live)
                for item in cast("list[Json]", value)
            ]
            return kind(items) if kind in _LISTS.values() else items
        return _read_scalar(value, hint, path)

    def _read(self, fields: JsonObject, hint: Any, path: ValuePath, *, may_be_live: bool) -> Any:
        tag = next(iter(fields), "")
        if tag.startswith("$"):
            if is_marker(fields):
                if not may_be_live or path not in self._live:
                    raise UserError(absent([(path, str(fields[MARKER]))]))
                return self._live[path]
            if tag == "$class":
                kind = self._class_of(str(fields[tag]), hint, path)
                fields = {name: value for name, value in fields.items() if name != tag}
                return self._record(fields, kind, path, may_be_live=may_be_live)
            try:
                return self._read_tag(tag, fields, hint, path)
            except _UNREADABLE as error:
                raise UserError(f"{_place(path)} is not a valid {tag}: {error}") from None
        kind = origin_of(hint)
        if isinstance(kind, type) and (is_record_class(kind) or is_plain_class(kind)):
            return self._record(fields, kind, path, may_be_live=may_be_live)
        inner = item_hint(hint, dict)
        return {
            name: self.read(one, inner, (*path, name), may_be_live=may_be_live)
            for name, one in fields.items()
        }

    def _record(
        self, fields: JsonObject, kind: type[Any], path: ValuePath, *, may_be_live: bool
    ) -> Any:
        hints = type_hints(kind)
        values = {
            name: self.read(value, hints.get(name), (*path, name), may_be_live=may_be_live)
            for name, value in fields.items()
        }
        for field in fields_of(kind) if may_be_live else ():
            if field.is_excluded and (*path, field.name) in self._live:
                values[field.name] = self._live[*path, field.name]
        return _made(kind, values, path)

    def _data(self, value: Json, path: ValuePath) -> Any:
        return self.read(value, None, path, may_be_live=False)

    def _read_tag(self, tag: str, fields: JsonObject, hint: Any, path: ValuePath) -> Any:
        inner: Any = fields[tag]
        if tag == "$json":
            return self._data(inner, path)
        if tag in _STANDARD:
            return _STANDARD[tag].read(inner)
        if tag in _LISTS:
            return _LISTS[tag](self._data(item, path) for item in inner)
        if tag == "$deque":
            maxlen = cast("int | None", fields["maxlen"])
            return deque((self._data(item, path) for item in inner), maxlen)
        if tag in _DICTS:
            return _DICTS[tag](self._pairs(inner, path))
        if tag == "$defaultdict":
            factory = fields["factory"]
            made = _FACTORIES[str(factory)] if factory else None
            return defaultdict(made, self._pairs(inner, path))
        if tag == "$enum":
            return self._class_of(inner, hint, path)(self._data(fields["value"], path))
        if tag == "$value":
            return self._read_value(inner, hint, self._data(fields["json"], path), path)
        return {name: self._data(value, path) for name, value in fields.items()}

    def _pairs(self, entries: JsonObject, path: ValuePath) -> dict[Any, Any]:
        return {
            self._data(from_json(key), path): self._data(value, path)
            for key, value in entries.items()
        }

    def _read_value(self, name: str, hint: Any, written: Any, path: ValuePath) -> Any:
        if (own := _SERIALIZERS.get(name)) is not None:
            try:
                return own.read(written)
            except Exception as error:  # whatever a program's reader raises, the data does not fit
                raise ValueError(repr(error)) from error
        return TypeAdapter[Any](self._class_of(name, hint, path)).validate_python(written)

    def _class_of(self, name: str, hint: Any, path: ValuePath) -> Any:
        """Return the class with a name, if this process has it and its objects are data.

        A class that a function has made is the run's own: another run may have made it.
        """
        kind = origin_of(hint)
        if isinstance(kind, type) and has_name(kind, name):
            return kind
        if "#" in name:
            found: Any = class_named(name, _own_classes(self._live))
        else:
            found = _WRITTEN.get(name) or imported_class(name)
        if found is None and "#" in name:
            raise UserError(_not_brought(name, path))
        if found is None:
            raise UserError(
                f"{_place(path)} is of the class {name}, which this process has not imported, or "
                "has with other fields. Define the class in a module that the program and its "
                "workers import."
            )
        is_data = (
            is_record_class(found)
            or issubclass(found, Enum)
            # Most of pydantic.types are constraints, and ImportString imports what it reads.
            or (
                hasattr(found, "__get_pydantic_core_schema__")
                and found.__module__ != "pydantic.types"
            )
            or "#" in name
            or name in _WRITTEN
        )
        if not is_data:
            raise UserError(f"{_place(path)} names the class {name}, whose objects are not data.")
        return found


def _read_scalar(value: Any, hint: Any, path: ValuePath) -> Any:
    kind = origin_of(hint)
    if value is None or not isinstance(kind, type):
        return value
    row = _STANDARD.get(_TAG_OF.get(kind, ""))
    try:
        if row is not None and row.plain and isinstance(value, str):
            return row.read(value)
        return kind(value) if issubclass(kind, Enum) else value
    except _UNREADABLE as error:
        raise UserError(f"{_place(path)} is not a valid {kind.__name__}: {error}") from None


def _made(kind: type[Any], values: dict[str, Any], path: ValuePath) -> Any:
    """Return an object with these values, without `__init__` or validators."""
    fields = fields_of(kind)
    for field in fields:
        if field.name in values:
            continue
        if field.is_required:
            raise UserError(
                f"The run's context does not fit {kind.__name__}: Field required at "
                f"{'.'.join((*path, field.name))}. Start the run with a context of that type, or "
                "annotate the callable with the type it gets."
            )
        if field.default is not None:
            values[field.name] = field.default()
    if hasattr(kind, "model_fields"):
        return _made_model(kind, values, [field.name for field in fields])
    if issubclass(kind, tuple):
        return cast("Any", tuple).__new__(kind, [values[field.name] for field in fields])
    made: Any = SimpleNamespace() if kind is SimpleNamespace else object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def _made_model(kind: Any, values: dict[str, Any], names: Iterable[str]) -> Any:
    private = cast("dict[str, Any]", kind.__private_attributes__)
    hidden = {name: value.get_default() for name, value in private.items()}
    hidden |= {name: values.pop(name) for name in private if name in values}
    own = {name: values.pop(name) for name in names}
    made = kind.__new__(kind)
    made.__setstate__(
        {
            "__dict__": own,
            "__pydantic_fields_set__": set(own),
            "__pydantic_extra__": values if kind.model_config.get("extra") == "allow" else None,
            "__pydantic_private__": hidden or None,
        }
    )
    return made


# --- Classes by name ----------------------------------------------------------------------------


_WRITTEN: Final[WeakValueDictionary[str, type]] = WeakValueDictionary()
"""The classes of modules whose values this process has written."""


_CLASS_TAGS: Final = ("$class", "$enum", "$value")


def absent_class(context: Json, live: Mapping[ValuePath, Any]) -> str | None:
    """Say which class made in a function a context needs, and the run does not have here, if any."""
    if not isinstance(context, dict):
        return None
    if b"<locals>" not in to_json(context):  # every effect asks, nearly always in vain
        return None
    own = _own_classes(live)
    for path, name in _made_classes(cast("JsonObject", context)):
        if class_named(name, own) is None:
            return _not_brought(name, path)
    return None


def _made_classes(value: Json, path: ValuePath = ()) -> Iterator[tuple[ValuePath, str]]:
    if isinstance(value, list):
        for item in cast("list[Json]", value):
            yield from _made_classes(item, path)
    elif is_object(value):
        tag = next(iter(value), "")
        if tag in _CLASS_TAGS and "<locals>" in (name := str(value[tag])) and "#" in name:
            yield path, name
        for key, inner in value.items():
            yield from _made_classes(inner, path if key.startswith("$") else (*path, key))


def _own_classes(live: Mapping[ValuePath, Any]) -> dict[str, type[Any]]:
    return {place[1]: one for place, one in live.items() if place[:1] == (CLASS,)}


def _not_brought(name: str, path: ValuePath) -> str:
    return (
        f"{_place(path)} is of the class {name}, which a function of the run's program has made, and "
        "this process does not have it. Start the run again in its program, or define the class in a "
        "module that the program and its workers import."
    )


_PROCESS: Final = secrets.token_hex(4)
_SUFFIXES: Final[WeakKeyDictionary[type, str]] = WeakKeyDictionary()
"""What tells classes within functions apart: a digest of their fields, the process, a number."""


def type_name(kind: type[Any]) -> str:
    """Return the name of a class in the records of a run, such as `shop.desk:Customer`.

    A function makes another class of the same name at each call. The name of such a class says
    which fields it has, and which one it is in this process: `app:make.<locals>.Customer#1f0c/a3-2`.
    """
    name = f"{kind.__module__}:{kind.__qualname__}"
    if "<" not in kind.__qualname__:
        return name
    suffix = _SUFFIXES.get(kind)
    if suffix is None:
        fields = sorted(
            (field.name, str(type_hints(kind).get(field.name))) for field in fields_of(kind)
        )
        digest = hashlib.sha256(repr(fields).encode()).hexdigest()[:8]
        suffix = _SUFFIXES[kind] = f"{digest}/{_PROCESS}-{next(_NUMBERS)}"
    return f"{name}#{suffix}"


_NUMBERS: Final = count(1)


def has_name(kind: type[Any], name: str) -> bool:
    """Whether a class has a name that a record says.

    In the process that made a class within a function, the name means this class alone. Elsewhere it
    means a class of the same function with the same fields.
    """
    own = type_name(kind)
    if own == name or "#" not in name:
        return own == name
    shape, _, maker = name.rpartition("/")
    return own.rpartition("/")[0] == shape and not maker.startswith(f"{_PROCESS}-")


def class_named(name: str, known: Mapping[str, type[Any]]) -> type[Any] | None:
    """Return the class with a name among known ones; None if none has it, or several have."""
    exact = known.get(name)
    if exact is not None or "#" not in name:
        return exact
    found = {kind for kind in list(known.values()) if has_name(kind, name)}
    return found.pop() if len(found) == 1 else None


def imported_class(name: str) -> type[Any] | None:
    """Return the class with a name such as `shop.desk:Customer`, or None; imports no module."""
    module_name, _, qualname = name.partition(":")
    found: Any = sys.modules.get(module_name)
    for step in qualname.split("."):
        found = getattr(found, step, None)
    return found if isinstance(found, type) else None


def _place(path: ValuePath) -> str:
    return f"The context's {'.'.join(path)}" if path else "The context"
