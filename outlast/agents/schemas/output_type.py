"""Types as output types: what pydantic knows of them, and its objections in plain words.

Owns: which types can be an agent's output, the JSON Schema of what the model writes for one, and
the wrapping of what is no object. Must not know: agents; the form in which an output travels.
"""

import inspect
import re
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from outlast.agents.errors import UserError
from outlast.agents.schemas.strict_schema import strict_schema
from outlast.loop.values import JsonObject

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

WRAPPER_KEY: Final = "response"
"""The one key of the object that a model writes where the output type is no object itself."""

_MODULES = re.compile(r"(?:[\w<>]+\.)+(?=\w)")
_SHOWN_PROBLEMS = 5
_SHOWN_CHARACTERS = 200


def type_name(output_type: Any) -> str:
    """Return a type as a program writes it, without the modules of its parts."""
    if not typing.get_args(output_type):
        return getattr(output_type, "__name__", repr(output_type))
    name = str(output_type)
    if "'" in name:  # a Literal's dots are its own
        return name.replace("typing.", "")
    return _MODULES.sub("", name)


def adapter_of(output_type: Any) -> "TypeAdapter[Any]":
    """Return what reads and writes the values of a type.

    Raises:
        UserError: it is no type, or none whose values can be rebuilt from JSON.
    """
    from pydantic import TypeAdapter

    if isinstance(output_type, str | bytes | int | float | list | tuple | dict | set):
        shown = type(cast("object", output_type)).__name__
        raise UserError(
            f"output_type={output_type!r} is a value of type {shown}: give the type itself."
        )
    name = type_name(output_type)
    if inspect.isroutine(output_type):  # pydantic takes it for the type of its arguments
        raise UserError(f"output_type={name} is a function: give the type itself.")
    adapter: TypeAdapter[Any] = _asked(lambda: TypeAdapter(output_type), name)
    if _asked(lambda: adapter.core_schema["type"], name) == "generator":
        raise UserError(f"Output type {name} can be read only once: use a list, which can be kept.")
    return adapter


def is_object_type(output_type: Any) -> bool:
    """Say whether the JSON of a type is an object with keys of the type's own."""
    from pydantic import BaseModel, RootModel

    plain = typing.get_origin(output_type) or output_type
    if not isinstance(plain, type) or issubclass(plain, RootModel):
        return False
    return issubclass(plain, BaseModel | dict)  # a TypedDict is a dict to issubclass


def wrapper_of(output_type: Any) -> "TypeAdapter[Any]":
    """Return what reads the object that a model writes for a type that is no object itself."""
    from pydantic import TypeAdapter, create_model

    fields: dict[str, Any] = {WRAPPER_KEY: (output_type, ...)}
    return TypeAdapter(create_model("Output", **fields))


def json_schema_of(adapter: "TypeAdapter[Any]", name: str, *, strict: bool) -> JsonObject:
    """Return the JSON Schema of what a model writes.

    Args:
        adapter: what reads it.
        name: the output type's name.
        strict: whether the schema must be strict.

    Raises:
        UserError: there is none, or none that is strict. The message names the fix.
    """
    schema: JsonObject = _asked(adapter.json_schema, name)
    if not strict:
        return schema
    try:
        return strict_schema(schema, owner=f"Output type {name}")
    except UserError as error:
        # The rest of its sentence is the fix for a tool.
        problem = error.message.partition(". Strict mode")[0]
        raise UserError(
            f"{problem}. Strict mode cannot express that; change it, or give the agent "
            f"output_type=AgentOutputSchema({name}, strict_json_schema=False)."
        ) from None


def _asked(ask: Callable[[], Any], name: str) -> Any:
    """Return pydantic's answer about a type, or raise its objection as one sentence."""
    from pydantic import PydanticUndefinedAnnotation, PydanticUserError

    try:
        return ask()
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        reason = error.message.partition("\n")[0].partition(". ")[0].rstrip(".")
        raise UserError(
            f"Output type {name} cannot be an agent's output: {reason}. "
            "Use a pydantic model, a dataclass, a TypedDict or types of JSON."
        ) from None


def problems(error: "ValidationError") -> str:
    """Return what does not fit, in words, without the values, which may be secret."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [_problem(cast("dict[str, Any]", detail)) for detail in details[:_SHOWN_PROBLEMS]]
    if len(details) > _SHOWN_PROBLEMS:
        shown.append(f"and {len(details) - _SHOWN_PROBLEMS} more")
    return "; ".join(shown)


def _problem(detail: dict[str, Any]) -> str:
    from pydantic_core import core_schema

    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"])
    place = place.removeprefix(".") or "the whole"
    match detail["type"]:
        case "missing":
            return f"{place} is missing"
        case "json_invalid":
            return "it is not JSON"
        case "union_tag_invalid":  # pydantic's words quote the tag
            return f"{place} is of no kind that the type knows"
        case "value_error" | "assertion_error":  # the type's own words may quote the value
            return f"{place} is refused by a validator of the type"
        case kind if kind not in typing.get_args(core_schema.ErrorType):  # so may these
            return f"{place} is refused by a validator of the type"
        case _:
            return f"{place}: {detail['msg'][:_SHOWN_CHARACTERS]}"
