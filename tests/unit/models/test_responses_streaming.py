import asyncio
from contextlib import aclosing
from datetime import timedelta

import pytest

from outlast.agents.config.model_settings import ModelSettings
from outlast.loop.values import JsonObject
from outlast.models import ResponsesModel
from outlast.ports.model import ModelError
from tests.unit.models.conftest import over_both
from tests.unit.models.model_server import ModelServer
from tests.unit.models.responses_api import ask, message, response
from tests.unit.models.streams import collect, collect_until_failure


def named(transport: str) -> JsonObject:
    """The id of the request, which only HTTP has, in the first event that outlast keeps it in."""
    return {"request_id": "req_s"} if transport != "websocket" else {}


@over_both
async def test_a_stream_yields_the_providers_events_and_ends_with_the_response(
    model: ResponsesModel, server: ModelServer, transport: str
) -> None:
    events: list[JsonObject] = [
        {"type": "response.created", "response": response(status="in_progress")},
        {"type": "response.output_text.delta", "delta": "h", "item_id": "msg_1"},
        {"type": "response.output_text.delta", "delta": "i", "item_id": "msg_1"},
        {"type": "response.completed", "response": response(message("hi"))},
    ]
    server.stream(events)
    events[-1] |= named(transport)
    assert await collect(model.stream_response(ask())) == events
    assert server.request.body.get("stream") is (True if transport != "websocket" else None)


@over_both
async def test_an_answer_cut_short_ends_its_stream_as_completed(
    model: ResponsesModel, server: ModelServer, transport: str
) -> None:
    half = {**message("hi"), "status": "incomplete"}
    whole = response(half, status="incomplete")
    server.stream([{"type": "response.incomplete", "response": whole}])
    assert await collect(model.stream_response(ask())) == [
        {"type": "response.completed", "response": whole, **named(transport)}
    ]


@over_both
@pytest.mark.parametrize(
    ("last", "code"),
    [
        ({"type": "error", "code": "server_error", "message": "Sorry."}, "server_error"),
        ({"type": "error", "error": {"code": "rate_limit_exceeded"}}, "rate_limited"),
        ({"type": "error", "code": None, "message": "Sorry."}, "server_error"),
        ({"type": "error", "error": "Sorry."}, "server_error"),
        (
            {
                "type": "response.failed",
                "response": response(status="failed", error={"code": "invalid_prompt"}),
            },
            "invalid_request",
        ),
        ({"type": "response.failed"}, "bad_response"),
        ({"type": "response.completed", "response": {"output": 7}}, "bad_response"),
        ({"choices": []}, "bad_response"),
        ([{"error": {"code": 503, "message": "Sorry."}}], "overloaded"),
        (["x"], "bad_response"),
        (b"not json", "bad_response"),
        (b"\xff\xfe", "bad_response"),
    ],
)
async def test_a_failure_in_the_middle_of_a_stream_comes_after_what_was_said(
    model: ResponsesModel, server: ModelServer, last: object, code: str
) -> None:
    first: JsonObject = {"type": "response.output_text.delta", "delta": "h"}
    server.stream([first, last])
    said, failure = await collect_until_failure(model.stream_response(ask()))
    assert said == [first]
    assert failure.code == code


async def test_a_stream_that_ends_early_is_a_bad_response(
    model: ResponsesModel, server: ModelServer
) -> None:
    server.stream([{"type": "response.output_text.delta", "delta": "h"}])
    with pytest.raises(ModelError, match="ended before") as caught:
        await collect(model.stream_response(ask()))
    assert (caught.value.code, caught.value.retryable) == ("bad_response", True)


@over_both
async def test_a_stream_that_breaks_off_is_unreachable(
    model: ResponsesModel, server: ModelServer
) -> None:
    server.stream([{"type": "response.output_text.delta", "delta": "h"}], cut=True)
    with pytest.raises(ModelError) as caught:
        await collect(model.stream_response(ask()))
    assert (caught.value.code, caught.value.retryable) == ("unreachable", True)


@over_both
async def test_a_stream_that_falls_silent_ends_at_the_time_out(
    model: ResponsesModel, server: ModelServer
) -> None:
    server.stream([{"type": "response.output_text.delta", "delta": "h"}], hang=True)
    settings = ModelSettings(timeout=timedelta(milliseconds=500))  # on a busy machine, too
    said, failure = await collect_until_failure(model.stream_response(ask(settings=settings)))
    assert len(said) == 1
    assert (failure.code, failure.retryable) == ("timeout", True)


@over_both
async def test_the_time_out_of_a_stream_never_hits_its_slow_reader(
    model: ResponsesModel, server: ModelServer
) -> None:
    server.stream([{"type": "response.completed", "response": response(message("hi"))}])
    settings = ModelSettings(timeout=timedelta(milliseconds=200))
    async with aclosing(model.stream_response(ask(settings=settings))) as events:
        async for event in events:
            assert event["type"] == "response.completed"
            # Longer than the call may take: the reader's own time.
            await asyncio.sleep(0.25)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(b"<html>hello</html>", "text/html"), (b'{"output": []}', "application/json"), (b"", "x/y")],
)
async def test_an_answer_that_is_no_stream_is_a_bad_response(
    model: ResponsesModel, server: ModelServer, body: bytes, content_type: str
) -> None:
    server.answer(body, content_type=content_type)
    with pytest.raises(ModelError, match=content_type) as caught:
        await collect(model.stream_response(ask()))
    assert caught.value.code == "bad_response"


@over_both
async def test_a_stream_read_to_its_end_leaves_the_connection_usable(
    model: ResponsesModel, server: ModelServer, transport: str
) -> None:
    for number in range(3):
        answer = response(message("hi"), id=f"resp_of_{number}")
        last: JsonObject = {"type": "response.completed", "response": answer}
        server.stream([last, {"type": "something.after.the.end"}])
        assert await collect(model.stream_response(ask())) == [{**last, **named(transport)}]
    assert server.connections <= 1


@over_both
async def test_a_stream_may_be_left_in_the_middle(
    model: ResponsesModel, server: ModelServer
) -> None:
    server.stream([{"type": "response.output_text.delta", "delta": "h"}], hang=True)
    async with aclosing(model.stream_response(ask())) as events:
        assert (await anext(events))["delta"] == "h"
    server.answer(response(message("hi")))
    assert (await model.get_response(ask())).output == [message("hi")]


@over_both
async def test_events_that_say_nothing_are_skipped(
    model: ResponsesModel, server: ModelServer
) -> None:
    delta: JsonObject = {"type": "response.output_text.delta", "delta": "h"}
    last = {"type": "response.completed", "response": response(message("hi"))}
    server.stream([{}, {"usage": {}}, delta, {"id": None}, last])
    assert [event["type"] for event in await collect(model.stream_response(ask()))] == [
        "response.output_text.delta",
        "response.completed",
    ]


@over_both
async def test_a_character_that_two_events_share_is_one_and_half_a_one_is_dropped(
    model: ResponsesModel, server: ModelServer
) -> None:
    pieces = ["h\ud83d", "\ude00", "i \ude00", "\ud83d"]
    deltas = [{"type": "response.output_text.delta", "delta": piece} for piece in pieces]
    whole = message("h\U0001f600i \ude00\ud83d")
    server.stream([*deltas, {"type": "response.completed", "response": response(whole)}])
    *said, last = await collect(model.stream_response(ask()))
    assert [event["delta"] for event in said] == ["h", "\U0001f600", "i ", ""]
    assert last["response"]["output"] == [message("h\U0001f600i ")]
