"""Finds what a provider refuses in a request, so that the conversation can go on without it.

A photo that is cut off, a text that a safety system flags, a document that no window holds: sent
once, it is part of every later request, and each is refused. Here the request is sent again with a
note in the place of what may be wrong, until the provider takes it. Only what the provider took the
request without is set aside; if nothing helps, nothing is, and the call fails as it did.

A refusal that is about tools, schemas or parameters is never searched: after a bad deploy it would
cost customers their words.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from outlast.activities.errors import EffectError
from outlast.agents.logs import get_logger
from outlast.contract import failures
from outlast.loop.aside import RefusedEntry, is_text, may_be_left_out, parts_of, read_without
from outlast.loop.call_forms import FORM_OF_OUTPUT
from outlast.loop.items import Item
from outlast.loop.values import Json, JsonObject

T = TypeVar("T")

logger: Final = get_logger(__name__)

MOST_TRIES: Final = 24
"""How often a request is sent again, at most. A provider does not bill what it refuses."""

MOST_NAMED: Final = 12
"""How many refusals in a row may each name something else, before groups are left out."""

MOST_PAID: Final = 8
"""How many of these the provider may take and bill, to find which part of several it refuses."""

LONGEST_REASON: Final = 300
"""The most characters of a provider's words that are recorded with what it refused."""

_LARGE_SHARE: Final = 0.25
"""The share of a request from which on a single entry counts as what makes it too large."""

_STATUSES: Final = frozenset({None, 400, 413, 415, 422})

_SIZE_CODES: Final = frozenset({"context_length_exceeded", "string_above_max_length"})
_SIZE: Final = re.compile(
    r"context.?(length|window)|maximum context|too (long|large|many (input )?tokens)|prompt is too"
    r"|token count|exceeds? the (maximum|limit|model)|request (entity )?too large|reduce the length",
    re.IGNORECASE,
)
_MEDIA: Final = re.compile(
    r"image|picture|photo|media.?type|\bfile\b|\bpdf\b|audio|base64|data.?url|mime|download|fetch",
    re.IGNORECASE,
)
_FLAGGED: Final = re.compile(
    r"content.?(policy|filter|management)|moderation|safety|flagged|usage polic|invalid_prompt"
    r"|responsible.?ai|sensitive|inappropriate",
    re.IGNORECASE,
)
_PARAMETERS: Final = re.compile(
    r"\btools?\b|tool_choice|\bfunctions?\b|schema|response_format|temperature|top_p|max_\w*tokens"
    r"|\bparameters?\b|reasoning.?effort|\bmodel\b.{0,40}(not exist|not found|does not support)"
    r"|api.?version|\bheader",
    re.IGNORECASE,
)
_OF_THE_INPUT: Final = re.compile(r"(input|messages?|contents?|prompt)\b", re.IGNORECASE)
_PLACE: Final = re.compile(
    r"\b(input|messages?|contents)[.\[]+(\d+)\]?"
    r"(?:[.\[]*(?:content|output|parts)[.\[]+(\d+)\]?)?",
    re.IGNORECASE,
)
_URL: Final = re.compile(r"https?://[^\s'\"<>)\]]+")

About: TypeAlias = Literal["", "size", "media", "flagged", "entry"]


@dataclass(frozen=True, slots=True)
class Unit:
    """What can be left out by itself: an item, or a part of its content."""

    entry: int
    part: int | None = None


Units: TypeAlias = frozenset[Unit]


def refusal_about(error: EffectError) -> About:
    """Return what a failed model call says is wrong with the conversation; empty for anything else.

    `entry` stands for a refusal that does not say.
    """
    details = error.details or {}
    if error.code != failures.MODEL_CALL_FAILED or error.retryable:
        return ""
    if details.get("reason") != "invalid_request" or details.get("status") not in _STATUSES:
        return ""
    code, param = str(details.get("provider_code", "")), str(details.get("param", ""))
    words = f"{code} {error.message.partition('Its message:')[2] or error.message}"
    if code in _SIZE_CODES or details.get("status") == 413 or _SIZE.search(words):
        return "size"
    if _FLAGGED.search(words):
        return "flagged"
    if param and _OF_THE_INPUT.match(param) is None:
        return ""
    if _MEDIA.search(words):
        return "media"
    says_nothing = details.get("status") is None or _PARAMETERS.search(words)
    return "" if not param and says_nothing else "entry"


async def answer_without(
    error: EffectError,
    items: Sequence[Item],
    send: Callable[[tuple[Item, ...]], Awaitable[T]],
) -> "Found[T] | None":
    """Send a refused request again without what is refused.

    Args:
        error: the refusal.
        items: the items of the request.
        send: sends the request with other items.

    Returns:
        The answer, with what it was given without; None if nothing helps.

    Raises:
        EffectError: the provider failed for another reason.
    """
    search = _Search(items, send, error)
    return await search.run() if refusal_about(error) else None


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """The answer to a request, what it was given without, and other answers that were paid."""

    answer: T
    refused: tuple[RefusedEntry, ...]
    others: tuple[T, ...]


@dataclass
class _Search(Generic[T]):
    items: Sequence[Item]
    send: Callable[[tuple[Item, ...]], Awaitable[T]]
    error: EffectError
    _tried: dict[Units, bool] = field(default_factory=dict[Any, bool])
    _answers: list[tuple[Units, T]] = field(default_factory=list[Any])

    async def run(self) -> Found[T] | None:
        first, units = self.error, list(_units(self.items))
        out: Units = frozenset()
        says_nothing = refusal_about(first) == "entry" and not (first.details or {}).get("param")
        if says_nothing and await self._sends(frozenset()):  # it was a passing fault
            return Found(self._answers[0][1], (), ())
        for _ in range(MOST_NAMED):  # the next refusal may name the next entry
            named = frozenset(_named(self.error, _read_without(self.items, out), units)) - out
            if not named:
                break
            out |= named
            if await self._takes_without(out):
                least = await self._least(frozenset(), sorted_of(out))  # without wrong guesses
                return self._found(first, least)
        groups = (
            _by_size(self.items, units) if _is_size(first) else _groups(first, self.items, units)
        )
        for group in groups:
            if not self._may_try():
                return None
            if await self._takes_without(out | group):
                if _is_size(first):
                    return self._found(first, out | group)
                # What was named and did not help may have been a wrong guess, and stays then.
                least = await self._least(frozenset(), sorted_of(out | group))
                return self._found(first, least)
        return None

    def _may_try(self) -> bool:
        return len(self._tried) < MOST_TRIES and len(self._answers) < MOST_PAID

    async def _takes_without(self, out: Units) -> bool:
        """Whether the provider takes the request without some units."""
        if out in self._tried:
            return self._tried[out]
        return bool(out) and self._may_try() and await self._sends(out)

    async def _sends(self, out: Units) -> bool:
        try:
            answer = await self.send(tuple(item for _, item in _read_without(self.items, out)))
        except EffectError as error:
            if not refusal_about(error):
                raise
            self.error, self._tried[out] = error, False
            return False
        self._tried[out] = True
        self._answers.append((out, answer))
        return True

    async def _least(self, out: Units, group: Sequence[Unit]) -> Units:
        """Return the part of a group that has to be left out, by halves."""
        if len(group) <= 1 or not self._may_try():
            return frozenset(group)
        older, newer = group[: len(group) // 2], group[len(group) // 2 :]
        for half in (newer, older):
            if await self._takes_without(out | frozenset(half)):
                return await self._least(out, half)
        found = await self._least(out | frozenset(older), newer)
        return found | await self._least(out | found, older)

    def _found(self, first: EffectError, out: Units) -> Found[T]:
        answer = next(one for units, one in self._answers if units == out)
        reason = (first.message.partition("Its message: ")[2] or first.message)[:LONGEST_REASON]
        logger.warning("The model provider took the request without %d of its parts.", len(out))
        return Found(
            answer=answer,
            refused=tuple(
                RefusedEntry(entry=one.entry, part=one.part, reason=reason)
                for one in sorted_of(out)
            ),
            others=tuple(one for units, one in self._answers if units != out),
        )


def sorted_of(units: Iterable[Unit]) -> list[Unit]:
    """Return units from the oldest to the newest."""
    return sorted(units, key=lambda one: (one.entry, -1 if one.part is None else one.part))


def _is_size(error: EffectError) -> bool:
    return refusal_about(error) == "size"


def _read_without(items: Sequence[Item], out: Units) -> list[tuple[int, Item]]:
    """Return the items of a request, each with its entry, with some units left out."""
    parts: dict[int, list[int | None]] = {}
    for one in out:
        parts.setdefault(one.entry, []).append(one.part)
    return read_without(enumerate(items), parts)


def _units(items: Sequence[Item]) -> Iterator[Unit]:
    """Yield what can be left out: the parts of a message or an output, or else the item itself."""
    for at, item in enumerate(items):
        if not may_be_left_out(item.raw):
            continue
        listed = parts_of(item.raw)
        if len(listed) > 1 or not all(map(is_text, listed)):
            yield from (Unit(at, part) for part in range(len(listed)))
        else:
            yield Unit(at)


def _groups(error: EffectError, items: Sequence[Item], units: Sequence[Unit]) -> list[Units]:
    """Return what to leave out, the likeliest first: what is new, and what is no text."""
    everything = frozenset(units)
    since = _new_from(items)
    new = frozenset(one for one in units if one.entry >= since)
    media = frozenset(one for one in units if _holds_media(items[one.entry].raw, one.part))
    newest = frozenset(one for one in units if one.entry == len(items) - 1)
    about = refusal_about(error)
    if about == "flagged":
        found = [newest, new, everything]
    elif about == "media":
        found = [media & newest, media & new, media, new, everything]
    else:
        found = [media & newest, newest, media & new, new, media, everything]
    return [one for one in dict.fromkeys(found) if one]


def _new_from(items: Sequence[Item]) -> int:
    """Return the entry from which on no request with it was taken: after the last reply."""
    made = (
        at
        for at in range(len(items) - 1, -1, -1)
        if items[at].kind in {"message", "reasoning", "tool_call", "handoff_call"}
    )
    return next(made, -1) + 1


def _holds_media(raw: JsonObject, part: int | None) -> bool:
    listed = parts_of(raw)
    if part is not None:
        return not is_text(listed[part])
    output: Json = raw.get("output")  # of a computer: a picture without parts
    return isinstance(output, dict) or not all(map(is_text, listed))


def _by_size(items: Sequence[Item], units: Sequence[Unit]) -> list[Units]:
    """Return ever more of what makes a request too large.

    Single large entries come first; a conversation that is long without them loses its older part.
    """
    sizes = {one: _size(items[one.entry], one.part) for one in units}
    total = sum(sizes.values())
    large = sorted(
        (one for one in units if sizes[one] >= _LARGE_SHARE * total), key=sizes.__getitem__
    )
    found = [frozenset(large[-count:]) for count in range(1, len(large) + 1)]
    base = found[-1] if found else frozenset[Unit]()
    last = _new_from(items)
    older = [one for one in units if one.entry < last and one not in base]
    found += [base | frozenset(older[: -(-len(older) // share)]) for share in (8, 4, 2, 1)]
    found.append(frozenset(units))
    return [one for one in dict.fromkeys(found) if one]


def _size(item: Item, part: int | None) -> int:
    return len(str(item.raw if part is None else parts_of(item.raw)[part]))


def _named(
    error: EffectError, read: Sequence[tuple[int, Item]], units: Sequence[Unit]
) -> Iterator[Unit]:
    """Yield what a refusal of a request names, by its index or its address.

    The index counts messages of the request, which Chat Completions merges: a guess that is wrong
    costs a request that is refused, too.
    """
    items = dict(read)
    details = error.details or {}
    words = f"{details.get('param', '')} {error.message.partition('Its message:')[2]}"
    addresses = [one.rstrip(".,;:") for one in _URL.findall(words)]
    for one in units:
        if one.entry not in items:
            continue
        raw = items[one.entry].raw
        held = str(raw if one.part is None else parts_of(raw)[one.part])
        if any(address in held for address in addresses):
            yield one
    place = _PLACE.search(words)
    if place is None:
        return
    is_input = place[1].lower() == "input"
    entry = _entry_at(read, int(place[2])) if is_input else _entry_of_message(read, int(place[2]))
    found = [one for one in units if one.entry == entry]
    part = None if place[3] is None else int(place[3])
    exact = [one for one in found if one.part == part]
    yield from exact or found


def _entry_at(read: Sequence[tuple[int, Item]], index: int) -> int:
    return read[index][0] if index < len(read) else -1


def _entry_of_message(read: Sequence[tuple[int, Item]], index: int) -> int:
    """Return the entry that a message of a request with Chat Completions begins with.

    The instructions are the first message; what one reply consists of is one message.
    """
    count, was_reply = 0, False
    for at, item in read:
        raw = item.raw
        is_reply = raw.get("role") == "assistant" or (
            "role" not in raw and raw.get("type") not in FORM_OF_OUTPUT
        )
        if not (is_reply and was_reply):
            count += 1
        was_reply = is_reply
        if count == index:
            return at
    return -1
