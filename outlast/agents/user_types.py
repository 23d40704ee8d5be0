"""The types of users: their adapters and names, and what is wrong with JSON for them, in words."""

import re
import typing
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, cast, get_args

import pydantic_core
from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import core_schema

from outlast.agents.errors import UserError

_MOST_CHARACTERS = 300  # of a message, which may quote the value; the model reads it
_KEPT_ADAPTERS = 256  # types are few; those that a program makes in a loop must not pile up


def type_adapter(kind: Any) -> TypeAdapter[Any]:
    """Return what reads and writes a type; kept, since pydantic takes milliseconds to make one."""
    try:
        return _kept_adapter(kind)
    except TypeError:  # an Annotated[...] with a list in it, for example
        return TypeAdapter(kind)


_kept_adapter = lru_cache(maxsize=_KEPT_ADAPTERS)(TypeAdapter[Any])


_MODULES = re.compile(r"(?:[\w<>]+\.)+(?=\w)")


def source_name(output_type: Any) -> str:
    """Return a type's name as in source code, without module names."""
    if not typing.get_args(output_type):
        return getattr(output_type, "__name__", repr(output_type))
    name = str(output_type)
    if "'" in name:  # a Literal: dots may be part of its values
        return name.replace("typing.", "")
    return _MODULES.sub("", name)


def object_problem(tool: str, arguments: str) -> str | None:
    """Return why arguments are no JSON object, for the model, or None."""
    try:  # NaN is not JSON and would pass any limit
        is_object = isinstance(
            pydantic_core.from_json(arguments.strip() or "{}", allow_inf_nan=False), dict
        )
    except (ValueError, TypeError) as error:  # TypeError: a lone surrogate
        return f"Invalid JSON input for tool {tool}: {error}."
    return None if is_object else f"Invalid JSON input for tool {tool}: expected a JSON object."


@contextmanager
def schema_errors(problem: str, fix: str) -> Generator[None]:
    """Raise a `UserError` where pydantic refuses a type: the problem, pydantic's reason, the fix."""
    try:
        yield
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        reason = error.message.partition("\n")[0].partition(". ")[0].rstrip(".")
        raise UserError(f"{problem}: {reason}. {fix}") from None


def argument_problem(tool: str, error: ValidationError) -> str:
    """Return why arguments do not fit their types, for the model."""
    return f"Invalid JSON input for tool {tool}: {_listed(error, _of_argument, most=10)}."


def output_problems(error: ValidationError) -> str:
    """Return why an output does not fit its type, without the values, which may be secret."""
    return _listed(error, _of_output, most=5)


def _listed(
    error: ValidationError, describe: Callable[[str, dict[str, Any]], str], *, most: int
) -> str:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    listed = [
        describe(_place(detail["loc"]), cast("dict[str, Any]", detail)) for detail in details[:most]
    ]
    if len(details) > most:
        listed.append(f"and {len(details) - most} more")
    return "; ".join(listed)


def _place(location: tuple[int | str, ...]) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return place.removeprefix(".") or "the whole value"


def _of_argument(place: str, detail: dict[str, Any]) -> str:
    match detail["type"]:
        case "missing":
            return f"{place} is required"
        case "extra_forbidden" | "unexpected_keyword_argument":  # the second: in a dataclass
            return f"{place} is not allowed"
        case _:
            return f"{place}: {detail['msg'][:_MOST_CHARACTERS]}"


def _of_output(place: str, detail: dict[str, Any]) -> str:
    match detail["type"]:
        case "missing":
            return f"{place} is missing"
        case "json_invalid":
            return "it is not JSON"
        case "union_tag_invalid":  # pydantic's message quotes the tag
            return f"{place} has an unknown tag"
        # The message of a validator may quote the value, as that of a custom error.
        case kind if kind in {"value_error", "assertion_error"} or kind not in get_args(
            core_schema.ErrorType
        ):
            return f"{place} does not pass a validator of the type"
        case _:
            return f"{place}: {detail['msg'][:_MOST_CHARACTERS]}"
