"""Medians, spreads and ratios of the measured cells, and the tables made of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.page import glance, page
from benchmarks.peers.summaries import Summary, spread_of, summarize, table

PLACE = ("plain", 1024, 100)


def cell(subject: str, round_: int, **figures: Any) -> dict[str, Any]:
    place = {"variant": "plain", "bytes": 1024, "turns": 100}
    return {"subject": subject, **place, "round": round_, **figures}


def summary_of(path: Path, *cells: dict[str, Any]) -> Summary:
    path.write_text(json.dumps({"sessions": [{"cells": cells}]}))
    return summarize(path)


def test_a_spread_is_a_median_with_its_extremes():
    assert spread_of([3.0, 1.0, 2.0]).shown(".1f") == "2.0 (1.0 to 3.0)"
    assert spread_of([3.04, 3.01]).shown(".1f") == "3.0"


def test_ratios_are_taken_within_rounds(tmp_path: Path):
    summary = summary_of(
        tmp_path / "r.json",
        cell("outlast", 0, cpu_ms=10.0),
        cell("floor", 0, cpu_ms=20.0),
        cell("outlast", 1, cpu_ms=40.0),
        cell("floor", 1, cpu_ms=10.0),
        cell("outlast", 2, cpu_ms=1000.0),
    )
    ratio = summary.ratio(PLACE, "outlast", "floor", "cpu_ms")
    assert ratio is not None
    assert (ratio.least, ratio.most, ratio.rounds) == (0.5, 4.0, 2)
    assert summary.ratio(PLACE, "outlast", "langgraph", "cpu_ms") is None


def test_a_subject_that_died_is_named_with_its_error_and_has_no_figures(tmp_path: Path):
    summary = summary_of(
        tmp_path / "r.json",
        cell("outlast", 0, cpu_ms=10.0, stored_bytes=1000),
        cell("pydantic-ai", 0, died="history too large\nby far", after_s=9.0),
    )
    text = page(summary, [])
    assert "- pydantic-ai died: `history too large by far`." in text
    assert [line for line in glance(summary) if "pydantic-ai" in line] == []
    assert "| **outlast** |" in text


def test_what_was_not_measured_is_said(tmp_path: Path):
    text = page(summary_of(tmp_path / "r.json", cell("outlast", 0, cpu_ms=10.0)), [])
    missing = text.partition("## What was not measured")[2]
    assert "- plain, 20 KB: 1 turns (nobody)" in missing
    assert "100 turns (not outlast-activities, floor, floor-transport, " in missing


@pytest.mark.parametrize("left", [1, 2])
def test_columns_of_words_are_aligned_to_the_left(left: int):
    lines = table(["a", "b", "c"], [["1", "2", "3"]], left=left)
    assert lines[1].count("--- |") == left
    assert lines[-1] == ""
