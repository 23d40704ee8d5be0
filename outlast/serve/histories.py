"""Reads the requests of clients that send their whole history each time, with every photo in it.

A history grows without bound, and of its photos only those of the newest message are new. Memory
stays bounded: of the long texts in a body, the oldest are left out.
"""

import asyncio
import re
from collections import deque
from typing import Final, cast

from starlette.requests import Request

from outlast.agents.errors import UserError
from outlast.agents.json_values import as_object
from outlast.edges.bodies import DOORS, Scan, loads
from outlast.serve.routing import LARGEST_BODY, BodyTooLarge, allow_body, door_of
from outlast.views.records import JsonObject

LONG: Final = 10_000
"""From how many bytes on a text in a history may be left out, such as a photo."""

_PIECE: Final = 65_536
_SPECIAL: Final = re.compile(rb'["\\]')


async def history_body(request: Request) -> bytes:
    """Return the body of a request; of its long texts, those before the newest 30 MB are empty.

    Raises:
        HTTPException: one text, everything but the long texts, or the body, is too large.
        BodyRefused: it is nested too deep, or has too many values.
    """
    allow_body(request, DOORS["history"])
    reader, scan = HistoryReader(), Scan(door_of(request, DOORS["history"]))
    async for chunk in request.stream():
        for at in range(0, len(chunk), _PIECE):
            piece = chunk[at : at + _PIECE]
            scan.feed(piece)
            reader.feed(piece)
            await asyncio.sleep(0)  # a piece may hold twenty thousand texts
    return reader.body()


async def json_history(request: Request) -> JsonObject:
    """Return the JSON object in the body of a request, as `history_body` reads it.

    Raises:
        UserError: it is none.
        HTTPException: it is too large.
    """
    content = await history_body(request)
    try:
        body = as_object(loads(content))
    except (ValueError, RecursionError):
        body = None
    if body is None:
        raise UserError("The body must be a JSON object.")
    return body


class HistoryReader:
    """Reads JSON in pieces, and keeps of its long texts the newest ones.

    Args:
        most: how many bytes of long texts, and of everything else, are kept.
    """

    def __init__(self, most: int = LARGEST_BODY) -> None:
        self._most = most
        self._parts: list[bytearray] = [bytearray()]
        self._long: deque[bytearray] = deque()
        self._long_bytes = 0
        self._bytes = 0
        self._text: bytearray | None = None
        self._is_escaped = False

    def feed(self, chunk: bytes) -> None:
        """Take the next piece.

        Raises:
            HTTPException: the body is too large.
        """
        at = 0
        while at < len(chunk):
            at = self._outside(chunk, at) if self._text is None else self._inside(chunk, at)

    def body(self) -> bytes:
        """Return what is kept."""
        if self._text is not None:
            self._keep(self._text)
        return b"".join(self._parts)

    def _outside(self, chunk: bytes, at: int) -> int:
        quote = chunk.find(b'"', at)
        end = len(chunk) if quote < 0 else quote + 1
        self._keep(chunk[at:end])
        self._text = None if quote < 0 else bytearray()
        return end

    def _inside(self, chunk: bytes, at: int) -> int:
        text = cast("bytearray", self._text)
        begin = at
        if self._is_escaped:
            self._is_escaped, at = False, at + 1
        while (found := _SPECIAL.search(chunk, at)) is not None:
            at = found.end()
            if found[0] == b'"':
                text += chunk[begin : at - 1]
                self._close(text)
                return at
            if at == len(chunk):
                self._is_escaped = True
                break
            at += 1
        text += chunk[begin:]
        self._check(len(text))
        return len(chunk)

    def _close(self, text: bytearray) -> None:
        self._text = None
        self._check(len(text))
        if len(text) < LONG:
            self._keep(text)
        else:
            self._parts += [text, bytearray()]
            self._long.append(text)
            self._long_bytes += len(text)
            while self._long_bytes > self._most:
                oldest = self._long.popleft()
                self._long_bytes -= len(oldest)
                oldest.clear()
        self._keep(b'"')

    def _keep(self, piece: bytes | bytearray) -> None:
        self._bytes += len(piece)
        self._check(self._bytes)
        self._parts[-1] += piece

    def _check(self, size: int) -> None:
        if size > self._most:
            raise BodyTooLarge(DOORS["wire"])
