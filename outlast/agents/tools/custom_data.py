"""Custom data of tool outputs: the program's own data, which no model reads."""

import json
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject

LARGEST_BYTES = 100_000
"""The limit of one output's custom data: it stays in the run's history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomDataContext:
    """The argument of a tool's `custom_data_extractor`.

    Attributes:
        tool_context: the context of the call.
        tool: the tool.
        output: the tool's output, as hooks get it.
        raw_item: a copy of the output's item, as the model reads it.
    """

    tool_context: ToolContext[Any]
    tool: Any
    output: Any
    raw_item: JsonObject

    @property
    def run_context(self) -> ToolContext[Any]:
        """The context of the call."""
        return self.tool_context

    @property
    def tool_call(self) -> Any:
        """The call's item, as the openai package's typed object."""
        return self.tool_context.tool_call

    @property
    def input(self) -> str:
        """The arguments of the call: the model's text for a `CustomTool`, else JSON."""
        return self.tool_context.tool_arguments

    @property
    def operations(self) -> list[Any]:
        """The operation of an `ApplyPatchTool`'s call, in a list."""
        return [self.tool.approval_subject(self.tool_context, self.input)]

    @property
    def status(self) -> str | None:
        """The status of the output's item; None if it has none."""
        return self.raw_item.get("status")


CustomDataExtractor: TypeAlias = Callable[
    [CustomDataContext], Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None
]
"""A function called with (context) that returns an output's `custom_data`."""

ApplyPatchToolCustomDataContext: TypeAlias = CustomDataContext
"""The argument of the `custom_data_extractor` of an `ApplyPatchTool`."""

ApplyPatchToolCustomDataExtractor: TypeAlias = CustomDataExtractor
"""The `custom_data_extractor` of an `ApplyPatchTool`."""

ComputerToolCustomDataContext: TypeAlias = CustomDataContext
"""The argument of the `custom_data_extractor` of a `ComputerTool`."""

ComputerToolCustomDataExtractor: TypeAlias = CustomDataExtractor
"""The `custom_data_extractor` of a `ComputerTool`."""

CustomToolCustomDataContext: TypeAlias = CustomDataContext
"""The argument of the `custom_data_extractor` of a `CustomTool`."""

CustomToolCustomDataExtractor: TypeAlias = CustomDataExtractor
"""The `custom_data_extractor` of a `CustomTool`."""

FunctionToolCustomDataContext: TypeAlias = CustomDataContext
"""The argument of the `custom_data_extractor` of a function tool."""

FunctionToolCustomDataExtractor: TypeAlias = CustomDataExtractor
"""The `custom_data_extractor` of a function tool."""


def as_custom_data(made: object) -> JsonObject:
    """Return custom data as plain JSON; empty for None."""
    if made is None:
        return {}
    if not isinstance(made, Mapping):
        raise UserError("custom_data_extractor must return a mapping or None.")
    data = deepcopy(dict(cast("Mapping[Any, Any]", made)))
    if not all(isinstance(key, str) for key in data):
        raise UserError("custom_data_extractor must return a mapping with string keys.")
    try:
        text = json.dumps(data, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        problem = "custom_data_extractor must return JSON-compatible data."
        raise UserError(problem) from error
    if len(text) > LARGEST_BYTES:
        raise UserError(
            f"custom_data_extractor returned {len(text):,} bytes, of at most {LARGEST_BYTES:,}. "
            "Keep large data elsewhere, and return its key."
        )
    plain: JsonObject = json.loads(text)
    return plain
