"""The model that says what a test wrote down."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import openai
import pytest

from outlast.agents.items.typed_events import typed_event
from outlast.loop.values import JsonObject, Usage
from outlast.ports.model import ModelError, ModelRequest, response_of_stream
from outlast.testing import ScriptedModel, call, refuse, say
from outlast.testing.scripted_model import (
    TOKENS,
    Reply,
    Step,
    after,
    costing,
    fail_after,
    paced,
    raw_call,
    wait_for,
)

REQUEST = ModelRequest(instructions=None, input=[{"role": "user", "content": "Hello"}])


async def output_content(model: ScriptedModel) -> Any:
    return (await model.get_response(REQUEST)).output


def of_the_request(request: ModelRequest) -> Reply:
    return say(f"You said {request.input[0]['content']}.")


async def later(request: ModelRequest) -> Reply:
    return of_the_request(request)


def text_of_the_request(request: ModelRequest) -> str:
    return f"You said {request.input[0]['content']}."


async def text_later(request: ModelRequest) -> str:
    return text_of_the_request(request)


@pytest.mark.parametrize(
    ("step", "reply"),
    [
        ("Hi", say("Hi")),
        ([call("look_up", "c1", id=5)], [call("look_up", "c1", id=5)]),
        (refuse("No."), refuse("No.")),
        (of_the_request, say("You said Hello.")),
        (later, say("You said Hello.")),
        (text_of_the_request, say("You said Hello.")),
        (text_later, say("You said Hello.")),
    ],
)
async def test_a_step_may_be_written_in_many_ways(step: Step, reply: Reply) -> None:
    assert await output_content(ScriptedModel(step)) == reply


async def test_every_call_takes_the_next_step_and_is_written_down() -> None:
    model = ScriptedModel("one", always="more")
    model.then("two")
    assert [(await output_content(model))[0]["content"][0]["text"] for _ in range(4)] == [
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
        await output_content(model)
    assert await output_content(model) == say("up")
    assert model.calls == 2


async def test_a_script_that_is_too_short_says_so_and_is_not_tried_again() -> None:
    with pytest.raises(ModelError, match="no step for model call 1") as caught:
        await output_content(ScriptedModel())
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


async def streamed(model: ScriptedModel) -> list[JsonObject]:
    return [event async for event in model.stream_response(REQUEST)]


async def test_a_step_can_be_streamed_as_a_provider_does() -> None:
    model = ScriptedModel([*say("Good morning to you."), call("look_up", "c1", id=5)])
    events = await streamed(model)
    deltas = [event["delta"] for event in events if event["type"].endswith("text.delta")]
    assert deltas == ["Good ", "morning ", "to ", "you."]
    calls = [event["delta"] for event in events if event["type"].endswith("arguments.delta")]
    assert "".join(calls) == '{"id": 5}'
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert (events[0]["type"], events[-1]["type"]) == ("response.created", "response.completed")
    assert model.calls == 1


async def test_every_event_of_a_stream_is_one_of_the_providers() -> None:
    for event in await streamed(ScriptedModel([*say("Hi"), *refuse("No."), call("t", "c1")])):
        kind: Any = typed_event(event).__class__
        assert kind is not openai.BaseModel
        kind.model_validate(_as_sent(event))


def _as_sent(event: JsonObject) -> JsonObject:
    """Fill in of a response and its message what a script does not write down."""
    if "response" in event:
        output = [{"id": "x", "status": "completed", **one} for one in event["response"]["output"]]
        head: JsonObject = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        response: JsonObject = {**head, **event["response"], "output": output}
        if response["usage"]:
            response["usage"]["input_tokens_details"]["cache_write_tokens"] = 0
        return {**event, "response": response}
    item = event.get("item")
    return {**event, "item": {"status": "completed", **item}} if item else event


async def test_a_stream_ends_with_the_reply_that_is_given_without_it() -> None:
    model = ScriptedModel("Hi there", "Hi there")
    whole = await model.get_response(REQUEST)
    at_the_end = await response_of_stream(model.stream_response(REQUEST))
    assert at_the_end.output == whole.output == say("Hi there")
    assert at_the_end.usage == whole.usage
    assert at_the_end.response_id == "resp_2"


async def test_a_stream_breaks_off_where_the_script_says_so() -> None:
    model = ScriptedModel(fail_after(5, ValueError("cut off"), "Good morning"), "up")
    seen: list[JsonObject] = []
    with pytest.raises(ValueError, match="cut off"):
        await response_of_stream(model.stream_response(REQUEST), seen.append)
    assert "".join(event.get("delta", "") for event in seen) == "Good "
    assert await output_content(model) == say("up")


async def test_what_breaks_off_when_streamed_fails_as_a_whole_otherwise() -> None:
    with pytest.raises(ValueError, match="cut off"):
        await output_content(ScriptedModel(fail_after(5, ValueError("cut off"), "Good morning")))


async def test_a_stream_too_short_to_break_off_says_so() -> None:
    with pytest.raises(ValueError, match=r"fail_after\(500\): the reply has only 9 events"):
        await streamed(ScriptedModel(fail_after(500, ValueError("cut off"), "Hi")))


async def test_a_failure_is_raised_before_a_stream_says_anything() -> None:
    with pytest.raises(ValueError, match="down"):
        await anext(ScriptedModel(ValueError("down")).stream_response(REQUEST))


async def test_the_model_thinks_until_it_may_speak() -> None:
    gate = asyncio.Event()
    model = ScriptedModel(wait_for(gate, "Hi"))
    answer = asyncio.create_task(output_content(model))
    done, _ = await asyncio.wait({answer}, timeout=0.02)
    assert not done
    assert model.calls == 1
    gate.set()
    assert await answer == say("Hi")


@pytest.mark.parametrize("delay", [0.02, timedelta(milliseconds=20)])
async def test_a_delay_comes_before_the_step_whatever_it_is(delay: float | timedelta) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    with pytest.raises(ValueError, match="down"):
        await output_content(ScriptedModel(after(delay, ValueError("down"))))
    assert loop.time() - begun >= 0.015


async def test_a_paced_stream_takes_its_time_for_every_event() -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    events = await streamed(ScriptedModel(paced(0.002, "a b c d")))
    assert loop.time() - begun >= 0.001 * len(events)


async def test_directions_can_be_combined() -> None:
    usage = Usage(requests=1, input_tokens=7)
    gate = asyncio.Event()
    gate.set()
    step = costing(usage, after(0.0, wait_for(gate, paced(0.0, "Hi"))))
    assert (await ScriptedModel(step).get_response(REQUEST)).usage == usage
    assert (await response_of_stream(ScriptedModel(step).stream_response(REQUEST))).usage == Usage(
        requests=1, input_tokens=7, total_tokens=7
    )


async def test_a_script_may_begin_again() -> None:
    model = ScriptedModel("one", "two", repeat=True)
    said = [(await output_content(model))[0]["content"][0]["text"] for _ in range(5)]
    assert said == ["one", "two", "one", "two", "one"]


def test_a_call_has_arguments_as_json_text_or_as_anything() -> None:
    assert json.loads(call("t", "c1", a=1, b=None)["arguments"]) == {"a": 1, "b": None}
    assert raw_call("t", "c1", "{not json")["arguments"] == "{not json"
    assert call("t", "c1")["call_id"] == "c1"
    assert json.loads(call("t", "c1", name="Ann", call_id="x")["arguments"])["name"] == "Ann"
