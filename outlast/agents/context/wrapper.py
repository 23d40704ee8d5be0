"""What a user's callable is given: the run's context, and for a tool, the call it serves.

Owns: `RunContextWrapper` and `ToolContext`. Must not know: where the callable runs.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol

from outlast.agents.errors import UserError
from outlast.agents.items.raw_items import HeldRaw, copies
from outlast.agents.usage import Usage
from outlast.loop.values import JsonObject

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


class Decisions(Protocol):
    """Tells a context what people decided about calls, and takes what they decide."""

    def approve(self, approval_item: Any, always_approve: bool = False) -> None: ...  # noqa: FBT001, FBT002, D102  the SDK's

    def reject(  # noqa: D102
        self,
        approval_item: Any,
        always_reject: bool = False,  # noqa: FBT001, FBT002  the SDK's
        *,
        rejection_message: str | None = None,
    ) -> None: ...

    def is_approved(self, tool_name: str, call_id: str) -> bool | None: ...  # noqa: D102


_SHOWN = "_shown"
"""The attribute of a context with the items that `turn_input` is a copy of."""


def show_turn(wrapper: "RunContextWrapper[Any]", raws: Sequence[JsonObject]) -> None:
    """Let `turn_input` be a copy of these items, made when it is first looked at.

    They may be a long history, and copying that for every model call would cost more than the call.
    """
    vars(wrapper).pop("turn_input", None)
    vars(wrapper)[_SHOWN] = raws


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
        turn_input: what the run is asked, as items, for callables of a model call; else empty.
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
    decisions: Decisions | None = field(default=None, init=False, repr=False, compare=False)

    if not TYPE_CHECKING:  # or a checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            """Copy what the run is asked, when somebody looks."""
            if name != "turn_input" or _SHOWN not in vars(self):
                message = f"{type(self).__name__!r} object has no attribute {name!r}"
                raise AttributeError(message)
            self.turn_input = copies(vars(self)[_SHOWN])
            return self.turn_input

    def approve_tool(self, approval_item: Any, always_approve: bool = False) -> None:  # noqa: FBT001, FBT002  the SDK's
        """Let a call run, once the run goes on: the state of this result then has the decision.

        Args:
            approval_item: one of `result.interruptions`.
            always_approve: and every further call of this tool by this agent in this run.

        Raises:
            UserError: the run does not wait for it, or this is no context of a result: people
                decide, not the run itself.
        """
        self._taking_decisions().approve(approval_item, always_approve)

    def reject_tool(
        self,
        approval_item: Any,
        always_reject: bool = False,  # noqa: FBT001, FBT002  the SDK's
        rejection_message: str | None = None,
    ) -> None:
        """Do not let a call run; the model is told.

        Args:
            approval_item: one of `result.interruptions`.
            always_reject: nor any further call of this tool by this agent in this run.
            rejection_message: what the model reads as the call's output.

        Raises:
            UserError: as `approve_tool`.
        """
        decisions = self._taking_decisions()
        decisions.reject(approval_item, always_reject, rejection_message=rejection_message)

    def is_tool_approved(self, tool_name: str, call_id: str) -> bool | None:
        """Return what people decided about a call; None where nothing is known of a decision.

        In a result, of all calls of its run. In a tool, of the call that it serves.
        """
        return None if self.decisions is None else self.decisions.is_approved(tool_name, call_id)

    def _taking_decisions(self) -> Decisions:
        if self.decisions is None:
            raise UserError(
                "A running callable cannot decide about calls. People decide: through "
                "result.to_state() or result.context_wrapper where the run waits, or with "
                "RunHandle.approve(id) and reject(id) from anywhere. For a rule, give the tool "
                "needs_approval=a callable."
            )
        return self.decisions


class _ToolCall:
    """The field `tool_call`: takes JSON, and shows a typed object to who looks."""

    def __get__(self, context: "ToolContext[Any] | None", owner: type | None = None) -> Any:
        if context is None:
            raise AttributeError("tool_call is a context's, not its class's")
        held: HeldRaw | None = context.__dict__["_tool_call"]
        return None if held is None else held.shown()

    def __set__(self, context: "ToolContext[Any]", value: Any) -> None:
        context.__dict__["_tool_call"] = None if value is None else HeldRaw(value)


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
        tool_call: the call's item, as the model wrote it: the openai package's typed object.
        run_config: the run's `RunConfig`, as far as the worker knows it.
        approved: a person had to decide about this call, and let it run.
    """

    _: KW_ONLY
    tool_name: str
    tool_call_id: str
    tool_arguments: str
    agent: Any = None
    attempt: int = 1
    idempotency_key: str = ""
    tool_call: Any = field(default=None, repr=False, compare=False)
    run_config: Any = None
    approved: bool = False

    def is_tool_approved(self, tool_name: str, call_id: str) -> bool | None:
        """Return True for this call, if a person had to decide and let it run; else None."""
        is_this = (tool_name, call_id) == (self.tool_name, self.tool_call_id)
        return True if self.approved and is_this else None


ToolContext.tool_call = _ToolCall()  # put in afterwards, because a field's default is no value
