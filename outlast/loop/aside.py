"""What the model does not read any more, because its provider refused it or a person said so.

The transcript keeps it, so people see what it was and may take it back. In the request, a short note
stands in its place: calls keep their outputs, and outputs their calls.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar, cast

from outlast.loop.call_forms import FORM_OF_OUTPUT, FORMS, is_by_model, output_item, without_id
from outlast.loop.canonical import digest_of
from outlast.loop.items import Item, call_id_of
from outlast.loop.phrases import CALL_LEFT_OUT, OUTPUT_LEFT_OUT, left_out
from outlast.loop.values import Json, JsonObject
from outlast.loop.view import View, entries, shown

K = TypeVar("K")

_WORDS_FOR: Final = {
    "input_image": "an image",
    "input_file": "a file",
    "input_audio": "a recording",
}

SOMEBODY: Final = "a person"
"""Who set an item aside, if nobody says: the provider has no name there."""

_INSTRUCTIONS: Final = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEntry:
    """What a provider refused, as the worker names it.

    Attributes:
        entry: the position in the items that the model call covers.
        part: the index of the part of its content; None for all of it.
        reason: what the provider says.
    """

    entry: int
    part: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """An item, or a part of one, that the model does not read any more.

    Attributes:
        item: the index in the transcript; None for what only the view has, such as a summary.
        digest: of the item that only the view has; empty for others.
        part: the index of the part of its content; None for all of it.
        reason: why, in the words of the provider or of the person. Nobody vouches for them.
        by: the person who set it aside; empty if the provider refused it.
        at_ms: when, in milliseconds since the epoch.
    """

    item: int | None = None
    digest: str = ""
    part: int | None = None
    reason: str = ""
    by: str = ""
    at_ms: int = 0

    @property
    def place(self) -> tuple[int | str, int | None]:
        """What it is, whoever set it aside and why."""
        return self.digest if self.item is None else self.item, self.part


def may_be_left_out(raw: JsonObject) -> bool:
    """Whether a model may do without an item: instructions and calls of machines stay."""
    kind = str(raw.get("type", "message"))
    if kind in FORMS:
        return bool(FORMS[kind].text)
    return raw.get("role") not in _INSTRUCTIONS


def parts_aside(aside: Sequence[Aside]) -> dict[int | str, list[int | None]]:
    """Return the parts that are set aside, with None for all of an item, by what names the item."""
    gone: dict[int | str, list[int | None]] = {}
    for one in aside:
        gone.setdefault(one.place[0], []).append(one.part)
    return gone


def entries_read(
    view: View,
    items: Sequence[Item],
    length: int,
    aside: Sequence[Aside],
    start: int = 0,
    stop: int | None = None,
) -> list[tuple[int | str, Item]]:
    """Return what the model reads, each entry with what names it in an `Aside`.

    Args:
        view: the view.
        items: the transcript.
        length: how many items of the transcript count.
        aside: what is left out.
        start: the first entry of the view that counts.
        stop: the entry of the view from which on none counts; None for all.
    """
    gone = parts_aside(aside)
    named = (
        (digest_of(item.raw) if index is None else index, item)
        for index, item in tuple(entries(view, items, length))[start:stop]
    )
    return read_without(named, gone)


def read_without(
    named: Iterable[tuple[K, Item]], gone: Mapping[K, Sequence[int | None]]
) -> list[tuple[K, Item]]:
    """Return items, each with its name, without the parts that are `gone`.

    What reasoning led to that is left out loses its id, by which the provider would miss the
    reasoning; a provider's own call, which needs its id, is left out with it.
    """
    found: list[tuple[K, Item]] = []
    lost: int | None = None  # the turn whose newest reasoning is left out
    for name, item in named:
        read = without(item, gone[name]) if name in gone else item
        if read is None:
            lost = item.turn
            continue
        is_led_to = is_by_model(item.raw) and item.raw.get("type") != "reasoning"
        lost = lost if item.turn == lost and is_led_to else None
        if lost is not None:
            read = replace(read, raw=without_id(read.raw))
        if lost is None or "id" not in read.raw:
            found.append((name, read))
    return found


def read_by_model(
    view: View,
    items: Sequence[Item],
    length: int,
    aside: Sequence[Aside],
    start: int = 0,
    stop: int | None = None,
) -> tuple[Item, ...]:
    """Return the items that the model reads; the arguments are those of `entries_read`."""
    if not aside:
        return shown(view, items, length)[start:stop]
    return tuple(item for _, item in entries_read(view, items, length, aside, start, stop))


def without(item: Item, parts: Sequence[int | None]) -> Item | None:
    """Return an item with a note in place of some parts, or of everything.

    None if nothing can stand in its place, as for reasoning.
    """
    raw = item.raw
    kind = str(raw.get("type", "message"))
    if kind in FORMS:
        text = FORMS[kind].text
        written = CALL_LEFT_OUT if text == "input" else f'{{"left_out": "{CALL_LEFT_OUT}"}}'
        return replace(item, raw={**raw, text: written})
    if kind in FORM_OF_OUTPUT:
        return replace(item, raw=_output_without(raw, kind, parts))
    if "role" not in raw:
        return None
    return replace(item, raw={**raw, "content": _content_without(raw, parts)})


def _output_without(raw: JsonObject, kind: str, parts: Sequence[int | None]) -> JsonObject:
    output: Json = raw.get("output")
    if None not in parts and isinstance(output, list):
        return {**raw, "output": _parts_without(cast("list[Json]", output), parts, "input_text")}
    made = output_item(call_id_of(raw), OUTPUT_LEFT_OUT, FORM_OF_OUTPUT[kind])
    return {**{name: raw[name] for name in ("id", "caller") if name in raw}, **made}


def _content_without(raw: JsonObject, parts: Sequence[int | None]) -> Json:
    text_type = "output_text" if raw.get("role") == "assistant" else "input_text"
    content: Json = raw.get("content")
    if not isinstance(content, list):
        return left_out("a message")
    listed = cast("list[Json]", content)
    if None in parts:
        return [_note(text_type, left_out("a message"))]
    return _parts_without(listed, parts, text_type)


def _parts_without(
    listed: Sequence[Json], parts: Sequence[int | None], text_type: str
) -> list[Json]:
    return [
        _note(text_type, left_out(part_words(one))) if at in parts else one
        for at, one in enumerate(listed)
    ]


def _note(text_type: str, text: str) -> JsonObject:
    note: JsonObject = {"type": text_type, "text": text}
    return {**note, "annotations": []} if text_type == "output_text" else note


def parts_of(raw: JsonObject) -> list[Json]:
    """Return the parts of a message's content, or of a call's output; none if it is no list."""
    content: Json = raw.get("output" if "output" in raw else "content")
    return cast("list[Json]", content) if isinstance(content, list) else []


def is_text(part: Json) -> bool:
    """Whether a part of an item's content is no image, file or recording."""
    return _kind(part) not in _WORDS_FOR


def part_words(part: Json) -> str:
    """Return what a part of an item's content is, in words."""
    return _WORDS_FOR.get(_kind(part), "a text")


def _kind(part: Json) -> str:
    return str(cast("JsonObject", part).get("type")) if isinstance(part, dict) else ""


def aside_words(aside: Aside, *, is_back: bool = False) -> str:
    """Say to people what the model reads no more, or again, and why."""
    what = "A summary" if aside.item is None else f"Item {aside.item}"
    part = "" if aside.part is None else f", part {aside.part},"
    if is_back:
        return f"{what}{part} is read by the model again."
    who = aside.by or "the model provider"
    verb = "set it aside" if aside.by else "refused it"
    why = f": {aside.reason}" if aside.reason else "."
    return f"{what}{part} is not read by the model any more: {who} {verb}{why}"
