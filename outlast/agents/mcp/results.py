"""The conversion of an MCP tool's result into the output of a tool."""

import json
from typing import Any

from outlast.agents.items.tool_output import ToolOutputImage, ToolOutputPart, ToolOutputText


def output_of(result: Any, *, structured: bool = False) -> str | ToolOutputPart | list[Any]:
    """Return the tool output for an MCP result, or for an MCP error result.

    Texts and images become parts, in order; other content becomes JSON text.
    """
    if structured and result.structured_content and not result.is_error:
        return json.dumps(result.structured_content, ensure_ascii=False)
    parts = [_part(block) for block in result.content]
    return parts[0] if len(parts) == 1 else parts


def _part(block: Any) -> ToolOutputPart:
    if block.type == "text":
        return ToolOutputText(text=block.text)
    if block.type == "image":
        return ToolOutputImage(image_url=f"data:{block.mime_type};base64,{block.data}")
    return ToolOutputText(text=block.model_dump_json(by_alias=True, exclude_none=True))
