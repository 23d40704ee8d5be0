"""For users' tests: agents run like functions, without a server.

Owns: `run_in_memory`, `ScriptedModel` and what scripts are written with. Shipped with the package.
Must not know: Temporal.
"""

from outlast.testing.read_along import run_in_memory_streamed
from outlast.testing.run import run_in_memory
from outlast.testing.scripted_model import (
    ScriptedModel,
    after,
    call,
    costing,
    fail_after,
    paced,
    raw_call,
    refuse,
    say,
    wait_for,
)
from outlast.testing.span_collector import SpanCollector

__all__ = [
    "ScriptedModel",
    "SpanCollector",
    "after",
    "call",
    "costing",
    "fail_after",
    "paced",
    "raw_call",
    "refuse",
    "run_in_memory",
    "run_in_memory_streamed",
    "say",
    "wait_for",
]
