"""Money: integer cents inside, euros where people and models speak.

Owns: the conversions between the two. Must not know: orders or refunds.
"""

from decimal import Decimal, InvalidOperation

from support_desk.errors import InvalidInputError

CURRENCY = "EUR"


def to_cents(amount: float | str) -> int:
    """Return an amount in euros as cents, exactly.

    Raises:
        InvalidInputError: it is not a number, or has a fraction of a cent.
    """
    try:
        # By way of the text: the float 49.9 means 49.90, not 49.8999999999999985.
        cents = Decimal(str(amount)) * 100
        whole = int(cents)
    except (InvalidOperation, ValueError, OverflowError):
        raise InvalidInputError(f"{amount!r} is not an amount in {CURRENCY}.") from None
    if cents != whole:
        raise InvalidInputError(f"{amount} {CURRENCY} has a fraction of a cent: round it.")
    return whole


def in_euros(cents: int) -> str:
    """Return cents as people write them, such as `49.90 EUR`."""
    sign = "-" if cents < 0 else ""
    euros, rest = divmod(abs(cents), 100)
    return f"{sign}{euros}.{rest:02d} {CURRENCY}"
