import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from outlast.cli.run_events import RunEvent
from outlast.cli.tail_view import TailView
from outlast.contract.reply_events import reply_events
from outlast.loop.values import JsonObject

MESSAGE: JsonObject = {
    "type": "message",
    "id": "m",
    "content": [{"type": "output_text", "text": "Good morning"}],
}
CALL: JsonObject = {"type": "function_call", "id": "f", "name": "refund", "arguments": '{"id": 5}'}
ANSWER = RunEvent(
    at_ms=0, type="message_output_created", who="Helper", text="Good morning", answers=True
)


def console(*, terminal: bool) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=terminal,
        width=60,
        height=12,
        highlight=False,
        markup=False,
        color_system=None,
        legacy_windows=False,
    )


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def stream(*items: JsonObject) -> list[JsonObject]:
    return list(reply_events({"output": list(items)}, lambda text: [text[:5], text[5:]]))


def say(view: TailView, events: Sequence[JsonObject]) -> None:
    for event in events:
        view.said("Helper", event)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_text_grows_until_the_entry_that_has_it(*, terminal: bool) -> None:
    with TailView(console(terminal=terminal)) as view:
        events = stream(MESSAGE)
        say(view, events[:5])
        assert view.text() == "Good "
        say(view, events[5:-1])
        assert view.text() == "Good morning"
        say(view, events[-1:])
        assert view.text() == ""


def test_a_terminal_shows_it_and_is_left_as_it_was() -> None:
    screen = console(terminal=True)
    with TailView(screen) as view:
        say(view, stream(MESSAGE)[:-1])
    shown = written(screen)
    assert "Helper     Good morning" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1
    assert shown.endswith("\x1b[2K")


def test_a_pipe_gets_whole_lines_only() -> None:
    pipe = console(terminal=False)
    with TailView(pipe) as view:
        say(view, stream(MESSAGE))
        view.happened(ANSWER)
        view.happened(RunEvent(at_ms=0, type="status", who="outlast"))
    assert written(pipe) == "Helper     Good morning\n"


def test_a_call_is_shown_with_its_arguments_as_they_come() -> None:
    with TailView(console(terminal=False)) as view:
        say(view, stream(MESSAGE, CALL)[:-2])
        assert view.text() == 'Good morning\n→ refund {"id": 5}'


def test_a_new_attempt_drops_the_text_and_says_so() -> None:
    pipe = console(terminal=False)
    with TailView(pipe) as view:
        say(view, stream(MESSAGE)[:6])
        view.said("Helper", {"type": "outlast.attempt_restarted", "attempt": 2})
        assert view.text() == ""
    assert written(pipe) == "attempt 2: Helper is asked again\n"


def test_a_view_that_fell_behind_is_marked_until_the_rest_comes() -> None:
    with TailView(console(terminal=False)) as view:
        view.said("Helper", {"type": "response.output_text.delta", "delta": "One "})
        view.said("Helper", {"type": "outlast.gap", "missed": 40})
        assert view.text() == "One …"
        view.said("Helper", {"type": "response.output_text.delta", "delta": "and so on"})
        view.said("Helper", {"type": "response.something_new"})
        assert view.text() == "One and so on"


def test_of_a_long_text_a_terminal_shows_the_end() -> None:
    screen = console(terminal=True)
    lines = "\n".join(f"line {number}" for number in range(40))
    with TailView(screen) as view:
        view.said("Helper", {"type": "response.output_text.delta", "delta": lines})
    assert "line 39" in written(screen)
    assert "line 5\n" not in written(screen)
