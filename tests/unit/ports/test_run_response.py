"""A model's response as programs see it."""

from typing import Any, cast

from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage

from outlast.agents.usage import plain_usage
from outlast.loop.values import Usage
from outlast.ports.model import ModelResponse
from outlast.ports.run_response import RunResponse
from outlast.testing.scripted_model import call, say

ITEMS = [*say("Hello"), call("look_up", "call_1", order="A-17")]
USAGE = Usage(requests=1, input_tokens=3)
ANSWER = ModelResponse(
    output=ITEMS, usage=USAGE, response_id="r", request_id="q", raw_usage={"input_tokens": 3}
)


def test_its_items_are_the_providers_types() -> None:
    message, called = cast("RunResponse", RunResponse.of(ANSWER)).output
    assert isinstance(message, ResponseOutputMessage)
    assert isinstance(called, ResponseFunctionToolCall)
    assert (called.name, called.arguments) == ("look_up", '{"order": "A-17"}')


def test_all_else_is_as_the_model_said_it() -> None:
    seen = RunResponse.of(ANSWER)
    assert (plain_usage(seen.usage), seen.response_id, seen.request_id) == (USAGE, "r", "q")
    assert seen.raw_usage == {"input_tokens": 3}


def test_what_is_changed_in_it_changes_nothing_that_the_model_said() -> None:
    seen = cast("RunResponse", RunResponse.of(ANSWER))
    seen.output[1].name = "other"
    assert seen.to_input_items()[1]["name"] == "other"
    assert ITEMS[1]["name"] == "look_up"


def test_as_input_it_is_what_a_provider_takes_back() -> None:
    marked = {**ITEMS[1], "created_by": "p", "status": None}
    seen = RunResponse.of(ModelResponse(output=[marked], usage=USAGE))
    assert seen.output[0].created_by == "p"
    assert seen.to_input_items() == [ITEMS[1]]


def test_junk_stays_what_it_is() -> None:
    for output in ("junk", ["junk"], None):
        junk = ModelResponse(output=cast("Any", output), usage=USAGE)
        assert RunResponse.of(junk) is junk
