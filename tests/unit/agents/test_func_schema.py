"""The schema of a function in the form that the SDK's programs read."""

import importlib

import pytest

from outlast import RunContextWrapper
from outlast.agents.errors import ModelBehaviorError
from outlast.agents.schemas.func_schema import (
    FuncDocumentation,
    FuncSchema,
    function_schema,
    generate_func_documentation,
)


def refund(
    context: RunContextWrapper[dict[str, str]],
    order: str,
    *lines: int,
    fast: bool = False,
    **more: str,
) -> str:
    """Pay an order back.

    Args:
        order: the number of the order.
    """
    return order


def test_a_function_is_described() -> None:
    schema = function_schema(refund, strict_json_schema=False)
    assert (schema.name, schema.description) == ("refund", "Pay an order back.")
    assert schema.takes_context
    assert list(schema.signature.parameters) == ["context", "order", "lines", "fast", "more"]
    assert schema.params_json_schema["properties"]["order"] == {
        "type": "string",
        "description": "the number of the order.",
    }
    assert schema.return_annotation is str


def test_the_arguments_of_a_call_are_made() -> None:
    schema = function_schema(refund, strict_json_schema=False)
    data = schema.params_pydantic_model.model_validate(
        {"order": "A-1", "lines": [1, 2], "fast": True, "more": {"note": "x"}}
    )
    assert schema.to_call_args(data) == (["A-1", 1, 2], {"fast": True, "note": "x"})
    clash = schema.params_pydantic_model.model_validate({"order": "A", "more": {"fast": "x"}})
    with pytest.raises(ModelBehaviorError, match="more must not hold fast"):
        schema.to_call_args(clash)


def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


def test_it_is_strict_by_default_and_can_be_renamed() -> None:
    schema = function_schema(add, name_override="plus", description_override="Sum.")
    assert (schema.name, schema.description, schema.strict_json_schema) == ("plus", "Sum.", True)
    assert schema.params_json_schema["required"] == ["a", "b"]
    assert schema.params_json_schema["additionalProperties"] is False
    assert not schema.takes_context
    assert function_schema(add, use_docstring_info=False).description is None


def test_a_docstring_is_read() -> None:
    assert generate_func_documentation(refund, "google") == FuncDocumentation(
        name="refund",
        description="Pay an order back.",
        param_descriptions={"order": "the number of the order."},
    )
    plain = generate_func_documentation(lambda: None)
    assert (plain.description, plain.param_descriptions) == (None, None)


def test_the_names_are_where_the_sdk_has_them() -> None:
    module = importlib.import_module("outlast.function_schema")
    assert module.FuncSchema is FuncSchema
    assert module.function_schema is function_schema


def test_the_arguments_have_the_title_of_the_function() -> None:
    class Desk:
        def refund(self, amount: int) -> None:
            """Refund an amount."""

    schema = function_schema(Desk().refund)
    assert (schema.name, schema.params_json_schema["title"]) == ("refund", "refund_args")
    assert function_schema(Desk().refund, strict_json_schema=False).params_json_schema["title"]
