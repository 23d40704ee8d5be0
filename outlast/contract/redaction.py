"""What people may not see of a run: the values of arguments that an approval policy redacts.

A value is hidden in the call, and its text wherever else the run shows it: the user's words, the
model's, an output.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, cast

from outlast.loop.approvals import REDACTED, ApprovalRequest, reviewed
from outlast.loop.call_forms import arguments_of
from outlast.loop.effects import Effect, RunAgent, RunTool
from outlast.loop.items import Item, call_id_of
from outlast.loop.state import CALL_KINDS, LoopState
from outlast.loop.values import Json, JsonObject

SHORTEST_HIDDEN: Final = 4
"""A shorter value is hidden in its call only: its text is part of too many words."""


@dataclass(frozen=True, slots=True)
class Redaction:
    """What a run hides from people.

    Attributes:
        arguments: the names of the redacted arguments, by agent and tool.
        texts: the texts of their values, the longest first.
    """

    arguments: dict[tuple[str, str], tuple[str, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[str, ...]]
    )
    texts: tuple[str, ...] = ()

    def call(self, agent: str, name: str, arguments: str) -> str:
        """Return the arguments of a call as people may see them, as JSON text."""
        redact = self.arguments.get((agent, name), ())
        shown = reviewed(arguments, redact)
        if not any(text in shown for text in self._as_json()):
            return shown
        try:
            return json.dumps(self.json(json.loads(shown)), ensure_ascii=False)
        except (ValueError, RecursionError):
            return self.text(shown)

    def text(self, text: str) -> str:
        """Return a text with `[redacted]` in place of each value; the text itself without one."""
        for one in self.texts:
            if one in text:
                text = type(text)(text.replace(one, REDACTED))
        return text

    def draft(self, text: str) -> str:
        """Return a text in progress as people may see it.

        Its end is left out where it may be the beginning of a hidden value.
        """
        shown = self.text(text)
        longest = max((len(one) for one in self.texts), default=0)
        for length in range(min(len(shown), longest - 1), 0, -1):
            if any(one.startswith(shown[-length:]) for one in self.texts):
                return shown[:-length]
        return shown

    def json(self, value: Json) -> Json:
        """Return a value with `[redacted]` in place of each hidden one."""
        if not self.texts:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {name: self.json(one) for name, one in cast("JsonObject", value).items()}
        if isinstance(value, list):
            return [self.json(one) for one in cast("list[Json]", value)]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return REDACTED if is_number and _text_of(value) in self.texts else value

    def _as_json(self) -> Iterator[str]:
        for text in self.texts:
            yield text
            yield json.dumps(text)[1:-1]


NOTHING: Final = Redaction()


def redaction_of(state: LoopState) -> Redaction:
    """Return what a run hides: what the policies of its requests redact."""
    return redaction_of_requests(state.approvals, state.items)


def redaction_of_requests(requests: Iterable[ApprovalRequest], items: Iterable[Item]) -> Redaction:
    """Return what requests of a run hide, with the items that hold their calls."""
    redacting = [one for one in requests if one.terms.redact and not one.run_id]
    if not redacting:
        return NOTHING
    arguments: dict[tuple[str, str], tuple[str, ...]] = {}
    for request in redacting:
        tool = (request.agent, request.name)
        names = (*arguments.get(tool, ()), *request.terms.redact)
        arguments[tool] = tuple(dict.fromkeys(names))
    calls = {call_id_of(one.raw): one for one in items if one.kind in CALL_KINDS}
    texts = (text for one in redacting for text in _hidden(one, calls.get(one.call_id)))
    hidden = redaction_of_texts(one for one in texts if len(one) >= SHORTEST_HIDDEN)
    return replace(hidden, arguments=arguments)


def redaction_of_texts(texts: Iterable[str]) -> Redaction:
    """Return what hides some texts wherever they occur."""
    return Redaction(texts=tuple(sorted(set(texts), key=len, reverse=True)))


def shown_effect(state: LoopState, effect: Effect) -> Effect:
    """Return an effect as people may see it."""
    if not isinstance(effect, RunTool | RunAgent):
        return effect
    arguments = redaction_of(state).call(effect.agent, effect.name, effect.arguments)
    return effect if arguments == effect.arguments else replace(effect, arguments=arguments)


def _hidden(request: ApprovalRequest, call: Item | None) -> Iterator[str]:
    """Yield the texts of the values that a request hides, those of edits included."""
    written = [*([arguments_of(call.raw)] if call is not None else []), request.edited or ""]
    versions = [_object(one) for one in written]
    versions += [one.decision.edited_arguments or {} for one in request.votes]
    for version in versions:
        for name in request.terms.redact:
            yield from _texts(version.get(name))


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
        yield _text_of(value)


def _text_of(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value)
