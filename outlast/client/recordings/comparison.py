"""Compares what two recordings decided: tools, arguments, handoffs, approvals, guardrails, ends.

Texts are not compared: two answers in other words are the same decision.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any, Final, Literal, TypeAlias, cast

from outlast.client.recordings.recorder import canonical, redaction_in
from outlast.client.recordings.recording import Entry, Recording
from outlast.edges.rendering import call_line, cut, inline, joined, visible
from outlast.loop.call_forms import arguments_of, name_of
from outlast.loop.values import JsonObject
from outlast.views.redaction import Redaction

ChoiceKind: TypeAlias = Literal[
    "call", "approval", "handoff", "guardrail", "decision", "answer", "end", "stop"
]
DifferenceKind: TypeAlias = Literal[
    "tool", "arguments", "approval", "handoff", "guardrail", "decision", "answer", "end"
]

_NONE: Final[dict[ChoiceKind, str]] = {
    "call": "no call",
    "approval": "needs no approval",
    "handoff": "no handoff",
    "guardrail": "trips no guardrail",
    "decision": "no decision",
    "answer": "no answer",
    "end": "no end",
    "stop": "the turn goes on",
}
"""What a recording that lacks a choice has instead."""

LONGEST: Final = 400
"""The maximum number of characters of one side of a difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One decision of a run.

    Attributes:
        kind: what was decided.
        question: the number of the question, from 1.
        turn: the number of the model call for the question, from 1; 0 outside of turns.
        agent: the agent that decided.
        name: the tool, the guardrail, or what tells the choice from others of its kind.
        detail: what is compared beside the name.
        text: the decision in words, safe to show.
    """

    kind: ChoiceKind
    question: int
    turn: int
    agent: str
    name: str = ""
    detail: Hashable = None
    text: str

    @property
    def key(self) -> tuple[str, ...]:
        """What two choices have in common that are compared with each other."""
        return (
            (self.kind, self.name)
            if self.kind in {"call", "approval", "guardrail"}
            else (self.kind,)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One decision that differs.

    Attributes:
        kind: what differs.
        question: the number of the question, from 1.
        turn: the number of the model call for the question, from 1; 0 outside of turns.
        agent: the agent that decided.
        was: the decision as recorded, safe to show.
        now: the decision now, safe to show.
    """

    kind: DifferenceKind
    question: int
    turn: int
    agent: str
    was: str
    now: str

    def __str__(self) -> str:
        turn = f", turn {self.turn}" if self.turn else ""
        place = joined(f"question {self.question}{turn}", f", {self.agent}" if self.agent else "")
        return f"{place}: {self.was} -> {self.now}"

    def record(self) -> JsonObject:
        """Return the difference as JSON."""
        return asdict(self)


def differences(was: Recording, now: Recording, *, is_cut: bool = False) -> tuple[Difference, ...]:
    """Return the decisions that differ between two recordings, in order.

    Decisions are compared question by question. An open recording says nothing about how its last
    question goes on, so what comes later there is no difference. The texts lack what the policies of
    either run redact.

    Args:
        was: the recorded run.
        now: the run it is compared with.
        is_cut: the second run could not go on, so what it lacks at its end is no difference.
    """
    words = _Words((redaction_in(was), redaction_in(now)))
    before, after = _by_question(was, words), _by_question(now, words)
    newest, last = max(before, default=1), max(after, default=1)
    found: list[Difference] = []
    for question in sorted({*before, *after}):
        found += _compared(
            before.get(question, []),
            after.get(question, []),
            is_open=not was.complete and question >= newest,
            is_cut=is_cut and question >= last,
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Words:
    """Says decisions without what people may not see."""

    redactions: tuple[Redaction, ...]

    def call(self, agent: str, name: str, arguments: str) -> str:
        for one in self.redactions:
            arguments = one.call(agent, name, arguments)
        return cut(visible(call_line(name, arguments)), LONGEST)

    def text(self, text: str) -> str:
        for one in self.redactions:
            text = one.text(text)
        return text


def _by_question(recording: Recording, words: _Words) -> dict[int, list[Choice]]:
    found: dict[int, list[Choice]] = {}
    for choice in choices(recording, words):
        found.setdefault(choice.question, []).append(choice)
    return found


def _compared(
    was: Sequence[Choice], now: Sequence[Choice], *, is_open: bool, is_cut: bool
) -> Iterator[Difference]:
    keys = [one.key for one in was], [one.key for one in now]
    matcher = SequenceMatcher(None, *keys, autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            for one, other in zip(was[i:j], now[k:m], strict=True):
                if one.detail != other.detail:
                    yield _difference(one, other)
            continue
        rest = list(now[k:m])
        for one in was[i:j]:
            other = next((o for o in rest if _is_like(one, o)), None)
            if other is not None:
                rest.remove(other)
            elif is_cut and m == len(now):
                continue
            yield _difference(one, other)
        if is_open and j == len(was):
            return
        for other in rest:
            yield _difference(None, other)


def _is_like(one: Choice, other: Choice) -> bool:
    """Whether a choice takes the place of another: a call may have been a handoff."""
    moves = {"call", "handoff"}
    return one.kind == other.kind or {one.kind, other.kind} <= moves


def _difference(was: Choice | None, now: Choice | None) -> Difference:
    one = cast("Choice", was or now)
    kind: Any = {"call": "tool", "stop": "end"}.get(one.kind, one.kind)
    if was is not None and now is not None and one.kind == "call" and was.name == now.name:
        kind = "arguments" if cast("Any", was.detail)[1] == cast("Any", now.detail)[1] else "tool"
    return Difference(
        kind=kind,
        question=one.question,
        turn=one.turn,
        agent=one.agent,
        was=_NONE[one.kind] if was is None else was.text,
        now=_NONE[one.kind] if now is None else now.text,
    )


# --- What a recording decided --------------------------------------------------------------------


def choices(recording: Recording, words: _Words) -> Iterator[Choice]:
    """Yield the decisions of a recording, in order."""
    for entry in recording.entries:
        yield from _of_entry(entry, words)


def _of_entry(entry: Entry, words: _Words) -> Iterator[Choice]:
    result = entry.result or {}
    match entry.kind:
        case "model":
            yield from _of_reply(entry, result, words)
        case "tool" | "input_check" | "answer_check":
            name = "checks" if entry.kind == "tool" else "results"
            yield from _tripped(entry, result.get(name, ()))
        case "request":
            yield _approval(entry, result, words)
        case "handoff" if result.get("target"):
            yield _choice(entry, "handoff", detail=result["target"], text=_to(result["target"]))
        case "answer":
            code = entry.failure.code if entry.failure is not None else ""
            failed = joined("no answer: ", entry.failure.code) if entry.failure is not None else ""
            text = failed or joined("an answer of ", entry.agent)
            yield _choice(entry, "answer", detail=(entry.agent, code), text=text)
        case "end":
            text = joined("the run is ", entry.name)
            yield _choice(entry, "end", detail=entry.name, text=text)
        case _:
            pass


def _of_reply(entry: Entry, result: JsonObject, words: _Words) -> Iterator[Choice]:
    items = cast("list[JsonObject]", result.get("items", []))
    yield from _tripped(entry, result.get("checks", ()))
    plans = cast("list[JsonObject]", result.get("calls", []))
    for plan in sorted(plans, key=_item):
        raw = items[_item(plan)]
        name, arguments = name_of(raw), arguments_of(raw)
        if plan["kind"] == "handoff" and not plan.get("problem"):
            target = plan.get("target", "")
            yield _choice(entry, "handoff", detail=target or name, text=_to(target or name))
            continue
        problem = plan.get("problem")
        fate = "unknown" if plan["kind"] == "unknown" else "refused" if problem else "runs"
        line = words.call(entry.agent, name, arguments)
        why = f" is refused: {inline(words.text(str(problem)), LONGEST)}" if problem else ""
        yield _choice(
            entry, "call", name=name, detail=(canonical(arguments), fate), text=f"{line}{why}"
        )
    failure = cast("JsonObject | None", result.get("failure"))
    if failure is not None:
        yield _choice(
            entry,
            "stop",
            detail=failure.get("code"),
            text=joined("the turn fails: ", str(failure.get("code"))),
        )


def _item(plan: JsonObject) -> int:
    return int(plan["item"])


def _to(target: str) -> str:
    return joined("a handoff to ", target)


def _tripped(entry: Entry, records: Iterable[JsonObject]) -> Iterator[Choice]:
    for one in records:
        behavior = str(cast("JsonObject", one.get("behavior") or {}).get("type", ""))
        if one.get("tripped") or behavior not in {"", "allow"}:
            how = f" ({behavior})" if behavior else ""
            text = joined("the guardrail ", str(one["name"]), " trips", how)
            name = f"{one['stage']} {one['name']}"
            yield _choice(entry, "guardrail", name=name, detail=behavior, text=text)


def _approval(entry: Entry, result: JsonObject, words: _Words) -> Choice:
    terms = cast("JsonObject", result.get("terms") or {})
    audience = cast("JsonObject", terms.get("audience") or {})
    people = tuple(sorted([*audience.get("subjects", ()), *audience.get("groups", ())]))
    quorum = int(terms.get("quorum", 1))
    who = ", ".join(people) or "anybody"
    reason = f" ({words.text(str(result['reason']))})" if result.get("reason") else ""
    text = joined(
        f"{entry.name} waits for the approval of ",
        f"{quorum} of " if quorum > 1 else "",
        who,
        cut(reason, LONGEST),
    )
    return _choice(entry, "approval", name=entry.name, detail=(people, quorum), text=text)


def _choice(
    entry: Entry, kind: ChoiceKind, *, name: str = "", detail: Hashable = None, text: str
) -> Choice:
    return Choice(
        kind=kind,
        question=entry.question + 1,
        turn=entry.turn,
        agent=entry.agent,
        name=name,
        detail=detail,
        text=text,
    )
