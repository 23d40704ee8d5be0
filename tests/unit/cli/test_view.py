import io
import json
import time
from collections.abc import Sequence

import pytest
from rich.console import Console

from outlast.cli import view
from outlast.cli.view import LiveView
from outlast.client.moments import RunEvent
from outlast.client.results.run_result import result_of
from outlast.contract.streams.reply_events import reply_events
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.effects import RunTool
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.views.run import snapshot_of

REQUEST = ApprovalRequest(
    id="a1",
    call_id="c1",
    name="refund",
    agent="Billing",
    handoff_path=("Triage", "Billing"),
    arguments='{"order_id": "A-42", "amount": 389.0}',
    args_digest="d",
    reason="above 100 EUR",
    requested_at_ms=time.time_ns() // 1_000_000 + 86_400_000,  # no wait to show
)


def test_a_tool_call_has_an_arrow_and_words_have_none() -> None:
    called = RunEvent(at_ms=0, type="tool_called", who="Orders", text="look_up()")
    said = RunEvent(at_ms=0, type="message_input", who="user", text="hello")

    assert view.event_cells(called) == (("Orders", "bold blue"), ("→ look_up()", "cyan"))
    assert view.event_cells(said, user="Mara") == (("Mara", "bold blue"), ("hello", "bold"))


def test_a_long_output_is_shortened_to_one_line_and_words_are_not() -> None:
    output = RunEvent(at_ms=0, type="tool_output", who="Orders", text="line\n" * 100)
    said = RunEvent(at_ms=0, type="message_output_created", who="Orders", text="line\n" * 100)

    shortened, whole = view.event_cells(output)[1][0], view.event_cells(said)[1][0]

    assert shortened.startswith("← line line line")
    assert shortened.endswith("… (cut: 160 of 499 characters)")
    assert whole == said.text


def test_json_gets_room_for_line_breaks() -> None:
    assert view.one_line('{"a":1,"b":"ü"}') == '{"a": 1, "b": "ü"}'
    assert view.one_line("no json,\n at all") == "no json, at all"


def test_what_a_run_does_is_what_is_under_way() -> None:
    effect = RunTool(
        effect=1, agent="A", name="look_up", call_id="c", arguments="{}", turn=1, run_id="r"
    )

    assert (
        view.doing(snapshot_of(LoopState(agent="A", phase="acting", pending=(effect,))))
        == "look_up()"
    )
    assert view.doing(snapshot_of(LoopState(agent="A", phase="idle"))) == "A · idle"
    assert view.doing(snapshot_of(LoopState())) == "the run · running"


@pytest.mark.parametrize(
    ("output", "text"), [(None, ""), ("hi", "hi"), ({"a": 1}, '{\n  "a": 1\n}'), (5, "5")]
)
def test_an_answer_is_text_or_json(output: object, text: str) -> None:
    assert view.answer_text(output) == text


def test_a_result_is_a_record_that_json_can_hold() -> None:
    state = LoopState(run_id="r", agent="A", phase="acting", approvals=(REQUEST,))

    record = json.loads(json.dumps(view.result_record(result_of(state))))

    assert record["type"] == "result"
    assert record["status"] == "waiting"
    assert record["approvals"][0]["args_digest"] == "d"


LIVE_MESSAGE: JsonObject = {
    "type": "message",
    "id": "m",
    "content": [{"type": "output_text", "text": "Good morning"}],
}
LIVE_CALL: JsonObject = {
    "type": "function_call",
    "id": "f",
    "name": "refund",
    "arguments": '{"id": 5}',
}
LIVE_ANSWER = RunEvent(
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


def say_deltas(live: LiveView, events: Sequence[JsonObject]) -> None:
    for event in events:
        live.show_delta("Helper", event)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_text_grows_until_the_entry_that_has_it(*, terminal: bool) -> None:
    with LiveView(console(terminal=terminal)) as live:
        events = stream(LIVE_MESSAGE)
        say_deltas(live, events[:5])
        assert live.text() == "Good "
        say_deltas(live, events[5:-1])
        assert live.text() == "Good morning"
        say_deltas(live, events[-1:])
        assert live.text() == ""


def test_a_terminal_shows_it_and_is_left_as_it_was() -> None:
    screen = console(terminal=True)
    with LiveView(screen) as live:
        say_deltas(live, stream(LIVE_MESSAGE)[:-1])
    shown = written(screen)
    assert "Helper     Good morning" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1
    assert shown.endswith("\x1b[2K")


def test_a_hostile_text_does_nothing_to_the_terminal_while_it_grows() -> None:
    screen = console(terminal=True)
    with LiveView(screen) as live:
        text = "\x1b]0;owned\x07 \x1b[2J [red]paid[/red] \u202e"
        say_deltas(live, [{"type": "response.output_text.delta", "delta": text}])
    shown = written(screen)
    assert "[red]paid[/red]" in shown
    assert not any(sign in shown for sign in ("\x1b]0;", "\x07", "\x1b[2J", "\u202e"))


def test_a_pipe_gets_whole_lines_only() -> None:
    pipe = console(terminal=False)
    with LiveView(pipe) as live:
        say_deltas(live, stream(LIVE_MESSAGE))
        live.show_event(LIVE_ANSWER)
        live.show_event(RunEvent(at_ms=0, type="status", who="outlast"))
    assert written(pipe) == "         Helper     Good morning\n"


def test_a_call_is_shown_with_its_arguments_as_they_come() -> None:
    with LiveView(console(terminal=False)) as live:
        say_deltas(live, stream(LIVE_MESSAGE, LIVE_CALL)[:-2])
        assert live.text() == 'Good morning\n→ refund {"id": 5}'


def test_a_new_attempt_drops_the_text_and_says_so() -> None:
    pipe = console(terminal=False)
    with LiveView(pipe) as live:
        say_deltas(live, stream(LIVE_MESSAGE)[:6])
        live.show_delta("Helper", {"type": "outlast.attempt_restarted", "attempt": 2})
        assert live.text() == ""
    assert written(pipe) == "attempt 2: Helper calls the model again\n"


def test_a_view_that_fell_behind_is_marked_until_the_rest_comes() -> None:
    with LiveView(console(terminal=False)) as live:
        live.show_delta("Helper", {"type": "response.output_text.delta", "delta": "One "})
        live.show_delta("Helper", {"type": "outlast.gap", "missed": 40})
        assert live.text() == "One …"
        live.show_delta("Helper", {"type": "response.output_text.delta", "delta": "and so on"})
        live.show_delta("Helper", {"type": "response.something_new"})
        assert live.text() == "One and so on"


def test_of_a_long_text_a_terminal_shows_the_end() -> None:
    screen = console(terminal=True)
    lines = "\n".join(f"line {number}" for number in range(40))
    with LiveView(screen) as live:
        live.show_delta("Helper", {"type": "response.output_text.delta", "delta": lines})
    assert "line 39" in written(screen)
    assert "line 5\n" not in written(screen)
