"""What the offline model says about a tool's output, in words that come from the output.

Owns: reading outputs, which are JSON or text, and English sentences about them. Must not know:
what is to be done next.
"""

import json
import re
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import cast

from outlast.dev.offline_language import Topic
from outlast.dev.offline_request import Call
from outlast.loop.values import Json, JsonObject

_MAX_FACTS = 8
_REJECTED = re.compile(
    r"\b(?:reject\w*|declin\w*|den(?:y|ied)|refus\w*|disapprov\w*|not (?:been )?(?:approved|allowed"
    r"|permitted))\b",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"\b(?:errors?|fail\w*|could ?n[o']t|cannot|can't|unable|not found|no such|unknown|invalid"
    r"|exception|timed out|does not exist|not possible)\b",
    re.IGNORECASE,
)
_FLAGS = ("ok", "success", "approved", "refunded", "changed", "found", "updated", "accepted")
_EXPLANATIONS = ("message", "reason", "error", "detail", "details", "explanation")
_HIDDEN = {"id", "order", "order_id", "order_number", "currency", "customer_id"}
_MONEY_WORDS = {"amount", "total", "price", "refund", "refunded", "balance", "limit", "fee", "cost"}
_COUNTS = {"count", "id", "items", "number", "quantity"}
_CURRENCIES = {"eur": "EUR", "usd": "USD", "gbp": "GBP"}

_DEEDS = {
    Topic.STATUS: "look up {what}",
    Topic.ADDRESS: "change the address of {what}",
    Topic.REFUND: "refund {what}",
    Topic.INVOICE: "get the invoice of {what}",
    Topic.CANCEL: "cancel {what}",
    Topic.HUMAN: "pass you on to a person",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A tool's output, read.

    Attributes:
        state: `done`, `rejected` or `failed`.
        text: the explanation of a failure, or the whole output if it is no JSON object.
        fields: the output as one flat JSON object.
    """

    state: str = "done"
    text: str = ""
    fields: JsonObject = field(default_factory=dict[str, Json])


def deed(topic: Topic, order: str | None) -> str:
    """Say what a topic asks for, as the end of a sentence such as `I cannot ...`."""
    return _DEEDS[topic].format(what=f"order {order}" if order else "your order")


def read_output(output: str, *, of_action: bool = True) -> Output:
    """Read a tool's output: JSON if it is JSON, text if not.

    Args:
        output: what the tool answered.
        of_action: whether a field `status` tells how the call went, not how an order is.
    """
    try:
        value: Json = json.loads(output)
    except ValueError:
        value = output
    if not isinstance(value, dict):
        text = value if isinstance(value, str) else _words(value)
        return Output(state=_state_of_text(text), text=text.strip())
    record = cast("JsonObject", value)
    fields = _flat(record)
    text = next((str(fields[k]) for k in _EXPLANATIONS if isinstance(fields.get(k), str)), "")
    status = str(fields.get("status", "")).replace("_", " ") if of_action else ""
    refused = any(fields.get(flag) is False for flag in _FLAGS) or bool(record.get("error"))
    if _REJECTED.search(status) or (refused and _REJECTED.search(text)):
        return Output(state="rejected", text=text or status, fields=fields)
    if refused or _FAILED.search(status):
        return Output(state="failed", text=text or status, fields=fields)
    return Output(text=text, fields=fields)


def report(topic: Topic | None, order: str | None, call: Call) -> str:
    """Tell the customer what came of one call."""
    output = read_output(call.output, of_action=topic is not Topic.STATUS)
    what = deed(topic, order) if topic else call.name.replace("_", " ")
    if output.state == "rejected":
        return _sentence(f"I am sorry, the request to {what} was rejected", output.text)
    if output.state == "failed":
        return _sentence(f"I am sorry, I could not {what}", output.text)
    if not output.fields:
        return _sentence(f"About the request to {what}", output.text)
    lead, used = _lead(topic, order, call, output.fields)
    return " ".join([f"{lead}.", *_facts(output.fields, {*_HIDDEN, *used})])


def money(fields: JsonObject, names: tuple[str, ...]) -> Decimal | None:
    """Return the first amount among these names, in whole units; `<name>_cents` counts as well."""
    for name in names:
        for key, value in fields.items():
            if _stem(key) == name and (amount := _decimal(value)) is not None:
                return amount / 100 if key.endswith("_cents") else amount
    return None


def _lead(
    topic: Topic | None, order: str | None, call: Call, fields: JsonObject
) -> tuple[str, set[str]]:
    """Return the main sentence and the fields it has used up."""
    what = f"order {order}" if order else "your order"
    status = str(fields.get("status") or fields.get("state") or "").replace("_", " ")
    used = {"status", "state"}
    if topic is Topic.STATUS:
        return (f"{what[0].upper()}{what[1:]} is {status}" if status else f"I found {what}"), used
    if topic is Topic.ADDRESS:
        new = _first_text(fields, "address") or _first_text(call.arguments, "address")
        used = {key for key in fields if "address" in key}
        return f"I have changed the address of {what}" + (f" to {new}" if new else ""), used
    if topic is Topic.REFUND:
        names = ("amount", "refunded", "refunded_amount", "refund_amount", "refund")
        amount = money(fields, names) or money(call.arguments, names)
        used = {key for key in fields if _stem(key) in names}
        if re.search(r"pending|process|wait", status):
            return f"The refund of {what} is {status}", {*used, "status", "state"}
        paid = f" {_format_money(amount, _currency(fields))} for" if amount else ""
        return f"I have refunded{paid} {what}", used
    if topic is Topic.CANCEL:
        return f"I have cancelled {what}", used
    if topic is Topic.HUMAN:
        return "I have passed your request on to a person", set()
    if topic is Topic.INVOICE:
        return f"Here is the invoice of {what}", set()
    return f"Done: {call.name.replace('_', ' ')}", set()


def _facts(fields: JsonObject, hidden: set[str]) -> list[str]:
    facts: list[str] = []
    for key, value in fields.items():
        if key in hidden or value in (None, "", []) or (key in _FLAGS and value is True):
            continue
        label = _stem(key).replace("_", " ")
        if _is_money(key) and (amount := _decimal(value)) is not None:
            amount = amount / 100 if key.endswith("_cents") else amount
            text = _format_money(amount, _currency(fields, key))
        else:
            text = _words(value)
        facts.append(f"{label[:1].upper()}{label[1:]}: {text.rstrip('.')}.")
    return facts[:_MAX_FACTS]


def _words(value: Json) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_words(part) for part in cast("list[Json]", value))
    if isinstance(value, dict):
        fields = cast("JsonObject", value)
        name = next((fields[k] for k in ("name", "title", "product", "item") if k in fields), None)
        count = next((fields[k] for k in ("quantity", "qty", "count") if k in fields), None)
        if name is not None:
            return f"{count} x {name}" if count is not None else str(name)
        return ", ".join(f"{key.replace('_', ' ')} {_words(part)}" for key, part in fields.items())
    return str(value)


def _flat(value: JsonObject) -> JsonObject:
    """Lift the fields of nested objects; an object's only field is unwrapped."""
    flat: JsonObject = {}
    for key, part in value.items():
        if isinstance(part, dict):
            nested = _flat(cast("JsonObject", part))
            flat.update(
                nested if len(value) == 1 else {f"{key}_{name}": v for name, v in nested.items()}
            )
        else:
            flat[key] = part
    return flat


def _state_of_text(text: str) -> str:
    if _REJECTED.search(text):
        return "rejected"
    return "failed" if _FAILED.search(text) else "done"


def _sentence(lead: str, text: str) -> str:
    text = text.strip().rstrip(".")
    return f"{lead}: {text}." if text else f"{lead}."


def _first_text(fields: JsonObject, word: str) -> str | None:
    return next((v for k, v in fields.items() if word in k and isinstance(v, str) and v), None)


def _stem(key: str) -> str:
    return re.sub(r"_(?:cents|eur|usd|gbp)$", "", key)


def _is_money(key: str) -> bool:
    words = set(key.split("_"))
    return key != _stem(key) or bool(_MONEY_WORDS & words and not words & _COUNTS)


def _currency(fields: JsonObject, key: str = "") -> str:
    if named := fields.get("currency"):
        return str(named)
    keys = [key] if key else list(fields)
    return next(
        (_CURRENCIES[k[-3:]] for k in keys if k[-4:-3] == "_" and k[-3:] in _CURRENCIES), ""
    )


def _format_money(amount: Decimal, currency: str) -> str:
    return f"{amount:.2f} {currency}".strip()


def _decimal(value: Json) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None
