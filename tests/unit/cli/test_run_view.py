import json
from dataclasses import replace

import pytest

from outlast.cli import run_view, terminal
from outlast.cli.run_events import RunEvent
from outlast.client.results import result_of
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.commands import RunTool
from outlast.loop.state import RunState

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

    assert [cell.plain for cell in run_view.event_cells(called)] == ["Orders", "→ look_up()"]
    assert [cell.plain for cell in run_view.event_cells(said, user="Mara")] == ["Mara", "hello"]


def test_a_long_output_is_shortened_to_one_line_and_words_are_not() -> None:
    output = RunEvent(at_ms=0, type="tool_output", who="Orders", text="line\n" * 100)
    said = RunEvent(at_ms=0, type="message_output_created", who="Orders", text="line\n" * 100)

    shortened, whole = run_view.event_cells(output)[1].plain, run_view.event_cells(said)[1].plain

    assert "\n" not in shortened
    assert shortened.endswith("…")
    assert whole == said.text


def test_json_gets_room_for_line_breaks() -> None:
    assert run_view.spaced('{"a":1,"b":"ü"}') == '{"a": 1, "b": "ü"}'
    assert run_view.spaced("no json, at all") == "no json, at all"


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
    run_view.show_approval(terminal.out(), REQUEST)

    lines = [line.strip().split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["call", "refund (a1)"],
        ["order_id", "A-42"],
        ["amount", "389.0"],
        ["asked", "by   Triage → Billing"],
        ["why", "above 100 EUR"],
    ]


def test_arguments_that_are_no_object_are_shown_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for arguments in ("[1, 2]", "not json"):
        run_view.show_approval(terminal.out(), replace(REQUEST, arguments=arguments))

        assert f"arguments  {arguments}\n" in capsys.readouterr().out


def test_how_to_decide_is_two_commands_to_copy(capsys: pytest.CaptureFixture[str]) -> None:
    run_view.show_how_to_decide(terminal.out(), "support-42", [REQUEST])

    shown = capsys.readouterr().out
    assert 'support-42 waits for a person: refund(order_id="A-42", amount=389.0)' in shown
    assert "outlast approve support-42 a1\n" in shown
    assert 'outlast reject support-42 a1 --message "..."\n' in shown
