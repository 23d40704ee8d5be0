"""Amounts of budgets in the units that people think in: dollars, minutes, tokens, calls."""

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, cast

from outlast.agents.errors import UserError
from outlast.agents.json_values import as_object
from outlast.client.people.actions import decision_of
from outlast.deliveries.problems import Refused
from outlast.views.records import ApprovalRequest, Decision, JsonObject, Person
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


def amount_of(request: ApprovalRequest, text: str) -> int | None:
    """Return by how much somebody wants to extend a budget; None for what its request names.

    Raises:
        Refused: the request names no amount of a budget.
        UserError: the text is no amount of this budget.
    """
    if (extension := extension_of(request)) is None:
        raise _no_budget(request)
    amount = extension.read(text)
    return None if amount == extension.counted else amount


def _no_budget(request: ApprovalRequest) -> Refused:
    return Refused(400, "no_budget", f"The request {request.id} is not about a budget.")


def extended(request: ApprovalRequest, person: Person, amount: int | None) -> Decision:
    """Return the decision that extends a budget.

    Args:
        request: the request.
        person: who decides.
        amount: by how much, as the run counts it; None for what the request names.

    Raises:
        Refused: the request is not about a budget.
    """
    if request.kind != "budget":
        raise _no_budget(request)
    if amount is None:
        return decision_of(request, "approve", by=person, channel="desk")
    arguments = _fields(request.arguments) | {"extend_by": amount}
    return decision_of(request, "edit", by=person, channel="desk", edited_arguments=arguments)


def _shown(amount: Decimal) -> str:
    if amount == amount.to_integral_value():
        return f"{amount:.0f}"
    cents = f"{amount:.2f}"
    return cents if Decimal(cents) == amount else f"{amount.normalize():f}"


def _fields(text: str) -> JsonObject:
    try:
        return as_object(json.loads(text)) or {}
    except (ValueError, RecursionError):
        return {}
