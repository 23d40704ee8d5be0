"""The judge of `make faults` finds what is lost, doubled, stuck and slow, and nothing where all is well."""

from typing import Any

import pytest

from tests.faults.ledger import EFFECTS, Verdict, verdict
from tests.faults.load import Reader

WELL: list[dict[str, Any]] = [
    {"kind": "begin", "run": "r", "step": "start", "at": 10.0},
    {"kind": "end", "run": "r", "step": "start", "began": 10.0, "at": 12.5, "error": ""},
    {"kind": "findings", "run": "r", "lost": [], "doubled": []},
]
DONE = [("r", one) for one in EFFECTS]


def test_a_row_without_losses_is_clean_if_it_recovered_in_time():
    found = verdict(WELL, DONE, fault_ended=12.0)
    assert found == Verdict(held=1, slowest=(2.5, "start"), recovered=0.5)
    assert found.is_clean(within=0.5)
    assert not found.is_clean(within=0.4)
    assert not verdict([], [], fault_ended=0).is_clean(within=1), "nothing was tried"


@pytest.mark.parametrize(
    ("lines", "entries", "what", "words"),
    [
        (WELL, DONE[1:], "lost", "r effect note"),
        (WELL, [*DONE, DONE[0]], "doubled", "r effect note"),
        (WELL[:1], DONE, "stuck", "r in start"),
        ([*WELL[:2], {**WELL[2], "lost": ["an answer"]}], DONE, "lost", "r an answer"),
        ([*WELL[:2], {**WELL[2], "doubled": ["a text"]}], DONE, "doubled", "r a text"),
        ([WELL[0], {**WELL[1], "error": "E: no"}], DONE, "raised", "r start: E: no"),
    ],
)
def test_a_row_is_not_clean(
    lines: list[dict[str, Any]], entries: list[tuple[str, str]], what: str, words: str
):
    found = verdict(lines, entries, fault_ended=0)
    assert getattr(found, what) == [words]
    assert not found.is_clean(within=99)


def test_a_reader_notices_gaps_repetitions_and_text_that_is_no_beginning():
    reader = Reader("reader")
    for number in (0, 1, 3, 3):
        reader.event(number)
    reader.text = "Hel"
    reader.whole("Hello")
    reader.text = "HelHello"
    reader.whole("Hello")
    assert reader.lost == ["reader: events 2 to 2"]
    assert reader.doubled == [
        "reader: event 3",
        "reader: 'HelHello' is no beginning of 'Hello'",
    ]
    assert reader.texts == ["Hello", "Hello"]
