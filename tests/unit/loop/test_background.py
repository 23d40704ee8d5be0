"""Model calls whose response the provider makes in the background."""

from outlast.loop.calls import BegunResponse
from outlast.loop.effects import CallModel, CancelResponse, EffectAnswered, EffectFailed
from outlast.loop.values import Failure
from tests.laws.driver import Play, said

FIRST = BegunResponse(response_id="resp_1", number=1)
SECOND = BegunResponse(response_id="resp_2", number=2)
BROKEN = Failure(code="model_call_failed", message="It broke.")


def test_a_model_call_goes_on_with_the_id_of_its_response() -> None:
    play = Play.ready()
    call = play.only(CallModel)
    (again,) = play.replies(begun=FIRST)
    assert isinstance(again, CallModel)
    assert (again.begun, again.turn, again.input_length) == (FIRST, call.turn, call.input_length)
    assert not again.starts
    assert (play.state.turns, play.state.responses) == (1, ())
    play.replies(said("Thought."))
    assert (play.state.turns, len(play.state.responses)) == (1, 1)
    assert play.answers() == [(("start",), None)]


def test_a_response_that_was_lost_is_followed_by_another_one() -> None:
    play = Play.ready()
    play.replies(begun=FIRST)
    (again,) = play.replies(begun=SECOND)
    assert isinstance(again, CallModel)
    assert again.begun == SECOND  # the provider has ended the first: nothing is to be cancelled


def test_an_interrupt_cancels_the_response_and_asks_anew() -> None:
    play = Play.ready()
    play.replies(begun=FIRST)
    play.hears("m2", mode="interrupt")
    assert play.only(CancelResponse).response_id == "resp_1"
    assert play.only(CallModel).begun is None


def test_a_cancelled_run_ends_once_its_response_is_cancelled() -> None:
    play = Play.ready()
    play.replies(begun=FIRST)
    play.cancelled()
    stop = play.only(CancelResponse)
    assert play.state.phase == "closing"
    play.take(EffectAnswered(at_ms=play.now_ms, effect=stop.effect, result=None))
    assert play.state.outcome == "cancelled"


def test_a_response_that_cannot_be_cancelled_is_noted() -> None:
    play = Play.ready()
    play.replies(begun=FIRST)
    play.cancelled()
    stop = play.only(CancelResponse)
    play.take(EffectFailed(at_ms=play.now_ms, effect=stop.effect, failure=BROKEN))
    assert play.state.outcome == "cancelled"
    assert [one.what for one in play.state.ignored] == ["cancel of response resp_1"]


def test_a_model_call_that_fails_leaves_no_response_behind() -> None:
    play = Play.ready(keep_open=True)
    play.replies(begun=FIRST)
    call = play.only(CallModel)
    play.take(EffectFailed(at_ms=play.now_ms, effect=call.effect, failure=BROKEN))
    assert play.only(CancelResponse).response_id == "resp_1"
    assert play.answers() == [(("start",), "model_call_failed")]
