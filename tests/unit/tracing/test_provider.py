"""What programs call: processors, traces that group runs, spans of their own."""

from collections.abc import Generator
from datetime import datetime
from typing import Any, cast

import pytest

from outlast.agents.errors import UserError
from outlast.agents.threads import run_in_thread
from outlast.testing.span_collector import SpanCollector
from outlast.tracing import default_exporter, set_tracing_export_api_key
from outlast.tracing.current import Span, Trace, gen_trace_id
from outlast.tracing.kinds import SpanData
from outlast.tracing.provider import (
    TracingProcessor,
    add_trace_processor,
    custom_span,
    flush_traces,
    get_current_span,
    get_current_trace,
    join_current_trace,
    open_span,
    set_trace_processors,
    set_tracing_disabled,
    trace,
)
from outlast.tracing.receivers import REGISTRATION
from outlast.tracing.trace_provider import get_trace_provider


@pytest.fixture(autouse=True)
def nobody_listens_afterwards() -> Generator[None]:
    yield
    set_tracing_disabled(False)
    set_trace_processors([])


class Faulty(TracingProcessor):
    def on_trace_start(self, trace: Trace) -> None:
        raise OSError("disk full")

    def on_trace_end(self, trace: Trace) -> None:
        raise OSError("disk full")

    def on_span_start(self, span: Span[Any]) -> None:
        raise OSError("disk full")

    def on_span_end(self, span: Span[Any]) -> None:
        raise OSError("disk full")

    def shutdown(self) -> None:
        raise OSError("disk full")

    def force_flush(self) -> None:
        raise OSError("disk full")


def test_a_key_for_the_export_of_traces_is_kept_and_one_line_says_that_nothing_is_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    set_tracing_export_api_key("sk-secret")
    set_tracing_export_api_key("sk-secret")
    (line,) = caplog.messages
    assert line.startswith("set_tracing_export_api_key alone sends no trace to OpenAI")
    assert default_exporter().api_key == "sk-secret"
    assert "sk-secret" not in line
    assert REGISTRATION.active == ()


def test_nobody_listens_by_default() -> None:
    assert REGISTRATION.active == ()


def test_every_processor_is_told_whatever_another_raises(
    caplog: pytest.LogCaptureFixture,
) -> None:
    collected = SpanCollector()
    add_trace_processor(Faulty())
    add_trace_processor(collected)
    with trace("Support"), custom_span("query"):
        pass
    flush_traces()
    assert len(collected.spans()) == len(collected.ended_traces) == 1
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_set_processors_replaces_those_there_are() -> None:
    first, second = SpanCollector(), SpanCollector()
    add_trace_processor(first)
    set_trace_processors([second])
    with trace("Support"):
        pass
    assert (len(first.traces), len(second.traces)) == (0, 1)


def test_disabled_tracing_tells_nobody_until_it_is_enabled() -> None:
    with SpanCollector() as collected:
        set_tracing_disabled(True)
        with trace("Off") as off, custom_span("query"):
            assert off.disabled
        set_tracing_disabled(False)
        with trace("On"):
            pass
    assert [one.name for one in collected.traces] == ["On"]
    assert collected.spans() == []


@pytest.mark.parametrize("wrong", [None, "console", SpanCollector, object()])
def test_what_is_no_processor_is_refused(wrong: object) -> None:
    processor = cast("TracingProcessor", wrong)
    with pytest.raises(UserError, match=r"no tracing processor.*on_span_end"):
        add_trace_processor(processor)
    with pytest.raises(UserError, match="subclass of TracingProcessor"):
        set_trace_processors([processor])
    assert REGISTRATION.active == ()


def test_a_processor_that_lacks_a_method_cannot_be_made() -> None:
    class Half(TracingProcessor):
        def shutdown(self) -> None: ...

    with pytest.raises(TypeError, match="on_span_end"):
        cast("Any", Half)()


def test_a_trace_takes_what_it_is_told() -> None:
    made = trace("Support", "trace_mine", "chat-1", {"tier": 2})
    assert (made.name, made.trace_id, made.group_id, made.metadata) == (
        "Support",
        "trace_mine",
        "chat-1",
        {"tier": 2},
    )
    assert trace("Support").trace_id != trace("Support").trace_id


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"workflow_name": ""}, "workflow_name"),
        ({"workflow_name": 7}, "workflow_name"),
        ({"workflow_name": "W", "trace_id": 7}, "trace_id"),
        ({"workflow_name": "W", "group_id": 7}, "group_id"),
        ({"workflow_name": "W", "metadata": ["x"]}, "metadata"),
        ({"workflow_name": "W", "metadata": {"x": object()}}, "metadata"),
        ({"workflow_name": "W", "metadata": {"x": float("nan")}}, "metadata"),
    ],
)
def test_a_trace_that_cannot_travel_is_refused(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=rf"trace\({named}="):
        trace(**arguments)


def test_a_trace_in_a_trace_is_apart_and_said_to_be(caplog: pytest.LogCaptureFixture) -> None:
    with SpanCollector() as collected, trace("Outer") as outer, custom_span("around"):
        with trace("Inner") as inner:
            assert get_current_trace() is inner
            assert get_current_span() is None
            with custom_span("query") as span:
                assert (span.trace_id, span.parent_id) == (inner.trace_id, None)
        assert get_current_trace() is outer
    assert "'Inner' is opened inside another" in caplog.text
    assert len(collected.ended_traces) == 2


def test_a_span_is_in_the_span_around_it() -> None:
    with SpanCollector(), trace("Support") as around:
        with custom_span("outer", {"a": 1}) as outer:
            with custom_span("inner") as inner:
                assert get_current_span() is inner
            assert get_current_span() is outer
        assert get_current_span() is None
    assert (outer.trace_id, outer.parent_id) == (around.trace_id, None)
    assert (inner.trace_id, inner.parent_id) == (around.trace_id, outer.span_id)
    assert outer.span_data.data == {"a": 1}


def test_a_span_can_be_given_its_id_and_its_place() -> None:
    with SpanCollector():
        elsewhere = trace("Elsewhere")
        with custom_span("outer", parent=elsewhere, span_id="span_mine") as outer:
            pass
        with custom_span("inner", parent=outer) as inner:
            pass
    assert (outer.trace, outer.span_id, outer.parent_id) == (elsewhere, "span_mine", None)
    assert (inner.trace, inner.parent_id) == (elsewhere, "span_mine")


def test_a_span_without_a_trace_is_lost_and_said_to_be(caplog: pytest.LogCaptureFixture) -> None:
    with SpanCollector() as collected, custom_span("query") as span:
        span.span_data.data["rows"] = 3
    assert collected.spans() == []
    assert "no trace around it" in caplog.text


def test_nobody_is_told_of_what_is_in_a_disabled_span() -> None:
    with SpanCollector() as collected, trace("Support"):
        with custom_span("outer", disabled=True), custom_span("inner") as inner:
            assert inner.export() is None
        with custom_span("next"):
            pass
    assert [span.span_data.name for span in collected.spans()] == ["next"]


async def test_a_span_follows_into_threads() -> None:
    def blocking() -> str | None:
        with custom_span("query") as span:
            return span.parent_id

    with SpanCollector(), trace("Support"), custom_span("outer") as outer:
        assert await run_in_thread(blocking) == outer.span_id


def test_data_of_ones_own_can_be_told() -> None:
    class Upload(SpanData):
        size = 3

        @property
        def type(self) -> str:
            return "upload"

        def export(self) -> dict[str, Any]:
            return {"type": self.type, "size": self.size}

    with SpanCollector() as collected, trace("Support"), open_span(Upload()):
        pass
    exported = collected.spans("upload")[0].export()
    assert exported is not None
    assert exported["span_data"] == {"type": "upload", "size": 3}


def test_a_run_joins_the_trace_it_is_started_in() -> None:
    own = {"model": "gpt-5", "workflow_name": "Mine", "group_id": "mine"}
    with SpanCollector(), trace("Support", "trace_1", metadata={"tier": 1}):
        assert join_current_trace(own) == {
            "model": "gpt-5",
            "trace_id": "trace_1",
            "workflow_name": "Support",
            "trace_metadata": {"tier": 1},
            "trace_joined": True,
            "trace_task_name": "Mine",
        }
    assert own["workflow_name"] == "Mine"


def test_a_run_that_is_started_in_a_span_is_a_child_of_it() -> None:
    with SpanCollector(), trace("Support", "trace_1"), custom_span("batch") as span:
        assert (join_current_trace(None) or {})["trace_parent_id"] == span.span_id


@pytest.mark.parametrize("settings", [None, {}])
def test_a_run_outside_a_trace_has_the_settings_it_had(settings: dict[str, Any] | None) -> None:
    assert join_current_trace(settings) is None
    assert join_current_trace({"trace_id": "trace_1"}) == {"trace_id": "trace_1"}


def test_a_run_is_not_traced_where_tracing_is_disabled() -> None:
    with trace("Support", disabled=True):
        assert join_current_trace(None) == {"tracing_disabled": True}
    with SpanCollector(), trace("Support"), custom_span("quiet", disabled=True):
        assert (join_current_trace(None) or {})["tracing_disabled"] is True
    with trace("Support"):
        assert (join_current_trace({"tracing_disabled": True}) or {})["tracing_disabled"] is True
    set_tracing_disabled(True)
    assert join_current_trace(None) == {"tracing_disabled": True}


def test_a_run_joins_the_trace_of_a_client_that_does_not_listen() -> None:
    chosen = gen_trace_id()
    with trace("Support", chosen), custom_span("batch"):
        joined = join_current_trace({"workflow_name": "Mine"}) or {}
    assert joined["trace_id"] == chosen
    theirs = {"trace_parent_id", "trace_joined", "trace_task_name"}
    assert not joined.keys() & theirs  # the workers tell of it


def test_the_trace_provider_stands_for_the_functions() -> None:
    traces = get_trace_provider()
    assert traces is get_trace_provider()
    collector = SpanCollector()
    traces.set_processors([])
    traces.register_processor(collector)
    with traces.create_trace("Support", group_id="g") as opened:
        assert traces.get_current_trace() is opened
        assert traces.get_current_span() is None
    traces.force_flush()
    assert [one.name for one in collector.traces] == ["Support"]
    traces.set_disabled(True)
    assert REGISTRATION.is_disabled
    ids = (traces.gen_trace_id(), traces.gen_span_id(), traces.gen_group_id())
    assert [one.partition("_")[0] for one in ids] == ["trace", "span", "group"]
    assert datetime.fromisoformat(traces.time_iso()).tzinfo is not None
    traces.shutdown()
