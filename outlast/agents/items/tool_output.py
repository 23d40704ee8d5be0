"""The encoding of tool results for the model, with records for parts."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from enum import Enum
from types import ModuleType
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, cast

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from outlast.agents.errors import UserError
from outlast.agents.items.pictures import flaw_of_url
from outlast.agents.json_values import is_object
from outlast.loop.values import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutputText:
    """A text part of a tool's result."""

    text: str
    type: Literal["text"] = "text"

    def __str__(self) -> str:
        return self.text

    def to_content(self) -> JsonObject:
        """Return the part in the format of the Responses API."""
        return {"type": "input_text", "text": _readable(self.text)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutputImage:
    """An image that a tool returns to the model.

    Attributes:
        image_url: the image's URL, or the image itself as a `data:` URL.
        file_id: the id of a file that the provider stores, instead of a URL.
        detail: the level of detail for the model; default the provider's.
    """

    image_url: str | None = None
    file_id: str | None = None
    detail: Literal["low", "high", "auto", "original"] | None = None
    type: Literal["image"] = "image"

    def __post_init__(self) -> None:
        if not (self.image_url or self.file_id):
            raise UserError("ToolOutputImage needs image_url= or file_id=.")

    def to_content(self) -> JsonObject:
        """Return the part in the format of the Responses API.

        Providers refuse a whole request with an image that is cut off: a text takes its place.
        """
        if flaw := flaw_of_url(self.image_url):
            return ToolOutputText(
                text=f"[Here was an image. It was left out: it is {flaw}.]"
            ).to_content()
        return _content(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutputFileContent:
    """A file that a tool returns to the model.

    Attributes:
        file_data: the file itself, in base64 or as a `data:` URL; give a `filename` with it.
        file_url: the file's URL.
        file_id: the id of a file that the provider stores.
        filename: the file's name for the model.
    """

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None
    type: Literal["file"] = "file"

    def __post_init__(self) -> None:
        if not (self.file_data or self.file_url or self.file_id):
            raise UserError("ToolOutputFileContent needs file_data=, file_url= or file_id=.")

    def to_content(self) -> JsonObject:
        """Return the part in the format of the Responses API."""
        return _content(self)


ToolOutputPart: TypeAlias = ToolOutputText | ToolOutputImage | ToolOutputFileContent

_AN_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}\b")

_PARTS: Mapping[object, type[ToolOutputPart]] = {
    "text": ToolOutputText,
    "image": ToolOutputImage,
    "file": ToolOutputFileContent,
}
"""The record of a content part, by the `type` of its dict."""


class ToolOutputTextDict(TypedDict):
    """A `ToolOutputText` as a dict."""

    type: Literal["text"]
    text: str


class ToolOutputImageDict(TypedDict):
    """A `ToolOutputImage` as a dict."""

    type: Literal["image"]
    image_url: NotRequired[str]
    file_id: NotRequired[str]
    detail: NotRequired[Literal["low", "high", "auto", "original"]]


class ToolOutputFileContentDict(TypedDict):
    """A `ToolOutputFileContent` as a dict."""

    type: Literal["file"]
    file_data: NotRequired[str]
    file_url: NotRequired[str]
    file_id: NotRequired[str]
    filename: NotRequired[str]


def encode_output(value: object, *, tool_name: str) -> str | list[JsonObject]:
    """Return a tool's result as the model reads it.

    - A string is unchanged.
    - `ToolOutputText`, `ToolOutputImage`, `ToolOutputFileContent`, and lists of them, become
      content parts in the format of the Responses API. So do dicts with their fields and `type`.
    - An object that is not JSON but defines `__str__` or `__repr__` becomes that text, also inside
      a list or dict.
    - Everything else becomes compact JSON, as pydantic writes it. None becomes `null`. A JSON
      string, such as a date, is returned without its quotes.

    Raises:
        UserError: the value, or a part of it, cannot be written as JSON.
    """
    if part := _part(value):
        return [part.to_content()]
    if isinstance(value, list | tuple) and (
        parts := _parts(cast("Sequence[object]", value), tool_name)
    ):
        return parts
    return _text(cast(object, value), tool_name)


def decode_output(output: Any, result_type: Any) -> Any:
    """Return a tool's result in its function's return type, if it can be rebuilt.

    A guardrail's or an error's message in place of the result stays unchanged.
    """
    if result_type is None:
        return output
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(result_type)
    except PydanticUserError:  # pydantic does not support the type
        return output
    with suppress(ValidationError):
        return adapter.validate_python(output, strict=True)
    # A JSON string, such as a date, was encoded without its quotes.
    forms = [output, json.dumps(output)] if isinstance(output, str) else [json.dumps(output)]
    for form in forms:
        with suppress(ValidationError):
            return adapter.validate_json(form)
    return output


def _part(value: object) -> ToolOutputPart | None:
    if isinstance(value, ToolOutputPart):
        return value
    if not is_object(value):
        return None
    kind = _PARTS.get(value["type"]) if isinstance(value.get("type"), str) else None
    if kind is None:
        return None
    names = [field.name for field in fields(kind) if value.get(field.name) is not None]
    if not all(isinstance(value[name], str) for name in names):
        return None
    try:
        return kind(**{name: value[name] for name in names})
    except (TypeError, UserError):  # a dict that only resembles a part
        return None


def _parts(entries: Sequence[object], tool_name: str) -> list[JsonObject]:
    parts = [part for entry in entries if (part := _part(entry)) is not None]
    if len(parts) == len(entries):
        return [part.to_content() for part in parts]
    if any(isinstance(entry, ToolOutputPart) for entry in entries):
        raise UserError(
            f"Tool {tool_name!r} returned a list that holds content parts and other values. "
            "Put the other values into ToolOutputText."
        )
    return []


def _text(value: object, tool_name: str) -> str:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        return _readable(value)
    return _json(value, tool_name)


def _json(value: object, tool_name: str) -> str:
    try:
        if binary := _find_binary(value):
            raise UserError(
                f"Tool {tool_name!r} returned {binary}, which a model cannot read. Return text, or "
                "ToolOutputImage or ToolOutputFileContent with the data in base64."
            )
        text = to_json(value, fallback=_element).decode()
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        if (words := _own_words(value)) is not None:
            return _readable(words)
        raise UserError(
            f"Tool {tool_name!r} returned a {type(value).__qualname__} that cannot be written as "
            f"JSON: {error}. Return a string, JSON values, a pydantic model or a dataclass."
        ) from error
    return json.loads(text) if text.startswith('"') else text


def _element(value: object) -> str:
    if (words := _own_words(value)) is None:
        raise ValueError(f"{type(value).__qualname__} has no text form")
    return words


def _own_words(value: object) -> str | None:
    """Return the text of an object that is not JSON, such as a table, or None.

    A text with a memory address, such as a lock's or a connection's, is useless to a model.
    """
    kind = type(value)
    if callable(value) or isinstance(value, ModuleType | list | tuple | set | frozenset | Mapping):
        return None
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return None
    words = str(value)
    return None if _AN_ADDRESS.search(words) else words


def _find_binary(value: object) -> str | None:
    """Return the type name of the first binary value inside a value, or None.

    Pydantic writes bytes as text if they happen to be UTF-8, and fails otherwise. Refusing all
    bytes shows the mistake at the first test.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return type(cast(object, value)).__name__
    if isinstance(value, Mapping):
        return _first_binary(cast("Mapping[Any, object]", value).values())
    if isinstance(value, list | tuple | set | frozenset):
        return _first_binary(cast("list[object]", value))
    return None


def _first_binary(values: Any) -> str | None:
    return next((found for entry in values if (found := _find_binary(entry))), None)


def _readable(text: str) -> str:
    """Return the text without lone surrogates, with which a request cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return str(text)


def _content(part: ToolOutputImage | ToolOutputFileContent) -> JsonObject:
    plain = {name: value for name, value in asdict(part).items() if value is not None}
    return {**plain, "type": f"input_{part.type}"}
