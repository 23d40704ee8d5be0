"""Conditions of an operators' file."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.agents.approvals.conditions import (
    LONGEST,
    Condition,
    ConditionError,
    type_problem,
)
from outlast.agents.errors import UserError

CALL: dict[str, Any] = {
    "amount": 500,
    "rate": 0.5,
    "currency": "EUR",
    "is_new": True,
    "order-id": "A-17",
    "to": {"country": "DE", "verified": False},
    "note": None,
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("amount > 499", True),
        ("amount > 500", False),
        ("amount >= 500", True),
        ("amount < 500.5", True),
        ("amount <= 499", False),
        ("amount == 500.0", True),
        ("amount != 500", False),
        ("1e3 > amount", True),
        ("rate > -0.5", True),
        ("amount > rate", True),
        ("currency == 'EUR'", True),
        ('currency != "EUR"', False),
        ("currency < 'F'", True),
        ("order-id == 'A-17'", True),
        ("is_new", True),
        ("not is_new", False),
        ("is_new == false", False),
        ("to.country == 'DE'", True),
        ("to.verified", False),
        ("amount > 1000 or currency == 'EUR'", True),
        ("amount > 1000 or currency == 'USD'", False),
        ("amount > 100 and currency == 'EUR' and is_new", True),
        ("amount > 1000 and currency == 'EUR' or is_new", True),
        ("amount > 1000 and (currency == 'EUR' or is_new)", False),
        ("not (amount > 1000) and not to.verified", True),
        ("(is_new)", True),
        ("true or is_new", True),
        ("is_new or unknown > 5", True),
        ("note == 'x'", False),
        ("note != 'x'", True),
        ("note > 'x'", False),
        ("5 >= note", False),
        ("note", False),
        ("note == null", True),
        ("null != note", False),
        ("amount == null", False),
        ("amount != null", True),
        ("note == null or note > 'x'", True),
    ],
)
async def test_a_condition_compares_arguments(text: str, *, holds: bool) -> None:
    condition = Condition(text)
    assert condition.holds(CALL) is holds
    assert await condition(None, CALL, "c1") is holds


@pytest.mark.parametrize(
    "text",
    [
        "unknown > 5",
        "to.city == 'Bonn'",
        "amount.cents > 5",
        "amount > '5'",
        "currency > 5",
        "is_new > false",
        "is_new == 1",
        "amount == true",
        "to == 'x'",
        "amount",
        "currency or is_new",
    ],
)
def test_a_condition_that_cannot_judge_fails(text: str) -> None:
    with pytest.raises((LookupError, TypeError)):
        Condition(text).holds(CALL)


@pytest.mark.parametrize(
    ("text", "problem", "at"),
    [
        ("", "an argument or a value is missing before its end", 0),
        ("amount >", "an argument or a value is missing before its end", 8),
        ("amount = 5", "equality is written as ==", 7),
        ("amount > 5 5", "'and' or 'or' is missing before '5'", 11),
        ("amount > 5 and", "an argument or a value is missing before its end", 14),
        ("> 5", "an argument or a value is missing before '>'", 0),
        ("amount > and", "an argument or a value is missing before 'and'", 9),
        ("5", "an operator such as == is missing before its end", 1),
        ("'x' or is_new", "an operator such as == is missing before 'or'", 4),
        ("null", "an operator such as == is missing before its end", 4),
        ("amount > null", "null has no order", 0),
        ("amount < 1 or null <= amount", "null has no order", 14),
        ("5 > 4", "the comparison names no argument", 0),
        ("1 < amount < 9", "'and' or 'or' is missing before '<'", 11),
        ("(amount > 5", "a ')' is missing before its end", 11),
        ("amount > 5)", "'and' or 'or' is missing before ')'", 10),
        ("currency == 'EUR", 'the text "\'EUR" has no closing quote', 12),
        ("amount > 5k", "'5k' is neither an argument, a value nor an operator", 9),
        ("amount * 2 > 5", "'*' is neither", 7),
        ("len(items) > 5", "'and' or 'or' is missing before '('", 3),
        ("__import__('os')", "'and' or 'or' is missing before '('", 10),
        ("amount ** 9", "'**' is neither", 7),
        ("(" * 40 + "is_new" + ")" * 40, "nested too deeply at '('", 30),
        ("not " * 40 + "is_new", "nested too deeply at 'not'", 120),
        ("a" * (LONGEST + 1), "longer than 1,000 characters", 0),
    ],
)
def test_a_text_that_is_no_condition_is_refused_with_its_place(
    text: str, problem: str, at: int
) -> None:
    with pytest.raises(ConditionError) as caught:
        Condition(text)
    assert problem in caught.value.message
    assert (caught.value.at, caught.value.condition) == (at, text)


@given(st.text(max_size=60))
def test_any_text_is_a_condition_or_a_mistake(text: str) -> None:
    with suppress(UserError, LookupError, TypeError):
        assert Condition(text).holds({}) in {True, False}


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False), st.integers())
def test_numbers_compare_as_in_python(amount: float, limit: int) -> None:
    arguments = json.loads(json.dumps({"amount": amount}))
    condition = Condition(f"amount > {limit}") if len(str(limit)) < 900 else None
    assert condition is None or condition.holds(arguments) is (amount > limit)


def test_a_condition_says_what_it_reads() -> None:
    condition = Condition("amount > 5 and not (to.country == 'DE' or is_new) and rate < amount")
    assert condition.names == {"amount", "to", "is_new", "rate"}
    assert condition.compared == (
        (("amount",), 5),
        (("to", "country"), "DE"),
        (("is_new",), True),
        (("rate",), None),
        (("amount",), None),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("amount > 5", None),
        ("amount > '5'", "amount is a number, and cannot be compared with a text"),
        ("5 == currency", "currency is a text, and cannot be compared with a number"),
        ("currency", "currency is a text, and cannot be compared with a truth value"),
        ("free == 5 and to.x == 5 and unknown == 5 and amount > rate", None),
    ],
)
def test_the_types_of_a_tools_schema_are_compared(text: str, problem: str | None) -> None:
    properties: dict[str, Any] = {
        "amount": {"type": "integer"},
        "rate": {"type": "number"},
        "currency": {"type": "string"},
        "free": {"anyOf": []},
        "to": {"type": "object"},
    }
    assert type_problem(Condition(text), properties) == problem
