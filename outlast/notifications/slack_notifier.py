"""Notifications as messages of a Slack channel, with buttons to decide."""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Collection
from typing import Any, Final, cast

from outlast.agents.errors import UserError
from outlast.edges.newest import keep_newest
from outlast.notifications import slack_blocks
from outlast.notifications.links import check_link_base
from outlast.notifications.slack_api import API_URL, SlackApi
from outlast.notifications.webhook import check_events
from outlast.ports.notifier import DigestNotice, DigestNotifier, Notification
from outlast.views.records import JsonObject, NoticeEvent

EVENT_TYPE: Final = "outlast_notification"
"""The type of the metadata of every message."""

_CHANNEL: Final = re.compile(r"[CDG][A-Z0-9]{2,}")
_PAGES: Final = 10
"""The most pages of 200 messages to search in a channel."""

_MOST_KEPT: Final = 1_000  # an older message is found again in the channel
_SLACK_SECONDS: Final = 120
"""How far the clocks of Slack and the Temporal server may differ."""

_ENDS: Final = frozenset({"decided", "expired", "cancelled"})
_PLAIN: Final[JsonObject] = {"unfurl_links": False, "unfurl_media": False, "link_names": False}


class SlackNotifier(DigestNotifier):
    """Posts approval requests into a channel, and rewrites them when they are decided.

    Each message carries metadata that identifies its request. After a restart, the message of a
    request is found again in the channel's history by that metadata, so nothing is stored. The app
    needs the scopes `chat:write` and `channels:history` (`groups:history` for a private channel),
    and has to be in the channel. Reminders and escalations are replies below the message.

    The buttons need a `SlackApp`.

    Args:
        token: the bot's token, `xoxb-...`.
        channel: the channel's id, such as C0123456789.
        link_base: the address of the desk, such as `https://desk.example.com`, for a button that
            opens the request there; None without a desk.
        events: the events to deliver; default: all.
        name: tells it from the worker's other notifiers.
        api_url: the address of Slack's API.
    """

    def __init__(
        self,
        token: str,
        channel: str,
        *,
        link_base: str | None = None,
        events: Collection[NoticeEvent] | None = None,
        name: str = "slack",
        api_url: str = API_URL,
    ) -> None:
        if not _CHANNEL.fullmatch(str(channel)):
            raise UserError(
                f"channel= must be the id of a channel, such as C0123456789, not {channel!r}. It "
                "is at the end of the channel's details in Slack."
            )
        self.channel = channel
        self._desk = None if link_base is None else check_link_base(link_base)
        self.events: frozenset[NoticeEvent] = check_events(events)
        self.name = name
        self._api = SlackApi(token, api_url)
        self._kept: OrderedDict[str, str] = OrderedDict()

    async def notify(self, notice: Notification) -> None:
        """Post or rewrite a message.

        Raises:
            NotifierUnavailable: Slack does not answer, or an operator has to repair something.
            NotifierRejected: Slack refuses the message.
        """
        if not notice.request_id:
            await self._post_once(notice, self._message(notice), _digest(notice.id))
            return
        # Short, and without a text of others.
        key = _digest(f"{notice.requested_at_ms}/{notice.request_id}/{notice.run_id}")
        if notice.event == "created":
            await self._post_once(notice, self._message(notice), key)
            return
        posted_at = await self._find(key, notice.requested_at_ms)
        if notice.event in _ENDS:
            if posted_at is not None:
                await self._rewrite(posted_at, notice, key)
            return
        if posted_at is None:  # such as a notifier that has no `created` among its events
            await self._post_once(notice, self._message(notice), key)
            return
        await self._rewrite(posted_at, notice, key)
        await self._reply_once(posted_at, notice)

    async def notify_digest(self, digest: DigestNotice) -> None:
        """Post a digest.

        Raises:
            NotifierUnavailable: Slack does not answer, or an operator has to repair something.
            NotifierRejected: Slack refuses the message.
        """
        content = slack_blocks.digest_message(digest.pending)
        await self._post(content, _digest(digest.id))

    def _message(self, notice: Notification) -> JsonObject:
        return slack_blocks.message(notice, self._desk)

    async def _post_once(self, notice: Notification, content: JsonObject, key: str) -> None:
        since = notice.requested_at_ms or notice.at_ms
        if notice.attempt > 1 and await self._find(key, since) is not None:
            return
        self._keep(key, await self._post(content, key))

    async def _post(self, content: JsonObject, key: str, **fields: Any) -> str:
        message: JsonObject = {**content, **_PLAIN, **fields, "channel": self.channel}
        message["metadata"] = _metadata(key)
        reply = await self._api.write("chat.postMessage", message)
        return str(reply.get("ts"))

    async def _rewrite(self, posted_at: str, notice: Notification, key: str) -> None:
        content: JsonObject = {**self._message(notice), "metadata": _metadata(key)}
        await self._api.write(
            "chat.update", {**content, **_PLAIN, "channel": self.channel, "ts": posted_at}
        )

    async def _reply_once(self, posted_at: str, notice: Notification) -> None:
        """Reply below a message, unless an attempt before this one has."""
        key = _digest(notice.id)
        replies = "conversations.replies"
        if notice.attempt > 1 and await self._posted(key, replies, ts=posted_at) is not None:
            return
        content = slack_blocks.remark(notice)
        await self._post(content, key, thread_ts=posted_at, reply_broadcast=True)

    async def _find(self, key: str, since_ms: int) -> str | None:
        if key not in self._kept:
            oldest = f"{max(since_ms / 1_000 - _SLACK_SECONDS, 0):.6f}"
            found = await self._posted(key, "conversations.history", oldest=oldest)
            if found is not None:
                self._keep(key, found)
        return self._kept.get(key)

    async def _posted(self, key: str, method: str, **where: str) -> str | None:
        """Return when the message with a key was posted; None if none of the newest has it."""
        arguments: JsonObject = {
            "channel": self.channel,
            "limit": "200",
            "include_all_metadata": "true",
            **where,
        }
        for _ in range(_PAGES):
            page = await self._api.read(method, arguments)
            for one in cast("list[Any]", page.get("messages") or []):
                if _key_of(one) == key:
                    return str(one.get("ts"))
            further: Any = page.get("response_metadata") or {}
            arguments["cursor"] = str(further.get("next_cursor") or "")
            if not arguments["cursor"]:
                break
        return None

    def _keep(self, key: str, posted_at: str) -> None:
        keep_newest(self._kept, key, posted_at, _MOST_KEPT)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def _metadata(key: str) -> JsonObject:
    return {"event_type": EVENT_TYPE, "event_payload": {"key": key}}


def _key_of(message: JsonObject) -> str | None:
    try:
        metadata = message["metadata"]
        return metadata["event_payload"]["key"] if metadata["event_type"] == EVENT_TYPE else None
    except (KeyError, TypeError):  # the message of a person, or of another app
        return None
