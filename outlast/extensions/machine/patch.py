"""The tool with which a model changes files on the machine of a worker, through users' editors."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, Unpack, cast, runtime_checkable

from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.callables import call
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.json_values import as_object
from outlast.agents.tools.definition import default_tool_error
from outlast.agents.tools.hosted import tool_entry
from outlast.agents.tools.local import LocalTool, LocalToolOptions, OnApproval
from outlast.extensions.machine.diffs import InvalidDiffError
from outlast.loop.values import JsonObject

ApplyPatchOperationType: TypeAlias = Literal["create_file", "update_file", "delete_file"]

_NEEDS_DIFF = {"create_file": True, "update_file": True, "delete_file": False}

MOST_OUTPUT_CHARACTERS = 100_000


@dataclass(slots=True)
class ApplyPatchOperation:
    """A change of one file.

    Attributes:
        type: the kind of change.
        path: the file's path; check the path before use, because a model wrote it.
        diff: the diff for `apply_diff`, with `mode="create"` for a new file.
        ctx_wrapper: the run's context, with `idempotency_key` while a call runs.
        move_to: the file's new path, if the file is moved.
    """

    type: ApplyPatchOperationType
    path: str
    diff: str | None = None
    ctx_wrapper: RunContextWrapper[Any] | None = None
    move_to: str | None = None


@dataclass(slots=True)
class ApplyPatchResult:
    """The result of a change of a file.

    Attributes:
        status: whether the change succeeded; None means `completed`.
        output: the text for the model.
    """

    status: Literal["completed", "failed"] | None = None
    output: str | None = None


ApplyPatchAnswer: TypeAlias = ApplyPatchResult | str | None
ApplyPatchApproval: TypeAlias = Callable[
    [RunContextWrapper[Any], ApplyPatchOperation, str], bool | Awaitable[bool]
]
"""Called with (context, operation, call id); true means that a person decides."""


@runtime_checkable
class ApplyPatchEditor(Protocol):
    """A protocol for objects that change files.

    Its methods may be sync or async.
    """

    def create_file(
        self, operation: ApplyPatchOperation
    ) -> ApplyPatchAnswer | Awaitable[ApplyPatchAnswer]:
        """Write a new file."""
        ...

    def update_file(
        self, operation: ApplyPatchOperation
    ) -> ApplyPatchAnswer | Awaitable[ApplyPatchAnswer]:
        """Change a file, and move it if `move_to` is set."""
        ...

    def delete_file(
        self, operation: ApplyPatchOperation
    ) -> ApplyPatchAnswer | Awaitable[ApplyPatchAnswer]:
        """Delete a file."""
        ...


class ApplyPatchTool(LocalTool):
    """A tool with which the model changes files through an editor.

    Attributes:
        editor: the object that changes the files.
    """

    form: ClassVar[str] = "apply_patch_call"

    def __init__(
        self,
        editor: ApplyPatchEditor,
        name: str = "apply_patch",
        needs_approval: bool | ApplyPatchApproval | ApprovalPolicy = False,  # noqa: FBT001, FBT002  the SDK's
        on_approval: OnApproval | None = None,
        **options: Unpack[LocalToolOptions],
    ) -> None:
        """Make the tool of an editor.

        Args:
            editor: an object with the methods `create_file`, `update_file` and `delete_file`, which
                take an `ApplyPatchOperation` and return an `ApplyPatchResult`, a text or None.
            name: the tool's name in messages and hooks. The model, approvals and activities call it
                `apply_patch`.
            needs_approval: whether a person decides before each call: a flag, an
                `ApprovalPolicy`, or a predicate called with (context, operation, call id).
            on_approval: decides about such a call instead of a person, if it can.
            **options: see `LocalToolOptions`. A call has one attempt unless `retry` says otherwise.
                By default, the model gets the problem of an invalid diff, and for any other failure
                the text of `default_tool_error`.

        Raises:
            UserError: an argument is invalid.
        """
        for method in _NEEDS_DIFF:
            if not callable(getattr(editor, method, None)):
                raise UserError(
                    f"ApplyPatchTool {name!r}: editor has no method {method}(operation). An editor "
                    f"has {', '.join(_NEEDS_DIFF)}."
                )
        self.editor = editor
        super().__init__(
            name,
            self._edit,
            validate=_problem,
            options={"failure_error_function": default_patch_error, **options},
            needs_approval=needs_approval,
            on_approval=on_approval,
        )

    @property
    def type(self) -> str:
        """The provider's name of this type of tool."""
        return "apply_patch"

    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in a request."""
        return tool_entry(self.type, allowed_callers=self.allowed_callers)

    def approval_subject(
        self, context: RunContextWrapper[Any], arguments: str
    ) -> ApplyPatchOperation:
        """Return the operation."""
        fields = _operation(arguments)
        return ApplyPatchOperation(
            type=fields["type"],
            path=fields["path"],
            diff=fields.get("diff"),
            ctx_wrapper=context,
            move_to=fields.get("move_to"),
        )

    async def _edit(self, context: ToolContext[Any], arguments: str) -> JsonObject:
        operation = self.approval_subject(context, arguments)
        result: object = await call(getattr(self.editor, operation.type), operation)
        return _output(result)


def default_patch_error(context: RunContextWrapper[Any], error: Exception) -> str:
    """Return the problem of a diff, or the default message for other failures."""
    if isinstance(error, InvalidDiffError | ModelBehaviorError):
        return str(error)
    return default_tool_error(context, error)


def _operation(arguments: str) -> JsonObject:
    return as_object(json.loads(arguments or "{}").get("operation")) or {}


def _problem(arguments: str) -> str | None:
    fields = _operation(arguments)
    kind, path = fields.get("type"), fields.get("path")
    if kind not in _NEEDS_DIFF:
        return f"There is no operation {kind!r}. The operations: {', '.join(_NEEDS_DIFF)}."
    if not isinstance(path, str) or not path:
        return f"The operation {kind} needs a `path`."
    if _NEEDS_DIFF[kind] and not isinstance(fields.get("diff"), str):
        return f"The operation {kind} needs a `diff`."
    return None


def _output(result: object) -> JsonObject:
    status: object = None
    if isinstance(result, Mapping):
        fields = cast("Mapping[str, object]", result)
        status, result = fields.get("status"), fields.get("output")
    elif isinstance(result, ApplyPatchResult):
        status, result = result.status, result.output
    output: JsonObject = {"status": "failed" if status == "failed" else "completed"}
    return output if result is None else {**output, "output": str(result)[:MOST_OUTPUT_CHARACTERS]}
