import io
import json
import os
import re
from collections.abc import Iterator

import pytest
from rich.console import Console

from outlast.cli import terminal
from outlast.cli.demo_screen import TerminalNarrator, TerminalStaff
from outlast.client.moments import RunEvent
from outlast.loop.approvals import ApprovalRequest
from outlast.testing.demo.proof import Deed
from outlast.testing.demo.story import PEOPLE, Choice, Staff

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
    narrator.event(RunEvent(at_ms=0, type="note", who="developer", text="On Friday."))
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
    assert re.fullmatch(r"\d\d:\d\d:\d\d \(note\)     On Friday\.", lines[4])
    assert lines[5] == "         UI         http://ui"
    assert "completed" not in shown
    assert any(re.fullmatch(r" +2x +1x +change_address\(\)", line) for line in lines)
    assert any(re.fullmatch(r" +1x +refused +refund_order\(\)", line) for line in lines)
    assert any(line.strip() == "r:c1" for line in lines)
    assert lines[-2:] == ["  ✓ exactly once", "  ✗ twice"]


def test_a_program_reads_one_record_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    tell(TerminalNarrator(terminal.out(), as_json=True))

    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["type"] for record in records] == [
        *("scene", "note", "message_input", "status", "handoff_requested", "note", "facts"),
        *("side_effect", "side_effect", "verdict", "verdict"),
    ]
    assert records[6]["UI"] == "http://ui"
    assert records[7]["key"] == "r:c1"
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


ANN = PEOPLE[0]
APPROVE = Choice(type="approve")
EDIT = Choice(type="edit", arguments={"order_id": "A-42", "amount": 350.0})


async def test_a_script_does_what_is_suggested_and_says_nothing() -> None:
    script = Staff()

    assert await script.decide(REQUEST, ANN, EDIT) == EDIT
    assert await script.write("You are Lee.", "Hello!") == "Hello!"
    assert await script.next_message() == ""
    assert not script.speaks
    await script.leave()


async def test_a_person_sees_the_request_and_approves(keyboard: Keyboard) -> None:
    screen = io.StringIO()
    keyboard.type("y\n")

    choice = await TerminalStaff(Console(file=screen)).decide(REQUEST, ANN, APPROVE)

    assert choice == APPROVE
    assert "refund_order (a1)" in screen.getvalue()
    assert "A-42" in screen.getvalue()
    assert "You are Ann. Do you approve it? [y]es or [n]o" in screen.getvalue()


async def test_a_person_who_refuses_may_say_why(keyboard: Keyboard) -> None:
    person = TerminalStaff(Console(file=io.StringIO()))
    keyboard.type("No!\n")
    deciding = person.decide(REQUEST, ANN, APPROVE)
    keyboard.type("  We repair it. \n")

    assert await deciding == Choice(type="reject", message="We repair it.")


@pytest.mark.parametrize(
    ("typed", "amount"), [("e\n\n", 350.0), ("e\na lot\n-1\ninf\n99.999\n", 100.0)]
)
async def test_a_person_may_edit_the_amount(keyboard: Keyboard, typed: str, amount: float) -> None:
    screen = io.StringIO()
    keyboard.type(typed)

    choice = await TerminalStaff(Console(file=screen)).decide(REQUEST, ANN, EDIT)

    assert choice == Choice(type="edit", arguments={"order_id": "A-42", "amount": amount})
    assert "or [e]dit the amount" in screen.getvalue()


async def test_a_person_is_asked_again_until_the_answer_is_one(keyboard: Keyboard) -> None:
    screen = io.StringIO()
    keyboard.type("maybe\n")
    keyboard.type("e\n")  # nothing to edit
    keyboard.type("Yes\n")

    assert await TerminalStaff(Console(file=screen)).decide(REQUEST, ANN, APPROVE) == APPROVE
    assert screen.getvalue().count("Do you approve it?") == 3


@pytest.mark.parametrize(
    ("typed", "text"), [("\n", "Hello!"), ("Good morning.\n", "Good morning.")]
)
async def test_enter_takes_the_suggestion(keyboard: Keyboard, typed: str, text: str) -> None:
    screen = io.StringIO()
    keyboard.type(typed)

    assert await TerminalStaff(Console(file=screen)).write("You are Lee.", "Hello!") == text
    assert "You are Lee." in screen.getvalue()


async def test_a_person_takes_over_where_the_desk_could(keyboard: Keyboard) -> None:
    lee, screen = PEOPLE[2], io.StringIO()
    assert await TerminalStaff(Console(file=screen)).accept(lee)
    assert screen.getvalue() == ""

    keyboard.type("\n")
    assert await TerminalStaff(Console(file=screen), has_desk=True).accept(lee)
    assert screen.getvalue() == "  You are Lee. Enter takes the conversation over. \n"


async def test_a_person_may_speak_and_ends_with_nothing(keyboard: Keyboard) -> None:
    person = TerminalStaff(Console(file=io.StringIO()))
    keyboard.type("Where is A-17?\n")
    assert await person.next_message() == "Where is A-17?"

    keyboard.type("\n")
    assert await person.next_message() == ""

    keyboard.type("\n")
    await person.leave()


async def test_a_terminal_that_is_closed_ends_the_demo(keyboard: Keyboard) -> None:
    keyboard.close()

    with pytest.raises(EOFError):
        await TerminalStaff(Console(file=io.StringIO())).next_message()
