import getpass
import io
import os
from collections.abc import Iterator

import pytest
from rich.console import Console

from outlast.cli.demo_people import Script, TerminalPerson
from outlast.loop.approvals import ApprovalRequest

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
