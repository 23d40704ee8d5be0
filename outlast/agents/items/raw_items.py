"""The raw form of an item: JSON inside, the provider's typed object for programs."""

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias, cast

from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject


def is_cut_short(raw: Mapping[str, Any]) -> bool:
    """Whether a message of a model ends early, because a limit of tokens cut it off."""
    return raw.get("type") == "message" and raw.get("status") == "incomplete"


_TYPED: dict[str, str] = {
    "message": "ResponseOutputMessage",
    "function_call": "ResponseFunctionToolCall",
    "reasoning": "ResponseReasoningItem",
    "custom_tool_call": "ResponseCustomToolCall",
    "computer_call": "ResponseComputerToolCall",
    "file_search_call": "ResponseFileSearchToolCall",
    "web_search_call": "ResponseFunctionWebSearch",
    "code_interpreter_call": "ResponseCodeInterpreterToolCall",
    "image_generation_call": "response_output_item.ImageGenerationCall",
    "local_shell_call": "response_output_item.LocalShellCall",
    "shell_call": "ResponseFunctionShellToolCall",
    "apply_patch_call": "ResponseApplyPatchToolCall",
    "mcp_call": "response_output_item.McpCall",
    "mcp_list_tools": "response_output_item.McpListTools",
    "mcp_approval_request": "response_output_item.McpApprovalRequest",
    "tool_search_call": "ResponseToolSearchCall",
    "tool_search_output": "ResponseToolSearchOutputItem",
    "program": "response_output_item.Program",
    "program_output": "response_output_item.ProgramOutput",
    "response": "Response",
}
"""The class in `openai.types.responses` of each item type that a model writes, and of a response."""


_FIELDS = {
    "message": ("id", "content", "role", "status", "type", "phase"),
    "output_text": ("annotations", "text", "type", "logprobs"),
    "refusal": ("refusal", "type"),
    "function_call": ("arguments", "call_id", "name", "type", "id"),
    "custom_tool_call": ("call_id", "input", "name", "type", "id"),
    "reasoning": ("id", "summary", "type", "content", "encrypted_content", "status"),
    "web_search_call": ("id", "action", "status", "type"),
    "file_search_call": ("id", "queries", "status", "type", "results"),
    "code_interpreter_call": ("id", "code", "container_id", "outputs", "status", "type"),
    "image_generation_call": ("id", "result", "status", "type"),
    "search": ("type", "queries", "query", "sources"),
    "open_page": ("type", "url"),
    "summary_text": ("text", "type"),
    "reasoning_text": ("text", "type"),
    "function_call_output": ("call_id", "output", "type"),
    "custom_tool_call_output": ("call_id", "output", "type"),
}
"""The order of fields in the `openai` package's class of each type; histories have another."""

TEXT_TYPES = frozenset({"output_text", "input_text", "text"})
"""The types of a message's parts that are texts."""

NO_ID = "__fake_id__"
"""The id that other programs save for items of servers without ids."""

CREATED_BY = "created_by"
"""The field for an item's author, which providers refuse in requests."""


def as_input(raw: JsonObject) -> JsonObject:
    """Return an item for a request, without response-only fields.

    The result shares its contents with the argument, and is the argument if nothing is removed.
    """
    chunks = raw.get("output") if raw.get("type") == "shell_call_output" else None
    marked = isinstance(chunks, list) and any(CREATED_BY in chunk for chunk in _dicts(chunks))
    empty = "status" in raw and raw["status"] is None  # typed items without a status hold None
    if CREATED_BY not in raw and not marked and not empty:
        return raw
    dropped = {CREATED_BY, "status"} if empty else {CREATED_BY}
    plain = {name: value for name, value in raw.items() if name not in dropped}
    if marked:
        plain["output"] = [
            {name: value for name, value in chunk.items() if name != CREATED_BY}
            for chunk in _dicts(chunks)
        ]
    return plain


def in_written_order(raw: JsonObject) -> JsonObject:
    """Return a run's item with the fields in the order of the `openai` package.

    Programs print items. The order is that of the Agents SDK, whose items were `openai` records.
    Messages of users and systems keep the order in which programs wrote them.
    """
    if raw.get("type") == "message" and raw.get("role") != "assistant":
        return raw
    ordered = _ordered(raw)
    if isinstance(action := ordered.get("action"), dict):
        ordered["action"] = _ordered(cast("JsonObject", action))
    for name in ("content", "summary"):
        if isinstance(parts := ordered.get(name), list):
            ordered[name] = [
                _ordered(cast("JsonObject", part)) if isinstance(part, dict) else part
                for part in cast("list[Any]", parts)
            ]
    return ordered


def _ordered(raw: JsonObject) -> JsonObject:
    kind = raw.get("type")
    first = [name for name in _FIELDS.get(kind, ()) if name in raw] if isinstance(kind, str) else []
    return {name: raw[name] for name in (*first, *(name for name in raw if name not in first))}


def _dicts(chunks: Any) -> list[JsonObject]:
    return [chunk for chunk in cast("list[Any]", chunks) if isinstance(chunk, dict)]


def copies(raws: Iterable[JsonObject]) -> list[JsonObject]:
    """Return copies of raw items for user code: originals may be a run's state."""
    return cast("list[JsonObject]", json.loads(json.dumps(list(raws))))  # far faster than deepcopy


def plain(value: object) -> Any:
    """Return a copy of an input value as plain data, as far as possible.

    Items may be the `openai` package's records. If pydantic has validated items of that package's
    types, as web frameworks do, their lists are iterators, which can be read once.
    """
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in cast("Mapping[Any, object]", value).items()}
    if isinstance(value, list | tuple | Iterator):
        return [plain(inner) for inner in cast("Iterator[object]", value)]
    return as_json(value)


def as_json(value: object) -> Any:
    """Return a model's item or event as JSON, converting the `openai` records."""
    if isinstance(value, dict | type):  # a class also has the method, but is not a record
        return cast("Any", value)
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", by_alias=True, exclude_unset=True) if callable(dump) else value


class HeldRaw:
    """The raw form of one item, or of a whole response.

    Callers get a copy, because a run's own state may hold the JSON; changes of it change the item.
    """

    __slots__ = ("_as_shown", "_json", "_shown")

    def __init__(self, raw: object) -> None:
        self._json: JsonObject | None = None
        self._shown: Any = None
        self._as_shown: JsonObject | None = None
        if isinstance(raw, dict):
            self._json = cast("JsonObject", raw)
        elif callable(getattr(raw, "model_dump", None)):
            self._shown = raw
        else:
            raise UserError(
                f"raw_item is {type(raw).__name__}. Use a dict in the format of the Responses "
                "API, or one of the openai package's objects."
            )

    def shown(self) -> Any:
        """Return the typed object, or a dict if the item's type has no class."""
        if self._shown is None:
            self._shown = _to_typed(deepcopy(cast("JsonObject", self._json)))
            self._as_shown = deepcopy(_plain(self._shown))
        return self._shown

    def value(self) -> JsonObject:
        """Return the current JSON. Treat it as immutable."""
        if self._shown is None:
            return cast("JsonObject", self._json)
        now = _plain(self._shown)
        unchanged = self._json is not None and now == self._as_shown
        return cast("JsonObject", self._json) if unchanged else deepcopy(now)


def _plain(shown: Any) -> JsonObject:
    if isinstance(shown, dict):
        return cast("JsonObject", shown)
    return shown.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)


def _to_typed(raw: JsonObject) -> Any:
    kind = raw.get("type") or raw.get("object")
    if kind == "message" and raw.get("role") != "assistant":
        return raw
    model = _model(kind) if isinstance(kind, str) else None
    # `construct` also creates the nested objects and does not validate: an item that a newer API
    # wrote is not an error.
    return raw if model is None else model.construct(**raw)


@cache
def _model(kind: str) -> Any:
    """Return the class of a type of item, or None.

    The package is imported here, when a program first reads a raw item, because the import takes
    half a second and most programs never need it. Programs annotate with and match these types.
    """
    path = _TYPED.get(kind)
    if path is None:
        return None
    place: Any = import_module("openai.types.responses")
    for name in path.split("."):
        place = getattr(place, name, None)  # an older package may not have it yet
    return place


# --- Which items belong together -----------------------------------------------------------------

_NO_IDS = frozenset({"", NO_ID})

ItemKey: TypeAlias = tuple[str, str]
"""The type of an item and its call id, or its own id; see `item_key`."""


def item_key(item: JsonObject) -> ItemKey | None:
    """Return the key that repeated items share: the kind and call id, or the id.

    Messages have no key: models use one id for several messages.
    """
    kind = item.get("type")
    if not isinstance(kind, str) or kind == "message" or "role" in item:
        return None
    for name in ("call_id", "approval_request_id", "id"):
        value = item.get(name)
        if isinstance(value, str) and value not in _NO_IDS:
            return kind, value
    return None
