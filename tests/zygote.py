"""The process that `tests/forked.py` forks others from: it has loaded what they need.

    python -m tests.zygote DESCRIPTOR

It has one thread, as every process that is forked has to. It ends when the other end of its line does.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Final

from outlast.loop.actions import CancelRecord

LONGEST_REQUEST: Final = 200_000
MOMENT_SECONDS: Final = 0.0002

ROOMS: Final = (
    *(
        "a2a",
        "activities",
        "agents",
        "archive",
        "cli",
        "client",
        "contract",
        "deliveries",
        "dev",
        "local",
    ),
    *(
        "loop",
        "models",
        "notifications",
        "serve",
        "temporal",
        "testing",
        "tracing",
        "views",
    ),
    *("worker", "workflows"),
)
"""The parts of the package that most processes use."""

NOT_LOADED: Final = ("outlast.cli.entry", "outlast.cli.new_project", "outlast.dev.guard")
"""Programs, and what is no part of the package."""

BESIDE: Final = (
    *("mcp.server.mcpserver", "openai.resources.chat", "openai.resources.responses"),
    *("rich.markdown", "temporalio.worker"),
    *("uvicorn.lifespan.on", "uvicorn.loops.asyncio", "uvicorn.protocols.http.h11_impl"),
)
"""What servers and clients load when they begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a process is started with.

    Attributes:
        descriptors: its standard input, output and error.
    """

    arguments: list[str]
    environment: dict[str, str]
    directory: str
    umask: int
    new_session: bool
    descriptors: list[int]


def load() -> None:
    """Load the packages, and build what nearly every process builds of them."""
    names = [*BESIDE]
    for room in ROOMS:
        package = importlib.import_module(f"outlast.{room}")
        names += [one.name for one in walk_packages(package.__path__, f"{package.__name__}.")]
    for name in names:
        if not name.startswith(NOT_LOADED):
            importlib.import_module(name)
    from outlast.contract import records
    from outlast.contract.effects import EffectRequest
    from outlast.loop.approvals import Decision
    from outlast.loop.calls import HandoffResult, ModelReply, PreparedRun, ToolResult
    from outlast.loop.effects import CallModel, PrepareRun, RunHandoff, RunTool
    from outlast.loop.state import LoopState

    for kind in (
        *(EffectRequest[CallModel], PrepareRun, RunHandoff, RunTool),
        *(HandoffResult, ModelReply, PreparedRun, ToolResult),
        *(Decision, LoopState, records.RunInput, records.RunResultRecord),
        *(CancelRecord, records.SendRecord),
    ):
        records.adapter(kind)
    threads = len(list(Path("/proc/self/task").iterdir()))
    assert threads == 1, f"the packages have started {threads - 1} threads"


def serve(line: socket.socket) -> Request:
    """Fork a process for each request. This returns in the processes that were forked."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(line, LONGEST_REQUEST, 3)
        if not message:
            os._exit(0)
        reading, writing = os.pipe()
        if (between := os.fork()) == 0:
            between = os.getpid()
            if (child := os.fork()) != 0:
                os.write(writing, str(child).encode())
                os._exit(0)
            while os.getppid() == between:
                time.sleep(MOMENT_SECONDS)
            os.close(reading)
            os.close(writing)
            line.close()
            return Request(**json.loads(message), descriptors=descriptors)
        os.waitpid(between, 0)
        line.send(os.read(reading, 100))
        for one in (reading, writing, *descriptors):
            os.close(one)


def become(request: Request) -> None:
    """Make this process what the request says, as Python does when it starts."""
    for number, descriptor in enumerate(request.descriptors):
        os.dup2(descriptor, number)
    for descriptor in request.descriptors:
        os.close(descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request.new_session:
        os.setsid()
    if request.umask >= 0:
        os.umask(request.umask)
    os.chdir(request.directory)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    if request.environment.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)
    sys.stderr = sys.__stderr__ = open(  # noqa: SIM115
        2, "w", errors="backslashreplace", buffering=1, closefd=False
    )
    sys.orig_argv = [sys.executable, *request.arguments]
    paths = [one for one in request.environment.get("PYTHONPATH", "").split(os.pathsep) if one]
    sys.path[:] = [*paths, *sys.path]
    importlib.invalidate_caches()


def run(arguments: list[str]) -> None:
    """Run the program that Python is started with."""
    match arguments:
        case ["-m", name, *rest]:
            sys.argv = [name, *rest]
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            sys.path.insert(0, "")
            main = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(code, "<string>", "exec"), vars(main))
        case [file, *rest]:
            sys.argv = [file, *rest]
            sys.path.insert(0, str(Path(file).resolve().parent))
            _run_file(file)
        case _:
            raise ValueError("There is no program")


def _run_file(file: str) -> None:
    """Run a file. Its module stays, as that of a program does."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    vars(main)["__file__"] = file
    exec(compile(Path(file).read_bytes(), file, "exec"), vars(main))


if __name__ == "__main__":
    sys.path.remove(str(Path.cwd()))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load()
    # A collection in a process that was forked would copy every page that it shares with this one.
    gc.collect()
    gc.freeze()
    _request = serve(socket.socket(fileno=int(sys.argv[1])))
    become(_request)
    run(_request.arguments)
