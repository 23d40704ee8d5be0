"""What an agent that worked as a tool came to, for its tool's `custom_output_extractor`.

Owns: `AgentToolResult`. Must not know: how the nested run was carried.
"""

from dataclasses import dataclass
from typing import Any

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.items.run_items import RunItem
from outlast.agents.schemas.agent_output import output_as
from outlast.loop.values import JsonObject


@dataclass(kw_only=True)
class AgentToolResult:
    """A nested run at its end.

    Attributes:
        input: what it was asked.
        new_items: what it has added to that.
        final_output: its answer, of the agent's output type.
        last_agent: the agent that answered.
        context_wrapper: the context, which it shares with the run that asked.
    """

    input: str | list[JsonObject]
    new_items: list[RunItem]
    final_output: Any
    last_agent: Any
    context_wrapper: RunContextWrapper[Any]

    def to_input_list(self) -> list[JsonObject]:
        """Return what was asked and added, as input items."""
        asked: list[JsonObject] = (
            [{"role": "user", "content": self.input}]
            if isinstance(self.input, str)
            else list(self.input)
        )
        return [*asked, *(item.to_input_item() for item in self.new_items)]

    def final_output_as(self, cls: Any, raise_if_incorrect_type: bool = False) -> Any:  # noqa: FBT001, FBT002  the SDK's
        """Return the answer, for a type checker as a value of a type; see `RunResult`.

        Raises:
            TypeError: it is not of that type, where that matters.
        """
        return output_as(self.final_output, cls, must_fit=raise_if_incorrect_type)
