"""Following what models say: when the server is asked, and what comes between which events."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from outlast.client import deltas
from outlast.client.deltas import DeltaPoller, with_deltas
from outlast.client.history import Progress
from outlast.contract.delta_reader import GAP, RESTARTED
from outlast.contract.deltas import DeltaWindow, is_delta
from outlast.contract.reply_events import reply_events
from outlast.loop.calls import ModelReply
from outlast.loop.effects import CallModel, EffectFailed, ModelReplied
from outlast.loop.state import LoopState
from outlast.loop.values import Failure, JsonObject, Usage

WORDS = "Good morning to you all"
MESSAGE: JsonObject = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": WORDS, "annotations": []}],
}
STREAM = list(
    reply_events({"id": "r", "output": [MESSAGE]}, lambda text: text.replace(" ", " |").split("|"))
)


def asking(effect: int = 2) -> Progress:
    """The step after which a model is asked."""
    call = CallModel(effect=effect, agent="A", turn=1, input_length=1, run_id="run")
    return Progress(None, LoopState(pending=(call,)))


def replied(effect: int = 2, *items: JsonObject) -> Progress:
    usage = Usage(requests=1, input_tokens=7, cached_tokens=2)
    reply = ModelReply(items=items or (MESSAGE,), usage=usage, response_id="r", model="m")
    return Progress(ModelReplied(at_ms=5_000, effect=effect, result=reply), LoopState())


@dataclass
class Server:
    """Shows the heartbeat of a model call, and counts how often it is asked."""

    windows: dict[int, DeltaWindow] = field(default_factory=dict[int, DeltaWindow])
    attempt: int = 1
    failures: list[Exception] = field(default_factory=list[Exception])
    asked: int = 0
    on_asked: Callable[[int], None] = lambda _count: None
    activity_type: str = "call_model"
    data_converter: DataConverter = field(default_factory=DataConverter)

    def get_workflow_handle(self, run_id: str) -> "Server":
        assert run_id == "run"
        return self

    async def describe(self) -> Any:
        self.asked += 1
        self.on_asked(self.asked)
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        pending = [await self._info(effect, window) for effect, window in self.windows.items()]
        return SimpleNamespace(raw_description=SimpleNamespace(pending_activities=pending))

    async def _info(self, effect: int, window: DeltaWindow) -> PendingActivityInfo:
        info = PendingActivityInfo(activity_id=str(effect), attempt=self.attempt)
        info.activity_type.name = self.activity_type
        details = window.details()
        if details["events"]:
            payloads = await self.data_converter.encode([details])
            info.heartbeat_details.payloads.extend(payloads)
        return info

    def window(self, effect: int = 2, attempt: int = 1) -> DeltaWindow:
        self.attempt = attempt
        window = self.windows[effect] = DeltaWindow(effect=effect, attempt=attempt)
        return window


def client_of(server: Server) -> Client:
    return cast("Client", server)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deltas, "SHORTEST_WAIT", timedelta(milliseconds=1))
    monkeypatch.setattr(deltas, "LONGEST_WAIT", timedelta(milliseconds=5))


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def poller(server: Server) -> DeltaPoller:
    poller = DeltaPoller(client_of(server), "run")
    poller.take(asking())
    return poller


def feed(window: DeltaWindow, events: Sequence[JsonObject]) -> None:
    for event in events:
        window.feed(event)


async def news(poller: DeltaPoller) -> list[JsonObject]:
    await poller.ask()
    return poller.heard_events()


def text_of(events: Sequence[Any]) -> str:
    return "".join(event["delta"] for event in events if is_delta(event))


async def test_what_is_new_in_a_heartbeat_is_told_once(server: Server, poller: DeltaPoller) -> None:
    window = server.window()
    feed(window, STREAM[:6])
    assert text_of(await news(poller)) == "Good morning "
    assert await news(poller) == []
    feed(window, STREAM[6:])
    assert text_of(await news(poller)) == "to you all"


async def test_the_heartbeats_of_other_activities_say_nothing(
    server: Server, poller: DeltaPoller
) -> None:
    feed(server.window(), STREAM)
    server.activity_type = "tool:search"
    assert await news(poller) == []


async def test_a_heartbeat_without_or_with_other_details_says_nothing(
    server: Server, poller: DeltaPoller, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.window()
    assert await news(poller) == []
    bad = PendingActivityInfo(activity_id="2", attempt=1)
    bad.activity_type.name = "call_model"
    undecodable = Payload(metadata={"encoding": b"json/plain"}, data=b"{")
    bad.heartbeat_details.payloads.append(undecodable)

    async def info(*_: Any) -> PendingActivityInfo:
        return bad

    monkeypatch.setattr(server, "_info", info)
    assert await news(poller) == []


async def test_a_server_that_does_not_answer_is_asked_again(
    server: Server, poller: DeltaPoller
) -> None:
    feed(server.window(), STREAM)
    server.failures.append(RPCError("busy", RPCStatusCode.UNAVAILABLE, b""))
    assert await news(poller) == []
    assert text_of(await news(poller)) == WORDS


async def test_a_new_attempt_voids_the_text_before_it_says_anything(
    server: Server, poller: DeltaPoller
) -> None:
    feed(server.window(), STREAM[:6])
    await news(poller)
    server.attempt = 2
    assert await news(poller) == [{"type": RESTARTED, "attempt": 2}]
    feed(server.window(attempt=2), STREAM[:4])
    assert text_of(await news(poller)) == ""
    feed(server.windows[2], STREAM[4:6])
    assert text_of(await news(poller)) == "Good morning "


async def test_the_reply_tells_what_was_not_heard(server: Server, poller: DeltaPoller) -> None:
    feed(server.window(), STREAM[:6])
    await news(poller)
    missing = poller.take(replied())
    assert text_of(missing) == "to you all"
    last = missing[-1]["response"]
    assert (last["id"], last["model"], last["created_at"]) == ("r", "m", 5)
    assert last["output"] == [MESSAGE]
    assert last["usage"]["input_tokens_details"] == {"cached_tokens": 2}
    assert await news(poller) == []


async def test_a_call_that_failed_for_good_tells_no_more(poller: DeltaPoller) -> None:
    failed = EffectFailed(at_ms=5, effect=2, failure=Failure(code="x", message="y"))
    assert poller.take(Progress(failed, LoopState())) == []


async def test_the_longer_nothing_is_new_the_longer_the_wait(
    server: Server, poller: DeltaPoller, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        if seconds:
            waits.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(deltas.asyncio, "sleep", noted)
    monkeypatch.setattr(deltas, "PATIENCE", 1.0)
    window = server.window()
    for _ in range(6):
        await news(poller)
    assert waits[0] == 0.001
    assert waits[-1] == 0.005
    feed(window, STREAM)
    await news(poller)
    await news(poller)
    assert waits[-1] < 0.005


async def test_deltas_come_between_the_events_of_the_history(server: Server) -> None:
    feed(server.window(), STREAM[:6])
    is_heard = asyncio.Event()

    async def progress() -> AsyncIterator[Progress]:
        yield asking()
        await is_heard.wait()
        yield replied()

    following = with_deltas(progress(), client_of(server), "run")
    assert isinstance(await anext(following), Progress)
    raw: list[JsonObject] = []
    seen: list[tuple[str, Any]] = []
    async for one in following:
        if isinstance(one, Progress):
            seen.append((text_of(raw), one.event))
        else:
            raw.append(one)
            if text_of(raw) == "Good morning ":
                is_heard.set()
    assert [(text, type(event)) for text, event in seen] == [(WORDS, ModelReplied)]
    assert raw[-1]["type"] == "response.completed"


async def test_a_reader_that_is_busy_for_long_misses_nothing(server: Server) -> None:
    words = [f"{number:03} " for number in range(900)]
    message = {**MESSAGE, "content": [{"type": "output_text", "text": "".join(words)}]}
    stream = list(reply_events({"id": "r", "output": [message]}, lambda _: words))
    window = server.windows[2] = DeltaWindow(effect=2, attempt=1, limit_bytes=1_000)
    said = iter(stream[:-1])
    all_said = asyncio.Event()

    def say_more(_count: int) -> None:
        feed(window, list(islice(said, 9)))
        if window.news() is None:
            all_said.set()

    server.on_asked = say_more

    async def progress() -> AsyncIterator[Progress]:
        yield asking()
        await all_said.wait()
        yield replied(2, message)

    raw: list[JsonObject] = []
    async for one in with_deltas(progress(), client_of(server), "run"):
        if not isinstance(one, Progress):
            raw.append(one)
            if len(raw) == 1:
                await all_said.wait()
    assert GAP not in [event["type"] for event in raw]
    assert text_of(raw) == "".join(words)


async def test_the_server_is_asked_only_while_a_model_is(server: Server) -> None:
    async def progress() -> AsyncIterator[Progress]:
        yield Progress(None, LoopState())
        await asyncio.sleep(0.02)
        yield replied()

    seen = [one async for one in with_deltas(progress(), client_of(server), "run")]
    assert server.asked == 0
    assert text_of([one for one in seen if not isinstance(one, Progress)]) == WORDS


async def test_whoever_stops_reading_stops_the_asking(server: Server) -> None:
    is_closed = asyncio.Event()

    async def progress() -> AsyncIterator[Progress]:
        try:
            yield asking()
            await asyncio.Event().wait()
        finally:
            is_closed.set()

    feed(server.window(), STREAM[:6])
    following = with_deltas(progress(), client_of(server), "run")
    async for one in following:
        if not isinstance(one, Progress):
            break
    await following.aclose()
    asked = server.asked
    await asyncio.sleep(0.02)
    assert server.asked == asked
    assert is_closed.is_set()


async def test_a_failure_of_the_history_is_raised(server: Server) -> None:
    server.window()

    async def progress() -> AsyncIterator[Progress]:
        yield asking()
        await asyncio.sleep(0.01)
        raise RPCError("gone", RPCStatusCode.NOT_FOUND, b"")

    with pytest.raises(RPCError, match="gone"):
        assert [one async for one in with_deltas(progress(), client_of(server), "run")] == []
