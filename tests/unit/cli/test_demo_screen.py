import getpass
import io
import json
import os
import re
from collections.abc import Iterator

import pytest
from rich.console import Console

from outlast.cli import terminal
from outlast.cli.demo_screen import TerminalNarrator, TerminalPerson
from outlast.cli.events import RunEvent
from outlast.demo.proof import Deed
from outlast.demo.story import Script
from outlast.loop.approvals import ApprovalRequest

DEEDS = [
    Deed(key="r:c1", what="change_address()", attempts=2, applied=1, wanted=1),
    Deed(key="r:c2", what="refund_order()", attempts=1, applied=0, wanted=0),
]
ASKED = RunEvent(at_ms=0, type="message_input", who="user", text="Where?", data={"text": "Where?"})


def tell(narrator: TerminalNarrator) -> None:
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
    tell(TerminalNarrator(terminal.out(), as_json=False))

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
    tell(TerminalNarrator(terminal.out(), as_json=True))

    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["type"] for record in records] == [
        *("scene", "note", "message_input", "status", "handoff_requested", "facts"),
        *("side_effect", "side_effect", "verdict", "verdict"),
    ]
    assert records[5]["UI"] == "http://ui"
    assert records[6]["key"] == "r:c1"
    assert [record["ok"] for record in records[-2:]] == [True, False]


async def test_a_wait_may_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    async with TerminalNarrator(terminal.out(), as_json=False).waiting("waiting for the answer"):
        pass

    assert capsys.readouterr().out == ""


REQUEST = ApprovalRequest(
    id="a1",
    call_id="c1",
    name="refund_order",
    agent="Billing",
    arguments='{"order_id": "A-42"}',
    args_digest="d",
    requested_at_ms=1,
)


class Keyboard:
    """A terminal's input, as a pipe."""

    def __init__(self, end: int) -> None:
        self._end = end

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def close(self) -> None:
        os.close(self._end)


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyboard]:
    read, write = os.pipe()
    with os.fdopen(read) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield Keyboard(write)


async def test_a_script_approves_and_says_nothing() -> None:
    choice = await Script().decide(REQUEST)

    assert (choice.approve, choice.by) == (True, "the demo")
    assert await Script().next_message() == ""
    assert not Script.speaks
    await Script().leave()


async def test_a_person_sees_the_request_and_approves(keyboard: Keyboard) -> None:
    screen = io.StringIO()
    keyboard.type("y\n")

    choice = await TerminalPerson(Console(file=screen)).decide(REQUEST)

    assert (choice.approve, choice.by, choice.message) == (True, getpass.getuser(), None)
    assert "refund_order (a1)" in screen.getvalue()
    assert "A-42" in screen.getvalue()


async def test_a_person_who_refuses_may_say_why(keyboard: Keyboard) -> None:
    person = TerminalPerson(Console(file=io.StringIO()))
    keyboard.type("No!\n")
    deciding = person.decide(REQUEST)
    keyboard.type("  We repair it. \n")

    choice = await deciding

    assert (choice.approve, choice.message) == (False, "We repair it.")


async def test_a_person_is_asked_again_until_the_answer_is_one(keyboard: Keyboard) -> None:
    screen = io.StringIO()
    keyboard.type("maybe\n")
    keyboard.type("\n")
    keyboard.type("Yes\n")

    assert (await TerminalPerson(Console(file=screen)).decide(REQUEST)).approve
    assert screen.getvalue().count("Do you approve it?") == 3


async def test_a_person_may_speak_and_ends_with_nothing(keyboard: Keyboard) -> None:
    person = TerminalPerson(Console(file=io.StringIO()))
    keyboard.type("Where is A-17?\n")
    assert await person.next_message() == "Where is A-17?"

    keyboard.type("\n")
    assert await person.next_message() == ""

    keyboard.type("\n")
    await person.leave()


async def test_a_terminal_that_is_closed_ends_the_demo(keyboard: Keyboard) -> None:
    keyboard.close()

    with pytest.raises(EOFError):
        await TerminalPerson(Console(file=io.StringIO())).next_message()
