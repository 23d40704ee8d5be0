"""How a turn acts: tools side by side, in any order, and what each call comes to."""

from dataclasses import replace
from itertools import permutations

import pytest

from outlast.loop import phrases
from outlast.loop.calls import ExecutionOptions
from outlast.loop.changes import Change, diff
from outlast.loop.effects import CallModel
from outlast.loop.values import Json
from tests.laws.driver import Play, gated, said, tool, transfer, unknown


def put(key: str, value: Json) -> Change:
    return Change("set", (key,), value)


def test_all_tools_of_a_reply_start_together_in_their_order() -> None:
    play = Play.ready()
    commands = play.replies(*(tool("f", f"c{at}") for at in range(5)))
    assert len(commands) == 5
    assert play.running_ids == ["c0", "c1", "c2", "c3", "c4"]
    assert play.state.phase == "acting"


def test_the_model_sees_the_outputs_when_all_are_there() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"), tool("g", "c2"))
    assert play.returns("c2", "two") == ()
    assert play.outputs == {}
    (command,) = play.returns("c1", "one")
    assert command == play.only(CallModel)
    assert list(play.outputs.items()) == [("c1", "one"), ("c2", "two")]
    assert (play.state.question.turn, play.state.calls) == (2, ())


def test_a_deferred_call_runs_again_as_an_activity_in_its_place() -> None:
    play = Play.ready()
    brief = ExecutionOptions(fast=True, defers=True)
    play.replies(tool("f", "c1", policy=brief), tool("g", "c2", policy=brief), parallel=2)
    first = play.running("c1")
    commands = play.returns("c1", None, deferred=True)
    again = play.running("c1")
    assert commands == (again,)
    assert again == replace(first, effect=again.effect, policy=replace(brief, fast=False))
    assert again.effect > first.effect
    assert play.returns("c2", "two") == ()
    (command,) = play.returns("c1", "one")
    assert command == play.only(CallModel)
    assert list(play.outputs.items()) == [("c1", "one"), ("c2", "two")]


@pytest.mark.parametrize("order", list(permutations(["c1", "c2", "c3"])))
def test_results_in_any_order_come_to_the_same(order: tuple[str, ...]) -> None:
    play = Play.ready(context={"log": ["0"], "n": 0})
    play.replies(said("Working."), tool("f", "c1"), tool("g", "c2"), tool("h", "c3"))
    for call_id in order:
        change = Change("append", ("log",), [call_id])
        play.returns(call_id, f"output of {call_id}", change, put("n", call_id))
    assert play.state.context == {"log": ["0", "c1", "c2", "c3"], "n": "c3"}
    assert list(play.outputs) == ["c1", "c2", "c3"]
    assert play.kinds[-3:] == ["tool_output"] * 3


@pytest.mark.parametrize("log", [[], ["0"]])
@pytest.mark.parametrize("order", list(permutations(["c1", "c2"])))
def test_tools_side_by_side_that_append_to_one_list_are_both_heard(
    log: list[str], order: tuple[str, ...]
) -> None:
    """Each tool gets a copy of the context, and what it changed is found by comparison."""
    play = Play.ready(context={"log": log})
    play.replies(tool("note", "c1"), tool("note", "c2"))
    for call_id in order:
        seen = play.running(call_id).context
        left: Json = {"log": [*seen["log"], call_id]}
        play.returns(call_id, "ok", *diff(seen, left))
    assert play.state.context == {"log": [*log, "c1", "c2"]}


@pytest.mark.parametrize("order", list(permutations(["c1", "c2"])))
def test_tools_of_two_workers_that_add_to_one_number_both_count(order: tuple[str, ...]) -> None:
    play = Play.ready(context={"n": 1})
    play.replies(tool("count", "c1"), tool("count", "c2"))
    for call_id in order:
        seen = play.running(call_id).context["n"]
        changes = diff({"n": seen}, {"n": seen + 1})
        play.returns(call_id, "ok", *changes, host=f"worker of {call_id}", order=1)
    assert play.state.context == {"n": 3}
    assert play.state.ignored == ()


SETS = {"c1": ("open", "paid"), "c2": ("open", "lost")}


@pytest.mark.parametrize("order", list(permutations(SETS)))
@pytest.mark.parametrize(
    ("hosts", "status", "is_noted"),
    [
        ({"c1": "", "c2": ""}, "lost", True),
        ({"c1": "a", "c2": "b"}, "lost", True),
        ({"c1": "a", "c2": "a"}, "paid", False),
    ],
)
def test_where_two_calls_set_a_field_the_later_counts_and_people_can_see_that(
    order: tuple[str, ...], hosts: dict[str, str], status: str, *, is_noted: bool
) -> None:
    """In one worker, that is the one that did it later: there, each has seen what the other did."""
    play = Play.ready(context={"status": "open"})
    play.replies(tool("settle", "c1"), tool("search", "c2"))
    for call_id in order:
        before, after = SETS[call_id]
        place = 2 if call_id == "c1" else 1
        shared = {"host": hosts[call_id], "order": place if hosts[call_id] else 0}
        play.returns(call_id, "ok", Change("set", ("status",), after, before), **shared)
    assert play.state.context == {"status": status}
    assert [note.what for note in play.state.ignored] == ["context"] * is_noted
    assert all("both set 'status' in the context" in note.why for note in play.state.ignored)


def test_a_note_about_fields_that_two_calls_set_is_short() -> None:
    names = [f"{at} " + "x" * 1_000 for at in range(9)]
    play = Play.ready(context=dict.fromkeys(names, "a"))
    play.replies(tool("f", "c1"), tool("g", "c2"))
    for call_id in ("c1", "c2"):
        play.returns(call_id, "ok", *(Change("set", (name,), call_id, "a") for name in names))
    (note,) = play.state.ignored
    assert len(note.why) < 900
    assert "and 4 more" in note.why


@pytest.mark.parametrize("order", list(permutations(["c1", "c2"])))
def test_a_tool_that_removes_a_part_does_not_bring_back_the_whole(order: tuple[str, ...]) -> None:
    before: Json = {"order": {"id": 1, "note": "x"}}
    after: dict[str, Json] = {"c1": {}, "c2": {"order": {"id": 1}}}
    play = Play.ready(context=before)
    play.replies(tool("forget", "c1"), tool("clean", "c2"))
    for call_id in order:
        play.returns(call_id, "ok", *diff(before, after[call_id]))
    assert play.state.context == {}


@pytest.mark.parametrize("output", ["", None, 0, False, [], {}, {"a": [1]}, "text"])
def test_an_output_reaches_the_model_as_it_is(output: Json) -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"))
    play.returns("c1", output)
    assert play.outputs == {"c1": output}


def test_a_call_that_cannot_run_is_told_why_and_the_model_goes_on() -> None:
    play = Play.ready()
    (command,) = play.replies(unknown("nobody", "c1", "There is no tool nobody."))
    assert command == play.only(CallModel)
    assert play.outputs == {"c1": "There is no tool nobody."}
    assert play.kinds == ["input", "tool_call", "tool_output"]


def test_calls_that_cannot_run_do_not_hold_up_those_that_can() -> None:
    play = Play.ready()
    play.replies(
        unknown("nobody", "c1"),
        tool("f", "c2"),
        tool("g", "c3", problem="Field a is missing."),
        transfer("Billing", "h1", problem="Field b is missing."),
    )
    assert play.running_ids == ["c2"]
    play.returns("c2")
    assert play.outputs == {
        "c1": "There is no such tool.",
        "c2": "ok",
        "c3": "Field a is missing.",
        "h1": "Field b is missing.",
    }
    assert play.kinds[-4:] == ["tool_output", "tool_output", "tool_output", "handoff_output"]
    assert play.state.agent == "Triage"


def test_a_call_that_cannot_run_needs_nobodys_approval() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1", problem="Field cents is missing."))
    assert play.state.approvals == ()
    assert play.outputs == {"c1": "Field cents is missing."}


@pytest.mark.parametrize("code", ["tool_failed", "tool_timeout", "ValueError", "cancelled"])
def test_a_failed_tool_is_told_to_the_model(code: str) -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"), tool("g", "c2"))
    play.fails(play.running("c1"), code, "secret internals")
    assert play.running_ids == ["c2"]
    play.returns("c2")
    assert play.outputs == {"c1": phrases.tool_failed("f", code), "c2": "ok"}
    assert play.state.failure is None


def test_a_tool_that_changed_nothing_leaves_the_context() -> None:
    context = {"n": 0}
    play = Play.ready(context=context)
    play.replies(tool("f", "c1"))
    play.returns("c1")
    assert play.only(CallModel).context == context


def test_the_plan_may_change_the_context_before_the_tools_run() -> None:
    play = Play.ready(context={"n": 0})
    play.replies(tool("f", "c1"), changes=(put("n", 1),))
    assert play.running("c1").context == {"n": 1}
    play.returns("c1")
    assert play.only(CallModel).context == {"n": 1}


def test_tools_side_by_side_start_from_the_same_context() -> None:
    play = Play.ready(context={"n": 0})
    play.replies(tool("f", "c1"), tool("g", "c2"))
    play.returns("c1", "ok", put("n", 1))
    assert play.state.context == {"n": 0}, "a change counts when the turn is over"
    assert play.running("c2").context == {"n": 0}


def test_a_call_approved_later_sees_what_the_calls_before_it_did() -> None:
    play = Play.ready(context={"n": 0})
    play.replies(tool("f", "c1"), gated("g", "c2"), tool("h", "c3"))
    play.returns("c1", "ok", put("n", 1))
    play.returns("c3", "ok", put("n", 3))
    assert play.state.context == {"n": 3}, "nothing else runs, so it counts from now on"
    play.decided("a1")
    assert play.running("c2").context == {"n": 3}
    play.returns("c2", "ok", put("m", 2))
    assert play.state.context == {"n": 3, "m": 2}


def test_a_call_approved_while_others_run_sees_what_the_calls_before_it_did() -> None:
    play = Play.ready(context={"n": 0})
    play.replies(tool("f", "c1"), gated("g", "c2"), tool("h", "c3"), tool("i", "c4"))
    play.returns("c1", "ok", put("n", 1))
    play.returns("c3", "ok", put("n", 3))
    play.decided("a1")
    assert play.running("c2").context == {"n": 1}, "calls after it have no say"
    play.returns("c2", "ok", put("m", 2))
    play.returns("c4")
    assert play.state.context == {"n": 3, "m": 2}


def test_the_same_tool_may_be_called_twice_in_one_reply() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1", '{"n": 1}'), tool("f", "c2", '{"n": 2}'))
    play.returns("c2", "second")
    play.returns("c1", "first")
    assert play.outputs == {"c1": "first", "c2": "second"}


def test_calls_of_one_reply_that_share_an_id_are_settled_each_by_itself() -> None:
    """Some servers number calls anew in every reply, or not at all."""
    play = Play.ready()
    play.replies(tool("f", ""), tool("g", ""))
    first, second = play.outstanding.values()
    play.fails(second)
    play.fails(first)
    outputs = [item.raw["output"] for item in play.state.items if item.kind == "tool_output"]
    assert outputs == [phrases.tool_failed("f", ""), phrases.tool_failed("g", "")]


def test_outputs_belong_to_the_agent_and_turn_that_called() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"))
    play.returns("c1")
    play.replies(tool("f", "c2"))
    play.returns("c2")
    outputs = [item for item in play.state.items if item.kind == "tool_output"]
    assert [(item.agent, item.turn) for item in outputs] == [("Triage", 1), ("Triage", 2)]
