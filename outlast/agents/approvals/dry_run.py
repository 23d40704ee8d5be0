"""A dry run of an operators' file: which recorded calls it would have asked people about."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from outlast.agents.approvals.conditions import Condition
from outlast.agents.approvals.policy_file import ApprovalFile, FilePolicy, PointKind
from outlast.agents.json_values import no_number
from outlast.loop.call_forms import arguments_of, name_of
from outlast.loop.items import call_id_of, text_of
from outlast.loop.state import CALL_KINDS, LoopState
from outlast.loop.values import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The effect of a policy file on the recorded calls of a tool or handoff, or on answers.

    Attributes:
        table: the table of the file; empty if the code decides.
        asked: how many of the calls would have waited for a person; 0 if the code decides.
        at_most: the code's rule, which is not applied, may let some of these run.
        unclear: how many of these would have waited because the condition could not judge them.
        were_asked: how many did wait for a person.
    """

    kind: PointKind
    agent: str
    name: str
    table: str = ""
    calls: int = 0
    asked: int = 0
    at_most: bool = False
    unclear: int = 0
    were_asked: int = 0


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A call or an answer of a run."""

    kind: PointKind
    agent: str
    name: str
    arguments: str
    was_asked: bool


class DryRun:
    """Counts over runs; `add` takes one run at a time, so that none has to stay in memory."""

    def __init__(self, file: ApprovalFile) -> None:
        self._file = file
        self._tallies: dict[tuple[PointKind, str, str], Tally] = {}
        self.runs: int = 0

    def add(self, state: LoopState) -> None:
        """Count the calls and answers of a run."""
        self.runs += 1
        for one in _recorded(state):
            key = (one.kind, one.agent, one.name)
            tables = self._file.tables(*key)
            conditions = _conditions(tables)
            asks = bool(tables) and tables[-1].asks
            tally = self._tallies.get(key) or Tally(
                kind=one.kind,
                agent=one.agent,
                name=one.name,
                table=tables[-1].title if tables else "",
                at_most=asks and not conditions,
            )
            is_asked, is_unclear = _judge(conditions, one.arguments) if asks else _NOT_ASKED
            self._tallies[key] = replace(
                tally,
                calls=tally.calls + 1,
                asked=tally.asked + is_asked,
                unclear=tally.unclear + is_unclear,
                were_asked=tally.were_asked + one.was_asked,
            )

    @property
    def tallies(self) -> list[Tally]:
        """The counts: those of the file's tables first, most calls first."""
        return sorted(
            self._tallies.values(),
            key=lambda one: (not one.table, -one.calls, one.kind, one.agent, one.name),
        )


def _recorded(state: LoopState) -> Iterator[_Recorded]:
    asked = {request.call_id for request in state.approvals if not request.run_id}
    for item in state.items:
        if item.kind in CALL_KINDS:
            kind: PointKind = "handoff" if item.kind == "handoff_call" else "tool"
            was_asked = call_id_of(item.raw) in asked
            yield _Recorded(kind, item.agent, name_of(item.raw), arguments_of(item.raw), was_asked)
    waited = [request.agent for request in state.approvals if request.kind == "output"]
    for answer in state.answers:
        if answer.failure is None and answer.item is not None:
            was_asked = answer.agent in waited
            if was_asked:
                waited.remove(answer.agent)
            text = _as_object(text_of(state.items[answer.item].raw))
            yield _Recorded("answer", answer.agent, "", text, was_asked)


def _as_object(text: str) -> str:
    """Return an answer as conditions see it: the object that it is, else its text as `answer`."""
    try:
        is_object = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        is_object = False
    return text if is_object else json.dumps({"answer": text})


_NOT_ASKED: Final = (False, False)


def _conditions(tables: Sequence[FilePolicy]) -> tuple[Condition, ...]:
    """Return the conditions of which one has to hold, those of tiers first.

    Empty if a person decides about every call, or if no table has a condition for all of them, so
    that the code's rule stays.
    """
    own: Condition | None = next(
        (one.named["when"] for one in reversed(tables) if "when" in one.named), None
    )
    tiers = [tier.named["when"] for one in tables for tier in one.tiers if "when" in tier.named]
    return () if own is None else (*tiers, own)


def _judge(conditions: Sequence[Condition], arguments: str) -> tuple[bool, bool]:
    if not conditions:
        return True, False
    try:
        fields = cast("JsonObject", json.loads(arguments or "{}", parse_constant=no_number))
        return any(one.holds(fields) for one in conditions), False
    except (ValueError, LookupError, TypeError, RecursionError):
        return True, True
