"""The collector that users' tests look into."""

from outlast.testing.span_collector import SpanCollector
from outlast.tracing.effect_spans import effect_span, scope_of
from outlast.tracing.kinds import FunctionSpanData, HandoffSpanData, SpanError
from outlast.tracing.provider import custom_span, trace
from outlast.tracing.receivers import REGISTRATION
from outlast.tracing.user_spans import agent_span, turn_span


def test_it_listens_in_its_block_only() -> None:
    with SpanCollector() as collected, trace("Inside"):
        pass
    with trace("Outside"):
        pass
    assert [one.name for one in collected.traces] == ["Inside"]
    assert REGISTRATION.active == ()


def test_a_run_is_a_tree() -> None:
    with SpanCollector() as collected:
        scope = scope_of(None, "run-1", agent="Triage")
        around = trace("Support")
        around.start()
        agent = agent_span("Triage", span_id=scope.agent_span_id, parent=around)
        agent.start(at_seconds=1)
        with effect_span(scope, FunctionSpanData("find"), effect=2), custom_span("query"):
            pass
        with effect_span(scope, FunctionSpanData("pay"), effect=3) as failed:
            failed.set_error(SpanError(message="refused", data=None))
        with effect_span(scope, HandoffSpanData("Triage", "Billing"), effect=4):
            pass
        assert [span.span_data.name for span in collected.open_spans] == ["Triage"]
        agent.finish(at_seconds=2)
    assert collected.open_spans == []
    assert collected.tree().splitlines() == [
        "agent Triage",
        "  function find",
        "    custom query",
        "  function pay (error: refused)",
        "  handoff Triage -> Billing",
    ]
    assert [span.span_data.name for span in collected.spans("function")] == ["find", "pay"]


def test_a_turn_is_told_by_its_number_and_its_agent() -> None:
    with SpanCollector() as collected, trace("T"), turn_span(2, "A"):
        pass
    assert collected.tree() == "turn 2 A"


def test_what_begins_in_the_same_millisecond_stays_in_the_order_in_which_it_is_told() -> None:
    with SpanCollector() as collected, trace("T"):
        for name, at_seconds in [("b", 7.0009), ("a", 7.0002), ("late", 7.002), ("early", 6.999)]:
            span = custom_span(name)
            span.start(at_seconds=at_seconds)
            span.finish(at_seconds=8)
    assert [span.span_data.name for span in collected.spans()] == ["early", "b", "a", "late"]


def test_what_is_told_twice_is_kept_once() -> None:
    with SpanCollector() as collected:
        scope = scope_of(None, "run-1", agent="A")
        for output in ("first", "second"):
            with effect_span(scope, FunctionSpanData("f", output=output), effect=1):
                pass
    assert [span.span_data.output for span in collected.spans()] == ["second"]


def test_it_forgets_when_asked() -> None:
    with SpanCollector() as collected, trace("T"), custom_span("c"):
        pass
    collected.clear()
    assert (collected.traces, collected.ended_traces, collected.spans()) == ([], [], [])
    assert collected.open_spans == []
    assert collected.tree() == ""


def test_it_can_be_flushed_and_shut_down_and_read_afterwards() -> None:
    with SpanCollector() as collected, trace("T"), custom_span("c"):
        pass
    collected.force_flush()
    collected.shutdown()
    assert len(collected.spans("custom")) == 1
