"""Which items belong together: calls and their outputs, by type and id."""

from typing import TypeAlias

from outlast.agents.items.raw_items import NO_ID
from outlast.loop.values import JsonObject

OUTPUT_OF_CALL = {
    "function_call": "function_call_output",
    "mcp_approval_request": "mcp_approval_response",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "tool_search_call": "tool_search_output",
}
"""Calls that providers only accept together with their output, and the output's type."""

CALL_OF_OUTPUT = {output: call_type for call_type, output in OUTPUT_OF_CALL.items()}

_NO_IDS = frozenset({"", NO_ID})

ItemKey: TypeAlias = tuple[str, str]
"""The type of an item and its call id, or its own id; see `item_key`."""


def item_key(item: JsonObject) -> ItemKey | None:
    """Return the key that repeated items share: the kind and call id, or the id.

    Messages have no key: models use one id for several messages.
    """
    kind = item.get("type")
    if not isinstance(kind, str) or kind == "message" or "role" in item:
        return None
    for name in ("call_id", "approval_request_id", "id"):
        value = item.get(name)
        if isinstance(value, str) and value not in _NO_IDS:
            return kind, value
    return None
