"""What a policy hides stays hidden however a text writes it, and nothing else is hidden."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.views.redaction import Redaction, redaction_of_texts

ACCOUNT = "DE89370400440532013000"
HIDES = redaction_of_texts([ACCOUNT])


@pytest.mark.parametrize(
    "written",
    [
        ACCOUNT,
        ACCOUNT.lower(),
        "DE89 3704 0044 0532 0130 00",
        "de89-3704-0044-0532-0130-00",
        "DE89.3704\n0044\t0532_0130*00",
        "".join(chr(ord(one) + 0xFEE0) for one in ACCOUNT),  # in full width
        "D\u200bE\u200b8\u200b9\u200b3\u200b7\u200b04\u200b0044\u200b0532\u200b013000",
        ACCOUNT[-6:],
        ACCOUNT[:6],
        ACCOUNT[7:13],
    ],
)
def test_a_value_is_hidden_however_it_is_written(written: str) -> None:
    assert HIDES.text(f"Paid to {written}, done.") == "Paid to [redacted], done."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ACCOUNT, "The receipt is R-13000."),
        ("ann.lee@insurance.com", "Your insurance pays, for example twice."),
        ("12 Main Street", "The main street is closed, from number 12."),
        ("DE8", "DE8 is not hidden, nor DE8937."),
        ("hello", "held, helm, help"),
    ],
)
def test_what_is_no_part_of_it_stays(value: str, text: str) -> None:
    assert redaction_of_texts([value]).text(text) is text


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("12 Main Street", "at 12, MAIN street.", "at [redacted]."),
        (
            "ann.lee@insurance.com",
            "mail annlee or lee@insurance.com",
            "mail [redacted] or [redacted]",
        ),
        ("DE89 3704 0044 0532 0130 00", "ends with 013000", "ends with [redacted]"),
        ("line one\nline two", 'as JSON: "line one\\nline two"', 'as JSON: "[redacted]"'),
        ("1234", "pin 1234!", "pin [redacted]!"),
        ("Łódź, ul. Długa 5", "Lives: łódź ul długa 5.", "Lives: [redacted]."),
        ("renée", "RENE\u0301E", "[redacted]"),
    ],
)
def test_what_counts_as_a_part(value: str, text: str, shown: str) -> None:
    assert redaction_of_texts([value]).text(text) == shown


def test_of_a_longer_text_24_characters_are_hidden() -> None:
    story = "Her husband has lost his work and nobody in the village may hear of it."
    hides = redaction_of_texts([story])
    assert hides.text("She wrote that her husband has lost his work, sadly.") == (
        "She wrote that [redacted], sadly."
    )
    assert hides.text("The village may hear music.") == "The village may hear music."


def test_a_name_of_a_tool_or_an_agent_stays() -> None:
    hides = Redaction(texts=("refund_payment",), names=frozenset({"refund_payment_eu"}))
    assert hides.text("refund_payment_eu") == "refund_payment_eu"
    assert hides.text("called refund_payment_eu for Refund Payment") == (
        "called refund_payment_eu for [redacted]"
    )


def test_a_value_in_arguments_is_hidden_in_each_of_them() -> None:
    hides = Redaction(arguments={("support", "pay"): ("iban",)}, texts=(ACCOUNT,))
    written = json.dumps({"iban": ACCOUNT, "note": f"to {ACCOUNT.lower()}", "days": 3})
    shown = json.loads(hides.call("support", "pay", written))
    assert shown == {"iban": "[redacted]", "note": "to [redacted]", "days": 3}
    assert hides.json({"of": [1, 89370400440532]}) == {"of": [1, "[redacted]"]}
    assert hides.call("support", "pay", '{"days": 3}') == '{"days": 3}'
    assert ACCOUNT not in hides.call("support", "other", f'{{"broken": "{ACCOUNT}"')


VALUES = st.sampled_from([ACCOUNT, "1234", "ann.lee@insurance.com", "12 Main Street", "x" * 60])
TEXTS = st.lists(
    st.one_of(
        VALUES,
        VALUES.map(str.lower),
        VALUES.flatmap(lambda one: st.integers(1, len(one)).map(lambda n: one[-n:])),
        VALUES.flatmap(lambda one: st.integers(1, len(one)).map(lambda n: one[:n])),
        st.sampled_from([" ", "-", ", ", "paid ", "é", "\U0001f600"]),
    ),
    max_size=8,
).map("".join)


@pytest.mark.law
@given(st.lists(VALUES, max_size=3), TEXTS)
def test_a_draft_grows_into_the_whole_text_and_never_takes_back(
    values: list[str], text: str
) -> None:
    hides = redaction_of_texts(values)
    shown = [hides.draft(text[:length]) for length in range(len(text) + 1)]
    shown.append(hides.text(text))
    for before, after in pairwise(shown):
        assert after.startswith(before), (before, after)


@pytest.mark.law
@given(st.lists(VALUES, min_size=1, max_size=3), TEXTS)
def test_what_is_hidden_once_is_hidden_for_good(values: list[str], text: str) -> None:
    hides = redaction_of_texts(values)
    shown = hides.text(text)
    assert hides.text(shown) == shown
    for value in values:
        letters = _letters(value)
        assert not any(letters in _letters(piece) for piece in shown.split("[redacted]"))


def _letters(text: str) -> str:
    return "".join(one for one in text.lower() if one.isalnum())
