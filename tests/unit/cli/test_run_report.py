import pytest

from outlast.cli.run_report import Report, show_report
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.commands import RunTool
from outlast.loop.items import Item, Message
from outlast.loop.state import Ignored, RunState
from outlast.loop.values import Failure
from outlast.testing import call, say

STATE = RunState(
    run_id="support-42",
    agent="Billing",
    phase="acting",
    handoff_path=("Triage", "Billing"),
    context={"customer": "Mara"},
    items=(
        Item("input", {"role": "user", "content": "Refund A-42"}),
        Item("tool_call", call("refund", "c1", order_id="A-42"), "Billing", 1),
        Item("tool_output", {"call_id": "c1", "output": '{"ok":true}'}, "Billing", 1),
        Item("message", say("Line one.\nLine two.")[0], "Billing", 2),
    ),
    pending=(
        RunTool(
            effect=7,
            agent="Billing",
            name="look_up",
            call_id="c2",
            arguments="{}",
            turn=2,
            run_id="r",
        ),
    ),
    inbox=(Message("m-1", ()),),
    ignored=(Ignored(1, "signal x", "No such signal."),),
    failure=Failure(code="model_refusal", message="I will not."),
    approvals=(
        ApprovalRequest(
            id="a1",
            call_id="c3",
            name="refund",
            agent="Billing",
            arguments="{}",
            args_digest="d",
            requested_at_ms=1,
        ),
    ),
)


def report(ui: str | None = "http://ui/support-42") -> Report:
    return Report(
        run_id="support-42", state=STATE, status="running", task_queue="q", events=40, ui=ui
    )


def test_everything_a_person_needs_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(report(), last=50)

    shown = capsys.readouterr().out
    for line in (
        "  status     running",
        "  agents     Triage → Billing",
        "  used       0 model calls, 0 tokens, 40 events in the history",
        '  context    {"customer": "Mara"}',
        "  failure    I will not. (model_refusal)",
        "  doing      look_up()",
        "  unread     message m-1",
        "  ignored    signal x: No such signal.",
        "  UI         http://ui/support-42",
        'Billing    → refund(order_id="A-42")',
        'Billing    ← {"ok": true}',
        "  outlast approve support-42 a1",
    ):
        assert f"{line}\n" in shown


def test_only_the_newest_entries_are_shown_where_fewer_are_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_report(report(), last=1)
    shown = capsys.readouterr().out

    assert "(3 entries before; see --last)" in shown
    assert "Refund A-42" not in shown
    assert "Line two." in shown


def test_no_entries_are_no_entries(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(report(ui=None), last=0)
    shown = capsys.readouterr().out

    assert "(4 entries before; see --last)" in shown
    assert "Line two." not in shown
    assert "UI" not in shown
    assert report().record(0)["transcript"] == []


def test_the_record_holds_the_same_for_programs() -> None:
    record = report().record(2)

    assert record["run_id"] == "support-42"
    assert record["status"] == "running"
    assert record["history_events"] == 40
    assert record["running"] == [{"effect": 7, "what": "look_up()"}]
    assert [approval["id"] for approval in record["approvals"]] == ["a1"]
    assert len(record["transcript"]) == 2
