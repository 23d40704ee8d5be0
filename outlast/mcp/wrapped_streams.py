"""What wraps a stream of the `mcp` package's transports, to look at its messages."""

from types import TracebackType
from typing import Any, Self


class WrappedStream:
    """A stream that closes with the one in it.

    Args:
        stream: the stream of the package.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)
