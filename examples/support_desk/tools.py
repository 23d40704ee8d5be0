"""What the agents can do, as tools: the bridge between a model's words and the shop.

Owns: the words a model reads and writes, and what each call changes (`effect`). Must not know:
SQL, where a tool runs, or who decides.

Every tool with a side effect hands the call's idempotency key to the shop. So when a worker dies
in the middle of a call, whether before or after the commit, the next attempt does what is left.

A tool answers with JSON; amounts are in euros. A `ShopError` is the shop's final word, so it is
answered too, as `{"error": "..."}`. Anything else that is raised (a locked database, a full disk)
may pass, and is left to the retries.
"""

import functools
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Concatenate, ParamSpec, TypeAlias

from pydantic import BaseModel

from outlast import ToolContext, Wait, function_tool
from support_desk import policies, settings
from support_desk.context import Customer, customer_of, order_for
from support_desk.errors import AboveLimitError, ShopError
from support_desk.money import to_cents
from support_desk.records import Order
from support_desk.shop import Shop

P = ParamSpec("P")
Answer: TypeAlias = dict[str, str | float | list[str]]
Tool: TypeAlias = Callable[Concatenate[ToolContext[Customer], P], Answer | Wait[Any]]

COURIER_TIMEOUT = timedelta(days=2)


class Pickup(BaseModel):
    """A courier's report, which its webhook brings, that it has collected a parcel."""

    parcel: str
    weight_kg: float
    collected_at: str


def answers_refusals(tool: Tool[P]) -> Tool[P]:
    """Make a tool answer what the shop refuses, instead of raising it: a retry would not help."""

    @functools.wraps(tool)
    def answer(
        ctx: ToolContext[Customer], /, *args: P.args, **kwargs: P.kwargs
    ) -> Answer | Wait[Any]:
        try:
            return tool(ctx, *args, **kwargs)
        except ShopError as refusal:
            return {"error": str(refusal)}

    return answer


@function_tool(effect="read", fast=True)
@answers_refusals
def look_up_order(ctx: ToolContext[Customer], order_id: str) -> Answer:
    """Look up an order: its status, articles, delivery address, and what was paid and refunded.

    Args:
        order_id: The order number, such as A-17.
    """
    order = order_for(ctx, order_id)
    _remember(ctx, order)
    return {
        "order_id": order.id,
        "status": order.status,
        "customer": order.customer_name,
        "ordered_on": order.ordered_on,
        "articles": [f"{line.quantity} x {line.article}" for line in order.lines],
        "address": order.address,
        "total_eur": order.total_cents / 100,
        "paid_eur": order.paid_cents / 100,
        "refunded_eur": order.refunded_cents / 100,
    }


@function_tool(effect="read", fast=True)
@answers_refusals
def look_up_invoice(ctx: ToolContext[Customer], order_id: str) -> Answer:
    """Look up the invoice of an order: its number, date, total, and what is still due.

    Args:
        order_id: The order number, such as A-17.
    """
    order = order_for(ctx, order_id)
    _remember(ctx, order)
    invoice = _shop().look_up_invoice(order.id)
    return {
        "invoice_id": invoice.id,
        "order_id": invoice.order_id,
        "issued_on": invoice.issued_on,
        "total_eur": invoice.total_cents / 100,
        "paid_eur": invoice.paid_cents / 100,
        "due_eur": invoice.due_cents / 100,
        "refunded_eur": invoice.refunded_cents / 100,
    }


@function_tool(effect="reversible")
@answers_refusals
def change_address(ctx: ToolContext[Customer], order_id: str, new_address: str) -> Answer:
    """Change where an order is delivered. Possible until the parcel is shipped.

    Args:
        order_id: The order number, such as A-17.
        new_address: The whole new address, in one line: name, street, postcode and city.
    """
    order = order_for(ctx, order_id)
    _remember(ctx, order)
    _half_the_delay()
    change = _shop().change_address(order.id, new_address, key=ctx.idempotency_key)
    _half_the_delay()
    return {"order_id": change.order_id, "new_address": change.new_address}


@function_tool(effect="reversible")
@answers_refusals
def send_courier(ctx: ToolContext[Customer], order_id: str) -> Wait[Pickup]:
    """Have a courier collect a delivered order from the customer. Returns the courier's report.

    Args:
        order_id: The order number, such as A-17.
    """
    order = order_for(ctx, order_id)
    _remember(ctx, order)
    _shop().book_pickup(order.id, ctx.wait_token("courier"), key=ctx.idempotency_key)
    # Nothing runs until the report is there: it takes the place of what this tool returns.
    return ctx.wait_for("courier", timeout=COURIER_TIMEOUT, schema=Pickup)


@function_tool(effect="irreversible", needs_approval=policies.refund)
@answers_refusals
def refund_order(ctx: ToolContext[Customer], order_id: str, amount: float, reason: str) -> Answer:
    """Refund an order, in whole or in part. A colleague has to approve larger refunds.

    Args:
        order_id: The order number, such as A-17.
        amount: How much to refund, in euros.
        reason: Why, in the customer's words.
    """
    limit_cents = settings.large_refund_cents()
    try:
        return _refund(ctx, order_id, amount, reason, limit_cents=limit_cents)
    except AboveLimitError as refusal:
        return {"error": f"{refusal} Use refund_large_order: two colleagues decide about it."}


@function_tool(effect="irreversible", needs_approval=policies.large_refund)
@answers_refusals
def refund_large_order(
    ctx: ToolContext[Customer], order_id: str, amount: float, reason: str
) -> Answer:
    """Make a refund that is too large for refund_order. Two colleagues have to approve it.

    Args:
        order_id: The order number, such as A-17.
        amount: How much to refund, in euros.
        reason: Why, in the customer's words.
    """
    return _refund(ctx, order_id, amount, reason, limit_cents=None)


@function_tool(effect="reversible", needs_approval=policies.human_wanted)
@answers_refusals
def ask_human(ctx: ToolContext[Customer], question: str) -> Answer:
    """Get a human colleague into this conversation, when the customer wants one or you cannot help.

    Args:
        question: What the colleague should answer or do, with the order number if there is one.
    """
    customer_id = customer_of(ctx).customer_id
    ticket = _shop().open_ticket(question, key=ctx.idempotency_key, customer_id=customer_id)
    return {"ticket_id": ticket.id, "answer": "a colleague takes over this conversation"}


def _refund(
    ctx: ToolContext[Customer],
    order_id: str,
    amount: float,
    reason: str,
    *,
    limit_cents: int | None,
) -> Answer:
    """Pay money back; the shop checks the limit, also for an amount that a person has edited."""
    order = order_for(ctx, order_id)
    _remember(ctx, order)
    _half_the_delay()
    refund = _shop().refund(
        order.id, to_cents(amount), reason, key=ctx.idempotency_key, limit_cents=limit_cents
    )
    _half_the_delay()
    return {
        "refund_id": refund.id,
        "order_id": refund.order_id,
        "amount_eur": refund.amount_cents / 100,
        "refunded_in_all_eur": refund.refunded_cents / 100,
        "arrives": "within five working days",
    }


def _shop() -> Shop:
    return Shop.open(settings.database_path())


def _remember(ctx: ToolContext[Customer], order: Order) -> None:
    """Note in the context whose order it is and that it is being talked about."""
    customer = customer_of(ctx)
    customer.customer_id = order.customer_id
    customer.name = customer.name or order.customer_name
    customer.last_order = order.id


def _half_the_delay() -> None:
    """Wait, on either side of a commit, so that a worker can be killed on either side of it."""
    time.sleep(settings.tool_delay().total_seconds() / 2)
