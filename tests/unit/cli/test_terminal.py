import asyncio
import contextlib
import io
import json
import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from outlast.cli import terminal
from tests.eventually import eventually
from tests.hostile_text import TEXTS, assert_visible
from tests.laws.strategies import examples


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
    terminal.say_columns(terminal.out(), "who", "what " * 60, widths=[6])

    line = capsys.readouterr().out
    assert line.startswith("who    what what")
    assert line.count("\n") == 1


def test_columns_on_a_terminal_wrap_below_themselves() -> None:
    console = a_terminal(no_color=True)

    terminal.say_columns(console, "who", "a text that is too long for it", widths=[6])

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


def test_one_long_cell_costs_no_other_column() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=60, color_system=None)
    columns: list[terminal.Column[list[str]]] = [
        terminal.Column(name="ID", folds=True),
        terminal.Column(name="WAITS FOR", widest=20, left_out=2),
        terminal.Column(name="AGE", numbers=True, left_out=1),
    ]
    rows = [["r1", "a worker with the agent " * 9, "1 min"], ["r2", "a person", "2 min"]]
    terminal.say_table(console, columns, rows)

    header, *lines, last = shown_on(console).splitlines()
    assert header.split() == ["ID", "WAITS", "FOR", "AGE"]
    assert last.split() == ["r2", "a", "person", "2", "min"]
    assert " ".join(" ".join(lines).split()).count("a worker") > 5


# --- Text that others have written ------------------------------------------------------------


@pytest.mark.parametrize("is_terminal", [True, False])
@examples(100)
@given(texts=st.lists(TEXTS, min_size=3, max_size=3))
def test_whatever_is_printed_holds_what_the_layout_wrote_and_no_more(
    *, is_terminal: bool, texts: list[str]
) -> None:
    console = Console(
        file=io.StringIO(), force_terminal=is_terminal, width=60, color_system=None, emoji=False
    )
    who, what, more = texts
    terminal.say(console, who, (what, "bold"), more)
    terminal.say_text(console, what)
    terminal.say_columns(console, who, (what, "green"), widths=[6])
    terminal.say_table(
        console,
        [terminal.Column(name="ID", folds=True), terminal.Column(name="WHO", left_out=1)],
        [[who, what], [[who, (more, "dim")], what]],
    )
    terminal.ask(console, what)

    assert_visible(shown_on(console), layout="\n")


@examples(50)
@given(text=TEXTS)
def test_what_grows_or_spins_holds_what_the_layout_wrote_and_no_more(text: str) -> None:
    console = Console(
        file=io.StringIO(), force_terminal=True, width=60, height=20, color_system=None
    )
    growing = terminal.Growing(console, 8)
    growing.show((text, "bold"), lambda: text)
    growing.clear()
    spinner = terminal.Waiting(console, text)
    spinner.status.start()
    spinner.update(text)
    spinner.status.stop()

    written = re.sub(r"\x1b\[(?:\?25[lh]|1A|2K)|\r", "", shown_on(console))
    assert_visible(written, layout="\n")


@examples(50)
@given(text=TEXTS)
def test_an_error_or_a_record_holds_what_the_layout_wrote_and_no_more(text: str) -> None:
    with (
        contextlib.redirect_stderr(io.StringIO()) as err,
        contextlib.redirect_stdout(io.StringIO()) as out,
    ):
        terminal.report(text)
        terminal.report_traceback(ValueError(text))
        terminal.print_json_line({"text": text})

    assert_visible(err.getvalue(), layout="\n")
    assert_visible(out.getvalue(), layout="\n")
    assert json.loads(out.getvalue())["text"].encode("utf-16", "surrogatepass") == text.encode(
        "utf-16", "surrogatepass"
    )


def test_lines_of_a_text_stay_in_its_column_of_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.say_columns(terminal.out(), "who", "one\nwho    two", widths=[6])

    assert capsys.readouterr().out == "who    one\n       who    two\n"


def test_lines_of_an_error_stay_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.report("no order\nerror: all is well")

    assert capsys.readouterr().err == "error: no order\n       error: all is well\n"


def test_markup_and_links_are_printed_as_they_are() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=60)

    terminal.say(console, "[link=http://x]here[/link] [red]:smile:")

    assert shown_on(console) == "[link=http://x]here[/link] [red]:smile:\n"
