"""What a conformance test looks at: requests, results and sessions, reduced to what is compared.

Owns: the reductions. Must not know: what a row expects.
"""

from collections.abc import Iterable
from typing import Any

from outlast.loop.items import text_of
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest

TOOL_CALL = "tool_call_item"
TOOL_OUTPUT = "tool_call_output_item"
MESSAGE = "message_output_item"
HANDOFF_CALL = "handoff_call_item"
HANDOFF_OUTPUT = "handoff_output_item"


def kinds(result: Any) -> list[str]:
    """What came into a run, by the types of its items."""
    return [item.type for item in result.new_items]


def asked(result: Any) -> list[str]:
    """What a run was asked, as its result tells it: a text, or items."""
    asked = result.input
    return [asked] if isinstance(asked, str) else shapes(asked)


def tool_outputs(result: Any) -> list[Any]:
    """What the tools of a run returned, in the order of its items."""
    return [item.output for item in result.new_items if item.type == TOOL_OUTPUT]


def outputs(request: ModelRequest) -> dict[str, Any]:
    """What the calls came to so far, by call id, in the order in which the model reads it."""
    return outputs_among(request.input)


def outputs_among(items: Iterable[JsonObject]) -> dict[str, Any]:
    """What calls came to, by call id."""
    return {
        item["call_id"]: item["output"]
        for item in items
        if item.get("type") == "function_call_output"
    }


def shapes(items: Iterable[JsonObject]) -> list[str]:
    """Items as the types of calls and outputs, and the texts of messages."""
    return [
        text_of(item) if item.get("type", "message") == "message" else str(item["type"])
        for item in items
    ]


def offered(request: ModelRequest) -> list[str]:
    """The names of what the model was offered."""
    return [spec.name for spec in request.tools]


async def saved(session: Any) -> list[str]:
    """What a session holds."""
    return shapes(await session.get_items())
