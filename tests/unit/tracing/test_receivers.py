"""Who is told, and that nobody can disturb the work."""

import subprocess
import sys
import threading

import pytest

from outlast.tracing.receivers import DISABLING_VARIABLES, Backlog, Receiver, Registration


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
    def on_span_end(self, span: object) -> None:
        super().on_span_end(span)
        raise ConnectionError("backend is down")


def test_a_faulty_processor_is_logged_once_and_told_further(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faulty = Faulty()
    receiver = Receiver(faulty)
    for span in ("a", "b"):
        receiver.call("on_span_end", span)
    assert faulty.heard == ["a", "b"]
    (record,) = caplog.records
    assert "Faulty.on_span_end failed" in record.getMessage()
    assert "backend is down" in caplog.text


def test_an_interrupt_is_no_failure_of_a_processor() -> None:
    class Interrupted(Listener):
        def on_span_end(self, span: object) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Receiver(Interrupted()).call("on_span_end", "a")


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
    registration.tell_all("force_flush")
    assert (first.heard, second.heard) == (["flushed"], ["flushed"])
    registration.disable(False)
    assert [one.processor for one in registration.active] == [first, second]


def test_processors_are_shut_down_when_the_process_ends() -> None:
    program = """
from outlast.tracing.receivers import REGISTRATION
class Says:
    def shutdown(self): print("sent the rest")
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


def test_what_waits_is_told_before_what_is_told_next(monkeypatch: pytest.MonkeyPatch) -> None:
    backlog, listener = Backlog(), Listener()
    monkeypatch.setattr("outlast.tracing.receivers.BACKLOG", backlog)
    receiver = Receiver(listener)
    release = threading.Event()

    def hold() -> None:
        release.wait(60)

    backlog.add(hold)
    for span in ("a", "b"):
        backlog.add(lambda span=span: receiver.call("on_span_end", span))
    threading.Timer(0.05, release.set).start()
    receiver.call("on_span_end", "c")
    assert listener.heard == ["a", "b", "c"]


def test_what_waits_is_told_by_itself() -> None:
    told = threading.Event()
    Backlog().add(told.set)
    assert told.wait(60)


def test_what_cannot_be_told_is_logged_and_the_rest_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    backlog, heard = Backlog(), list[str]()

    def fail() -> None:
        raise LookupError("no such stage")

    backlog.add(fail)
    backlog.add(lambda: heard.append("next"))
    backlog.settle()
    assert heard == ["next"]
    assert "no such stage" in caplog.text


def test_too_much_that_waits_is_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("outlast.tracing.receivers.MOST_WAITING", 2)
    backlog, release, heard = Backlog(), threading.Event(), list[int]()
    began = threading.Event()

    def hold() -> None:
        began.set()
        release.wait(60)

    backlog.add(hold)
    assert began.wait(60)
    for number in range(5):
        backlog.add(lambda number=number: heard.append(number))
    release.set()
    backlog.settle()
    assert heard == [0, 1]
    assert len(caplog.records) == 1
