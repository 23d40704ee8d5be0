"""The tool that changes files."""

from typing import Any

import pytest

from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.extensions.machine.diffs import InvalidDiffError
from outlast.extensions.machine.patch import (
    MOST_OUTPUT_CHARACTERS,
    ApplyPatchEditor,
    ApplyPatchOperation,
    ApplyPatchResult,
    ApplyPatchTool,
    default_patch_error,
)
from outlast.loop.call_forms import arguments_of
from outlast.loop.values import JsonObject
from outlast.testing import patch_call


class Editor:
    """An editor that changes nothing."""

    def __init__(self, returned: Any = None) -> None:
        self.returned = returned
        self.operations: list[ApplyPatchOperation] = []

    def create_file(self, operation: ApplyPatchOperation) -> Any:
        self.operations.append(operation)
        return self.returned

    async def update_file(self, operation: ApplyPatchOperation) -> Any:
        return self.create_file(operation)

    def delete_file(self, operation: ApplyPatchOperation) -> Any:
        return self.create_file(operation)


def context() -> ToolContext[Any]:
    return ToolContext[Any](
        context=None,
        tool_name="apply_patch",
        tool_call_id="c1",
        tool_arguments="",
        agent=None,
    )


async def test_an_editor_is_given_the_operation_and_the_context() -> None:
    editor, ctx = Editor(), context()
    tool = ApplyPatchTool(editor)
    calls = [
        patch_call("c1", "create_file", "a", "+x"),
        patch_call("c2", "update_file", "a", "-x", move_to="b"),
        patch_call("c3", "delete_file", "b"),
    ]
    for call in calls:
        await tool.on_invoke_tool(ctx, arguments_of(call))
    assert editor.operations == [
        ApplyPatchOperation("create_file", "a", "+x", ctx),
        ApplyPatchOperation("update_file", "a", "-x", ctx, "b"),
        ApplyPatchOperation("delete_file", "b", None, ctx),
    ]
    assert isinstance(editor, ApplyPatchEditor)


@pytest.mark.parametrize(
    ("returned", "read"),
    [
        (None, {"status": "completed"}),
        ("done", {"status": "completed", "output": "done"}),
        (ApplyPatchResult(), {"status": "completed"}),
        (ApplyPatchResult("failed", "no"), {"status": "failed", "output": "no"}),
        ({"status": "failed", "output": "no"}, {"status": "failed", "output": "no"}),
        ("x" * 200_000, {"status": "completed", "output": "x" * MOST_OUTPUT_CHARACTERS}),
    ],
)
async def test_the_model_reads_whether_it_worked(returned: Any, read: JsonObject) -> None:
    tool = ApplyPatchTool(Editor(returned))
    call = arguments_of(patch_call("c1", "create_file", "a", "+x"))
    assert await tool.on_invoke_tool(context(), call) == read


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (patch_call("c1", "create_file", "a", "+x"), None),
        (patch_call("c1", "delete_file", "a"), None),
        (patch_call("c1", "update_file", "a"), "The operation update_file needs a `diff`."),
        (patch_call("c1", "create_file", "", "+x"), "The operation create_file needs a `path`."),
        (patch_call("c1", "copy_file", "a"), "There is no operation 'copy_file'"),
        ({"type": "apply_patch_call"}, "There is no operation None"),
    ],
)
def test_what_an_operation_lacks_is_told(call: JsonObject, problem: str | None) -> None:
    validate = ApplyPatchTool(Editor()).validate
    assert validate is not None
    told = validate(arguments_of(call))
    assert told == problem if problem is None else problem in str(told)


def test_a_rule_is_asked_about_the_operation() -> None:
    wrapper = RunContextWrapper[Any](None)
    tool = ApplyPatchTool(Editor())
    call = arguments_of(patch_call("c1", "delete_file", "a"))
    operation = ApplyPatchOperation("delete_file", "a", None, wrapper)
    assert tool.approval_subject(wrapper, call) == operation


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (InvalidDiffError("No such line."), "No such line."),
        (ModelBehaviorError("No such operation."), "No such operation."),
        (OSError("/etc/shadow"), "The tool apply_patch failed"),
    ],
)
def test_the_model_is_told_what_it_can_mend(error: Exception, told: str) -> None:
    text = default_patch_error(context(), error)
    assert told in text
    assert "shadow" not in text


def test_the_provider_is_told_of_the_kind_only() -> None:
    tool = ApplyPatchTool(Editor(), name="edit")
    assert (tool.to_tool_param(), tool.type) == ({"type": "apply_patch"}, "apply_patch")
    assert (tool.name, tool.called_name, tool.editor.__class__) == ("edit", "apply_patch", Editor)


def test_an_editor_without_a_method_is_refused() -> None:
    editor: Any = object()
    with pytest.raises(UserError, match="editor has no method create_file"):
        ApplyPatchTool(editor)
