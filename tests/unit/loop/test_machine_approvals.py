"""Approvals in a run: what waits, what each decision does, and what does not count."""

from itertools import permutations

import pytest

from outlast.loop import phrases
from outlast.loop.approvals import DecisionType
from outlast.loop.effects import CallModel
from tests.laws.driver import SITUATIONS, Play, gated, hosted, play_in, said, tool, transfer


def test_a_gated_call_waits_and_starts_nothing() -> None:
    play = Play.ready()
    assert play.replies(gated("refund", "c1")) == ()
    assert (play.state.phase, play.state.status) == ("acting", "waiting")
    assert [one.id for one in play.state.pending_approvals] == ["a1"]
    assert play.outputs == {}


def test_an_approved_call_runs() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1", '{"cents": 9900}'))
    (command,) = play.decided("a1", by="ann", channel="cli")
    assert command == play.running("c1")
    assert (play.running("c1").name, play.running("c1").arguments) == ("refund", '{"cents": 9900}')
    (request,) = play.state.approvals
    assert (request.status, request.decided_at_ms) == ("approved", play.events[-1].at_ms)
    assert request.decision is not None
    assert (request.decision.by, request.decision.channel) == ("ann", "cli")
    play.returns("c1", "refunded")
    assert play.outputs == {"c1": "refunded"}


def test_an_approved_request_of_a_provider_runs_nothing_here() -> None:
    play = Play.ready()
    play.replies(
        hosted("delete", "r1", needs_approval=True),
        hosted("rename", "r2"),
        tool("look", "c1"),
        parallel=1,
    )
    (request,) = play.state.pending_approvals
    assert (request.name, request.call_id) == ("crm.delete", "r1")
    play.decided("a1")
    play.returns("c1", "seen")
    play.only(CallModel)
    answers = [item.raw for item in play.state.items if item.kind == "tool_output"]
    assert [one.get("approve", one.get("output")) for one in answers] == [True, True, "seen"]
    assert [one.kind for one in play.issued].count("run_tool") == 1


@pytest.mark.parametrize(
    ("message", "output"),
    [
        (None, phrases.REJECTED),
        ("", phrases.REJECTED),
        ("Ask for the receipt.", "Ask for the receipt."),
    ],
)
def test_a_rejected_call_does_not_run_and_the_model_reads_why(
    message: str | None, output: str
) -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"))
    (command,) = play.decided("a1", "reject", message=message, by="ann")
    assert command == play.only(CallModel)
    assert play.outputs == {"c1": output}
    (request,) = play.state.approvals
    assert (request.status, request.decided_at_ms) == ("rejected", play.events[-1].at_ms)
    assert [one.kind for one in play.issued].count("run_tool") == 0


def test_a_message_with_an_approval_changes_nothing_about_the_call() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"))
    play.decided("a1", message="Go ahead.")
    play.returns("c1", "refunded")
    assert play.outputs == {"c1": "refunded"}


def test_calls_that_need_nobody_start_at_once_and_are_told_before_people_are_waited_for() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"), tool("look_up", "c2"))
    assert play.running_ids == ["c2"]
    play.returns("c2", "found")
    assert play.outputs == {"c2": "found"}, "a person may take days"
    assert play.state.phase == "acting", "the model sees all outputs together"
    play.decided("a1")
    play.returns("c1", "refunded")
    assert list(play.outputs) == ["c2", "c1"]
    assert play.state.phase == "thinking"


@pytest.mark.parametrize("order", list(permutations(["a1", "a2", "a3"])))
@pytest.mark.parametrize(
    "kinds", [("approve",) * 3, ("reject",) * 3, ("approve", "reject", "approve")]
)
def test_decisions_in_any_order_come_to_the_same(
    order: tuple[str, ...], kinds: tuple[DecisionType, ...]
) -> None:
    play = Play.ready()
    play.replies(*(gated("refund", f"c{number}") for number in (1, 2, 3)))
    kind_of: dict[str, DecisionType] = {f"a{at}": kind for at, kind in enumerate(kinds, start=1)}
    for request_id in order:
        play.decided(request_id, kind_of[request_id])
        if kind_of[request_id] == "approve":
            play.returns(request_id.replace("a", "c"), "refunded")
    assert play.outputs == {
        f"c{at}": "refunded" if kind == "approve" else phrases.REJECTED
        for at, kind in enumerate(kinds, start=1)
    }
    assert list(play.outputs) == [name.replace("a", "c") for name in order], "as they were told"
    assert play.state.phase == "thinking"


def test_a_decided_call_does_not_wait_for_the_undecided_ones() -> None:
    play = Play.ready()
    play.replies(gated("f", "c1"), gated("g", "c2"))
    play.decided("a2")
    assert play.running_ids == ["c2"]
    play.returns("c2")
    assert play.state.status == "waiting"
    play.decided("a1", "reject")
    assert play.state.phase == "thinking"


@pytest.mark.parametrize("second", ["approve", "reject"])
@pytest.mark.parametrize("first", ["approve", "reject"])
def test_a_second_decision_is_noted_and_does_not_count(
    first: DecisionType, second: DecisionType
) -> None:
    play = Play.ready()
    play.replies(gated("f", "c1"), gated("g", "c2"))
    play.decided("a1", first, by="ann")
    settled = play.state.approvals[0]
    at_ms = play.now_ms
    play.decided("a1", second, by="bob")
    assert play.state.approvals[0] == settled
    (note,) = play.state.ignored
    assert (note.at_ms, note.what) == (at_ms, f"decision {second} for a1 by bob")
    assert "by ann" in note.why


@pytest.mark.parametrize("kind", ["approve", "reject"])
def test_a_forged_decision_is_noted_and_does_not_count(kind: DecisionType) -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1", '{"cents": 100}'))
    play.decided("a1", kind, args_digest="0" * 64)
    assert play.state.approvals[0].status == "pending"
    assert "other arguments" in play.state.ignored[0].why
    play.decided("a1", args_digest=play.state.approvals[0].args_digest)
    assert play.state.approvals[0].status == "approved"


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_decision_about_nothing_is_noted_wherever_the_run_is(situation: str) -> None:
    play, ids = play_in(situation, keep_open=True), ["", "a0", "a9", "c1"]
    for request_id in ids:
        play.decided(request_id)
    assert [note.what for note in play.state.ignored] == [f"decision approve for {x}" for x in ids]
    assert all("has no approval" in note.why for note in play.state.ignored)


def test_a_decision_after_the_turn_is_late() -> None:
    play = Play.ready()
    play.replies(gated("f", "c1"))
    play.decided("a1", "reject")
    assert play.state.phase == "thinking"
    play.decided("a1")
    assert len(play.state.ignored) == 1
    play.replies(said("Done."))
    assert play.finish.status == "completed"


@pytest.mark.parametrize("situation", ["waiting", "mixed"])
def test_a_decision_after_a_cancel_has_no_effect(situation: str) -> None:
    play = play_in(situation)
    play.cancelled()
    assert [one.status for one in play.state.approvals] == ["cancelled"]
    play.decided("a1")
    assert [one.status for one in play.state.approvals] == ["cancelled"]


def test_an_approved_call_that_fails_is_told_to_the_model() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"))
    play.decided("a1")
    play.fails(play.running("c1"))
    assert play.outputs == {"c1": phrases.tool_failed("refund", "broken")}
    assert play.state.approvals[0].status == "approved"


def test_a_call_made_again_is_asked_about_again() -> None:
    play = Play.ready()
    for number in (1, 2):
        play.replies(gated("refund", f"c{number}", '{"cents": 9900}'))
        play.decided(f"a{number}", "reject" if number == 1 else "approve")
    first, second = play.state.approvals
    assert (first.status, second.status) == ("rejected", "approved")
    assert first.args_digest == second.args_digest


def test_arguments_that_nobody_can_read_can_still_be_decided() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1", '{"cents": '))
    play.decided("a1", "reject")
    assert play.outputs == {"c1": phrases.REJECTED}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param('{"note": "\ud83d"', id="half a character"),
        pytest.param("[" * 200_000, id="nested too deep to read"),
    ],
)
def test_a_model_that_writes_junk_cannot_break_the_run(arguments: str) -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1", arguments))
    assert play.state.status == "waiting"


def test_what_a_person_always_rejects_does_not_run_whatever_the_tools_rule_says() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"))
    play.decided("a1", "reject", remember=True, message="Never.")
    play.replies(tool("refund", "c2"), tool("look_up", "c3"))
    assert play.running_ids == ["c3"]
    play.returns("c3")
    assert play.outputs == {"c1": "Never.", "c2": "Never.", "c3": "ok"}


def test_a_model_call_knows_what_people_have_decided_for_all_calls_of_its_agent() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"), gated("look_up", "c2"))
    play.decided("a1", "reject", remember=True)
    play.decided("a2", "reject")
    assert play.only(CallModel).decided == ("refund",)
    play.replies(transfer("Billing", "h1"))
    assert play.only(CallModel).decided == ()
