"""What the tools did, and what became of a row's conversations: lost, doubled, stuck, slow."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

EFFECTS: Final = ("note", "refund", "courier")
"""The side effects of a conversation, in their order."""


class Ledger:
    """The side effects there were, each once for its idempotency key."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def enter(self, key: str, run_id: str, what: str) -> None:
        """Do something, unless it was done under this key."""
        with closing(self._connect()) as connection, connection:
            connection.execute("INSERT OR IGNORE INTO done VALUES (?, ?, ?)", (key, run_id, what))

    def entries(self) -> list[tuple[str, str]]:
        """Return run and effect of each entry."""
        with closing(self._connect()) as connection:
            return list(connection.execute("SELECT run_id, what FROM done ORDER BY rowid"))

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=30)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS done (key TEXT UNIQUE, run_id TEXT, what TEXT)"
        )
        return connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a row cost its conversations.

    Attributes:
        held: how many conversations there were.
        lost: what was confirmed, or should have happened, and is not there.
        doubled: what is there twice.
        stuck: the conversations that did not end in time, each with the step that did not.
        raised: the errors that callers got, who have to repeat what they asked for.
        slowest: the longest step, its seconds before the name.
        recovered: the seconds from the end of the fault to the end of the last step that had begun
            before; 0 where none had.
    """

    held: int = 0
    lost: list[str] = field(default_factory=list[str])
    doubled: list[str] = field(default_factory=list[str])
    stuck: list[str] = field(default_factory=list[str])
    raised: list[str] = field(default_factory=list[str])
    slowest: tuple[float, str] = (0.0, "")
    recovered: float = 0.0

    def is_clean(self, within: float) -> bool:
        """Whether nothing is wrong, and the stage recovered within so many seconds."""
        wrong = [*self.lost, *self.doubled, *self.stuck, *self.raised]
        return bool(self.held) and not wrong and self.recovered <= within


def verdict(
    lines: Sequence[dict[str, Any]], entries: Iterable[tuple[str, str]], fault_ended: float
) -> Verdict:
    """Judge a row by what its clients wrote and by the ledger.

    Args:
        lines: what `load.py` wrote: a step that begins, a step that ends, the findings of a run.
        entries: run and effect of each entry of the ledger.
        fault_ended: the monotonic time.
    """
    runs = list(dict.fromkeys(line["run"] for line in lines))
    findings = {line["run"]: line for line in lines if line["kind"] == "findings"}
    ends = [line for line in lines if line["kind"] == "end"]
    counts = Counter(entries)
    found = Verdict(
        held=len(runs),
        raised=[f"{one['run']} {one['step']}: {one['error']}" for one in ends if one["error"]],
    )
    for run in runs:
        if steps := _open_steps(run, lines):
            found.stuck.append(f"{run} in {', '.join(steps)}")
        if run in findings:
            found.lost.extend(f"{run} {one}" for one in findings[run]["lost"])
            found.doubled.extend(f"{run} {one}" for one in findings[run]["doubled"])
            found.lost.extend(f"{run} effect {one}" for one in EFFECTS if not counts[run, one])
        found.doubled.extend(f"{run} effect {one}" for one in EFFECTS if counts[run, one] > 1)
    slowest = max(((one["at"] - one["began"], one["step"]) for one in ends), default=(0.0, ""))
    late = [one["at"] - fault_ended for one in ends if one["began"] < fault_ended < one["at"]]
    return Verdict(
        held=found.held,
        lost=found.lost,
        doubled=found.doubled,
        stuck=found.stuck,
        raised=found.raised,
        slowest=slowest,
        recovered=max(late, default=0.0),
    )


def _open_steps(run: str, lines: Sequence[dict[str, Any]]) -> list[str]:
    mine = [line for line in lines if line["run"] == run]
    ended = {line["step"] for line in mine if line["kind"] == "end"}
    return [line["step"] for line in mine if line["kind"] == "begin" and line["step"] not in ended]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return what the clients wrote; a last line that is not whole counts as not written."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]
