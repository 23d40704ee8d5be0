"""What a run came to, and the errors that stand for failures."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from outlast.agents import errors
from outlast.agents.errors import AgentsException, ServerUnavailable, UserError
from outlast.client.results import error_of, result_of, result_of_answer
from outlast.contract import failures
from outlast.loop.items import text_of
from outlast.loop.state import RunState
from outlast.loop.values import Failure
from tests.loop_driver import Play, gated, said, tool


@dataclass
class Desk:
    name: str


def answered() -> RunState:
    """The state of a run that called a tool and answered."""
    play = Play.ready(context={"name": "Ann"})
    play.replies(tool("look_up", "c1"))
    play.returns("c1", "found")
    play.replies(said("It is on its way."))
    return play.state


def test_a_result_says_what_the_run_came_to() -> None:
    state = answered()
    result = result_of(state)
    assert (result.run_id, result.status, result.final_output) == (
        "support-42",
        "completed",
        "It is on its way.",
    )
    assert (result.last_agent, result.turns, result.usage) == ("Triage", 2, state.usage)
    assert (result.items, result.interruptions) == (state.items, ())


def test_the_transcript_can_be_said_to_another_run() -> None:
    kinds = [raw.get("type", raw.get("role")) for raw in result_of(answered()).to_input_list()]
    assert kinds == ["user", "function_call", "function_call_output", "message"]


def test_the_context_comes_back_as_the_applications_type() -> None:
    result = result_of(answered())
    assert result.context == {"name": "Ann"}
    assert result.context_as(Desk) == Desk("Ann")
    with pytest.raises(UserError, match="does not fit int"):
        result.context_as(int)


def test_a_run_that_waits_says_for_what() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"))
    result = result_of(play.state)
    assert (result.status, result.final_output) == ("waiting", None)
    assert [request.name for request in result.interruptions] == ["refund"]


def test_an_earlier_answer_of_a_conversation_can_be_had() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("First."))
    play.hears("m2")
    play.replies(said("Second."))
    first, second = play.state.answers
    assert result_of_answer(play.state, first).final_output == "First."
    assert result_of_answer(play.state, second).final_output == "Second."
    assert second.item is not None
    assert text_of(play.state.items[second.item].raw) == "Second."


CODES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, AgentsException)
]


@pytest.mark.parametrize("kind", [kind for kind in CODES if kind is not ServerUnavailable])
def test_a_failure_is_raised_as_the_error_of_its_code(kind: type[AgentsException]) -> None:
    state = answered()
    error = error_of(Failure(code=kind.code, message="What to do."), state)
    assert type(error) is kind
    assert error.message == "What to do."
    assert error.run_data == result_of(state)
    assert error_of(Failure(code=kind.code, message="")).run_data is None


@pytest.mark.parametrize("code", ["", "ValueError", failures.INTERNAL, "a_code_of_the_future"])
def test_a_code_that_nobody_knows_is_still_an_error_of_ours(code: str) -> None:
    error = error_of(Failure(code=code, message="Odd."))
    assert type(error) is AgentsException
    assert str(error) == "Odd."


def test_every_failure_that_a_run_can_have_has_an_error() -> None:
    codes: dict[str, Any] = {
        name: value for name, value in vars(failures).items() if isinstance(value, str)
    }
    for name, code in codes.items():
        if name.isupper() and code != failures.INTERNAL:
            assert type(error_of(Failure(code=code, message=""))) is not AgentsException, name


def test_a_result_is_a_value() -> None:
    result = result_of(answered())
    assert replace(result) == result
