"""Sentences with places for values."""

import pytest

from outlast.edges.placeholders import LONGEST, Place, parts_of


def test_words_and_places_come_in_order() -> None:
    assert parts_of("Refund {amount} EUR to {customer.name}") == (
        "Refund ",
        Place(("amount",)),
        " EUR to ",
        Place(("customer", "name")),
    )
    assert parts_of("{order-id} is late") == (Place(("order-id",)), " is late")
    assert parts_of("Close the shop") == ("Close the shop",)
    assert parts_of("{betrag_größe}") == (Place(("betrag_größe",)),)


@pytest.mark.parametrize(
    ("sentence", "why"),
    [
        ("{}", "plain name"),
        ("{0}", "plain name"),
        ("{amount!r}", "plain name"),
        ("{amount:>99999999}", "plain name"),
        ("{amount[0]}", "plain name"),
        ("{amount.}", "plain name"),
        ("{ amount }", "plain name"),
        ("{{amount}}", "braces"),
        ("{amount", "braces"),
        ("amount}", "braces"),
        ("{a{b}}", "braces"),
        ("Refund {amount}{currency}", "run together"),
        ("", "one line"),
        ("  ", "one line"),
        ("Refund\n{amount}", "one line"),
        ("Refund \u202e{amount}", "one line"),
        ("x" * (LONGEST + 1), "one line"),
        ("Refund “{amount}”", "quotation marks"),
    ],
)
def test_anything_else_is_refused(sentence: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parts_of(sentence)
