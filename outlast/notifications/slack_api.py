"""Calls of Slack's Web API, with the errors of notifiers."""

from typing import Any, Final, cast

import aiohttp

from outlast.agents.errors import UserError
from outlast.notifications.http import HttpAnswer, check_status, check_url
from outlast.ports.notifier import NotifierRejected, NotifierUnavailable
from outlast.views.records import JsonObject

try:
    from slack_sdk.errors import SlackApiError
    from slack_sdk.web.async_client import AsyncWebClient
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Slack needs slack-sdk: pip install 'outlast[slack]'", name=error.name
    ) from error

API_URL: Final = "https://slack.com/api/"

_TIMEOUT_SECONDS: Final = 8

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
    """Slack's Web API with a bot's token (`xoxb-`), or an app's (`xapp-`)."""

    def __init__(self, token: str, url: str = API_URL) -> None:
        value = cast("object", token)
        if not isinstance(value, str) or not value.isascii() or not value.startswith("x"):
            raise UserError("token= must be a token of Slack, such as xoxb-...")
        self.client: AsyncWebClient = AsyncWebClient(
            token,
            base_url=check_url(url, "api_url"),
            timeout=_TIMEOUT_SECONDS,
            # A second attempt here could post a message twice; a notifier looks for the first.
            retry_handlers=[],
        )

    async def write(self, method: str, arguments: JsonObject) -> JsonObject:
        """Call a method with JSON, as those that write take it."""
        return await self._call(method, arguments, json=arguments)

    async def read(self, method: str, arguments: JsonObject) -> JsonObject:
        """Call a method with a form, as those that read take it."""
        return await self._call(method, arguments, data=arguments)

    async def _call(self, method: str, arguments: JsonObject, **body: Any) -> JsonObject:
        what, call = f"Slack's {method}", cast("Any", self.client).api_call
        try:
            reply = await call(method, **body)
        except SlackApiError as error:
            response = cast("Any", error.response)
            status = getattr(response, "status_code", None) or response.status
            check_status(HttpAnswer(status, response.headers, b""), what)
            data: Any = getattr(response, "data", None)
            if not data or not isinstance(data, dict):
                raise NotifierUnavailable(f"{what} did not answer with JSON") from None
            raise _error_of(what, cast("JsonObject", data), arguments) from None
        except TimeoutError:
            raise NotifierUnavailable(
                f"{what} did not answer within {_TIMEOUT_SECONDS} s"
            ) from None
        # AttributeError: the library takes a text or a list for an object.
        except (aiohttp.ClientError, OSError, ValueError, AttributeError) as error:
            reason = str(error) or type(error).__name__
            raise NotifierUnavailable(f"{what} cannot be reached: {reason}") from error
        return reply.data


def _error_of(
    what: str, reply: JsonObject, arguments: JsonObject
) -> NotifierUnavailable | NotifierRejected:
    code = str(reply.get("error"))[:100]
    text = f"{what} refused: {code}"
    if code in _AGAIN:
        return NotifierUnavailable(text)
    if code not in _OPERATORS:
        return NotifierRejected(text)
    needed = f" Needed: {str(reply['needed'])[:100]}." if reply.get("needed") else ""
    channel = f" (channel {arguments['channel']})" if "channel" in arguments else ""
    return NotifierUnavailable(f"{text}{channel}. {_OPERATORS[code]}{needed}")
