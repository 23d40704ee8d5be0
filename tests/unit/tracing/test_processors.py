"""Traces and spans in batches: what is sent, when, and what happens when it cannot be."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from outlast import Span, Trace, UserError, custom_span, set_trace_processors, trace
from outlast.tracing import BatchTraceProcessor, ConsoleSpanExporter, TracingExporter
from outlast.tracing.receivers import REGISTRATION

LONG = timedelta(hours=1)


class Collected(TracingExporter):
    def __init__(self, *, fails: bool = False) -> None:
        self.batches: list[list[str]] = []
        self.came = threading.Event()
        self.fails = fails

    def export(self, items: list[Trace | Span[Any]]) -> None:
        self.batches.append([type(item).__name__ for item in items])
        self.came.set()
        if self.fails:
            raise OSError("no way out")


@pytest.fixture(autouse=True)
def no_processors_after() -> Iterator[None]:
    yield
    REGISTRATION.add([], replace=True)


def tell(processor: BatchTraceProcessor, spans: int = 2) -> None:
    set_trace_processors([processor])
    with trace("A"):
        for number in range(spans):
            with custom_span(f"s{number}"):
                pass


def test_what_waits_is_sent_in_batches_when_it_is_asked_for() -> None:
    exporter = Collected()
    processor = BatchTraceProcessor(exporter, max_batch_size=2, schedule_delay=LONG)
    tell(processor)
    assert exporter.batches == []
    processor.force_flush()
    assert [len(batch) for batch in exporter.batches] == [2, 1]
    processor.shutdown()


def test_a_full_part_of_the_queue_is_sent_at_once_and_the_rest_at_the_end() -> None:
    exporter = Collected()
    processor = BatchTraceProcessor(
        exporter, max_queue_size=10, export_trigger_ratio=0.3, schedule_delay=LONG
    )
    tell(processor, spans=2)
    assert exporter.came.wait(timeout=10)
    tell(processor, spans=0)
    processor.shutdown()
    assert sum(len(batch) for batch in exporter.batches) == 4
    tell(processor, spans=1)
    processor.force_flush()
    assert sum(len(batch) for batch in exporter.batches) == 4, "it takes no more"


def test_a_short_delay_is_waited_for() -> None:
    exporter = Collected()
    processor = BatchTraceProcessor(exporter, schedule_delay=0.01)
    tell(processor, spans=1)
    assert exporter.came.wait(timeout=10)
    processor.shutdown(timeout=10)
    assert sum(len(batch) for batch in exporter.batches) == 2


def test_too_many_are_dropped_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    exporter = Collected()
    processor = BatchTraceProcessor(
        exporter, max_queue_size=2, export_trigger_ratio=9, schedule_delay=LONG
    )
    tell(processor, spans=5)
    processor.shutdown()
    assert exporter.batches == [["Trace", "Span"]]
    assert processor.lost == 4
    assert caplog.messages == ["Collected is too slow: 1 traces and spans were dropped so far"]


def test_an_exporter_that_fails_loses_its_batch_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    exporter = Collected(fails=True)
    processor = BatchTraceProcessor(exporter, max_batch_size=1, schedule_delay=LONG)
    tell(processor, spans=1)
    processor.shutdown()
    assert len(exporter.batches) == 2
    assert "no way out" in caplog.text


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError()])
def test_an_exporter_that_ends_threads_is_asked_again(error: BaseException) -> None:
    class Ending(Collected):
        def export(self, items: list[Trace | Span[Any]]) -> None:
            super().export(items)
            raise error

    exporter = Ending()
    processor = BatchTraceProcessor(exporter, max_batch_size=1, schedule_delay=LONG)
    tell(processor, spans=1)
    processor.force_flush()
    assert len(exporter.batches) == processor.lost == 2
    processor.shutdown()


def test_an_exporter_that_hangs_holds_nobody_for_longer_than_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Hanging(Collected):
        released = threading.Event()

        def export(self, items: list[Trace | Span[Any]]) -> None:
            self.released.wait(60)

    exporter = Hanging()
    processor = BatchTraceProcessor(exporter, schedule_delay=0)
    tell(processor, spans=1)
    processor.force_flush(timeout=0.01)
    processor.shutdown(timeout=0.01)
    assert caplog.messages == ["Hanging did not send 2 traces and spans within 0.01 s"] * 2
    exporter.released.set()


def test_an_exporter_that_opens_traces_does_not_feed_itself() -> None:
    class Tracing(Collected):
        def export(self, items: list[Trace | Span[Any]]) -> None:
            with trace("of the exporter"):
                pass
            super().export(items)

    exporter = Tracing()
    processor = BatchTraceProcessor(exporter, schedule_delay=0)
    tell(processor, spans=0)
    processor.shutdown()
    assert exporter.batches == [["Trace"]]


def test_the_console_gets_a_line_of_json_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    processor = BatchTraceProcessor(ConsoleSpanExporter(), schedule_delay=LONG)
    tell(processor, spans=1)
    processor.shutdown()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["object"] for line in lines] == ["trace", "trace.span"]


def test_without_a_delay_nothing_is_done_while_there_is_nothing_to_send() -> None:
    exporter = Collected()
    processor = BatchTraceProcessor(exporter, schedule_delay=0)
    tell(processor, spans=0)
    assert exporter.came.wait(timeout=10)
    before = time.process_time()
    assert not threading.Event().wait(timeout=0.3)
    assert time.process_time() - before < 0.1, "it keeps a core busy"
    processor.shutdown(timeout=10)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schedule_delay", -1),
        ("schedule_delay", "5"),
        ("schedule_delay", float("nan")),
        ("max_batch_size", 0),  # nothing would ever be sent
        ("max_queue_size", 0),
        ("max_queue_size", 1.5),
    ],
)
def test_sizes_and_delays_that_mean_nothing_are_refused(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=rf"BatchTraceProcessor\({name}="):
        BatchTraceProcessor(Collected(), **{name: value})
