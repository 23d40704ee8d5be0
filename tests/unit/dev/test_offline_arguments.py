"""How a tool's parameters are filled from what is known."""

from decimal import Decimal
from typing import Any

import pytest

from outlast.dev.offline_arguments import fill
from outlast.dev.offline_language import Goal, Topic
from outlast.dev.offline_request import Call, Tool

GOAL = Goal(
    topic=Topic.REFUND,
    words="Refund  20.50 of 1042,\nit broke. Big parcel",
    at=0,
    order="1042",
    amount=Decimal("20.50"),
    reason="it broke",
    address="5 Elm St, Bath",
)
LOOKED_UP = Call(
    name="look_up_order",
    arguments={"order_id": "#1042"},
    output='{"total_cents": 4990, "email": "a@b.example", "invoice_id": 12}',
    at=1,
)


def filled(
    name: str, schema: dict[str, Any], goal: Goal = GOAL, *, required: bool = True
) -> tuple[dict[str, Any], list[str]]:
    parameters = {
        "properties": {name: schema},
        "required": [name] if required else [],
        "$defs": {"Kind": {"type": "string", "enum": ["letter", "big_parcel"]}},
    }
    return fill(Tool(name="t", description="", parameters=parameters), goal, [LOOKED_UP])


@pytest.mark.parametrize(
    ("name", "schema", "value"),
    [
        ("order_id", {"type": "string"}, "1042"),
        ("orderNumber", {"type": "integer"}, 1042),
        ("order_ids", {"type": "array", "items": {"type": "string"}}, ["1042"]),
        ("orders", {"type": "array", "items": {"type": "string"}}, ["1042"]),
        ("id", {"type": "string"}, "1042"),
        ("amount", {"type": "number"}, 20.5),
        ("amount", {"type": "string"}, "20.50"),
        ("amount_cents", {"type": "integer"}, 2050),
        ("amount", {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "null"}]}, 20.5),
        ("amount", {"type": "boolean"}, None),
        ("reason", {"type": "string"}, "it broke"),
        ("new_address", {"type": "string"}, "5 Elm St, Bath"),
        ("email", {"type": "string"}, "a@b.example"),
        ("invoice_id", {"type": "integer"}, 12),
        ("invoice_number", {"type": "string"}, "1042"),
        ("colour", {"type": "string"}, None),
    ],
)
def test_a_value_goes_by_name_and_type(name: str, schema: dict[str, Any], value: Any):
    arguments, missing = filled(name, schema)
    if value is None:
        assert (arguments, missing) == ({}, [name])
    else:
        assert (arguments, missing) == ({name: value}, [])
        assert type(arguments[name]) is type(value)


def test_a_whole_amount_is_a_whole_number():
    goal = Goal(topic=Topic.REFUND, words="", at=0, amount=Decimal("20.00"))
    assert filled("amount", {"type": "number"}, goal)[0] == {"amount": 20}


def test_what_nobody_said_is_null_the_default_or_absent():
    goal = Goal(topic=Topic.REFUND, words="Refund it", at=0)
    assert filled("amount", {"type": ["number", "null"]}, goal) == ({"amount": None}, [])
    assert filled("amount", {"type": "number", "default": 0}, goal) == ({"amount": 0}, [])
    assert filled("amount", {"type": "number"}, goal, required=False) == ({}, [])
    assert filled("amount", {"type": "number"}, goal) == ({}, ["amount"])
    assert filled("order_id", {"type": "integer"}, goal) == ({}, ["order_id"])


def test_a_required_amount_is_the_total_that_was_looked_up():
    goal = Goal(topic=Topic.REFUND, words="Refund 1042", at=0, order="1042")
    assert filled("amount", {"type": "number"}, goal) == ({"amount": 49.9}, [])
    assert filled("amount", {"type": "number"}, goal, required=False) == ({}, [])


def test_a_required_text_is_what_the_customer_wrote():
    goal = Goal(topic=Topic.HUMAN, words="I  want\na person", at=0)
    assert filled("summary", {"type": "string"}, goal) == ({"summary": "I want a person"}, [])
    assert filled("summary", {"type": "string"}, goal, required=False) == ({}, [])


def test_a_choice_is_made_among_the_customers_words():
    goal = Goal(topic=Topic.HUMAN, words="Big parcel, please", at=0)
    assert filled("topic", {"$ref": "#/$defs/Kind"}, goal) == ({"topic": "big_parcel"}, [])
    assert filled("topic", {"type": "string", "enum": ["email"]}, goal) == ({}, ["topic"])


def test_a_tool_without_parameters_takes_none():
    assert fill(Tool(name="t", description="", parameters={"type": "object"}), GOAL, []) == ({}, [])
