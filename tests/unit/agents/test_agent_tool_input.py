"""A call's arguments, told as a message."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from outlast.agents.agent_tools.input import (
    StructuredInputSchemaInfo,
    adapter_of,
    checked_input,
    default_tool_input_builder,
    problem_of,
    resolve_agent_tool_input,
    schema_of,
    summary_of,
)
from outlast.agents.errors import UserError


class Tree(BaseModel):
    name: Annotated[str, Field(description="Its name.")]
    branches: "list[Tree]" = []


class Order(TypedDict):
    order_id: str


def test_a_message_holds_the_arguments_and_what_is_known_of_them() -> None:
    params = {"order_id": "A-17"}
    schema = {"type": "object"}
    bare = default_tool_input_builder({"params": params, "summary": None, "json_schema": None})
    told = default_tool_input_builder({"params": params, "summary": "- x: y", "json_schema": None})
    full = default_tool_input_builder({"params": params, "summary": "- x", "json_schema": schema})
    assert '"order_id": "A-17"' in bare
    assert told == f"{bare}\n\nMeaning:\n- x: y"
    assert full.startswith(f"{bare}\n\nJSON Schema:\n")
    assert "- x" not in full, "the schema has the descriptions already"


def test_a_type_that_refers_to_itself_has_a_schema() -> None:
    schema = schema_of(adapter_of(Tree, "Tool 't'"), "Tool 't'")
    assert "Tree" in schema["$defs"]


def test_a_typed_dict_has_a_schema() -> None:
    schema = schema_of(adapter_of(Order, "Tool 't'"), "Tool 't'")
    assert list(schema["properties"]) == ["order_id"]
    assert problem_of("t", adapter_of(Order, ""), "{}") == (
        "Invalid JSON input for tool t: order_id is required."
    )


def test_a_type_without_a_schema_is_refused() -> None:
    class Opaque:
        pass

    with pytest.raises(UserError, match="Tool 't': parameters=Opaque has no JSON Schema"):
        adapter_of(Opaque, "Tool 't'")


def test_a_summary_has_what_is_described() -> None:
    properties: dict[str, Any] = {"a": {"description": "One."}, "b": {}, "c": {"description": "3"}}
    assert summary_of({"properties": properties}) == "- a: One.\n- c: 3"
    whole = {"description": "A sum.", "properties": properties}
    assert summary_of(whole) == "A sum.\n- a: One.\n- c: 3"
    assert summary_of({"description": "A sum.", "properties": {"b": {}}}) == "A sum."
    assert summary_of({"properties": {"b": {}}}) is None
    assert summary_of({}) is None


def test_an_input_is_a_text_or_items() -> None:
    assert checked_input("", "x") == ""
    assert checked_input([{"role": "user"}], "x") == [{"role": "user"}]
    assert checked_input([], "x") == []
    with pytest.raises(UserError, match=r"^Tool 't': it must return a string or a list"):
        checked_input(("a",), "Tool 't': it")


async def test_the_input_is_the_single_text_or_the_arguments_or_what_is_built() -> None:
    assert await resolve_agent_tool_input(params={"input": "hi"}) == "hi"
    assert await resolve_agent_tool_input(params={"input": "hi", "to": "x"}) == (
        '{"input": "hi", "to": "x"}'
    )
    info = StructuredInputSchemaInfo(summary="- to: whom")
    assert "- to: whom" in str(await resolve_agent_tool_input(params={"to": "x"}, schema_info=info))
    items: Any = [{"role": "user", "content": "built"}]
    built = await resolve_agent_tool_input(params={}, input_builder=lambda _options: items)
    assert built == items
