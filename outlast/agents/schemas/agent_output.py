"""The schema of an agent's final output, and the output's two forms: JSON and a typed value.

Owns: `AgentOutputSchema`, reading what the model wrote, and what travels in the run. Must not
know: what follows from an answer that does not fit. Pydantic does the work, and is imported when
an output type is first given.
"""

from abc import ABC, abstractmethod
from functools import lru_cache
from json import dumps
from typing import Any

from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.schemas.output_type import (
    WRAPPER_KEY,
    adapter_of,
    is_object_type,
    json_schema_of,
    problems,
    type_name,
    wrapper_of,
)
from outlast.loop.phrases import as_text
from outlast.loop.values import Json, JsonObject

_KEPT_SCHEMAS = 256


class AgentOutputSchemaBase(ABC):
    """Base class for the schema of a final output.

    Derive from it for a schema that pydantic cannot express.
    """

    @abstractmethod
    def is_plain_text(self) -> bool:
        """Say whether the output is text, so that there is no schema."""

    @abstractmethod
    def name(self) -> str:
        """Return the output type's name, for messages."""

    @abstractmethod
    def json_schema(self) -> JsonObject:
        """Return the JSON Schema of what the model writes; not called for plain text."""

    @abstractmethod
    def is_strict_json_schema(self) -> bool:
        """Say whether the provider holds the model to the schema strictly."""

    @abstractmethod
    def validate_json(self, json_str: str) -> Any:
        """Return the value that the model has written.

        Args:
            json_str: what the model wrote.

        Raises:
            ModelBehaviorError: it does not fit the schema.
        """

    def write_value(self, value: Any) -> Json:
        """Return a final output as the JSON that travels in the run.

        Raises:
            UserError: it cannot be a final output of this schema.
        """
        return _plain_json(value, self.name())

    def read_value(self, value: Json) -> Any:
        """Return a final output from its JSON.

        Here, what `validate_json` makes of the JSON, if that is written as the same JSON again;
        else the JSON itself. A schema whose values are not JSON, and not written as the model
        writes them, overrides this and `write_value`.

        Raises:
            UserError: the JSON does not fit the schema.
        """
        from pydantic_core import to_json

        try:
            rebuilt = self.validate_json(to_json(value).decode())
            return rebuilt if self.write_value(rebuilt) == value else value
        except Exception:  # noqa: BLE001  (a method of the user's may raise anything)
            return value

    def said(self, written: Json) -> str:
        """Return what `write_value` returned as a model would have said it: JSON, as a text."""
        return dumps(written, ensure_ascii=False)


class AgentOutputSchema(AgentOutputSchemaBase):
    """The schema of a type that pydantic can validate.

    Pydantic models, TypedDicts and dicts are what the model writes; for every other type it
    writes an object with the key `response`.

    Args:
        output_type: the type; None or str is plain text.
        strict_json_schema: whether the provider holds the model to the schema and nothing is
            coerced. Not every type can be strict: a dict with free keys cannot.

    Attributes:
        output_type: the type.

    Raises:
        UserError: the type has no JSON Schema, or none that is strict. The message names the fix.
    """

    def __init__(self, output_type: Any, strict_json_schema: bool = True) -> None:  # noqa: FBT001, FBT002  (the SDK's)
        self.output_type = output_type
        self._strict = strict_json_schema
        self._name = type_name(output_type)
        self._plain_text = output_type in (None, str)
        if self._plain_text:
            return
        if isinstance(output_type, type) and issubclass(output_type, AgentOutputSchemaBase):
            raise UserError(
                f"output_type={self._name} is the class of a schema: give an instance, "
                f"{self._name}(...)."
            )
        self._values = adapter_of(output_type)
        self._wrapped = not is_object_type(output_type)
        self._written = wrapper_of(output_type) if self._wrapped else self._values
        self._schema = json_schema_of(self._written, self._name, strict=strict_json_schema)

    def is_plain_text(self) -> bool:
        """Say whether the output is text."""
        return self._plain_text

    def name(self) -> str:
        """Return the type's name."""
        return self._name

    def json_schema(self) -> JsonObject:
        """Return the JSON Schema of what the model writes.

        Raises:
            UserError: the output is plain text.
        """
        self._refuse_plain_text()
        return self._schema

    def is_strict_json_schema(self) -> bool:
        """Say whether the provider holds the model to the schema and nothing is coerced."""
        return self._strict

    def validate_json(self, json_str: str) -> Any:
        """Return the value that the model has written.

        Raises:
            ModelBehaviorError: it is not JSON, or does not fit the type. The message has none
                of the values that the model wrote.
            UserError: the output is plain text.
        """
        from pydantic import ValidationError

        self._refuse_plain_text()
        try:
            written = self._written.validate_json(json_str, strict=self._strict or None)
        except ValidationError as error:
            raise ModelBehaviorError(
                f"The final output does not fit {self._name}: {problems(error)}."
            ) from None  # its text has what the model wrote
        return getattr(written, WRAPPER_KEY) if self._wrapped else written

    def write_value(self, value: Any) -> Json:
        """Return a final output as the JSON that travels in the run.

        Args:
            value: a value of the type, or the JSON of one.

        Raises:
            UserError: the value is not of the type, or cannot be written as JSON.
        """
        from pydantic import ValidationError
        from pydantic_core import PydanticSerializationError, from_json

        if self._plain_text:
            return _plain_json(value, self._name)
        try:
            data = self._values.dump_json(self._typed(value), by_alias=False, round_trip=True)
        except ValidationError as error:
            raise UserError(
                f"A final output of type {type(value).__name__} does not fit the output type "
                f"{self._name}: {problems(error)}."
            ) from None
        except (PydanticSerializationError, ValueError) as error:
            raise UserError(
                f"A final output of type {self._name} cannot be written as JSON: {error}."
            ) from None
        return from_json(data)

    def read_value(self, value: Json) -> Any:
        """Return a final output from its JSON.

        Raises:
            UserError: the JSON does not fit the type.
        """
        from pydantic import ValidationError
        from pydantic_core import to_json

        if self._plain_text:
            return value
        try:
            # Not strictly: that is about models, and a serializer may have chosen another form.
            return self._values.validate_json(to_json(value), by_alias=False, by_name=True)
        except ValidationError as error:
            raise UserError(
                f"The run's final output cannot be rebuilt as {self._name}: {problems(error)}. "
                "The run was answered with another version of the type, or the type's serializers "
                "write what its validators do not read."
            ) from None

    def said(self, written: Json) -> str:
        """Return what `write_value` returned as a model would have said it: JSON, as a text."""
        from pydantic_core import to_json

        return to_json({WRAPPER_KEY: written} if self._wrapped else written).decode()

    def _typed(self, value: Any) -> Any:
        """Return a value of the type; as it is if it is one, else read from its JSON."""
        from pydantic import ValidationError
        from pydantic_core import to_json

        try:
            return self._values.validate_python(value, strict=True, by_alias=True, by_name=True)
        except ValidationError:
            return self._values.validate_json(
                to_json(value), strict=self._strict or None, by_alias=True, by_name=True
            )

    def _refuse_plain_text(self) -> None:
        if self._plain_text:
            raise UserError("The output type is plain text, which has no JSON Schema.")


def output_schema_of(output_type: Any) -> AgentOutputSchemaBase | None:
    """Return the schema of what a user gave as output type; None for plain text.

    Args:
        output_type: a type, a schema, or None.

    Raises:
        UserError: the type has no strict JSON Schema. The message names the fix.
    """
    if isinstance(output_type, AgentOutputSchemaBase):
        return None if output_type.is_plain_text() else output_type
    if output_type in (None, str):
        return None
    try:
        hash(output_type)
    except TypeError:  # an Annotated[...] with a list in it, for example
        return AgentOutputSchema(output_type)
    return _schema_of(output_type)


def check_output_type(output_type: Any, owner: str) -> None:
    """Refuse what cannot be an output type where it is given.

    One that only lacks a strict schema passes: a program may still replace it before a run.

    Args:
        output_type: what the user gave.
        owner: names the place, as in "Agent 'Billing'".

    Raises:
        UserError: no schema can be made of it, or no value be rebuilt.
    """
    try:
        check_output_schema(output_type, owner)
    except UserError as error:
        try:
            AgentOutputSchema(output_type, strict_json_schema=False)
        except UserError:
            raise error from None


def check_output_schema(output_type: Any, owner: str) -> None:
    """Refuse an output type that no model call can be made with.

    Args:
        output_type: what the user gave.
        owner: names the place, as in "Agent 'Billing'".

    Raises:
        UserError: it has no schema, or none that is strict.
    """
    try:
        output_schema_of(output_type)
    except UserError as error:
        raise UserError(f"{owner}: {error.message}") from None


def write_output(schema: AgentOutputSchemaBase | None, value: Any) -> Json:
    """Return a final output as the JSON that travels in the run; a str stays what it is.

    Args:
        schema: the schema of the agent's output type; None for plain text.
        value: the final output.

    Raises:
        UserError: the value does not fit the schema, or cannot be written as JSON.
    """
    return _plain_json(value, "text") if schema is None else schema.write_value(value)


def read_output(schema: AgentOutputSchemaBase | None, value: Json) -> Any:
    """Return a final output from the JSON that travelled in the run.

    Args:
        schema: the schema of the agent's output type; None for plain text.
        value: what `write_output` returned.

    Raises:
        UserError: the JSON does not fit the schema.
    """
    return value if schema is None else schema.read_value(value)


def said_output(schema: AgentOutputSchemaBase | None, written: Json) -> str:
    """Return a final output as a model would have said it.

    Args:
        schema: the schema of the agent's output type; None for plain text.
        written: what `write_output` returned.
    """
    return as_text(written) if schema is None else schema.said(written)


def output_as(output: Any, cls: Any, *, must_fit: bool) -> Any:
    """Return an answer, for a type checker as a value of a type.

    Raises:
        TypeError: it has to be of that type, and is not.
    """
    if must_fit and not isinstance(output, cls):
        raise TypeError(
            f"The final output is of type {type(output).__name__}, "
            f"not {getattr(cls, '__name__', cls)}."
        )
    return output


@lru_cache(maxsize=_KEPT_SCHEMAS)
def _schema_of(output_type: Any) -> AgentOutputSchema:
    return AgentOutputSchema(output_type)


def _plain_json(value: Any, name: str) -> Json:
    """Return a value of any type as JSON."""
    from pydantic_core import PydanticSerializationError, from_json, to_json

    if value is None or isinstance(value, str | bool | int):
        return value
    try:
        return from_json(to_json(value))
    except (PydanticSerializationError, ValueError) as error:
        raise UserError(
            f"A final output of type {type(value).__name__} (output type: {name}) cannot be "
            f"written as JSON: {error}. Answer with JSON, a pydantic model or a dataclass."
        ) from None
