"""Customers: the people for whom runs work."""

import re
from typing import Final, cast

from outlast.agents.checks import check_printable
from outlast.agents.errors import UserError
from outlast.loop.start import Customer

LONGEST: Final = 200
"""The characters of a customer's id, and of a name."""

_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
"""The form of a BCP 47 language tag."""


def as_customer(customer: Customer | str | None) -> Customer | None:
    """Return the customer of a run; a text is the id.

    Raises:
        UserError: the value is neither, or a part of it is invalid.
    """
    value = cast("object", customer)
    if value is None:
        return None
    if isinstance(value, str):
        value = Customer(value)
    if not isinstance(value, Customer):
        raise UserError(f"customer= must be an id or a Customer, not {value!r:.200}.")
    _check_text("id", value.id)
    if not value.id.strip():
        raise UserError("A customer's id is empty. Leave customer= out where you do not know it.")
    _check_text("name", value.name)
    _check_text("language", value.language)
    if value.language and not _LANGUAGE.fullmatch(value.language):
        raise UserError(
            f"The customer's language {value.language!r:.80} is no language tag, such as 'de' or "
            "'pt-BR'."
        )
    return value


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise UserError(f"A customer's {name} must be a string, not {value!r:.200}.")
    if len(value) > LONGEST:
        raise UserError(
            f"A customer's {name} has {len(value)} characters, but at most {LONGEST} are kept."
        )
    check_printable(f"The customer's {name}", value, is_name=name == "name")
