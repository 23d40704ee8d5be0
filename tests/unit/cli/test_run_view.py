import io
import json
from dataclasses import replace

import pytest
from hypothesis import given
from rich.console import Console

from outlast.cli import run_view, terminal
from outlast.cli.run_events import RunEvent
from outlast.client.results import result_of
from outlast.loop.approvals import ApprovalRequest, digest
from outlast.loop.commands import RunTool
from outlast.loop.state import RunState
from outlast.rendering import original
from tests.hostile_text import ARGUMENTS, assert_visible
from tests.loop_strategies import examples

REQUEST = ApprovalRequest(
    id="a1",
    call_id="c1",
    name="refund",
    agent="Billing",
    handoff_path=("Triage", "Billing"),
    arguments='{"order_id": "A-42", "amount": 389.0}',
    args_digest="d",
    reason="above 100 EUR",
    requested_at_ms=1,
)


def test_a_tool_call_has_an_arrow_and_words_have_none() -> None:
    called = RunEvent(at_ms=0, type="tool_called", who="Orders", text="look_up()")
    said = RunEvent(at_ms=0, type="message_input", who="user", text="hello")

    assert run_view.event_cells(called) == (("Orders", "bold blue"), ("→ look_up()", "cyan"))
    assert run_view.event_cells(said, user="Mara") == (("Mara", "bold blue"), ("hello", "bold"))


def test_a_long_output_is_shortened_to_one_line_and_words_are_not() -> None:
    output = RunEvent(at_ms=0, type="tool_output", who="Orders", text="line\n" * 100)
    said = RunEvent(at_ms=0, type="message_output_created", who="Orders", text="line\n" * 100)

    shortened, whole = run_view.event_cells(output)[1][0], run_view.event_cells(said)[1][0]

    assert shortened.startswith("← line line line")
    assert shortened.endswith("… (cut: 160 of 499 characters)")
    assert whole == said.text


def test_json_gets_room_for_line_breaks() -> None:
    assert run_view.one_line('{"a":1,"b":"ü"}') == '{"a": 1, "b": "ü"}'
    assert run_view.one_line("no json,\n at all") == "no json, at all"


def test_what_a_run_does_is_what_is_under_way() -> None:
    effect = RunTool(
        effect=1, agent="A", name="look_up", call_id="c", arguments="{}", turn=1, run_id="r"
    )

    assert run_view.doing(RunState(agent="A", phase="acting", pending=(effect,))) == "look_up()"
    assert run_view.doing(RunState(agent="A", phase="idle")) == "A · idle"
    assert run_view.doing(RunState()) == "the run · running"


@pytest.mark.parametrize(
    ("output", "text"), [(None, ""), ("hi", "hi"), ({"a": 1}, '{\n  "a": 1\n}'), (5, "5")]
)
def test_an_answer_is_text_or_json(output: object, text: str) -> None:
    assert run_view.answer_text(output) == text


def test_a_result_is_a_record_that_json_can_hold() -> None:
    state = RunState(run_id="r", agent="A", phase="acting", approvals=(REQUEST,))

    record = json.loads(json.dumps(run_view.result_record(result_of(state))))

    assert record["type"] == "result"
    assert record["status"] == "waiting"
    assert record["approvals"][0]["args_digest"] == "d"


def test_an_approval_shows_what_is_decided(capsys: pytest.CaptureFixture[str]) -> None:
    run_view.show_approval(terminal.out(), REQUEST, "support-42")

    assert capsys.readouterr().out.splitlines() == [
        "  call       refund (a1)",
        "  arguments  │ {",
        '             │   "order_id": "A-42",',
        '             │   "amount": 389.0',
        "             │ }",
        "  asked by   Triage → Billing",
        "  why        above 100 EUR",
    ]


def test_arguments_that_are_no_object_are_shown_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for label, arguments in (("arguments", "[1, 2]"), ("text     ", "not json")):
        run_view.show_approval(terminal.out(), replace(REQUEST, arguments=arguments), "r")

        assert f"{label}  │ {arguments}\n" in capsys.readouterr().out


def test_how_to_decide_is_two_commands_to_copy(capsys: pytest.CaptureFixture[str]) -> None:
    run_view.show_how_to_decide(terminal.out(), "support-42", [REQUEST])

    shown = capsys.readouterr().out
    assert shown.startswith("support-42 waits for a person:\n  call       refund (a1)\n")
    assert "outlast approve support-42 a1\n" in shown
    assert 'outlast reject support-42 a1 --message "..."\n' in shown


def test_a_command_to_copy_holds_an_odd_id_as_one_word(capsys: pytest.CaptureFixture[str]) -> None:
    run_view.show_how_to_decide(terminal.out(), "a; rm\x1b", [REQUEST])

    assert "outlast approve $'a; rm\\u001b' a1\n" in capsys.readouterr().out


# --- What a person decides about ----------------------------------------------------------------


def arguments_on(screen: str) -> tuple[str, str]:
    """Return the label of the arguments on a screen, and what stands behind the bar."""
    lines = [line.split("│ ", 1) for line in screen.splitlines() if "│" in line[:14]]
    return lines[0][0].strip(), "\n".join(line[1] if len(line) == 2 else "" for line in lines)


@examples(200)
@given(arguments=ARGUMENTS)
def test_the_arguments_on_the_screen_are_those_that_the_digest_covers(arguments: str) -> None:
    pipe = Console(file=io.StringIO(), width=80)
    request = replace(REQUEST, arguments=arguments, args_digest=digest(arguments))

    run_view.show_approval(pipe, request, "support-42")

    assert isinstance(pipe.file, io.StringIO)
    assert_visible(pipe.file.getvalue(), layout="\n")
    label, shown = arguments_on(pipe.file.getvalue())
    assert digest(shown if label == "arguments" else original(shown)) == request.args_digest


def test_a_line_that_wraps_cannot_look_like_a_line_of_the_request() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=40, color_system=None)
    note = "x" + " " * 60 + '  │ "amount": 5' + " " * 60 + "  why        the boss agreed"
    request = replace(REQUEST, arguments=json.dumps({"note": note, "amount": 5000}))

    run_view.show_approval(screen, request, "support-42")

    assert isinstance(screen.file, io.StringIO)
    lines = screen.file.getvalue().splitlines()
    assert sum(line.startswith("  why ") for line in lines) == 1
    assert sum(line[13:14] == "│" for line in lines) == 4


def test_a_repeated_key_is_pointed_out(capsys: pytest.CaptureFixture[str]) -> None:
    request = replace(REQUEST, arguments='{"amount": 5, "amount": 5000}')

    run_view.show_approval(terminal.out(), request, "support-42")

    shown = capsys.readouterr().out
    assert '│   "amount": 5,\n' in shown
    assert '│   "amount": 5000\n' in shown
    assert 'careful    the key "amount" is repeated' in shown


def test_arguments_without_end_say_where_all_of_them_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    request = replace(REQUEST, arguments=json.dumps({"text": "x" * 30_000}))

    run_view.show_approval(terminal.out(), request, "support-42")

    shown = capsys.readouterr().out
    assert (
        "(cut: 20,000 of 30,012 characters) All of them: `outlast show support-42 --json`" in shown
    )
