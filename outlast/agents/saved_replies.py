"""Saved replies: texts that colleagues write often, from the operators' file."""

import re
from dataclasses import dataclass
from typing import Final, cast

from outlast.agents.errors import UserError

LONGEST_REPLY: Final = 10_000
LONGEST_NAME: Final = 80
LONGEST_CUSTOMER: Final = 80
"""How much of a customer's name a reply takes: names are what somebody said."""

_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_CUSTOMER: Final = "{customer}"
_JOINERS: Final = "\u200c\u200d"
"""Characters without width that names in Persian and Hindi have."""


@dataclass(frozen=True, slots=True)
class SavedReply:
    """A text that colleagues write often.

    Attributes:
        name: its name in the file.
        text: the text, in which `{customer}` is the name of the customer.
        title: what people call it; default: the name.
        unnamed: what stands for the customer where nobody said who it is.
    """

    name: str
    text: str
    title: str = ""
    unnamed: str = "customer"

    def __post_init__(self) -> None:
        for field, value, most in (
            ("text", self.text, LONGEST_REPLY),
            ("title", self.title, LONGEST_NAME),
            ("unnamed", self.unnamed, LONGEST_NAME),
        ):
            place = f"SavedReply({field}=...)"
            if not isinstance(cast("object", value), str):  # a file may have anything
                raise UserError(f"{place} must be a text in quotes, not {value!r:.40}.")
            if len(value) > most:
                raise UserError(f"{place} has {len(value):,} characters, of at most {most:,}.")
        if not self.text.strip():
            raise UserError("SavedReply(text=...) is empty. Write what colleagues shall send.")
        for name in _PLACE.findall(self.text):
            if name != "customer":
                raise UserError(
                    f"SavedReply(text=...) has {{{name:.40}}}. A reply knows {_CUSTOMER} alone."
                )

    @property
    def label(self) -> str:
        """What people call it."""
        return self.title.strip() or self.name

    def for_customer(self, name: str) -> str:
        """Return the text for a customer, whose name is one short line whatever it has.

        Args:
            name: the name of the customer; empty if nobody said.
        """
        plain = "".join(one if one.isprintable() or one in _JOINERS else " " for one in name)
        line = " ".join(plain.split())[:LONGEST_CUSTOMER].strip()
        return self.text.replace(_CUSTOMER, line or self.unnamed)
