"""Internal. Tools whose calls are operations of Temporal: a user's workflow, or a Nexus operation.

A call starts the workflow `Errand`, which executes the operation and delivers its result. The call
waits for the delivery as `ToolContext.wait_for` does: for days if need be, without a worker.
"""

import contextlib
import hashlib
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Unpack

import nexusrpc
from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python
from temporalio import activity
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.common import Priority, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.approvals.policy import NeedsApproval, ToolEffect
from outlast.agents.checks import check_name, check_options, duration
from outlast.agents.context.wait_address import WaitAddress
from outlast.agents.context.waits import LONGEST_NAME
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import ToolFailed, UserError, WaitDropped, WaitTimeout
from outlast.agents.tools.definition import (
    CommonToolOptions,
    FunctionTool,
    ToolRetry,
)
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.user_types import output_problems
from outlast.contract import names, records
from outlast.edges.rendering import engine_summary
from outlast.loop.values import Json, JsonObject

__all__ = ["OperationToolOptions", "nexus_tool", "workflow_tool"]

LONGEST_ID_BYTES: Final = 1_000
"""The longest id of a workflow that a server takes, unless it is set up otherwise."""

OUTCOME: Final[JsonObject] = {
    "type": "object",
    "properties": {"result": {}, "failure": {"type": "string"}},
    "additionalProperties": False,
}
"""The schema of a delivery: what the operation returned, or why it failed."""


class OperationToolOptions(CommonToolOptions, total=False):
    """The options of `workflow_tool` and `nexus_tool` that `function_tool` has, too."""

    needs_approval: NeedsApproval
    effect: ToolEffect | None
    strict_mode: bool
    defer_loading: bool


def workflow_tool(
    run: Callable[..., Awaitable[Any]],
    *,
    task_queue: str | None = None,
    timeout: timedelta | None = None,
    id: Callable[..., str] | None = None,  # noqa: A002  as in Temporal's client
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[OperationToolOptions],
) -> FunctionTool:
    """Make a tool of a Temporal workflow: each call executes the workflow once.

        ship = workflow_tool(ShipOrder.run, task_queue="shipping", timeout=timedelta(days=5))

    The model supplies the parameters of the run method, and reads what it returns. The call waits
    without a worker of the agents; approvals and guardrails come before the workflow starts. If the
    call is dropped, or the timeout comes, the workflow is cancelled.

    Args:
        run: the run method of the workflow's class.
        task_queue: the task queue of the workflow's worker; None for that of the run.
        timeout: how long the call waits; None for as long as the workflow takes.
        id: makes the id of the workflow from the arguments. Default: made of the run's id.
        name: the tool's name; default: the workflow's, as `ship_order`.
        description: for the model; default: the docstring of the run method, or of the class.
        **options: see `OperationToolOptions`.

    Raises:
        UserError: `run` is no run method, its signature is not one of a tool, or an option is
            invalid.
    """
    definition: Any = getattr(run, "__temporal_workflow_definition", None)
    if not inspect.isfunction(run) or definition is None or not definition.name:
        raise UserError(
            "workflow_tool(run): pass the run method of a class with @workflow.defn, such as "
            f"ShipOrder.run, not {run!r:.80}."
        )
    signature = inspect.signature(run)
    parameters = list(signature.parameters.values())[1:]
    for parameter in parameters:
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise UserError(
                f"workflow_tool({run.__qualname__}): the parameter {parameter.name!r} must be an "
                "ordinary one, because Temporal passes arguments by position."
            )
    text = run.__doc__ or definition.cls.__doc__ or ""
    operation = _Operation(
        name=definition.name,
        workflow=definition.name,
        task_queue=task_queue or "",
        make_id=id,
        timeout=timeout,
        result_type=definition.ret_type,
    )
    call = _call_of(operation, parameters, signature.return_annotation, text)
    vars(call)["__wrapped__"] = run  # its module resolves annotations
    return _tool(operation, call, name, description, options)


def nexus_tool(
    endpoint: str,
    service: type,
    operation: nexusrpc.Operation[Any, Any],
    *,
    timeout: timedelta | None = None,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[OperationToolOptions],
) -> FunctionTool:
    """Make a tool of a Nexus operation: each call executes the operation once.

        stock = nexus_tool("warehouse", Warehouse, Warehouse.reserve, timeout=timedelta(hours=1))

    The model supplies the parameter `input`, of the operation's input type, and reads the output.
    Everything else is as in `workflow_tool`.

    Args:
        endpoint: the name of the Nexus endpoint.
        service: the class with `@nexusrpc.service`.
        operation: one of its operations.
        timeout: how long the call waits; None for as long as the operation takes.
        name: the tool's name; default: the operation's.
        description: for the model; default: the docstring of the service.
        **options: see `OperationToolOptions`.

    Raises:
        UserError: the service has no such operation, its input is not one of a tool, or an option
            is invalid.
    """
    check_name("nexus_tool(endpoint)", endpoint)
    definition = nexusrpc.get_service_definition(service)
    if definition is None:
        raise UserError(
            f"nexus_tool(endpoint, service): {service!r:.80} is no class with @nexusrpc.service."
        )
    found = definition.operation_definitions.get(getattr(operation, "name", ""))
    if found is None:
        known = ", ".join(sorted(definition.operation_definitions)) or "none"
        raise UserError(
            f"nexus_tool(endpoint, {definition.name}, operation): {operation!r:.80} is no operation of "
            f"the service. Its operations are {known}."
        )
    takes_input = found.input_type not in (None, type(None))
    parameters = [_parameter("input", found.input_type)] if takes_input else []
    nexus_operation = _Operation(
        name=found.name,
        endpoint=endpoint,
        service=definition.name,
        timeout=timeout,
        result_type=found.output_type,
    )
    text = service.__doc__ or ""
    call = _call_of(nexus_operation, parameters, found.output_type, text)
    return _tool(nexus_operation, call, name, description, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    """What a tool executes: a workflow, or an operation of a Nexus service."""

    name: str
    timeout: timedelta | None
    result_type: Any
    workflow: str = ""
    task_queue: str = ""
    make_id: Callable[..., str] | None = None
    endpoint: str = ""
    service: str = ""

    @property
    def wait(self) -> str:
        """The name of the wait for the result, which people read."""
        return self.name[:LONGEST_NAME]

    async def execute(self, ctx: ToolContext[Any], arguments: Sequence[Any]) -> Json:
        """Start the operation, and return its result when the call runs again.

        Raises:
            ToolFailed: the operation failed.
            WaitTimeout: the result did not come in time; the operation is cancelled.
        """
        errand_id = await ctx.once("errand", self._start, ctx, arguments)
        waiting = ctx.wait_for(self.wait, timeout=self.timeout, schema=OUTCOME, cleanup=True)
        try:
            outcome = await waiting
        except (WaitTimeout, WaitDropped):
            await _cancel(errand_id)
            raise
        if "failure" in outcome:
            raise ToolFailed(outcome["failure"])
        return outcome.get("result")

    async def _start(self, ctx: ToolContext[Any], arguments: Sequence[Any]) -> str:
        """Start the errand of a call, once for all attempts; return its id."""
        if not activity.in_activity():  # in a test without a server, which delivers the outcome
            return ""
        client, info = activity.client(), activity.info()
        workflow = client.get_workflow_handle(ctx.run_id, run_id=info.workflow_run_id)
        run = (await workflow.describe()).raw_info
        key = _key_of(run.first_run_id, ctx.wait_token(self.wait))
        errand_id = names.errand_id(ctx.run_id, key)
        # An earlier attempt may have started it; its result may have been delivered already.
        with contextlib.suppress(WorkflowAlreadyStartedError):
            await client.start_workflow(
                names.WORKFLOW_ERRAND,
                records.write(self._record(ctx, key, arguments)),
                id=errand_id,
                task_queue=info.task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                memo={"outlast_run": ctx.run_id},
                priority=_priority_of(run),  # of the tenant; the operation inherits it
                static_summary=engine_summary(self.name, " for the run ", ctx.run_id),
            )
        return errand_id

    def _record(
        self, ctx: ToolContext[Any], key: str, arguments: Sequence[Any]
    ) -> records.ErrandRecord:
        address = WaitAddress.parse(ctx.wait_token(self.wait))
        record = records.ErrandRecord(
            run_id=ctx.run_id,
            question=address.question,
            turn=address.turn,
            call_id=address.call_id,
            name=address.name,
            arguments=tuple(to_jsonable_python(arguments, by_alias=True)),
        )
        if not self.workflow:
            return replace(
                record, endpoint=self.endpoint, service=self.service, operation=self.name
            )
        made = None if self.make_id is None else self.make_id(*arguments)
        if made is not None:
            _check_id(self.workflow, made)
        return replace(
            record,
            workflow=self.workflow,
            workflow_id=made or f"{ctx.run_id}/{self.workflow}-{key}",
            task_queue=self.task_queue,
        )


def _check_id(workflow: str, made: object) -> None:
    """Refuse an id that the server refuses: its errand would try again for ever."""
    check_name(f"workflow_tool({workflow}): the id that id= makes", made)
    size = len(str(made).encode(errors="surrogatepass"))
    if size > LONGEST_ID_BYTES:
        raise UserError(
            f"workflow_tool({workflow}): the id that id= makes has {size:,} bytes, of at most "
            f"{LONGEST_ID_BYTES:,}: {made!r:.80}."
        )


def _key_of(first_execution_id: str, token: str) -> str:
    """Return a name for a wait that no other wait has, also of another run with the same id."""
    return hashlib.sha256(f"{first_execution_id} {token}".encode()).hexdigest()[:16]


def _priority_of(run: WorkflowExecutionInfo) -> Priority:
    of_run = run.priority
    return Priority(
        priority_key=of_run.priority_key or None,
        fairness_key=of_run.fairness_key or None,
        fairness_weight=of_run.fairness_weight or None,
    )


async def _cancel(errand_id: str) -> None:
    """Cancel the errand of a call that does not wait any more, and so its operation."""
    if not errand_id:
        return
    try:
        await activity.client().get_workflow_handle(errand_id).cancel(reason=names.CALL_DROPPED)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:  # it has ended
            raise


# --- The tool ------------------------------------------------------------------------------------


def _call_of(
    operation: _Operation, parameters: Sequence[inspect.Parameter], returns: Any, text: str
) -> Callable[..., Awaitable[Any]]:
    """Return a function with the parameters of an operation, as `function_tool` reads them."""
    read = _reader(operation)

    async def execute(context: ToolContext[Any], *arguments: Any) -> Any:
        return read(await operation.execute(context, arguments))

    execute.__doc__ = text
    vars(execute)["__signature__"] = inspect.Signature(
        [_parameter("tool_context", ToolContext[Any]), *parameters], return_annotation=returns
    )
    return execute


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation)


def _tool(
    operation: _Operation,
    call: Callable[..., Awaitable[Any]],
    name: str | None,
    description: str | None,
    options: OperationToolOptions,
) -> FunctionTool:
    maker = "workflow_tool" if operation.workflow else "nexus_tool"
    check_options(f"{maker}({operation.name})", options, OperationToolOptions)
    if operation.timeout is not None:
        duration(f"{maker}({operation.name}): timeout", operation.timeout)
    return function_tool(
        call,
        name_override=name or _snake_case(operation.name),
        description_override=description,
        retry=ToolRetry(),  # an attempt that raised had no effect, or one that is not repeated
        **options,
    )


def _reader(operation: _Operation) -> Callable[[Json], Any]:
    """Return a function that makes an object of the operation's return type from a result."""
    if operation.result_type in (None, type(None), Any):
        return lambda result: result
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(operation.result_type)
    except PydanticUserError:  # a type of the user's own converter
        return lambda result: result

    def read(result: Json) -> Any:
        try:
            return adapter.validate_json(json.dumps(result))
        except ValidationError as error:
            raise ToolFailed(
                f"The result of {operation.name} is no {operation.result_type!r:.80}: "
                f"{output_problems(error)}"
            ) from error

    return read


def _snake_case(name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return re.sub(r"[^\w-]+", "_", words).strip("_").lower()
