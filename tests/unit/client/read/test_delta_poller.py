"""Following what models say: when the server is asked, and what comes between which events."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from outlast.client.read import delta_poller as deltas
from outlast.client.read.delta_poller import DeltaPoller, with_deltas
from outlast.client.read.history import Progress
from outlast.contract.streams.call_windows import MOST_WINDOWS, FinishedCall, call_windows
from outlast.contract.streams.delta_reader import GAP, RESTARTED
from outlast.contract.streams.reply_events import reply_events
from outlast.contract.streams.window import DeltaWindow, is_delta
from outlast.loop.calls import ModelReply
from outlast.loop.effects import CallModel, EffectAnswered, EffectFailed
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
    return Progress(EffectAnswered(at_ms=5_000, effect=effect, result=reply), LoopState())


@dataclass
class Server:
    """Shows the heartbeat of a model call, and counts how often it is asked."""

    namespace: ClassVar[str] = "default"
    windows: dict[int, DeltaWindow] = field(default_factory=dict[int, DeltaWindow])
    attempt: int = 1
    failures: list[Exception] = field(default_factory=list[Exception])
    asked: int = 0
    on_asked: Callable[[int], None] = lambda _count: None
    activity_type: str = "call_model"
    data_converter: DataConverter = field(default_factory=DataConverter)

    first: str = "one"

    def get_workflow_handle(self, workflow_id: str, *, run_id: str | None = None) -> "Server":
        assert workflow_id == "run"
        assert run_id in {None, "two", "lost"}
        if run_id == "lost":
            self.failures.append(RPCError("gone", RPCStatusCode.NOT_FOUND, b""))
        return self

    async def describe(self) -> Any:
        self.asked += 1
        self.on_asked(self.asked)
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        pending = [await self._info(effect, window) for effect, window in self.windows.items()]
        info = SimpleNamespace(first_run_id=self.first)
        return SimpleNamespace(
            raw_description=SimpleNamespace(
                pending_activities=pending, workflow_execution_info=info
            )
        )

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


PLACE = " default run"
"""The run of these tests on its server."""


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
    poller.note(asking())
    return poller


def feed(window: DeltaWindow, events: Sequence[JsonObject]) -> None:
    for event in events:
        window.feed(event)


async def news(poller: DeltaPoller) -> list[JsonObject]:
    await poller.poll()
    return poller.pop_events()


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
    missing = poller.note(replied())
    assert text_of(missing) == "to you all"
    last = missing[-1]["response"]
    assert (last["id"], last["model"], last["created_at"]) == ("r", "m", 5)
    assert last["output"] == [MESSAGE]
    assert last["usage"]["input_tokens_details"] == {"cached_tokens": 2, "cache_write_tokens": 0}
    assert await news(poller) == []


async def test_a_call_that_failed_for_good_tells_no_more(poller: DeltaPoller) -> None:
    failed = EffectFailed(at_ms=5, effect=2, failure=Failure(code="x", message="y"))
    assert poller.note(Progress(failed, LoopState())) == []


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
    assert [(text, type(event)) for text, event in seen] == [(WORDS, EffectAnswered)]
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
        if not window.has_news:
            all_said.set()
        window.note_sent(0.0)

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
        assert server.asked == 0
        yield asking()
        yield replied()

    seen = [one async for one in with_deltas(progress(), client_of(server), "run")]
    assert server.asked <= 1
    assert text_of([one for one in seen if not isinstance(one, Progress)]) == WORDS


async def test_a_call_that_the_reader_has_not_come_to_says_nothing_yet(
    server: Server, poller: DeltaPoller
) -> None:
    """A late reader is still at an earlier call, whose events have other numbers."""
    feed(server.window(effect=5), STREAM)
    assert await news(poller) == []
    with call_windows.running(PLACE, server.windows[5]):
        assert await news(poller) == []
    poller.note(asking(5))
    assert text_of(await news(poller)) == WORDS


async def test_a_call_that_was_given_up_says_no_more(server: Server, poller: DeltaPoller) -> None:
    feed(server.window(), STREAM[:6])
    assert text_of(await news(poller)) == "Good morning "
    poller.note(asking(3))
    feed(server.windows[2], STREAM[6:])
    assert await news(poller) == []
    assert poller.note(replied(2)) == []


async def test_a_call_that_is_given_up_while_its_heartbeat_is_decoded_says_no_more(
    server: Server, poller: DeltaPoller
) -> None:
    class Decoder:
        async def decode(self, payloads: Any) -> list[Any]:
            poller.note(asking(3))
            return await DataConverter().decode(payloads)

    feed(server.window(), STREAM)
    shown = await server.describe()
    server.data_converter = cast("DataConverter", Decoder())
    [info] = shown.raw_description.pending_activities
    await poller._read(2, info)
    assert poller.pop_events() == []


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


def finished(effect: int = 2, *, events: Sequence[JsonObject] = STREAM) -> None:
    """Keep the window of a call that ended in this process."""
    window = DeltaWindow(effect=effect, attempt=1)
    feed(window, events)
    call_windows.keep(FinishedCall(PLACE, effect, "r"), window)


def deltas_of(events: Sequence[JsonObject]) -> list[str]:
    return [event["delta"] for event in events if is_delta(event)]


async def test_a_reader_in_the_process_of_the_call_gets_the_pieces_of_the_provider(
    server: Server, poller: DeltaPoller
) -> None:
    feed(server.window(), STREAM[:6])
    seen = await news(poller)
    finished()
    rest = poller.note(replied())
    assert deltas_of([*seen, *rest]) == ["Good ", "morning ", "to ", "you ", "all"]
    assert [event["type"] for event in [*seen, *rest]] == [event["type"] for event in STREAM]


async def test_a_reader_that_missed_events_of_the_window_gets_the_reply_without_a_gap(
    poller: DeltaPoller,
) -> None:
    window = DeltaWindow(effect=2, attempt=1, limit_bytes=1_000)
    feed(window, [{"type": "ping"} for _ in range(100)])
    feed(window, STREAM)
    assert window.details()["first"] > 0
    call_windows.keep(FinishedCall(PLACE, 2, "r"), window)
    events = poller.note(replied())
    assert text_of(events) == WORDS
    assert GAP not in [event["type"] for event in events]


def test_only_the_newest_windows_with_events_are_kept_and_each_is_taken_once() -> None:
    finished(effect=1, events=[])
    for effect in range(1, MOST_WINDOWS + 2):
        finished(effect, events=STREAM[:1] if effect > 1 else [])
    finished(1)
    calls = [FinishedCall(PLACE, effect, "r") for effect in range(1, MOST_WINDOWS + 2)]
    found = [call_windows.pop(call) is not None for call in calls]
    assert found == [True, False, *[True] * (MOST_WINDOWS - 1)]
    assert [call_windows.pop(call) for call in calls] == [None] * len(calls)


async def test_a_reader_in_the_process_of_the_call_does_not_ask_the_server(
    server: Server, poller: DeltaPoller
) -> None:
    window = DeltaWindow(effect=2, attempt=1)
    with call_windows.running(PLACE, window):
        feed(window, STREAM[:6])
        assert text_of(await news(poller)) == "Good morning "
        assert await news(poller) == []
        feed(window, STREAM[6:])
        assert text_of(await news(poller)) == "to you all"
    assert server.asked == 0
    await news(poller)
    assert server.asked == 1


async def test_another_attempt_in_the_process_voids_the_one_before(poller: DeltaPoller) -> None:
    for attempt, expected in ((1, []), (2, [{"type": RESTARTED, "attempt": 2}])):
        window = DeltaWindow(effect=2, attempt=attempt)
        with call_windows.running(PLACE, window):
            feed(window, STREAM[:6])
            events = await news(poller)
        assert [one for one in events if one["type"] == RESTARTED] == expected
        assert text_of(events) == "Good morning "


async def test_the_process_knows_who_reads_here(server: Server) -> None:
    server.window()

    async def progress() -> AsyncIterator[Progress]:
        yield asking()
        await asyncio.Event().wait()

    readers = [with_deltas(progress(), client_of(server), "run") for _ in range(2)]
    assert not call_windows.has_reader(PLACE)
    for reader in readers:
        await anext(reader)
        await asyncio.sleep(0)
        assert call_windows.has_reader(PLACE)
    assert not call_windows.has_reader("another")
    assert not await asyncio.to_thread(asyncio.run, has_reader(PLACE)), "another loop"
    await readers[0].aclose()
    assert call_windows.has_reader(PLACE)
    await readers[1].aclose()
    assert not call_windows.has_reader(PLACE)


async def has_reader(run_id: str) -> bool:
    return call_windows.has_reader(run_id)


async def test_windows_of_a_run_are_seen_while_its_calls_run() -> None:
    first, second = (DeltaWindow(effect=effect, attempt=1) for effect in (1, 2))
    with call_windows.running(PLACE, first):
        with call_windows.running(PLACE, second):
            assert call_windows.of_run(PLACE) == [first, second]
            assert call_windows.of_run("another") == []
        assert call_windows.of_run(PLACE) == [first]
    assert call_windows.of_run(PLACE) == []


@pytest.mark.parametrize(
    ("overdue", "expected"),
    [
        (-0.9, 0.25),
        (-0.1, 0.08),
        (-0.03, 0.025),
        (0.0, 0.025),
        (0.2, 0.025),
        (1.0, 0.1),
        (60.0, 0.25),
    ],
)
def test_the_server_is_asked_when_the_next_window_is_due_and_then_more_and_more_rarely(
    monkeypatch: pytest.MonkeyPatch, overdue: float, expected: float
) -> None:
    monkeypatch.setattr(deltas, "SHORTEST_WAIT", timedelta(milliseconds=25))
    monkeypatch.setattr(deltas, "LONGEST_WAIT", timedelta(milliseconds=250))
    assert deltas._wait(overdue) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("window", "expected"),
    [({"next_ms": 120}, 0.12), ({"next_ms": "soon"}, 0.0), ({}, 0.0), ("text", 0.0), (None, 0.0)],
)
def test_a_window_says_when_the_next_one_comes(window: Any, expected: float) -> None:
    assert deltas._seconds_to_next(window) == expected


async def test_a_window_that_is_not_due_is_not_asked_for(
    server: Server, poller: DeltaPoller, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(deltas, "LONGEST_WAIT", timedelta(seconds=1))
    feed(window := server.window(), STREAM[:6])
    details = window.details()
    monkeypatch.setattr(window, "details", lambda: {**details, "next_ms": 500})
    monkeypatch.setattr(deltas.asyncio, "sleep", sleep)
    assert text_of(await news(poller)) == "Good morning "
    slept.clear()
    await news(poller)
    assert slept[0] == pytest.approx(0.48, abs=0.02)
    poller.note(replied())
    poller.note(asking(3))
    slept.clear()
    await news(poller)
    assert slept[0] == pytest.approx(0.001), "another call may speak at any time"


@pytest.mark.parametrize(("first", "text"), [("one", "Good morning "), ("another", "")])
async def test_the_heartbeats_of_another_run_with_the_id_say_nothing(
    server: Server, poller: DeltaPoller, first: str, text: str
) -> None:
    server.first, poller.first = "one", first
    feed(server.window(), STREAM[:6])
    assert text_of(await news(poller)) == text


@pytest.mark.parametrize(
    ("execution", "first", "asked"),
    [("one", "one", 0), ("", "one", 0), ("two", "one", 1), ("two", "another", 1), ("lost", "", 2)],
)
async def test_a_call_here_of_another_run_with_the_id_says_nothing(
    server: Server, poller: DeltaPoller, execution: str, first: str, asked: int
) -> None:
    server.first, poller.first = first, "one"
    window = DeltaWindow(effect=2, attempt=1, execution=execution)
    with call_windows.running(PLACE, window):
        feed(window, STREAM[:6])
        found = text_of(await news(poller))
        feed(window, STREAM[6:])
        found += text_of(await news(poller))
    assert found == ("Good morning to you all" if first == "one" else "")
    assert server.asked == asked
