"""Who is told, and that nobody can disturb the work."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outlast.tracing.current import Trace
from outlast.tracing.provider import get_current_trace, trace
from outlast.tracing.receivers import (
    DISABLING_VARIABLES,
    REGISTRATION,
    Inline,
    Receiver,
    Registration,
    unused,
)


class Listener:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def on_span_end(self, span: object) -> None:
        self.heard.append(span)

    def force_flush(self) -> None:
        self.heard.append("flushed")

    def shutdown(self) -> None:
        self.heard.append("shut down")


class Faulty(Listener):
    def __init__(self, fault: Callable[[], Any]) -> None:
        super().__init__()
        self.fault = fault

    def on_span_end(self, span: object) -> None:
        super().on_span_end(span)
        self.fault()


class Held(Listener):
    """Blocks in its first call, until the test releases it."""

    def __init__(self) -> None:
        super().__init__()
        self.began = threading.Event()
        self.released = threading.Event()

    def on_span_end(self, span: object) -> None:
        self.began.set()
        assert self.released.wait(60)
        super().on_span_end(span)


@pytest.fixture
def held() -> Iterator[Held]:
    listener = Held()
    yield listener
    listener.released.set()


@pytest.fixture
def registration() -> Iterator[Registration]:
    yield (made := Registration())
    made.add([], replace=True)


def fail(error: BaseException) -> Callable[[], Any]:
    def raise_it() -> None:
        raise error

    return raise_it


def recurse() -> None:
    recurse()


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (fail(ConnectionError("backend is down")), "backend is down"),
        (fail(SystemExit(3)), "SystemExit: 3"),
        (fail(asyncio.CancelledError()), "CancelledError"),
        (fail(KeyboardInterrupt()), "KeyboardInterrupt"),
        (recurse, "RecursionError"),
    ],
    ids=["error", "exit", "cancelled", "interrupt", "recursion"],
)
def test_whatever_a_processor_raises_is_logged_once_and_it_is_told_further(
    registration: Registration,
    caplog: pytest.LogCaptureFixture,
    fault: Callable[[], Any],
    says: str,
) -> None:
    faulty, other = Faulty(fault), Listener()
    registration.add([faulty, other])
    for span in ("a", "b"):
        for receiver in registration.active:
            receiver.call("on_span_end", span)
    registration.settle(60)
    assert faulty.heard == other.heard == ["a", "b"]
    (record,) = caplog.records
    assert "Faulty.on_span_end failed" in record.getMessage()
    assert says in caplog.text


def test_processors_are_added_replaced_and_removed() -> None:
    registration = Registration()
    first, second, third = Listener(), Listener(), Listener()
    registration.add([first])
    registration.add([second])
    assert [one.processor for one in registration.active] == [first, second]
    registration.add([third, second], replace=True)
    assert [one.processor for one in registration.active] == [third, second]
    registration.remove(third)
    assert [one.processor for one in registration.active] == [second]


def test_nobody_is_active_while_disabled() -> None:
    registration = Registration()
    first, second = Listener(), Listener()
    registration.add([first])
    registration.disable(True)
    registration.add([second])
    assert registration.active == ()
    assert registration.flush(60)
    assert (first.heard, second.heard) == (["flushed"], ["flushed"])
    registration.disable(False)
    assert [one.processor for one in registration.active] == [first, second]


def test_processors_are_shut_down_when_the_process_ends() -> None:
    program = """
import sys
from outlast.tracing.receivers import REGISTRATION
class Says:
    def shutdown(self): sys.stdout.write("sent the rest\\n")  # in one piece, unlike print
REGISTRATION.add([Says()])
REGISTRATION.add([Says()])
print("last line")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["last line", "sent the rest", "sent the rest"]


@pytest.mark.parametrize(
    ("ours", "theirs", "disabled"),
    [
        (None, None, False),
        (None, "1", True),
        ("true", None, True),
        ("0", "1", False),
        (None, "no", False),
    ],
)
def test_the_environment_disables_tracing_unless_the_program_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, ours: str | None, theirs: str | None, *, disabled: bool
) -> None:
    for name, value in zip(DISABLING_VARIABLES, (ours, theirs), strict=True):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    registration = Registration()

    def forget(*_: object) -> None: ...

    monkeypatch.setattr("atexit.register", forget)
    registration.add([Listener()])
    assert registration.is_disabled is disabled
    assert bool(registration.active) is not disabled
    registration.disable(False)
    assert registration.active
    assert not registration.is_disabled


def test_nobody_waits_for_a_processor_that_blocks(registration: Registration, held: Held) -> None:
    registration.add([held])
    (receiver,) = registration.active
    for span in ("a", "b", "c"):
        receiver.call("on_span_end", span)  # returns, although the first call has not
    assert held.began.wait(60)
    assert held.heard == []
    held.released.set()
    registration.settle(60)
    assert held.heard == ["a", "b", "c"]


def test_methods_that_do_nothing_are_not_called_unless_a_subclass_does_something() -> None:
    class Ends(Listener):
        @unused
        def on_span_start(self, span: object) -> None: ...

    class Both(Ends):
        def on_span_start(self, span: object) -> None:
            self.heard.append(("began", span))

    assert Receiver(Ends()).unused == Inline(Receiver(Ends())).unused == {"on_span_start"}
    assert Receiver(Both()).unused == Receiver(Listener()).unused == set()


def test_reports_wait_for_each_other_unless_somebody_waits_or_there_are_many(
    registration: Registration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.tracing.receivers.MANY_WAITING", 3)

    class Patient(Listener):
        handover_seconds = 3600.0

        def __init__(self) -> None:
            super().__init__()
            self.has_three = threading.Event()

        def on_span_end(self, span: object) -> None:
            super().on_span_end(span)
            if len(self.heard) == 3:
                self.has_three.set()

    patient = Patient()
    registration.add([patient])
    (receiver,) = registration.active
    while not receiver._is_idle:  # its thread has just begun, and has not looked yet
        time.sleep(0.001)
    receiver.call("on_span_end", "a")
    receiver.call("on_span_end", "b")
    assert patient.heard == []
    receiver.call("on_span_end", "c")
    assert patient.has_three.wait(60)
    registration.settle(60)
    receiver.call("on_span_end", "d")
    assert patient.heard == ["a", "b", "c"]
    registration.settle(60)
    assert patient.heard == ["a", "b", "c", "d"]


def test_a_processor_that_is_late_is_waited_for_once_until_it_has_caught_up(
    registration: Registration, held: Held
) -> None:
    quick = Listener()
    registration.add([held, quick])
    slow_one, quick_one = registration.active
    slow_one.call("on_span_end", "a")
    registration.settle(0.01)
    assert slow_one.is_late
    quick_one.call("on_span_end", "b")
    registration.settle(3600)  # waits for the quick one only
    assert quick.heard == ["b"]
    held.released.set()
    slow_one.ask().result(60)
    slow_one.call("on_span_end", "c")
    deadline = time.monotonic() + 60
    while slow_one.is_late:  # its thread sets it when its queue is empty
        assert time.monotonic() < deadline
    registration.settle(60)
    assert held.heard == ["a", "c"]


async def test_the_event_loop_works_while_the_end_of_a_run_waits(
    registration: Registration, held: Held
) -> None:
    registration.add([held])
    (receiver,) = registration.active
    receiver.call("on_span_end", "a")
    waiting = asyncio.create_task(registration.settled())
    await asyncio.sleep(0)
    assert not waiting.done()
    held.released.set()
    await waiting
    assert held.heard == ["a"]
    assert not receiver.is_late


def test_a_processor_may_flush_and_does_not_wait_for_itself(registration: Registration) -> None:
    faulty = Faulty(lambda: registration.flush(3600))
    registration.add([faulty])
    registration.active[0].call("on_span_end", "a")
    registration.active[0].ask().result(60)
    registration.settle(60)
    assert faulty.heard == ["a", "flushed"]


def test_what_does_not_fit_in_the_queue_is_counted_and_logged_ever_more_rarely(
    registration: Registration,
    held: Held,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("outlast.tracing.receivers.MOST_WAITING", 2)
    registration.add([held])
    (receiver,) = registration.active
    receiver.call("on_span_end", "first")
    assert held.began.wait(60)
    for number in range(15):
        receiver.call("on_span_end", number)
    assert registration.lost == 13
    held.released.set()
    registration.settle(60)
    assert held.heard == ["first", 0, 1]
    assert [record.getMessage() for record in caplog.records] == [
        "Held is too slow: 1 of its calls were dropped so far",
        "Held is too slow: 10 of its calls were dropped so far",
    ]


def test_a_processor_that_opens_traces_is_not_told_of_its_own() -> None:
    opened: list[str] = []

    class Tracing(Listener):
        def on_trace_start(self, started: Trace) -> None:
            opened.append(started.name)
            assert get_current_trace() is None
            with trace("of the processor"):
                pass

        def on_trace_end(self, ended: Trace) -> None:
            self.on_trace_start(ended)

        on_span_start = Listener.on_span_end

    REGISTRATION.add([Tracing()], replace=True)
    try:
        with trace("of the program"):
            pass
        REGISTRATION.settle(60)
    finally:
        REGISTRATION.add([], replace=True)
    assert opened == ["of the program", "of the program"]


def test_a_removed_processor_receives_what_ends_later(registration: Registration) -> None:
    listener = Listener()
    registration.add([listener])
    (receiver,) = registration.active
    registration.remove(listener)
    receiver.call("on_span_end", "late")
    registration.settle(60)
    assert listener.heard == ["late"]


def test_shutting_down_sends_what_waits_and_drops_what_takes_too_long(
    registration: Registration, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    quick = Listener()
    registration.add([held, quick])
    for receiver in registration.active:
        for span in ("a", "b", "c"):
            receiver.call("on_span_end", span)
    assert held.began.wait(60)
    assert not registration.shut_down(0.5)
    assert quick.heard == ["a", "b", "c", "shut down"]
    assert caplog.messages == [
        "Held is not done 0.5 s after its shutdown began; 3 of its calls are dropped"
    ]
    slow = registration.active[0]
    held.released.set()
    slow.ask().result(60)
    assert held.heard == ["a"]


HANGING = """
import sys, threading, time
from outlast.tracing import BatchTraceProcessor, TracingExporter, TracingProcessor, custom_span, trace
from outlast.tracing import add_trace_processor

class Hangs(TracingProcessor):
    def hang(self, *_): threading.Event().wait()
    on_trace_start = on_trace_end = on_span_start = on_span_end = shutdown = force_flush = hang

class Exporter(TracingExporter):
    def export(self, items): threading.Event().wait()

add_trace_processor(Hangs())
add_trace_processor(BatchTraceProcessor(Exporter(), schedule_delay=0))
for _ in range(20):
    with trace("T"), custom_span("s"):
        pass
print(f"{time.monotonic():.1f}")
"""


@pytest.mark.full
def test_a_process_ends_although_its_processor_and_its_exporter_hang() -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", HANGING], capture_output=True, text=True, check=True, timeout=60
    )
    ended = time.monotonic()
    finished = float(done.stdout)
    assert finished - began < 15  # the program waited for them once, not for each trace
    assert ended - finished < 15
    assert "Hangs is not done 5 s after its shutdown began; 80 of its calls are" in done.stderr
    assert "Exporter did not send 40 traces and spans within 4 s" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_tells_its_processors_too() -> None:
    program = """
import os
from outlast.tracing import add_trace_processor, trace
from outlast.testing import SpanCollector
collected = SpanCollector()
add_trace_processor(collected)
with trace("parent"): pass
pid = os.fork()
if pid == 0:
    with trace("child"): pass
    os._exit(0 if [one.name for one in collected.ended_traces] == ["parent", "child"] else 3)
assert os.waitpid(pid, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)
