"""Slack's Socket Mode: clicks arrive over a WebSocket that the program opens.

No address of the program has to be reachable from the internet.
"""

import asyncio
from typing import Any, Final, cast

import aiohttp
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest

from outlast.agents.errors import UserError
from outlast.edges.bodies import DOORS
from outlast.notifications.signatures import SeenIds
from outlast.notifications.slack_api import API_URL, SlackApi
from outlast.notifications.slack_app import SlackApp
from outlast.ports.notifier import NotifierRejected, NotifierUnavailable

_PING_SECONDS: Final = 5.0
"""How often the connection is tried, and how long a failed one rests."""


class SlackSocket:
    """Receives the clicks of a `SlackApp` by Socket Mode.

        await SlackSocket(app, app_token).run()

    Slack closes connections from time to time; the socket opens the next one. A click that Slack
    sends again is handled once.

    Args:
        app: decides what the clicks mean.
        app_token: the app's token, `xapp-...`, with the scope `connections:write`.
        api_url: the address of Slack's API.
    """

    def __init__(self, app: SlackApp, app_token: str, *, api_url: str = API_URL) -> None:
        self._app = app
        self._api = SlackApi(app_token, api_url)
        self._scheme = "wss://" if api_url.startswith("https:") else "ws"
        self._seen = SeenIds()

    async def run(self) -> None:
        """Receive clicks until cancelled; decisions under way are finished first.

        Raises:
            UserError: Slack refuses the app, or Socket Mode is switched off.
        """
        client = _Client(self._api, self._scheme)
        client.socket_mode_request_listeners.append(self._acknowledge)
        try:
            await client.connect()
            await client.refused
        finally:
            await client.close()
            await self._app.aclose()

    async def _acknowledge(self, client: Any, request: SocketModeRequest) -> None:
        await client.send_socket_mode_response({"envelope_id": request.envelope_id})
        if request.type == "interactive" and self._seen.add(request.envelope_id):
            self._app.start_decisions(cast("Any", request).payload)


class _Client(SocketModeClient):
    """A connection that ends where Slack refuses the app; the library would try for ever."""

    def __init__(self, api: SlackApi, scheme: str) -> None:
        super().__init__(
            api.client.token or "",
            web_client=api.client,
            ping_interval=_PING_SECONDS,
            on_message_listeners=[self._hear],
        )
        self._api = api
        self._scheme = scheme
        self.refused = asyncio.get_running_loop().create_future()

    async def issue_new_wss_url(self) -> str:
        """Return the address of the next connection."""
        try:
            reply = await self._api.write("apps.connections.open", {})
        except NotifierRejected as error:
            self._end(str(error))
            raise
        url = str(reply.get("url"))
        if not url.startswith(self._scheme):
            raise NotifierUnavailable("Slack named an address that is no encrypted WebSocket")
        return url

    async def _hear(self, message: aiohttp.WSMessage) -> None:
        text = str(message.data)
        if "link_disabled" in text and DOORS["slack"].parse(text).get("type") == "disconnect":
            self._end("It is switched off in the app's settings")

    def _end(self, reason: str) -> None:
        self.closed = True
        if not self.refused.done():
            self.refused.set_exception(UserError(f"Slack refuses Socket Mode. {reason}."))
