import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from outlast.testing.socket_server import ServerSocket, SocketServer


class Echo(SocketServer):
    """Answers each frame with `echo.1`, `echo.2` and `echo.3`."""

    async def serve(self, socket: ServerSocket) -> None:
        async for body in socket:
            for number in range(1, 4):
                await socket.send({"type": f"echo.{number}", "of": body})


async def talk(server: SocketServer, *frames: str) -> tuple[list[str], int | None]:
    """Send frames, and return what came back and the close code, if any."""
    heard: list[str] = []
    async with connect(f"{server.websocket_base_url}/echo?a=1") as socket:
        try:
            for frame in frames:
                await socket.send(frame)
                heard += [str(await socket.recv()) for _ in range(3)]
        except ConnectionClosed as error:
            return heard, error.rcvd.code if error.rcvd else 1006
    return heard, None


async def test_frames_of_both_sides_are_recorded_in_order() -> None:
    async with Echo() as server:
        await talk(server, '{"type": "ask"}', "not json")
        assert server.received("ask") == [{"type": "ask"}]
        assert server.received() == [{"type": "ask"}, "not json"]
        assert [frame.type for frame in server.frames[:4]] == ["ask", "echo.1", "echo.2", "echo.3"]
        assert [frame.sender for frame in server.frames[:2]] == ["client", "server"]
        assert server.frames[0].size == len('{"type": "ask"}')
        assert server.sent("echo.2")[1] == {"type": "echo.2", "of": "not json"}
        assert (server.sockets[0].path, server.sockets[0].query) == ("/v1/echo", {"a": ["1"]})
        assert await server.until_received("ask") == {"type": "ask"}
        assert await server.until_sent("echo.2", 2) == {"type": "echo.2", "of": "not json"}


@pytest.mark.parametrize("code", [1001, 1006, 1011, 1012])
async def test_a_connection_is_closed_before_or_after_a_frame_once(code: int) -> None:
    ask = '{"type": "ask"}'
    async with Echo() as server:
        server.close_before("echo.2", code)
        heard, closed = await talk(server, ask)
        assert (len(heard), closed) == (0, code)
        assert server.sent("echo.2") == []
        server.close_after("echo.2", code, skip=1)
        heard, closed = await talk(server, ask, ask)
        assert (len(heard), closed) == (3, code)
        assert len(server.sent("echo.2")) == 2
        assert len(server.sent("echo.3")) == 1
        server.close_after("ask", code)
        assert await talk(server, ask) == ([], code)
        assert len(server.received("ask")) == 4
        assert (await talk(server, ask))[1] is None


async def test_a_handshake_is_refused_with_a_status_and_headers() -> None:
    async with Echo() as server:
        server.refuse_connection(429, {"error": "slow down"}, {"retry-after": "2"})
        with pytest.raises(InvalidStatus) as caught:
            await talk(server)
        response = caught.value.response
        assert (response.status_code, response.headers["retry-after"]) == (429, "2")
        assert response.body == b'{"error": "slow down"}'
        assert await talk(server) == ([], None)


async def test_an_error_of_the_script_fails_the_test() -> None:
    class Broken(SocketServer):
        async def serve(self, socket: ServerSocket) -> None:
            await socket.receive()
            raise LookupError("the script has no reply")

    with pytest.raises(LookupError, match="no reply"):
        async with Broken() as server:
            assert (await talk(server, "x"))[1] == 1011


async def test_a_server_that_is_left_closes_open_connections() -> None:
    async with SocketServer() as server:
        client = await connect(server.websocket_base_url)
        await client.send('{"type": "ask"}')
        await server.until_received("ask")
    with pytest.raises(ConnectionClosed):
        await client.recv()
    await client.close()
