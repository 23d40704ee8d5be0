"""Figures by day: where days begin, and what a day without anything shows."""

from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from temporalio.client import Client

from outlast.client import figures
from outlast.client.figures import DayFigures, team_figures
from outlast.search import SearchIndex, open_index
from outlast.search.occurrences import Occurrence
from tests.unit.search.documents import SPACE, document

NOWHERE = cast("Client", None)


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SearchIndex:
    async def no_status(*_: object) -> None:
        return None

    async def space(_: object) -> str:
        return SPACE

    monkeypatch.setattr(figures, "search_status", no_status)
    monkeypatch.setattr(figures, "space_of", space)
    monkeypatch.setattr(figures, "now", lambda: datetime(2026, 3, 30, 12, tzinfo=UTC))
    found = open_index(tmp_path / "i.db")
    found.prepare()
    return found


async def test_days_begin_in_the_time_zone_also_where_clocks_change(index: SearchIndex) -> None:
    found = tuple(
        Occurrence("rating", at(text), value=value)
        for text, value in {
            "2026-03-28T22:59:00+00:00": 1,  # the 28th in Berlin
            "2026-03-28T23:00:00+00:00": 3,  # the 29th, whose night is an hour short
            "2026-03-29T21:59:00+00:00": 4,
            "2026-03-29T22:00:00+00:00": 5,  # the 30th
        }.items()
    )
    for number, one in enumerate(found):  # one rating counts of each conversation
        index.put(SPACE, document(f"c{number}", occurrences=(one,)))
    shown = await team_figures(NOWHERE, index, days=3, time_zone="Europe/Berlin")
    assert [(one.day, one.ratings, one.good, one.bad, one.score) for one in shown.days] == [
        ("2026-03-30", 1, 1, 0, 5),
        ("2026-03-29", 2, 1, 0, 3.5),
        ("2026-03-28", 1, 0, 1, 1),
    ]
    assert (shown.total.ratings, shown.total.score) == (4, 3.25)
    assert "has not been made yet" in shown.problem


async def test_times_are_medians_and_a_day_without_any_has_none(index: SearchIndex) -> None:
    kinds = [
        Occurrence("decision", at(f"2026-03-30T0{hour}:00:00+00:00"), f"a{hour}", seconds * 1_000)
        for hour, seconds in enumerate((10, 20, 600))
    ]
    index.put(SPACE, document("c1", occurrences=tuple(kinds)))
    today, before = (await team_figures(NOWHERE, index, days=2)).days
    assert (today.decisions, today.decision_seconds, today.reply_seconds) == (3, 20.0, None)
    assert before == DayFigures(day="2026-03-29")
