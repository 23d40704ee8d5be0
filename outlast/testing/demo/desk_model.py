"""A stand-in for a model at the example's support desk, made of a few rules.

It answers the demo's customer, and your own simple sentences: one request at a time, in English,
with an order number. For anything else, use a real model (OPENAI_API_KEY).

    python -m outlast.testing.demo.desk_model --port 8088
"""

import argparse
import json
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from outlast.agents.errors import ServerUnavailable, UserError
from outlast.agents.json_values import as_object
from outlast.loop.phrases import EXPIRED
from outlast.loop.values import JsonObject
from outlast.testing.demo.responses_server import (
    LOOPBACK,
    InvalidRequest,
    ResponsesServer,
    function_call,
    message,
)

HELP = (
    "I am the demo's scripted stand-in for a model. Ask me where an order is, such as A-17, or for "
    "an invoice, a refund, a new address, a courier, or a human."
)

_ORDER = re.compile(r"\b[A-Z]-\d+\b", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:\bto\b|\bis\b|:)\s+(?P<address>.*\d.*)", re.IGNORECASE | re.DOTALL)
_AFTER_ADDRESS = re.compile(r"[\s,]*(?:\b(?:instead|please|now)\b)?[\s.!,]*$", re.IGNORECASE)
_AMOUNT = re.compile(r"(\d+(?:\.\d{1,2})?)\s*(?:EUR\b|€|euros?\b)", re.IGNORECASE)

# What outlast lets a model read about people, as `outlast.loop.phrases` writes it.
_EDITED = re.compile(
    r"A person changed the arguments .*? before it ran\. .*?Its output:\n", re.DOTALL
)
_RELEASED = re.compile(r"(?P<by>.+?) of the team has .*? back to you: (?P<note>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of customer request."""

    words: re.Pattern[str]
    tool: str
    handoff: str | None


def _rule(words: str, tool: str, handoff: str | None) -> Rule:
    return Rule(words=re.compile(rf"\b(?:{words})", re.IGNORECASE), tool=tool, handoff=handoff)


RULES = (
    _rule(r"human|(?:a|real) person|manager|somebody", "ask_human", None),
    _rule(r"refund|money back|reimburse|return\b", "refund_order", "transfer_to_billing"),
    _rule(r"courier|collect|pick(?:ed)? ?up", "send_courier", "transfer_to_orders"),
    _rule(r"invoice|receipt|bill\b", "look_up_invoice", "transfer_to_billing"),
    _rule(r"address|(?:send|deliver|ship)\b.*\bto\b", "change_address", "transfer_to_orders"),
    _rule(r"where|when|status|track|order", "look_up_order", "transfer_to_orders"),
)
"""The rules, in order of precedence."""


@dataclass(slots=True)
class Talk:
    """The parts of the conversation that the rules use.

    Attributes:
        text: the customer's messages since the last answer; if that answer was a question,
            the request before it as well.
        newest: the customer's messages since the last answer.
        note: what a person has told the model since then, when giving the conversation back.
        orders: the order numbers that the customer has named, oldest first.
        outputs: the outputs of the calls since the last answer, by tool.
    """

    text: str = ""
    newest: str = ""
    note: str = ""
    orders: list[str] = field(default_factory=list[str])
    outputs: dict[str, str] = field(default_factory=dict[str, str])


def answer(body: JsonObject) -> list[JsonObject]:
    """Return the desk's next output items: one tool call, one handoff, or a message."""
    talk = read(body.get("input"))
    rule = next((one for one in RULES if one.words.search(talk.text)), None)
    if rule is None:
        return [message(talk.note or HELP)]
    tool = _next_tool(rule, talk)
    if (output := talk.outputs.get(tool)) is not None:
        return [message(report(tool, output))]
    arguments, question = _arguments(tool, talk)
    if question:
        return [message(question)]
    offered = [tool.get("name") for tool in cast("list[JsonObject]", body.get("tools") or [])]
    if tool in offered:
        return [function_call(tool, arguments)]
    if rule.handoff and rule.handoff in offered and rule.handoff not in talk.outputs:
        return [function_call(rule.handoff, {})]
    return [message("I am sorry, I cannot do that here.")]


def read(sent: Any) -> Talk:
    """Extract the parts of a request's `input` that the rules use."""
    items: list[JsonObject] = (
        [{"role": "user", "content": sent}] if isinstance(sent, str) else list(sent or [])
    )
    talk, names = Talk(), dict[str, str]()
    open_calls: set[str] = set()
    for item in items:
        call_id = str(item.get("call_id"))
        if item.get("type") == "function_call":
            names[call_id] = str(item["name"])
            open_calls.add(call_id)
        elif item.get("type") == "function_call_output":
            if call_id not in names:
                raise InvalidRequest(f"No tool call found for function call output {call_id}.")
            open_calls.discard(call_id)
            talk.outputs[names[call_id]] = _text(item.get("output"))
        elif item.get("role") == "assistant":
            asks_back = _text(item.get("content")).endswith("?") and "ask_human" not in talk.outputs
            talk.newest, talk.note, talk.outputs = "", "", {}
            talk.text = talk.text if asks_back else ""
        elif item.get("role") == "developer":
            talk.note = _note(_text(item.get("content")))
            talk.text = talk.newest  # a person has dealt with what was before
        elif item.get("role") == "user":
            text = _text(item.get("content"))
            talk.newest = f"{talk.newest} {text}".strip()
            talk.text = f"{talk.text} {text}".strip()
            talk.orders += [order.upper() for order in _ORDER.findall(text)]
    if open_calls:
        raise InvalidRequest(f"No tool output found for function call {min(open_calls)}.")
    return talk


def report(tool: str, output: str) -> str:
    """Return the customer's message about a tool's output, in the output's own words."""
    values = answer_of(output)
    if values is None:
        return NOT_DECIDED[tool] if output == EXPIRED else f"I am sorry, it was not done. {output}"
    if "error" in values:
        return f"I am sorry. {values['error']}"
    edited = ", the amount that a colleague has set" if _EDITED.match(output) else ""
    return _REPORTS[tool].format_map(_Values(values, edited=edited))


def answer_of(output: str) -> JsonObject | None:
    """Return a tool's answer, also where a person has edited the call; None for another text."""
    try:
        return as_object(json.loads(_EDITED.sub("", output, count=1)))
    except ValueError:
        return None


def _note(text: str) -> str:
    found = _RELEASED.fullmatch(text)
    return f"{found['by']} has told me: {found['note']}" if found else ""


class _Values(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


_REPORTS: Mapping[str, str] = {
    "look_up_order": "Order {order_id} is {status}. It was ordered on {ordered_on}.",
    "look_up_invoice": "Invoice {invoice_id} for order {order_id} is over {total_eur} EUR; "
    "{due_eur} EUR are due.",
    "change_address": "Order {order_id} now goes to {new_address}.",
    "send_courier": "The courier has collected parcel {parcel}, {weight_kg} kg, at {collected_at}.",
    "refund_order": "I have refunded {amount_eur:.2f} EUR for order {order_id}{edited}. The money "
    "arrives {arrives}.",
    "refund_large_order": "I have refunded {amount_eur:.2f} EUR for order {order_id}{edited}. The "
    "money arrives {arrives}.",
    "ask_human": "I have opened ticket {ticket_id}: {answer}.",
}

NOT_DECIDED: Mapping[str, str] = {
    "refund_order": "I am sorry: no colleague could decide about your refund yet, so nothing has "
    "been paid. Would you like to talk to a human?",
    "refund_large_order": "I am sorry: a refund of this size needs two colleagues, who could not "
    "decide yet, so nothing has been paid. Would you like to talk to a human?",
    "ask_human": "I am sorry, no colleague is free at the moment. Please ask again later.",
}
"""What the customer is told when nobody decided in time, by tool."""


def _next_tool(rule: Rule, talk: Talk) -> str:
    """Return the tool for a request: a refund needs the invoice first, and may be a large one."""
    if rule.tool != "refund_order":
        return rule.tool
    if "refund_large_order" in talk.outputs.get("refund_order", ""):
        return "refund_large_order"
    invoice = talk.outputs.get("look_up_invoice")
    knows_amount = _AMOUNT.search(talk.text) or (invoice and "error" not in invoice)
    return "refund_order" if knows_amount or not talk.orders else "look_up_invoice"


def _arguments(tool: str, talk: Talk) -> tuple[JsonObject, str]:
    if tool == "ask_human":
        return {"question": talk.text}, ""
    if not talk.orders:
        return {}, "Which order is it? Its number looks like A-17. Can you tell me?"
    order = talk.orders[-1]
    if tool == "change_address":
        address = _address(talk)
        arguments: JsonObject = {"order_id": order, "new_address": address}
        return arguments, "" if address else "What is the new address?"
    if tool in {"refund_order", "refund_large_order"}:
        return {"order_id": order, "amount": _amount(talk), "reason": talk.text}, ""
    return {"order_id": order}, ""


def _amount(talk: Talk) -> float:
    if named := _AMOUNT.search(talk.text):
        return float(named.group(1))
    invoice = answer_of(talk.outputs["look_up_invoice"]) or {}
    return round(invoice["paid_eur"] - invoice["refunded_eur"], 2)


def _address(talk: Talk) -> str | None:
    for text, is_reply in ((talk.text, False), (talk.newest, talk.newest != talk.text)):
        words = " ".join(_ORDER.sub("", text).split())
        found = _ADDRESS.search(words)
        address = found.group("address") if found else words if is_reply else ""
        address = _AFTER_ADDRESS.sub("", address).strip()
        if re.search(r"\d", address) and len(address.split()) > 1:
            return address
    return None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = cast("Sequence[JsonObject]", content or [])
    return " ".join(str(part.get("text") or "") for part in parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scripted model server until a signal; print its base URL first."""
    parser = argparse.ArgumentParser(
        prog="python -m outlast.testing.demo.desk_model",
        description="A scripted stand-in for a model at the support desk of the examples.",
    )
    parser.add_argument("--host", default=LOOPBACK, help=f"default: {LOOPBACK}")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    options = parser.parse_args(arguments)
    try:
        server = ResponsesServer(answer, host=options.host, port=options.port)
    except (ServerUnavailable, UserError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    with server, suppress(KeyboardInterrupt):
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
