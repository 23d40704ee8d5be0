"""What begins and ends in a run, between two of its states.

That every stage begins and ends once, inside of the one around it, holds of every run of the loop's
tests: `Play` checks it after every event.
"""

from collections.abc import Callable

import pytest

from outlast.contract.stages import Stage, StageBegun, StageEnded, resumed
from outlast.loop.approvals import ApprovalTerms
from outlast.loop.effects import CallModel, FinalizeAnswer, RunAgent, RunHandoff
from outlast.loop.phrases import STOPPED
from outlast.loop.start import Budget
from outlast.loop.values import Failure, Usage, reference
from tests.laws.driver import STARTED_AT_MS, Play, gated, nested, said, tool, transfer


def shown(play: Play) -> list[str]:
    """Return what began and ended, in short."""
    lines: list[str] = []
    for change in play.changes:
        stage = change.stage
        what = f"{stage.kind} {stage.turn or stage.agent or stage.question}"
        lines.append(f"+ {what}" if isinstance(change, StageBegun) else f"- {what}")
    return lines


def ended(play: Play, kind: str, at: int = -1) -> StageEnded:
    """Return the end of a stage of a kind."""
    every = [one for one in play.changes if isinstance(one, StageEnded) and one.stage.kind == kind]
    return every[at]


def test_an_answer_is_a_question_an_agent_and_a_turn() -> None:
    play = Play.ready()
    play.replies(said("Hi."), usage=Usage(requests=1, input_tokens=5))
    assert shown(play) == [
        "+ question 0",
        "+ agent Triage",
        "+ turn 1",
        "- turn 1",
        "- agent Triage",
        "- question 0",
    ]
    begin, end = STARTED_AT_MS + 1_000, STARTED_AT_MS + 2_000
    for kind in ("question", "agent", "turn"):
        over = ended(play, kind)
        assert (over.stage.since_ms, over.at_ms, over.failure) == (begin, end, None)
        assert over.usage == Usage(requests=1, input_tokens=5)


def test_a_stage_that_says_no_more_is_the_first_of_its_kind() -> None:
    stage = Stage(kind="question", question=2)
    assert stage.identity == ("question", 2, 0, 0, 0, "")
    assert (stage.agent, stage.name, stage.arguments, stage.since_ms) == ("", "", "", 0)


def test_a_turn_spends_what_its_own_calls_spend() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"), usage=Usage(requests=1, input_tokens=5))
    play.worked(status="completed", final_output="So.", usage=Usage(requests=2, input_tokens=7))
    play.replies(said("Hi."), usage=Usage(requests=1, input_tokens=1))
    assert ended(play, "turn", 0).usage == Usage(requests=3, input_tokens=12)
    assert ended(play, "turn", 1).usage == Usage(requests=1, input_tokens=1)
    assert ended(play, "question").usage == Usage(requests=4, input_tokens=13)
    assert ended(play, "nested_run").output == "So."


def test_what_a_question_begins_with_is_checked_in_its_first_turn() -> None:
    play = Play()
    play.prepared(required_steps=("check_first",))
    assert [one.kind for one in play.stages] == ["question", "agent", "turn"]
    play.checked()
    assert [one.turn for one in play.stages] == [0, 0, 1]


def test_a_first_turn_goes_on_when_people_have_extended_the_budget() -> None:
    limit = Budget(of="model_calls", limit=1, per="run", terms=ApprovalTerms())
    play = Play(keep_open=True, budgets=(limit,))
    play.prepared(required_steps=("check_first",))
    play.checked()
    play.replies(said("Hello."), required_steps=("check_first",))
    play.holds()
    play.hears("m2", "Again")
    play.says("Later.")
    play.releases()
    play.hears("m3", "Now")
    play.checked()  # what a person has answered is checked first
    assert play.state.phase == "asking"
    play.decided(play.state.approvals[0].id)
    play.checked()
    assert play.state.phase == "thinking"
    begun = [one.stage for one in play.changes if isinstance(one, StageBegun)]
    assert [one.question for one in begun if one.kind == "turn"] == [0, 2]


def test_what_is_said_later_is_checked_between_two_turns() -> None:
    play = Play()
    play.prepared(required_steps=("check",))
    play.checked()
    play.hears("m2")
    play.replies(final="again", required_steps=("check",))
    assert [one.kind for one in play.stages] == ["question", "agent"]
    play.checked()
    assert play.stages[-1].turn == 2


def test_a_handoff_without_anything_to_run_is_told_all_the_same() -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "h1"), transfer("Orders", "h2"))
    assert shown(play)[3:] == [
        "+ handoff 1",
        "- handoff 1",
        "- turn 1",
        "- agent Triage",
        "+ agent Billing",
        "+ turn 2",
    ]
    over = ended(play, "handoff")
    assert (over.target, over.stage.targets) == ("Billing", ("Billing", "Orders"))
    assert over.stage.handovers == 0


def test_a_handoff_lasts_as_long_as_its_callback() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"), transfer("Billing", "h1", callback=True), transfer("C", "h2"))
    play.returns("c1")
    assert play.stages[-1].targets == ("Billing", "C")
    play.called_back(target="Orders")
    over = ended(play, "handoff")
    assert (over.target, over.at_ms - over.stage.since_ms) == ("Orders", 1_000)


def test_a_handoff_that_fails_ends_everything_with_its_failure() -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "h1", callback=True))
    failure = play.fails(play.only(RunHandoff))
    for kind in ("handoff", "turn", "agent", "question"):
        assert ended(play, kind).failure == failure


@pytest.mark.parametrize(
    ("result", "failure"),
    [
        ({"status": "cancelled"}, "It was cancelled."),
        ({"status": "failed", "failure": Failure(code="x", message="No.")}, "No."),
    ],
)
def test_a_nested_run_that_does_not_answer_fails_its_stage(
    result: dict[str, object], failure: str
) -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"))
    play.worked(**result)
    over = ended(play, "nested_run")
    assert over.failure is not None
    assert (over.failure.message, over.output) == (failure, None)


def test_a_nested_run_that_cannot_be_run_fails_its_stage() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"))
    failure = play.fails(play.only(RunAgent))
    assert ended(play, "nested_run").failure == failure
    assert ended(play, "turn").failure is None, "the model reads of it"


def test_an_output_that_is_stored_elsewhere_is_told_by_its_size() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"))
    play.worked(status="completed", final_output=reference(f"sha256:{'0' * 64}", 9_000))
    assert ended(play, "nested_run").output == "[9,000 bytes, stored outside of the run]"


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
def test_what_is_stopped_ends_as_stopped(mode: str) -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"), nested("Billing", "c2"))
    play.cancelled("immediate" if mode == "immediate" else "after_turn")
    if mode == "after_turn":
        play.returns("c1")
        play.worked(status="completed", final_output="So.")
    for kind in ("turn", "agent", "question"):
        assert ended(play, kind).failure == Failure(code="cancelled", message=STOPPED)
    cut_off = ended(play, "nested_run").failure
    assert (cut_off is not None) == (mode == "immediate")


def test_the_turn_that_uses_the_budget_up_has_not_failed() -> None:
    play = Play.ready(max_turns=1)
    play.replies(final="again")
    assert ended(play, "turn").failure is None
    assert ended(play, "agent").failure == play.state.failure is not None


def test_a_question_without_a_turn_begins_and_ends_at_once() -> None:
    play = Play(max_turns=0)
    play.prepared()
    assert shown(play) == ["+ question 0", "+ agent Triage", "- agent Triage", "- question 0"]
    assert ended(play, "agent").failure == play.state.failure is not None
    assert [one.stage.handovers for one in play.changes] == [0] * 4


def fails_for_good(play: Play) -> None:
    play.fails(play.only(FinalizeAnswer))


def is_blocked(play: Play) -> None:
    play.concluded(failure=Failure(code="output_guardrail", message="No."))


@pytest.mark.parametrize(("happens", "fails_turn"), [(fails_for_good, True), (is_blocked, False)])
def test_guardrails_run_after_the_turn_and_hooks_in_it(
    happens: Callable[[Play], None], fails_turn: bool
) -> None:
    play = Play()
    play.prepared(required_steps=("finalize_answer",))
    play.replies(said("Hi."), required_steps=("finalize_answer",))
    assert play.stages[-1].kind == "turn"
    happens(play)
    assert ended(play, "agent").failure == play.state.failure is not None
    assert (ended(play, "turn").failure is not None) == fails_turn


def test_a_failure_that_a_handler_answers_is_the_turns_alone() -> None:
    play = Play(handled=("*",))
    play.prepared()
    failure = play.fails(play.only(CallModel))
    assert ended(play, "turn").failure == failure
    assert [one.kind for one in play.stages] == ["question", "agent"]
    play.concluded(output="Later.", replaced=True)
    assert ended(play, "agent").failure is None


def test_questions_of_a_conversation_are_apart() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("One."))
    assert play.stages == ()
    play.hears("m2")
    assert {one.question for one in play.stages} == {1}
    play.hears("m3")
    play.cancelled()
    assert play.stages == ()


def test_a_state_of_unknown_past_has_its_stages_since_the_run_began() -> None:
    play = Play.ready()
    assert resumed(play.state, play.stages) is play.stages
    stages = resumed(play.state)
    assert [one.identity for one in stages] == [one.identity for one in play.stages]
    assert {one.since_ms for one in stages} == {STARTED_AT_MS}


def test_a_run_that_stops_while_its_session_is_saved_has_stopped_its_agent() -> None:
    play = Play(session=True)
    play.prepared()
    play.cancelled("after_turn")
    play.replies(tool("look_up", "c1"))
    play.returns("c1")
    assert play.state.phase == "closing"
    assert ended(play, "agent").failure == Failure(code="cancelled", message=STOPPED)


def test_a_wait_for_people_is_told_when_it_is_over() -> None:
    limit = Budget(of="model_calls", limit=1, per="run", terms=ApprovalTerms())
    play = Play(keep_open=True, budgets=(limit,))
    play.prepared()
    play.replies(said("Hello."))
    play.hears("m2", "Again")
    (request,) = play.state.approvals
    play.decided(request.id)
    play.holds()
    play.says("Later.")
    play.releases()
    over = [
        (one.stage.request, one.stage.targets, one.stage.question, one.output)
        for one in play.changes
        if isinstance(one, StageEnded) and one.stage.kind == "wait"
    ]
    assert over[0] == (request.id, ("budget",), 1, "approved")
    assert [(targets, outcome) for _, targets, _, outcome in over[1:]] == [
        (("takeover",), "released")
    ]


def test_two_calls_of_one_id_that_are_dropped_at_once_are_two_stages() -> None:
    play = Play(keep_open=True)
    play.prepared()
    play.replies(gated("refund", "c0"))
    play.attached()
    play.speaks(gated("refund", "c0"))
    assert [one.plan.item for one in play.state.calls] == [0, 0]
    play.cancelled()
    dropped = [one for one in play.changes if one.stage.kind == "refused_call"]
    assert len(dropped) == 4
    assert len({one.stage.identity for one in dropped}) == 2


def test_a_rating_belongs_to_the_newest_question_and_is_over_at_once() -> None:
    play = Play(keep_open=True)
    play.prepared()
    play.replies(said("Hello."))
    play.hears("m2", "Again")
    play.replies(said("Hello again."))
    play.rates(2, "Slow.")
    play.rates(2, "Slow.")
    found = [one for one in play.changes if one.stage.kind == "rating"]
    assert [type(one) for one in found] == [StageBegun, StageEnded]
    stage = found[0].stage
    assert (stage.question, stage.name, stage.arguments) == (1, "2", "Slow.")
    assert play.stages == ()
