"""Tools that run commands on the machine of a worker, through users' executors."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, Unpack, cast

from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.callables import call, check_callable
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import UserError
from outlast.agents.items.raw_items import HeldRaw
from outlast.agents.json_values import as_object
from outlast.agents.tools.hosted import tool_entry
from outlast.agents.tools.local import LocalTool, LocalToolOptions, OnApproval
from outlast.extensions.machine.shell_environments import ShellToolEnvironment
from outlast.loop.call_forms import call_item
from outlast.loop.values import Json, JsonObject

MOST_OUTPUT_CHARACTERS = 100_000
"""The default limit of a call's output; the rest is cut off."""

_CUT = "\n[The output is longer. It was cut off here.]"


@dataclass
class ShellCallOutcome:
    """The outcome of a command: an exit code or a timeout.

    Attributes:
        type: whether the command ended by itself or timed out.
        exit_code: the command's exit code, if available.
    """

    type: Literal["exit", "timeout"]
    exit_code: int | None = None


@dataclass
class ShellCommandOutput:
    """The output of one command.

    Attributes:
        stdout: the command's standard output.
        stderr: the command's standard error.
        outcome: the exit code or timeout.
        command: the command; not shown to the model, which knows the order.
        provider_data: further data of the executor; not shown to the model.
    """

    stdout: str = ""
    stderr: str = ""
    outcome: ShellCallOutcome = field(default_factory=lambda: ShellCallOutcome("exit"))
    command: str | None = None
    provider_data: dict[str, Any] | None = None

    @property
    def exit_code(self) -> int | None:
        """The command's exit code, if available."""
        return self.outcome.exit_code

    @property
    def status(self) -> Literal["completed", "timeout"]:
        """Whether the command ended by itself or timed out."""
        return "timeout" if self.outcome.type == "timeout" else "completed"


@dataclass
class ShellResult:
    """The result of the commands of a call.

    Attributes:
        output: the output of each command, in order.
        max_output_length: the maximum number of characters for the model; the model's own limit
            also applies.
        provider_data: further data of the executor; not shown to the model.
    """

    output: list[ShellCommandOutput]
    max_output_length: int | None = None
    provider_data: dict[str, Any] | None = None


@dataclass
class ShellActionRequest:
    """The commands that a model wants to run.

    Attributes:
        commands: the commands, to run in order.
        timeout_ms: the time-out that the model requests; None for none, also where the model
            writes 0.
        max_output_length: the maximum number of output characters that the model requests.
    """

    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None


@dataclass
class ShellCallData:
    """A call of the shell tool.

    Attributes:
        call_id: the model's id of the call.
        action: the action to run.
        status: the provider's status of the call.
        raw: the call as an item.
    """

    call_id: str
    action: ShellActionRequest
    status: Literal["in_progress", "completed"] | None = None
    raw: Any | None = None


@dataclass
class ShellCommandRequest:
    """The argument of a `ShellTool`'s executor.

    Attributes:
        ctx_wrapper: the run's context, with `idempotency_key` and everything else that tools get.
        data: the call.
    """

    ctx_wrapper: RunContextWrapper[Any]
    data: ShellCallData


@dataclass
class LocalShellCommandRequest:
    """The argument of a `LocalShellTool`'s executor.

    Attributes:
        ctx_wrapper: the run's context, with `idempotency_key` and everything else that tools get.
        data: the call as the openai package's `LocalShellCall`; `data.action` has the command.
    """

    ctx_wrapper: RunContextWrapper[Any]
    data: Any


ShellExecutor: TypeAlias = Callable[
    [ShellCommandRequest], str | ShellResult | Awaitable[str | ShellResult]
]
"""A function that runs the commands of a call; sync or async."""

LocalShellExecutor: TypeAlias = Callable[[LocalShellCommandRequest], str | Awaitable[str]]
"""A function that runs one command and returns its output; sync or async."""

ShellApproval: TypeAlias = Callable[
    [RunContextWrapper[Any], ShellActionRequest, str], bool | Awaitable[bool]
]
"""Called with (context, action, call id); true means that a human decides."""

LocalShellApproval: TypeAlias = Callable[
    [RunContextWrapper[Any], JsonObject, str], bool | Awaitable[bool]
]
"""Called with (context, action as JSON, call id); true means that a person decides."""


class ShellTool(LocalTool):
    """A shell tool for the model.

    Commands run on the worker, by an executor, or in a provider's container.

    Attributes:
        executor: runs the commands; None for a container.
        environment: where the commands run.
    """

    form: ClassVar[str] = "shell_call"

    def __init__(
        self,
        executor: ShellExecutor | None = None,
        name: str = "shell",
        needs_approval: bool | ShellApproval | ApprovalPolicy = False,  # noqa: FBT001, FBT002  the SDK's
        on_approval: OnApproval | None = None,
        environment: ShellToolEnvironment | None = None,
        **options: Unpack[LocalToolOptions],
    ) -> None:
        """Create a shell with an executor.

        Args:
            executor: called with a `ShellCommandRequest`; returns a `ShellResult` or a text.
            name: the tool's name in messages and hooks. The model, approvals and activities call it
                `shell`.
            needs_approval: whether a person decides before each call: a flag, an
                `ApprovalPolicy`, or a predicate called with (context, action, call id).
            on_approval: decides about such a call instead of a person, if it can.
            environment: `{"type": "local"}`, the default, may have `skills`; `container_auto` and
                `container_reference` are the provider's containers, without an executor.
            **options: see `LocalToolOptions`. A call has one attempt unless `retry` says otherwise.

        Raises:
            UserError: an argument is invalid.
        """
        self.executor = executor
        self.environment: ShellToolEnvironment = environment or {"type": "local"}
        self._check(needs_approval is not False or on_approval is not None, name)
        super().__init__(
            name,
            self._execute,
            validate=_shell_problem,
            options=options,
            needs_approval=needs_approval,
            on_approval=on_approval,
        )
        self.to_tool_param()

    @property
    def type(self) -> str:
        """The provider's name of this type of tool."""
        return "shell"

    @property
    def is_hosted(self) -> bool:
        """Whether the provider runs the commands."""
        return self.environment["type"] != "local"

    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in a request."""
        return tool_entry(
            "shell", environment=self.environment, allowed_callers=self.allowed_callers
        )

    def approval_subject(
        self, context: RunContextWrapper[Any], arguments: str
    ) -> ShellActionRequest:
        """Return the action to run."""
        return _action_of(arguments)

    def _check(self, asks: bool, name: str) -> None:  # noqa: FBT001
        owner = f"ShellTool {name!r}"
        environment: Any = self.environment
        if not isinstance(environment, dict) or "type" not in environment:
            raise UserError(
                f"{owner}: environment must be a dict with a 'type': 'local', 'container_auto' or "
                f"'container_reference', not {environment!r}."
            )
        if not self.is_hosted:
            if self.executor is None:
                raise UserError(
                    f"{owner} requires an executor: give ShellTool(executor=...) a function that runs "
                    "the commands, or an environment of the provider's."
                )
            check_callable(self.executor, ("request",), what=f"{owner}: executor")
        elif self.executor is not None or asks:
            raise UserError(
                f"{owner} runs in the provider's {environment['type']!r}, which does not accept an executor, "
                "needs_approval or on_approval, because the provider runs the commands."
            )

    async def _execute(self, context: ToolContext[Any], arguments: str) -> JsonObject:
        action = _action_of(arguments)
        raw = call_item(self.form, call_id=context.tool_call_id, name="", arguments=arguments)
        data = ShellCallData(context.tool_call_id, action, status="completed", raw=raw)
        executor = cast("ShellExecutor", self.executor)
        result = await call(executor, ShellCommandRequest(context, data))
        return _shell_output(result, action.max_output_length)


class LocalShellTool(LocalTool):
    """The older shell tool of some models, which runs one command at a time.

    Attributes:
        executor: runs the command.
    """

    form: ClassVar[str] = "local_shell_call"

    def __init__(
        self,
        executor: LocalShellExecutor,
        *,
        needs_approval: bool | LocalShellApproval | ApprovalPolicy = False,
        on_approval: OnApproval | None = None,
        **options: Unpack[LocalToolOptions],
    ) -> None:
        """Create a shell with an executor.

        Args:
            executor: called with a `LocalShellCommandRequest`; returns the command's output.
            needs_approval: whether a person decides before each call: a flag, an
                `ApprovalPolicy`, or a predicate called with (context, the action as JSON, call id).
            on_approval: decides about such a call instead of a person, if it can.
            **options: see `LocalToolOptions`. A call has one attempt unless `retry` says otherwise.

        Raises:
            UserError: an argument is invalid.
        """
        check_callable(executor, ("request",), what="LocalShellTool: executor")
        self.executor = executor
        super().__init__(
            "local_shell",
            self._execute,
            validate=_local_shell_problem,
            options=options,
            needs_approval=needs_approval,
            on_approval=on_approval,
        )

    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in a request."""
        return {"type": "local_shell"}

    def approval_subject(self, context: RunContextWrapper[Any], arguments: str) -> JsonObject:
        """Return the action as JSON."""
        return _action(arguments)

    async def _execute(self, context: ToolContext[Any], arguments: str) -> str:
        call_id = context.tool_call_id
        raw = call_item(self.form, call_id=call_id, name="", arguments=arguments)
        shown = HeldRaw({"id": call_id, "status": "completed", **raw}).shown()
        result = await call(self.executor, LocalShellCommandRequest(context, shown))
        return _cut(str(result or ""), MOST_OUTPUT_CHARACTERS)


def _action(arguments: str) -> JsonObject:
    return as_object(json.loads(arguments or "{}").get("action")) or {}


def _action_of(arguments: str) -> ShellActionRequest:
    fields = _action(arguments)
    return ShellActionRequest(
        commands=[str(command) for command in fields.get("commands") or ()],
        timeout_ms=_whole(fields.get("timeout_ms")) or None,
        max_output_length=_whole(fields.get("max_output_length")),
    )


def _whole(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _shell_problem(arguments: str) -> str | None:
    action = _action(arguments)
    if not _is_list_of_texts(action.get("commands")):
        return "A call of the shell needs `action.commands`: a list of at least one command."
    wanted = action.get("timeout_ms")
    whole = _whole(wanted)
    if wanted is None or wanted == 0 or (whole is not None and whole > 0):
        return None
    return f"`action.timeout_ms` must be a positive whole number, 0 or null, not {wanted!r}."


def _local_shell_problem(arguments: str) -> str | None:
    if _is_list_of_texts(_action(arguments).get("command")):
        return None
    return "A call of the shell needs `action.command`: a command and its arguments."


def _is_list_of_texts(value: Json) -> bool:
    entries = cast("list[Json]", value) if isinstance(value, list) else []
    return entries != [] and all(isinstance(entry, str) for entry in entries)


def _shell_output(result: object, requested: int | None) -> JsonObject:
    if not isinstance(result, ShellResult):
        text = "" if result is None else str(result)
        done = ShellCommandOutput(stdout=text, outcome=ShellCallOutcome("exit", 0))
        result = ShellResult(output=[done])
    bounds = [one for one in (requested, result.max_output_length) if one is not None]
    bound = max(min(bounds), 0) if bounds else None
    output = _limit(result.output or [ShellCommandOutput()], bound)
    return {"output": output} if bound is None else {"output": output, "max_output_length": bound}


def _limit(outputs: Sequence[ShellCommandOutput], bound: int | None) -> list[JsonObject]:
    mentions_limit = (
        bound is None or bound > MOST_OUTPUT_CHARACTERS
    )  # mention a limit not requested
    left = MOST_OUTPUT_CHARACTERS if bound is None or mentions_limit else bound
    entries: list[JsonObject] = []
    for command in outputs:
        entry: JsonObject = {}
        for name, text in (("stdout", command.stdout), ("stderr", command.stderr)):
            entry[name] = _cut(text, left) if mentions_limit else text[:left]
            left = max(left - len(text), 0)
        entries.append({**entry, "outcome": _outcome(command.outcome)})
    return entries


def _outcome(outcome: ShellCallOutcome) -> JsonObject:
    if outcome.type == "timeout":
        return {"type": "timeout"}
    return {"type": "exit", "exit_code": outcome.exit_code or 0}


def _cut(text: str, bound: int) -> str:
    return text if len(text) <= bound else text[:bound] + _CUT
