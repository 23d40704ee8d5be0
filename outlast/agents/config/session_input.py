"""Merges a session's history and a run's new input, and finds the items to save."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from outlast.agents.callables import call, callable_name
from outlast.agents.checks import check_count, json_problem
from outlast.agents.config.settings_field import as_settings
from outlast.agents.errors import UserError
from outlast.agents.items.raw_items import ItemKey, as_json, item_key
from outlast.agents.items.repair import Links, lost_halves
from outlast.agents.json_values import is_list, is_object
from outlast.loop.call_forms import CALL_OF_OUTPUT, OUTPUT_OF_CALL
from outlast.loop.values import JsonObject

ReasoningItemIdPolicy: TypeAlias = Literal["preserve", "omit"]
"""The policy for ids of reasoning items in a session: keep or drop them."""

SessionInputCallback: TypeAlias = Callable[[list[Any], list[Any]], list[Any] | Awaitable[list[Any]]]
"""A function called with (history, new items) that returns a run's input."""

SESSION_METHODS = ("get_items", "add_items", "pop_item", "clear_session")

_QUESTION_ROLES = frozenset({"user", "system", "developer"})


@dataclass(frozen=True)
class SessionSettings:
    """The settings for reading a session.

    Attributes:
        limit: read only the newest items, at most this many; None reads all of them.
    """

    limit: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None:
            expected = "None, which reads everything, or at least 0"
            check_count("SessionSettings: limit", self.limit, least=0, expected=expected)

    def resolve(self, override: "SessionSettings | Mapping[str, Any] | None") -> "SessionSettings":
        """Return these settings, overridden by those that `override` sets."""
        override = as_settings(SessionSettings, override or self)
        if override.limit is None:
            return self
        return replace(self, limit=override.limit)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return {"limit": self.limit}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedInput:
    """The input of a run, which of its items are new, and those that the session lacks."""

    items: tuple[JsonObject, ...]
    new: tuple[bool, ...]
    to_save: tuple[JsonObject, ...]

    @property
    def history(self) -> int:
        """The number of `items` that come from the session."""
        return self.new.count(False)


def merge_history(
    history: Sequence[JsonObject],
    new_items: Sequence[JsonObject],
    *,
    reasoning_item_id_policy: ReasoningItemIdPolicy | None = None,
) -> MergedInput:
    """Append the new items to the history.

    The history is cleaned for the model: of a repeated item, the newest value stays; items without
    their counterpart go, which happens where a limit cuts or rows are lost: calls and outputs
    before any question, calls without an output, outputs without a call, and reasoning without the
    item it led to. The new items are the caller's and stay unchanged.
    """
    flagged = [(item, False) for item in history] + [(item, True) for item in new_items]
    return _merge(flagged, tuple(new_items), reasoning_item_id_policy)


async def merge_with_callback(
    history: Sequence[JsonObject],
    new_items: Sequence[JsonObject],
    callback: SessionInputCallback,
    *,
    reasoning_item_id_policy: ReasoningItemIdPolicy | None = None,
) -> MergedInput:
    """Merge with a `session_input_callback`, and find the new items in its result.

    The callback gets copies. A returned item is from the history if it is an object of the history
    list, however often, or equals one that was not returned yet; any other item is new and gets
    saved. New items that the callback leaves out are not saved.
    """
    # One by one, so that an object that is in a list twice becomes two distinct copies.
    old = [deepcopy(item) for item in history]
    fresh = [deepcopy(item) for item in new_items]
    returned = await call(callback, list(old), list(fresh))
    what = f"session_input_callback {callable_name(callback)!r}"
    if not is_list(returned):
        raise UserError(
            f"{what} returned {type(returned).__name__}; it must return a list of input items "
            "for the run, such as history + new_items."
        )
    is_new = _trace(returned, old, fresh)
    items = [plain_item(item, what=f"the result of {what}") for item in returned]
    flagged = list(zip(items, is_new, strict=True))
    to_save = tuple(item for item, new in flagged if new)
    return _merge(flagged, to_save, reasoning_item_id_policy, [*history, *new_items])


def deduplicated(items: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the items without repetitions, each with its newest value; messages all stay.

    Calls stay before their outputs, and reasoning before the item it led to.
    """
    return [items[newest] for _, newest in newest_values(items)]


def plain_item(item: object, *, what: str) -> JsonObject:
    """Return an item as a JSON object; pydantic models are written."""
    plain = as_json(item)
    if not is_object(plain):
        raise UserError(f"An item in {what} must be a dict, not {type(item).__name__}.")
    if (problem := json_problem(plain)) is not None:
        raise UserError(
            f"An item of type {plain.get('type', 'message')!r} in {what} cannot be written as JSON: "
            f"{problem}."
        )
    return plain


def without_reasoning_ids(
    items: Iterable[JsonObject], policy: ReasoningItemIdPolicy | None
) -> tuple[JsonObject, ...]:
    """Return the items; the policy `omit` removes the ids of reasoning items."""
    return tuple(_without_reasoning_id(item, policy) for item in items)


def check_session(session: object) -> None:
    """Refuse an object that is no session, before it is used."""
    if isinstance(session, type):
        raise UserError(
            f"session must be a session, not the class {session.__name__}: "
            f'make one, as in {session.__name__}("customer-7").'
        )
    kind = type(session).__name__
    for method in SESSION_METHODS:
        if not callable(getattr(session, method, None)):
            raise UserError(
                f"The session of type {kind} has no method {method}(); a session has "
                f"{', '.join(SESSION_METHODS)}, all of them async."
            )
    if getattr(session, "is_open", True) is False:
        return  # it gets its id from a server, on first use
    session_id = getattr(session, "session_id", None)
    if not isinstance(session_id, str) or not session_id:
        raise UserError(
            f"The session of type {kind} must have a session_id that is a non-empty string, "
            f"not {session_id!r}."
        )


def _merge(
    flagged: Sequence[tuple[JsonObject, bool]],
    to_save: tuple[JsonObject, ...],
    policy: ReasoningItemIdPolicy | None,
    every: Sequence[JsonObject] = (),
) -> MergedInput:
    """Merge items; `every` are those before a callback chose among them."""
    every = every or [item for item, _ in flagged]
    flagged = _without_repeated_messages(flagged)
    raws = [item for item, _ in flagged]
    unique = [
        # A new item that repeats an item of the history replaces it and counts as new.
        (raws[newest], flagged[newest][1])
        for _, newest in newest_values(raws)
    ]
    begun = _from_a_question(unique)
    fixed = {at for at, (_, new) in enumerate(begun) if new}
    lost = lost_halves(
        [(item, 0) for item, _ in begun], [item_key(item) for item, _ in begun], fixed
    )
    kept = [entry for at, entry in enumerate(begun) if at not in lost]
    if len(kept) < len(every):
        whole = Links.of(every).kept_in([item for item, _ in kept])
        pairs = [(item if new else one, new) for one, (item, new) in zip(whole, kept, strict=True)]
        kept = [(item, new) for item, new in pairs if item is not None]
    return MergedInput(
        items=tuple(item if new else _without_reasoning_id(item, policy) for item, new in kept),
        new=tuple(new for _, new in kept),
        to_save=to_save,
    )


def _without_repeated_messages(
    flagged: Sequence[tuple[JsonObject, bool]],
) -> Sequence[tuple[JsonObject, bool]]:
    new_messages = {
        _fingerprint(item) for item, new in flagged if new and "role" in item and "id" in item
    }
    if not new_messages:
        return flagged
    return [(item, new) for item, new in flagged if new or _fingerprint(item) not in new_messages]


def _trace(
    combined: Sequence[Any], history: Sequence[JsonObject], new: Sequence[JsonObject]
) -> list[bool]:
    """Return for each item of a callback's result whether it is new.

    Identical objects match first, then equal ones. An equal item of the history is preferred, so
    that stored items are not stored again; an object of the history that is returned twice is shown
    twice and not stored again.
    """
    verdicts: list[bool | None] = [None] * len(combined)
    stored = {id(item) for item in history}
    unseen = {id(item): False for item in history} | {id(item): True for item in new}
    for at, item in enumerate(combined):
        verdicts[at] = unseen.pop(id(item), False if id(item) in stored else None)
    left = Counter(_fingerprint(item) for item in history if id(item) in unseen)
    for at, item in enumerate(combined):
        if verdicts[at] is not None:
            continue
        print_ = _fingerprint(item)
        verdicts[at] = left[print_] <= 0
        left[print_] -= 1
    return [verdict is not False for verdict in verdicts]


def _fingerprint(item: object) -> str:
    return json.dumps(as_json(item), sort_keys=True, default=repr)


def newest_values(items: Sequence[JsonObject]) -> list[tuple[int, int]]:
    """Return the position of each item, and of its newest value, in order of position.

    The last repetition of an item counts, with two exceptions that keep causes before effects: a
    call stays before its output; and reasoning stays with the item that follows it.
    """
    keys = [item_key(item) for item in items]
    places: dict[ItemKey, list[int]] = {}
    for at, key in enumerate(keys):
        if key is not None:
            places.setdefault(key, []).append(at)
    if all(len(at) == 1 for at in places.values()):  # the usual case
        return [(at, at) for at in range(len(items))]
    chosen: dict[ItemKey, int] = {}
    for key, at in places.items():
        outputs = places.get((OUTPUT_OF_CALL.get(key[0], ""), key[1]), [len(items)])
        chosen[key] = max((one for one in at if one < outputs[-1]), default=at[-1])
    standing = set(chosen.values())
    for key, at in places.items():
        if key[0] == "reasoning" and len(at) > 1:
            before = [one for one in at if _next_stands(items, one, standing)]
            chosen[key] = before[-1] if before else at[-1]
    newest = {at: places[key][-1] for key, at in chosen.items()}
    return [(at, newest.get(at, at)) for at, key in enumerate(keys) if key is None or at in newest]


def _next_stands(items: Sequence[JsonObject], at: int, standing: set[int]) -> bool:
    """Whether the item that reasoning led to stays after this reasoning."""
    after = next((i for i in range(at + 1, len(items)) if not _is_reasoning(items[i])), None)
    return after is not None and (after in standing or item_key(items[after]) is None)


def _from_a_question(flagged: Sequence[tuple[JsonObject, bool]]) -> list[tuple[JsonObject, bool]]:
    """Drop the first steps of the history if their question is missing.

    Messages stay, with the reasoning that led to them: a conversation may begin with a greeting,
    and an answer without its question is still useful. A call whose output the caller passes stays,
    too.
    """
    start = next(
        (at for at, (item, new) in enumerate(flagged) if new or _begins(item)), len(flagged)
    )
    answered = {_call_of(item) for item, new in flagged[start:] if new} - {None}
    kept, is_kept = list[tuple[JsonObject, bool]](), False
    for item, new in reversed(flagged[:start]):
        is_needed = "role" in item or item_key(item) in answered
        is_kept = is_needed or (is_kept and _is_reasoning(item))
        if is_kept:
            kept.append((item, new))
    return [*reversed(kept), *flagged[start:]]


def _call_of(item: JsonObject) -> ItemKey | None:
    key = item_key(item)
    if key is None or key[0] not in CALL_OF_OUTPUT:
        return None
    return CALL_OF_OUTPUT[key[0]], key[1]


def _begins(item: JsonObject) -> bool:
    return str(item.get("role")) in _QUESTION_ROLES or item.get("type") == "compaction"


def _is_reasoning(item: JsonObject) -> bool:
    return item.get("type") == "reasoning"


def _without_reasoning_id(item: JsonObject, policy: ReasoningItemIdPolicy | None) -> JsonObject:
    if policy != "omit" or not _is_reasoning(item) or "id" not in item:
        return item
    return {name: value for name, value in item.items() if name != "id"}
