"""`outlast worker`: the process that runs your agents."""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from outlast.agents.errors import AgentsException, ServerUnavailable, UserError, no_namespace
from outlast.cli import event_loop, options, server, terminal
from outlast.cli.caller import Caller
from outlast.cli.described import described
from outlast.cli.outage_log import CORE, OutageLog
from outlast.cli.process_log import log_to_standard_error
from outlast.cli.signals import EndOfInput, stop_requested
from outlast.cli.supervisor import DEFAULT_GRACE_SECONDS, stop_message, supervise
from outlast.views.records import JsonObject

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.worker import WorkerDeploymentConfig

    from outlast.worker import AgentWorker, AgentWorkerConfig

_READY_POLL_SECONDS = 0.02  # `outlast dev` waits for it after each save
_GRACE = timedelta(seconds=DEFAULT_GRACE_SECONDS)
_AFTER_GRACE = timedelta(seconds=15)
"""How long a worker without a parent may take to end when its grace is over."""


@described
def worker(
    context: typer.Context,
    target: str,
    app_dir: options.AppDir = Path(),
    task_queue: str | None = None,
    deployment: Annotated[str | None, typer.Option(envvar="TEMPORAL_DEPLOYMENT_NAME")] = None,
    build_id: Annotated[str | None, typer.Option(envvar="TEMPORAL_WORKER_BUILD_ID")] = None,
    sessions: Annotated[list[Path] | None, typer.Option(envvar="OUTLAST_SESSIONS")] = None,
    approvals: options.Approvals = None,
    processes: Annotated[int, typer.Option(min=1)] = 1,
    verbose: bool = False,
    any_key: bool = False,
    until_eof: Annotated[bool, typer.Option(hidden=True)] = False,
    ready_fd: Annotated[int | None, typer.Option("--ready-fd", hidden=True)] = None,
    *,
    caller: Caller,
) -> None:
    """Run your agents until Ctrl-C. Any number of workers may share a task queue.

    On Ctrl-C or SIGTERM it takes no more work and gives running calls 30 seconds to finish; another
    worker tries the rest again. A second Ctrl-C ends it at once, which loses nothing.

    With --processes, this process starts that many workers and replaces those that die.

    Command line:
        target (TARGET): Where the agents are: a file such as travel.py or a module, and after a
            colon a name in it: an Agent, a list of them, or a function that returns an
            AgentWorkerConfig. Default name: `worker_config`, then `agents`, then the only agent.
        task_queue: The task queue of the runs. [default: outlast]
        deployment (NAME): The worker deployment, where runs stay at the version that they began at.
        build_id (ID): The version of this worker in its deployment.
        sessions: A SQLite file of sessions, or a directory of them, that runs may use.
        processes: How many worker processes; one uses one core.
        verbose (--verbose -v): Log more.
        any_key: Start even without a key for the models, or with a refused one.
        until_eof: Also stop when standard input ends.
    """
    log_to_standard_error(logging.INFO if verbose else logging.WARNING)
    if processes > 1:
        given = {**context.params, "debug": bool(context.find_root().obj)}
        raise typer.Exit(supervise(_arguments(given), processes))

    async def work() -> None:
        from outlast.sessions.described import allow_place

        outages = _log_core_through_python()
        stop = stop_requested()
        end = EndOfInput(stop, within=_GRACE + _AFTER_GRACE) if until_eof else None
        version = _deployment_config(deployment, build_id)
        given = {"task_queue": task_queue, "approvals": approvals, "deployment_config": version}
        config = _config(target, app_dir, given)
        if end is not None:
            end.within = config.get("graceful_shutdown_timeout", _GRACE) + _AFTER_GRACE
        for place in sessions or ():
            allow_place(place)
        client = (await caller.connect()).client
        outages.watch(client)
        await _serve(client, config, stop, any_key, caller.as_json, until_eof, ready_fd)

    event_loop.run(work())


def _config(target: str, app_dir: Path, given: Mapping[str, object]) -> "AgentWorkerConfig":
    """Return the config of a target, where an option that is given goes before what it says."""
    from outlast.cli.application import load_config

    config = load_config(target, app_dir)
    config.update(cast("Any", {name: one for name, one in given.items() if one is not None}))
    return config


def _deployment_config(
    deployment: str | None, build_id: str | None
) -> "WorkerDeploymentConfig | None":
    """Return the version of a worker whose runs stay at it; None for a worker without one."""
    from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
    from temporalio.worker import WorkerDeploymentConfig

    if not deployment and not build_id:
        return None
    if not deployment or not build_id:
        raise UserError("A version needs both: --deployment NAME and --build-id ID.")
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment, build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )


def _arguments(given: dict[str, Any]) -> list[str]:
    target, arguments = given.pop("target"), list[str]()
    for name, value in given.items():
        if name in {"processes", "codec"} or not value:  # the environment has the codec
            continue
        option = "--json" if name == "as_json" else f"--{name.replace('_', '-')}"
        places = cast("list[Path]", value) if isinstance(value, list) else [value]
        arguments += [option] if value is True else [f"{option}={one}" for one in places]
    return [*arguments, "--", target]


def _log_core_through_python() -> OutageLog:
    from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig

    core, outages = logging.getLogger(CORE), OutageLog()
    core.addFilter(outages)
    forwarding = LogForwardingConfig(logger=core)
    logs = LoggingConfig(filter=LoggingConfig.default.filter, forwarding=forwarding)
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=logs)))
    return outages


async def _serve(
    client: "Client",
    config: "AgentWorkerConfig",
    stop: asyncio.Event,
    any_key: bool,
    as_json: bool,
    is_child: bool,
    ready_fd: int | None,
) -> None:
    from temporalio.service import RPCError

    from outlast.worker import AgentWorker

    task_queue = config.get("task_queue", options.DEFAULT_TASK_QUEUE)
    grace = config.get("graceful_shutdown_timeout", _GRACE)
    try:
        await server.pollers(client, task_queue)  # fails if the namespace does not exist
    except RPCError as error:
        raise _error_of_end(client, error) from error
    agent_worker = AgentWorker(client, **cast("dict[str, Any]", config))
    found = await _found(agent_worker, next(iter(config["agents"])).name, any_key=any_key)
    running = asyncio.create_task(agent_worker.run())
    stopping = asyncio.create_task(stop.wait())
    try:
        await _until_it_polls(client, task_queue, running, stopping)
        if not stop.is_set():
            if ready_fd is not None:
                with socket.socket(fileno=ready_fd) as parent:
                    parent.send(f"{grace.total_seconds()}".encode())
            _show_ready(agent_worker, client, found, as_json=as_json)
            event_loop.keep_loaded()
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            if not is_child:  # the parent says it
                terminal.say(terminal.err(), stop_message(grace.total_seconds()))
            await agent_worker.shutdown()
        await running
    except (RuntimeError, RPCError) as error:
        raise _error_of_end(client, error) from error
    finally:
        stopping.cancel()


async def _found(agent_worker: "AgentWorker", starts_with: str, *, any_key: bool) -> JsonObject:
    from outlast.agents.tools.hosted import function_tools

    registry = agent_worker.registry
    tools = {
        tool.name for name in registry.names for tool in function_tools(registry.agent(name).tools)
    }
    found: JsonObject = {
        "agents": registry.names,
        "starts_with": starts_with,
        "tools": sorted(tools),
    }
    try:
        return {**found, "models": [*await agent_worker.check_models()]}
    except UserError as error:
        if not any_key:
            raise
        return {**found, "models": [], "model_problem": error.message}


async def _until_it_polls(
    client: "Client", task_queue: str, *enders: "asyncio.Task[None] | asyncio.Task[bool]"
) -> None:
    me = client.identity
    while not any(task.done() for task in enders):
        if me in await server.pollers(client, task_queue):
            return
        await asyncio.sleep(_READY_POLL_SECONDS)


def _show_ready(
    agent_worker: "AgentWorker", client: "Client", found: JsonObject, *, as_json: bool
) -> None:
    if as_json:
        terminal.print_json_line(
            {
                "status": "ready",
                "pid": os.getpid(),
                "task_queue": agent_worker.task_queue,
                **found,
                "address": client.service_client.config.target_host,
                "namespace": client.namespace,
            }
        )
        return
    if problem := found.get("model_problem"):
        terminal.warn(str(problem))
    terminal.say(
        terminal.out(),
        ("ready", "bold green"),
        f": process {os.getpid()} runs {', '.join(agent_worker.registry.names)} on the task queue "
        f"{agent_worker.task_queue!r} of {client.service_client.config.target_host}",
    )


def _error_of_end(client: "Client", error: Exception) -> AgentsException:
    if "not found" in str(error).lower():
        return no_namespace(client.namespace)
    where = client.service_client.config.target_host
    return ServerUnavailable(f"The worker lost the server at {where}: {error}")
