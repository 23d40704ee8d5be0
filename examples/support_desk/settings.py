"""The knobs of the example, from the environment, read when they are needed.

    SUPPORT_DESK_DB                  the shop's database file; default ./support_desk.db
    SUPPORT_DESK_REFUND_LIMIT        euros that an order may be refunded without a person; 100
    SUPPORT_DESK_LARGE_REFUND        euros that one person may approve for an order; 1000
    SUPPORT_DESK_TOKENS              tokens of a conversation before a person is asked; 50000
    SUPPORT_DESK_BILLING, _LEADS     people by name, besides those of these groups; nobody
    SUPPORT_DESK_TOOL_DELAY_SECONDS  for trying crashes: how long a refund or an address change
                                     takes, half of it before its commit and half after; 0

Owns: names, defaults and what is wrong with a value. Must not know: who asks.
"""

import os
from datetime import timedelta
from pathlib import Path

from support_desk.errors import InvalidInputError
from support_desk.money import to_cents

DATABASE = "SUPPORT_DESK_DB"
REFUND_LIMIT = "SUPPORT_DESK_REFUND_LIMIT"
LARGE_REFUND = "SUPPORT_DESK_LARGE_REFUND"
TOKENS = "SUPPORT_DESK_TOKENS"
TOOL_DELAY = "SUPPORT_DESK_TOOL_DELAY_SECONDS"


def database_path() -> Path:
    """Return where the shop's database is."""
    return Path(os.environ.get(DATABASE) or "support_desk.db")


def refund_limit_cents() -> int:
    """Return up to how much an order may be refunded without a person, in cents.

    Raises:
        ValueError: the variable holds no amount.
    """
    return _cents(REFUND_LIMIT, "100")


def large_refund_cents() -> int:
    """Return up to how much of an order one person may approve, in cents; above, it takes two.

    Raises:
        ValueError: the variable holds no amount.
    """
    return _cents(LARGE_REFUND, "1000")


def tokens() -> int:
    """Return how many tokens a conversation may use before a person is asked.

    Raises:
        ValueError: the variable holds no positive number.
    """
    text = os.environ.get(TOKENS) or "50000"
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{TOKENS} is {text!r}: write a number of tokens, such as 50000.")
    return int(text)


def people(group: str) -> list[str]:
    """Return people by name who may act as a group does; for trying the desk out."""
    names = os.environ.get(f"SUPPORT_DESK_{group.upper()}", "").split(",")
    return [name.strip() for name in names if name.strip()]


def tool_delay() -> timedelta:
    """Return how long a tool with a side effect takes on purpose.

    Raises:
        ValueError: the variable holds no number of seconds.
    """
    text = os.environ.get(TOOL_DELAY) or "0"
    try:
        delay = timedelta(seconds=float(text))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{TOOL_DELAY} is {text!r}: write seconds, such as 4 or 0.5.") from error
    if delay < timedelta():
        raise ValueError(f"{TOOL_DELAY} is {text!r}: write 0 or more.")
    return delay


def _cents(variable: str, default: str) -> int:
    text = os.environ.get(variable) or default
    try:
        cents = to_cents(text)
    except InvalidInputError as error:
        raise ValueError(f"{variable}: {error} Write euros, such as 100 or 99.50.") from error
    if cents < 0:
        raise ValueError(f"{variable} is {text}: write 0 or more.")
    return cents
