"""The run's context: who the desk is talking to, and which orders they may see.

Owns: `Customer`, plain data that travels with the run. Must not know: tools or agents.
"""

from typing import Any

from pydantic import BaseModel, Field

from outlast import RunContextWrapper
from support_desk import settings
from support_desk.errors import UnknownOrderError
from support_desk.records import Order
from support_desk.shop import Shop


class Customer(BaseModel):
    """The customer of one conversation.

    An application that knows who is signed in starts the run with `customer_id` set; the desk
    then shows that customer's orders only. Without it the customer is known by the first order
    number they give, and kept to that customer's orders from there on.

    Tools and handoffs write here. What they change is merged field by field, in the order of the
    calls, so two parallel calls should not append to one list.

    Attributes:
        customer_id: the shop's number of the customer; None as long as it is not known.
        name: how to address them.
        notes: what the team should know about them, for the model to read.
        last_order: the order that was talked about last.
        handled_by: the agents that had the conversation before the present one, oldest first.
    """

    customer_id: str | None = None
    name: str | None = None
    notes: str = ""
    last_order: str | None = None
    handled_by: list[str] = Field(default_factory=list[str])


def customer_of(ctx: RunContextWrapper[Any]) -> Customer:
    """Return the customer of a run; one that was started without a context gets a new one."""
    if not isinstance(ctx.context, Customer):
        ctx.context = Customer.model_validate(ctx.context or {})
    return ctx.context


def order_for(ctx: RunContextWrapper[Any], order_id: str) -> Order:
    """Return an order if this customer may see it; another customer's does not exist for them."""
    order = Shop.open(settings.database_path()).look_up_order(order_id)
    if customer_of(ctx).customer_id not in (None, order.customer_id):
        raise UnknownOrderError(order.id)
    return order
