"""Calls of built-in tools for a scripted model, with one function for each type of call."""

from collections.abc import Sequence

from outlast.loop.values import JsonObject


def custom_call(name: str, call_id: str, text: str) -> JsonObject:
    """Return one call of a `CustomTool`, as an item of a reply."""
    return {
        "type": "custom_tool_call",
        "id": f"ctc_{call_id}",
        "call_id": call_id,
        "name": name,
        "input": text,
    }


def shell_call(
    call_id: str,
    /,
    *commands: str,
    timeout_ms: int | None = None,
    max_output_length: int | None = None,
) -> JsonObject:
    """Return one call of a `ShellTool`, as an item of a reply."""
    action: JsonObject = {
        "commands": list(commands),
        "timeout_ms": timeout_ms,
        "max_output_length": max_output_length,
    }
    return {**_head("shell_call", "sh", call_id), "action": action}


def local_shell_call(call_id: str, /, *command: str) -> JsonObject:
    """Return one call of a `LocalShellTool`: a command and its arguments."""
    action: JsonObject = {"type": "exec", "command": list(command), "env": {}}
    return {**_head("local_shell_call", "lsh", call_id), "action": action}


def patch_call(
    call_id: str, kind: str, path: str, diff: str | None = None, *, move_to: str | None = None
) -> JsonObject:
    """Return one call of an `ApplyPatchTool`: `create_file`, `update_file` or `delete_file`."""
    fields = {"type": kind, "path": path, "diff": diff, "move_to": move_to}
    operation = {name: value for name, value in fields.items() if value is not None}
    return {**_head("apply_patch_call", "apc", call_id), "operation": operation}


def computer_call(
    call_id: str, /, *actions: JsonObject, checks: Sequence[JsonObject] = ()
) -> JsonObject:
    """Return one call of a `ComputerTool`, as an item of a reply.

    Args:
        call_id: the call's id.
        actions: the actions, such as `{"type": "click", "x": 1, "y": 2, "button": "left"}`.
        checks: the provider's pending safety checks: dicts with `id`, `code` and `message`.
    """
    head = _head("computer_call", "cu", call_id)
    return {**head, "actions": list(actions), "pending_safety_checks": list(checks)}


def _head(kind: str, prefix: str, call_id: str) -> JsonObject:
    return {
        "type": kind,
        "id": f"{prefix}_{call_id}",
        "call_id": call_id,
        "status": "completed",
    }
