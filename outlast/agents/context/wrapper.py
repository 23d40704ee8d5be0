"""The contexts that user callables receive: of the run and of a tool call."""

import json
import time
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, cast, overload

from outlast.agents.calendars import Calendar
from outlast.agents.callables import call
from outlast.agents.checks import check_printable
from outlast.agents.context.wait_address import WaitAddress
from outlast.agents.context.wait_urls import LIFETIME, wait_url
from outlast.agents.context.waits import NOTHING, Wait, Waits, checked_name, outside_wait
from outlast.agents.errors import UserError
from outlast.agents.items.raw_items import HeldRaw, copies
from outlast.agents.items.run_items import ToolApprovalItem
from outlast.agents.usage import Usage
from outlast.loop.actions import LONGEST_NAME
from outlast.loop.values import JsonObject

T = TypeVar("T")

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    TContext = TypeVarWithDefault("TContext", default=Any)
else:  # the default is for type checkers only, and its package takes 25 ms to import
    TContext = TypeVar("TContext")


class NamedAgent(Protocol):
    """The attributes of an `Agent` that contexts and handoffs read."""

    name: str
    handoff_description: str | None


class Decisions(Protocol):
    """The approval decisions of a run, which a context reads and adds to."""

    def approve(self, approval_item: ToolApprovalItem, always_approve: bool = False) -> None: ...  # noqa: FBT001, FBT002, D102  the SDK's

    def reject(  # noqa: D102
        self,
        approval_item: ToolApprovalItem,
        always_reject: bool = False,  # noqa: FBT001, FBT002  the SDK's
        *,
        rejection_message: str | None = None,
    ) -> None: ...

    def is_approved(self, tool_name: str, call_id: str) -> bool | None: ...  # noqa: D102

    def rejection_message(self, tool_name: str, call_id: str) -> str | None: ...  # noqa: D102


if TYPE_CHECKING:
    AnyDecisions: TypeAlias = Decisions | None
else:  # a schema of a context, as pydantic makes it, leaves protocols out
    AnyDecisions = Any

_SHOWN = "_shown"
"""The attribute of a context that holds what returns the original items of `turn_input`."""


_WAITS = "_waits"
"""The attribute of a tool's context that holds its `Waits`."""

_TEAM = "_team"
"""The attribute of a tool's context that names the team which gets the conversation."""


def show_turn(wrapper: "RunContextWrapper[Any]", raws: Callable[[], Sequence[JsonObject]]) -> None:
    """Set `turn_input` to a copy of these items, found and copied on first access.

    The items may be a long history: that would be too slow for every model call.
    """
    vars(wrapper).pop("turn_input", None)
    vars(wrapper)[_SHOWN] = raws


@dataclass(eq=False)
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
        run_key: the id with a part of its first execution: a run that uses the id again has another
            key. Use it for what a program keeps for a run. In memory, it is the id.
        turn: the number of model calls for the current answer so far.
        turn_input: the run's input as items, for callables of a model call; else empty.
        tool_input: in the run of an agent used as a tool, the arguments of the tool call, if the
            tool takes more than a text.
    """

    context: TContext
    usage: Usage = field(default_factory=Usage)
    _: KW_ONLY
    run_id: str = ""
    run_key: str = field(default="", repr=False, compare=False)
    turn: int = 0
    turn_input: list[JsonObject] = field(default_factory=list[JsonObject])
    tool_input: Any = None
    decisions: "AnyDecisions" = field(default=None, init=False, repr=False, compare=False)

    if not TYPE_CHECKING:  # otherwise type checkers would accept any attribute name

        def __getattr__(self, name: str) -> Any:
            """Copy the run's input on first access to `turn_input`."""
            if name != "turn_input" or _SHOWN not in vars(self):
                message = f"{type(self).__name__!r} object has no attribute {name!r}"
                raise AttributeError(message)
            self.turn_input = copies(vars(self)[_SHOWN]())
            return self.turn_input

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value of a context that is a dict, or the default.

        Raises:
            UserError: the context is an object: use its attributes.
        """
        return self._mapping().get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Set a value of a context that is a dict; see `get`."""
        self._mapping()[key] = value

    def delete(self, key: str) -> None:
        """Remove a value of a context that is a dict, if it is there; see `get`."""
        self._mapping().pop(key, None)

    def _mapping(self) -> MutableMapping[str, Any]:
        context = cast("object", self.context)
        if not isinstance(context, MutableMapping):
            raise UserError(
                f"The context is of type {type(context).__name__} and not a dict: read and set "
                "its attributes on ctx.context. get, set and delete are for dicts."
            )
        return cast("MutableMapping[str, Any]", context)

    def approve_tool(self, approval_item: ToolApprovalItem, always_approve: bool = False) -> None:  # noqa: FBT001, FBT002  the SDK's
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
        approval_item: ToolApprovalItem,
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

    def get_approval_status(
        self,
        tool_name: str,
        call_id: str,
        *,
        tool_namespace: str | None = None,
    ) -> bool | None:
        """Return whether a person approved a call; None if there is no decision.

        Args:
            tool_name: the tool's name.
            call_id: the id of the call.
            tool_namespace: the tool's namespace, if it has one.
        """
        return self.is_tool_approved(_qualified(tool_name, tool_namespace), call_id)

    def get_rejection_message(
        self,
        tool_name: str,
        call_id: str,
        *,
        tool_namespace: str | None = None,
    ) -> str | None:
        """Return the text with which a person rejected a call; None without one.

        The arguments are those of `get_approval_status`.
        """
        name = _qualified(tool_name, tool_namespace)
        decisions = self.decisions
        return None if decisions is None else decisions.rejection_message(name, call_id)

    def _taking_decisions(self) -> Decisions:
        if self.decisions is None:
            raise UserError(
                "A running callable cannot decide about calls. People decide: through "
                "result.to_state() or result.context_wrapper where the run waits, or with "
                "RunHandle.approve(id) and reject(id) from anywhere. For a rule, give the tool "
                "needs_approval=a callable."
            )
        return self.decisions


def _qualified(name: str, namespace: str | None) -> str:
    return name if namespace is None or namespace == name else f"{namespace}.{name}"


def _required(name: str) -> Any:
    """Return a field without a default, which may stand after one that has a default."""

    def missing() -> Any:
        raise TypeError(f"ToolContext() needs {name}=.")

    return field(default_factory=missing)


class _ToolCall:
    """The descriptor of `tool_call`: stores JSON, returns a typed object."""

    def __get__(self, context: "ToolContext[Any] | None", owner: type | None = None) -> Any:
        if context is None:
            return self  # pydantic would put the default in its place if there were nothing
        held: HeldRaw | None = context.__dict__["_tool_call"]
        return None if held is None else held.shown()

    def __set__(self, context: "ToolContext[Any]", value: Any) -> None:
        context.__dict__["_tool_call"] = None if value is None else HeldRaw(value)


@dataclass(eq=False)
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
        custom_data: the `custom_data` of the output's item, which no model reads; a tool may set it
            to a dict of JSON values.
        arguments_read: the arguments as the tool's validators returned them, for its function.
    """

    tool_name: str = _required("tool_name")
    tool_call_id: str = _required("tool_call_id")
    tool_arguments: str = _required("tool_arguments")
    tool_call: Any = field(default=None, repr=False, compare=False)
    _: KW_ONLY
    agent: Any = None
    attempt: int = 1
    idempotency_key: str = ""
    run_config: Any = None
    approved: bool = False
    tool_namespace: str | None = None
    custom_data: JsonObject | None = field(default=None, repr=False, compare=False)
    arguments_read: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        vars(self)[_WAITS] = Waits()
        if self.tool_namespace is None:
            self.tool_namespace = _call_value(self, "namespace")

    @classmethod
    def from_agent_context(
        cls,
        context: RunContextWrapper[TContext],
        tool_call_id: str,
        tool_call: Any = None,
        agent: Any = None,
        *,
        tool_name: str | None = None,
        tool_arguments: str | None = None,
        tool_namespace: str | None = None,
        run_config: Any = None,
    ) -> "ToolContext[TContext]":
        """Return the context of a call in a run with this context, for tests of tools.

        Args:
            context: the run's context. If it is a `ToolContext`, its agent and run config are the
                defaults.
            tool_call_id: the id of the call.
            tool_call: the call's item, which has the tool's name and the arguments.
            agent: the agent that called the tool.
            tool_name: the tool's name; default that of the item.
            tool_arguments: the arguments as JSON text; default those of the item.
            tool_namespace: the tool's namespace; default that of the item.
            run_config: the run's `RunConfig`.
        """
        made = cls(
            context.context,
            context.usage,
            tool_name or "",
            tool_call_id,
            tool_arguments or "",
            tool_call,
            agent=getattr(context, "agent", None) if agent is None else agent,
            run_config=getattr(context, "run_config", None) if run_config is None else run_config,
            run_id=context.run_id,
            run_key=context.run_key,
            turn=context.turn,
            tool_input=context.tool_input,
            tool_namespace=tool_namespace,
        )
        made.tool_name = tool_name or _call_value(made, "name") or ""
        if not made.tool_name:
            raise UserError("Pass tool_name=, or a tool_call= that has a name.")
        if tool_arguments is None:
            made.tool_arguments = _call_value(made, "arguments") or "{}"
        return made

    @overload
    def wait_for(
        self,
        name: str = "result",
        *,
        timeout: timedelta | None,
        schema: type[T],
        default: T = ...,
        ask: bool = False,
        until_message: bool = False,
        every: timedelta | None = None,
        cleanup: bool = False,
        signed: bool = False,
        within: Calendar | str | None = None,
    ) -> Wait[T]: ...

    @overload
    def wait_for(
        self,
        name: str = "result",
        *,
        timeout: timedelta | None,
        schema: Any = None,
        default: Any = ...,
        ask: bool = False,
        until_message: bool = False,
        every: timedelta | None = None,
        cleanup: bool = False,
        signed: bool = False,
        within: Calendar | str | None = None,
    ) -> Wait[Any]: ...

    def wait_for(  # noqa: PLR0913  the options of a wait
        self,
        name: str = "result",
        *,
        timeout: timedelta | None,
        schema: Any = None,
        default: Any = NOTHING,
        ask: bool = False,
        until_message: bool = False,
        every: timedelta | None = None,
        cleanup: bool = False,
        signed: bool = False,
        within: Calendar | str | None = None,
    ) -> Wait[Any]:
        """Wait for something outside of the run, for days if need be, without a worker.

        The attempt ends, and the call stays pending until a value is delivered, now or earlier: by
        `outlast.client.finish(token, value)`, `outlast finish`, or an HTTP request.

        - `return ctx.wait_for(...)`: the value takes the place of what the tool returns.
        - `value = await ctx.wait_for(...)`: the tool **runs again from its beginning**, and this time
          the line returns the value. What must happen once before it goes through `once`.

        Args:
            name: tells the wait from others of the call.
            timeout: how long to wait; None for ever. A durable timer: it needs no worker.
            schema: the type of the value, or its JSON Schema; a delivery that does not fit is
                refused, and the call goes on waiting. None for any JSON value.
            default: the value if nothing comes in time.
            ask: ask people for the value if nothing comes in time: they give it, let the call wait
                as long again, or end the wait without a value.
            until_message: a message of the user ends the wait as its timeout does, so that the
                agent can answer; what is delivered after that is refused.
            every: run the tool again every so often, at least a second, so that it can look for
                itself while nothing is delivered. The `timeout` counts from the first wait.
            cleanup: run the tool once more if the call is dropped, such as when the run is cancelled:
                its wait then raises `WaitDropped`, and the tool ends what it began outside.
            signed: only deliveries count that a process with an identity key has signed.
            within: the calendar whose hours count for `timeout`, or its name at the worker.

        Returns:
            The wait: return it or await it; with `every`, `cleanup` or `signed`, await it.

        Raises:
            WaitTimeout: when awaited: nothing came in time, and there is no `default`.
            WaitDropped: when awaited with `cleanup`: the call is dropped.
            UserError: an argument is invalid.
        """
        wait, adapter = outside_wait(
            name,
            waits_of(self).counted(name, timeout, within),
            schema,
            default,
            ask=ask,
            until_message=until_message,
            every=every,
            cleanup=cleanup,
            signed=signed,
        )
        return Wait[Any](waits_of(self), wait, adapter, default)

    def hand_to_team(self, team: str) -> None:
        """Give the conversation to a team of people, once the call has returned.

        The agent stops after the calls of this reply. The team says whose the conversation is, who
        answers the customer until they give it back to an agent. A call that fails gives nothing;
        a call in a run that works for another run has no conversation to give.

        Raises:
            UserError: the team has no name, or one that is too long or cannot be printed.
        """
        check_printable("hand_to_team(team)", team)
        if not team.strip() or len(team) > LONGEST_NAME:
            raise UserError(
                f"hand_to_team(team) must be a name of at most {LONGEST_NAME} characters."
            )
        vars(self)[_TEAM] = team

    def wait_token(self, name: str = "result") -> str:
        """Return the token with which a wait of this call is finished, before or while it waits.

        It is the same for every attempt of the call. It is no secret: whoever may use the client or
        has a signed URL may deliver.

        Raises:
            UserError: the name is no short text.
        """
        address = WaitAddress(
            self.run_id, waits_of(self).question, self.turn, self.tool_call_id, checked_name(name)
        )
        return address.token

    def wait_url(self, name: str = "result", *, expires: timedelta = LIFETIME) -> str:
        """Return a signed URL with which a wait of this call is finished by an HTTP request.

        Whoever has the URL may send the value, once, by `POST`: no login, no other right. The
        address comes from `OUTLAST_DELIVERY_URL` and the key from `OUTLAST_DELIVERY_KEYS`, in the
        environment of the worker. `outlast serve` and `outlast.deliveries.deliveries_app` receive
        the requests. Each attempt makes a URL of its own, and all of them count.

        Args:
            name: tells the wait from others of the call.
            expires: how long the URL counts. It limits how long a URL is useful that somebody else
                got hold of; whether a value is late is decided by the `timeout` of the wait.

        Raises:
            UserError: a variable is not set or invalid, or an argument is.
        """
        return wait_url(self.wait_token(name), expires, time.time())

    async def once(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function once, although the tool runs again after a wait.

        The result is recorded when the call begins to wait. An attempt that fails or dies before
        is retried with the function, so it still needs `idempotency_key` for effects elsewhere.

        The record is part of the run's state. Workers with `OUTLAST_DELIVERY_KEYS` sign it for this
        call, and run the tool again only with a record that they have signed.

        Args:
            name: tells the result from others of the call.
            function: a sync or async function.
            *args: its arguments.

        Returns:
            What it returned, as JSON: in this attempt, or in the one that began to wait.

        Raises:
            UserError: the result is no JSON value.
        """
        done = waits_of(self).done
        if name not in done:
            value = await call(function, *args)
            try:
                done[name] = json.loads(json.dumps(value))
            except (TypeError, ValueError) as error:
                raise UserError(
                    f"once({name!r}): the function must return a JSON value, because it is recorded "
                    f"with the call, not {type(value).__name__}."
                ) from error
        return done[name]

    @property
    def qualified_tool_name(self) -> str:
        """The tool's name, after its namespace and a dot if it has one."""
        return _qualified(self.tool_name, self.tool_namespace)

    def is_tool_approved(self, tool_name: str, call_id: str) -> bool | None:
        """Return True for this call if a person approved it; else None."""
        is_this = (tool_name, call_id) == (self.tool_name, self.tool_call_id)
        return True if self.approved and is_this else None


def team_of(context: ToolContext[Any]) -> str:
    """Return the team to which a call gives the conversation; empty for none."""
    team: str = vars(context).get(_TEAM, "")
    return team


def waits_of(context: ToolContext[Any]) -> Waits:
    """Return the waits of a call."""
    waits: Waits = vars(context)[_WAITS]
    return waits


def set_waits(context: ToolContext[Any], waits: Waits) -> None:
    """Tell the context of a call what came of its earlier waits."""
    vars(context)[_WAITS] = waits


def _call_value(context: ToolContext[Any], key: str) -> str | None:
    held: HeldRaw | None = context.__dict__["_tool_call"]
    value = None if held is None else held.value().get(key)
    return value if isinstance(value, str) else None


ToolContext.tool_call = _ToolCall()  # assigned here: the class body needs the `field(...)`
