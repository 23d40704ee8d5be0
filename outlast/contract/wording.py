"""Words for people about approval requests and items, the same on every screen."""

import json
from typing import Final, cast

from outlast.loop.approvals import ApprovalRequest, OnExpiry
from outlast.loop.aside import is_text, part_words
from outlast.loop.values import Json, JsonObject
from outlast.loop.votes import audience_text
from outlast.rendering import call_line, joined, named

ON_EXPIRY: Final[dict[OnExpiry, str]] = {
    "reject": "then it is rejected",
    "approve": "then it is approved without a decision",
    "escalate": "then further people may decide",
    "fail": "then the question fails",
}
"""What happens when nobody has decided in time."""

_UNITS: Final = {"seconds": "s"}

KEPT: Final = (
    "Nothing works on this run now, so the server keeps your decision. The run takes it, or refuses "
    "it, when its worker or program starts again."
)
"""What people read of a decision that the server keeps."""


def who_may_decide(request: ApprovalRequest) -> str:
    """Return who may decide a request now, with its conditions."""
    who = named(audience_text(request.audiences) or "anybody")
    if request.terms.audience.exclude_requester:
        who = joined(who, ", but not the person who asked for the run")
    if not request.terms.unverified:
        who = joined(who, ", with proof of who they are")
    return who


def request_line(request: ApprovalRequest) -> str:
    """Return what waits: a call as a line of code, or a budget in words."""
    budget = budget_line(request.arguments) if request.kind == "budget" else None
    return budget or call_line(request.name, request.arguments)


def budget_line(arguments: str) -> str | None:
    """Return a used-up budget in words, such as `$0.30 of $0.25 per run used; $0.25 more`.

    Args:
        arguments: the arguments of its request. None is returned for any others.
    """
    try:
        fields: Json = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    found = cast("JsonObject", fields)
    of, per = found.get("of"), found.get("per")
    amounts = [found.get(name) for name in ("spent", "limit", "extend_by")]
    if not (isinstance(of, str) and isinstance(per, str)):
        return None
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in amounts):
        return None
    used, limit, more = (amount_text(of, cast("int", one)) for one in amounts)
    nested = found.get("spent_by_nested_runs")
    part = f", {amount_text(of, nested)} of it in nested runs" if isinstance(nested, int) else ""
    return f"{used} of {limit} per {per} used{part}; {more} more"


def amount_text(of: str, amount: int) -> str:
    """Return an amount of a budget with its unit; `of` is what the budget counts."""
    if of == "cost_micros":
        dollars = f"{amount / 1_000_000:,.6f}".rstrip("0")
        whole, _, cents = dollars.partition(".")
        return f"${whole}.{cents:0<2}"
    return f"{amount:,} {_UNITS.get(of, of.replace('_', ' '))}"


def with_parts(text: str, content: Json) -> str:
    """Return the text of an item with the parts of its content that are no text, by their numbers.

    Args:
        text: the text of the item.
        content: its content, or the output of a call.
    """
    listed = cast("list[Json]", content) if isinstance(content, list) else []
    parts = (f"[part {at}: {part_words(one)}]" for at, one in enumerate(listed) if not is_text(one))
    return " ".join([*([text] if text else []), *parts])
