"""Single changes of a call's arguments, as `--set amount=350` writes them."""

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final, cast

from outlast.agents.errors import UserError
from outlast.cli.json_values import parse_json
from outlast.views.records import ApprovalRequest, Json, JsonObject

_DOLLARS: Final = re.compile(r"\$?([0-9]+(?:\.[0-9]{1,6})?)(?:usd)?", re.IGNORECASE)


def with_changes(request: ApprovalRequest, changes: Sequence[str]) -> JsonObject:
    """Return all arguments of a request after some changes; redacted values stay.

    A value is JSON, or a text where the schema asks for one or the value is no JSON.
    """
    arguments = parse_json(request.arguments, f"The arguments of {request.id}")
    if not isinstance(arguments, dict):
        raise UserError(f"The arguments of {request.id} are no JSON object. Use --arguments.")
    wanted = dict(cast("JsonObject", arguments))
    rules = cast("JsonObject", (request.schema or {}).get("properties") or {})
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals or not name:
            raise UserError(f"--set {change!r:.80} must be NAME=VALUE, such as amount=350.")
        if name not in wanted and name not in rules:
            known = ", ".join(dict.fromkeys([*wanted, *rules]))
            raise UserError(f"{request.name} has no argument {name!r:.80}, only {known:.300}.")
        wanted[name] = _value(request, name, text, rules.get(name), wanted)
    return wanted


def _value(
    request: ApprovalRequest, name: str, text: str, rule: Json, arguments: JsonObject
) -> Json:
    is_money = request.kind == "budget" and arguments.get("of") == "cost_micros"
    if is_money and name == "extend_by" and not text.isdecimal():
        found = _DOLLARS.fullmatch(text)
        if found is None:
            raise UserError(f"extend_by={text!r:.80} must be an amount such as 0.50usd.")
        return int(Decimal(found[1]) * 1_000_000)
    if isinstance(rule, dict) and cast("JsonObject", rule).get("type") == "string":
        return text
    try:
        json.loads(text)
    except ValueError:
        return text
    return parse_json(text, f"--set {name}")
