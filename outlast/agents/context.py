"""What a user's callable is given: the run's context, and for a tool, the call it serves.

Owns: `RunContextWrapper` and `ToolContext`. Must not know: where the callable runs.
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol

from outlast.loop.values import JsonObject, Usage

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    TContext = TypeVar("TContext", default=Any)
else:  # the default is for type checkers only, and its package takes 25 ms to import
    from typing import TypeVar

    TContext = TypeVar("TContext")


class NamedAgent(Protocol):
    """An agent as far as contexts and handoffs need to know it: an `Agent`."""

    name: str
    handoff_description: str | None


@dataclass
class RunContextWrapper(Generic[TContext]):
    """The context of a run, as a callable sees it.

    `context` is the callable's own copy of the application's object: a pydantic model, dataclass
    or JSON value. What the callable changes in it is found by comparison when it returns and is
    merged into the run, in the order of the calls. A failed attempt's changes are dropped.

    Attributes:
        context: the application's object.
        usage: tokens spent by the run so far.
        run_id: the workflow id of the run.
        turn: how many model calls the current answer has taken so far.
        turn_input: what the current turn's model call is or was shown, where that is known.
        tool_input: in the run of an agent that is a tool, the arguments of that tool's call, as
            far as it takes more than a text.
    """

    context: TContext
    _: KW_ONLY
    usage: Usage = field(default_factory=Usage)
    run_id: str = ""
    turn: int = 0
    turn_input: list[JsonObject] = field(default_factory=list[JsonObject])
    tool_input: Any = None


@dataclass
class ToolContext(RunContextWrapper[TContext]):
    """The context of one tool call.

    Attributes:
        tool_name: the tool's name.
        tool_call_id: the id that the model gave the call.
        tool_arguments: the arguments as JSON text, as the model wrote them.
        agent: the agent that called the tool: an `Agent`; None in a context made by hand.
        attempt: 1 for the first try, counting up with each retry.
        idempotency_key: the same on every attempt of this call and on no other call. Hand it to
            whatever has side effects, so that a retry does not repeat them.
        tool_call: the call's item, as the model wrote it.
        run_config: the run's `RunConfig`, as far as the worker knows it.
    """

    _: KW_ONLY
    tool_name: str
    tool_call_id: str
    tool_arguments: str
    agent: Any = None
    attempt: int = 1
    idempotency_key: str = ""
    tool_call: JsonObject = field(default_factory=dict[str, Any])
    run_config: Any = None
