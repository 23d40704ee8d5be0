"""The items of a conversation, in the format of OpenAI's Responses API, with who wrote them.

Owns: `Item`, `Message` and how text is read out of a raw item. Must not know: turns or effects.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from outlast.loop.values import Json, JsonObject, is_reference, placeholder

ItemKind: TypeAlias = Literal[
    "history",
    "input",
    "message",
    "reasoning",
    "tool_call",
    "tool_output",
    "handoff_call",
    "handoff_output",
    "other",
]


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of the transcript.

    Attributes:
        kind: what it is to the loop; `history` came from a session, `other` is what a provider
            did on its own.
        raw: the item as the model sees it; opaque to the loop but for a few fields.
        agent: whose turn produced it; empty for what came from outside.
        turn: which model call of the run produced it, from 1; 0 for what came from outside.
    """

    kind: ItemKind
    raw: JsonObject
    agent: str = ""
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody said to the run: one or more input items under one id.

    Attributes:
        id: chosen by the sender; a second message with the same id is the same message.
        content: Responses input items.
        at_ms: when it arrived, in milliseconds since the epoch.
    """

    id: str
    content: tuple[JsonObject, ...]
    at_ms: int = 0


def call_id_of(raw: JsonObject) -> str:
    """Return the id that ties a call and its output together."""
    return str(raw.get("call_id", ""))


def text_of(raw: JsonObject) -> str:
    """Return the text of a message item, without refusals; empty where there is none.

    What is stored outside of the run is there as a placeholder.
    """
    return "".join(placeholder(one) if is_reference(one) else str(one) for one in _texts_of(raw))


def last_words(items: Sequence[Item]) -> Json:
    """Return the last that was said or found, for whoever asked an agent that ended in silence."""
    for item in reversed(items):
        said: Json = item.raw.get("output") if item.kind == "tool_output" else _said_in(item.raw)
        if said and item.turn:
            return said
    return ""


def _said_in(raw: JsonObject) -> Json:
    """Return the text of a message item, or the reference to it where it is stored outside."""
    texts = _texts_of(raw)
    return texts[0] if len(texts) == 1 and is_reference(texts[0]) else text_of(raw)


def _texts_of(raw: JsonObject) -> list[Json]:
    """Return the texts of a message item, or references to them."""
    content: Json = raw.get("content")
    if isinstance(content, str) or is_reference(content):
        return [content]
    return [
        part.get("text") or ""
        for part in _parts_of(raw)
        if part.get("type") in {"output_text", "input_text", "text"}
    ]


def only_text(raws: Sequence[JsonObject]) -> str | None:
    """Return the text of items that are one plain user message, else None."""
    if len(raws) != 1 or raws[0].keys() != {"role", "content"} or raws[0]["role"] != "user":
        return None
    content: Json = raws[0]["content"]
    return content if isinstance(content, str) else None


def refusal_of(raw: JsonObject) -> str | None:
    """Return the refusal in a message item, or None when the model did not refuse."""
    for part in _parts_of(raw):
        if part.get("type") == "refusal":
            return str(part.get("refusal", ""))
    return None


def _parts_of(raw: JsonObject) -> list[JsonObject]:
    content: Json = raw.get("content")
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    return [cast("JsonObject", part) for part in parts if isinstance(part, dict)]
