"""What a caller sees of a run, as parts of AG-UI messages.

A part is a message, a tool call or its output. Their ids are the same in every stream and process:
`outlast-t3` is what the third model call wrote, and `outlast-i5` the sixth item of the transcript.
A customer's message keeps the id that its front end chose.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final, Literal, TypeAlias, cast

from ag_ui.core import (
    AssistantMessage,
    ContentPart,
    DataSource,
    DocumentPart,
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

from outlast.contract.blobs import readable
from outlast.serve.access import Caller, redaction_for
from outlast.serve.wires.call_ids import CallIds
from outlast.views.customer import CustomerMessage, customer_view, message_ids, messages_left_out
from outlast.views.records import Item, Json, JsonObject
from outlast.views.redaction import NOTHING, Redaction
from outlast.views.run import RunSnapshot
from outlast.views.transcript import (
    CALL_KINDS,
    OUTPUT_KINDS,
    arguments_of,
    as_text,
    call_id_of,
    name_of,
    refusal_of,
    text_of,
    visible_items,
)

OWN: Final = "outlast-"
"""Begins the ids of messages that no front end chose."""

_CUSTOMER: Final = "customer-"
"""Begins the ids of customers' messages in runs: see `customer_message_id`."""

BETWEEN_MESSAGES: Final = "\n\n"
"""Between several messages of one reply, as a feed has it."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message.

    Attributes:
        id: its id.
        role: who says it.
        text: its text.
        name: the name of the colleague who says it; empty for an agent and the customer.
        attachments: images and files, as parts of Responses input.
    """

    id: str
    role: Literal["user", "assistant"]
    text: str
    name: str = ""
    attachments: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call; `message_id` is the message of the same reply."""

    id: str
    message_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Returned:
    """The output of a tool call."""

    id: str
    call_id: str
    text: str


Part: TypeAlias = Said | Called | Returned


@dataclass(frozen=True, slots=True)
class Live:
    """The text in progress of a model call, as far as it was read."""

    turn: int
    text: str
    is_unjudged: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """What a caller sees: the conversation, and messages that nobody has read yet."""

    parts: tuple[Part, ...]
    unread: tuple[Part, ...] = ()
    hides: Redaction = field(default=NOTHING, repr=False)

    def with_live(self, live: Live | None) -> tuple[Part, ...]:
        """Return all parts, with a text in progress unless its reply is there already."""
        if live is None or not live.text:
            return (*self.parts, *self.unread)
        said = Said(message_id(live.turn), "assistant", plain(self.hides.draft(live.text)))
        is_there = any(isinstance(one, Said) and one.id == said.id for one in self.parts)
        return (*self.parts, *(() if is_there else (said,)), *self.unread)


def message_id(turn: int) -> str:
    """Return the id of what a model call writes."""
    return f"{OWN}t{turn}"


def plain(text: str) -> str:
    """Return a text that can be sent: half characters, which no encoding has, are replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


# --- Views ---------------------------------------------------------------------------------------


def view_of_customer(state: RunSnapshot) -> View:
    """Return what the customer sees, and programs that act for them."""
    seen = customer_view(state)
    ids = _ids_of_front_ends(state)
    parts = _joined(_of_customer_view(state, one, ids) for one in seen.messages)
    unread = (
        Said(
            _front_end_id(one.id.rpartition(".")[0]) or f"{OWN}{one.id}",
            "user",
            one.text,
            "",
            one.attachments,
        )
        for one in seen.unread
    )
    return View(tuple(parts), tuple(_joined(unread)))


def _of_customer_view(state: RunSnapshot, one: CustomerMessage, ids: dict[int, str]) -> Said:
    at = int(one.id[1:]) if one.id.startswith("i") else None
    if one.by == "customer":
        own = ids.get(at, f"{OWN}{one.id}") if at is not None else f"{OWN}{one.id}"
        return Said(own, "user", one.text, "", one.attachments)
    turn = state.items[at].turn if at is not None else 0
    name = "colleague" if one.by == "colleague" else ""
    return Said(message_id(turn) if turn else f"{OWN}{one.id}", "assistant", one.text, name)


def view_of_team(state: RunSnapshot, caller: Caller = None) -> View:
    """Return what a caller of the team sees: with tool calls, without what policies redact."""
    hides = redaction_for(caller, state)
    ids = _ids_of_front_ends(state)
    parts = list(_joined(_said_in(state, ids, hides)))
    unread = (
        Said(
            _front_end_id(message.id) or f"{OWN}{message.id}.{at}", "user", hides.text(text_of(raw))
        )
        for message in state.unread
        for at, raw in enumerate(message.content)
        if raw.get("role") == "user"
    )
    return View(tuple(parts), tuple(_joined(unread)), hides)


def _said_in(state: RunSnapshot, ids: dict[int, str], hides: Redaction) -> Iterator[Part]:
    calls, _ = ids_of_calls(state)
    agents = {*state.handoff_path, state.agent}
    answers = {one.item for one in state.answers if one.failure is None}
    for at, item in enumerate(visible_items(state)):
        raw = cast("JsonObject", readable(item.raw))
        if item.kind == "input" and raw.get("role") == "user":
            text = hides.text(text_of(raw))
            yield Said(ids.get(at, f"{OWN}i{at}"), "user", text, "", _attachments(raw))
        elif item.kind == "message" and raw.get("role") == "assistant":
            text = hides.text(text_of(raw) or refusal_of(raw) or "")
            is_person = item.turn == 0 and item.agent not in agents
            yield Said(_id_of(item, at), "assistant", text, item.agent if is_person else "")
        elif item.kind in CALL_KINDS:
            arguments = hides.call(item.agent, name_of(raw), arguments_of(raw))
            yield Called(calls[at], _id_of(item, at), name_of(raw), arguments)
        elif item.kind in OUTPUT_KINDS:
            output = hides.text(_output(raw))
            yield Returned(f"{OWN}i{at}", calls[at], output)
            if at in answers:
                yield Said(f"{OWN}a{at}", "assistant", output)
    newest = state.answers[-1] if state.answers else None
    if newest is not None and newest.item is None and newest.failure is None:
        answer = "" if state.final_output is None else as_text(state.final_output)
        yield Said(f"{OWN}a-{len(state.answers)}", "assistant", hides.text(answer))


def ids_of_calls(state: RunSnapshot) -> tuple[dict[int, str], CallIds]:
    """Return the ids of the calls of which there are items, by the places of the items.

    The second part tells which of the calls a request is about.
    """
    ids, found = CallIds(), dict[int, str]()
    for at, item in enumerate(visible_items(state)):
        if item.kind in CALL_KINDS:
            found[at] = ids.called(call_id_of(item.raw), name_of(item.raw), item.turn)
        elif item.kind in OUTPUT_KINDS:
            found[at] = ids.answered(call_id_of(item.raw))
    return found, ids


def _id_of(item: Item, at: int) -> str:
    return message_id(item.turn) if item.turn else f"{OWN}i{at}"


def _output(raw: JsonObject) -> str:
    output: Json = raw.get("output")
    return "" if output is None else as_text(output)


def _attachments(raw: JsonObject) -> tuple[JsonObject, ...]:
    content: Json = raw.get("content")
    parts = cast("list[JsonObject]", content) if isinstance(content, list) else []
    return tuple(one for one in parts if one.get("type") in {"input_image", "input_file"})


def _joined(parts: Iterator[Part]) -> Iterator[Part]:
    """Yield parts, with one message for the texts of a reply; without empty messages."""
    found: list[Part] = []
    places: dict[str, int] = {}
    for part in map(_sendable, parts):
        if isinstance(part, Said):
            if not part.text and not part.attachments:
                continue
            place = places.get(part.id)
            begun = None if place is None else found[place]
            if place is not None and isinstance(begun, Said):
                found[place] = replace(begun, text=begun.text + BETWEEN_MESSAGES + part.text)
                continue
            places[part.id] = len(found)
        found.append(part)
    yield from found


def _sendable(part: Part) -> Part:
    texts = {one.name: getattr(part, one.name) for one in fields(part)}
    return replace(
        part, **{name: plain(one) for name, one in texts.items() if isinstance(one, str)}
    )


# --- Ids of front ends ---------------------------------------------------------------------------


def _front_end_id(message: str) -> str | None:
    """Return the id that a front end chose; None for messages of others, and for ids of ours."""
    own = message.removeprefix(_CUSTOMER)
    return None if own == message or own.startswith(OWN) else own


def _ids_of_front_ends(state: RunSnapshot) -> dict[int, str]:
    """Return the ids of the customer's messages in the transcript, by the places of their items.

    Others have ids of the transcript.
    """
    named = ((at, _front_end_id(one)) for at, one in message_ids(state).items())
    return {at: one for at, one in named if one is not None}


def ids_left_out(state: RunSnapshot) -> list[str]:
    """Return the ids of the customer's messages that the model does not read, or not all of."""
    if not (found := messages_left_out(state)):
        return []
    ids = _ids_of_front_ends(state)
    return [_of_customer_view(state, one, ids).id for one in found]


# --- Messages of the protocol --------------------------------------------------------------------


def as_messages(parts: Sequence[Part]) -> list[Message]:
    """Return parts as messages of a snapshot."""
    found: dict[str, Message] = {}
    for part in parts:
        match part:
            case Said(role="user"):
                found[part.id] = UserMessage(id=part.id, content=_content(part))
            case Said():
                message = found.setdefault(part.id, AssistantMessage(id=part.id))
                if isinstance(message, AssistantMessage):
                    message.content, message.name = part.text, part.name or None
            case Called():
                message = found.setdefault(part.message_id, AssistantMessage(id=part.message_id))
                if isinstance(message, AssistantMessage):
                    function = FunctionCall(name=part.name, arguments=part.arguments)
                    call = ToolCall(id=part.id, function=function)
                    message.tool_calls = [*(message.tool_calls or []), call]
            case Returned():
                found[part.id] = ToolMessage(
                    id=part.id, tool_call_id=part.call_id, content=part.text
                )
    return list(found.values())


def _content(said: Said) -> str | list[ContentPart]:
    if not said.attachments:
        return said.text
    text = [TextPart(text=said.text)] if said.text else []
    return [*text, *(_attachment(one) for one in said.attachments)]


def _attachment(part: JsonObject) -> ContentPart:
    """Return an image or a file; its name, if it is in the blob store or elsewhere."""
    is_image = part.get("type") == "input_image"
    content: Json = part.get("image_url" if is_image else "file_data")
    name: Json = part.get("filename")
    kind, comma, data = str(content).partition(";base64,")
    if not isinstance(content, str) or not comma or not kind.startswith("data:"):
        return TextPart(text=f"[{name or ('image' if is_image else 'file')}]")
    source = DataSource(value=data, mime_type=kind.removeprefix("data:") or "text/plain")
    if is_image:
        return ImagePart(source=source)
    metadata = {"filename": name} if isinstance(name, str) else None
    return DocumentPart(source=source, metadata=metadata)
