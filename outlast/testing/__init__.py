"""Tools for users' tests: run agents like functions, without a server.

`run_in_memory`, `ScriptedModel`, `ScriptedResponsesServer`, `ScriptedRealtimeServer`, and functions
that write scripts. Shipped with the package.
"""

from outlast.testing.memory_stream import run_in_memory_streamed
from outlast.testing.realtime_server import ScriptedRealtimeServer
from outlast.testing.responses_server import ScriptedResponsesServer
from outlast.testing.run import run_in_memory
from outlast.testing.scripted_calls import (
    computer_call,
    custom_call,
    local_shell_call,
    patch_call,
    shell_call,
)
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
    "ScriptedRealtimeServer",
    "ScriptedResponsesServer",
    "SpanCollector",
    "after",
    "call",
    "computer_call",
    "costing",
    "custom_call",
    "fail_after",
    "local_shell_call",
    "paced",
    "patch_call",
    "raw_call",
    "refuse",
    "run_in_memory",
    "run_in_memory_streamed",
    "say",
    "shell_call",
    "wait_for",
]
