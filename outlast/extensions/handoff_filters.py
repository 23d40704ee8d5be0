"""Input filters for handoffs: removal of tools, and nesting of the history."""

from collections.abc import Iterable

from outlast.agents.handoffs.history import default_handoff_history_mapper, nest_handoff_history
from outlast.agents.handoffs.input_data import HandoffInputData
from outlast.agents.items.run_items import (
    CompactionItem,
    InputItem,
    MessageOutputItem,
    ProviderItem,
    RunItem,
    raw_of,
)
from outlast.loop.values import JsonObject

__all__ = ["default_handoff_history_mapper", "nest_handoff_history", "remove_all_tools"]

_ENDINGS = ("_call", "_call_output")
_BEGINNINGS = ("mcp_", "tool_search_", "program")


def remove_all_tools(handoff_input_data: HandoffInputData) -> HandoffInputData:
    """Remove all items of tools, and all reasoning, from the input of a handoff.

    The next agent's model does not see calls and outputs of tools and handoffs, reasoning, items of
    MCP servers, or approvals.
    """
    history = handoff_input_data.input_history
    if not isinstance(history, str):
        history = tuple(raw for raw in history if not _is_of_tools(raw))
    shown = handoff_input_data.input_items
    return handoff_input_data.clone(
        input_history=history,
        pre_handoff_items=_without_tools(handoff_input_data.pre_handoff_items),
        new_items=_without_tools(handoff_input_data.new_items),
        input_items=None if shown is None else _without_tools(shown),
    )


def _without_tools(items: Iterable[RunItem]) -> tuple[RunItem, ...]:
    return tuple(
        item
        for item in items
        if isinstance(item, InputItem | MessageOutputItem | CompactionItem | ProviderItem)
        and not _is_of_tools(raw_of(item))
    )


def _is_of_tools(raw: JsonObject) -> bool:
    kind = str(raw.get("type", ""))
    return kind == "reasoning" or kind.endswith(_ENDINGS) or kind.startswith(_BEGINNINGS)
