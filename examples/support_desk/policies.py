"""Where people decide: refunds, calls for a human, takeovers and budgets.

Owns: who decides, how many of them, and until when. Must not know: how a call runs.
"""

from datetime import timedelta
from typing import Any

from outlast import ApprovalPolicy, Audience, Budget, Escalation, RunConfig, RunContextWrapper
from support_desk import settings
from support_desk.context import order_for
from support_desk.errors import ShopError
from support_desk.money import to_cents
from support_desk.shop import check_refund

BILLING = Audience(groups=["billing"], subjects=settings.people("billing"), exclude_requester=True)
LEADS = Audience(groups=["leads"], subjects=settings.people("leads"))


def is_above_limit(ctx: RunContextWrapper[Any], arguments: dict[str, Any], _call_id: str) -> bool:
    """Tell whether a person decides: when the order's refunds would come to more than the limit.

    What was refunded before counts, so that a large refund cannot be had in small pieces. A
    refund that the desk refuses anyway needs nobody; the tool then tells the model why.
    """
    try:
        order = order_for(ctx, arguments["order_id"])
        # float(): a model may write 389 or "389", and the tool is then given 389.0.
        amount_cents = check_refund(order, to_cents(float(arguments["amount"])))
    except ShopError:
        return False
    total_cents = order.refunded_cents + amount_cents
    return settings.refund_limit_cents() < total_cents <= settings.large_refund_cents()


REFUND = "Refund {amount} EUR for order {order_id}"

refund = ApprovalPolicy(
    headline=REFUND,
    when=is_above_limit,
    reason="The refunds of this order come to more than the agents may pay by themselves.",
    risk="medium",
    audience=BILLING,
    remind_every=timedelta(hours=1),
    escalate=[Escalation(after=timedelta(hours=4), to=LEADS)],
    expires_in=timedelta(hours=24),  # the call is then rejected, and the model tells the customer
)

large_refund = ApprovalPolicy(
    headline=REFUND,
    reason="A refund of this size needs two people.",
    risk="high",
    audience=BILLING,
    quorum=2,
    remind_every=timedelta(hours=1),
    escalate=[Escalation(after=timedelta(hours=4), to=LEADS)],
    expires_in=timedelta(hours=48),
)

human_wanted = ApprovalPolicy(
    headline="Talk to the customer: {question}",
    reason="The customer wants a human: take the conversation over.",
    risk="medium",
    audience=LEADS,
    takeover=True,  # who approves is there: the customer never hears of a colleague who is not
    remind_every=timedelta(minutes=5),
    expires_in=timedelta(minutes=30),  # nobody is free: the model reads that, and says so
)


def run_config() -> RunConfig:
    """Return the settings of a conversation."""
    leads = ApprovalPolicy(audience=LEADS, risk="medium")
    return RunConfig(takeover=leads, budgets=[Budget(tokens=settings.tokens(), ask=leads)])
