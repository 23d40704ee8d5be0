"""The `ModelServer` of WebSockets: it plays the answers of a test, and records the requests."""

import asyncio
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from outlast.agents.json_values import as_object
from outlast.loop.values import JsonObject
from outlast.testing.socket_server import ServerSocket, SocketServer
from tests.unit.models.model_server import Received


@dataclass(frozen=True, slots=True)
class _Frames:
    frames: Sequence[str | bytes]
    cut: bool = False
    hang: bool = False
    played: asyncio.Event = field(default_factory=asyncio.Event)


class SocketModelServer(SocketServer):
    """Plays its answers in order; asked once more than it has answers, it drops the connection."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Received] = []
        self.connections = 0
        self._answers: deque[_Frames] = deque()

    @property
    def base_url(self) -> str:
        return self.websocket_base_url

    @property
    def request(self) -> Received:
        """The only request so far."""
        assert len(self.requests) == 1
        return self.requests[0]

    def reset(self) -> None:
        self.requests.clear()
        self._answers.clear()
        self.connections = 0

    def answer(
        self, body: object, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer with a body as the last event, or as an error event with the status."""
        if status == 200:
            self.stream([{"type": "response.completed", "response": body}])
            return
        error = {"type": "error", "status": status, "headers": dict(headers or {})}
        self.stream([{**error, **(as_object(body) or {})}])

    def stream(self, events: Sequence[object], *, cut: bool = False, hang: bool = False) -> None:
        """Answer with events; texts and bytes go out as they are.

        `cut` drops the connection after them; `hang` leaves it open and silent.
        """
        frames = [
            event if isinstance(event, bytes | str) else json.dumps(event) for event in events
        ]
        self._answers.append(_Frames(frames, cut=cut, hang=hang))

    def drop(self) -> None:
        """Drop the connection at the request."""
        self.stream([], cut=True)

    def hang(self) -> asyncio.Event:
        """Say nothing, for ever; the event tells when the request has come."""
        answer = _Frames([], hang=True)
        self._answers.append(answer)
        return answer.played

    async def serve(self, socket: ServerSocket) -> None:
        self.connections += 1
        number = 0
        async for body in socket:
            number += 1
            request: JsonObject = {**body}
            assert request.pop("type") == "response.create"
            self.requests.append(Received(socket.path, socket.query, socket.headers, request))
            answer = self._answers.popleft() if self._answers else _Frames([], cut=True)
            answer.played.set()
            for frame in answer.frames:
                await socket.send(_numbered(frame, number))
            if answer.cut:
                await socket.close(1006)
                return
            if answer.hang:
                await socket.receive()  # until the other side has had enough


def _numbered(frame: str | bytes, number: int) -> str | bytes:
    """Give each response of a connection its own id, as servers do; that of tests is `resp_1`."""
    return frame.replace('"resp_1"', f'"resp_{number}"') if isinstance(frame, str) else frame
