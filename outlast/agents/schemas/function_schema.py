"""The JSON Schema of a function's parameters, and the validation of arguments.

Imports pydantic, which is slow; `function_tool` imports this when a tool is made.
"""

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Annotated, Any, Final, TypeAlias, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, to_jsonable_python

from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.logs import get_logger
from outlast.agents.schemas.altered_arguments import altered
from outlast.agents.schemas.docstrings import DocstringStyle, FunctionDocs, read_docs
from outlast.agents.schemas.function_signature import FunctionSignature, read_signature
from outlast.agents.schemas.subschemas import with_subschemas
from outlast.agents.schemas.user_validators import lenient, runs_user_code
from outlast.agents.user_types import argument_problem, object_problem, source_name
from outlast.loop import schemas
from outlast.loop.values import JsonObject

logger: Final = get_logger(__name__)

_Parsed: TypeAlias = tuple[Mapping[str, Any], Callable[[], JsonObject]]
"""The values of arguments, and a function that returns them as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSchema:
    """The description and schema of a function, and the validation of its arguments.

    Attributes:
        params_json_schema: JSON Schema of the arguments, not yet strict.
        model: the pydantic model of the arguments, with one field for each of
            `signature.parameters`, in their order.
        checked_by: the JSON Schema that checks arguments without the validators of users' types;
            None if there are none: then the model does.
    """

    name: str
    description: str
    params_json_schema: JsonObject
    signature: FunctionSignature
    model: type[BaseModel]
    checked_by: JsonObject | None = None

    def check(self, arguments: str) -> str | None:
        """Return None if arguments fit, else a sentence for the model; run no user code.

        Empty text is an empty object. Arguments with a default are optional, even if the schema
        requires them.
        """
        try:
            if self.checked_by is None:
                self.values(self._parsed(arguments)[0])
                return None
            self._check_object(arguments)
        except ModelBehaviorError as error:
            return error.message
        problem = schemas.problem_of(json.loads(arguments.strip() or "{}"), self.checked_by)
        return problem and f"Invalid JSON input for tool {self.name}: {problem}"

    def defaults(self) -> JsonObject:
        """Return the values of optional arguments, as JSON; without those that a function makes."""
        found: JsonObject = {}
        for info in self.model.model_fields.values():
            if not info.is_required() and info.default_factory is None:
                with suppress(PydanticSerializationError):
                    found[str(info.alias)] = to_jsonable_python(info.default)
        return found

    def altered(self, arguments: str) -> str:
        """Return the arguments that parsing changed, such as `"500"` for a number.

        What validators of users' types change is found where they run, by the result of `read`.
        """
        if self.checked_by is not None:
            return ""
        fields, write = self._parsed(arguments)
        return _altered(arguments, fields, write(), self.model)

    def read(self, arguments: str) -> "ReadArguments":
        """Return the values of a call's arguments; the validators of users' types run.

        Raises:
            ModelBehaviorError: the arguments are invalid; the message is for the model.
        """
        try:
            fields, write = self._parsed(arguments)
            values = self.values(fields)
        except ModelBehaviorError:
            raise
        except Exception as error:  # a user's validator may raise any error
            logger.exception("the arguments of tool %s could not be checked", self.name)
            raise ModelBehaviorError(
                f"The arguments of {self.name} could not be checked. Try other arguments."
            ) from error

        def find_altered() -> str:
            return _altered(arguments, fields, write(), self.model)

        return ReadArguments(schema=self, text=arguments, values=values, find_altered=find_altered)

    def arguments(self, context: Any, arguments: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments for a call of the function; those read before are not read again."""
        read: ReadArguments | None = getattr(context, "arguments_read", None)
        if read is None or read.schema is not self or read.text != arguments:
            read = self.read(arguments)
        return self.signature.arguments(context, read.values)

    def _parsed(self, arguments: str) -> "_Parsed":
        # pydantic reads NaN and Infinity, which are no JSON, as numbers.
        if "NaN" in arguments or "Infinity" in arguments:
            self._check_object(arguments)
        try:
            parsed = self.model.model_validate_json(arguments.strip() or "{}")
        except (ValidationError, TypeError) as error:  # TypeError: a lone surrogate
            self._check_object(arguments)
            if isinstance(error, TypeError):
                raise
            raise ModelBehaviorError(argument_problem(self.name, error)) from error
        return vars(parsed), partial(parsed.model_dump, mode="json", by_alias=True)

    def _check_object(self, arguments: str) -> None:
        if (problem := object_problem(self.name, arguments)) is not None:
            raise ModelBehaviorError(problem)

    def values(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of parameters from the fields of the model.

        Raises:
            ModelBehaviorError: a key of `**kwargs` is the name of another parameter.
        """
        parameters = self.signature.parameters
        values = {
            parameter.name: fields[f"{_FIELD}{index}"] for index, parameter in enumerate(parameters)
        }
        for parameter in parameters:
            if parameter.kind is not parameter.VAR_KEYWORD:
                continue
            keywords: Mapping[str, Any] = values[parameter.name]
            if clashes := self.signature.names & keywords.keys():
                raise ModelBehaviorError(
                    f"Invalid JSON input for tool {self.name}: {parameter.name} must not hold "
                    f"{', '.join(sorted(clashes))}."
                )
        return values


def reads_what_it_checks(check: object, read: object) -> bool:
    """Whether reading arguments refuses all that the check refuses, in the same words.

    So it is for the methods of one schema, unless users' types have validators of their own: these
    must not run with arguments that do not fit.
    """
    schema = getattr(read, "__self__", None)
    return (
        isinstance(schema, FunctionSchema) and schema.checked_by is None and check == schema.check
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadArguments:
    """A call's arguments as its function gets them; `find_altered` names those parsing changed."""

    schema: FunctionSchema
    text: str
    values: Mapping[str, Any]
    find_altered: Callable[[], str]


def _altered(
    arguments: str, fields: Mapping[str, Any], got: JsonObject, model: type[BaseModel]
) -> str:
    written: JsonObject = json.loads(arguments.strip() or "{}")
    for field, info in model.model_fields.items():
        name, value = str(info.alias), fields[field]
        if isinstance(value, set | frozenset) and isinstance(written.get(name), list):
            # The order of a set differs between processes.
            written[name], got[name] = (
                sorted(values, key=json.dumps) for values in (written[name], got[name])
            )
    return altered(written, got)


def function_schema(
    function: Callable[..., Any],
    *,
    name: str,
    docstring_style: DocstringStyle = "auto",
    use_docstring_info: bool = True,
    strict: bool = True,
    frame: FrameType | None = None,
) -> FunctionSchema:
    """Create the schema of a function's arguments from its signature and docstring.

    Strict mode excludes `**kwargs` and arguments that the function does not have. `frame` is the
    one that defines the tool; see `read_signature`.
    """
    owner = f"Tool {name!r}"
    signature = read_signature(function, owner=owner, frame=frame)
    if strict:
        for parameter in signature.parameters:
            _check_strict(parameter, owner)
    docs = read_docs(function, docstring_style) if use_docstring_info else FunctionDocs()
    try:
        model = _arguments_model(name, signature, strict=strict)
        schema = model.model_json_schema(schema_generator=_SchemaGenerator)
    except Exception as error:  # the hooks of a type may raise any error
        raise _type_error(owner, signature, error) from error
    schema.pop("title", None)
    for parameter, text in docs.parameters.items():
        if parameter in schema.get("properties", {}):
            # The docstring describes this function; the type may be defined elsewhere.
            schema["properties"][parameter]["description"] = text
    return FunctionSchema(
        name=name,
        description=docs.description,
        params_json_schema=schema,
        signature=signature,
        model=model,
        checked_by=with_subschemas(schema, lenient)
        if runs_user_code(model.__pydantic_core_schema__)
        else None,
    )


class _SchemaGenerator(GenerateJsonSchema):
    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Do nothing: a default that JSON cannot express is only left out of the schema."""

    def encode_default(self, dft: Any) -> Any:
        """Leave out infinity and NaN, which providers' JSON parsers do not accept."""
        encoded = super().encode_default(dft)
        if isinstance(encoded, float) and not math.isfinite(encoded):
            raise PydanticSerializationError("not a JSON number")
        return encoded

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False: a title would only repeat the field's name."""
        return False


def _check_strict(parameter: inspect.Parameter, owner: str) -> None:
    if parameter.kind is parameter.VAR_KEYWORD:
        raise UserError(
            f"{owner}: '**{parameter.name}' accepts any keys, which strict mode cannot express. "
            "Name the parameters, or use strict_mode=False."
        )


_FIELD: Final = "arg_"
"""What the names of fields begin with; the parameter's number follows."""


def _arguments_model(name: str, signature: FunctionSignature, *, strict: bool) -> type[BaseModel]:
    """Return the pydantic model of the arguments.

    Without strict mode, unknown arguments are ignored, because the schema does not exclude them.
    With `**kwargs` they are an error, because the model may have meant them for `**kwargs`.

    The fields have generated names, with the parameters' names as aliases, because pydantic
    reserves names (`schema`, `copy`, `_private`) that a parameter may have.
    """
    fields: dict[str, Any] = {
        f"{_FIELD}{index}": _field(parameter)
        for index, parameter in enumerate(signature.parameters)
    }
    closed = strict or any(one.kind is one.VAR_KEYWORD for one in signature.parameters)
    config = ConfigDict(extra="forbid" if closed else "ignore", allow_inf_nan=False)
    return create_model(name, __config__=config, **fields)


def _field(parameter: inspect.Parameter) -> tuple[Any, Any]:
    annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
    default = ... if parameter.default is parameter.empty else parameter.default
    metadata: Sequence[Any] = ()
    if parameter.kind is parameter.VAR_POSITIONAL:
        annotation, default = list[annotation], Field(default_factory=list)
    elif parameter.kind is parameter.VAR_KEYWORD:
        annotation, default = dict[str, annotation], Field(default_factory=dict)
    elif get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
    # A Field in the parameter's annotation comes later and overrides a text there.
    texts = (item for item in metadata if isinstance(item, str))
    ours = Field(alias=parameter.name, description=next(texts, None))
    return Annotated[annotation, ours, *metadata], default


def _type_error(owner: str, signature: FunctionSignature, error: Exception) -> UserError:
    for parameter in signature.parameters:
        if parameter.annotation is parameter.empty:
            continue
        try:
            TypeAdapter(parameter.annotation).json_schema(schema_generator=_SchemaGenerator)
        except Exception as cause:  # noqa: BLE001 - whichever fails is the one
            return UserError(
                f"{owner}: a model cannot supply parameter {parameter.name!r} "
                f"({source_name(parameter.annotation)}): {_first_sentence(cause)} Use a type that JSON can "
                "express, or take the value from the context or a functools.partial."
            )
    return UserError(f"{owner}: its parameters have no JSON Schema: {_first_sentence(error)}")


def _first_sentence(error: Exception) -> str:
    text = str(error).partition("\n")[0].partition(". ")[0]
    return text if text.endswith(".") else f"{text}."
