"""The knobs of the example, from the environment, read when they are needed.

    SUPPORT_DESK_DB                  the shop's database file; default ./support_desk.db
    SUPPORT_DESK_REFUND_LIMIT        euros that an order may be refunded without a person; 100
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
TOOL_DELAY = "SUPPORT_DESK_TOOL_DELAY_SECONDS"


def database_path() -> Path:
    """Return where the shop's database is."""
    return Path(os.environ.get(DATABASE) or "support_desk.db")


def refund_limit_cents() -> int:
    """Return up to how much an order may be refunded without a person, in cents.

    Raises:
        ValueError: the variable holds no amount.
    """
    text = os.environ.get(REFUND_LIMIT) or "100"
    try:
        cents = to_cents(text)
    except InvalidInputError as error:
        raise ValueError(f"{REFUND_LIMIT}: {error} Write euros, such as 100 or 99.50.") from error
    if cents < 0:
        raise ValueError(f"{REFUND_LIMIT} is {text}: write 0 or more.")
    return cents


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
