"""The desk: three agents that hand the conversation to each other, in both directions.

Owns: what each agent is told and may do. Must not know: how the tools do it.
"""

from typing import Any

from outlast import Agent, Handoff, Instructions, ModelSettings, RunContextWrapper, handoff
from support_desk.context import Customer, customer_of
from support_desk.tools import (
    ask_human,
    change_address,
    look_up_invoice,
    look_up_order,
    refund_large_order,
    refund_order,
    send_courier,
)

_EVERYONE = (
    "You work at the support desk of a shop for kitchen things. Answer in the customer's language, "
    "friendly, in one to three sentences. Say only what a tool has told you; never guess about an "
    "order, a price or a refund. If an order number is missing, ask for it. What is another "
    "agent's work, hand over at once and without announcing it. If the customer wants a human, use "
    "ask_human; if nobody was free in time, say so, and offer to try again."
)

_TRIAGE = (
    "You take each conversation first. Find out what it is about. Hand questions about an order, "
    "its delivery, its address or its collection by a courier to Orders, and questions about an "
    "invoice, a payment or a refund to Billing. If it is neither, use ask_human."
)

_ORDERS = (
    "You look after orders and their delivery. Use look_up_order for where an order is, and "
    "change_address once the customer has given the whole new address. If a delivered order is to "
    "go back, use send_courier: its result comes when the courier was there, or after two days "
    "without a report. In that case say that the courier has not reported, and offer a human. "
    "Invoices, payments and refunds belong to Billing, everything else to Triage."
)

_BILLING = (
    "You look after invoices, payments and refunds. Use look_up_invoice for what was billed and "
    "paid, and refund_order once you know the order, the amount and the reason. Colleagues decide "
    "about larger refunds. If one has changed the amount, tell the customer what was paid; if one "
    "has turned the refund down, tell the customer why, and do not try again. If nobody decided in "
    "time, say that nothing has been paid yet, and offer a human. Delivery, addresses and couriers "
    "belong to Orders, everything else to Triage."
)


def _told(work: str) -> Instructions:
    """Make what an agent is told before each model call: its work, and what is known by now."""

    def instructions(ctx: RunContextWrapper[Any], _agent: Agent[Any]) -> str:
        customer = customer_of(ctx)
        known: list[str] = []
        if customer.name:
            known.append(f"The customer's name is {customer.name}.")
        if customer.last_order:
            known.append(f"The order talked about last is {customer.last_order}.")
        if customer.handled_by:
            names = ", ".join(dict.fromkeys(customer.handled_by))
            known.append(f"Until now the customer has talked to {names}.")
        if customer.notes:
            known.append(customer.notes)
        return "\n\n".join(filter(None, [_EVERYONE, work, " ".join(known)]))

    return instructions


def _hand_over(source: Agent[Customer], target: Agent[Customer]) -> Handoff:
    """Make a handoff that notes in the context who had the conversation until then."""

    def note(ctx: RunContextWrapper[Customer]) -> None:
        customer_of(ctx).handled_by.append(source.name)

    return handoff(target, on_handoff=note)


triage = Agent[Customer](
    name="Triage",
    handoff_description="Takes what belongs to no other agent, and finds out what it is about.",
    instructions=_told(_TRIAGE),
    tools=[ask_human],
)

orders = Agent[Customer](
    name="Orders",
    handoff_description="Knows where orders are, changes delivery addresses, and sends couriers.",
    instructions=_told(_ORDERS),
    tools=[look_up_order, change_address, send_courier, ask_human],
)

billing = Agent[Customer](
    name="Billing",
    handoff_description="Knows invoices and payments, and makes refunds.",
    instructions=_told(_BILLING),
    tools=[look_up_order, look_up_invoice, refund_order, refund_large_order, ask_human],
    # One call a reply: two refunds in one reply would each be measured against the limit alone.
    model_settings=ModelSettings(parallel_tool_calls=False),
)

triage.handoffs = [_hand_over(triage, orders), _hand_over(triage, billing)]
orders.handoffs = [_hand_over(orders, billing), _hand_over(orders, triage)]
billing.handoffs = [_hand_over(billing, orders), _hand_over(billing, triage)]

agents = [triage]
"""Where a worker starts to look: it finds the others by their handoffs."""
