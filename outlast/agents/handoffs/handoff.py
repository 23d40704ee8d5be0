"""Handoffs: one agent transfers the conversation to another."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, cast

from pydantic import ValidationError

from outlast.agents.approvals.policy import WITHOUT_ARGUMENTS, NeedsApproval, check_needs_approval
from outlast.agents.callables import call, called_with, check_callable
from outlast.agents.checks import (
    Rule,
    check_fields,
    optional,
    with_checked_arguments,
)
from outlast.agents.context.wrapper import NamedAgent, RunContextWrapper, TContext
from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.handoffs.input_data import HandoffInputFilter
from outlast.agents.hooks import TAgent
from outlast.agents.installed_sdk import handoff_parts, refuse_agent, sdk_names
from outlast.agents.schemas.provider_names import LONGEST_NAME, distinct_name, is_tool_name
from outlast.agents.schemas.strict_schema import strict_schema
from outlast.agents.user_types import output_problems, schema_errors, source_name, type_adapter
from outlast.loop.approvals import DecisionType
from outlast.loop.phrases import handed_over
from outlast.loop.values import JsonObject

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    THandoffInput = TypeVar("THandoffInput", default=Any)
else:  # as in `context.py`
    from typing import TypeVar

    THandoffInput = TypeVar("THandoffInput")

OnHandoffWithoutInput: TypeAlias = Callable[[RunContextWrapper[Any]], Any]
"""Called with (context) when the handoff happens; sync or async. The result is ignored."""

OnHandoffWithInput: TypeAlias = Callable[[RunContextWrapper[Any], THandoffInput], Any]
"""Called with (context, input) when the handoff happens; sync or async."""

OnHandoff: TypeAlias = OnHandoffWithoutInput | OnHandoffWithInput[Any]

OnInvokeHandoff: TypeAlias = Callable[[RunContextWrapper[Any], str], Awaitable[Any]]
"""Called with (context, arguments as JSON text); returns the agent that takes over; async."""

IsEnabled: TypeAlias = bool | Callable[[RunContextWrapper[Any], Any], bool | Awaitable[bool]]

_PREFIX: Final = "transfer_to_"

_NOT_GIVEN: Any = None
"""Default of a field that always has a value once the record is created."""

NO_INPUT: JsonObject = {
    "type": "object",
    "properties": {},
    "required": [],
    "additionalProperties": False,
}


@dataclass(eq=False)
class Handoff(Generic[TContext, TAgent]):
    """A model's option to hand the conversation to another agent.

    `handoff()` creates one for an agent. Create one directly if the handoff picks the agent when it
    is invoked: set `on_invoke_handoff`, and the `agent_name` to show before that.

    Attributes:
        tool_name: the name of the handoff's tool.
        tool_description: the description of the tool, for the model.
        input_json_schema: the JSON Schema of the tool's arguments; default: no arguments. Made
            strict if `strict_json_schema`.
        on_invoke_handoff: performs the handoff; called with (context, arguments as JSON text),
            returns the agent that takes over. Default: parse the arguments, call `on_handoff`,
            return `agent`.
        agent_name: the name of the agent that takes over; default: that of `agent`.
        input_filter: changes the input of the next agent's model.
        nest_handoff_history: whether the next agent sees the conversation as a summary; None: the
            run's setting. An input filter of this handoff turns it off.
        strict_json_schema: whether the provider enforces the schema.
        is_enabled: whether the agent offers the handoff: yes, no, or a predicate called with
            (context, the agent that would hand over).
        agent: the agent that takes over; None if `on_invoke_handoff` picks it.
        on_handoff: runs in an activity, with retries, when the handoff happens.
        input_type: the type of the arguments, for `on_handoff`.
        needs_approval: whether a person decides before the handoff: yes, no, a predicate called
            with (context, arguments, call id), or an `ApprovalPolicy`.
    """

    if not TYPE_CHECKING:  # `Handoff[Context]` in annotations evaluated at run time
        __class_getitem__ = classmethod(GenericAlias)

    tool_name: str
    tool_description: str
    input_json_schema: JsonObject = field(default_factory=lambda: dict(NO_INPUT))
    on_invoke_handoff: OnInvokeHandoff = _NOT_GIVEN
    agent_name: str = ""
    input_filter: HandoffInputFilter | None = None
    nest_handoff_history: bool | None = None
    strict_json_schema: bool = True
    is_enabled: IsEnabled = True
    _: KW_ONLY  # the fields before are in the SDK's order
    agent: NamedAgent | None = None
    on_handoff: OnHandoff | None = None
    input_type: Any = None
    needs_approval: NeedsApproval = False

    def __post_init__(self) -> None:
        if not is_tool_name(self.tool_name):
            raise UserError(
                "A handoff's tool name must be 1 to 64 letters, digits, '_' or '-', not "
                f"{self.tool_name!r}. Choose one with handoff(agent, tool_name_override=...)."
            )
        owner = f"Handoff {self.tool_name!r}"
        self._check_target(owner)
        check_fields(self, _RULES, owner)
        if self.on_handoff is None and self.input_type is not None:
            raise UserError(
                f"{owner}: on_handoff is called with the input. You must provide on_handoff when "
                "input_type is provided, or leave both out."
            )
        if self.on_handoff is not None:
            parameters = ("context",) if self.input_type is None else ("context", "input")
            check_callable(self.on_handoff, parameters, what=f"{owner}: on_handoff")
        self.input_json_schema = self.input_json_schema or dict(NO_INPUT)
        check_needs_approval(
            f"{owner}: needs_approval",
            self.needs_approval,
            possible=self.decisions,
            schema=self.input_json_schema,
        )
        if self.strict_json_schema:
            self.input_json_schema = strict_schema(
                self.input_json_schema, owner=owner, way_out=_WITHOUT_STRICT_MODE
            )

    def _check_target(self, owner: str) -> None:
        callback = cast("object", self.on_invoke_handoff)
        if callback is None or isinstance(callback, _Invocation):
            if self.agent is None:
                raise UserError(
                    f"{owner} has no target: set agent=, or on_invoke_handoff= and agent_name=."
                )
            self.on_invoke_handoff = _Invocation(self)
        else:
            what = f"{owner}: on_invoke_handoff"
            check_callable(callback, ("context", "arguments"), what=what)
            if self.on_handoff is not None or self.input_type is not None:
                raise UserError(
                    f"{owner}: on_invoke_handoff performs the whole handoff, so on_handoff and "
                    "input_type do not go with it. Read the arguments and act inside it."
                )
        if self.agent is not None:
            self.agent_name = self.agent.name
        elif not self.agent_name:
            raise UserError(f"{owner} needs agent_name=, the name to show.")

    @property
    def decisions(self) -> tuple[DecisionType, ...]:
        """The types of decision that fit; a handoff without input cannot be edited."""
        has_input = bool(self.input_json_schema.get("properties"))
        return ("approve", "edit", "reject") if has_input else WITHOUT_ARGUMENTS

    @property
    def picks_agent(self) -> bool:
        """Whether the agent that takes over is only known when the handoff is invoked."""
        return not isinstance(self.on_invoke_handoff, _Invocation)

    @property
    def has_own_message(self) -> bool:
        """Whether the program overrides `get_transfer_message`."""
        method = getattr(self.get_transfer_message, "__func__", None)
        return method is not Handoff.get_transfer_message

    @property
    def needs_activity(self) -> bool:
        """Whether the handoff itself has user code to run; the run's settings may have more."""
        return (
            self.picks_agent
            or self.on_handoff is not None
            or self.has_own_message
            or self.input_filter is not None
            or self.nest_handoff_history is True
        )

    def get_transfer_message(self, agent: NamedAgent) -> str:
        """Return the output of this handoff's call, for the model.

        A subclass may override it: it runs in an activity, with the agent that takes over.
        """
        return handed_over(agent.name)

    @classmethod
    def default_tool_name(cls, agent: NamedAgent | str) -> str:
        """Return `transfer_to_` and the agent's name, with blanks and invalid characters replaced.

        The name ends with a hash of the agent's where characters other than blanks are lost.
        """
        name = agent if isinstance(agent, str) else agent.name
        return _PREFIX + distinct_name(name, most=LONGEST_NAME - len(_PREFIX))

    @classmethod
    def default_tool_description(cls, agent: NamedAgent) -> str:
        """Return the tool description of a handoff to this agent."""
        text = f"Hand the conversation over to the agent {agent.name}."
        return f"{text} {agent.handoff_description}" if agent.handoff_description else text


_WITHOUT_STRICT_MODE: Final = (
    "create the handoff with Handoff(agent=..., input_json_schema=..., strict_json_schema=False) "
    "in place of handoff()"
)

_RULES: Final[dict[str, Rule]] = {
    "input_filter": optional(called_with("data")),
    "is_enabled": called_with("context", "agent", or_a=bool),
}


class _Invocation:
    """The default `on_invoke_handoff` of a handoff to one agent."""

    def __init__(self, entry: Handoff) -> None:
        self._entry = entry

    async def __call__(self, ctx: RunContextWrapper[Any], input_json: str | None = None) -> Any:
        """Parse the arguments, call the callback, and return the agent.

        The parameters have the names of the SDK: programs pass them by keyword, and leave the
        arguments of a handoff without input out.
        """
        entry = self._entry
        if entry.input_type is not None:
            parsed = _read(entry, input_json or "")
            await call(cast("OnHandoffWithInput", entry.on_handoff), ctx, parsed)
        elif entry.on_handoff is not None:
            await call(entry.on_handoff, ctx)
        return entry.agent


@with_checked_arguments
def handoff(  # noqa: PLR0913  the SDK's options, and one
    agent: NamedAgent,
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    on_handoff: OnHandoff | None = None,
    input_type: Any = None,
    input_filter: HandoffInputFilter | None = None,
    nest_handoff_history: bool | None = None,  # noqa: FBT001  the SDK's
    is_enabled: IsEnabled = True,  # noqa: FBT002  the SDK's
    *,
    needs_approval: NeedsApproval = False,
) -> Handoff:
    """Create a handoff to an agent.

    Args:
        agent: the agent that takes over.
        tool_name_override: the name of the tool; default `transfer_to_<agent>`.
        tool_description_override: the description of the tool, instead of the default sentence.
        on_handoff: called with (context), or with `input_type` with (context, input), when the
            handoff happens; sync or async. It runs in an activity, at least once, and its context
            changes are kept.
        input_type: the type of the arguments: a pydantic model, dataclass or TypedDict. Arguments
            are validated strictly; invalid ones end the run.
        input_filter: called with `HandoffInputData`, returns the next agent's input; sync or async.
            It runs in an activity.
        nest_handoff_history: whether the next agent sees the conversation as a summary; None: the
            run's setting.
        is_enabled: whether the handoff is offered, checked before every model call.
        needs_approval: whether a person decides before the handoff: yes, no, a predicate called
            with (context, arguments, call id), or an `ApprovalPolicy`.
    """
    refuse_agent(agent)
    if not isinstance(getattr(agent, "name", None), str):
        raise UserError(f"handoff() needs an Agent, not {agent!r}.")
    name = tool_name_override or Handoff.default_tool_name(agent)
    return Handoff(
        tool_name=name,
        tool_description=tool_description_override or Handoff.default_tool_description(agent),
        agent=agent,
        input_json_schema=_schema(input_type, name),
        on_handoff=on_handoff,
        input_type=input_type,
        input_filter=input_filter,
        nest_handoff_history=nest_handoff_history,
        is_enabled=is_enabled,
        needs_approval=needs_approval,
    )


def adopted_handoff(entry: Any) -> Any:
    """Return a handoff of the SDK as ours; any other object unchanged.

    Raises:
        UserError: it is an agent of the SDK, or leads to one.
    """
    refuse_agent(entry)
    return Handoff(**handoff_parts(entry)) if "Handoff" in sdk_names(entry) else entry


def _schema(input_type: Any, name: str) -> JsonObject:
    if input_type is None:
        return dict(NO_INPUT)
    if isinstance(input_type, Mapping):
        raise UserError(
            f"Handoff {name!r}: input_type must be a type, not a JSON Schema. Use a pydantic model, "
            "a dataclass or a TypedDict; or pass the schema to Handoff(agent_name=..., "
            "input_json_schema=..., on_invoke_handoff=...), which reads the arguments itself."
        )
    problem = f"Handoff {name!r}: a model cannot give the input_type {source_name(input_type)}"
    with schema_errors(problem, "Use a pydantic model, a dataclass or a TypedDict."):
        return type_adapter(input_type).json_schema()


def _read(entry: Handoff, arguments: str) -> Any:
    try:
        return type_adapter(entry.input_type).validate_json(arguments, strict=True)
    except ValidationError as error:
        raise ModelBehaviorError(
            f"Invalid JSON input for handoff {entry.tool_name!r}, which does not fit "
            f"{source_name(entry.input_type)}: {output_problems(error)}."
        ) from None
