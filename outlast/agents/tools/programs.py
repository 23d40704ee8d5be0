"""Tools that the provider's programs call: programmatic tool calling of the Responses API.

The calls of a program are items of the reply like the model's own: a worker runs them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args, get_origin

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from outlast.agents.errors import UserError
from outlast.agents.json_values import as_object, is_object
from outlast.agents.schemas.strict_schema import NoStrictForm, strict_form
from outlast.agents.schemas.subschemas import with_subschemas
from outlast.agents.user_types import output_problems
from outlast.loop.values import JsonObject

ToolCaller: TypeAlias = Literal["direct", "programmatic"]
"""Who may call a tool: the model itself, or a program that it wrote."""

PROGRAMS = "programmatic_tool_calling"

_TEXTS: tuple[object, ...] = (None, Any, type(None), str)
_PARTS = frozenset({"ToolOutputText", "ToolOutputImage", "ToolOutputFileContent"})


@dataclass
class ProgrammaticToolCallingTool:
    """A hosted tool that lets the model write programs that call tools.

    The programs run at the provider. They may call tools with
    `allowed_callers=["programmatic"]`. For the Responses API.
    """

    name = PROGRAMS

    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in a request."""
        return {"type": PROGRAMS}


def check_callers(place: str, callers: object) -> None:
    """Refuse `allowed_callers` that are not a list of different callers, or None."""
    if callers is None:
        return
    known = get_args(ToolCaller)
    listed = list(cast("Sequence[object]", callers)) if isinstance(callers, list | tuple) else []
    if not listed or len({*map(repr, listed)}) < len(listed) or any(c not in known for c in listed):
        raise UserError(f"{place} must hold 'direct', 'programmatic' or both, not {callers!r}.")


def callers_of(tool: object) -> Sequence[ToolCaller]:
    """Return who may call a tool; by default the model itself."""
    config = as_object(getattr(tool, "tool_config", None)) or {}
    own = getattr(tool, "allowed_callers", None)
    return own or config.get("allowed_callers") or ("direct",)


def checked_schema(schema: JsonObject | None) -> JsonObject | None:
    """Return the schema of an output for programs, with closed objects."""
    message = "output_json_schema must define a strict object schema"
    return None if schema is None else _closed_object(schema, message)


def schema_of_annotation(kind: object) -> tuple[JsonObject | None, TypeAdapter[Any] | None]:
    """Return the schema of a return annotation; None for texts, content parts and any value."""
    plain = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if plain in _TEXTS or getattr(plain, "__name__", "") in _PARTS:
        return None, None
    return schema_of_type(kind, "The programmatic function tool return annotation")


def schema_of_type(kind: object, what: str) -> tuple[JsonObject, TypeAdapter[Any]]:
    """Return the schema of a type of output, and what validates such outputs."""
    message = f"{what} must define a strict JSON object, not {kind!r}"
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(cast("Any", kind))
        found = adapter.json_schema(mode="serialization")
    except (PydanticUserError, TypeError) as error:
        raise UserError(f"{message}: {error}") from None
    return _closed_object(found, message), adapter


def checked_output(tool: str, adapter: TypeAdapter[Any], value: object) -> JsonObject:
    """Return a tool's result as the object that its schema declares."""
    try:
        return adapter.dump_python(adapter.validate_python(value), mode="json", by_alias=True)
    except ValidationError as error:
        raise UserError(
            f"The result of tool {tool!r} does not match its declared output type: "
            f"{output_problems(error)}."
        ) from None


def _closed_object(schema: JsonObject, message: str) -> JsonObject:
    try:
        strict_form(schema, owner="The output")
    except (NoStrictForm, UserError) as error:
        raise UserError(f"{message}: {error}") from None
    return with_subschemas(schema, _closed)


def _closed(schema: JsonObject) -> JsonObject:
    if not is_object(named := schema.get("properties")) or schema.get("type") != "object":
        return schema
    return {**schema, "additionalProperties": False, "required": list(named)}
