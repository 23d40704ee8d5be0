"""A desk of real processes: a Temporal server, a worker, and an `outlast serve` for each person.

Each of them can be killed with SIGKILL and started again at the same address.
"""

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

from support_desk.policies import run_config
from temporalio.client import Client

from outlast.agents.hosts import LOOPBACK, free_port
from outlast.client.handle import RunHandle
from outlast.client.start.runner import Runner
from outlast.contract import names
from outlast.contract.identity import IdentityKeys, new_shared_key, read_keys
from outlast.dev import EmbeddedServer
from outlast.serve.tokens import KEY_VARIABLE, ConversationTokens
from outlast.testing.demo.processes import Child
from outlast.testing.demo.responses_server import ResponsesServer
from tests import forked
from tests.browser.model import answer
from tests.servers import kill_and_start_again, start_that_deletes_soon

ROOT: Final = Path(__file__).parents[2]
AGENTS: Final = "tests.browser.agents"
HEARTBEAT: Final = timedelta(seconds=2)
"""How soon the end of a worker is noticed."""

PACE: Final = timedelta(milliseconds=40)
"""How long the model takes for a word."""

CUSTOMER: Final = "cust-1001"
AUDIENCE: Final = "localhost/default"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a desk of their own.

    Attributes:
        name: who they are.
        groups: the groups that they belong to.
    """

    name: str
    groups: tuple[str, ...]


ANN: Final = Person("ann", ("billing",))
LEE: Final = Person("lee", ("leads", "billing"))


@dataclass(slots=True)
class Served:
    """An `outlast serve`.

    Attributes:
        person: whose desk it is.
        port: where it listens.
        process: the process.
    """

    person: Person
    port: int
    process: Child

    @property
    def url(self) -> str:
        """The address."""
        return f"http://{LOOPBACK}:{self.port}"


@dataclass(slots=True)
class Stage:
    """All processes.

    Attributes:
        home: a directory for their data and logs.
        people: who has a desk.
        pace: how long the model takes for a word.
        agents: the module of the agents.
        environment: further variables of all processes.
    """

    home: Path
    people: tuple[Person, ...] = (ANN, LEE)
    pace: timedelta = PACE
    agents: str = AGENTS
    environment: dict[str, str] = field(default_factory=dict[str, str])
    desks: dict[str, Served] = field(default_factory=dict[str, Served])
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _key: str = field(default_factory=new_shared_key)
    _server: EmbeddedServer | None = None
    _client: Client | None = None
    _worker: Child | None = None
    _environment: dict[str, str] = field(default_factory=dict[str, str])
    _started: int = 0

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stop()

    @property
    def client(self) -> Client:
        """A client of the Temporal server."""
        assert self._client is not None
        return self._client

    @property
    def database(self) -> Path:
        """The database of the shop, with its ledger."""
        return self.home / "shop.db"

    @property
    def worker(self) -> Child:
        """The worker."""
        assert self._worker is not None
        return self._worker

    def url(self, person: Person = ANN) -> str:
        """Return the address of somebody's desk."""
        return self.desks[person.name].url

    def token(self, run_id: str) -> str:
        """Return a customer's token for a conversation."""
        keys = IdentityKeys(read_keys(self._key), "the tests")
        return ConversationTokens(keys, audience=AUDIENCE).mint(run_id)

    def handle(self, run_id: str) -> RunHandle:
        """Return a handle on a conversation."""
        return RunHandle(self.client, run_id)

    async def start_run(self, agent: str, text: str, run_id: str, **options: Any) -> RunHandle:
        """Start a conversation that stays open."""
        given: dict[str, Any] = {
            "keep_open": True,
            "context": {"customer_id": CUSTOMER},
            "run_config": run_config() if agent == "Triage" else None,
            "customer": CUSTOMER if agent == "Triage" else None,
            "stream": True,
            **options,
        }
        return await Runner.start(agent, text, id=run_id, client=self.client, **given)

    # --- Killing -------------------------------------------------------------------------------

    async def kill_worker(self) -> None:
        """Kill the worker, and start another one."""
        await self.worker.kill()
        await self._start_worker()

    async def kill_serve(self, person: Person = ANN) -> None:
        """Kill somebody's `outlast serve`, and start it again at its address."""
        served = self.desks[person.name]
        await served.process.kill()
        served.process = await self._start_serve(person, served.port)

    async def kill_server(self) -> None:
        """Kill the Temporal server, and start it again on its database, at its address."""
        assert self._server is not None
        self._server = await kill_and_start_again(self._server, self.home / "temporal")

    # --- Starting ------------------------------------------------------------------------------

    async def _start(self) -> None:
        self._server = EmbeddedServer(
            data_dir=self.home / "temporal",
            ui_port=None,
            search_attributes=names.SEARCH_ATTRIBUTES,
        )
        await start_that_deletes_soon(self._server)
        self._client = await Client.connect(self._server.address)
        model = self._stack.enter_context(ResponsesServer(answer, pace=self.pace))
        self._environment = {
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "scripted",
            "SUPPORT_DESK_DB": str(self.database),
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'examples'}",
            KEY_VARIABLE: self._key,
            **self.environment,
        }
        await asyncio.gather(self._start_worker(), *map(self._open, self.people))

    async def _open(self, person: Person) -> None:
        port = free_port()
        self.desks[person.name] = Served(person, port, await self._start_serve(person, port))

    async def _start_worker(self) -> None:
        self._worker = await self._child("worker")
        line = json.loads(await self._worker.first_line())
        assert line["status"] == "ready", line

    async def _start_serve(self, person: Person, port: int) -> Child:
        options = ["--port", str(port), "--as", person.name, "--groups", ",".join(person.groups)]
        child = await self._child("serve", *options)
        await child.first_line()
        return child

    async def serve(self, *options: str, **environment: str) -> None:
        """Start a further `outlast serve`."""
        await (await self._child("serve", *options, **environment)).first_line()

    async def role(self, *words: str) -> Child:
        """Start a process of another role, and wait until it is ready."""
        child = await self._start_process(*words, "--json")
        await child.first_line()
        return child

    async def _child(self, command: str, *options: str, **environment: str) -> Child:
        agents = (self.agents, "--app-dir", str(ROOT), "--json")
        return await self._start_process(command, *agents, *options, **environment)

    async def _start_process(self, command: str, *options: str, **environment: str) -> Child:
        assert self._server is not None
        self._started += 1
        server = ("--address", self._server.address, "--namespace", "default")
        with forked.processes():
            child = await Child.start(
                f"{command} {self._started}",
                ["outlast.cli.entry", command, *options, *server],
                home=self.home,
                environment=self._environment | environment,
            )
        self._stack.push_async_callback(child.kill)
        return child

    async def _stop(self) -> None:
        await self._stack.aclose()
        if self._server is not None:
            os.kill(self._server.info.pid, signal.SIGKILL)
            await self._server.stop()
