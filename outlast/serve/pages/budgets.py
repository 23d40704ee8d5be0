"""Amounts of budgets in the units that people think in: dollars, minutes, tokens, calls."""

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, cast

from outlast.agents.errors import UserError
from outlast.views.records import ApprovalRequest, Json, JsonObject
from outlast.views.words import amount_text

_UNITS: Final = {
    "cost_micros": ("US dollars", 1_000_000),
    "tokens": ("tokens", 1),
    "model_calls": ("model calls", 1),
    "tool_calls": ("tool calls", 1),
    "seconds": ("seconds", 1),
}
_LARGEST: Final = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """By how much a request would extend a budget.

    Attributes:
        words: the amount in words, such as `$0.50` or `1,000 tokens`.
        unit: the unit that people enter, such as `US dollars`.
        shown: the amount in that unit, for a field.
        per_unit: how much of what the run counts is one unit.
        counted: the amount as the run counts it.
    """

    words: str
    unit: str
    shown: str
    per_unit: int
    counted: int

    def read(self, text: str) -> int:
        """Return an amount that somebody entered, as the run counts it.

        Raises:
            UserError: it is no amount of this budget.
        """
        whole = text.strip().removeprefix("$").replace(",", "").strip()
        example = "0.50" if self.unit == "US dollars" else "30"
        if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", whole, re.ASCII):
            raise UserError(f"Enter an amount in {self.unit}, such as {example}.")
        amount = Decimal(whole) * self.per_unit
        if amount != amount.to_integral_value():
            raise UserError(f"Enter a whole number of {self.unit}, such as {example}.")
        if not 0 < amount <= _LARGEST:
            raise UserError(f"Enter an amount in {self.unit} that is more than 0.")
        return int(amount)


def extension_of(request: ApprovalRequest) -> Extension | None:
    """Return by how much a request would extend a budget; None if it is not about one."""
    if request.kind != "budget":
        return None
    fields, edited = _fields(request.arguments), _fields(request.edited or "")
    of, amount = fields.get("of"), edited.get("extend_by", fields.get("extend_by"))
    is_amount = isinstance(amount, int) and not isinstance(amount, bool)
    if not isinstance(of, str) or of not in _UNITS or not is_amount:
        return None
    unit, per_unit = _UNITS[of]
    counted = cast("int", amount)
    if of == "seconds" and counted % 60 == 0:
        unit, per_unit = "minutes", 60
    return Extension(
        words=amount_text(of, counted) if unit != "minutes" else f"{counted // 60:,} minutes",
        unit=unit,
        shown=_shown(Decimal(counted) / per_unit),
        per_unit=per_unit,
        counted=counted,
    )


def extended_by(request: ApprovalRequest, amount: int) -> JsonObject:
    """Return the arguments of a request that extends its budget by an amount."""
    return _fields(request.arguments) | {"extend_by": amount}


def _shown(amount: Decimal) -> str:
    if amount == amount.to_integral_value():
        return f"{amount:.0f}"
    cents = f"{amount:.2f}"
    return cents if Decimal(cents) == amount else f"{amount.normalize():f}"


def _fields(text: str) -> JsonObject:
    try:
        found: Json = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("JsonObject", found) if isinstance(found, dict) else {}
