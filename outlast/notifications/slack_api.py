"""Calls of Slack's Web API."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, cast
from urllib.parse import urlencode

from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject
from outlast.notifications.http import check_status, check_url, post
from outlast.ports.notifier import NotifierRejected, NotifierUnavailable

API_URL: Final = "https://slack.com/api/"

_TIMEOUT: Final = timedelta(seconds=8)

_AGAIN: Final = frozenset(
    {
        "accesslimited",
        "fatal_error",
        "internal_error",
        "ratelimited",
        "request_timeout",
        "rollup_error",
        "service_unavailable",
    }
)
"""Errors of Slack that pass."""

_OPERATORS: Final = {
    "account_inactive": "The token's app or workspace is disabled.",
    "channel_not_found": "Use the channel's id, and invite the app into it.",
    "invalid_auth": "The token is wrong.",
    "is_archived": "The channel is archived.",
    "missing_scope": "The app lacks a permission.",
    "not_authed": "The token is missing.",
    "not_in_channel": "Invite the app into the channel.",
    "token_expired": "The token has expired.",
    "token_revoked": "The token was revoked.",
}
"""Errors that an operator can repair while attempts go on, and how."""


class SlackApi:
    """Slack's Web API with a token.

    Args:
        token: a bot's token (`xoxb-`), or an app's token (`xapp-`).
        url: the address of the API.
    """

    def __init__(self, token: str, url: str = API_URL) -> None:
        value = cast("object", token)
        if not isinstance(value, str) or not value.isascii() or not value.startswith("x"):
            raise UserError("token= must be a token of Slack, such as xoxb-...")
        self._token = token
        self._url = check_url(url, "api_url").rstrip("/")

    async def write(self, method: str, arguments: JsonObject) -> JsonObject:
        """Call a method with JSON, as those that write take it."""
        body = json.dumps(arguments).encode()
        return await self._call(method, body, "application/json; charset=utf-8", arguments)

    async def read(self, method: str, arguments: Mapping[str, str]) -> JsonObject:
        """Call a method with a form, as those that read take it."""
        body = urlencode(dict(arguments)).encode()
        return await self._call(method, body, "application/x-www-form-urlencoded", arguments)

    async def _call(
        self, method: str, body: bytes, content_type: str, arguments: Mapping[str, Any]
    ) -> JsonObject:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        answer = await post(f"{self._url}/{method}", body, headers, within=_TIMEOUT)
        check_status(answer, f"Slack's {method}")
        try:
            data: Any = json.loads(answer.body)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise NotifierUnavailable(f"Slack's {method} did not answer with JSON")
        reply = cast("JsonObject", data)
        if reply.get("ok") is not True:
            raise _error_of(method, str(reply.get("error"))[:100], reply, arguments)
        return reply


def _error_of(
    method: str, code: str, reply: JsonObject, arguments: Mapping[str, Any]
) -> NotifierUnavailable | NotifierRejected:
    text = f"Slack's {method} refused: {code}"
    if code in _AGAIN:
        return NotifierUnavailable(text)
    if code not in _OPERATORS:
        return NotifierRejected(text)
    needed = f" Needed: {str(reply['needed'])[:100]}." if reply.get("needed") else ""
    channel = f" (channel {arguments['channel']})" if "channel" in arguments else ""
    return NotifierUnavailable(f"{text}{channel}. {_OPERATORS[code]}{needed}")
