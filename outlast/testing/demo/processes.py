"""The demo's processes: starting, killing and cleaning them up.

They exit when their standard input ends, which happens when the demo ends, in any way.
"""

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import outlast
from outlast.agents.config.run_config import RunConfig
from outlast.agents.errors import AgentsException
from outlast.agents.hosts import free_port
from outlast.dev import EmbeddedServer, running_server

EXAMPLE = Path("support_desk", "app.py")
MODULE = "support_desk.app"
POLICIES = "support_desk.policies"
DESK_PERSON = "lee"
DESK_GROUPS = ("leads", "billing")
"""Whose desk it is: somebody who may decide all that the story asks."""

_READY_SECONDS = 30.0
_STOP_SECONDS = 5.0
_LOG_LINES = 12
_LOOK_SECONDS = 0.02


class DemoFailed(AgentsException):
    """The demo did not reach its expected end; the message says why."""

    code = "demo_failed"


def examples_dir() -> Path:
    """Return the directory of the support desk example, next to the package or in it."""
    package = Path(outlast.__file__).parent
    for directory in (package.parent / "examples", package / "examples"):
        if (directory / EXAMPLE).is_file():
            return directory
    raise DemoFailed(f"The example {EXAMPLE} is not installed, neither in nor beside {package}.")


def desk_settings() -> RunConfig:
    """Return the settings of a conversation, as the example defines them."""
    directory = str(examples_dir())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    return import_module(POLICIES).run_config()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Settings that all workers of a demo share."""

    address: str
    namespace: str
    home: Path
    environment: dict[str, str]


class Child:
    """A process in its own session, so that Ctrl-C reaches only the demo."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    @classmethod
    async def start(
        cls, name: str, arguments: list[str], *, home: Path, environment: dict[str, str]
    ) -> "Child":
        """Start a Python module as a process."""
        log = home / f"{name.replace(' ', '-')}.log"
        with log.open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                cwd=home,
                env=_inherited() | environment,
                start_new_session=True,
            )
        return cls(name, process, log)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.returncode is None

    async def first_line(self) -> str:
        """Return the line that the process prints when it is ready."""
        line = b""
        if self._process.stdout is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_READY_SECONDS):
                    line = await self._process.stdout.readline()
        if not line:
            raise DemoFailed(f"The {self.name} did not start. {self.last_words()}")
        return line.decode().strip()

    async def kill(self) -> None:
        """End the process with SIGKILL, which it cannot handle."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        await self._process.wait()

    async def stop(self) -> None:
        """End the process with SIGTERM, and after a few seconds with SIGKILL."""
        if self.is_running:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                await self.kill()

    def last_words(self) -> str:
        """Return the end of the process's log, for an error message."""
        lines = self._log.read_text(errors="replace").strip().splitlines()[-_LOG_LINES:]
        return "\n".join(["Its log ends with", *lines]) if lines else "Its log is empty."


async def start_worker(
    number: int, settings: WorkerSettings, children: list[Child], *, delay: timedelta
) -> Child:
    """Start a worker, and return when it polls for work."""
    arguments = ["outlast.cli.entry", "worker", MODULE, "--app-dir", str(examples_dir())]
    arguments += ["--address", settings.address, "--namespace", settings.namespace]
    arguments += ["--json", "--until-eof"]
    environment = settings.environment | {
        "SUPPORT_DESK_TOOL_DELAY_SECONDS": f"{delay.total_seconds():g}"
    }
    child = await Child.start(
        f"worker {number}", arguments, home=settings.home, environment=environment
    )
    children.append(child)
    line = await child.first_line()
    if json.loads(line)["status"] != "ready":
        raise DemoFailed(f"The {child.name} is not ready: {line}")
    return child


@dataclass(slots=True)
class Desk:
    """The demo's `outlast serve`, which can be killed and started again at its address.

    Attributes:
        url: its address.
    """

    url: str
    _process: Child
    _settings: WorkerSettings
    _children: list[Child]

    @classmethod
    async def start(cls, settings: WorkerSettings, children: list[Child]) -> "Desk":
        """Start it at a free port, and return when it answers."""
        process, url = await _start_desk(free_port(), settings, children)
        return cls(url, process, settings, children)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def kill(self) -> None:
        """End the process with SIGKILL."""
        await self._process.kill()

    async def start_again(self) -> None:
        """Start it at the address that its pages have."""
        port = int(self.url.rpartition(":")[2])
        self._process, _ = await _start_desk(port, self._settings, self._children)


async def _start_desk(
    port: int, settings: WorkerSettings, children: list[Child]
) -> tuple[Child, str]:
    arguments = ["outlast.cli.entry", "serve", MODULE, "--app-dir", str(examples_dir())]
    arguments += ["--address", settings.address, "--namespace", settings.namespace]
    arguments += ["--as", DESK_PERSON, "--groups", ",".join(DESK_GROUPS), "--port", str(port)]
    arguments += ["--json", "--until-eof"]
    child = await Child.start(
        "desk", arguments, home=settings.home, environment=settings.environment
    )
    children.append(child)
    return child, json.loads(await child.first_line())["url"]


async def kill_server(server: EmbeddedServer, data_dir: Path) -> EmbeddedServer:
    """Kill a Temporal server with SIGKILL; return another one on its database, not started."""
    ports = [int(url.rpartition(":")[2]) for url in (server.address, server.ui_url or ":0")]
    with suppress(ProcessLookupError):
        os.kill(server.info.pid, signal.SIGKILL)
    while running_server(data_dir) is not None:  # noqa: ASYNC110  nothing announces its end
        await asyncio.sleep(_LOOK_SECONDS)
    await server.stop()
    return EmbeddedServer(data_dir=data_dir, port=ports[0], ui_port=ports[1])


def _inherited() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TEMPORAL_")}
    return kept | {"TEMPORAL_CONFIG_FILE": os.devnull}
