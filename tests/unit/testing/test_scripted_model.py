"""The model that says what a test wrote down."""

import json
from typing import Any

import pytest

from outlast.ports.model import ModelError, ModelRequest
from outlast.testing import ScriptedModel, call, refuse, say
from outlast.testing.scripted_model import TOKENS, Reply, Step, raw_call

REQUEST = ModelRequest(instructions=None, input=[{"role": "user", "content": "Hello"}])


async def said_by(model: ScriptedModel) -> Any:
    return (await model.get_response(REQUEST)).output


def of_the_request(request: ModelRequest) -> Reply:
    return say(f"You said {request.input[0]['content']}.")


async def later(request: ModelRequest) -> Reply:
    return of_the_request(request)


@pytest.mark.parametrize(
    ("step", "reply"),
    [
        ("Hi", say("Hi")),
        ([call("look_up", "c1", id=5)], [call("look_up", "c1", id=5)]),
        (refuse("No."), refuse("No.")),
        (of_the_request, say("You said Hello.")),
        (later, say("You said Hello.")),
    ],
)
async def test_a_step_may_be_written_in_many_ways(step: Step, reply: Reply) -> None:
    assert await said_by(ScriptedModel(step)) == reply


async def test_every_call_takes_the_next_step_and_is_written_down() -> None:
    model = ScriptedModel("one", always="more")
    model.then("two")
    assert [(await said_by(model))[0]["content"][0]["text"] for _ in range(4)] == [
        "one",
        "two",
        "more",
        "more",
    ]
    assert model.calls == 4
    assert model.requests == [REQUEST] * 4


async def test_a_failure_is_raised_and_counts_as_a_call() -> None:
    model = ScriptedModel(ValueError("down"), "up")
    with pytest.raises(ValueError, match="down"):
        await said_by(model)
    assert await said_by(model) == say("up")
    assert model.calls == 2


async def test_a_script_that_is_too_short_says_so_and_is_not_tried_again() -> None:
    with pytest.raises(ModelError, match="no step for model call 1") as caught:
        await said_by(ScriptedModel())
    assert not caught.value.retryable


async def test_a_reply_costs_something_and_has_an_id() -> None:
    model = ScriptedModel("a", "b")
    await model.get_response(REQUEST)
    response = await model.get_response(REQUEST)
    assert (response.usage, response.response_id) == (TOKENS, "resp_2")


async def test_it_is_its_own_provider() -> None:
    model = ScriptedModel("a")
    assert model.get_model("gpt-5") is model.get_model(None) is model
    await model.aclose()
    assert (model.names, model.closed) == (["gpt-5", None], 1)


def test_it_does_not_stream() -> None:
    with pytest.raises(NotImplementedError):
        ScriptedModel().stream_response(REQUEST)


def test_a_call_has_arguments_as_json_text_or_as_anything() -> None:
    assert json.loads(call("t", "c1", a=1, b=None)["arguments"]) == {"a": 1, "b": None}
    assert raw_call("t", "c1", "{not json")["arguments"] == "{not json"
    assert call("t", "c1")["call_id"] == "c1"
