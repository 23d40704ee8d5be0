"""Retries: the last question is asked again as it stands, and nothing is done or saved twice."""

from typing import Any

import pytest

from outlast.loop.checks import GuardrailRecord
from outlast.loop.effects import CallModel, SaveSession
from outlast.loop.items import Message
from outlast.loop.state import items_of
from outlast.loop.values import Failure
from tests.laws.driver import Play, message, said, tool

TRIPPED = GuardrailRecord(name="polite", stage="input", tripped=True)
BLOCKED = Failure(code="input_guardrail_tripwire", message="No.")


def failed(**start: Any) -> Play:
    """An open conversation whose first question has failed."""
    play = Play.ready(keep_open=True, said=message("start", "Refund A-17"), **start)
    if start.get("max_turns") != 0:
        play.fails(play.only(CallModel), "no_api_key")
    return play


def saved(play: Play) -> list[tuple[int, int]]:
    return [(one.start, one.stop) for one in play.issued if isinstance(one, SaveSession)]


def test_the_model_is_called_again_with_the_same_items() -> None:
    play = failed()
    assert play.state.phase == "idle"

    play.retried()

    call = play.only(CallModel)
    assert (play.state.phase, play.state.failure) == ("thinking", None)
    assert [one.raw for one in items_of(play.state, call)] == [
        {"role": "user", "content": "Refund A-17"}
    ]
    assert (call.turn, play.state.turns) == (1, 2)

    play.replies(said("Done."))

    assert play.answers() == [((), "no_api_key"), (("start",), None)]
    assert play.kinds == ["input", "message"]


def test_the_model_reads_what_the_failed_try_has_done() -> None:
    play = Play.ready(keep_open=True)
    play.replies(tool("refund", "c1"))
    play.returns("c1", output="refunded")
    play.fails(play.only(CallModel), "model_call_failed")

    play.retried()

    kinds = [one.kind for one in items_of(play.state, play.only(CallModel))]
    assert kinds == ["input", "tool_call", "tool_output"]


def test_a_question_may_fail_and_be_retried_again() -> None:
    play = failed()
    play.retried()
    play.fails(play.only(CallModel), "unauthorized")

    assert play.answers() == [((), "no_api_key"), (("start",), "unauthorized")]
    play.retried()
    play.replies(said("Done."))

    assert play.answers()[-1] == (("start",), None)


def test_messages_to_a_retried_question_are_answered_with_it() -> None:
    play = failed()
    play.retried()
    play.hears("m2", "Are you there?")
    play.replies(tool("refund", "c1"))
    play.returns("c1")
    play.replies(said("Done."))

    assert play.answers()[-1] == (("start", "m2"), None)


def test_guardrails_check_the_question_again() -> None:
    play = Play(keep_open=True)
    play.prepared(required_steps=("check_first", "check"))
    play.checked(failure=BLOCKED, results=(TRIPPED,))
    assert play.state.blocked_from == 0

    play.retried()

    assert (play.state.phase, play.state.blocked_from) == ("checking", None)
    play.checked()
    assert play.state.question.guardrails == ()
    play.checked()
    play.replies(said("Done."))
    assert play.answers()[-1] == (("start",), None)


def test_what_guardrails_pass_at_the_second_try_is_saved_once() -> None:
    play = Play(keep_open=True, session=True)
    play.prepared(required_steps=("check_first",))
    play.checked(failure=BLOCKED, results=(TRIPPED,))
    assert saved(play) == []

    play.retried()
    play.checked()
    play.replies(said("Done."))

    assert saved(play) == [(0, 2)]


def test_what_is_saved_is_not_saved_again() -> None:
    play = Play(keep_open=True, session=True)
    play.prepared()
    play.saved()
    play.fails(play.only(CallModel), "no_api_key")

    play.retried()
    play.replies(said("Done."))

    assert saved(play) == [(0, 1), (1, 2)]


def test_what_the_session_did_not_accept_is_tried_again_too() -> None:
    play = Play(keep_open=True, session=True)
    play.prepared()
    play.fails(play.only(SaveSession), "session_failed")
    play.fails(play.only(CallModel), "no_api_key")

    play.retried()

    assert play.only(SaveSession).stop == 1


@pytest.mark.parametrize(
    ("play", "answers", "why"),
    [
        (Play.ready(keep_open=True), 0, "The run is running: only an open conversation at rest"),
        (failed(), 0, "Another question has been asked since"),
        (failed(), 2, "Another question has been asked since"),
        (failed(max_turns=0), 1, "max_turns=0"),
    ],
)
def test_a_retry_that_does_not_apply_is_noted(play: Play, answers: int, why: str) -> None:
    assert play.retried(answers) == ()
    assert play.state.ignored[-1].what == "retry"
    assert why in play.state.ignored[-1].why


def test_an_answered_question_is_not_asked_again() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Done."))

    play.retried()

    assert "nothing to retry" in play.state.ignored[-1].why


def test_a_message_without_items_has_nothing_to_check() -> None:
    play = Play.ready(keep_open=True, said=Message("start", ()))
    nonsense = Failure(code="model_behavior", message="Nonsense.")
    play.replies(failure=nonsense, required_steps=("check",))
    assert (play.state.phase, play.state.question.question_from) == ("idle", len(play.state.items))

    play.retried()

    assert play.state.question.unchecked_from is None
    assert play.only(CallModel).turn == 1
