"""The socket of a realtime session: its address, its settings, and what goes wrong."""

import asyncio
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close

from outlast.agents.errors import UserError
from outlast.ports.model import ModelError
from outlast.realtime.openai.model import OpenAIRealtimeWebSocketModel
from outlast.realtime.openai.socket import (
    closed_failure,
    open_socket,
    socket_url,
    target_of,
)
from outlast.realtime.scripted_server.server import ScriptedRealtimeServer
from tests.unit.realtime.openai.realtime_client import connected

API = "wss://api.openai.com/v1/realtime"


@pytest.mark.parametrize(
    ("url", "call_id", "address"),
    [
        (None, None, f"{API}?model=gpt%2F1"),
        (None, "c/1", f"{API}?call_id=c%2F1"),
        ("wss://x.example/r", None, "wss://x.example/r"),
        ("WSS://x.example/r?a=1", "c", "WSS://x.example/r?a=1&call_id=c"),
        ("ws://x.example/r?call_id=other", "c", "ws://x.example/r?call_id=other"),
    ],
)
def test_an_address_names_the_model_or_the_call(
    url: str | None, call_id: str | None, address: str
) -> None:
    assert socket_url(url, model="gpt/1", call_id=call_id).lower() == address.lower()


def test_an_address_of_another_protocol_is_refused_without_its_query() -> None:
    with pytest.raises(UserError, match=r"starts with wss:// or ws://, not 'https://x'") as refused:
        socket_url("https://x?key=secret", model="m", call_id=None)
    assert "secret" not in str(refused.value)


def test_a_setting_of_the_socket_that_does_not_exist_is_refused() -> None:
    config: Any = {"timeout": 5}
    with pytest.raises(UserError, match=r"no setting timeout\. It has handshake_timeout, max_size"):
        OpenAIRealtimeWebSocketModel(transport_config=config)


async def test_the_settings_of_the_socket_are_used() -> None:
    model = OpenAIRealtimeWebSocketModel(
        transport_config={
            "ping_interval": None,
            "ping_timeout": 7,
            "max_size": 100,
            "handshake_timeout": 3,
        }
    )
    async with ScriptedRealtimeServer() as server:
        with pytest.raises(ModelError, match="a message was too large"):
            async with connected(server, model):
                pass


async def test_a_handshake_that_takes_too_long_is_a_timeout() -> None:
    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        model = OpenAIRealtimeWebSocketModel(transport_config={"handshake_timeout": 0.05})
        with pytest.raises(ModelError, match="took too long") as failed:
            await model.connect({"url": f"ws://127.0.0.1:{port}/", "api_key": "k"})
        assert failed.value.code == "timeout"


async def test_a_server_that_speaks_no_websocket_is_a_bad_response() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"220 mail server ready\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        url = f"ws://127.0.0.1:{port}/"
        with pytest.raises(ModelError, match="sent an invalid response"):
            await OpenAIRealtimeWebSocketModel().connect({"url": url, "api_key": "k"})


async def test_the_key_is_not_sent_to_another_server() -> None:
    async with ScriptedRealtimeServer() as server, ScriptedRealtimeServer() as other:
        server.refuse_connection(307, headers={"Location": other.url})
        with pytest.raises(ModelError, match="a redirect to another server"):
            async with connected(server):
                pass
        assert other.sockets == []
        server.refuse_connection(307, headers={"Location": f"{server.url}?moved=1"})
        async with connected(server):
            assert server.sockets[0].query == {"moved": ["1"]}


async def test_a_redirect_to_what_is_no_websocket_is_no_fault_of_the_address() -> None:
    async with ScriptedRealtimeServer() as server:
        server.refuse_connection(302, headers={"Location": "https://login.example/in"})
        with pytest.raises(
            ModelError, match=r"HTTP 302\. Its message: a redirect to https://login"
        ):
            async with connected(server):
                pass


async def test_a_load_balancer_without_a_server_is_too_busy() -> None:
    async def serve_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 503 Service Unavailable\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve_once, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(ModelError, match=r"too busy .* HTTP 503\."):
            await OpenAIRealtimeWebSocketModel().connect({"url": url, "api_key": "k"})


async def test_a_key_that_no_header_can_hold_is_refused_without_being_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with ScriptedRealtimeServer() as server:
        for key in ("sk-„quoted“", "sk-line\r\nbreak"):
            with pytest.raises(ModelError) as refused:
                async with connected(server, api_key=key):
                    pass
            assert refused.value.code == "unauthorized"
            assert key not in str(refused.value)
        with pytest.raises(UserError, match="The header 'api-key'"):
            async with connected(server, headers={"api-key": "a\nb"}):
                pass
        assert server.sockets == []
        assert "sk-" not in caplog.text


async def test_an_address_without_a_host_is_refused() -> None:
    target = target_of("ws://", model="m", key=None)
    with pytest.raises(UserError, match="is not the address of a WebSocket"):
        await open_socket("ws://", {}, target, {})


def test_the_reason_of_a_closed_socket_is_quoted_without_the_key() -> None:
    target = target_of("wss://x.example:99/r?key=1", model="m", key="sk-secret")
    closed = closed_failure(
        ConnectionClosedError(Close(4000, "bad key sk-secret"), None, None), target
    )
    assert str(closed) == (
        "The realtime session at wss://x.example:99/r was closed: no reason is known (code 4000)."
        " Its message: bad key [API key]"
    )
    lost = closed_failure(ConnectionClosedError(None, None, None), target)
    assert "the connection was lost (code 1006)" in str(lost)
