"""Signed webhooks: the notifier that sends them, and the check for those who receive them."""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, cast

from outlast.agents.errors import UserError
from outlast.edges.bodies import DOORS
from outlast.notifications.http import check_status, check_url, post
from outlast.notifications.signatures import (
    TOLERANCE,
    SeenIds,
    check_secret,
    hmac_hex,
    is_equal,
    problem_of_timestamp,
)
from outlast.ports.notifier import DigestNotice, DigestNotifier, Notification
from outlast.views.records import ALL_EVENTS, JsonObject, NoticeEvent

ID_HEADER: Final = "Outlast-Id"
TIME_HEADER: Final = "Outlast-Timestamp"
SIGNATURE_HEADER: Final = "Outlast-Signature"
VERSION: Final = "v1="
"""The beginning of a signature, so that there can be another kind one day."""


class WebhookRefused(Exception):
    """A request is no valid webhook: answer it with status 401 and do nothing."""


class WebhookRepeated(WebhookRefused):
    """A webhook was handled before: answer it with status 200 and do nothing."""


class Webhook(DigestNotifier):
    """Sends each notification as JSON to an address, signed with a secret.

    The body has the fields of `Notification`. `verify_webhook` checks it at the other end. A status
    of 2xx accepts it; 408, 425, 429, 5xx and no answer mean another attempt; any other status is a
    refusal. Redirects are not followed.

    Args:
        url: the address.
        secret: at least 16 characters, which the receiver has, too.
        events: the events to send; default: all.
        name: tells it from the worker's other notifiers.
        timeout: how long the receiver may take to answer.
        allow_private: whether the address may lead to this machine or a private network. Set it to
            False where customers choose the address.
    """

    def __init__(
        self,
        url: str,
        secret: str,
        *,
        events: Collection[NoticeEvent] | None = None,
        name: str = "webhook",
        timeout: timedelta = timedelta(seconds=10),
        allow_private: bool = True,
    ) -> None:
        self.url: str = check_url(url, "url")
        self._secret = check_secret(secret, "secret")
        self.events: frozenset[NoticeEvent] = check_events(events)
        self.name = name
        self._timeout = timeout
        self.allow_private = allow_private

    async def notify(self, notice: Notification) -> None:
        """Send a notification.

        Raises:
            NotifierUnavailable: there is no answer, or one that asks for another attempt.
            NotifierRejected: the receiver refuses it.
        """
        await self._send(notice.id, notice.as_json())

    async def notify_digest(self, digest: DigestNotice) -> None:
        """Send a digest: its `event` is `digest`, and `pending` has the requests.

        Raises:
            NotifierUnavailable: there is no answer, or one that asks for another attempt.
            NotifierRejected: the receiver refuses it.
        """
        await self._send(digest.id, digest.as_json())

    async def _send(self, notice_id: str, data: JsonObject) -> None:
        body = json.dumps(data, separators=(",", ":")).encode()
        answer = await post(
            self.url,
            body,
            signed_headers(self._secret, notice_id, body, int(time.time())),
            within=self._timeout,
            allow_private=self.allow_private,
        )
        check_status(answer, "The receiver")


def check_events(events: Collection[NoticeEvent] | None) -> frozenset[NoticeEvent]:
    """Return the events that a notifier delivers; a `UserError` if there is no such event."""
    if events is None:
        return ALL_EVENTS
    if isinstance(events, str):
        raise UserError(f"events= must be a list of events: events=[{events!r}].")
    unknown = sorted(map(repr, set(events) - ALL_EVENTS))
    if unknown or not events:
        raise UserError(
            f"events= has {', '.join(unknown) or 'nothing'}. The events are "
            f"{', '.join(sorted(ALL_EVENTS))}."
        )
    return frozenset(events)


def signed_headers(secret: str, notice_id: str, body: bytes, timestamp: int) -> dict[str, str]:
    """Return the headers of a webhook."""
    signature = hmac_hex(secret, f"{timestamp}.".encode() + body)
    return {
        "Content-Type": "application/json",
        "User-Agent": "outlast",
        ID_HEADER: json.dumps(notice_id)[1:-1],  # a run's id may hold any character
        TIME_HEADER: str(timestamp),
        SIGNATURE_HEADER: f"{VERSION}{signature}",
    }


def verify_webhook(
    body: bytes,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    tolerance: timedelta = TOLERANCE,
    *,
    seen: SeenIds | None = None,
    now: float | None = None,
) -> JsonObject:
    """Check a webhook, and return the notification.

    Args:
        body: the raw body, before anything has parsed it.
        headers: the headers of the request.
        secret: the secret, or several while it is being replaced.
        tolerance: how far the time of the request may be from now.
        seen: remembers the ids of handled notifications. If handling one fails, call
            `seen.forget(notification["id"])`, so that the next attempt is not a repetition.
        now: the time in seconds since the epoch; default: the clock.

    Raises:
        WebhookRefused: the request is forged, too old, or no webhook.
        WebhookRepeated: the notification was handled before.
    """
    found = {name.lower(): value for name, value in headers.items()}
    secrets = [secret] if isinstance(secret, str) else list(secret)
    if not secrets:
        raise UserError("verify_webhook needs a secret; without one, nothing can be trusted.")
    timestamp = found.get(TIME_HEADER.lower())
    if problem := problem_of_timestamp(timestamp, now or time.time(), tolerance):
        raise WebhookRefused(f"The webhook is refused: {problem}.")
    signature = found.get(SIGNATURE_HEADER.lower(), "")
    signed = f"{timestamp}.".encode() + body
    wanted = [f"{VERSION}{hmac_hex(check_secret(one, 'secret'), signed)}" for one in secrets]
    matches = [is_equal(signature, one) for one in wanted]  # all of them, whichever matches
    if not any(matches):
        raise WebhookRefused("The webhook is refused: its signature does not match.")
    data = _parsed(body)
    if json.dumps(data["id"])[1:-1] != found.get(ID_HEADER.lower()):
        raise WebhookRefused(f"The webhook is refused: the header {ID_HEADER} is not its id.")
    if seen is not None and not seen.add(data["id"]):
        raise WebhookRepeated(f"The notification {data['id']!r:.200} was handled before.")
    return data


def _parsed(body: bytes) -> JsonObject:
    try:
        data: Any = DOORS["notification"].parse(body)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not isinstance(cast("JsonObject", data).get("id"), str):
        raise WebhookRefused("The webhook is refused: its body is no notification.")
    return cast("JsonObject", data)
