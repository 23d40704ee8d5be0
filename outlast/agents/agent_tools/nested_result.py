"""The result of an agent tool's nested run, for `custom_output_extractor`."""

from dataclasses import dataclass
from typing import Any

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.items.item_helpers import ItemHelpers
from outlast.agents.items.run_items import RunItem
from outlast.agents.schemas.agent_output import output_as
from outlast.loop.values import JsonObject


@dataclass(frozen=True, slots=True)
class AgentToolInvocation:
    """The call of an agent tool that a nested run answers, as the model wrote it."""

    tool_name: str
    tool_call_id: str
    tool_arguments: str


@dataclass(kw_only=True)
class AgentToolResult:
    """The result of a nested run.

    Attributes:
        new_items: the items that the nested run added.
        final_output: the answer, of the agent's output type.
        last_agent: the agent that answered.
        context_wrapper: the context, which the nested run shares with the outer run.
    """

    input: str | list[JsonObject]
    new_items: list[RunItem]
    final_output: Any
    last_agent: Any
    context_wrapper: RunContextWrapper[Any]
    agent_tool_invocation: AgentToolInvocation

    def to_input_list(self) -> list[JsonObject]:
        """Return the input and the new items as input items."""
        new = [item.to_input_item() for item in self.new_items]
        return ItemHelpers.input_to_new_input_list(self.input) + new

    def final_output_as(self, cls: Any, raise_if_incorrect_type: bool = False) -> Any:  # noqa: FBT001, FBT002  the SDK's
        """Return the answer typed as `cls` for type checkers; see `RunResult`.

        Raises:
            TypeError: the answer has another type, and `raise_if_incorrect_type` is true.
        """
        return output_as(self.final_output, cls, must_fit=raise_if_incorrect_type)
