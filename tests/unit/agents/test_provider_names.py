"""Names of tools for people, and for providers."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.agents.schemas.provider_names import (
    distinct_name,
    is_tool_name,
    name_from,
    provider_name,
    with_own_names,
    with_provider_names,
)

ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@pytest.mark.parametrize("name", ["refund", "refund-2", "größe", "退款", "वापसी", "ñ" * 64])
def test_letters_of_any_script_are_a_name(name: str) -> None:
    assert is_tool_name(name)


@pytest.mark.parametrize(
    "name", ["", "a b", "a.b", "a/b", "💸", "x" * 65, "a\n", "\ud800", 5, None]
)
def test_other_characters_are_not(name: object) -> None:
    assert not is_tool_name(name)


@given(st.text(max_size=80))
def test_every_name_has_one_that_providers_accept(name: str) -> None:
    assert ACCEPTED.fullmatch(provider_name(name))
    if ACCEPTED.fullmatch(name):
        assert provider_name(name) == name


def test_different_names_stay_different() -> None:
    names = ["größe", "grosse", "groesse", "grö_e", "退款", "换货", "ñ" * 63, "ñ" * 64]
    assert len({provider_name(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("text", "name"), [("Büro 2", "b_ro_2"), ("退款", "退款"), ("退 款!", "退_款_"), ("!!", "__")]
)
def test_a_name_is_made_of_a_text(text: str, name: str) -> None:
    assert name_from(text) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Refund desk", "refund_desk"),
        ("refund_desk", "refund_desk"),
        ("退款", "退款"),
        ("退 款", "退_款"),
        ("x" * 64, "x" * 64),
    ],
)
def test_a_text_of_letters_and_blanks_is_a_name(text: str, name: str) -> None:
    assert distinct_name(text) == name


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("Büro 2", "b_ro_2_"),
        ("退 款!", "退_款_"),
        ("!!", ""),
        ("Billing/EU", "billing_eu_"),
        ("Возвраты (RU)", "ru_"),
        ("x" * 65, "x" * 55 + "_"),
        ("\ud800", ""),
    ],
)
def test_where_characters_are_lost_a_hash_of_the_text_follows(text: str, begins: str) -> None:
    name = distinct_name(text)
    assert re.fullmatch(re.escape(begins) + "[0-9a-f]{8}", name)
    assert is_tool_name(name)


@given(st.text(max_size=80), st.text(max_size=80))
def test_texts_that_differ_in_more_than_case_and_blanks_have_different_names(
    one: str, other: str
) -> None:
    def same(text: str) -> str:
        return text.lower().replace(" ", "_")

    if same(one) != same(other):
        assert distinct_name(one) != distinct_name(other)


def test_only_calls_of_tools_are_renamed() -> None:
    call = {"type": "function_call", "call_id": "1", "name": "größe", "arguments": "{}"}
    free = {"type": "custom_tool_call", "call_id": "2", "name": "größe", "input": ""}
    others = [{"type": "mcp_call", "name": "größe"}, {"role": "user", "content": "größe"}]
    sent = with_provider_names([call, free, *others])
    assert [item.get("name") for item in sent[:2]] == [provider_name("größe")] * 2
    assert sent[2:] == others
    assert with_own_names(sent, ["größe", "look"]) == [call, free, *others]
