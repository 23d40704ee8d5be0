"""The services of the compose file as processes: each in a root that has what its image would have.

A root is the machine's own system, read-only, with a fresh environment in which the steps of the
image were run, the mounts of the service, and a /tmp: whatever else a role writes to, it fails at.
All services share the loopback address, so their ports become free ones.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final

import pytest
import yaml

from outlast.agents.hosts import free_port
from tests.architecture.source import ROOT
from tests.architecture.test_images import copied

UV: Final = str(Path(sys.executable).with_name("uv"))
USER: Final = 10001
COMPOSE: Final = ROOT / "docker-compose.yml"
SYSTEM: Final = ("bin", "sbin", "lib", "lib32", "lib64", "usr", "etc")
PORTS: Final = ("8089", "8090", "8091", "9400")

NEEDED: Final = [
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("unshare") is None,
        reason="roots of their own need root and unshare, as on Linux",
    ),
]

_REFERENCE: Final = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
_LENGTHS: Final = {"s": 1, "m": 60}


def compose_file() -> dict[str, Any]:
    """Return the compose file, with its anchors merged."""
    return yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))


def filled(text: str, variables: Mapping[str, str]) -> str:
    """Return a text with Compose's references to variables replaced."""

    def value(found: re.Match[str]) -> str:
        name, kind, default = found.groups()
        if variables.get(name):
            return variables[name]
        assert kind != "?", f"{name} has to be set: {default}"
        return default or ""

    return _REFERENCE.sub(value, text)


def seconds_of(text: str) -> int:
    """Return a length of time of Compose, such as `40s`."""
    return int(text[:-1]) * _LENGTHS[text[-1]]


def python_of_the_image() -> str:
    """Return the Python that the image has, or the nearest one on this machine."""
    wanted = re.findall(r"^FROM python:([\d.]+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    for version in (wanted[-1], "3.14", "3.12"):
        places = [
            shutil.which(f"python{version}"),
            *Path.home().glob(f".pyenv/versions/{version}.*"),
        ]
        for place in filter(None, places):
            found = Path(place) / "bin" / "python3" if Path(place).is_dir() else Path(place)
            done = subprocess.run(
                [found, "-c", "import sys; print(sys.executable)"],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0:
                return str(Path(done.stdout.strip()).resolve())
    raise AssertionError("The image's steps need Python 3.12 or newer.")


def run(*arguments: str | Path, **options: Any) -> str:
    """Run a program, and return what it prints."""
    done = subprocess.run(
        [str(one) for one in arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "UV_SYSTEM_CERTS": "1"},
        **options,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built_wheel(place: Path) -> Path:
    """Build the wheel of outlast as the image does, from what its COPY lines copy to `source`."""
    source = copied(ROOT, place / "source")
    run(UV, "build", "--wheel", "--quiet", "--out-dir", place / "wheels", source)
    [wheel] = (place / "wheels").glob("outlast-*.whl")
    return wheel


@dataclass(frozen=True)
class Images:
    """What the steps of the images made: an environment for each, and the folder of the application."""

    outlast: Path
    login: Path
    app: Path
    python: Path

    @classmethod
    def build(cls, place: Path) -> "Images":
        """Run the steps of the Dockerfile, and of the image of the login."""
        dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
        python = python_of_the_image()
        wheel = built_wheel(place)
        [extras] = re.findall(r"^ARG EXTRAS=(\S+)$", dockerfile, re.MULTILINE)
        inline = compose_file()["services"]["login"]["build"]["dockerfile_inline"]
        [provider] = re.findall(r"RUN pip install --no-cache-dir (\S+)$", inline, re.MULTILINE)
        for name, package in (("outlast", f"{wheel}[{extras}]"), ("login", provider)):
            run(UV, "venv", "--quiet", "--python", python, place / name)
            target = ("--python", place / name / "bin" / "python")
            run(UV, "pip", "install", "--quiet", "--compile-bytecode", *target, package)
        app = place / "app"
        shutil.copytree(place / "source" / "examples", app / "examples")
        home = run(python, "-c", "import sys; print(sys.base_prefix)").strip()
        return cls(place / "outlast", place / "login", app, Path(home))


@dataclass
class Deployment:
    """The services of one `docker compose up`.

    Attributes:
        images: what they run.
        folder: where volumes are.
        server: the address of Temporal's server, in place of the service `temporal`.
        variables: the variables of the shell.
        ports: the free ports in place of those of the file.
    """

    images: Images
    folder: Path
    server: str
    variables: dict[str, str] = field(default_factory=dict[str, str])
    ports: dict[str, int] = field(default_factory=lambda: {one: free_port() for one in PORTS})
    _running: dict[str, "asyncio.subprocess.Process"] = field(
        default_factory=dict[str, "asyncio.subprocess.Process"]
    )

    def __post_init__(self) -> None:
        self.services: dict[str, Any] = yaml.safe_load(
            self.here(COMPOSE.read_text(encoding="utf-8"))
        )["services"]

    def here(self, text: str) -> str:
        """Return a text of a configuration with the addresses of this machine."""
        text = filled(text, self.variables).replace("temporal:7233", self.server)
        text = text.replace("scripted-model:8089", "127.0.0.1:8089").replace("0.0.0.0", "127.0.0.1")
        for port, free in self.ports.items():
            text = re.sub(rf"\b{port}\b", str(free), text)
        return text

    @property
    def desk(self) -> str:
        """The address of the desk, as browsers have it."""
        return f"http://127.0.0.1:{self.ports['8090']}"

    @property
    def proxy(self) -> str:
        """The address of the proxy."""
        return f"http://127.0.0.1:{self.ports['8091']}"

    async def start(self, name: str) -> None:
        """Start a service, and wait until its own health check says that it is well."""
        self._running[name] = process = await self._process(name, self._command(name))
        check = self.services[name]["healthcheck"]["test"]
        assert check[0] == "CMD"
        async with asyncio.timeout(90):
            while (await self.ended(name, check[1:]))[0]:
                code = process.returncode
                assert code is None, f"{name} ended with {code}: {self.log(name)}"
                await asyncio.sleep(0.2)

    async def once(self, name: str, *arguments: str) -> str:
        """Run a service to its end, as `docker compose run` does, and return what it prints."""
        command = [*self._entrypoint(name), *(arguments or self.services[name]["command"])]
        code, printed = await self.ended(name, command)
        assert code == 0, printed
        return printed

    async def ended(self, name: str, command: Sequence[str]) -> tuple[int, str]:
        """Run a program as a service, and return its exit code and what it prints."""
        process = await self._process(name, command, asyncio.subprocess.PIPE)
        printed, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, printed.decode()

    async def stop(self, name: str) -> float:
        """Stop a service as Docker does, and return how long it took."""
        process, grace = (
            self._running.pop(name),
            self.services[name].get("stop_grace_period", "10s"),
        )
        began = monotonic()
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(seconds_of(grace)):
            code = await process.wait()
        assert code in {0, -signal.SIGTERM}, self.log(name)
        return monotonic() - began

    async def end(self) -> None:
        """Kill what still runs."""
        for process in self._running.values():
            if process.returncode is None:
                process.kill()
            await process.wait()

    def log(self, name: str) -> str:
        """Return what a service has printed."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8")

    def _entrypoint(self, name: str) -> list[str]:
        entry = self.services[name].get("entrypoint")
        if entry is None:
            dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
            [line] = re.findall(r"^ENTRYPOINT (.+)$", dockerfile, re.MULTILINE)
            entry = tomllib.loads(f"entry = {line}")["entry"]
        return entry

    def _command(self, name: str) -> list[str]:
        return [*self._entrypoint(name), *self.services[name].get("command", ())]

    async def _process(
        self, name: str, command: Sequence[str], out: int | None = None
    ) -> asyncio.subprocess.Process:
        service = self.services[name]
        venv = self.images.login if name == "login" else self.images.outlast
        environment = {
            "PATH": f"{venv}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/tmp",
            "PYTHONDONTWRITEBYTECODE": "1",
            **{key: str(one or "") for key, one in service.get("environment", {}).items()},
        }
        user, _, group = service.get("user", f"{USER}:{USER}").partition(":")
        script = self.folder / f"{name}.sh"
        script.write_text(self._root(name, venv), encoding="utf-8")
        with (self.folder / f"{name}.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *("unshare", "--mount", "sh", "-eu", str(script), user, group, *command),
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out or log,
                stderr=asyncio.subprocess.STDOUT,
            )

    def _root(self, name: str, venv: Path) -> str:
        """Return a script that makes the root of a service, and becomes its program."""
        root = self.folder / "root"
        root.mkdir(exist_ok=True)
        system = [Path("/") / one for one in SYSTEM if (Path("/") / one).exists()]
        lines = ["mount --make-rprivate /", f"mount -t tmpfs -o mode=755 tmpfs {root}"]
        # First, since this machine's /tmp may be where the environments are.
        lines += [
            f"mkdir -p {root}/tmp {root}/app",
            f"mount -t tmpfs -o mode=1777 tmpfs {root}/tmp",
        ]
        lines += [f"cp -a {one} {root}{one}" for one in system if one.is_symlink()]
        mounts = [(one, str(one), True) for one in system if not one.is_symlink()]
        mounts += [(venv, str(venv), True), (self.images.python, str(self.images.python), True)]
        mounts += [(Path("/proc"), "/proc", False), (Path("/dev"), "/dev", False)]
        if name not in {"login", "proxy"}:
            mounts.append((self.images.app, "/app", True))
        mounts += self._volumes(name)
        for source, target, is_read_only in sorted(mounts, key=lambda one: one[1]):
            make = "mkdir -p" if source.is_dir() else f"mkdir -p {root}{Path(target).parent}; touch"
            lines += [f"{make} {root}{target}", f"mount --rbind {source} {root}{target}"]
            if is_read_only:
                lines.append(f"mount -o remount,bind,ro {root}{target}")
        if self.services[name].get("read_only"):
            lines.append(f"mount -o remount,ro {root}")
        lines.append(f"user=$1 group=$2; shift 2; cd {root}")
        lines.append(
            f'exec chroot --userspec="$user:$group" --groups="" {root} '
            'sh -c \'cd /app; exec "$@"\' - "$@"'
        )
        return "\n".join(lines)

    def _volumes(self, name: str) -> list[tuple[Path, str, bool]]:
        service = self.services[name]
        found: list[tuple[Path, str, bool]] = []
        for entry in service.get("volumes", ()):
            source, target, *mode = str(entry).split(":")
            place = self._given(source) if source.startswith("./") else self._volume(source)
            found.append((place, target, mode == ["ro"]))
        for secret in service.get("secrets", ()):
            place = self.folder / "secrets" / secret
            found.append((place, f"/run/secrets/{secret}", True))
        return found

    def _volume(self, name: str) -> Path:
        """Return a named volume: Docker gives it the owner of the folder in the image."""
        place = self.folder / "volumes" / name
        if not place.exists():
            place.mkdir(parents=True)
            os.chown(place, USER, USER)
        return place

    def _given(self, source: str) -> Path:
        """Return a file of the repository, with the addresses of this machine in it."""
        place = ROOT / source
        if place.is_dir():
            return place
        copy = self.folder / place.name
        copy.write_text(self.here(place.read_text(encoding="utf-8")), encoding="utf-8")
        return copy
