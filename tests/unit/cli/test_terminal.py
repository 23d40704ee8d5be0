import asyncio
import io
import json
from datetime import timedelta

import pytest
from rich.console import Console
from rich.text import Text

from outlast.cli import terminal
from tests.unit.cli.conftest import eventually


def a_terminal(**options: object) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=30, **options)  # pyright: ignore[reportArgumentType]


def shown_on(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_line_in_a_pipe_is_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.say(terminal.out(), "word " * 100)

    assert capsys.readouterr().out.count("\n") == 1


def test_brackets_and_numbers_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.say(terminal.out(), "[bold]items[0][/bold] :smile:")

    assert capsys.readouterr().out == "[bold]items[0][/bold] :smile:\n"


def test_an_error_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.report("No server.")

    assert capsys.readouterr() == ("", "error: No server.\n")


def test_columns_in_a_pipe_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.say_columns(terminal.out(), Text("who"), Text("what " * 60), widths=[6])

    line = capsys.readouterr().out
    assert line.startswith("who    what what")
    assert line.count("\n") == 1


def test_columns_on_a_terminal_wrap_below_themselves() -> None:
    console = a_terminal(no_color=True)

    terminal.say_columns(console, Text("who"), Text("a text that is too long for it"), widths=[6])

    lines = [line.rstrip() for line in shown_on(console).splitlines()]
    assert lines == ["who    a text that is too long", "       for it"]


def test_no_colour_means_no_colour(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")

    terminal.say(terminal.out(), ("red", "red"))

    assert "\x1b[31m" not in capsys.readouterr().out


def test_json_is_one_document_with_the_letters_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal.print_json([{"name": "Grüße"}])

    shown = capsys.readouterr().out
    assert "Grüße" in shown
    assert json.loads(shown) == [{"name": "Grüße"}]


def test_a_json_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_json_line({"text": "a\nb"})

    assert capsys.readouterr().out == '{"text": "a\\nb"}\n'


async def test_a_wait_that_is_short_shows_nothing() -> None:
    console = a_terminal()

    async with terminal.waiting(console, "looking"):
        pass

    assert "looking" not in shown_on(console)


async def test_a_longer_wait_shows_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "SPINNER_AFTER", timedelta(0))
    console = a_terminal()

    async with terminal.waiting(console, "looking") as spinner:
        await eventually(lambda: "looking" in shown_on(console))
        spinner.update("still looking")
        await eventually(lambda: "still looking" in shown_on(console))


async def test_a_pipe_never_sees_a_spinner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "SPINNER_AFTER", timedelta(0))

    async with terminal.waiting(terminal.err(), "looking"):
        await asyncio.sleep(0.05)  # longer than it takes to appear

    assert capsys.readouterr() == ("", "")
