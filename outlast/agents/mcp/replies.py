"""What an MCP server answers to a tool call besides a result: a task, or questions for people."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from outlast.loop.values import JsonObject

DEFAULT_POLL_SECONDS: Final = 5.0
"""How long to wait before the next look at a task if its server does not say."""

LEAST_POLL_SECONDS: Final = 1.0
"""The shortest wait before the next look, whatever the server says."""

MOST_POLL_SECONDS: Final = 3600.0
"""The longest wait before the next look, whatever the server says."""

SLOWDOWN: Final = 20
"""A task that has taken long is looked at less often: after a twentieth of its time so far.

Each look is a timer and an activity in the history of the run, and the result is late by at most
5 %.
"""

MCPTaskStatus: TypeAlias = Literal[
    "working", "input_required", "completed", "failed", "cancelled", "unknown"
]
"""The states of the protocol, and `unknown`: the server does not know the task, or not any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MCPTask:
    """The state of a task, as its server told it last.

    Attributes:
        task_id: the server's id.
        status: the state.
        message: the server's words about the state.
        poll_interval_ms: how long to wait before the next look, if the server says so.
        ttl_ms: how long the server keeps the task from its creation on; None for ever.
        result: the `mcp.types.CallToolResult` of a completed task.
        error: the server's words about the error of a failed task.
        inputs: the requests that the task waits for, by key: `method` and `params`.
    """

    task_id: str
    status: MCPTaskStatus = "working"
    message: str = ""
    poll_interval_ms: float | None = None
    ttl_ms: float | None = None
    result: Any = None
    error: str = ""
    inputs: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])

    def poll_seconds(self, taken_seconds: float = 0.0) -> float:
        """Return how long to wait before the next look.

        Args:
            taken_seconds: how long the task has taken so far.
        """
        says = self.poll_interval_ms
        wanted = DEFAULT_POLL_SECONDS if says is None else says / 1000
        least = max(LEAST_POLL_SECONDS, taken_seconds / SLOWDOWN)
        return min(max(wanted, least), MOST_POLL_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class MCPInputRequired:
    """Requests that the server wants answered before it carries out a call.

    Attributes:
        inputs: the requests by key: `method` and `params`.
        state: the server's own note, sent back as it is with the answers.
    """

    inputs: Mapping[str, JsonObject]
    state: str | None = None
