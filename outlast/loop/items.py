"""Transcript items and messages, in the format of OpenAI's Responses API."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from outlast.loop.values import Json, JsonObject, is_reference, placeholder

ItemKind: TypeAlias = Literal[
    "history",
    "input",
    "note",
    "message",
    "draft",
    "reasoning",
    "tool_call",
    "tool_output",
    "handoff_call",
    "handoff_output",
    "other",
]

INTERNAL_KINDS: Final[frozenset[ItemKind]] = frozenset({"note", "draft"})
"""Kinds of items that the model and the team read, and users do not."""

SendMode: TypeAlias = Literal["queue", "steer", "interrupt"]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Item:
    """One entry of the transcript.

    Attributes:
        kind: the loop's kind of the item. `history` came from a session; a `note` is what the run
            tells the model; a `draft` is an answer that was not approved; `other` is what a
            provider did on its own.
        raw: the item in the Responses format; the loop reads only a few of its fields.
        agent: the agent whose turn produced the item; empty for input.
        turn: the number of the model call that produced the item, from 1; 0 for input.
        custom_data: what no model reads: the program's own data of a tool's output, and the `files`
            of a person's words.
        target: the agent that a handoff led to, where the output does not have the name that the
            run has for it.
    """

    kind: ItemKind
    raw: JsonObject
    agent: str = ""
    turn: int = 0
    custom_data: JsonObject | None = None
    target: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message sent to the run: one or more input items under one id.

    Attributes:
        id: chosen by the sender; a second message with the same id is the same message.
        content: Responses input items.
        at_ms: when the message arrived, in milliseconds since the epoch.
        mode: when the run takes it: after the present answer, at the next model call, or now,
            instead of the model call under way.
        stream: the model calls for its answer stream.
        caller: the `traceparent` of the program that sent it; empty without one.
        authors: the members of the team who wrote it, whom a policy may exclude from decisions.
    """

    id: str
    content: tuple[JsonObject, ...]
    at_ms: int = 0
    mode: SendMode = "steer"
    stream: bool = False
    caller: str = ""
    authors: tuple[str, ...] = ()


def with_authors(authors: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    """Return the authors of a question with further ones, each once and without empty names."""
    return tuple(dict.fromkeys(name for name in (*authors, *more) if name))


def message_of_person(text: str) -> JsonObject:
    """Return a person's words to the user as a message of the assistant."""
    part: JsonObject = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "status": "completed", "content": [part]}


def call_id_of(raw: JsonObject) -> str:
    """Return the id that a call and its output share."""
    return str(raw.get(OTHER_CALL_IDS.get(str(raw.get("type")), "call_id"), ""))


OTHER_CALL_IDS: Final = {
    "mcp_approval_request": "id",
    "mcp_approval_response": "approval_request_id",
}
"""The field of the id, where it is not `call_id`."""


def program_of(raw: JsonObject) -> str:
    """Return the id of the provider's program that made a call; empty if the model did."""
    caller: Any = raw.get("caller")
    if not isinstance(caller, dict) or cast("JsonObject", caller).get("type") != "program":
        return ""
    return str(cast("JsonObject", caller).get("caller_id", ""))


def text_of(raw: JsonObject) -> str:
    """Return the text of a message item, without refusals; empty if there is none.

    Text in the blob store is represented by its placeholder.
    """
    return "".join(placeholder(one) if is_reference(one) else str(one) for one in _texts_of(raw))


def summary_text(items: Iterable[JsonObject]) -> str:
    """Return the text of a summary for people; the provider's own may be encrypted."""
    texts = (text_of(raw) or "(encrypted by the provider)" for raw in items)
    return "\n\n".join(texts)


def last_words(items: Sequence[Item]) -> Json:
    """Return the last message or output, as the answer of a nested run that ended without text.

    A draft, which a person did not approve, is none.
    """
    for item in reversed(items):
        if item.kind == "draft":
            continue
        said: Json = item.raw.get("output") if item.kind == "tool_output" else _said_in(item.raw)
        if said and item.turn:
            return said
    return ""


def _said_in(raw: JsonObject) -> Json:
    """Return the text of a message item, or the reference to stored text."""
    texts = _texts_of(raw)
    return texts[0] if len(texts) == 1 and is_reference(texts[0]) else text_of(raw)


def _texts_of(raw: JsonObject) -> list[Json]:
    """Return the texts of a message item; stored texts as references."""
    content: Json = raw.get("content")
    if isinstance(content, str) or is_reference(content):
        return [content]
    return [
        part.get("text") or ""
        for part in _parts_of(raw)
        if str(part.get("type")) in {"output_text", "input_text", "text"}
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
