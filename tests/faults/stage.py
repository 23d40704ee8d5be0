"""A small production: each part a process in a network namespace of its own, restarted when it ends.

Database, server, two workers, desk, model and client have an address each, and reach each other
through this process's namespace, which forwards. A cut is a rule that drops what is forwarded from
one address to another, without a word; so every namespace, mount and process ends with this one.
"""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from temporalio.client import Client

from outlast.contract import names
from outlast.contract.identity import new_shared_key
from outlast.dev import find_temporal_cli
from outlast.dev.server_process import HOST, ServerSettings
from outlast.temporal.visibility.search_attributes import (
    ensure_search_attributes,
    lacks_search_attributes,
)
from tests.faults import cluster
from tests.faults.agents import LEDGER_VARIABLE, MODEL_PORT
from tests.faults.limits import Limits
from tests.faults.load import DESK_VARIABLE

ROOT: Final = Path(__file__).parents[2]
PLACES: Final = ("database", "server", "worker-1", "worker-2", "desk", "model", "client")
WORKERS: Final = ("worker-1", "worker-2")
SERVER_PORT: Final = 7233
DESK_PORT: Final = 8090
RESTART_SECONDS: Final = 1.0
READY_SECONDS: Final = 120.0
FAKETIME: Final = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
DISK_BYTES: Final = 512 * 1024 * 1024


def address_of(place: str) -> str:
    """Return the address of a place."""
    return f"10.77.{PLACES.index(place) + 1}.2"


def run(*command: str) -> str:
    """Run a command of the system, and return what it printed.

    Raises:
        RuntimeError: it failed; the message has its words.
    """
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


@dataclass(slots=True)
class Part:
    """A process of the stage, which is started again whenever it ends.

    Attributes:
        ends: how it ended each time: an exit code, or a signal as a negative number.
        wanted: False while it is to stay down.
        clock: what it is started with, and what starts it is not, so that its clock can jump.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    limits: Limits
    user: str = ""
    clock: Mapping[str, str] = field(default_factory=dict[str, str])
    process: asyncio.subprocess.Process | None = None
    ends: list[int] = field(default_factory=list[int])
    wanted: bool = True

    @property
    def pid(self) -> int:
        """The process."""
        if self.process is None:
            raise RuntimeError(f"{self.name} does not run")
        return self.process.pid

    async def keep(self) -> None:
        """Run it, again and again."""
        while True:
            if self.wanted:
                self.ends.append(await self._run_once())
            await asyncio.sleep(RESTART_SECONDS)

    async def _run_once(self) -> int:
        enter = 'for one in $0; do echo $$ > "$one/cgroup.procs"; done; exec "$@"'
        command = ["nsenter", f"--net=/run/netns/{self.name}", "sh", "-c", enter]
        command += [" ".join(map(str, self.limits.folders))]
        if self.user:
            command += ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--init-groups"]
        command += ["env", *(f"{key}={value}" for key, value in self.clock.items())]
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, *self.command, stdout=log, stderr=log, env=self.environment, cwd=ROOT
            )
        return await self.process.wait()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send it a signal."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)

    async def restart(self) -> None:
        """Kill it, and return when another one runs."""
        before = self.process
        self.kill()
        while self.process is before:  # noqa: ASYNC110  `keep` makes it true
            await asyncio.sleep(0.05)


class Stage:
    """The parts, their network, and their disks.

    Args:
        folder: where everything is; it is not there afterwards unless somebody keeps it.
        with_database: whether the server is a full one on PostgreSQL, and not the embedded one.
    """

    def __init__(self, folder: Path, *, with_database: bool) -> None:
        self.folder = folder
        self.with_database = with_database
        self.disks = {name: folder / "disks" / name for name in ("database", "work")}
        self.clocks = {name: folder / f"clock-{name}" for name in PLACES}
        self.parts: dict[str, Part] = {}
        self.limits = {name: Limits(folder.name, name) for name in PLACES}
        self._cuts = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("TEMPORAL_", "OUTLAST_"))},
            "PYTHONPATH": str(ROOT),
            "TEMPORAL_ADDRESS": self.server,
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"http://{address_of('model')}:{MODEL_PORT}/v1",
            "OUTLAST_BLOB_STORE": (self.disks["work"] / "blobs").as_uri(),
            "OUTLAST_IDENTITY_KEY": new_shared_key(),
            LEDGER_VARIABLE: str(self.ledger),
            DESK_VARIABLE: self.desk,
        }

    @property
    def server(self) -> str:
        """The address of the Temporal server."""
        return f"{address_of('server')}:{SERVER_PORT}"

    @property
    def desk(self) -> str:
        """The URL of the desk."""
        return f"http://{address_of('desk')}:{DESK_PORT}"

    @property
    def ledger(self) -> Path:
        """What the tools did. Its disk has no faults, since it is the measure."""
        return self.folder / "ledger.db"

    def log(self, name: str) -> Path:
        """Return the log of a part."""
        return self.folder / f"{name}.log"

    # --- Start ------------------------------------------------------------------------------------

    @asynccontextmanager
    async def up(self) -> AsyncGenerator[None]:
        """Start everything, and end it."""
        _make_network()
        for name, path in self.disks.items():
            _make_disk(self.folder / f"{name}.img", path)
        for limits in self.limits.values():
            limits.make()
        for clock in self.clocks.values():
            clock.write_text("+0\n")
            clock.chmod(0o644)
        try:
            await self._start_server()
            self._start("model", [sys.executable, "-m", "tests.faults.agents", address_of("model")])
            outlast = [str(Path(sys.executable).with_name("outlast"))]
            for name in WORKERS:
                target = ["worker", "tests/faults/agents.py", "--task-queue", "faults", "--any-key"]
                self._start(name, [*outlast, *target])
            self._start("desk", [
                *outlast, "serve", "--host", address_of("desk"), "--port", str(DESK_PORT),
                "--url", self.desk, "--proxy", "10.77.0.0/16",
                "--role", "*=viewer,decider,operator",
            ])  # fmt: skip
            await self.wait_for("desk", DESK_PORT)
            for name in WORKERS:
                await self._until_ready(name)
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for part in self.parts.values():
                part.kill()
                if part.process is not None:
                    await part.process.wait()

    async def _start_server(self) -> None:
        if self.with_database:
            data = self.disks["database"] / "data"
            command = cluster.make_database(data, address_of("database"))
            self._start("database", command, user=cluster.USER)
            await self.wait_for("database", cluster.DATABASE_PORT)
            await asyncio.to_thread(cluster.make_schema, address_of("database"))
            settings = cluster.server_settings(address_of("server"), address_of("database"))
            self._start("server", [cluster.server_binary(), "start"], settings=settings)
        else:
            settings = ServerSettings(
                port=SERVER_PORT, ui_port=None, namespace="default", in_memory=False
            )
            flags = settings.flags(self.disks["database"] / "temporal.db")
            flags[flags.index(HOST)] = "0.0.0.0"  # of its own namespace
            self._start("server", [str(find_temporal_cli()), "server", "start-dev", *flags])
        await self.wait_for("server", SERVER_PORT)
        client = await self._connected()
        if self.with_database:
            await cluster.make_namespace(client)
        await ensure_search_attributes(client, names.SEARCH_ATTRIBUTES)
        while await lacks_search_attributes(client, names.SEARCH_ATTRIBUTES) is not False:  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.2)

    async def _connected(self) -> Client:
        async with asyncio.timeout(READY_SECONDS):
            while True:
                with suppress(RuntimeError):
                    return await Client.connect(self.server)
                await asyncio.sleep(0.2)

    def _start(
        self,
        name: str,
        command: Sequence[str],
        *,
        user: str = "",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        part = Part(
            name=name,
            command=command,
            environment={**self._environment, **(settings or {})},
            log=self.log(name),
            limits=self.limits[name],
            user=user,
        )
        self.parts[name] = part
        self._tasks.append(asyncio.create_task(part.keep()))

    async def wait_for(self, name: str, port: int) -> None:
        """Wait until a part listens.

        Raises:
            TimeoutError: it does not; the note has the end of its log.
        """
        try:
            async with asyncio.timeout(READY_SECONDS):
                while True:
                    with suppress(OSError):
                        _, writer = await asyncio.open_connection(address_of(name), port)
                        writer.close()
                        return
                    await asyncio.sleep(0.1)
        except TimeoutError as error:
            error.add_note(f"{name} does not listen: {self.log(name).read_text()[-2000:]}")
            raise

    async def _until_ready(self, worker: str) -> None:
        async with asyncio.timeout(READY_SECONDS):
            while "ready:" not in self.log(worker).read_text():  # noqa: ASYNC110  its own process
                await asyncio.sleep(0.1)

    # --- What a row does ---------------------------------------------------------------------------

    async def start_load(
        self, row: str, log: Path, stop: Path, *, clock: bool
    ) -> asyncio.subprocess.Process:
        """Start the clients of a row."""
        command = ["nsenter", "--net=/run/netns/client", sys.executable, "-m", "tests.faults.load"]
        environment = {**self._environment, **(self.clock_of("client") if clock else {})}
        with self.log("client").open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *command, str(log), str(stop), row,
                stdout=output, stderr=output, env=environment, cwd=ROOT,
            )  # fmt: skip

    def clock_of(self, place: str) -> dict[str, str]:
        """Return the environment of a process whose clock can jump."""
        return {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(self.clocks[place]),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def cut(self, source: str, target: str) -> list[str]:
        """Drop everything that one place sends to another; return the rule, for `mend`."""
        self._cuts += 1
        rule = ["from", address_of(source), "to", address_of(target), "blackhole"]
        rule += ["pref", str(100 + self._cuts)]
        run("ip", "rule", "add", *rule)
        return rule

    def mend(self, rule: list[str]) -> None:
        """Let it through again."""
        run("ip", "rule", "del", *rule)


def _make_network() -> None:
    Path("/run/netns").mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "netns", "/run/netns")
    run("mount", "-t", "tmpfs", "shm", "/dev/shm")  # where libfaketime leaves something behind
    run("ip", "link", "set", "lo", "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    for number, name in enumerate(PLACES, 1):
        here, there = f"10.77.{number}.1", f"10.77.{number}.2"
        run("ip", "netns", "add", name)
        run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "addr", "add", f"{here}/24", "dev", name)
        run("ip", "link", "set", name, "up")
        for command in (
            f"link set lo up;addr add {there}/24 dev eth0;link set eth0 up"
            f";route add default via {here}"
        ).split(";"):
            run("ip", "-n", name, *command.split())


def _make_disk(image: Path, place: Path) -> None:
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    run("mkfs.ext4", "-q", "-m", "0", str(image))
    place.mkdir(parents=True)
    run("mount", "-o", "loop", str(image), str(place))
    place.chmod(0o755)


def new_row_id(number: int) -> str:
    """Return a prefix for the ids of a row's conversations."""
    return f"row{number}-{secrets.token_hex(2)}"


def now() -> float:
    """Return the clock that no fault changes, and that all processes share."""
    return time.monotonic()
