"""Traces and spans: their life, their ids, and which is the current one."""

import asyncio
import threading
from collections.abc import Generator
from contextvars import copy_context
from datetime import datetime

import pytest

from outlast.testing.span_collector import SpanCollector
from outlast.tracing.current import (
    CURRENT,
    NO_SPAN,
    Current,
    NoSpan,
    Span,
    Trace,
    derived_span_id,
    derived_trace_id,
    error_of,
    gen_group_id,
    gen_span_id,
    gen_trace_id,
)
from outlast.tracing.kinds import CustomSpanData, FunctionSpanData, SpanError
from outlast.tracing.receivers import REGISTRATION


@pytest.fixture
def collected() -> Generator[SpanCollector]:
    with SpanCollector() as collector:
        yield collector


def span_of(
    trace: Trace, *, durable: bool = False, sensitive: bool = True
) -> Span[FunctionSpanData]:
    return Span(
        trace,
        FunctionSpanData("f", "in"),
        span_id="span_1",
        receivers=REGISTRATION.active,
        durable=durable,
        sensitive=sensitive,
    )


@pytest.mark.parametrize(
    ("made", "pattern"),
    [
        (gen_trace_id(), ("trace", 32)),
        (gen_span_id(), ("span", 24)),
        (gen_group_id(), ("group", 24)),
        (derived_trace_id("run", "r"), ("trace", 32)),
        (derived_span_id("effect", "r", 1), ("span", 24)),
    ],
    ids=["trace", "span", "group", "derived trace", "derived span"],
)
def test_an_id_is_its_kind_and_hex_digits(made: str, pattern: tuple[str, int]) -> None:
    kind, digits = made.split("_")
    assert (kind, len(digits)) == pattern
    int(digits, 16)


def test_derived_ids_repeat_and_tell_their_parts_apart() -> None:
    assert derived_span_id("a", "b", 1) == derived_span_id("a", "b", 1)
    alike = [("a", "b", 1), ("ab", 1), ("a", "b1"), ("a", "b", "1"), ('a","b', 1), ("a", "b", 11)]
    assert len({derived_span_id(*parts) for parts in alike}) == len(alike)


def test_generated_ids_differ() -> None:
    assert len({gen_span_id() for _ in range(100)}) == 100


def test_a_span_knows_what_is_told_about_its_trace() -> None:
    assert span_of(Trace("Support", trace_id="t", metadata={"tier": 1})).trace_metadata == {
        "tier": 1
    }
    assert span_of(Trace("Support", trace_id="t")).trace_metadata is None


def test_a_trace_is_told_of_once_and_is_current_inside(collected: SpanCollector) -> None:
    trace = Trace("Support", trace_id="trace_1", group_id="chat", metadata={"tier": 1})
    with trace as entered:
        assert entered is trace
        assert CURRENT.get() == Current(trace, None)
        assert collected.ended_traces == []
        trace.start()
    trace.finish()
    assert CURRENT.get() is None
    assert (collected.traces, collected.ended_traces) == ([trace], [trace])
    assert trace.export() == {
        "object": "trace",
        "id": "trace_1",
        "workflow_name": "Support",
        "group_id": "chat",
        "metadata": {"tier": 1},
    }


async def test_a_trace_is_an_async_context_manager_too(collected: SpanCollector) -> None:
    async with Trace("Support", trace_id="trace_1") as trace:
        inside = await asyncio.create_task(asyncio.sleep(0, CURRENT.get()))
        assert inside == Current(trace, None)
    assert collected.ended_traces == [trace]
    assert CURRENT.get() is None


def test_a_trace_that_was_started_by_hand_becomes_current_when_entered() -> None:
    trace = Trace("Support", trace_id="trace_1")
    trace.start()
    assert CURRENT.get() is None
    with trace:
        assert CURRENT.get() == Current(trace, None)
    assert CURRENT.get() is None


def test_nobody_is_told_of_a_disabled_trace(collected: SpanCollector) -> None:
    with Trace("Support", trace_id="trace_1", disabled=True) as trace:
        assert CURRENT.get() == Current(trace, None)
    assert (collected.traces, trace.trace_id, trace.export()) == ([], "no-op", None)


def test_a_trace_ends_for_those_who_saw_its_beginning(collected: SpanCollector) -> None:
    trace = Trace("Support", trace_id="trace_1")
    trace.start()
    with SpanCollector() as late:
        trace.finish()
    assert (collected.ended_traces, late.ended_traces) == ([trace], [])


def test_a_restored_trace_is_told_of_at_its_end_only(collected: SpanCollector) -> None:
    trace = Trace("Support", trace_id="trace_1")
    trace.finish()
    assert collected.ended_traces == []
    trace.restore()
    trace.finish()
    assert (collected.traces, collected.ended_traces) == ([], [trace])


def test_a_trace_may_be_left_in_another_context() -> None:
    trace = Trace("Support", trace_id="trace_1")
    copy_context().run(trace.start, True)
    trace.finish(reset_current=True)
    assert CURRENT.get() is None


def test_a_span_is_told_of_with_both_its_times(collected: SpanCollector) -> None:
    trace = Trace("Support", trace_id="trace_1")
    with span_of(trace) as span:
        assert CURRENT.get() == Current(trace, span)
        assert collected.open_spans == [span]
        span.span_data.output = "out"
    assert CURRENT.get() is None
    assert collected.spans() == [span]
    started, ended = (datetime.fromisoformat(at or "") for at in (span.started_at, span.ended_at))
    assert started <= ended
    assert started.tzinfo is not None
    assert span.export() == {
        "object": "trace.span",
        "id": "span_1",
        "trace_id": "trace_1",
        "parent_id": None,
        "started_at": span.started_at,
        "ended_at": span.ended_at,
        "span_data": span.span_data.export(),
        "error": None,
    }


def test_a_span_never_ends_before_it_begins() -> None:
    span = span_of(Trace("Support", trace_id="trace_1"))
    span.start(at_seconds=100.0)
    span.finish(at_seconds=99.5)
    assert span.ended_at == span.started_at == "1970-01-01T00:01:40.000000+00:00"


def test_a_span_begins_and_ends_once(collected: SpanCollector) -> None:
    span = span_of(Trace("Support", trace_id="trace_1"))
    span.finish()
    assert span.ended_at is None
    span.start(at_seconds=1)
    span.start(at_seconds=2)
    span.finish(at_seconds=3)
    span.finish(at_seconds=4)
    assert (span.started_at or "")[17:19] == "01"
    assert (span.ended_at or "")[17:19] == "03"


def test_an_exception_is_the_error_of_its_span(collected: SpanCollector) -> None:
    trace = Trace("Support", trace_id="trace_1")
    with pytest.raises(ValueError, match="4111"), span_of(trace):
        raise ValueError("bad card 4111")
    assert collected.spans()[0].error == {
        "message": "bad card 4111",
        "data": {"type": "ValueError"},
    }


def test_an_error_that_was_set_stays(collected: SpanCollector) -> None:
    span = span_of(Trace("S", trace_id="trace_1"))
    span.set_error(SpanError(message="Card refused", data={"code": 3}))
    with pytest.raises(ValueError, match="x"), span:
        raise ValueError("x")
    assert collected.spans()[0].error == {"message": "Card refused", "data": {"code": 3}}


def test_a_cancelled_span_says_so(collected: SpanCollector) -> None:
    with pytest.raises(asyncio.CancelledError), span_of(Trace("S", trace_id="trace_1")):
        raise asyncio.CancelledError
    error = collected.spans()[0].error
    assert error is not None
    assert error["message"] == "It was cancelled."


def test_inputs_outputs_and_words_of_errors_are_dropped_before_anybody_sees_them() -> None:
    seen: list[str] = []
    has_content = threading.Event()

    class Reader(SpanCollector):
        def on_span_start(self, span: Span[FunctionSpanData]) -> None:
            assert has_content.wait(60)
            seen.append(str(span.export()))

        def on_span_end(self, span: Span[FunctionSpanData]) -> None:
            seen.append(str(span.export()))

    trace = Trace("Support", trace_id="trace_1")

    def fail() -> None:
        with span_of(trace, sensitive=False) as span:
            span.span_data.input = span.span_data.output = "4111"
            has_content.set()
            REGISTRATION.settle(60)
            raise ValueError("4111")

    with Reader(), pytest.raises(ValueError, match="4111"):
        fail()
    assert len(seen) == 2
    assert not any("4111" in told or "'in'" in told for told in seen)
    assert "ValueError" in seen[1]


def test_spans_in_a_durable_span_have_derived_ids() -> None:
    first, again = (span_of(Trace("S", trace_id="trace_1"), durable=True) for _ in range(2))
    ids = [first.child_id("custom"), first.child_id("custom"), first.child_id("function")]
    assert len(set(ids)) == 3
    assert ids == [again.child_id("custom"), again.child_id("custom"), again.child_id("function")]


def test_spans_in_another_span_have_new_ids() -> None:
    span = span_of(Trace("S", trace_id="trace_1"))
    assert span.child_id("custom") != span_of(span.trace).child_id("custom")


def test_a_span_without_receivers_is_exported_to_nobody() -> None:
    span = Span(Trace("S", trace_id="trace_1"), CustomSpanData("c"), span_id="span_1")
    with span:
        pass
    assert not span.is_recorded
    assert span.export() is None


@pytest.mark.usefixtures("collected")
def test_no_span_does_nothing_and_keeps_nothing() -> None:
    with NO_SPAN as span:
        assert CURRENT.get() is None
        span.span_data.output = "secret"
        span.set_error(SpanError(message="secret", data=None))
        span.start(mark_as_current=True)
        span.finish(reset_current=True)
    with pytest.raises(ValueError, match="x"), NO_SPAN:
        raise ValueError("x")
    assert (span.error, span.started_at, span.ended_at, span.export()) == (None, None, None, None)
    assert (span.trace_id, span.span_id, span.span_data.output) == ("no-op", "no-op", None)


def test_a_span_of_a_program_that_nobody_listens_to_keeps_its_data() -> None:
    with NoSpan(CustomSpanData("c", {})) as span:
        span.span_data.data["rows"] = 3
    assert span.span_data.data == {"rows": 3}


def test_an_error_without_words_is_its_kind() -> None:
    assert error_of(TimeoutError(), sensitive=True)["message"] == "TimeoutError"
