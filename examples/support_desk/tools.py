"""What the agents can do, as tools: the bridge between a model's words and the shop.

Owns: the words a model reads and writes, which customer may see which order, and which refunds
need a person. Must not know: SQL, or where a tool runs.

Every tool with a side effect hands the call's idempotency key to the shop. So when a worker dies
in the middle of a call, whether before or after the commit, the next attempt does what is left.

A tool answers with JSON; amounts are in euros. A `ShopError` is the shop's final word, so it is
answered too, as `{"error": "..."}`. Anything else that is raised (a locked database, a full disk)
may pass, and is left to the retries.
"""

import functools
import time
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeAlias

from outlast import RunContextWrapper, ToolContext, function_tool
from support_desk import settings
from support_desk.context import Customer, customer_of
from support_desk.errors import ShopError, UnknownOrderError
from support_desk.money import to_cents
from support_desk.records import Order
from support_desk.shop import Shop, check_refund

P = ParamSpec("P")
Answer: TypeAlias = dict[str, str | float | list[str]]
Tool: TypeAlias = Callable[Concatenate[ToolContext[Customer], P], Answer]


def answers_refusals(tool: Tool[P]) -> Tool[P]:
    """Make a tool answer what the shop refuses, instead of raising it: a retry would not help."""

    @functools.wraps(tool)
    def answer(ctx: ToolContext[Customer], /, *args: P.args, **kwargs: P.kwargs) -> Answer:
        try:
            return tool(ctx, *args, **kwargs)
        except ShopError as refusal:
            return {"error": str(refusal)}

    return answer


@function_tool(fast=True)
@answers_refusals
def look_up_order(ctx: ToolContext[Customer], order_id: str) -> Answer:
    """Look up an order: its status, articles, delivery address, and what was paid and refunded.

    Args:
        order_id: The order number, such as A-17.
    """
    order = _order_for(ctx, order_id)
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


@function_tool(fast=True)
@answers_refusals
def look_up_invoice(ctx: ToolContext[Customer], order_id: str) -> Answer:
    """Look up the invoice of an order: its number, date, total, and what is still due.

    Args:
        order_id: The order number, such as A-17.
    """
    order = _order_for(ctx, order_id)
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


@function_tool
@answers_refusals
def change_address(ctx: ToolContext[Customer], order_id: str, new_address: str) -> Answer:
    """Change where an order is delivered. Possible until the parcel is shipped.

    Args:
        order_id: The order number, such as A-17.
        new_address: The whole new address, in one line: name, street, postcode and city.
    """
    order = _order_for(ctx, order_id)
    _remember(ctx, order)
    _half_the_delay()
    change = _shop().change_address(order.id, new_address, key=ctx.idempotency_key)
    _half_the_delay()
    return {"order_id": change.order_id, "new_address": change.new_address}


def refund_needs_approval(
    ctx: RunContextWrapper[Customer], arguments: dict[str, Any], _call_id: str
) -> bool:
    """Tell whether a person decides: when the order's refunds would come to more than the limit.

    What was refunded before counts, so that a large refund cannot be had in small pieces. A
    refund that the shop refuses anyway needs nobody; the tool then tells the model why.
    """
    amount = arguments.get("amount")
    try:
        order = _order_for(ctx, arguments["order_id"])
        # float(): a model may write 389 or "389", and the tool is then given 389.0.
        amount_cents = check_refund(order, _cents(None if amount is None else float(amount)))
    except ShopError:
        return False
    return order.refunded_cents + amount_cents > settings.refund_limit_cents()


@function_tool(needs_approval=refund_needs_approval)
@answers_refusals
def refund_order(
    ctx: ToolContext[Customer], order_id: str, reason: str, amount: float | None = None
) -> Answer:
    """Refund an order, in whole or in part. Large refunds wait until a colleague has approved.

    Args:
        order_id: The order number, such as A-17.
        reason: Why, in the customer's words.
        amount: How much to refund, in euros; null refunds everything that was paid.
    """
    order = _order_for(ctx, order_id)
    _remember(ctx, order)
    _half_the_delay()
    refund = _shop().refund(order.id, _cents(amount), reason, key=ctx.idempotency_key)
    _half_the_delay()
    return {
        "refund_id": refund.id,
        "order_id": refund.order_id,
        "amount_eur": refund.amount_cents / 100,
        "refunded_in_all_eur": refund.refunded_cents / 100,
        "arrives": "within five working days",
    }


@function_tool
@answers_refusals
def ask_human(ctx: ToolContext[Customer], question: str) -> Answer:
    """Put a question to the people behind the desk, when no tool and no other agent can help.

    Args:
        question: What a person should answer or do, with the order number if there is one.
    """
    customer_id = customer_of(ctx).customer_id
    ticket = _shop().open_ticket(question, key=ctx.idempotency_key, customer_id=customer_id)
    return {"ticket_id": ticket.id, "answer": "a colleague will reply in this conversation"}


def _shop() -> Shop:
    return Shop.open(settings.database_path())


def _order_for(ctx: RunContextWrapper[Customer], order_id: str) -> Order:
    """Return an order if this customer may see it; another customer's does not exist for them."""
    order = _shop().look_up_order(order_id)
    if customer_of(ctx).customer_id not in (None, order.customer_id):
        raise UnknownOrderError(order.id)
    return order


def _remember(ctx: ToolContext[Customer], order: Order) -> None:
    """Note in the context whose order it is and that it is being talked about."""
    customer = customer_of(ctx)
    customer.customer_id = order.customer_id
    customer.name = customer.name or order.customer_name
    customer.last_order = order.id


def _cents(amount: float | None) -> int | None:
    return None if amount is None else to_cents(amount)


def _half_the_delay() -> None:
    """Wait, on either side of a commit, so that a worker can be killed on either side of it."""
    time.sleep(settings.tool_delay().total_seconds() / 2)
