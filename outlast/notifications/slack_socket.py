"""Slack's Socket Mode: clicks arrive over a WebSocket that the program opens.

No address of the program has to be reachable from the internet.
"""

import asyncio
import json
from typing import Any, Final, cast

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.loop.values import JsonObject
from outlast.notifications.signatures import SeenIds
from outlast.notifications.slack_api import API_URL, SlackApi
from outlast.notifications.slack_app import SlackApp
from outlast.ports.notifier import NotifierRejected, NotifierUnavailable

_OPEN_SECONDS: Final = 10.0
_LONGEST_MESSAGE: Final = 1_000_000
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
_LINK_DISABLED: Final = "link_disabled"

logger = get_logger(__name__)


class SlackSocket:
    """Receives the clicks of a `SlackApp` by Socket Mode.

        await SlackSocket(app, app_token).run()

    Needs `pip install "outlast[realtime]"`. Slack closes connections from time to time; the socket
    opens the next one. A click that Slack sends again is handled once.

    Args:
        app: decides what the clicks mean.
        app_token: the app's token, `xapp-...`, with the scope `connections:write`.
        api_url: the address of Slack's API.
    """

    def __init__(self, app: SlackApp, app_token: str, *, api_url: str = API_URL) -> None:
        self._app = app
        self._api = SlackApi(app_token, api_url)
        self._needs_tls = api_url.startswith("https:")
        self._seen = SeenIds()
        self._opened = 0

    async def run(self) -> None:
        """Receive clicks until cancelled; decisions under way are finished first.

        Raises:
            UserError: Slack refuses the app, or Socket Mode is switched off.
        """
        wait = _FIRST_WAIT
        try:
            while True:
                opened = self._opened
                try:
                    await self._connect()
                except NotifierRejected as error:
                    raise UserError(f"Slack refuses Socket Mode. {error}.") from error
                except (NotifierUnavailable, WebSocketException, OSError, TimeoutError) as error:
                    logger.warning("The connection to Slack ended: %s", error)
                else:
                    if self._opened > opened:  # Slack wants a new connection
                        wait = _FIRST_WAIT
                        continue
                wait = _FIRST_WAIT if self._opened > opened else min(wait * 2, _LONGEST_WAIT)
                await asyncio.sleep(wait)
        finally:
            await self._app.aclose()

    async def _connect(self) -> None:
        """Open a connection, and receive until Slack ends it."""
        reply = await self._api.write("apps.connections.open", {})
        url = str(reply.get("url"))
        if not url.startswith("wss://" if self._needs_tls else "ws"):
            raise NotifierUnavailable("Slack named an address that is no encrypted WebSocket")
        async with connect(url, max_size=_LONGEST_MESSAGE, open_timeout=_OPEN_SECONDS) as socket:
            async for text in socket:
                if not await self._take(socket, text):
                    return

    async def _take(self, socket: ClientConnection, text: str | bytes) -> bool:
        """Handle a message; return whether the connection goes on."""
        envelope = _object(text)
        kind = envelope.get("type")
        if kind == "hello":
            self._opened += 1
        if kind == "disconnect":
            if envelope.get("reason") == _LINK_DISABLED:
                raise NotifierRejected("It is switched off in the app's settings")
            return False
        envelope_id = envelope.get("envelope_id")
        if not isinstance(envelope_id, str):
            return True
        await socket.send(json.dumps({"envelope_id": envelope_id}))
        payload: Any = envelope.get("payload")
        if kind == "interactive" and isinstance(payload, dict) and self._seen.add(envelope_id):
            self._app.take(cast("JsonObject", payload))
        return True


def _object(text: str | bytes) -> JsonObject:
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("JsonObject", data) if isinstance(data, dict) else {}
