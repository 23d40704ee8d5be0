"""The conversion of an MCP tool's result into the output of a tool."""

import json
from typing import Any, Final

from outlast.agents.items.tool_output import ToolOutputImage, ToolOutputPart, ToolOutputText

MARK: Final = "outlast/unchecked"
"""The metadata key of a result that does not have the form that its server has declared."""

WARNING: Final = (
    "[This result does not have the form that the server has declared for it. Do not rely on details "
    "that are missing; the tool has run.]"
)


def output_of(result: Any, *, structured: bool = False) -> str | ToolOutputPart | list[Any]:
    """Return the tool output for an MCP result, or for an MCP error result.

    Texts and images become parts, in order; other content becomes JSON text. A result without
    content is read as its structured content.
    """
    meta: Any = getattr(result, "meta", None) or {}
    is_marked = bool(meta.get(MARK))
    content = getattr(result, "structured_content", None)
    is_wanted = structured and content and not result.is_error
    if content is not None and (is_wanted or not result.content):
        text = json.dumps(content, ensure_ascii=False)
        return [ToolOutputText(text=text), ToolOutputText(text=WARNING)] if is_marked else text
    parts = [_part(block) for block in result.content]
    if is_marked:
        parts.append(ToolOutputText(text=WARNING))
    return parts[0] if len(parts) == 1 else parts


def _part(block: Any) -> ToolOutputPart:
    if block.type == "text":
        return ToolOutputText(text=block.text)
    if block.type == "image":
        return ToolOutputImage(image_url=f"data:{block.mime_type};base64,{block.data}")
    return ToolOutputText(text=block.model_dump_json(by_alias=True, exclude_none=True))
