"""`outlast worker`: the process that runs your agents."""

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.agents.errors import AgentsException, ServerUnavailable, UserError
from outlast.cli import options, server, terminal
from outlast.cli.signals import set_at_end_of_input, stop_requested
from outlast.rendering import LogFormatter

if TYPE_CHECKING:
    from temporalio.client import Client

    from outlast.cli.application import Application
    from outlast.worker import AgentWorker

_READY_POLL_SECONDS = 0.02
_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


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
    """Run your agents until Ctrl-C. Any number of workers may share a task queue.

    On Ctrl-C or SIGTERM it takes no more work and gives running calls 30 seconds to finish; another
    worker tries the rest again. A second Ctrl-C ends it at once, which loses nothing.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter(_LOG_FORMAT))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])

    async def work() -> None:
        from outlast.cli.application import load_application
        from outlast.ports.session import allow_place

        _log_on_standard_error()
        stop = stop_requested(forced=True)
        if until_eof:
            set_at_end_of_input(stop)
        application = load_application(target, app_dir)
        for place in sessions or ():
            allow_place(place)
        connection = await server.connect(address, namespace)
        client = connection.client
        await _serve(client, application, task_queue, stop, as_json=as_json)

    asyncio.run(work())


def _log_on_standard_error() -> None:
    """Make the Temporal SDK's core log through Python, instead of to standard output."""
    from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig

    forwarding = LogForwardingConfig(logger=logging.getLogger("temporalio.core"))
    logs = LoggingConfig(filter=LoggingConfig.default.filter, forwarding=forwarding)
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=logs)))


async def _serve(
    client: "Client",
    application: "Application",
    task_queue: str,
    stop: asyncio.Event,
    *,
    as_json: bool,
) -> None:
    from temporalio.service import RPCError

    from outlast.worker import AgentWorker

    try:
        await server.pollers(client, task_queue)  # fails if the namespace does not exist
    except RPCError as error:
        raise _why_it_ended(client, error) from error
    agent_worker = AgentWorker(
        client,
        agents=application.agents,
        task_queue=task_queue,
        context_types=application.context_types,
    )
    running = asyncio.create_task(agent_worker.run())
    stopping = asyncio.create_task(stop.wait())
    try:
        await _until_it_polls(client, task_queue, running, stopping)
        if not stop.is_set():
            _show_ready(agent_worker, client, as_json=as_json)
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            terminal.say(
                terminal.err(), "stopping: running calls have 30 s to finish; Ctrl-C ends them now"
            )
            await agent_worker.shutdown()
        await running
    except (RuntimeError, RPCError) as error:
        raise _why_it_ended(client, error) from error
    finally:
        stopping.cancel()


async def _until_it_polls(
    client: "Client", task_queue: str, *enders: "asyncio.Task[None] | asyncio.Task[bool]"
) -> None:
    """Wait until the server sees this worker poll, or until the worker ends."""
    me = client.identity
    while not any(one.done() for one in enders):
        if me in await server.pollers(client, task_queue):
            return
        await asyncio.sleep(_READY_POLL_SECONDS)


def _show_ready(agent_worker: "AgentWorker", client: "Client", *, as_json: bool) -> None:
    agents = agent_worker.registry.names
    if as_json:
        terminal.print_json_line(
            {
                "status": "ready",
                "pid": os.getpid(),
                "task_queue": agent_worker.task_queue,
                "agents": agents,
                "address": client.service_client.config.target_host,
                "namespace": client.namespace,
            }
        )
        return
    terminal.say(
        terminal.out(),
        ("ready", "bold green"),
        f": process {os.getpid()} runs {', '.join(agents)} on the task queue "
        f"{agent_worker.task_queue!r} of {client.service_client.config.target_host}",
    )


def _why_it_ended(client: "Client", error: Exception) -> AgentsException:
    if "not found" in str(error).lower():
        return UserError(f"The namespace {client.namespace!r} does not exist there: {error}")
    where = client.service_client.config.target_host
    return ServerUnavailable(f"The worker lost the server at {where}: {error}")
