"""The argument and result of a handoff's input filter."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.items.run_items import RunItem
from outlast.loop.values import JsonObject


@dataclass(frozen=True)
class HandoffInputData:
    """The conversation for the next agent's model, in three parts.

    Attributes:
        input_history: the input of the run: one user message as a string, or input items.
        pre_handoff_items: the run's items of the turns before the handoff.
        new_items: the items of the handoff's turn; the last is the handoff's own output.
        run_context: the context of the run.
        input_items: the model's input in place of `new_items`, while `new_items` stays in the run's
            items and session. None: the model sees `new_items`.
    """

    input_history: str | tuple[JsonObject, ...]
    pre_handoff_items: tuple[RunItem, ...]
    new_items: tuple[RunItem, ...]
    run_context: RunContextWrapper[Any] | None = None
    input_items: tuple[RunItem, ...] | None = None

    def clone(self, **changes: Any) -> "HandoffInputData":
        """Return a copy with some fields changed."""
        return replace(self, **changes)


HandoffInputFilter: TypeAlias = Callable[
    [HandoffInputData], HandoffInputData | Awaitable[HandoffInputData]
]
"""A function that changes a handoff's `HandoffInputData`; sync or async."""

HandoffHistoryMapper: TypeAlias = Callable[[list[JsonObject]], list[JsonObject]]
"""A function called with (items) that returns the next agent's exact input."""
