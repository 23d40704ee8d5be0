import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from outlast.agents.errors import UserError
from outlast.agents.settings import ModelSettings
from outlast.loop.values import JsonObject
from outlast.models import package_connection
from outlast.models.failures import Target
from outlast.models.package_connection import (
    PackageConnection,
    call_arguments,
    close,
    installed,
    load,
)
from outlast.ports.model import ModelError
from tests.unit.models.streams import collect, collect_until_failure

NOTHING = ModelSettings()
TARGET = Target(base_url="nobody", path="/chat/completions", model="m")


class Said(BaseModel):
    text: str
    more: str | None = None


def connected(answer: Callable[[], Awaitable[object]]) -> PackageConnection:
    async def call(path: str, body: JsonObject, settings: ModelSettings) -> object:
        assert (path, body, settings.temperature) == ("/chat/completions", {"model": "m"}, None)
        return await answer()

    return PackageConnection(call, lambda path, model: TARGET)


def saying(*events: object) -> tuple[PackageConnection, list[str]]:
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
    connection: PackageConnection,
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


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    installed("pydantic", "any", "This")
    with pytest.raises(
        UserError, match=r"^This needs the package nobodys_package.*outlast\[any\]'"
    ):
        installed("nobodys_package", "any", "This")


async def test_a_package_is_imported_once_in_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "this_package", raising=False)
    imported: list[str] = []

    def import_module(name: str) -> ModuleType:
        imported.append(name)
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        return sys.modules[name]

    monkeypatch.setattr(package_connection, "import_module", import_module)
    first = await load("this_package")
    assert await load("this_package") is first
    assert imported == ["this_package"]


async def test_things_are_closed_by_the_method_that_they_have() -> None:
    done: list[str] = []

    class Asked:
        async def aclose(self) -> None:
            done.append("aclose")

    class Told:
        def close(self) -> None:
            done.append("close")

    things: list[Any] = [Asked(), Told(), object(), None]
    for thing in things:
        await close(thing)
    assert done == ["aclose", "close"]
