"""What a model reads of an MCP tool's result."""

import base64
from typing import Any

import pytest
from mcp.types import (
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)

from outlast.agents.items.tool_output import ToolOutputImage, ToolOutputText, encode_output
from outlast.agents.mcp.results import output_of
from tests.mcp_servers import said
from tests.pictures import CUT_PNG

IMAGE = ImageContent(type="image", data="AAAA", mime_type="image/png")


def test_a_text_is_a_text() -> None:
    assert output_of(said("here")) == ToolOutputText(text="here")


def test_texts_and_images_are_parts_in_their_order() -> None:
    result = CallToolResult(content=[TextContent(type="text", text="It:"), IMAGE])
    assert output_of(result) == [
        ToolOutputText(text="It:"),
        ToolOutputImage(image_url="data:image/png;base64,AAAA"),
    ]


def test_an_image_that_is_cut_off_is_a_text_beside_the_others() -> None:
    data = base64.b64encode(CUT_PNG).decode()
    cut = ImageContent(type="image", data=data, mime_type="image/png")
    result = CallToolResult(content=[TextContent(type="text", text="It:"), cut, IMAGE])
    assert encode_output(output_of(result), tool_name="shoot") == [
        {"type": "input_text", "text": "It:"},
        {"type": "input_text", "text": "[Here was an image. It was left out: it is incomplete.]"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
    ]


def test_of_anything_else_the_json_is_read() -> None:
    resource = TextResourceContents(uri="file:///a", text="x")
    part: Any = output_of(
        CallToolResult(content=[EmbeddedResource(type="resource", resource=resource)])
    )
    assert part.text == '{"type":"resource","resource":{"uri":"file:///a","text":"x"}}'


def test_no_content_is_an_empty_list() -> None:
    assert encode_output(output_of(said()), tool_name="find") == "[]"


@pytest.mark.parametrize(
    ("structured", "result", "read"),
    [
        (True, said("3", structured_content={"n": "drei €"}), '{"n": "drei €"}'),
        (False, said("3", structured_content={"n": 3}), ToolOutputText(text="3")),
        (True, said("3"), ToolOutputText(text="3")),
        (True, said("no", structured_content={"n": 3}, is_error=True), ToolOutputText(text="no")),
    ],
)
def test_structured_content_is_read_where_that_is_wanted(
    structured: bool, result: Any, read: Any
) -> None:
    assert output_of(result, structured=structured) == read
