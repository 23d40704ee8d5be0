"""A provider for calls without a key: a scripted realtime server on this machine.

It is no model. It says what the script has, whatever the caller says.
"""

from outlast.testing import ScriptedModel, ScriptedRealtimeServer, call

WORDS = "My espresso machine, order A-42, leaks. I want my money back."


def provider() -> ScriptedRealtimeServer:
    """Return the server: it hears `WORDS` in any sound, and follows the story of the README."""
    return ScriptedRealtimeServer(
        [call("transfer_to_billing", "call_1")],
        [call("refund_order", "call_2", order_id="A-42", amount=389, reason="It leaks.")],
        "A colleague has to approve that. I will write to you as soon as it is decided.",
        heard=[WORDS],
    )


def writer() -> ScriptedModel:
    """Return the model that answers in text after the call."""
    return ScriptedModel("Your refund of 389 EUR is approved and on its way.")
