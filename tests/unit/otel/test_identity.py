"""Ids of OpenTelemetry, derived from those of spans."""

import pytest

from outlast.otel.identity import caller_numbers, span_number, trace_number
from outlast.tracing.current import derived_span_id, derived_trace_id, gen_span_id, gen_trace_id


def test_an_id_is_the_same_every_time_and_keeps_its_digits() -> None:
    trace_id, span_id = derived_trace_id("run", "r@1.0"), derived_span_id("task", "r@1.0")
    assert f"trace_{trace_number(trace_id):032x}" == trace_id
    assert span_id.startswith(f"span_{span_number(span_id):016x}")
    assert 0 < trace_number(gen_trace_id()) < 2**128
    assert 0 < span_number(gen_span_id()) < 2**64


@pytest.mark.parametrize("own", ["trace_mine", "", "0" * 32, "trace_" + "0" * 32, "🙂\ud800"])
def test_any_id_of_a_program_becomes_a_valid_one(own: str) -> None:
    assert 0 < trace_number(own) < 2**128
    assert 0 < span_number(own) < 2**64
    assert trace_number(own) == trace_number(own)


def test_a_callers_span_is_read_and_nonsense_is_not() -> None:
    written = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert caller_numbers(written) == (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, 1)
    for bad in ("", "00-" + "0" * 32 + "-b7ad6b7169203331-01", "01" + written[2:], written + "\n"):
        assert caller_numbers(bad) is None
