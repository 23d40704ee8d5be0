"""The JSON of request bodies."""

import json
from datetime import date
from typing import Any

import pytest
from openai.types.shared import Reasoning

from outlast.models.openai.body_encoding import encode


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "{}"),
        ({"a": 1, "b": ["é\u2028", True, 1.0]}, '{"a":1,"b":["é\u2028",true,1.0]}'),
        ({"text": "NaN and Infinity", "at": None}, '{"text":"NaN and Infinity","at":null}'),
        ({"reasoning": Reasoning(effort="low")}, '{"reasoning":{"effort":"low"}}'),
        ({"day": date(2026, 1, 2), "said": "NaN"}, '{"day":"2026-01-02","said":"NaN"}'),
    ],
)
def test_bodies_are_written_without_spaces(body: Any, text: str) -> None:
    assert encode(body) == text.encode()


def _circle() -> Any:
    items: list[Any] = []
    items.append(items)
    return items


@pytest.mark.parametrize("value", [object(), float("nan"), "\ud800", json, _circle()])
def test_a_value_without_json_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"not JSON compliant|Unable|Error"):
        encode({"input": [{"content": "fine"}, {"content": value}]})
