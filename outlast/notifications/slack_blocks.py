"""Messages of Slack: blocks of fixed words and literal text, and the values of their buttons.

Texts of customers and models are elements of `rich_text` blocks, which Slack shows as they are:
nothing in them is markup, a mention or a link. The line of a push notification is markup, so it is
escaped.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from outlast.edges.rendering import cut, excerpt
from outlast.notifications import texts
from outlast.notifications.links import request_address
from outlast.notifications.requests import RequestRef, ref_of
from outlast.notifications.texts import Detail
from outlast.ports.notifier import Notification
from outlast.views.records import JsonObject

APPROVE: Final = "outlast_approve"
REJECT: Final = "outlast_reject"
LOOK: Final = "outlast_look"
OPEN: Final = "outlast_open"

LONGEST_VALUE: Final = 2_000
"""Slack's limit for the value of a button."""

LONGEST_URL: Final = 3_000
"""Slack's limit for the address of a button."""

LONGEST_TEXT: Final = 2_900
"""The longest text of a block; Slack's limit is 3,000 characters."""

LONGEST_FALLBACK: Final = 500
"""The length of the line of a push notification."""


def escaped(text: str) -> str:
    """Return a text for Slack's markup, in which it is no mention, link or command."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def message(notice: Notification, desk: str | None = None) -> JsonObject:
    """Return the text and blocks of a notification.

    Args:
        notice: the notification.
        desk: the address of the desk, for a link to the request; None without a desk.
    """
    title = texts.headline(notice)
    blocks = [_header(title), _rich(_lines(texts.details(notice)))]
    arguments = texts.arguments_shown(notice)
    if arguments.text:
        blocks.append(_preformatted(arguments.text))
    if texts.is_open(notice) and not arguments.is_whole:
        blocks.append(_rich([_text(texts.ELSEWHERE)]))
    if lines := texts.command_lines(notice):
        blocks.append(_preformatted("\n".join(lines)))
    if buttons := _buttons(notice, desk, decides=arguments.is_whole):
        blocks.append({"type": "actions", "elements": buttons})
    what = f": {texts.what_asked(notice)}" if notice.name else ""
    return {"text": fallback(f"{title}{what}"), "blocks": blocks}


def remark(notice: Notification) -> JsonObject:
    """Return the text and blocks of a reply below the message of a request."""
    title = texts.headline(notice)
    shown = [one for one in texts.details(notice) if one.label in {"By", "For", "Votes", "Until"}]
    return {
        "text": fallback(f"{title}: {texts.what_asked(notice)}"),
        "blocks": [_rich([_bold(title), _text("\n"), *_lines(shown)])],
    }


def digest_message(pending: Sequence[Notification]) -> JsonObject:
    """Return the text and blocks of a digest."""
    title = texts.digest_headline(pending)
    lines = _lines(texts.digest_lines(pending))
    return {"text": fallback(title), "blocks": [_header(title), _rich(lines)]}


def fallback(text: str) -> str:
    """Return the line of a push notification."""
    return escaped(excerpt(" ".join(text.split()), LONGEST_FALLBACK // 5))


def read_value(text: object) -> RequestRef | None:
    """Return the request that a button decides, or None if its value is not one of ours."""
    try:
        ref = RequestRef(**json.loads(str(text)))
    except (ValueError, TypeError, RecursionError):
        return None
    return ref if all(isinstance(one, str) and one for one in asdict(ref).values()) else None


def _buttons(notice: Notification, desk: str | None, *, decides: bool) -> list[JsonObject]:
    value = json.dumps(asdict(ref_of(notice)))
    found: list[JsonObject] = []
    is_named = bool(notice.request_id and notice.execution) and len(value) <= LONGEST_VALUE
    if texts.is_open(notice) and decides and is_named:
        if "approve" in notice.allow:
            asks = {"confirm": _ASKS} if notice.risk == "high" else {}
            found.append(_button("Approve", APPROVE, value=value, style="primary", **asks))
        if "reject" in notice.allow:
            found.append(_button("Reject", REJECT, value=value, style="danger"))
    on_desk = None if desk is None else request_address(desk, notice)
    label = "Open the request" if notice.request_id else "Open the conversation"
    links = ((label, LOOK, on_desk), ("Open the run", OPEN, notice.url))
    found += [
        _button(label, action, url=url)
        for label, action, url in links
        if url and len(url) <= LONGEST_URL
    ]
    return found


def _button(label: str, action: str, **fields: Any) -> JsonObject:
    return {"type": "button", "action_id": action, "text": _plain(label), **fields}


def _header(title: str) -> JsonObject:
    return {"type": "header", "text": _plain(title[:150])}


def _plain(text: str) -> JsonObject:
    return {"type": "plain_text", "text": text, "emoji": False}


def _rich(elements: list[JsonObject]) -> JsonObject:
    section: JsonObject = {"type": "rich_text_section", "elements": elements}
    return {"type": "rich_text", "elements": [section]}


def _preformatted(text: str) -> JsonObject:
    part: JsonObject = {"type": "rich_text_preformatted", "elements": [_text(text)]}
    return {"type": "rich_text", "elements": [part]}


def _lines(details: Sequence[Detail]) -> list[JsonObject]:
    return [
        part
        for one in details
        for part in (_bold(f"{one.label}: "), _text(one.text or "-"), _text("\n"))
    ]


def _bold(text: str) -> JsonObject:
    return {"type": "text", "text": text, "style": {"bold": True}}


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": cut(text, LONGEST_TEXT - 60)}


_ASKS: Final[JsonObject] = {
    "title": _plain("High risk"),
    "text": _plain("This request has a high risk. Approve it?"),
    "confirm": _plain("Approve"),
    "deny": _plain("Back"),
}
"""What Slack asks before a request of high risk is approved."""
