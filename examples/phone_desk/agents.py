"""The desk on the phone: two realtime agents with the tools of the support desk.

Owns: the instructions, tools and handoffs of each agent. Must not know: how the tools do it.
"""

from support_desk.context import Customer
from support_desk.tools import ask_human, look_up_invoice, look_up_order, refund_order

from outlast.realtime import RealtimeAgent, realtime_handoff

_EVERYONE = (
    "You answer the phone of a shop for kitchen things. Speak the caller's language, friendly, in "
    "one or two short sentences. Say only what a tool has told you; never guess about an order, a "
    "price or a refund. Read order numbers out one by one."
)

reception = RealtimeAgent[Customer](
    "Reception",
    handoff_description="Takes each call, and knows where orders are.",
    instructions=f"{_EVERYONE}\n\nUse look_up_order for where an order is. Hand invoices, payments "
    "and refunds over to Billing, without announcing it.",
    tools=[look_up_order, ask_human],
)

billing = RealtimeAgent[Customer](
    "Billing",
    handoff_description="Knows invoices and payments, and makes refunds.",
    instructions=f"{_EVERYONE}\n\nUse look_up_invoice for what was billed, and refund_order once "
    "you know the order, the amount and the reason. If a colleague has to approve, say so and offer to write.",
    tools=[look_up_order, look_up_invoice, refund_order, ask_human],
)

reception.handoffs = [realtime_handoff(billing)]
billing.handoffs = [realtime_handoff(reception)]
