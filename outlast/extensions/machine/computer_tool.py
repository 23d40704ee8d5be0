"""The computer tool: actions, screenshots, and the provider's safety checks."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeAlias, Unpack, cast

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.callables import call, check_callable
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import UserError
from outlast.agents.items.raw_items import HeldRaw
from outlast.agents.json_values import as_object, as_objects
from outlast.agents.logs import get_logger
from outlast.agents.tools.local import LocalTool, LocalToolOptions, OnApproval
from outlast.extensions.machine.computer import (
    AsyncComputer,
    Computer,
    ComputerLike,
    act,
    action_problem,
)
from outlast.extensions.machine.computers import (
    ComputerProvider,
    ComputerSource,
    ComputerT,
    RunComputers,
)
from outlast.loop.call_forms import call_item
from outlast.loop.values import JsonObject

logger: Final = get_logger(__name__)

LARGEST_SCREENSHOT_BYTES = 450_000
"""The size limit of a screenshot as a URL; each stays in the run's history."""


@dataclass
class ComputerToolSafetyCheckData:
    """The argument of `on_safety_check`.

    Attributes:
        ctx_wrapper: the run's context.
        agent: the agent whose model made the call.
        tool_call: the call as the openai package's `ResponseComputerToolCall`.
        safety_check: the provider's warning, with `id`, `code` and `message`.
    """

    ctx_wrapper: RunContextWrapper[Any]
    agent: Agent[Any]
    tool_call: Any
    safety_check: Any


SafetyCheckFunction: TypeAlias = Callable[[ComputerToolSafetyCheckData], bool | Awaitable[bool]]
"""Returns whether a call may run in spite of a warning; sync or async."""

ComputerApproval: TypeAlias = Callable[
    [RunContextWrapper[Any], list[JsonObject], str], bool | Awaitable[bool]
]
"""Called with (context, actions as JSON, call id); true means that a person decides."""


class ComputerTool(LocalTool, Generic[ComputerT]):
    """A tool with which the model uses a computer.

    Attributes:
        computer: the computer, or a callable or provider that makes one for each run.
        on_safety_check: returns whether a call with a warning of the provider may run.
        computers: the computers in use in this process.
    """

    form: ClassVar[str] = "computer_call"

    def __init__(
        self,
        computer: ComputerSource[ComputerT],
        on_safety_check: SafetyCheckFunction | None = None,
        *,
        needs_approval: bool | ComputerApproval | ApprovalPolicy = False,
        on_approval: OnApproval | None = None,
        **options: Unpack[LocalToolOptions],
    ) -> None:
        """Make the tool of a computer.

        Args:
            computer: a `Computer` or `AsyncComputer` that all runs on this worker share. A
                callable, called with `run_context=`, or a `ComputerProvider` makes a separate
                computer for each run.
            on_safety_check: called with a `ComputerToolSafetyCheckData` for each of the provider's
                warnings; a false result ends the run. Without this function, calls run and their
                warnings are not acknowledged to the provider.
            needs_approval: whether a person decides before each call: a flag, an
                `ApprovalPolicy`, or a predicate called with (context, the call's actions, call id).
                The output of a rejected call is an empty image, because it cannot contain text; a
                note after it tells the model why.
            on_approval: decides about such a call instead of a person, if it can.
            **options: see `LocalToolOptions`. A call has one attempt unless `retry` says otherwise;
                a failure ends the run.

        Raises:
            UserError: an argument is invalid.
        """
        source = cast("object", computer)
        if isinstance(source, type) or not (
            isinstance(source, Computer | AsyncComputer | ComputerProvider) or callable(source)
        ):
            raise UserError(
                "ComputerTool(computer=...) must be a Computer, an AsyncComputer, a callable that "
                f"makes one, or a ComputerProvider, not {source!r}."
            )
        if on_safety_check is not None:
            check_callable(on_safety_check, ("data",), what="ComputerTool: on_safety_check")
        self.computer: ComputerSource[ComputerT] = computer
        self.on_safety_check = on_safety_check
        self.computers: RunComputers = RunComputers(computer)
        super().__init__(
            "computer_use_preview",
            self._use,
            validate=_problem,
            options={"failure_error_function": None, **options},
            needs_approval=needs_approval,
            on_approval=on_approval,
        )

    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in a request."""
        return {"type": "computer"}

    def param_for(self, model: str | None) -> JsonObject:
        """Return the tool's entry in a request; older models get the preview's entry.

        Raises:
            UserError: an older model requires `environment` and `dimensions`, which the computer
                does not have.
        """
        if model is None or "computer-use" not in model:
            return self.to_tool_param()
        computer: Any = self.computer
        dimensions = getattr(computer, "dimensions", None)
        environment = getattr(computer, "environment", None)
        if dimensions is None or environment is None:
            raise UserError(
                f"The model {model!r} requires the size of the screen: ComputerTool(computer=...) needs"
                " a computer that has `environment` and `dimensions`."
            )
        width, height = dimensions
        return {
            "type": "computer_use_preview",
            "environment": environment,
            "display_width": width,
            "display_height": height,
        }

    def approval_subject(self, context: RunContextWrapper[Any], arguments: str) -> list[JsonObject]:
        """Return the actions as JSON."""
        return _actions(_fields(arguments))

    async def release(self) -> None:
        """Dispose of the computers of all runs in this process."""
        await self.computers.dispose_all()

    async def _use(self, context: ToolContext[Any], arguments: str) -> JsonObject:
        fields = _fields(arguments)
        acknowledged = await self._acknowledge(context, arguments, fields)
        async with self.computers.borrow(context) as computer:
            shot = await act(computer, _actions(fields))
        if len(shot) > LARGEST_SCREENSHOT_BYTES:
            raise UserError(
                f"The screenshot has {len(shot):,} bytes; the limit is {LARGEST_SCREENSHOT_BYTES:,}. "
                "Return a smaller picture, such as a JPEG as data: URL."
            )
        output: JsonObject = {"output": {"type": "computer_screenshot", "image_url": shot}}
        return {**output, "acknowledged_safety_checks": acknowledged} if acknowledged else output

    async def _acknowledge(
        self, context: ToolContext[Any], arguments: str, fields: JsonObject
    ) -> list[JsonObject]:
        """Check the provider's warnings, and return the acknowledged ones."""
        checks: list[JsonObject] = fields.get("pending_safety_checks") or []
        if not checks:
            return []
        if self.on_safety_check is None:
            logger.warning(
                "the provider warned of a computer call, and the tool has no on_safety_check: %s",
                [check.get("code") for check in checks],
            )
            return []
        call_id = context.tool_call_id
        raw = call_item(self.form, call_id=call_id, name="", arguments=arguments)
        shown = HeldRaw({"id": call_id, "status": "completed", **raw}).shown()
        for check, safety_check in zip(checks, shown.pending_safety_checks, strict=True):
            data = ComputerToolSafetyCheckData(context, context.agent, shown, safety_check)
            if not await call(self.on_safety_check, data):
                raise UserError(
                    "on_safety_check refused a call of the computer: "
                    f"{check.get('message') or check.get('code') or check.get('id')}"
                )
        return checks


def _fields(arguments: str) -> JsonObject:
    return as_object(json.loads(arguments or "{}")) or {}


def _actions(fields: JsonObject) -> list[JsonObject]:
    """Return the actions of a call; newer models request several at once."""
    single = as_object(fields.get("action"))
    return as_objects(fields.get("actions")) or ([] if single is None else [single])


def _problem(arguments: str) -> str | None:
    return action_problem(_actions(_fields(arguments)))


async def resolve_computer(
    *, tool: ComputerTool[Any], run_context: RunContextWrapper[Any]
) -> ComputerLike:
    """Return a tool's computer for a run in this process, and make it if needed.

    Args:
        tool: the tool.
        run_context: the run's context, as passed to hooks and other callables.

    Raises:
        UserError: the tool's callable or provider returned no computer.
        Exception: any error of the callable or provider.
    """
    async with tool.computers.borrow(run_context) as computer:
        return computer
