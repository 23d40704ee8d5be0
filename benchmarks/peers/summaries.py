"""Medians, spreads and ratios of measured cells."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

Place = tuple[str, int, int]
"""Where a cell stands: its variant, the bytes of a result, and the turns; 0 turns: throughput."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with its extremes."""

    middle: float
    least: float
    most: float
    rounds: int

    def shown(self, form: str) -> str:
        """Return the median, and the extremes where they differ when they are written."""
        middle, least, most = (format(one, form) for one in (self.middle, self.least, self.most))
        return middle if least == most else f"{middle} ({least} to {most})"


def spread_of(values: list[float]) -> Spread:
    """Return the spread of at least one value."""
    return Spread(median(values), min(values), max(values), len(values))


@dataclass
class Summary:
    """All results of a file.

    Attributes:
        sessions: as they are in the file.
        rounds: by place and subject, the figures of each round, by session and round.
        cannot: by variant and subject, why there are no cells.
        died: by place and subject, how.
        others: what is not a cell, by its kind.
    """

    sessions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    rounds: dict[Place, dict[str, dict[tuple[int, int], dict[str, Any]]]] = field(
        default_factory=dict[Place, dict[str, dict[tuple[int, int], dict[str, Any]]]]
    )
    cannot: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    died: dict[tuple[Place, str], str] = field(default_factory=dict[tuple[Place, str], str])
    others: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])

    def subjects(self, place: Place) -> dict[str, dict[tuple[int, int], dict[str, Any]]]:
        """Return the figures of a place by subject."""
        return self.rounds.get(place, {})

    def spread(self, place: Place, subject: str, figure: str) -> Spread | None:
        """Return a figure's spread; None if it was not measured."""
        rounds = self.subjects(place).get(subject, {}).values()
        values = [one[figure] for one in rounds if figure in one]
        return spread_of(values) if values else None

    def ratio(self, place: Place, one: str, other: str, figure: str) -> Spread | None:
        """Return the spread of the ratios within rounds; None if there is no common round."""
        ours, theirs = (self.subjects(place).get(name, {}) for name in (one, other))
        ratios = [
            ours[round_][figure] / theirs[round_][figure]
            for round_ in ours
            if round_ in theirs and figure in ours[round_] and theirs[round_].get(figure)
        ]
        return spread_of(ratios) if ratios else None

    def actions(self, place: Place, subject: str) -> dict[str, float] | None:
        """Return the actions of a run by name; None if there are none to count."""
        for figures in self.subjects(place).get(subject, {}).values():
            if "actions" in figures:
                return figures["actions"]
        return None

    def notes(self, place: Place) -> list[str]:
        """Return what is noted of the sessions in which a place was measured."""
        found = {
            self.sessions[number].get("note", "")
            for rounds in self.subjects(place).values()
            for number, _ in rounds
        }
        return sorted(found - {""})

    def of_kind(self, kind: str, subject: str) -> list[dict[str, Any]]:
        """Return the results of a kind that are of a subject."""
        return [one for one in self.others.get(kind, []) if one["subject"] == subject]


def summarize(path: Path) -> Summary:
    """Return the results in a file."""
    summary = Summary(sessions=json.loads(path.read_text())["sessions"])
    for number, cell in _cells(summary.sessions):
        subject = cell["subject"]
        if "kind" in cell:
            summary.others.setdefault(cell["kind"], []).append(cell)
        elif "cannot" in cell:
            summary.cannot[cell["variant"], subject] = cell["cannot"]
        else:
            place = (cell["variant"], cell["bytes"], cell["turns"])
            if "died" in cell:
                summary.died[place, subject] = cell["died"]
            else:
                of_place = summary.rounds.setdefault(place, {})
                of_place.setdefault(subject, {})[number, cell["round"]] = cell
    return summary


def _cells(sessions: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, session in enumerate(sessions):
        for cell in session["cells"]:
            yield number, cell


def table(head: list[str], rows: list[list[str]], *, left: int = 1) -> list[str]:
    """Return a table in Markdown, with a blank line after it.

    Args:
        head: the titles of the columns.
        rows: the cells.
        left: how many columns are of words, which are not aligned to the right.
    """
    align: Callable[[int], str] = lambda column: "---" if column < left else "---:"  # noqa: E731
    lines = [head, [align(column) for column in range(len(head))], *rows]
    return [*("| " + " | ".join(line) + " |" for line in lines), ""]
