"""`outlast dev` and `outlast worker`: the two processes that stay.

Owns: the two commands, their words, and how a signal ends them. Must not know: how a server or a
worker works.
"""

import asyncio
import logging
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.agents.errors import AgentsException, ServerUnavailable, UserError
from outlast.cli import options, ports, terminal
from outlast.contract import names
from outlast.rendering import LogFormatter

if TYPE_CHECKING:
    from temporalio.client import Client

    from outlast.cli.agent_loading import Application
    from outlast.dev import EmbeddedServer
    from outlast.worker import AgentWorker

DEFAULT_PORT = 7233
DEFAULT_UI_PORT = 8233

_READY_POLL_SECONDS = 0.02
_LIFE_CHECK_SECONDS = 2.0
_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


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
        Path | None, typer.Option("--data-dir", help="Where its database is. Default: yours.")
    ] = None,
    in_memory: Annotated[
        bool, typer.Option("--in-memory", help="Keep nothing: forget everything at the end.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Run a Temporal server with its web UI on this machine, until Ctrl-C.

    Runs survive its end: they are in the data directory. Other commands find it by themselves.
    """
    if in_memory and data_dir is not None:
        raise typer.BadParameter("--in-memory keeps nothing, so it takes no --data-dir.")
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

    told = _told_to_stop()
    home = None if in_memory else data_dir or default_data_dir()
    if home is not None and port is None and running_server(home) is not None:
        port, ui_port = 0, 0  # whatever it has: it will be joined
    server = EmbeddedServer(
        data_dir=home,
        port=_free_unless_asked(port, DEFAULT_PORT),
        ui_port=_free_unless_asked(ui_port, DEFAULT_UI_PORT),
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
        await _until_told(told, server.address)
        terminal.say(console, "letting go of the server" if server.joined else "stopping")
    finally:
        await server.stop()


async def _until_told(told: asyncio.Event, address: str) -> None:
    while not told.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(told.wait(), _LIFE_CHECK_SECONDS)
        if not told.is_set() and not await asyncio.to_thread(ports.answers, address):
            raise ServerUnavailable(
                f"The Temporal server at {address} has ended. What was running goes on when "
                "`outlast dev` starts it again."
            )


def _welcome(server: "EmbeddedServer", home: Path | None, *, is_default: bool) -> None:
    console = terminal.out()
    first = "A Temporal server runs here already; it stays while this does."
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
    terminal.say(console, "  outlast worker MODULE            carries the runs of your agents")
    terminal.say(console, '  outlast run AGENT "Hello"        asks one of them')
    terminal.say(console, "Ctrl-C stops it" + ("." if home is None else "; runs are kept."))


def worker(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE[:NAME]",
            help="Where the agents are: an Agent or a list of them. NAME defaults to `agents`.",
            show_default=False,
        ),
    ],
    app_dir: Annotated[
        Path, typer.Option("--app-dir", help="Where MODULE is looked for first.")
    ] = Path(),
    task_queue: options.TaskQueue = options.DEFAULT_TASK_QUEUE,
    sessions: Annotated[
        list[Path] | None,
        typer.Option(
            "--sessions",
            envvar="OUTLAST_SESSIONS",
            help="A SQLite file of sessions, or a directory of them, that runs may use.",
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
    until_eof: Annotated[
        bool, typer.Option("--until-eof", help="Also stop when standard input ends.", hidden=True)
    ] = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Carry runs of your agents until Ctrl-C. Any number of workers may share a task queue.

    On Ctrl-C or SIGTERM it takes no more work and gives what runs 30 seconds to finish; what does
    not is tried again by another worker. A second Ctrl-C ends it at once, which loses nothing.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter(_LOG_FORMAT))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])

    async def work() -> None:
        from outlast.cli.agent_loading import load_application
        from outlast.cli.server_lookup import connect
        from outlast.ports.session import allow_place

        _log_on_standard_error()
        told = _told_to_stop(forced=True)
        if until_eof:
            _stop_at_end_of_input(told)
        application = load_application(target, app_dir)
        for place in sessions or ():
            allow_place(place)
        connection = await connect(address, namespace)
        client = connection.client
        await _carry(client, application, task_queue, told, as_json=as_json)

    asyncio.run(work())


def _log_on_standard_error() -> None:
    """Have the Temporal SDK's core log as Python does: by itself it writes to standard output."""
    from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig

    forwarding = LogForwardingConfig(logger=logging.getLogger("temporalio.core"))
    logs = LoggingConfig(filter=LoggingConfig.default.filter, forwarding=forwarding)
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=logs)))


async def _carry(
    client: "Client",
    application: "Application",
    task_queue: str,
    told: asyncio.Event,
    *,
    as_json: bool,
) -> None:
    from temporalio.service import RPCError

    from outlast.cli.pollers import pollers
    from outlast.worker import AgentWorker

    try:
        await pollers(client, task_queue)  # there is such a namespace
    except RPCError as error:
        raise _why_it_ended(client, error) from error
    carrier = AgentWorker(
        client,
        agents=application.agents,
        task_queue=task_queue,
        context_types=application.context_types,
    )
    running = asyncio.create_task(carrier.run())
    stopping = asyncio.create_task(told.wait())
    try:
        await _until_it_polls(client, task_queue, running, stopping)
        if not told.is_set():
            _show_ready(carrier, client, as_json=as_json)
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            terminal.say(
                terminal.err(), "stopping: what runs may take 30 s to finish; Ctrl-C ends it now"
            )
            await carrier.shutdown()
        await running
    except (RuntimeError, RPCError) as error:
        raise _why_it_ended(client, error) from error
    finally:
        stopping.cancel()


async def _until_it_polls(
    client: "Client", task_queue: str, *enders: "asyncio.Task[None] | asyncio.Task[bool]"
) -> None:
    """Return once the server sees this worker wait for runs, or when it ends before that."""
    from outlast.cli.pollers import pollers

    me = client.identity
    while not any(one.done() for one in enders):
        if me in await pollers(client, task_queue):
            return
        await asyncio.sleep(_READY_POLL_SECONDS)


def _show_ready(carrier: "AgentWorker", client: "Client", *, as_json: bool) -> None:
    agents = carrier.registry.names
    if as_json:
        terminal.print_json_line(
            {
                "status": "ready",
                "pid": os.getpid(),
                "task_queue": carrier.task_queue,
                "agents": agents,
                "address": client.service_client.config.target_host,
                "namespace": client.namespace,
            }
        )
        return
    terminal.say(
        terminal.out(),
        ("ready", "bold green"),
        f": process {os.getpid()} carries {', '.join(agents)} on the task queue "
        f"{carrier.task_queue!r} of {client.service_client.config.target_host}",
    )


def _why_it_ended(client: "Client", error: Exception) -> AgentsException:
    if "not found" in str(error).lower():
        return UserError(f"The namespace {client.namespace!r} does not exist there: {error}")
    where = client.service_client.config.target_host
    return ServerUnavailable(f"The worker lost the server at {where}: {error}")


def _told_to_stop(*, forced: bool = False) -> asyncio.Event:
    """Return what SIGINT and SIGTERM set; with `forced`, a second one ends the process."""
    told = asyncio.Event()

    def stop(number: int) -> None:
        if told.is_set() and forced:
            # Not `sys.exit`: threads of users' tools would be waited for.
            os._exit(128 + number)
        told.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    return told


def _stop_at_end_of_input(told: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def read() -> None:
        while os.read(0, 4096):
            pass
        loop.call_soon_threadsafe(told.set)

    threading.Thread(target=read, daemon=True).start()


def _free_unless_asked(asked: int | None, usual: int) -> int:
    """Return the port that was asked for, or else the usual one, or 0 where that is taken."""
    if asked is not None:
        return asked
    return usual if ports.is_free(usual) else 0
