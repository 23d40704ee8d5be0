"""Who sends a request is known before its body is read."""

from types import SimpleNamespace
from typing import Any

import pytest

from outlast import Agent
from outlast.edges.bodies import DOORS
from outlast.serve import desk
from outlast.serve.routing import DeskRequest
from tests.unit.serve.test_app import CLIENT


async def nobody(_connection: object) -> None:
    """Know nobody."""


async def sent(path: str, *headers: tuple[bytes, bytes]) -> tuple[int, int]:
    """Send a body without end; return the status of the answer and how many bytes were read."""
    login: Any = SimpleNamespace(routes=(), path=None, person=nobody)
    app = desk(CLIENT, agents=[Agent(name="A")], api_keys={"shop": "k" * 30}, login=login)
    read = status = 0

    async def receive() -> Any:
        nonlocal read
        read += 1_000
        assert read < 1_000_000, "it reads on"
        return {"type": "http.request", "body": b"[" + b"[]," * 333, "more_body": True}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    scope: Any = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json"), *headers],
        "client": ("10.0.0.1", 5000),
        "scheme": "http",
    }
    await app(scope, receive, send)
    return status, read


@pytest.mark.parametrize(
    "path",
    [
        "/a2a/A",
        "/a2a/A/message:send",
        "/a2a/A/message:stream",
        "/agui/A",
        "/copilotkit/agent/A/run",
        "/copilotkit/agent/A/connect",
        "/vercel/A",
        "/v1/responses",
        "/api/conversations/c/messages",
        "/api/conversations/c/requests/r/decide",
        "/chat/c/messages",
    ],
)
@pytest.mark.parametrize("key", ["", "Bearer wrong", "Bearer oc1.x"])
async def test_nobody_is_read(path: str, key: str) -> None:
    headers = [(b"authorization", key.encode())] if key else []
    status, read = await sent(path, (b"a2a-version", b"1.0"), *headers)
    assert status in {401, 403, 404}
    assert read == 0


async def test_what_nobody_sends_is_bounded_where_a_route_is_for_everybody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check(*_: object) -> None:
        """Let anybody in, as a route for everybody does."""

    monkeypatch.setattr(DeskRequest, "check", check)
    status, read = await sent("/agui/A")
    assert status == 413
    assert read <= DOORS["nobody"].size + 1_000
