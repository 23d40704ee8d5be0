import json
import re

import pytest

from outlast.cli import terminal
from outlast.cli.demo_narration import Narrator
from outlast.cli.demo_proof import Deed
from outlast.cli.events import RunEvent

DEEDS = [
    Deed(key="r:c1", what="change_address()", attempts=2, applied=1, wanted=1),
    Deed(key="r:c2", what="refund_order()", attempts=1, applied=0, wanted=0),
]
ASKED = RunEvent(at_ms=0, type="message_input", who="user", text="Where?", data={"text": "Where?"})


def tell(narrator: Narrator) -> None:
    narrator.scene("1. A customer writes")
    narrator.note("kill -9 42")
    narrator.event(ASKED)
    narrator.event(RunEvent(at_ms=0, type="status", who="outlast", text="completed"))
    narrator.event(RunEvent(at_ms=0, type="handoff_requested", who="Triage"))
    narrator.facts([("UI", "http://ui")])
    narrator.deeds(DEEDS)
    narrator.verdict("exactly once", good=True)
    narrator.verdict("twice", good=False)


def test_a_person_reads_what_happens_with_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    tell(Narrator(terminal.out(), as_json=False))

    shown = capsys.readouterr().out
    lines = [line.rstrip() for line in shown.splitlines()]
    assert lines[:2] == ["", "1. A customer writes"]
    assert re.fullmatch(r"\d\d:\d\d:\d\d ·          kill -9 42", lines[2])
    assert re.fullmatch(r"\d\d:\d\d:\d\d Mara       Where\?", lines[3])
    assert lines[4] == "         UI         http://ui"
    assert "completed" not in shown
    assert any(re.fullmatch(r" +2x +1x +change_address\(\)", line) for line in lines)
    assert any(re.fullmatch(r" +1x +refused +refund_order\(\)", line) for line in lines)
    assert any(line.strip() == "r:c1" for line in lines)
    assert lines[-2:] == ["  ✓ exactly once", "  ✗ twice"]


def test_a_program_reads_one_record_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    tell(Narrator(terminal.out(), as_json=True))

    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["type"] for record in records] == [
        *("scene", "note", "message_input", "status", "handoff_requested", "facts"),
        *("side_effect", "side_effect", "verdict", "verdict"),
    ]
    assert records[5]["UI"] == "http://ui"
    assert records[6]["key"] == "r:c1"
    assert [record["ok"] for record in records[-2:]] == [True, False]


async def test_a_wait_may_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    async with Narrator(terminal.out(), as_json=False).waiting("waiting for the answer"):
        pass

    assert capsys.readouterr().out == ""
