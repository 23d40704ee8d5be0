"""What people may not see of a run: the values of arguments that an approval policy redacts.

A value is hidden in the call, and wherever else the run repeats it: in the user's words, the
model's, an output, another argument. Case, blanks and punctuation do not count, and its parts are
hidden as well: see `_grams`.
"""

import json
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, cast

from outlast.contract.effects import Hidden
from outlast.loop.approvals import REDACTED, ApprovalRequest, Decision, reviewed
from outlast.loop.call_forms import arguments_of, name_of
from outlast.loop.calls import ModelReply
from outlast.loop.canonical import canonical_name
from outlast.loop.effects import Effect, NotifyPeople, RunAgent, RunTool
from outlast.loop.items import Item, call_id_of
from outlast.loop.notices import Notice
from outlast.loop.redacted import Redacted, redacted_by, values_of
from outlast.loop.state import CALL_KINDS, LoopState
from outlast.loop.values import Json, JsonObject
from outlast.views.run import AnyState, loop_state

SHORTEST_HIDDEN: Final = 4
"""A value with fewer letters and digits is hidden in its call only: its text is part of too many
words."""

PART: Final = 6
"""So many characters of a number or a code are hidden: with a digit, or from its beginning or its
end."""

PART_OF_LETTERS: Final = 12
"""So many characters of a code are hidden where they are letters from its middle: fewer may be a
word, such as the name of a company in an address."""

PART_OF_TEXT: Final = 24
"""So many characters of a longer text are hidden."""

LONGEST_CODE: Final = 40
"""A value with more characters is a text, as is one with blanks between words."""


@dataclass(frozen=True, slots=True)
class Redaction:
    """What a run hides from people.

    Attributes:
        arguments: the names of the redacted arguments, by agent and tool.
        texts: the texts of their values.
        names: names of tools and agents, which stay as they are.
    """

    arguments: dict[tuple[str, str], tuple[str, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[str, ...]]
    )
    texts: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()

    def call(self, agent: str, name: str, arguments: str) -> str:
        """Return the arguments of a call as people may see them, as JSON text."""
        shown = reviewed(arguments, self.arguments.get((agent, name), ()))
        if not self.texts:
            return shown
        try:
            value: Json = json.loads(shown)
        except (ValueError, RecursionError):
            return self.text(shown)
        found = self.json(value)
        return shown if found == value else json.dumps(found, ensure_ascii=False)

    def of_tool(self, name: str, arguments: str) -> str:
        """Return the arguments of a call of a tool as people may see them, whichever agent made it."""
        agents = sorted(agent for agent, tool in self.arguments if tool == name)
        for agent in agents or [""]:
            arguments = self.call(agent, name, arguments)
        return arguments

    def text(self, text: str) -> str:
        """Return a text with `[redacted]` in place of each value; the text itself without one."""
        return self._without(text, self._spans(text)) if self.texts else text

    def draft(self, text: str) -> str:
        """Return a text in progress as people may see it.

        Its end is left out where it may be the beginning of a hidden value, so what is shown is
        always the beginning of what is shown later.
        """
        if not self.texts:
            return text
        letters, places = _letters(text)
        beginnings = _beginnings(self.texts)
        longest = min(len(letters), max(map(len, beginnings), default=0))
        held = next((n for n in range(longest, 0, -1) if letters[-n:] in beginnings), 0)
        end = len(letters) - held
        runs = _runs(letters, self.texts)
        stop = len(text) if not held else places[end]
        if runs and runs[-1][1] >= end:  # it may go on, or become a part of a name
            stop = places[runs[-1][1] - 1] + 1
            if any(map(self._spans, self.names)):
                stop = places[runs.pop()[0]]
        return self._without(text[:stop], [(places[a], places[b - 1] + 1) for a, b in runs])

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
        return REDACTED if is_number and self._spans(json.dumps(value)) else value

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Return where a text has hidden characters, in order."""
        letters, places = _letters(text)
        return [(places[a], places[b - 1] + 1) for a, b in _runs(letters, self.texts)]

    def _without(self, text: str, spans: Sequence[tuple[int, int]]) -> str:
        """Return a text without spans that are no part of a name."""
        if not spans:
            return text
        kept = list(_occurrences(text, (one for one in self.names if self._spans(one))))
        pieces, at = list[str](), 0
        for start, stop in spans:
            if not any(begin <= start and stop <= end for begin, end in kept):
                pieces += (text[at:start], REDACTED)
                at = stop
        return type(text)("".join((*pieces, text[at:])))


NOTHING: Final = Redaction()


def redaction_of(run: AnyState, groups: Collection[str] = ()) -> Redaction:
    """Return what a run hides from a member of some groups: what its requests' policies redact.

    What its parent hides, and runs nested in it, is hidden in it as well.
    """
    state = loop_state(run)
    if not state.redacted and not any(one.terms.redact for one in state.approvals):
        return NOTHING
    forked = () if state.fork is None else state.fork.arguments
    own = redacted_by(state.approvals, state.items, forked)
    found = _redaction(state.approvals, (*state.redacted, *own), groups)
    return replace(found, names=found.names.union(state.handoff_path, (state.agent,)))


def redaction_of_requests(
    requests: Iterable[ApprovalRequest], items: Iterable[Item], hidden: Iterable[Redacted] = ()
) -> Redaction:
    """Return what a run hides from everybody.

    Args:
        requests: its requests.
        items: the items that hold their calls.
        hidden: what its parent hides.
    """
    asked = tuple(requests)
    return _redaction(asked, (*redacted_by(asked, items), *hidden))


def _redaction(
    requests: Iterable[ApprovalRequest], values: Iterable[Redacted], groups: Collection[str] = ()
) -> Redaction:
    arguments: dict[tuple[str, str], tuple[str, ...]] = {}
    for request in requests:
        if request.terms.redact and not _is_one_of(request.terms.redact_for, groups):
            tool = (request.agent, request.name)
            names = (*arguments.get(tool, ()), *request.terms.redact)
            arguments[tool] = tuple(dict.fromkeys(names))
    hidden = (one.text for one in values if not _is_one_of(one.shown_to, groups))
    return replace(
        redaction_of_texts(hidden),
        arguments=arguments,
        names=frozenset(name for tool in arguments for name in tool),
    )


def redaction_of_effect(hidden: Hidden | None) -> Redaction:
    """Return what the spans of an effect hide."""
    if hidden is None:
        return NOTHING
    return _with_calls(
        redaction_of_texts(hidden.values),
        {(agent, name): names for agent, name, names in hidden.arguments},
    )


def with_reply(hides: Redaction, agent: str, reply: ModelReply) -> Redaction:
    """Return a redaction with what people who decide about the calls of a reply may not see."""
    values, arguments = list(hides.texts), dict[tuple[str, str], tuple[str, ...]]()
    for plan in reply.calls:
        required = plan.approval
        if required is not None and required.terms.redact and plan.item < len(reply.items):
            raw, names = reply.items[plan.item], required.terms.redact
            values += values_of(required.arguments or arguments_of(raw), names)
            arguments[agent, name_of(raw)] = names
    if not arguments:
        return hides
    return _with_calls(replace(hides, texts=redaction_of_texts(values).texts), arguments)


def with_call(hides: Redaction, call: RunTool, names: Sequence[str]) -> Redaction:
    """Return a redaction with the named arguments of a call that people have to approve."""
    if not names:
        return hides
    texts = redaction_of_texts((*hides.texts, *values_of(call.arguments, names))).texts
    return _with_calls(replace(hides, texts=texts), {(call.agent, call.name): tuple(names)})


def _with_calls(
    hides: Redaction, arguments: Mapping[tuple[str, str], tuple[str, ...]]
) -> Redaction:
    merged = dict(hides.arguments)
    for tool, names in arguments.items():
        merged[tool] = tuple(dict.fromkeys((*merged.get(tool, ()), *names)))
    names = hides.names.union(name for tool in arguments for name in tool)
    return replace(hides, arguments=merged, names=names)


def redaction_of_texts(texts: Iterable[str]) -> Redaction:
    """Return what hides some texts wherever they occur."""
    return Redaction(texts=tuple(sorted({one for one in texts if _grams((one,))})))


def shown_request(
    request: ApprovalRequest, state: AnyState, groups: Collection[str] = ()
) -> ApprovalRequest:
    """Return a request as a member of some groups may see it.

    Args:
        request: a request of the run, or the run's copy of one of a run nested in it.
        state: the state of the run. The request has the arguments without what its policy redacts;
            the call, or its newest edit, has the rest.
        groups: the groups of the viewer.
    """
    hides, terms = redaction_of(state, groups), request.terms
    arguments = request.arguments
    if terms.redact and _is_one_of(terms.redact_for, groups):
        call = next((one for one in reversed(loop_state(state).items) if is_of(one, request)), None)
        arguments = request.edited or (arguments if call is None else arguments_of(call.raw))
    if hides == NOTHING and arguments == request.arguments:
        return request
    return replace(
        request,
        arguments=hides.call("", "", arguments),
        reason=request.reason and hides.text(request.reason),
        votes=tuple(replace(one, decision=_told(one.decision, hides)) for one in request.votes),
        decision=request.decision and _told(request.decision, hides),
    )


def _told(decision: Decision, hides: Redaction) -> Decision:
    return replace(decision, message=decision.message and hides.text(decision.message))


def told(state: LoopState, effect: Effect) -> Effect:
    """Return an effect whose notices tell nothing that the run hides."""
    if not isinstance(effect, NotifyPeople):
        return effect
    return replace(effect, notices=shown_notices(state, effect.notices))


def shown_notices(state: LoopState, notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Return notices as everybody may read them."""
    return tuple(
        one if one.request is None else replace(one, request=shown_request(one.request, state))
        for one in notices
    )


def is_of(item: Item, request: ApprovalRequest) -> bool:
    """Whether an item is the call that a request is about."""
    return (
        item.kind in CALL_KINDS
        and item.agent == request.agent
        and call_id_of(item.raw) == request.call_id
    )


def _is_one_of(names: Iterable[str], groups: Iterable[str]) -> bool:
    mine = {canonical_name(one) for one in groups} - {""}
    return not mine.isdisjoint(map(canonical_name, names))


def shown_effect(state: LoopState, effect: Effect) -> Effect:
    """Return an effect as people may see it."""
    if not isinstance(effect, RunTool | RunAgent):
        return effect
    arguments = redaction_of(state).call(effect.agent, effect.name, effect.arguments)
    return effect if arguments == effect.arguments else replace(effect, arguments=arguments)


# --- Finding them in texts ------------------------------------------------------------------------


def _letters(text: str) -> tuple[str, list[int]]:
    """Return the letters and digits of a text in one spelling, and the place of each in it."""
    if text.isascii():
        places = [at for at, one in enumerate(text) if one.isalnum()]
        return "".join([text[at] for at in places]).lower(), places
    letters, places = list[str](), list[int]()
    for at, one in enumerate(text):
        plain = unicodedata.normalize("NFKD", one).casefold()
        found = [letter for letter in plain if letter.isalnum()]
        letters += found
        places += [at] * len(found)
    return "".join(letters), places


@lru_cache(maxsize=512)
def _grams(texts: tuple[str, ...]) -> dict[int, frozenset[str]]:
    """Return what is hidden of some values, as pieces of their letters by length."""
    found: dict[int, set[str]] = {}
    # A text may quote a value as JSON, in which a line break is a letter.
    for text in (*texts, *(json.dumps(one)[1:-1] for one in texts)):
        letters, _ = _letters(text)
        for length, pieces in _pieces(letters, is_code=_is_code(text)):
            found.setdefault(length, set()).update(pieces)
    return {length: frozenset(pieces) for length, pieces in found.items()}


def _pieces(letters: str, *, is_code: bool) -> Iterator[tuple[int, Iterable[str]]]:
    size = len(letters)
    if size < SHORTEST_HIDDEN:
        return
    if not is_code:
        length = min(size, PART_OF_TEXT)
        yield length, _of_length(letters, length)
    elif size <= PART:
        yield size, (letters,)
    else:
        parts = _of_length(letters, PART)
        ends = {parts[0], parts[-1]}
        yield PART, [one for one in parts if one in ends or not one.isalpha()]
        length = min(size, PART_OF_LETTERS)
        yield length, _of_length(letters, length)


def _of_length(letters: str, length: int) -> list[str]:
    return [letters[at : at + length] for at in range(len(letters) - length + 1)]


def _is_code(text: str) -> bool:
    """Whether a value is a number, a code or an address: its parts tell who has it.

    Written in groups, each has a digit, as those of an account number.
    """
    groups = text.split()
    return len(text) <= LONGEST_CODE and (
        len(groups) <= 1 or all(any(one.isdigit() for one in group) for group in groups)
    )


@lru_cache(maxsize=64)
def _beginnings(texts: tuple[str, ...]) -> frozenset[str]:
    """Return with what a hidden piece may begin."""
    grams = (one for pieces in _grams(texts).values() for one in pieces)
    return frozenset(one[:length] for one in grams for length in range(1, len(one)))


def _runs(letters: str, texts: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return the runs of hidden letters, in order; runs that touch are one."""
    grams = _grams(texts)
    found: list[tuple[int, int]] = []
    lengths = sorted(grams, reverse=True)
    for at in range(len(letters)):
        for length in lengths:
            if letters[at : at + length] in grams[length]:
                stop = at + length
                if found and at <= found[-1][1]:
                    found[-1] = (found[-1][0], max(stop, found[-1][1]))
                else:
                    found.append((at, stop))
                break
    return found


def _occurrences(text: str, names: Iterable[str]) -> Iterator[tuple[int, int]]:
    for name in names:
        at = text.find(name) if name else -1
        while at >= 0:
            yield at, at + len(name)
            at = text.find(name, at + 1)
