"""Reads the items of a transcript: their texts and calls, and how many of them readers may see."""

from collections.abc import Mapping
from typing import Any, Final, cast

from outlast.loop import state as loop
from outlast.loop.aside import Aside, aside_words, is_text, may_be_left_out, part_words, parts_of
from outlast.loop.call_forms import FORMS, arguments_of, is_call, name_of
from outlast.loop.items import INTERNAL_KINDS, Item, call_id_of, refusal_of, summary_text, text_of
from outlast.loop.phrases import as_text
from outlast.loop.state import CALL_KINDS, OUTPUT_KINDS
from outlast.loop.values import Json, JsonObject
from outlast.views.run import AnyState, loop_state

__all__ = (
    "CALL_KINDS",
    "INTERNAL_KINDS",
    "OUTPUT_KINDS",
    "arguments_of",
    "as_text",
    "aside_words",
    "call_id_of",
    "has_message",
    "is_call",
    "is_cut_short",
    "leavable_parts",
    "may_be_left_out",
    "name_of",
    "part_name",
    "refusal_of",
    "set_aside",
    "summary_text",
    "text_of",
    "visible_items",
    "without_call_texts",
)


def visible_items(run: AnyState) -> tuple[Item, ...]:
    """Return the items that readers may see; output guardrails or people may withhold the others."""
    state = loop_state(run)
    return state.items[: loop.visible_item_count(state)]


def has_message(run: AnyState, message_id: str) -> bool:
    """Whether a message with this id has reached the run before."""
    return loop.has_message(loop_state(run), message_id)


def is_cut_short(raw: Mapping[str, Any]) -> bool:
    """Whether a message of a model ends early, because a limit of tokens cut it off."""
    return raw.get("type") == "message" and raw.get("status") == "incomplete"


def set_aside(run: AnyState) -> tuple[Aside, ...]:
    """Return what the model does not read any more, because a person or its provider said so."""
    return loop_state(run).aside


def leavable_parts(raw: JsonObject) -> set[int]:
    """Return the parts of an item's content that the model may do without by themselves."""
    listed = parts_of(raw)
    return {place for place, part in enumerate(listed) if not is_text(part) and len(listed) > 1}


def part_name(raw: JsonObject, part: int) -> str:
    """Return what a part of an item's content is, in words: a file by its name."""
    listed = parts_of(raw)
    found = listed[part] if part < len(listed) else None
    name = cast("JsonObject", found).get("filename") if isinstance(found, dict) else None
    return name if isinstance(name, str) and name else part_words(found)


_WHOLE: Final = ("_arguments.done", "_input.done")
_PIECES: Final = ("_arguments.delta", "_input.delta")
"""The ends of types of a model's events that have the arguments of calls."""


def without_call_texts(raw: JsonObject) -> JsonObject:
    """Return a model's event without calls' arguments: no plan says yet which people may see."""
    kind = str(raw.get("type", ""))
    if kind.endswith(_PIECES):
        return {**raw, "delta": ""}
    return cast("JsonObject", _without_calls(raw))


def _without_calls(value: Json) -> Json:
    if isinstance(value, list):
        return [_without_calls(one) for one in cast("list[Json]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("JsonObject", value)
    kind = str(fields.get("type", ""))
    if kind.endswith(_WHOLE):
        return {name: one for name, one in fields.items() if name not in {"arguments", "input"}}
    if is_call(fields):
        form = FORMS[kind]
        return {name: one for name, one in fields.items() if name not in {form.text, *form.parts}}
    return {name: _without_calls(one) for name, one in fields.items()}
