"""Functions that read text from items and create input items."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, cast

from outlast.agents.errors import ModelBehaviorError
from outlast.agents.items.raw_items import TEXT_TYPES, as_json, plain
from outlast.agents.items.run_items import MessageOutputItem, RunItem, raw_of
from outlast.agents.items.tool_output import encode_output
from outlast.loop.call_forms import output_item
from outlast.loop.values import JsonObject

TResponseInputItem: TypeAlias = JsonObject
"""An item of a model's input, in the format of the Responses API."""

TResponse: TypeAlias = Any
"""A response of the Responses API: the `openai` package's record, or a dict."""

TResponseOutputItem: TypeAlias = Any
"""An item that a model wrote: the `openai` package's record, or a dict."""

TResponseStreamEvent: TypeAlias = Any
"""An event of a model's stream: the `openai` package's record, or a dict."""


class ItemHelpers:
    """Functions that read text and inputs from items."""

    @classmethod
    def extract_last_content(cls, message: Any) -> str:
        """Return the last part of a model's message, text or refusal, or an empty text.

        Raises:
            ModelBehaviorError: the last part is neither text nor a refusal.
        """
        parts = _parts(message)
        if not parts:
            return ""
        kind = _get(parts[-1], "type")
        if kind == "refusal":
            return str(_get(parts[-1], "refusal") or "")
        if kind in TEXT_TYPES:
            return str(_get(parts[-1], "text") or "")
        raise ModelBehaviorError(f"The model's message ends with {kind!r}, not with text.")

    @classmethod
    def extract_last_text(cls, message: Any) -> str | None:
        """Return the last part of a model's message if it is text, else None."""
        parts = _parts(message)
        if not parts or _get(parts[-1], "type") not in TEXT_TYPES:
            return None
        return str(_get(parts[-1], "text") or "")

    @classmethod
    def extract_text(cls, message: Any) -> str | None:
        """Return all text of a model's message, or None if there is no text."""
        texts = (_get(part, "text") for part in _parts(message) if _get(part, "type") in TEXT_TYPES)
        return "".join(str(text or "") for text in texts) or None

    @classmethod
    def extract_refusal(cls, message: Any) -> str | None:
        """Return the refusal in a model's message, or None if there is no refusal."""
        parts = (part for part in _parts(message) if _get(part, "type") == "refusal")
        return "".join(str(_get(part, "refusal") or "") for part in parts) or None

    @classmethod
    def input_to_new_input_list(cls, input: str | Iterable[JsonObject]) -> list[JsonObject]:  # noqa: A002  the field's name
        """Return a run's input as a new list; a string becomes one user message."""
        if isinstance(input, str):
            return [cls.user_input_item(input)]
        return [plain(item) for item in input]

    @classmethod
    def user_input_item(cls, text: str) -> JsonObject:
        """Return a user's message as an input item."""
        return {"content": text, "role": "user"}

    @classmethod
    def collect_all_items(cls, *results: Any) -> list[RunItem]:
        """Return the items of one or more results, in order: input and new items of each."""
        return [item for result in results for item in result.all_items]

    @classmethod
    def text_message_outputs(cls, items: Sequence[RunItem]) -> str:
        """Return the concatenated text of all messages among the items."""
        messages = (item for item in items if isinstance(item, MessageOutputItem))
        return "".join(cls.text_message_output(message) for message in messages)

    @classmethod
    def text_message_output(cls, message: MessageOutputItem) -> str:
        """Return the text of a message item, without refusals."""
        return cls.extract_text(raw_of(message)) or ""

    @classmethod
    def tool_call_output_item(cls, tool_call: Any, output: Any) -> JsonObject:
        """Return the input item that answers a call.

        Args:
            tool_call: the call, typed or a dict.
            output: the tool's result, encoded as a function tool's result is.

        Raises:
            UserError: the output cannot be written as JSON.
        """
        name = str(_get(tool_call, "name") or "")
        call_id = str(_get(tool_call, "call_id") or "")
        item = output_item(call_id, encode_output(output, tool_name=name))
        caller = as_json(_get(tool_call, "caller"))
        return item if caller is None else {**item, "caller": caller}


def _get(thing: Any, name: str) -> Any:
    if isinstance(thing, dict):
        return cast("JsonObject", thing).get(name)
    return getattr(thing, name, None)


def _parts(message: Any) -> list[Any]:
    if _get(message, "type") != "message" and not _get(message, "role"):
        return []
    content = _get(message, "content")
    if isinstance(content, str):
        return [{"type": "output_text", "text": content}] if content else []
    return list(cast("Sequence[Any]", content)) if isinstance(content, list | tuple) else []
