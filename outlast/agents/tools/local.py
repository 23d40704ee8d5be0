"""Tools that act on the machine of a worker and are called in forms of their own.

Owns: `LocalTool`: what such tools have beside a function tool. A shell, an editor, a computer and
a tool that takes plain text are the kinds there are; each has a module. Must not know: where a
tool runs.
"""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, ClassVar, NotRequired, TypeAlias, TypedDict

from outlast.agents.callables import check_callable
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.guardrails.tool_guardrails import ToolInputGuardrail, ToolOutputGuardrail
from outlast.agents.items.call_outputs import said_by
from outlast.agents.items.run_items import ToolApprovalItem
from outlast.agents.tools.definition import (
    DEFAULT_TIMEOUT,
    EnabledPredicate,
    FunctionTool,
    TimeoutBehavior,
    ToolErrorFunction,
    ToolFunction,
    ToolRetry,
    default_tool_error,
    retry_policy_of,
)
from outlast.loop.call_forms import output_item
from outlast.loop.values import Json, JsonObject

ONCE = ToolRetry(attempts=1)
"""What acts on a machine is not known to be harmless when it is done twice."""


class OnApprovalResult(TypedDict):
    """What an `on_approval` callback decides.

    Attributes:
        approve: whether the call runs. A result without it leaves the decision to a person.
        reason: what the model reads of a call that is refused.
    """

    approve: bool
    reason: NotRequired[str]


OnApproval: TypeAlias = Callable[
    [RunContextWrapper[Any], ToolApprovalItem], Mapping[str, Any] | Awaitable[Mapping[str, Any]]
]
"""Called with (context, the call) for an `OnApprovalResult`; sync or async."""


class LocalToolOptions(TypedDict, total=False):
    """What every local tool can be given, by keyword; each is as in `function_tool`.

    Attributes:
        timeout: how long one attempt may take; a number is seconds. Default 2 minutes.
        timeout_behavior: what a last attempt that took too long does.
        timeout_error_function: what the model reads of a call that took too long.
        retry: how failed attempts are retried. Default one attempt, of a `CustomTool` three.
        fast: for idempotent work well under a second: no activity of its own, no approval.
        is_enabled: whether the tool is offered, or a predicate.
        failure_error_function: what the model reads of a call that failed; None ends the run.
        tool_input_guardrails: asked before the tool runs, in their order.
        tool_output_guardrails: asked about its result, in their order.
    """

    timeout: timedelta | float
    timeout_behavior: TimeoutBehavior
    timeout_error_function: ToolErrorFunction | None
    retry: ToolRetry | int
    fast: bool
    is_enabled: bool | EnabledPredicate
    failure_error_function: ToolErrorFunction | None
    tool_input_guardrails: list[ToolInputGuardrail[Any]]
    tool_output_guardrails: list[ToolOutputGuardrail[Any]]


class LocalTool(FunctionTool):
    """A tool that runs on a worker and is called in a form of its own.

    It is a function tool to all that plans, approves, runs and traces calls. Its
    `on_invoke_tool` returns what the output item has: a text, or a dict of the item's members.

    Attributes:
        on_approval: decides about a call that needs approval, instead of a person.
    """

    speaks: ClassVar[bool] = True
    """Whether the model can be told something in words."""

    on_approval: OnApproval | None

    def __init__(
        self,
        name: str,
        invoke: ToolFunction,
        *,
        validate: Callable[[str], str | None],
        options: LocalToolOptions,
        description: str = "",
        needs_approval: Any = False,
        on_approval: OnApproval | None = None,
        context_type: Any = None,
    ) -> None:
        """Make the tool of its parts.

        Raises:
            UserError: an option does not fit, or there is none of its name.
        """
        owner = f"{type(self).__name__} {name!r}"
        if unknown := sorted(options.keys() - LocalToolOptions.__annotations__.keys()):
            raise UserError(
                f"{owner} has no option {', '.join(unknown)}. Beside its own, its options are "
                f"{', '.join(LocalToolOptions.__annotations__)}."
            )
        if on_approval is not None:
            check_callable(on_approval, ("context", "approval_item"), what=f"{owner}: on_approval")
        self.on_approval = on_approval
        super().__init__(
            name=name,
            description=description,
            params_json_schema={},
            on_invoke_tool=invoke,
            validate=validate,
            strict_json_schema=False,
            needs_approval=needs_approval,
            timeout=options.get("timeout", DEFAULT_TIMEOUT),
            timeout_behavior=options.get("timeout_behavior", "error_as_result"),
            timeout_error_function=options.get("timeout_error_function"),
            retry=retry_policy_of(options.get("retry", ONCE), owner),
            fast=options.get("fast", False),
            is_enabled=options.get("is_enabled", True),
            failure_error_function=options.get("failure_error_function", default_tool_error),
            tool_input_guardrails=options.get("tool_input_guardrails") or [],
            tool_output_guardrails=options.get("tool_output_guardrails") or [],
            context_type=context_type,
        )

    @abstractmethod
    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in `tools` of a request to the Responses API."""

    @abstractmethod
    def asked_about(self, context: RunContextWrapper[Any], arguments: str) -> Any:
        """Return what a predicate `needs_approval` is called with for a call's arguments."""

    def shown(self, output: Json) -> Json:
        """Return an output as hooks and guardrails see it: a text, where it is one or has one."""
        return said_by(output_item("", output, self.form))
