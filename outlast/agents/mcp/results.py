"""What a model reads of an MCP tool's result.

Owns: turning the content of a result into what our tools return. Must not know: servers.
"""

import json
from typing import Any

from outlast.agents.items.tool_output import ToolOutputImage, ToolOutputPart, ToolOutputText


def output_of(result: Any, *, structured: bool = False) -> str | ToolOutputPart | list[Any]:
    """Return a result as a tool would return it; one that tells an error is a result, too.

    Texts and images are parts, in their order; of anything else the model reads the JSON.

    Args:
        result: a `mcp.types.CallToolResult`.
        structured: whether structured content goes before them. An error is told by the texts.
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
