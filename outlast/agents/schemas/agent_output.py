"""The schema of an agent's final output, and the output as JSON and as a value."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from json import dumps
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.installed_sdk import sdk_names
from outlast.agents.schemas.output_type import (
    WRAPPER_KEY,
    adapter_of,
    is_object_type,
    json_schema_of,
    wrapper_of,
)
from outlast.agents.user_types import output_problems, source_name
from outlast.loop.phrases import as_text
from outlast.loop.values import Json, JsonObject

_KEPT_SCHEMAS = 256  # types are few; those that a program makes in a loop must not pile up


class AgentOutputSchemaBase(ABC):
    """Base class for the schema of a final output.

    Subclass it for a schema that pydantic cannot express.
    """

    @abstractmethod
    def is_plain_text(self) -> bool:
        """Return whether the output is plain text, without a schema."""

    @abstractmethod
    def name(self) -> str:
        """Return the output type's name for messages."""

    @abstractmethod
    def json_schema(self) -> JsonObject:
        """Return the JSON Schema of the model's output; not called for plain text."""

    @abstractmethod
    def is_strict_json_schema(self) -> bool:
        """Return whether the provider enforces the schema strictly."""

    @abstractmethod
    def validate_json(self, json_str: str) -> Any:
        """Validate the model's output and return its value.

        Args:
            json_str: the text that the model wrote.

        Raises:
            ModelBehaviorError: the text does not match the schema.
        """

    def write_value(self, value: Any) -> Json:
        """Return a final output as the JSON that the run stores.

        Raises:
            UserError: the value cannot be a final output of this schema.
        """
        return _plain_json(value, self.name())

    def read_value(self, value: Json) -> Any:
        """Return a final output from its stored JSON.

        The default returns the result of `validate_json` if `write_value` turns it into the same
        JSON, and the JSON itself otherwise. Override this and `write_value` in a schema whose
        stored JSON differs from the model's.

        Raises:
            UserError: the JSON does not match the schema.
        """
        try:
            rebuilt = self.validate_json(to_json(value).decode())
            return rebuilt if self.write_value(rebuilt) == value else value
        except Exception:  # noqa: BLE001  (a method of the user's may raise anything)
            return value

    def model_text(self, written: Json) -> str:
        """Return the JSON text that a model would write for a stored output."""
        return dumps(written, ensure_ascii=False)


class AgentOutputSchema(AgentOutputSchemaBase):
    """The schema of a type that pydantic can validate.

    The model writes pydantic models, TypedDicts and dicts directly, and every other type inside an
    object with the key `response`.

    Args:
        output_type: the type; None or str is plain text.
        strict_json_schema: whether the provider enforces the schema and values are not coerced.
            Some types cannot be strict, such as a dict with free keys.

    Attributes:
        output_type: the type.

    Raises:
        UserError: the type has no JSON Schema, or no strict one. The message names the fix.
    """

    def __init__(self, output_type: Any, strict_json_schema: bool = True) -> None:  # noqa: FBT001, FBT002  (the SDK's)
        self.output_type = output_type
        self._strict = strict_json_schema
        self._name = source_name(output_type)
        self._plain_text = output_type in (None, str)
        if self._plain_text:
            return
        if isinstance(output_type, type) and issubclass(output_type, AgentOutputSchemaBase):
            raise UserError(
                f"output_type={self._name} is the class of a schema: pass an instance, "
                f"{self._name}(...)."
            )
        self._values = adapter_of(output_type)
        self._wrapped = not is_object_type(output_type)
        self._written = wrapper_of(output_type) if self._wrapped else self._values
        self._schema = json_schema_of(self._written, self._name, strict=strict_json_schema)

    def is_plain_text(self) -> bool:
        """Return whether the output is plain text."""
        return self._plain_text

    def name(self) -> str:
        """Return the type's name."""
        return self._name

    def json_schema(self) -> JsonObject:
        """Return the JSON Schema of the model's output.

        Raises:
            UserError: the output is plain text.
        """
        self._refuse_plain_text()
        return self._schema

    def is_strict_json_schema(self) -> bool:
        """Return whether the provider enforces the schema and values are not coerced."""
        return self._strict

    def validate_json(self, json_str: str) -> Any:
        """Validate the model's output and return its value.

        Raises:
            ModelBehaviorError: the text is not JSON, or does not match the type. The message
                contains no values of the output.
            UserError: the output is plain text.
        """
        self._refuse_plain_text()
        try:
            written = self._written.validate_json(json_str, strict=self._strict or None)
        except ValidationError as error:
            raise ModelBehaviorError(
                f"Invalid JSON in the final output, which does not fit {self._name}: {output_problems(error)}."
            ) from None  # pydantic's message contains the model's output
        return getattr(written, WRAPPER_KEY) if self._wrapped else written

    def write_value(self, value: Any) -> Json:
        """Return a final output as the JSON that the run stores.

        Args:
            value: a value of the type, or its JSON.

        Raises:
            UserError: the value is not of the type, or cannot be written as JSON.
        """
        if self._plain_text:
            return _plain_json(value, self._name)
        try:
            return self._written_json(self._to_type(value))
        except ValidationError as error:
            raise UserError(
                f"A final output of type {type(value).__name__} does not fit the output type "
                f"{self._name}: {output_problems(error)}."
            ) from None
        except (PydanticSerializationError, ValueError) as error:
            raise UserError(
                f"A final output of type {self._name} cannot be written as JSON: {error}."
            ) from None

    def read_value(self, value: Json) -> Any:
        """Return a final output from its stored JSON.

        Raises:
            UserError: the JSON does not match the type.
        """
        if self._plain_text:
            return value
        try:
            # Lax mode: strictness is for models, and a serializer may write another JSON type.
            return self._values.validate_json(to_json(value), by_alias=False, by_name=True)
        except ValidationError as error:
            if (rebuilt := self._with_defaults(value, error)) is not None:
                return rebuilt
            raise UserError(
                f"The run's final output cannot be rebuilt as {self._name}: {output_problems(error)}. "
                "The run was answered with another version of the type, or the type's serializers "
                "write what its validators do not read."
            ) from None

    def _with_defaults(self, value: Json, error: ValidationError) -> Any:
        """Return the value of JSON with defaults that do not fit their own types, or None.

        Pydantic does not check defaults, such as None of `score: int = Field(None)`, when it makes
        an object, and refuses them in JSON. So what it refuses is left out, and the object must
        have the same JSON then.
        """
        rest = from_json(to_json(value))  # a copy
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        for owner, name in [_field_at(rest, problem["loc"]) for problem in problems]:
            owner.pop(name, None)
        try:
            rebuilt = self._values.validate_json(to_json(rest), by_alias=False, by_name=True)
        except ValidationError:
            return None
        return rebuilt if self._written_json(rebuilt) == value else None

    def _written_json(self, value: Any) -> Json:
        # A default need not be of its type, which is no reason for a warning.
        data = self._values.dump_json(value, by_alias=False, round_trip=True, warnings=False)
        return from_json(data)

    def model_text(self, written: Json) -> str:
        """Return the JSON text that a model would write for a stored output."""
        return to_json({WRAPPER_KEY: written} if self._wrapped else written).decode()

    def _to_type(self, value: Any) -> Any:
        try:
            return self._values.validate_python(value, strict=True, by_alias=True, by_name=True)
        except ValidationError:
            return self._values.validate_json(
                to_json(value), strict=self._strict or None, by_alias=True, by_name=True
            )

    def _refuse_plain_text(self) -> None:
        if self._plain_text:
            raise UserError("The output type is plain text, which has no JSON Schema.")


class _SDKSchema(AgentOutputSchemaBase):
    """The schema of a class that a program derived from the SDK's base class."""

    def __init__(self, theirs: Any) -> None:
        self.theirs = theirs

    def is_plain_text(self) -> bool:
        return self.theirs.is_plain_text()

    def name(self) -> str:
        return self.theirs.name()

    def json_schema(self) -> JsonObject:
        return self.theirs.json_schema()

    def is_strict_json_schema(self) -> bool:
        return self.theirs.is_strict_json_schema()

    def validate_json(self, json_str: str) -> Any:
        return self.theirs.validate_json(json_str)


def adopted_output_schema(output_type: Any) -> Any:
    """Return a schema of the installed OpenAI Agents SDK as ours; any other value unchanged."""
    names = sdk_names(output_type)
    if "AgentOutputSchema" in names:
        strict = output_type.is_strict_json_schema()
        return AgentOutputSchema(output_type.output_type, strict_json_schema=strict)
    return _SDKSchema(output_type) if "AgentOutputSchemaBase" in names else output_type


def output_schema_of(output_type: Any) -> AgentOutputSchemaBase | None:
    """Return the schema of an output type; None for plain text."""
    if isinstance(output_type, AgentOutputSchemaBase):
        return None if output_type.is_plain_text() else output_type
    if output_type in (None, str):
        return None
    try:
        hash(output_type)
    except TypeError:  # an Annotated[...] with a list in it, for example
        return AgentOutputSchema(output_type)
    return _schema_of(output_type)


def check_output_type(place: str, output_type: Any) -> None:
    """Refuse a value that cannot be an output type; one without a strict schema can be."""
    try:
        check_output_schema(place, output_type)
    except UserError as error:
        try:
            AgentOutputSchema(output_type, strict_json_schema=False)
        except UserError:
            raise error from None


def check_output_schema(place: str, output_type: Any) -> None:
    """Raise an error if a model call cannot use an output type."""
    try:
        output_schema_of(output_type)
    except UserError as error:
        raise UserError(f"{place}: {error.message}") from None


def write_output(schema: AgentOutputSchemaBase | None, value: Any) -> Json:
    """Return a final output as the JSON that the run stores; text stays unchanged."""
    return _plain_json(value, "text") if schema is None else schema.write_value(value)


def read_output(schema: AgentOutputSchemaBase | None, value: Json) -> Any:
    """Return a final output from the JSON that the run stores."""
    return value if schema is None else schema.read_value(value)


def model_text_of(schema: AgentOutputSchemaBase | None, written: Json) -> str:
    """Return the text that a model would write for a stored output."""
    return as_text(written) if schema is None else schema.model_text(written)


def output_as(output: Any, cls: Any, *, must_fit: bool) -> Any:
    """Return a final output, cast to a type for type checkers.

    Raises:
        TypeError: `must_fit` is true and the output is not of that type.
    """
    if must_fit and not isinstance(output, cls):
        raise TypeError(
            f"The final output is of type {type(output).__name__}, "
            f"not {getattr(cls, '__name__', cls)}."
        )
    return output


_schema_of = lru_cache(maxsize=_KEPT_SCHEMAS)(AgentOutputSchema)


def _field_at(value: Any, place: Sequence[str | int]) -> tuple[dict[Any, Any], str | int]:
    """Return the object with the field at a place, and its name; a place also names types."""
    owner: dict[Any, Any] = {}
    name: str | int = ""
    for step in place:
        if isinstance(value, dict) and step in value:
            owner, name = cast("dict[Any, Any]", value), step
            value = owner[step]
        elif isinstance(value, list) and isinstance(step, int):
            owner, name, value = {}, "", cast("list[Any]", value)[step]
    return owner, name


def _plain_json(value: Any, name: str) -> Json:
    if value is None or isinstance(value, str | bool | int):
        return value
    try:
        return from_json(to_json(value))
    except (PydanticSerializationError, ValueError) as error:
        raise UserError(
            f"A final output of type {type(value).__name__} (output type: {name}) cannot be "
            f"written as JSON: {error}. Answer with JSON, a pydantic model or a dataclass."
        ) from None
