"""The contexts that user callables receive: of the run and of a tool call."""

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
    """The attributes of an `Agent` that contexts and handoffs read."""

    name: str
    handoff_description: str | None


class Decisions(Protocol):
    """The approval decisions of a run, which a context reads and adds to."""

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
"""The attribute of a context that holds the original items of `turn_input`."""


def show_turn(wrapper: "RunContextWrapper[Any]", raws: Sequence[JsonObject]) -> None:
    """Set `turn_input` to a copy of these items, made on first access.

    The items may be a long history: copying it for every model call would be too slow.
    """
    vars(wrapper).pop("turn_input", None)
    vars(wrapper)[_SHOWN] = raws


@dataclass
class RunContextWrapper(Generic[TContext]):
    """The context of a run, as a callable receives it.

    `context` is an object made of the run's data: a pydantic model, dataclass or JSON value. Tool
    calls of one reply share it where they run in one worker; any other callable has its own. When
    the callable returns, its changes are found by comparison and merged into the run. The changes
    of a failed attempt are dropped, unless another call shared the object at the time.

    Attributes:
        context: the application's object.
        usage: tokens spent by the run so far.
        run_id: the workflow id of the run.
        turn: the number of model calls for the current answer so far.
        turn_input: the run's input as items, for callables of a model call; else empty.
        tool_input: in the run of an agent used as a tool, the arguments of the tool call, if the
            tool takes more than a text.
    """

    context: TContext
    _: KW_ONLY
    usage: Usage = field(default_factory=Usage)
    run_id: str = ""
    turn: int = 0
    turn_input: list[JsonObject] = field(default_factory=list[JsonObject])
    tool_input: Any = None
    decisions: Decisions | None = field(default=None, init=False, repr=False, compare=False)

    if not TYPE_CHECKING:  # otherwise type checkers would accept any attribute name

        def __getattr__(self, name: str) -> Any:
            """Copy the run's input on first access to `turn_input`."""
            if name != "turn_input" or _SHOWN not in vars(self):
                message = f"{type(self).__name__!r} object has no attribute {name!r}"
                raise AttributeError(message)
            self.turn_input = copies(vars(self)[_SHOWN])
            return self.turn_input

    def approve_tool(self, approval_item: Any, always_approve: bool = False) -> None:  # noqa: FBT001, FBT002  the SDK's
        """Approve a call. The decision is recorded in the state of this context's result.

        The call runs when the run resumes.

        Args:
            approval_item: an entry of `result.interruptions`.
            always_approve: also approve every further call of this tool by this agent in this run.

        Raises:
            UserError: the run does not wait for this call, or the context does not belong to a
                result: people decide, not the run itself.
        """
        self._taking_decisions().approve(approval_item, always_approve)

    def reject_tool(
        self,
        approval_item: Any,
        always_reject: bool = False,  # noqa: FBT001, FBT002  the SDK's
        rejection_message: str | None = None,
    ) -> None:
        """Reject a call. The call does not run, and the model receives a message.

        Args:
            approval_item: an entry of `result.interruptions`.
            always_reject: also reject every further call of this tool by this agent in this run.
            rejection_message: the text that the model reads as the call's output.

        Raises:
            UserError: see `approve_tool`.
        """
        decisions = self._taking_decisions()
        decisions.reject(approval_item, always_reject, rejection_message=rejection_message)

    def is_tool_approved(self, tool_name: str, call_id: str) -> bool | None:
        """Return whether a person approved a call; None if there is no decision.

        A result's context has the decisions for all calls of the run; a tool's context has only
        the decision for its own call.
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
    """The descriptor of `tool_call`: stores JSON, returns a typed object."""

    def __get__(self, context: "ToolContext[Any] | None", owner: type | None = None) -> Any:
        if context is None:
            raise AttributeError("tool_call exists on objects of the class only")
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
        agent: the `Agent` that called the tool; None in a context made by hand.
        attempt: the number of this attempt: 1 for the first, one more for each retry.
        idempotency_key: the same for every attempt of this call, different for every other call.
            Pass it to services with side effects, so that a retry does not repeat them.
        tool_call: the call's item, as the model wrote it: the openai package's typed object.
        run_config: the run's `RunConfig`, as far as the worker has it.
        approved: whether the call needed a person's approval and got it.
        tool_namespace: the name of the tool's namespace, if the tool has one.
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
    tool_namespace: str | None = None

    @property
    def qualified_tool_name(self) -> str:
        """The tool's name, after its namespace and a dot if it has one."""
        if self.tool_namespace is None or self.tool_namespace == self.tool_name:
            return self.tool_name
        return f"{self.tool_namespace}.{self.tool_name}"

    def is_tool_approved(self, tool_name: str, call_id: str) -> bool | None:
        """Return True for this call if a person approved it; else None."""
        is_this = (tool_name, call_id) == (self.tool_name, self.tool_call_id)
        return True if self.approved and is_this else None


ToolContext.tool_call = _ToolCall()  # assigned here: the class body needs the `field(...)`
