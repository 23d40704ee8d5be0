"""What LiteLLM answers and raises, told by names and attributes; the classes are those of no package."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from outlast.agents.config.model_settings import ModelSettings
from outlast.loop.values import JsonObject
from outlast.models.failures import Target
from outlast.models.litellm import LitellmConnection, call_arguments, litellm_failure
from outlast.ports.model import ModelError
from tests.unit.models.streams import collect, collect_until_failure

# The bodies are shorter than those of requests.
pytestmark = pytest.mark.breaks_rules("messages-empty")

NOTHING = ModelSettings()
TARGET = Target(base_url="nobody", path="/chat/completions", model="m")


class Said(BaseModel):
    text: str
    more: str | None = None


def connected(answer: Callable[[], Awaitable[object]]) -> LitellmConnection:
    async def call(body: JsonObject, settings: ModelSettings) -> object:
        assert (body, settings.temperature) == ({"model": "m"}, None)
        return await answer()

    return LitellmConnection(call, lambda path, model: TARGET)


def saying(*events: object) -> tuple[LitellmConnection, list[str]]:
    """Return a connection whose stream is these, and what becomes of that stream."""
    told: list[str] = []

    async def stream() -> AsyncIterator[object]:
        try:
            for event in events:
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            told.append("closed")

    async def answer() -> object:
        return stream()

    return connected(answer), told


def events_of(
    connection: LitellmConnection,
    is_last: Callable[[JsonObject], bool] = lambda event: False,
    settings: ModelSettings = NOTHING,
) -> AsyncIterator[JsonObject]:
    return connection.stream(TARGET, {"model": "m"}, settings, is_last=is_last)


@pytest.mark.parametrize("answer", [Said(text="hi"), {"text": "hi"}])
async def test_an_object_is_answered_as_json(answer: object) -> None:
    async def give() -> object:
        return answer

    reply = await connected(give).post(TARGET, {"model": "m"}, NOTHING)
    assert (reply.body, reply.request_id) == ({"text": "hi"}, None)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("hi", "bad_response"),
        (None, "bad_response"),
        ({"error": {"message": "Sorry.", "code": 429}}, "rate_limited"),
    ],
)
async def test_what_is_no_answer_fails(answer: object, code: str) -> None:
    async def give() -> object:
        return answer

    with pytest.raises(ModelError) as caught:
        await connected(give).post(TARGET, {"model": "m"}, NOTHING)
    assert caught.value.code == code


async def test_what_is_raised_becomes_a_model_error_without_its_cause() -> None:
    async def refuse() -> object:
        raise RuntimeError("secret request")

    with pytest.raises(ModelError) as caught:
        await connected(refuse).post(TARGET, {"model": "m"}, NOTHING)
    assert caught.value.__suppress_context__
    _, failure = await collect_until_failure(events_of(connected(refuse)))
    assert failure.code == caught.value.code == "server_error"


async def test_a_call_and_a_stream_end_when_their_time_is_over() -> None:
    settings = ModelSettings(timeout=timedelta(milliseconds=20))

    async def never() -> object:
        return await asyncio.Event().wait()

    async def stream() -> AsyncIterator[object]:
        yield {"text": "h"}
        await asyncio.Event().wait()

    async def give() -> object:
        return stream()

    with pytest.raises(ModelError) as caught:
        await connected(never).post(TARGET, {"model": "m"}, settings)
    said, failure = await collect_until_failure(events_of(connected(give), settings=settings))
    assert said == [{"text": "h"}]
    assert caught.value.code == failure.code == "timeout"


async def test_a_stream_is_answered_as_json_and_closed_at_its_end() -> None:
    connection, told = saying(Said(text="h"), {"text": "i"})
    assert await collect(events_of(connection)) == [{"text": "h"}, {"text": "i"}]
    assert told == ["closed"]


async def test_nothing_is_read_after_the_last_event() -> None:
    connection, told = saying(Said(text="h"), {"text": "i"}, RuntimeError("too far"))
    said = await collect(events_of(connection, lambda event: event["text"] == "i"))
    assert said == [{"text": "h"}, {"text": "i"}]
    assert told == ["closed"]


@pytest.mark.parametrize(
    ("last", "code"), [(7, "bad_response"), (ConnectionResetError("gone"), "unreachable")]
)
async def test_a_failure_in_the_middle_comes_after_what_was_said(last: object, code: str) -> None:
    connection, told = saying({"text": "h"}, last)
    said, failure = await collect_until_failure(events_of(connection))
    assert (said, failure.code, told) == ([{"text": "h"}], code, ["closed"])


async def test_an_answer_that_is_no_stream_is_a_bad_response() -> None:
    async def give() -> object:
        return {"text": "hi"}

    _, failure = await collect_until_failure(events_of(connected(give)))
    assert failure.code == "bad_response"
    assert "got dict" in failure.message


async def test_a_cancelled_call_ends_as_cancelled() -> None:
    asked = asyncio.Event()

    async def never() -> object:
        asked.set()
        return await asyncio.Event().wait()

    task = asyncio.create_task(connected(never).post(TARGET, {"model": "m"}, NOTHING))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_what_http_would_say_beside_the_body_is_said_apart() -> None:
    settings = ModelSettings(
        extra_body={"top_k": 3, "model": "mine"},
        extra_headers={"x": "1"},
        extra_query={"q": "2"},
        timeout=timedelta(seconds=9),
    )
    body: JsonObject = {"model": "mine", "messages": [], "top_k": 3}
    assert call_arguments(body, settings) == {
        "model": "mine",
        "messages": [],
        "extra_body": {"top_k": 3},
        "extra_headers": {"x": "1"},
        "extra_query": {"q": "2"},
        "timeout": 9.0,
    }
    assert call_arguments(body, NOTHING) == body


CLAUDE = Target(
    base_url="anthropic (through LiteLLM)",
    path="/chat/completions",
    model="claude",
    key="sk-test-4711",
    key_from="the environment's key",
    address_from="base_url=",
)


def raised(name: str, words: str = "Sorry.", *, of: type = Exception, **has: Any) -> Exception:
    error: Any = type(name, (of,), {})(words)
    for attribute, value in has.items():
        setattr(error, attribute, value)
    return error


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (raised("Whatever", status_code=429), "rate_limited", True),
        (raised("Whatever", status_code=401), "unauthorized", False),
        (raised("Whatever", status_code=529), "overloaded", True),
        (raised("Timeout", status_code=408), "timeout", True),
        (
            raised("APITimeoutError", of=type("APIConnectionError", (Exception,), {})),
            "timeout",
            True,
        ),
        (
            raised("RateLimitError", status_code=429, body={"code": "insufficient_quota"}),
            "quota_exceeded",
            False,
        ),
        (raised("ReadTimeout", of=type("TimeoutException", (Exception,), {})), "timeout", True),
        (raised("APIConnectionError", status_code=500), "unreachable", True),
        (ConnectionResetError("gone"), "unreachable", True),
        (ValueError("what is this?"), "invalid_request", False),
        (ImportError("pip install more"), "invalid_request", False),
        (NotImplementedError("not here"), "invalid_request", False),
        (raised("Riddle"), "server_error", True),
    ],
)
def test_an_exception_has_the_code_of_what_it_says(
    error: Exception, code: str, retryable: bool
) -> None:
    failure = litellm_failure(error, CLAUDE)
    assert (failure.code, failure.retryable) == (code, retryable)


def test_the_words_are_the_providers_without_the_key() -> None:
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Busy, sk-test-4711"}}
    failure = litellm_failure(raised("APIStatusError", status_code=500, body=body), CLAUDE)
    assert failure.code == "overloaded"
    assert "anthropic (through LiteLLM)" in failure.message
    assert failure.message.endswith("Its message: Busy, [API key]")


def test_a_message_names_where_the_key_and_the_address_come_from() -> None:
    assert (
        "Check the environment's key,"
        in litellm_failure(raised("AuthenticationError", status_code=401), CLAUDE).message
    )
    assert "Check base_url=," in litellm_failure(ConnectionError(), CLAUDE).message
    assert "OPENAI" not in litellm_failure(raised("NotFoundError", status_code=404), CLAUDE).message


@pytest.mark.parametrize(
    "has",
    [
        {"litellm_response_headers": {"Retry-After": "7"}},
        {"response": SimpleNamespace(headers={"retry-after-ms": "7000"})},
        {"response": SimpleNamespace(headers={"retry-after": 7})},
    ],
)
def test_how_long_to_wait_is_found_wherever_it_is(has: dict[str, Any]) -> None:
    failure = litellm_failure(raised("RateLimitError", status_code=429, **has), CLAUDE)
    assert failure.retry_after == timedelta(seconds=7)


def test_an_error_without_words_is_told_by_its_name() -> None:
    assert "Its message: Riddle" in litellm_failure(raised("Riddle", ""), CLAUDE).message


async def test_keys_are_not_checked() -> None:
    async def answer() -> object:
        raise AssertionError

    connection = connected(answer)
    await connection.check_key(connection.target("", "m"))
