"""OpenTelemetry's ids of traces and spans.

They are derived from the ids that spans already have, which say the run, the question, the effect
and the attempt. So a span that is sent again, by whatever process, has the same id again.
"""

import re
from functools import lru_cache
from hashlib import sha256

_TRACE = re.compile(r"(?:trace_)?([0-9a-f]{32})")
_SPAN = re.compile(r"(?:span_)?([0-9a-f]{16})[0-9a-f]*")
_CALLER = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


@lru_cache(maxsize=1024)
def trace_number(trace_id: str) -> int:
    """Return a trace's id as OpenTelemetry writes it: a number of 128 bits, never 0."""
    match = _TRACE.fullmatch(trace_id)
    return _number(match[1] if match else _hashed(trace_id)[:32])


@lru_cache(maxsize=1024)
def span_number(span_id: str) -> int:
    """Return a span's id as OpenTelemetry writes it: a number of 64 bits, never 0."""
    match = _SPAN.fullmatch(span_id)
    return _number(match[1] if match else _hashed(span_id)[:16])


def caller_numbers(traceparent: str) -> tuple[int, int, int] | None:
    """Return the trace, the span and the flags of a `traceparent`, or None if it is invalid."""
    match = _CALLER.fullmatch(traceparent)
    if match is None:
        return None
    trace, span, flags = (int(part, 16) for part in match.groups())
    return (trace, span, flags) if trace and span else None


def _number(digits: str) -> int:
    return int(digits, 16) or 1


def _hashed(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()
