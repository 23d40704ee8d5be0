"""What can be read off a state."""

from dataclasses import fields, replace
from typing import get_type_hints

import pytest

from outlast.loop.calls import Call, PlannedCall
from outlast.loop.effects import CallModel
from outlast.loop.items import Item, Message
from outlast.loop.revision import Changes, revised, revised_call
from outlast.loop.state import (
    Answer,
    ItemsToSave,
    LoopState,
    Question,
    Saving,
    Server,
    Storage,
    has_message,
    items_of,
    may_save,
    stands_still,
    turn_start,
    visible_item_count,
)
from tests.laws.driver import SITUATIONS, Play, gated, play_in, said

STATUS_OF = dict.fromkeys(SITUATIONS, "running") | {"waiting": "waiting", "idle": "idle"}


def test_a_run_that_has_not_begun_is_empty_and_running() -> None:
    state = LoopState()
    assert (state.phase, state.status, state.next_effect) == ("new", "running", 1)
    assert state.pending_approvals == ()


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_status_says_whom_the_run_waits_for(situation: str) -> None:
    play = play_in(situation, keep_open=True)
    assert play.state.status == STATUS_OF[situation]
    assert stands_still(play.state) is (situation == "waiting")


def test_a_run_that_also_runs_a_tool_does_not_wait_for_people_only() -> None:
    play = play_in("mixed")
    play.returns("c1")
    assert play.state.status == "waiting"
    play.decided("a1")
    assert play.state.status == "running"


@pytest.mark.parametrize("outcome", ["completed", "failed", "cancelled"])
def test_the_status_of_a_closed_run_is_its_outcome(outcome: str) -> None:
    play = Play.ready()
    match outcome:
        case "completed":
            play.replies(said("Done."))
        case "failed":
            play.fails(play.only(CallModel))
        case _:
            play.cancelled()
    assert play.state.status == outcome
    assert play.finish.status == outcome


def test_pending_approvals_are_those_that_nobody_decided() -> None:
    play = Play.ready()
    play.replies(*(gated("f", f"c{at}") for at in range(4)))
    play.decided("a1")
    play.decided("a3", "reject")
    assert [one.id for one in play.state.pending_approvals] == ["a2", "a4"]


@pytest.mark.parametrize(
    ("message_id", "known"),
    [("inbox", True), ("answering", True), ("old", True), ("older", True), ("new", False)],
)
def test_a_message_is_known_wherever_it_has_got_to(message_id: str, *, known: bool) -> None:
    state = revised(
        LoopState(),
        inbox=(Message("inbox", ()),),
        answering=("answering",),
        answers=(Answer(("older",), None, "A"), Answer(("x", "old"), None, "A")),
    )
    assert has_message(state, message_id) is known


def test_an_empty_state_knows_no_message() -> None:
    assert not has_message(LoopState(), "start")


def test_the_input_of_a_model_call_stays_the_same_when_the_transcript_grows() -> None:
    play = Play.ready(keep_open=True)
    call = play.only(CallModel)
    before = items_of(play.state, call)
    play.replies(said("Hi."))
    play.hears("m2")
    assert items_of(play.state, call) == before == play.state.items[:1]
    assert items_of(play.state, play.only(CallModel)) == play.state.items


def test_states_compare_by_value() -> None:
    assert LoopState(run_id="a") == replace(LoopState(), run_id="a")
    assert LoopState(run_id="a") != LoopState(run_id="b")


def test_a_revised_state_differs_in_what_was_changed_and_in_nothing_else() -> None:
    before = revised(LoopState(), run_id="r", agent="A", turn=3)
    after = revised(before, phase="turned", turn=4)
    assert after == revised(LoopState(), run_id="r", agent="A", turn=4, phase="turned")
    assert before == revised(LoopState(), run_id="r", agent="A", turn=3)


def test_a_state_is_not_revised_in_what_it_does_not_have() -> None:
    with pytest.raises(TypeError, match="LoopState has no phaze"):
        revised(LoopState(), phaze="turned")  # pyright: ignore[reportCallIssue]


def test_a_call_is_revised_by_the_names_of_its_fields() -> None:
    plan = PlannedCall(item=0, kind="tool")
    call = Call(plan=plan, call_id="c", name="t", arguments="{}", status="planned")
    assert revised_call(call, status="running", effect=3) == replace(
        call, status="running", effect=3
    )
    with pytest.raises(TypeError, match="Call has no state"):
        revised_call(call, state="running")


def test_what_changes_is_named_and_typed_as_in_the_state_and_its_parts() -> None:
    kinds = (LoopState, Question, Saving, Server, Storage)
    declared = [
        (one.name, get_type_hints(kind)[one.name]) for kind in kinds for one in fields(kind)
    ]
    assert len(declared) == len(dict(declared)), "a part has a field of the state's name"
    assert get_type_hints(Changes) == dict(declared)


@pytest.mark.parametrize(
    ("turns", "start"), [((), 0), ((0,), 1), ((0, 1, 1), 3), ((0, 1, 2), 2), ((2,), 0), ((1,), 1)]
)
def test_the_newest_turn_begins_with_its_first_item(turns: tuple[int, ...], start: int) -> None:
    items = tuple(Item("message", {}, "A", turn) for turn in turns)
    assert turn_start(replace(LoopState(), items=items, turns=2)) == start


def test_a_turn_of_which_nothing_can_be_an_answer_is_shown_whole() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"), judged=True, required_steps=("check_output",))
    assert visible_item_count(play.state) == len(play.state.items) == 2


def test_what_guardrails_have_passed_may_be_saved_up_to_where_they_have_not() -> None:
    state = Play(session=True).state
    state = revised(state, phase="thinking", to_save=(ItemsToSave(start=0, stop=1),))
    assert may_save(revised(state, unchecked_from=1))
    assert not may_save(revised(state, unchecked_from=0))


@pytest.mark.parametrize("judged", [True, False])
def test_only_calls_that_a_rule_judges_hold_a_turn_back(judged: bool) -> None:
    play = Play.ready()
    play.replies(
        said("Wait."), gated("refund", "c1"), judged=judged, required_steps=("check_output",)
    )
    assert visible_item_count(play.state) == (1 if judged else 3)
    state = play_in("idle", keep_open=True).state
    state = revised(state, judged=judged, required_steps=("check_output",))
    assert visible_item_count(state) == len(state.items)
