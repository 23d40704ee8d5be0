"""What the shop speaks of: orders, invoices, and the receipts of what it did.

Owns: the records; amounts are integer cents, dates are ISO 8601 text. Must not know: how they
are stored.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

OrderStatus: TypeAlias = Literal["placed", "packed", "shipped", "delivered"]
Effect: TypeAlias = Literal["address_change", "pickup", "refund", "ticket"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderLine:
    """One article of an order."""

    article: str
    quantity: int
    unit_price_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An order as it stands, with what was paid for it and paid back."""

    id: str
    customer_id: str
    customer_name: str
    status: OrderStatus
    address: str
    ordered_on: str
    lines: tuple[OrderLine, ...]
    paid_cents: int
    refunded_cents: int

    @property
    def total_cents(self) -> int:
        """The price of all lines."""
        return sum(line.quantity * line.unit_price_cents for line in self.lines)

    @property
    def refundable_cents(self) -> int:
        """What was paid and has not been paid back."""
        return self.paid_cents - self.refunded_cents

    @property
    def has_left(self) -> bool:
        """Whether the parcel is out of the house, so that its address is final."""
        return self.status in ("shipped", "delivered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoice:
    """The invoice of an order."""

    id: str
    order_id: str
    issued_on: str
    total_cents: int
    paid_cents: int
    refunded_cents: int

    @property
    def due_cents(self) -> int:
        """What is still to be paid."""
        return self.total_cents - self.paid_cents


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressChange:
    """Receipt of a changed delivery address."""

    order_id: str
    old_address: str
    new_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """Receipt of a booked courier; `report_to` is where the courier reports the pickup."""

    id: str
    order_id: str
    address: str
    report_to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refund:
    """Receipt of a refund; `refunded_cents` is what the order has been refunded with it."""

    id: str
    order_id: str
    amount_cents: int
    refunded_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A question in the queue of the people behind the desk."""

    id: str
    customer_id: str | None
    question: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One side effect: under which key, what was asked for, and what came of it.

    Attributes:
        number: counts up from 1 in the order in which the effects were committed.
        key: the idempotency key.
        arguments: what was asked for.
        result: the receipt, as every call with this key is given it.
        recorded_at: when, in UTC, by the clock of the machine that committed it.
    """

    number: int
    key: str
    effect: Effect
    arguments: dict[str, Any]
    result: dict[str, Any]
    recorded_at: str
