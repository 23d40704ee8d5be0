"""`outlast dev`: a Temporal server with its web UI on this machine."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.agents.errors import ServerUnavailable
from outlast.cli import options, terminal
from outlast.cli.server import answers, is_free
from outlast.cli.signals import stop_requested
from outlast.contract import names

if TYPE_CHECKING:
    from outlast.dev import EmbeddedServer

DEFAULT_PORT = 7233
DEFAULT_UI_PORT = 8233

_LIFE_CHECK_SECONDS = 2.0


def dev(
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, help=f"Default: {DEFAULT_PORT}, or a free one. 0: free."),
    ] = None,
    ui_port: Annotated[
        int | None,
        typer.Option("--ui-port", min=0, help=f"Default: {DEFAULT_UI_PORT}, or a free one."),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", help="Where the database is. Default: in your home directory."),
    ] = None,
    in_memory: Annotated[
        bool, typer.Option("--in-memory", help="Keep nothing after the end.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Run a Temporal server with its web UI on this machine, until Ctrl-C.

    Runs are kept in the data directory and continue when it starts again. Other commands find the
    server by themselves.
    """
    if in_memory and data_dir is not None:
        raise typer.BadParameter("--in-memory keeps nothing, so leave out --data-dir.")
    asyncio.run(_serve(port, ui_port, data_dir, in_memory=in_memory, as_json=as_json))


async def _serve(
    port: int | None,
    ui_port: int | None,
    data_dir: Path | None,
    *,
    in_memory: bool,
    as_json: bool,
) -> None:
    from outlast.dev import EmbeddedServer, default_data_dir, running_server

    stop = stop_requested()
    home = None if in_memory else data_dir or default_data_dir()
    if home is not None and port is None and running_server(home) is not None:
        port, ui_port = 0, 0  # the running server is joined, whatever ports it has
    server = EmbeddedServer(
        data_dir=home,
        port=_free_unless_named(port, DEFAULT_PORT),
        ui_port=_free_unless_named(ui_port, DEFAULT_UI_PORT),
        search_attributes=names.SEARCH_ATTRIBUTES,
    )
    console = terminal.err()
    async with terminal.waiting(console, "starting a Temporal server"):
        await server.start()
    try:
        if as_json:
            info = server.info
            terminal.print_json_line(
                {
                    "address": info.address,
                    "ui": info.ui_url,
                    "namespace": info.namespace,
                    "pid": info.pid,
                    "data_dir": str(home) if home else None,
                    "joined": server.joined,
                }
            )
        else:
            _welcome(server, home, is_default=data_dir is None)
        await _until_stopped(stop, server.address)
        terminal.say(console, "leaving the server to others" if server.joined else "stopping")
    finally:
        await server.stop()


async def _until_stopped(stop: asyncio.Event, address: str) -> None:
    while not stop.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(_LIFE_CHECK_SECONDS):
                await stop.wait()
        if not stop.is_set() and not await asyncio.to_thread(answers, address):
            raise ServerUnavailable(
                f"The Temporal server at {address} has ended. Runs continue when `outlast "
                "dev` starts it again."
            )


def _welcome(server: "EmbeddedServer", home: Path | None, *, is_default: bool) -> None:
    console = terminal.out()
    first = "Joined the Temporal server that runs here already; it stays while this does."
    terminal.say(console, (first if server.joined else "A Temporal server is ready.", "bold green"))
    rows = [
        ("address", server.address),
        ("UI", server.ui_url or "none"),
        ("data", str(home) if home else "in memory: gone when it stops"),
    ]
    for name, value in rows:
        terminal.say(console, (f"  {name:<8} ", "dim"), value)
    terminal.say(console, "Next, in another terminal:")
    if not is_default or home is None:
        terminal.say(console, f"  export TEMPORAL_ADDRESS={server.address}")
    terminal.say(console, "  outlast worker MODULE            runs your agents")
    terminal.say(console, '  outlast run AGENT "Hello"        asks one of them')
    terminal.say(console, "Ctrl-C stops it" + ("." if home is None else "; runs are kept."))


def _free_unless_named(named: int | None, default: int) -> int:
    """Return the port from the command line, else the default, or 0 if that is taken."""
    if named is not None:
        return named
    return default if is_free(default) else 0
