"""The transport to a server that is a child process, whose messages are bounded.

The package's own transport keeps a line of any length, copies it for each piece that comes, and
parses whatever it holds.
"""

import codecs
import contextlib
import re
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, Final, TextIO

import anyio
import mcp.types as mcp_types
from anyio.abc import Process
from mcp.client.stdio import StdioServerParameters, get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage

from outlast.agents.logs import get_logger
from outlast.edges.bodies import DOORS, BodyRefused, Scan

logger: Final = get_logger(__name__)

END_SECONDS: Final = 2.0
"""How long a process may take to end when its input is closed, and again after a SIGTERM."""

_FLUSH_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.01
_KEPT: Final = 500

_ID: Final = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")\s*'
_ID_AT_THE_BEGINNING: Final = re.compile(rb"[^{]*\{[^{\[]*?" + _ID)
_ID_AT_THE_END: Final = re.compile(rb"[\]}]\s*,[^{}\[\]]*?" + _ID + rb"[^{}\[\]]*\}\s*\Z")


class MessageReader:
    """Makes messages of what a process writes. One beyond the limits is an error in its place."""

    def __init__(self) -> None:
        self._begin()

    def feed(self, data: bytes) -> list[SessionMessage | Exception]:
        """Take the next piece, and return the messages that it completes."""
        *lines, rest = data.split(b"\n")
        found: list[SessionMessage | Exception] = []
        for line in lines:
            self._take(line)
            found.append(self._message())
            self._begin()
        self._take(rest)
        return found

    def _begin(self) -> None:
        self._scan = Scan(DOORS["mcp"])
        self._line = bytearray()
        self._head = self._tail = b""
        self._refused: BodyRefused | None = None

    def _take(self, piece: bytes) -> None:
        if self._refused is None:
            try:
                self._scan.feed(piece)
            except BodyRefused as error:
                self._refused = error
                self._head = bytes(self._line[:_KEPT] + piece[:_KEPT])
                self._line = bytearray()
            else:
                self._line += piece
                return
        self._tail = (self._tail + piece)[-_KEPT:]

    def _message(self) -> SessionMessage | Exception:
        if self._refused is not None:
            return self._answer(self._refused)
        try:
            message = mcp_types.jsonrpc_message_adapter.validate_json(
                bytes(self._line), by_name=False
            )
        except ValueError as error:
            # The error quotes the line, which may be what a tool has returned.
            logger.error(  # noqa: TRY400
                "an MCP server has written a line of %d bytes that is no message of the protocol",
                len(self._line),
            )
            return error
        return SessionMessage(message)

    def _answer(self, error: BodyRefused) -> SessionMessage | Exception:
        """Return an error for the request whose answer is refused, if the answer names it."""
        logger.warning("an answer of an MCP server is refused: %s", error)
        found = _ID_AT_THE_BEGINNING.match(self._head) or _ID_AT_THE_END.search(self._tail)
        if found is None:
            return error
        written = found[1].decode(errors="replace")
        own = written[1:-1] if written.startswith('"') else int(written)
        data = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=str(error))
        return SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=own, error=data))


@contextlib.asynccontextmanager
async def bounded_stdio(
    parameters: StdioServerParameters, log: TextIO
) -> AsyncGenerator[tuple[Any, Any]]:
    """Start a process, and open the streams to it and from it.

    Raises:
        OSError: it cannot be started.
    """
    process = await anyio.open_process(
        [parameters.command, *parameters.args],
        env=get_default_environment() | (parameters.env or {}),
        stderr=log,
        cwd=parameters.cwd,
        start_new_session=True,
    )
    to_client, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_client = anyio.create_memory_object_stream[SessionMessage](0)
    is_written = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, process, parameters, to_client)
        tasks.start_soon(_write, process, parameters, from_client, to_client, is_written)
        try:
            yield read, write
        finally:
            # Also where the caller is cancelled: a process must not stay.
            with anyio.CancelScope(shield=True):
                read.close()  # a process that cannot write does not read, either
                write.close()
                with anyio.move_on_after(_FLUSH_SECONDS):
                    await is_written.wait()
                await _end(process)
                to_client.close()
                from_client.close()
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()


async def _read(process: Process, parameters: StdioServerParameters, to_client: Any) -> None:
    assert process.stdout is not None  # noqa: S101  opened with pipes
    decoder = codecs.getincrementaldecoder(parameters.encoding)(parameters.encoding_error_handler)
    reader = MessageReader()
    broken = (anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError)
    with contextlib.suppress(*broken):
        try:
            async with to_client:
                async for chunk in process.stdout:
                    data = decoder.decode(chunk).encode("utf-8", errors="surrogatepass")
                    for message in reader.feed(data):
                        await to_client.send(message)
        finally:
            with anyio.CancelScope(shield=True), contextlib.suppress(*broken, anyio.EndOfStream):
                while True:  # a process that cannot write does not end
                    await process.stdout.receive()


async def _write(
    process: Process,
    parameters: StdioServerParameters,
    from_client: Any,
    to_client: Any,
    is_written: anyio.Event,
) -> None:
    assert process.stdin is not None  # noqa: S101  opened with pipes
    encode = partial(str.encode, encoding=parameters.encoding)
    try:
        async with from_client:
            async for one in from_client:
                text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(
                    encode(f"{text}\n", errors=parameters.encoding_error_handler)
                )
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        to_client.close()  # a request would wait for ever
    finally:
        is_written.set()


async def _end(process: Process) -> None:
    """End a process and its children: close its input, wait, then end all of them."""
    await _close(process.stdin)
    if not await _has_ended(process):
        await terminate_posix_process_tree(process, END_SECONDS)
        if not await _has_ended(process):
            logger.warning("the process %d of an MCP server cannot be ended", process.pid)
    await _close(process.stdout)
    # Nothing else closes it where a child of the process still has the pipe.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    with contextlib.suppress(PermissionError):
        if transport is not None:
            transport.close()


async def _has_ended(process: Process) -> bool:
    with anyio.move_on_after(END_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110  `wait` waits for its pipes, too
            await anyio.sleep(_POLL_SECONDS)
    return process.returncode is not None


async def _close(stream: Any) -> None:
    with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await stream.aclose()
