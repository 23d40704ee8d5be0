"""The next of an agent's models, called where the one before does not answer."""

from dataclasses import replace
from typing import Any

from outlast.loop.calls import BegunResponse, TriedModel
from outlast.loop.effects import (
    CallModel,
    CancelResponse,
    CompactView,
    EffectAnswered,
    EffectFailed,
    RunHandoff,
)
from outlast.loop.fallback import LONGEST_REASON, NEXT_MODEL
from outlast.loop.run_changes import ModelReplaced, run_changes
from outlast.loop.values import Failure, Json, Usage
from tests.laws.driver import Play, said, tool, transfer

OVERLOADED = "The model provider is too busy."
FIRST_TRIED = TriedModel(model="first", reason="overloaded", message=OVERLOADED)


def failure_of(at: Any = 1, tried: str = "first", model: str = "second") -> Failure:
    """The failure of a model that another one may follow."""
    following: Json = {"at": at, "model": model, "tried": tried}
    details = {"reason": "overloaded", NEXT_MODEL: following}
    return Failure(code="model_call_failed", message=OVERLOADED, details=details)


def fail(play: Play, failure: Failure) -> None:
    """Let the model call fail for good."""
    call = play.only(CallModel)
    play.take(EffectFailed(at_ms=play.now_ms, effect=call.effect, failure=failure))


def test_a_model_that_does_not_answer_is_followed_by_the_next_one_in_the_same_turn() -> None:
    play = Play.ready()
    before = play.only(CallModel)
    fail(play, failure_of())
    call = play.only(CallModel)
    assert call.effect != before.effect
    assert call == replace(before, effect=call.effect, model_at=1, tried=(FIRST_TRIED,))
    assert (play.state.turns, play.state.model, play.state.phase) == (1, "second", "thinking")
    play.replies(said("Here."), model="second")
    assert play.answers() == [(("start",), None)]
    assert [one.model for one in play.state.responses] == ["second"]


def test_a_question_stays_with_the_model_that_answers_until_the_next_one() -> None:
    play = Play.ready(keep_open=True)
    fail(play, failure_of())
    play.replies(tool("look_up", "c1"), model="second")
    play.returns("c1")
    call = play.only(CallModel)
    assert (call.turn, call.model_at, call.tried) == (2, 1, (FIRST_TRIED,))
    play.replies(said("Here."), model="second")
    play.hears("m2")
    call = play.only(CallModel)
    assert (call.model_at, call.tried, play.state.model) == (0, (), "first")


def test_each_model_is_tried_once_and_the_last_failure_names_them_all() -> None:
    play = Play.ready(keep_open=True)
    fail(play, failure_of())
    fail(play, failure_of(at=2, tried="second", model="third"))
    last = Failure(code="model_call_failed", message="Gone.", details={"reason": "not_found"})
    fail(play, last)
    failure = play.state.failure
    assert failure is not None
    assert failure.message == (
        "No model answered (first: overloaded; second: overloaded). The last one: Gone."
    )
    assert failure.details == {
        "reason": "not_found",
        "tried": [
            {"model": "first", "reason": "overloaded"},
            {"model": "second", "reason": "overloaded"},
        ],
    }


def test_a_failed_question_that_is_asked_again_begins_with_the_first_model() -> None:
    play = Play.ready(keep_open=True)
    fail(play, failure_of())
    fail(play, Failure(code="model_call_failed", message="Gone."))
    play.retried()
    call = play.only(CallModel)
    assert (call.model_at, call.tried, play.state.model) == (0, (), "first")


def test_an_agent_that_takes_over_begins_with_its_own_first_model() -> None:
    play = Play.ready()
    fail(play, failure_of())
    play.replies(transfer("Billing", "h1"), model="second")
    call = play.only(CallModel)
    assert (call.agent, call.model_at, call.tried) == ("Billing", 0, ())
    assert play.state.model == "model-Billing"


def test_a_summary_is_written_by_the_model_that_answers_the_question() -> None:
    play = Play.ready(keep_open=True)
    fail(play, failure_of())
    for number in range(1, 4):
        play.replies(tool("look_up", f"c{number}"), compaction="beside")
        play.returns(f"c{number}", output="long " * 50)
    found = [one for one in play.state.pending if isinstance(one, CompactView)]
    assert [one.model_at for one in found] == [1]


def test_a_response_in_the_background_that_is_lost_is_made_by_the_next_model() -> None:
    play = Play.ready()
    begun = BegunResponse(response_id="resp_1", number=1)
    play.replies(begun=begun)
    fail(play, failure_of())
    call = play.only(CallModel)
    assert (call.begun, call.model_at, call.starts) == (None, 1, False)
    stop = play.only(CancelResponse)
    assert (stop.response_id, stop.model_at) == ("resp_1", 0)
    play.take(EffectAnswered(at_ms=play.now_ms, effect=stop.effect, result=None))
    play.replies(begun=replace(begun, response_id="resp_2"))
    play.cancelled()
    assert play.only(CancelResponse).model_at == 1


def test_what_is_no_place_of_a_later_model_is_no_next_model() -> None:
    for at in (0, -1, True, "1", None):
        play = Play.ready(keep_open=True)
        fail(play, failure_of(at=at))
        assert play.answers() == [(("start",), "model_call_failed")], at
    play = Play.ready(keep_open=True)
    fail(play, Failure(code="model_call_failed", message="No.", details={NEXT_MODEL: [1]}))
    assert play.answers() == [(("start",), "model_call_failed")]


def test_a_reason_is_the_code_where_the_provider_gave_none_and_long_messages_are_cut() -> None:
    play = Play.ready()
    following = {NEXT_MODEL: {"at": 1}}
    fail(play, Failure(code="model_timeout", message="x" * 1_000, details=following))
    (tried,) = play.only(CallModel).tried
    assert tried == TriedModel(model="", reason="model_timeout", message="x" * LONGEST_REASON)
    fail(play, Failure(code="model_call_failed", message="Gone."))
    failure = play.state.failure
    assert failure is not None
    assert failure.message.startswith("No model answered (the default model: model_timeout).")


def test_usage_of_a_question_is_that_of_the_model_that_answered() -> None:
    play = Play.ready()
    fail(play, failure_of())
    play.replies(said("Here."), model="second", usage=Usage(requests=1, total_tokens=7))
    assert play.state.usage.total_tokens == 7


def test_a_handoff_whose_callback_fails_asks_no_other_model() -> None:
    play = Play.ready(keep_open=True)
    play.replies(transfer("Billing", "h1", callback=True))
    effect = play.only(RunHandoff)
    play.take(EffectFailed(at_ms=play.now_ms, effect=effect.effect, failure=failure_of()))
    assert play.answers() == [(("start",), "model_call_failed")]


def test_readers_hear_once_of_a_model_that_is_replaced() -> None:
    play = Play.ready(keep_open=True)
    before = play.state
    fail(play, failure_of())
    found = [one for one in run_changes(before, None, play.state) if isinstance(one, ModelReplaced)]
    assert found == [ModelReplaced(play.state.agent, FIRST_TRIED, "second")]
    before = play.state
    play.replies(said("Here."), model="second")
    play.hears("m2")
    assert not [
        one for one in run_changes(before, None, play.state) if isinstance(one, ModelReplaced)
    ]
