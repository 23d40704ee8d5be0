"""Reading text, refusals and call ids out of raw items."""

import pytest

from outlast.loop.items import call_id_of, only_text, program_of, refusal_of, summary_text, text_of
from outlast.loop.values import JsonObject


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({}, ""),
        ({"content": None}, ""),
        ({"content": "plain"}, "plain"),
        ({"content": ""}, ""),
        ({"content": 7}, ""),
        ({"content": {"text": "not a list"}}, ""),
        ({"content": []}, ""),
        ({"content": [{"type": "output_text", "text": "a"}]}, "a"),
        ({"content": [{"type": "input_text", "text": "a"}]}, "a"),
        ({"content": [{"type": "text", "text": "a"}]}, "a"),
        ({"content": [{"type": "output_text"}]}, ""),
        ({"content": [{"text": "of no type"}]}, ""),
        ({"content": [{"type": "input_image", "image_url": "x", "text": "no"}]}, ""),
        ({"content": [{"type": "refusal", "refusal": "no"}]}, ""),
        ({"content": ["loose", 3, None, {"type": "text", "text": "a"}]}, "a"),
        (
            {
                "content": [
                    {"type": "output_text", "text": "a "},
                    {"type": "refusal", "refusal": "no"},
                    {"type": "output_text", "text": "b"},
                ]
            },
            "a b",
        ),
    ],
)
def test_text_is_what_a_person_would_read(raw: JsonObject, text: str) -> None:
    assert text_of(raw) == text


@pytest.mark.parametrize(
    ("raw", "refusal"),
    [
        ({}, None),
        ({"content": "I refuse."}, None),
        ({"content": [{"type": "output_text", "text": "yes"}]}, None),
        ({"content": [{"type": "refusal", "refusal": "no"}]}, "no"),
        ({"content": [{"type": "refusal"}]}, ""),
        (
            {
                "content": [
                    {"type": "output_text", "text": "well"},
                    {"type": "refusal", "refusal": "first"},
                    {"type": "refusal", "refusal": "second"},
                ]
            },
            "first",
        ),
    ],
)
def test_a_refusal_is_found_next_to_text(raw: JsonObject, refusal: str | None) -> None:
    assert refusal_of(raw) == refusal


def test_a_text_part_without_a_text_reads_as_nothing() -> None:
    """Some servers send null where there is no text."""
    assert text_of({"content": [{"type": "output_text", "text": None}]}) == ""


def test_an_item_without_a_call_id_has_an_empty_one() -> None:
    assert call_id_of({"type": "function_call"}) == ""


@pytest.mark.parametrize(
    ("raws", "text"),
    [
        ([{"role": "user", "content": "Hello"}], "Hello"),
        ([{"role": "user", "content": ""}], ""),
        ([], None),
        ([{"role": "user", "content": "Hello"}] * 2, None),
        ([{"role": "assistant", "content": "Hello"}], None),
        ([{"role": "user", "content": "Hello", "id": "m1"}], None),
        ([{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}], None),
    ],
)
def test_one_plain_user_message_is_its_text(raws: list[JsonObject], text: str | None) -> None:
    assert only_text(raws) == text


@pytest.mark.parametrize(
    ("caller", "program"),
    [
        (None, ""),
        ({"type": "direct"}, ""),
        ({"type": "program", "caller_id": "p1"}, "p1"),
        ({"type": "program"}, ""),
        ("p1", ""),
    ],
)
def test_a_call_names_the_program_that_made_it(caller: object, program: str) -> None:
    assert program_of({"type": "function_call", "caller": caller}) == program
    assert program_of({"type": "function_call"}) == ""


def test_a_summary_has_a_text_for_people() -> None:
    opaque: JsonObject = {"type": "compaction", "encrypted_content": "gAAAA"}
    assert summary_text([{"role": "user", "content": "Where?"}, opaque]) == (
        "Where?\n\n(encrypted by the provider)"
    )
    assert summary_text([]) == ""
