"""Repairs the input of a model call: what a provider would refuse in it for ever.

A history may hold what no provider accepts again: arguments that are no JSON, empty messages, and
halves of pairs where a limit, a filter or a callback cut. Every later request would fail with them.
What is whole stays as it is: the very same objects.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, Self, TypeAlias, cast

from pydantic_core import from_json

from outlast.agents.items.raw_items import TEXT_TYPES, ItemKey, item_key
from outlast.agents.json_values import is_list, is_object
from outlast.loop.call_forms import CALL_OF_OUTPUT, OUTPUT_OF_CALL, is_by_model, without_id
from outlast.loop.values import Json, JsonObject, is_reference

INVALID_ARGUMENTS: Final = "invalid_arguments"
"""The only argument of a call whose arguments are no JSON object: the text that the model wrote."""

EMPTY_MESSAGE: Final = "(empty message)"
"""Stands in a request for a user's message without content, which some providers refuse."""

Placed: TypeAlias = tuple[JsonObject, int]
"""An item, and the number of the model call that made it; 0 if the run does not know."""

_WITH_PARTS = frozenset({"function_call_output", "custom_tool_call_output"})


# --- One item ------------------------------------------------------------------------------------


def readable(raw: JsonObject) -> JsonObject | None:
    """Return an item as every provider accepts it, or None if it says nothing.

    Arguments that are no JSON object become an object that quotes them: the model learns what it
    wrote. Empty parts are left out, and so are empty messages, except those of users.
    """
    if raw.get("type") == "function_call":
        return _with_object(raw)
    if "role" in raw:
        return _without_blanks(raw)
    if str(raw.get("type")) in _WITH_PARTS and isinstance(raw.get("output"), list):
        parts = cast("list[Any]", raw["output"])
        full = [part for part in parts if not _is_blank(part)]
        return raw if full and len(full) == len(parts) else {**raw, "output": full or ""}
    return raw


def is_empty_message(raw: JsonObject) -> bool:
    """Whether an item of a reply is a message without a single character."""
    if raw.get("type") != "message":
        return False
    content: Json = raw.get("content")
    if isinstance(content, list):
        return all(_is_blank(part, str) for part in cast("list[Any]", content))
    return not content


def _with_object(raw: JsonObject) -> JsonObject:
    written: Json = raw.get("arguments")
    if isinstance(written, str) and _is_object(written):
        return raw
    if is_reference(written):
        return raw
    if not written:
        return {**raw, "arguments": "{}"}
    shown = written if is_object(written) else {INVALID_ARGUMENTS: written}
    return {**raw, "arguments": json.dumps(shown)}


def _is_object(text: str) -> bool:
    try:
        return isinstance(from_json(text, allow_inf_nan=False), dict)
    except (TypeError, ValueError):  # a lone surrogate is a TypeError
        return False


def _without_blanks(raw: JsonObject) -> JsonObject | None:
    content: Json = raw.get("content")
    if isinstance(content, str) and content.strip():
        return raw
    if is_list(content):
        full = [part for part in content if not _is_blank(part)]
        if full:
            return raw if len(full) == len(content) else {**raw, "content": full}
    elif content and not isinstance(content, str):
        return raw
    return {**raw, "content": EMPTY_MESSAGE} if raw["role"] == "user" else None


def _is_blank(part: object, kept: Any = str.strip) -> bool:
    """Whether a part is a text or a refusal without content; `kept` returns what counts of it."""
    if not is_object(part):
        return False
    name = "refusal" if part.get("type") == "refusal" else "text"
    if name == "text" and str(part.get("type")) not in TEXT_TYPES:
        return False
    if name not in part:
        return False
    text: Json = part[name]
    return not text or (isinstance(text, str) and not kept(text))


# --- Pairs ---------------------------------------------------------------------------------------


def whole_pairs(placed: Sequence[Placed]) -> tuple[list[JsonObject], set[ItemKey], bool]:
    """Return the items without halves of pairs.

    Calls without an output go, outputs without a call before them, and reasoning without the item
    of the same reply that it led to.

    Returns:
        The items; the keys with which a later item would change them; and whether the last item
        stays, so that no later item without such a key changes them.
    """
    keys = [item_key(raw) for raw, _ in placed]
    open_keys = {key for key in keys if key is not None}
    dropped = lost_halves(placed, keys)
    for at in dropped:
        key = keys[at]
        if key is not None and key[0] in OUTPUT_OF_CALL:
            open_keys.add((OUTPUT_OF_CALL[key[0]], key[1]))
    closed = bool(placed) and len(placed) - 1 not in dropped
    kept = [raw for at, (raw, _) in enumerate(placed) if at not in dropped]
    return kept, open_keys, closed


def lost_halves(
    placed: Sequence[Placed], keys: Sequence[ItemKey | None], fixed: Collection[int] = ()
) -> set[int]:
    """Return the positions of items, with these keys, that have to go; those at `fixed` stay.

    Calls without an output go, outputs without a call before them, and reasoning without the item
    of the same reply that it led to.
    """
    seats = {key: at for at, key in enumerate(keys) if key is not None}
    dropped = {
        at
        for at, key in enumerate(keys)
        if at not in fixed and key is not None and _is_half(placed[at][0], key, at, seats)
    }
    # From the end, so that several reasoning items before one dropped call all go.
    for at in range(len(placed) - 1, -1, -1):
        is_reasoning = placed[at][0].get("type") == "reasoning"
        if is_reasoning and at not in fixed and _is_alone(placed, at, dropped):
            dropped.add(at)
    return dropped


def _is_half(raw: JsonObject, key: ItemKey, at: int, seats: dict[ItemKey, int]) -> bool:
    """Whether an item is a call without a later output, or an output without an earlier call."""
    kind, call_id = key
    if not (raw.get("call_id") or kind.startswith("mcp_approval")):
        return False  # a provider's own call
    if kind in OUTPUT_OF_CALL:
        return seats.get((OUTPUT_OF_CALL[kind], call_id), -1) < at
    if kind in CALL_OF_OUTPUT:
        return seats.get((CALL_OF_OUTPUT[kind], call_id), at) >= at
    return False


def _is_alone(placed: Sequence[Placed], at: int, dropped: set[int]) -> bool:
    """Whether reasoning lacks what it led to; a sibling of a call that went will do."""
    after = next((i for i in range(at + 1, len(placed)) if i not in dropped), None)
    if after is None or placed[after][1] != placed[at][1]:
        return True
    raw = placed[after][0]
    return not is_by_model(raw) or (after > at + 1 and str(raw.get("type")) not in OUTPUT_OF_CALL)


class Links:
    """Which item each reasoning led to, in items before user code chose among them."""

    def __init__(self) -> None:
        self._led_to: dict[str, str] = {}
        self._led_by: dict[str, str] = {}

    @classmethod
    def of(cls, raws: Iterable[JsonObject]) -> Self:
        """Return the links of items as their provider made them."""
        links, reasoning, before = cls(), "", ""
        for raw in raws:
            name = _identity(raw) if is_by_model(raw) else ""
            if before and name:
                links._led_to[before] = name
            before = name if raw.get("type") == "reasoning" else ""
            if before or not name:
                reasoning = name
            elif reasoning:
                links._led_by[name] = reasoning
        return links

    def kept_in(self, raws: Sequence[JsonObject]) -> list[JsonObject | None]:
        """Return the items that user code chose; None stands for one that has to go.

        Reasoning goes if it lost what it led to. An item that lost its reasoning loses its id, or
        goes, too, if it is a provider's own call.
        """
        names = [_identity(raw) if is_by_model(raw) else "" for raw in raws]
        kept: list[JsonObject | None] = list(raws)
        after = len(raws)
        for at in range(len(raws) - 1, -1, -1):
            if raws[at].get("type") == "reasoning" and not self._may_lead(names, raws, at, after):
                kept[at] = None
            else:
                after = at
        present = {name for name, raw in zip(names, kept, strict=True) if raw is not None}
        for at, name in enumerate(names):
            if name in self._led_by and self._led_by[name] not in present:
                plain = without_id(raws[at])
                kept[at] = None if "id" in plain else plain
        return kept

    def _may_lead(
        self, names: Sequence[str], raws: Sequence[JsonObject], at: int, after: int
    ) -> bool:
        """Whether reasoning led to the item after it, or to a call beside that one."""
        follower = names[after] if after < len(raws) else ""
        if self._led_to.get(names[at], follower) == follower:
            return True
        is_call = after < len(raws) and str(raws[after].get("type")) in OUTPUT_OF_CALL
        return is_call and self._led_by.get(follower) == names[at]


def _identity(raw: JsonObject) -> str:
    return json.dumps(raw["id"] if raw.get("id") else raw, sort_keys=True)
