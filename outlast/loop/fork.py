"""What a fork knows of the run that it was made from."""

from dataclasses import dataclass

from outlast.loop.calls import ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A tool call that the source of a fork made, and its result."""

    name: str
    arguments: str
    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Where a run was forked from, and which of its tools may have effects.

    Attributes:
        run_id: the source.
        execution_id: one of the source's executions, which holds the event or comes after it.
        event: the number of the event after which the run begins, counted from 1.
        allowed: the names of the tools that may run, whatever effects they have; `*` for all.
        recorded: what the tools of the source returned. The first that fits answers a call of a tool
            that may not run.
        arguments: other arguments for calls that were under way, by the model's id of the call.
    """

    run_id: str
    execution_id: str = ""
    event: int
    allowed: tuple[str, ...] = ()
    recorded: tuple[RecordedCall, ...] = ()
    arguments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkedCall:
    """How a fork makes a call.

    Attributes:
        allowed: the tool may run, whatever effects it has.
        recorded: what the same call returned in the source; None if it is not known.
    """

    allowed: bool
    recorded: ToolResult | None = None


ALL_TOOLS = "*"
"""Allows all tools of a fork to have effects."""


def forked_call(fork: Fork | None, name: str, arguments: str) -> ForkedCall | None:
    """Return how a fork makes a call; None for a run that is no fork."""
    if fork is None:
        return None
    if not {name, ALL_TOOLS}.isdisjoint(fork.allowed):
        return ForkedCall(allowed=True)
    fits = (one.result for one in fork.recorded if (one.name, one.arguments) == (name, arguments))
    return ForkedCall(allowed=False, recorded=next(fits, None))
