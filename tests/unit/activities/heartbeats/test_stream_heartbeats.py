"""How often the text of a model call is sent, and what a heartbeat then has."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from outlast.activities.heartbeats import stream_heartbeats as module
from outlast.activities.heartbeats.heartbeats import Beat
from outlast.activities.heartbeats.stream_heartbeats import Cadence, StreamHeartbeats, is_billed
from outlast.contract.streams.window import DeltaWindow, ShownText
from outlast.loop.values import JsonObject

LIVENESS_SECONDS = 10 / 3


def text(delta: str = "word ", **fields: Any) -> JsonObject:
    return {"type": "response.output_text.delta", "output_index": 0, "delta": delta, **fields}


def arguments(delta: str = "{") -> JsonObject:
    return {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": delta}


def unchanged(details: Callable[[], Any]) -> Callable[[], Any]:
    return details


class Clock:
    """A loop's clock and timers, without waiting."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[asyncio.TimerHandle] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        timer = asyncio.TimerHandle(when, callback, (), loop)
        self.timers.append(timer)
        return timer

    def advance(self, seconds: float) -> None:
        """Let time pass, and run the timers that are due on the way, in order."""
        end = self.now + seconds
        while True:
            self.timers = [timer for timer in self.timers if not timer.cancelled()]
            due = [timer for timer in self.timers if timer.when() <= end]
            if not due:
                break
            first = min(due, key=lambda timer: timer.when())
            self.timers.remove(first)
            self.now = max(self.now, first.when())
            first._run()
        self.now = end


class Stream:
    """One streamed call and the times of its heartbeats."""

    def __init__(self, cadence: Cadence) -> None:
        self.read_here = False
        self.clock = Clock()
        self.beat = Beat("call_model", self.clock, interval=LIVENESS_SECONDS, task=None)  # type: ignore[arg-type]  all that is needed
        self.window = DeltaWindow(effect=2, attempt=1)
        self.shown = ShownText()
        self.stream = StreamHeartbeats(
            self.window, self.beat, cadence, lambda: self.read_here, self.shown
        )
        self.sent: list[tuple[float, JsonObject]] = []

    def say(self, seconds: float, event: Callable[[], JsonObject] = text) -> None:
        """Feed an event every 20 milliseconds."""
        for _ in range(round(seconds / 0.02)):
            self.stream.feed(event())
            self.clock.advance(0.02)

    def times(self) -> list[float]:
        """Return when heartbeats were sent, in seconds since the call began."""
        return [at - 100.0 for at, _ in self.sent]


@pytest.fixture
def open_stream(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stream]:
    streams: list[Stream] = []

    def open_one(cadence: Cadence | None = None) -> Stream:
        stream = Stream(cadence or Cadence())
        streams.append(stream)
        return stream

    def heartbeat(details: JsonObject) -> None:
        streams[-1].sent.append((streams[-1].clock.now, details))

    monkeypatch.setattr(module.activity, "heartbeat", heartbeat)
    monkeypatch.setattr(module, "sender", unchanged)
    return open_one


@pytest.mark.parametrize(
    ("seconds", "least", "most"), [(1, 7, 10), (4, 26, 32), (10, 44, 50), (60, 95, 110)]
)
async def test_an_answer_costs_a_bounded_number_of_heartbeats(
    open_stream: Callable[..., Stream], seconds: int, least: int, most: int
) -> None:
    stream = open_stream()
    stream.say(seconds)
    assert least <= len(stream.sent) <= most


async def test_the_first_word_is_sent_at_once_and_the_wait_grows_up_to_a_second(
    open_stream: Callable[..., Stream],
) -> None:
    stream = open_stream()
    stream.clock.advance(1.0)
    stream.say(30)
    times = stream.times()
    assert times[0] == pytest.approx(1.0)
    waits = [after - before for before, after in pairwise(times)]
    assert waits[0] == pytest.approx(0.12, abs=0.021)
    assert max(waits) == pytest.approx(1.0, abs=0.021)
    for at, wait in zip(times, waits, strict=False):
        assert wait <= max(0.12, 0.05 * (at - 1.0 + wait)) + 0.021


@pytest.mark.parametrize(
    ("kind", "index"),
    [("output_text", 1), ("reasoning_summary_text", 0), ("reasoning_text", 0), ("refusal", 0)],
)
async def test_a_new_text_is_as_quick_as_the_first(
    open_stream: Callable[..., Stream], kind: str, index: int
) -> None:
    stream = open_stream()
    stream.say(30)
    sent = len(stream.sent)
    stream.say(1, lambda: text(output_index=index, type=f"response.{kind}.delta"))
    assert len(stream.sent) - sent >= 5


@pytest.mark.parametrize("seconds", [1, 10])
async def test_a_text_that_nobody_bills_is_sent_as_often_as_a_page_shows_it(
    open_stream: Callable[..., Stream], seconds: int
) -> None:
    stream = open_stream(Cadence(is_billed=False))
    with stream.stream:
        stream.say(seconds)
    waits = [after - before for before, after in pairwise(stream.times())]
    assert waits == pytest.approx([0.06] * len(waits), abs=0.021)
    assert stream.sent[-1][1]["next_ms"] == 50


async def test_many_texts_at_once_share_what_a_process_sends(
    open_stream: Callable[..., Stream],
) -> None:
    with ExitStack() as stack:
        for _ in range(99):
            other = open_stream(Cadence(is_billed=False))
            stack.enter_context(other.stream)
            other.stream.feed(text())
        stream = open_stream(Cadence(is_billed=False))
        stack.enter_context(stream.stream)
        stream.say(10)
        assert len(stream.sent) == pytest.approx(20, abs=2), "a hundredth of 200 a second"
    alone = open_stream(Cadence(is_billed=False))
    with alone.stream:
        alone.say(1)
    assert len(alone.sent) >= 15, "the others have ended"


@pytest.mark.parametrize(
    ("host", "namespace", "expected"),
    [
        ("localhost:7233", "default", False),
        ("temporal.internal:7233", "support", False),
        ("support.a1b2c.tmprl.cloud:7233", "support.a1b2c", True),
        ("us-east-1.aws.api.temporal.io:7233", "support.a1b2c", True),
        ("US-EAST-1.aws.API.temporal.io:7233", "support", True),
        ("vpce-0123.vpce-svc.us-east-1.vpce.amazonaws.com:7233", "support.a1b2c", True),
        ("nottmprl.cloud:7233", "default", False),
    ],
)
def test_heartbeats_are_billed_in_temporal_cloud(
    host: str, namespace: str, *, expected: bool
) -> None:
    config = SimpleNamespace(target_host=host)
    client: Any = SimpleNamespace(
        namespace=namespace, service_client=SimpleNamespace(config=config)
    )
    assert is_billed(client) is expected


@pytest.mark.parametrize(("seconds", "beats"), [(0.1, 100), (0.5, 20), (1.0, 10), (2.5, 4)])
async def test_a_fixed_interval_stays_as_it_is(
    open_stream: Callable[..., Stream], seconds: float, beats: int
) -> None:
    stream = open_stream(Cadence(seconds))
    stream.clock.advance(seconds)
    stream.say(10)
    assert len(stream.sent) == pytest.approx(beats, abs=1)


@pytest.mark.parametrize(
    ("cadence", "most"), [(Cadence(), 10), (Cadence(0.1), 10), (Cadence(2.0), 5)]
)
async def test_events_without_text_for_people_wait_a_second(
    open_stream: Callable[..., Stream], cadence: Cadence, most: int
) -> None:
    stream = open_stream(cadence)
    stream.say(0.9, arguments)
    assert stream.sent == []
    stream.say(9.1, arguments)
    assert most - 1 <= len(stream.sent) <= most


async def test_a_silent_model_costs_the_signs_of_life_only(
    open_stream: Callable[..., Stream],
) -> None:
    stream = open_stream()
    stream.say(0.02)
    stream.clock.advance(30)
    assert len(stream.sent) == 1 + 30 // LIVENESS_SECONDS
    assert all(details["events"] for _, details in stream.sent), "the window is not removed"


async def test_a_thread_takes_over_while_the_loop_is_blocked(
    open_stream: Callable[..., Stream],
) -> None:
    stream = open_stream()
    assert stream.beat.send is None
    stream.say(0.02)
    assert stream.beat.interval == pytest.approx(5.0)
    stream.beat.last = 0.0
    stream.clock.advance(1.0)
    assert stream.beat.last > 0.0, "the thread knows what the loop has sent"
    details: Any = stream.beat.send
    assert details()["events"] == stream.window.details()["events"]


async def test_no_event_waits_longer_than_until_the_next_is_announced(
    open_stream: Callable[..., Stream],
) -> None:
    stream = open_stream()
    stream.say(20)
    announced = [details["next_ms"] for _, details in stream.sent]
    assert (announced[0], announced[-1]) == (120, pytest.approx(1000, abs=50))
    for (at, details), (then, _) in pairwise(stream.sent):
        assert then - at <= details["next_ms"] / 1000 * 1.06 + 0.021


async def test_a_long_window_is_sent_more_rarely(open_stream: Callable[..., Stream]) -> None:
    quick = open_stream(Cadence(0.1))
    quick.say(5, lambda: text("x" * 800))
    rare = len(quick.sent)
    slow = open_stream(Cadence(0.1))
    slow.say(5)
    assert rare < len(slow.sent) / 3


@pytest.mark.parametrize(
    ("cadence", "read_here"), [(Cadence(60.0), False), (Cadence(), True), (Cadence(0.9), False)]
)
async def test_signs_of_life_come_in_time_however_long_the_window_is(
    open_stream: Callable[..., Stream], cadence: Cadence, *, read_here: bool
) -> None:
    stream = open_stream(cadence)
    stream.read_here = read_here
    stream.say(20, lambda: text("x" * 3_000))
    assert stream.window.weight > 3
    waits = [after - before for before, after in pairwise([0.0, *stream.times()])]
    assert max(waits) <= LIVENESS_SECONDS + 0.01


async def test_what_was_not_sent_at_the_end_stays_in_the_window(
    open_stream: Callable[..., Stream],
) -> None:
    stream = open_stream()
    with stream.stream as entered:
        assert entered is stream.stream
        stream.say(0.1)
    sent = len(stream.sent)
    stream.clock.advance(100)
    assert len(stream.sent) == sent
    (entry,) = stream.window.details()["events"]
    assert "".join(entry["deltas"]) == "word " * 5


async def test_a_text_that_is_read_in_the_process_costs_the_signs_of_life_only(
    open_stream: Callable[..., Stream],
) -> None:
    stream = open_stream()
    stream.read_here = True
    stream.say(10)
    assert stream.times() == pytest.approx([LIVENESS_SECONDS, 2 * LIVENESS_SECONDS], abs=0.01)
    stream.read_here = False
    sent = len(stream.sent)
    stream.say(10)
    assert len(stream.sent) - sent >= 10, "others read it when the reader here is gone"


async def test_a_chosen_interval_holds_whoever_reads(open_stream: Callable[..., Stream]) -> None:
    stream = open_stream(Cadence(0.5))
    stream.read_here = True
    stream.say(10)
    assert len(stream.sent) == pytest.approx(20, abs=1)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [(None, None), ({"stream": True}, None), ({"stream_interval_ms": 250}, 0.25)],
)
def test_a_cadence_comes_with_the_settings_of_the_run(
    settings: JsonObject | None, expected: float | None
) -> None:
    assert Cadence.of(settings).interval == expected


async def test_a_call_that_is_not_streamed_has_no_timer() -> None:
    def never(*_details: Any) -> None:
        raise AssertionError

    environment = ActivityEnvironment()
    environment.on_heartbeat = never
    stream = Stream(Cadence())
    stream.clock.advance(100)
    stream.stream.__exit__()
    assert stream.clock.timers == []


async def test_the_first_text_is_sent_at_once_where_it_decides_whether_another_model_follows(
    open_stream: Callable[..., Stream],
) -> None:
    stream = open_stream()
    stream.read_here = stream.shown.decides = True
    stream.say(1.0, lambda: {"type": "response.in_progress", "response": {}})
    assert all("shown" not in details for _, details in stream.sent)
    sent, stream.shown.has_left = len(stream.sent), True
    stream.say(0.04)
    assert [details["shown"] for _, details in stream.sent[sent:]] == [True]
    stream.say(10)
    assert len(stream.sent) <= sent + 5


async def test_text_that_an_earlier_attempt_has_shown_stays_known_without_a_new_event(
    open_stream: Callable[..., Stream],
) -> None:
    stream = open_stream()
    window, beat = DeltaWindow(effect=2, attempt=2), stream.beat
    known = ShownText.before({"effect": 2, "shown": True})
    with StreamHeartbeats(window, beat, Cadence(), lambda: False, known):
        assert beat.send is not None
        details: Any = beat.send()
    assert (details["shown"], details["events"]) == (True, [])


@pytest.mark.parametrize("details", [None, [], {}, {"shown": 1}, "shown"])
def test_details_that_do_not_say_so_are_no_text_that_has_left(details: Any) -> None:
    assert not ShownText.before(details).has_left
