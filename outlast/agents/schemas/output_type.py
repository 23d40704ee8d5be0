"""Output types: their pydantic adapters, JSON Schemas and error messages.

A type whose JSON is not an object is wrapped in an object, because models write objects.
"""

import inspect
import typing
from contextlib import AbstractContextManager
from typing import Any, Final, cast

from pydantic import BaseModel, RootModel, TypeAdapter, create_model

from outlast.agents.errors import UserError
from outlast.agents.schemas.strict_schema import strict_schema
from outlast.agents.user_types import schema_errors, source_name
from outlast.loop.values import JsonObject

WRAPPER_KEY: Final = "response"
"""The only key of the wrapper for an output type whose JSON is not an object."""


def adapter_of(output_type: Any) -> TypeAdapter[Any]:
    """Return the pydantic adapter that reads and writes the values of a type."""
    if isinstance(output_type, str | bytes | int | float | list | tuple | dict | set):
        shown = type(cast("object", output_type)).__name__
        raise UserError(
            f"output_type={output_type!r} is a value of type {shown}: pass the type itself."
        )
    name = source_name(output_type)
    if inspect.isroutine(output_type):  # pydantic accepts a function and validates its arguments
        raise UserError(f"output_type={name} is a function: pass the type itself.")
    with _schema_errors(name):
        adapter: TypeAdapter[Any] = TypeAdapter(output_type)
        kind = adapter.core_schema["type"]
    if kind == "generator":
        raise UserError(
            f"Output type {name} is an iterator, which can be read only once: use a list."
        )
    return adapter


def is_object_type(output_type: Any) -> bool:
    """Return whether the JSON of a type is an object, so that it needs no wrapper."""
    plain = typing.get_origin(output_type) or output_type
    if not isinstance(plain, type) or issubclass(plain, RootModel):
        return False
    return issubclass(plain, BaseModel | dict)  # a TypedDict is a dict to issubclass


def wrapper_of(output_type: Any) -> TypeAdapter[Any]:
    """Return the adapter of the wrapper for a type without a JSON object."""
    fields: dict[str, Any] = {WRAPPER_KEY: (output_type, ...)}
    return TypeAdapter(create_model("Output", **fields))


def json_schema_of(adapter: TypeAdapter[Any], name: str, *, strict: bool) -> JsonObject:
    """Return the JSON Schema of the model's output."""
    with _schema_errors(name):
        schema = adapter.json_schema()
    if not strict:
        return schema
    try:
        return strict_schema(schema, owner=f"Output type {name}")
    except UserError as error:
        # The rest of the message is the fix for a tool.
        problem = error.message.partition(". Strict mode")[0]
        raise UserError(
            f"{problem}. Strict mode cannot express that; change it, or give the agent "
            f"output_type=AgentOutputSchema({name}, strict_json_schema=False)."
        ) from None


def _schema_errors(name: str) -> AbstractContextManager[None]:
    return schema_errors(
        f"Output type {name} cannot be an agent's output",
        "Use a pydantic model, a dataclass, a TypedDict or types of JSON.",
    )
