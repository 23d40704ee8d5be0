"""A server with the part of Slack's Web API and Socket Mode that notifications use.

It is as strict as Slack: arguments, tokens, limits, and which methods take JSON.
"""

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from aiohttp import WSMsgType, web

from tests.unit.notifications.receiver import serve

BOT = "xoxb-bot"
APP = "xapp-app"
CHANNEL = "C0123456789"
TEAM, ORGANIZATION = "T1", "E1"
SIGNING_SECRET = "0123456789abcdef0123456789abcdef"
PAGE = 2
"""Messages per page, so that paging is tested with few of them."""


@dataclass
class Slack:
    """A workspace with one channel.

    Attributes:
        url: the address of the API.
        messages: the messages of the channel and of its threads, oldest first.
        ephemeral: what only one person sees.
        calls: the methods that were called.
        errors: what the next calls of a method answer, instead of working: an error, or a status.
        sockets: the open connections of Socket Mode.
        acknowledged: the envelopes that the app has acknowledged.
        connections: how many connections were opened.
        enterprise: the organization that the workspace belongs to.
    """

    url: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ephemeral: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    calls: list[str] = field(default_factory=list[str])
    errors: dict[str, list[str | int]] = field(default_factory=dict[str, list[str | int]])
    sockets: list[web.WebSocketResponse] = field(default_factory=list[web.WebSocketResponse])
    acknowledged: asyncio.Queue[str] = field(default_factory=asyncio.Queue[str])
    connections: int = 0
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    told: asyncio.Event = field(default_factory=asyncio.Event)
    clock: float = 2_000.0
    socket_url: str | None = None
    enterprise: str | None = None

    @property
    def roots(self) -> list[dict[str, Any]]:
        """The messages that are no replies."""
        return [one for one in self.messages if "thread_ts" not in one]

    def replies_to(self, ts: str) -> list[dict[str, Any]]:
        return [one for one in self.messages if one.get("thread_ts") == ts]

    async def call(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        self.calls.append(method)
        if queued := self.errors.get(method):
            error = queued.pop(0)
            if isinstance(error, int):
                return web.Response(status=error, headers={"Retry-After": "3"})
            return web.json_response({"ok": False, "error": error, "needed": "chat:write"})
        wants = APP if method == "apps.connections.open" else BOT
        if request.headers.get("Authorization") != f"Bearer {wants}":
            return web.json_response({"ok": False, "error": "invalid_auth"})
        is_json = request.content_type == "application/json"
        arguments: dict[str, Any] = await request.json() if is_json else dict(await request.post())
        if method.startswith("conversations.") and is_json:
            return web.json_response({"ok": False, "error": "invalid_arguments"})
        if "channel" in arguments and arguments["channel"] != CHANNEL:
            return web.json_response({"ok": False, "error": "channel_not_found"})
        answer = getattr(self, f"_{method.replace('.', '_').lower()}")(arguments)
        return web.json_response({"ok": "error" not in answer, **answer})

    def _chat_postmessage(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if problem := problem_of(arguments):
            return {"error": problem}
        self.clock += 1
        kept = ("text", "blocks", "metadata", "thread_ts", "reply_broadcast")
        message = {name: arguments[name] for name in kept if name in arguments}
        message["ts"] = f"{self.clock:.6f}"
        self.messages.append(message)
        return {"ts": message["ts"], "channel": CHANNEL, "message": message}

    def _chat_update(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if problem := problem_of(arguments):
            return {"error": problem}
        for message in self.messages:
            if message["ts"] == arguments["ts"]:
                message.update({name: arguments[name] for name in ("text", "blocks", "metadata")})
                return {"ts": message["ts"]}
        return {"error": "message_not_found"}

    def _chat_postephemeral(self, arguments: dict[str, Any]) -> dict[str, Any]:
        assert not set("<>") & set(arguments["text"])
        self.ephemeral.append(arguments)
        self.told.set()
        return {"message_ts": "1"}

    def _auth_test(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"team_id": TEAM, "bot_id": "B1", "enterprise_id": self.enterprise}

    def _conversations_history(self, arguments: dict[str, Any]) -> dict[str, Any]:
        oldest = float(arguments.get("oldest", 0))
        shown = [
            one
            for one in self.messages
            if float(one["ts"]) > oldest and ("thread_ts" not in one or one.get("reply_broadcast"))
        ]
        return self._page([*reversed(shown)], arguments)

    def _conversations_replies(self, arguments: dict[str, Any]) -> dict[str, Any]:
        root = [one for one in self.messages if one["ts"] == arguments["ts"]]
        return self._page([*root, *self.replies_to(arguments["ts"])], arguments)

    @staticmethod
    def _page(found: list[dict[str, Any]], arguments: dict[str, Any]) -> dict[str, Any]:
        start = int(arguments.get("cursor") or 0)
        end = start + PAGE
        with_metadata = arguments.get("include_all_metadata") == "true"
        shown = [
            {key: value for key, value in one.items() if key != "metadata" or with_metadata}
            for one in found[start:end]
        ]
        cursor = str(end) if end < len(found) else ""
        return {"messages": shown, "response_metadata": {"next_cursor": cursor}}

    def _apps_connections_open(self, arguments: dict[str, Any]) -> dict[str, Any]:
        address = self.url.replace("http://", "ws://").removesuffix("/api")
        return {"url": self.socket_url or f"{address}/socket?ticket={len(self.calls)}"}

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.connections += 1
        await socket.send_json({"type": "hello", "num_connections": 1})
        self.sockets.append(socket)
        self.connected.set()
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                self.acknowledged.put_nowait(json.loads(message.data)["envelope_id"])
        self.sockets.remove(socket)
        return socket


def problem_of(arguments: dict[str, Any]) -> str | None:
    """Return the error of Slack for a message that it does not take."""
    if set("<>") & set(arguments["text"]) or len(arguments["text"]) > 4_000:
        return "msg_too_long"
    blocks = arguments["blocks"]
    if not 0 < len(blocks) <= 50 or len(json.dumps(blocks)) > 40_000:
        return "msg_blocks_too_long"
    for block in blocks:
        if block["type"] == "header" and len(block["text"]["text"]) > 150:
            return "invalid_blocks"
        for element in block.get("elements", []):
            if len(element.get("value", "")) > 2_000 or len(element.get("url", "")) > 3_000:
                return "invalid_blocks"
            for part in element.get("elements", []):
                if not part["text"] or len(part["text"]) > 3_000:
                    return "invalid_blocks"
    return None


@asynccontextmanager
async def slack_server() -> AsyncGenerator[Slack]:
    """Serve a workspace."""
    slack = Slack()
    app = web.Application()
    app.router.add_post("/api/{method}", slack.call)
    app.router.add_get("/socket", slack.socket)
    async with serve(app) as url:
        slack.url = f"{url}/api"
        try:
            yield slack
        finally:
            for socket in list(slack.sockets):
                await socket.close()


def click(
    action: str, value: str, user: str = "U1", channel: str = CHANNEL, **fields: Any
) -> dict[str, Any]:
    """Return the interaction of a click on a button."""
    return {
        "type": "block_actions",
        "user": {"id": user, "name": "ann.slack", "team_id": TEAM},
        "team": {"id": TEAM, "domain": "shop"},
        "enterprise": None,
        "channel": {"id": channel},
        "container": {"channel_id": channel, "message_ts": "2001.000000"},
        "actions": [{"type": "button", "action_id": action, "value": value}],
        **fields,
    }


def signed_request(
    payload: dict[str, Any], *, at: float | None = None, secret: str = SIGNING_SECRET
) -> tuple[bytes, dict[str, str]]:
    """Return the body and headers of a request as Slack signs it."""
    body = urlencode({"payload": json.dumps(payload)}).encode()
    timestamp = str(int(time.time() if at is None else at))
    text = b"v0:" + timestamp.encode() + b":" + body
    signature = "v0=" + hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()
    return body, {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": signature}
