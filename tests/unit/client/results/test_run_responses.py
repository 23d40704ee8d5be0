"""What the models answered, response by response."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from outlast.agents.usage import plain_usage
from outlast.client.results.run_responses import RunResponse, last_turn, run_responses
from outlast.loop.values import NO_USAGE, Usage
from outlast.ports.model import ModelResponse
from tests.laws.driver import Play, said, searched, thought, tool


def talk() -> Play:
    play = Play.ready(keep_open=True)
    play.replies(thought(), tool("look_up", "c1"), searched(), response_id="r1")
    play.returns("c1")
    play.replies(said("First."), response_id="r2")
    play.hears("m2")
    play.replies(said("Second."), response_id="r3")
    return play


def test_a_response_has_what_was_written_in_it_and_no_outputs() -> None:
    first, second, third = run_responses(talk().state, after=0)
    assert [one["type"] for one in first.to_input_items()] == [
        "reasoning",
        "function_call",
        "web_search_call",
    ]
    assert [one.type for one in second.output] == ["message"]
    assert [one.response_id for one in (first, second, third)] == ["r1", "r2", "r3"]


@pytest.mark.parametrize(
    ("after", "until", "ids"),
    [(2, None, ["r3"]), (0, 2, ["r1", "r2"]), (3, None, []), (1, 1, [])],
)
def test_the_responses_of_some_turns_can_be_had(
    after: int, until: int | None, ids: list[str]
) -> None:
    found = run_responses(talk().state, after=after, until=until)
    assert [one.response_id for one in found] == ids


def test_a_response_without_items_is_a_response() -> None:
    play = Play.ready()
    play.replies(final="again", response_id="r1")
    play.replies(said("Done."), response_id="r2")
    assert [one.output == [] for one in run_responses(play.state, after=0)] == [True, False]


def test_the_last_turn_of_items() -> None:
    state = talk().state
    assert last_turn(state.items) == 3
    assert last_turn(state.items[:1]) == last_turn([]) == 0


def test_a_response_is_a_value_like_the_ports() -> None:
    raw: dict[str, Any] = {"type": "message", "role": "assistant", "content": []}
    usage = Usage(requests=1)
    one, same = RunResponse([raw], usage, "r", "q"), RunResponse([dict(raw)], usage, "r", "q")
    assert isinstance(one, ModelResponse)
    assert one == same
    assert one != RunResponse([raw], NO_USAGE, "r", "q")
    assert one != "r"
    assert (plain_usage(one.usage), one.request_id, one.raw_usage) == (usage, "q", None)
    assert repr(one).startswith("ModelResponse(output=[ResponseOutputMessage(id=")
    assert repr(one).endswith("response_id='r', request_id='q', raw_usage=None)")
    one.to_input_items()[0]["role"] = "changed"
    assert one.output[0].role == "assistant"
    with pytest.raises(FrozenInstanceError):
        one.usage = NO_USAGE  # pyright: ignore[reportAttributeAccessIssue]  on purpose
