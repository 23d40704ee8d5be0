"""Desks and workers of a deployment as processes, and people who act at the desks by HTTP."""

import asyncio
import json
import os
import secrets
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx2
from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client
from temporalio.service import RPCError

from benchmarks.desk_agents import DEPLOYMENT
from outlast.contract.identity import new_shared_key

ROOT = Path(__file__).resolve().parent.parent
URL: Final = "https://desk.example.com"
"""The address of the desks as browsers have it; a proxy would pass its requests on."""

PROGRAM_KEY: Final = "a-key-of-a-shop-that-nobody-guesses"
START_SECONDS = 60
STOP_SECONDS = 60
RETRY_SECONDS = 0.25
PATIENCE_SECONDS = 120
BUSY: Final = frozenset({429, 503})
"""The statuses with which a desk asks to come again."""


class Process:
    """A command of `outlast`, in a process of its own.

    Attributes:
        name: what it is called in reports.
    """

    def __init__(self, name: str, arguments: list[str], env: dict[str, str], log: Path) -> None:
        """Describe it; `start` starts it."""
        self.name = name
        self._arguments = arguments
        self._env = env
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Its process id; 0 while it does not run."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process is not None else 0

    async def start(self) -> None:
        """Start it, and return when it is ready."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "outlast.cli.entry", *self._arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, **self._env},
                cwd=ROOT,
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = await self._process.stdout.readline()
        if not line or json.loads(line).get("status") != "ready":
            raise RuntimeError(f"{self.name} did not start: {line!r} {self._log.read_text()}")

    async def stop(self) -> None:
        """End it in order: SIGTERM, and SIGKILL where that does not end it."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """End it with SIGKILL."""
        await self._end(signal.SIGKILL)

    async def _end(self, number: int) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
        try:
            await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


class Deployment:
    """Desks and workers on a Temporal server. Leaving the block ends all of them.

    Attributes:
        client: connected to the server.
        home: where the ledger and the logs are.
        workers: the workers by name.
        desks: the desks, in the order of their ports.
        ports: the ports of the desks.
    """

    def __init__(self, client: Client, address: str, home: Path, *, pace: float = 0) -> None:
        """Describe it; nothing runs yet."""
        self.client = client
        self.home = home
        self.workers: dict[str, Process] = {}
        self.desks: list[Process] = []
        self.ports: list[int] = []
        self._server = ["--address", address, "--namespace", "default", "--app-dir", str(ROOT)]
        self._env = {
            "PYTHONPATH": str(ROOT),
            "OUTLAST_IDENTITY_KEY": new_shared_key(),
            "OUTLAST_CONVERSATION_KEY": new_shared_key(),
            "OUTLAST_API_KEYS": f"shop={PROGRAM_KEY}",
            "CLUSTER_LEDGER": str(home / "ledger.db"),
            "CLUSTER_PACE": str(pace),
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.gather(*(one.kill() for one in [*self.workers.values(), *self.desks]))

    async def start_worker(self, name: str, build: str) -> None:
        """Start a worker of a version, also in the place of one that has ended."""
        command = ["worker", "benchmarks.desk_agents:worker_config", *self._server, "--any-key"]
        env = {**self._env, "CLUSTER_BUILD": build}
        log = self.home / f"worker-{name}.log"
        self.workers[name] = Process(f"worker {name}", [*command, "--json"], env, log)
        await self.workers[name].start()

    async def start_desk(self) -> None:
        """Start one more desk."""
        number, port = len(self.desks), _free_port()
        command = ["serve", "benchmarks.desk_agents:desk_config", *self._server, "--json"]
        command += ["--port", str(port), "--url", URL, "--proxy", "127.0.0.1"]
        command += ["--role", "support=viewer,decider,operator"]
        log = self.home / f"desk-{number}.log"
        self.desks.append(Process(f"desk {number}", command, self._env, log))
        self.ports.append(port)
        await self.desks[number].start()

    async def choose(self, build: str) -> None:
        """Make a version the current one."""
        request = SetWorkerDeploymentCurrentVersionRequest(
            namespace="default", deployment_name=DEPLOYMENT, build_id=build
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:  # the server has to have seen a worker of it
                with suppress(RPCError):
                    await self.client.workflow_service.set_worker_deployment_current_version(
                        request
                    )
                    return
                await asyncio.sleep(RETRY_SECONDS)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- People at the desks -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """What a desk answered.

    Attributes:
        status: the HTTP status.
        body: the JSON; None where the answer has none.
        was_repeated: whether an earlier attempt was cut, so that nobody knows what it did.
    """

    status: int
    body: Any
    was_repeated: bool = False

    def ok(self) -> Any:
        """Return the body of a request that succeeded.

        Raises:
            AssertionError: it did not.
        """
        assert self.status < 300, f"{self.status}: {self.body}"
        return self.body


@dataclass
class Desks:
    """The desks as people and programs reach them.

    Attributes:
        ports: the ports of the desks.
        cut: how many requests were cut or refused by a desk that ended, and were repeated.
        busy: how many requests a desk answered with 429 or 503, and were repeated.
    """

    ports: list[int]
    cut: int = 0
    busy: int = 0
    _clients: list[httpx2.AsyncClient] = field(default_factory=list[httpx2.AsyncClient])

    async def __aenter__(self) -> Self:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
        self._clients = [
            httpx2.AsyncClient(
                base_url=f"http://127.0.0.1:{port}",
                headers={"Host": URL.removeprefix("https://"), "Origin": URL},
                trust_env=False,
                timeout=60,
                limits=limits,
            )
            for port in self.ports
        ]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.gather(*(one.aclose() for one in self._clients))

    async def send(
        self,
        method: str,
        path: str,
        desk: int,
        headers: dict[str, str],
        body: Any = None,
        *,
        anywhere: bool = False,
    ) -> Answer:
        """Send a request, and send it again while its desk is away or busy.

        Args:
            method: GET or POST.
            path: the path at the desk.
            desk: the number of the desk.
            headers: of `by` or `PROGRAM`.
            body: the JSON of a POST.
            anywhere: whether the other desks are tried where this one is away.
        """
        was_repeated = False
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    found = await self.once(method, path, desk, headers, body)
                except httpx2.TransportError as error:
                    self.cut += 1
                    was_repeated |= not isinstance(error, httpx2.ConnectError)
                    desk += anywhere
                else:
                    if found.status not in BUSY:
                        return replace(found, was_repeated=was_repeated)
                    self.busy += 1
                    was_repeated = True
                await asyncio.sleep(RETRY_SECONDS)

    async def once(
        self, method: str, path: str, desk: int, headers: dict[str, str], body: Any = None
    ) -> Answer:
        """Send a request once; see `send`.

        Raises:
            TransportError: the desk is away, or ended before it answered.
        """
        http = self._clients[desk % len(self._clients)]
        found = await http.request(method, path, headers=headers, json=body)
        is_json = "json" in found.headers.get("Content-Type", "")
        return Answer(found.status_code, found.json() if is_json else None)

    def stream(self, path: str, desk: int, headers: dict[str, str]) -> Any:
        """Open a live stream."""
        http = self._clients[desk % len(self._clients)]
        return http.stream("GET", path, headers=headers, timeout=60)


PROGRAM: Final = {"Authorization": f"Bearer {PROGRAM_KEY}"}
"""The headers of the shop."""


def by(person: str) -> dict[str, str]:
    """Return the headers with which the proxy names a supporter."""
    return {"X-Forwarded-User": person, "X-Forwarded-Groups": "support"}


def of_run(run_id: str, *parts: str) -> str:
    """Return a path of the API below a conversation."""
    return "/".join(["/api/conversations", run_id, *parts])


def new_message_id() -> str:
    """Return an id for a message, so that it can be sent again."""
    return secrets.token_hex(8)
