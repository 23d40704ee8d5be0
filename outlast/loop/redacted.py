"""The values that policies hide from people, as runs tell each other: a nested run's, its parent's."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, cast

from outlast.loop.approvals import REDACTED, ApprovalRequest
from outlast.loop.call_forms import arguments_of
from outlast.loop.items import Item, call_id_of
from outlast.loop.values import Json, JsonObject

LONGEST_PASSED: Final = 2_000
"""Of a longer value, runs tell each other so many characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """A value that a policy hides.

    Attributes:
        text: the value as a text.
        shown_to: the groups whose members see it.
    """

    text: str
    shown_to: tuple[str, ...] = ()


def redacted_by(
    requests: Iterable[ApprovalRequest],
    items: Iterable[Item],
    forked: Iterable[tuple[str, str]] = (),
) -> Iterator[Redacted]:
    """Yield the values that requests of a run hide, those of edits included.

    Args:
        requests: the run's own requests.
        items: the items that hold their calls.
        forked: the arguments that calls have instead, by their ids, because a fork gave them others.
    """
    redacting = [one for one in requests if one.terms.redact]
    if not redacting:
        return
    calls = {(one.agent, call_id_of(one.raw)): one for one in items if one.kind in _CALLS}
    others = dict(forked)
    for request in redacting:
        call = calls.get((request.agent, request.call_id))
        written = [*([arguments_of(call.raw)] if call is not None else []), request.edited or ""]
        versions = [_object(one) for one in (*written, others.get(request.call_id, ""))]
        versions += [one.decision.edited_arguments or {} for one in request.votes]
        for version in versions:
            for text in _named(version, request.terms.redact):
                yield Redacted(text=text, shown_to=request.terms.redact_for)


def values_of(arguments: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the values of named arguments of a call, as texts."""
    yield from _named(_object(arguments), names)


def _named(arguments: JsonObject, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield from _texts(arguments.get(name))


_CALLS: Final = frozenset({"tool_call", "handoff_call"})


def passed_on(found: Iterable[Redacted]) -> tuple[Redacted, ...]:
    """Return values as runs tell each other: each once, and not without an end."""
    return tuple(
        dict.fromkeys(
            Redacted(text=one.text[:LONGEST_PASSED], shown_to=one.shown_to) for one in found
        )
    )


def _object(text: str) -> JsonObject:
    try:
        value: Json = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        for one in cast("JsonObject", value).values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in cast("list[Json]", value):
            yield from _texts(one)
    elif not (value is None or isinstance(value, bool) or value == REDACTED):
        yield value if isinstance(value, str) else json.dumps(value)
