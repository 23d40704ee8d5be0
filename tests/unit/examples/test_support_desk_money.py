"""Euros to cents and back, exactly."""

import pytest
from support_desk.errors import InvalidInputError
from support_desk.money import in_euros, to_cents


@pytest.mark.parametrize(
    ("amount", "cents"),
    [(49.9, 4990), (0.29, 29), (1.1, 110), (389, 38900), ("99.50", 9950), (-5.25, -525), (0, 0)],
)
def test_an_amount_becomes_exact_cents(amount: float | str, cents: int) -> None:
    assert to_cents(amount) == cents


def test_every_amount_up_to_a_thousand_euros_survives_the_way_through_a_float() -> None:
    assert [to_cents(cents / 100) for cents in range(100_000)] == list(range(100_000))


@pytest.mark.parametrize("amount", ["a lot", "", float("nan"), float("inf"), float("-inf")])
def test_what_is_no_amount_is_refused(amount: float | str) -> None:
    with pytest.raises(InvalidInputError, match="is not an amount in EUR"):
        to_cents(amount)


@pytest.mark.parametrize("amount", [0.001, 49.905, "1.999"])
def test_a_fraction_of_a_cent_is_refused(amount: float | str) -> None:
    with pytest.raises(InvalidInputError, match="fraction of a cent"):
        to_cents(amount)


@pytest.mark.parametrize(
    ("cents", "text"),
    [(4990, "49.90 EUR"), (5, "0.05 EUR"), (0, "0.00 EUR"), (-525, "-5.25 EUR"), (-5, "-0.05 EUR")],
)
def test_cents_are_written_as_euros(cents: int, text: str) -> None:
    assert in_euros(cents) == text
