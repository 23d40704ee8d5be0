"""Processes of Python that are forked from one that has the packages loaded, instead of started anew.

A worker or a command spends one to two seconds of CPU on its imports, and tests start hundreds of them.
Inside `with processes():`, whoever starts `python -m MODULE`, `python -c CODE` or `python FILE`, with the
modules `subprocess` or `asyncio`, gets a process that `tests/zygote.py` forks. It is a child of this one
with an id of its own, with the arguments, environment, directory, descriptors and session that it would
have, and it is killed and waited for like any other.

Tests of the start itself do not use this: each command has at least one that starts it anew.
"""

import atexit
import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from asyncio import create_subprocess_exec
from asyncio.subprocess import Process
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
IS_POSSIBLE: Final = sys.platform == "linux"
"""Elsewhere, all processes are started anew."""

_SET_CHILD_SUBREAPER: Final = 36
_LONGEST_REPLY: Final = 1_000
_OBEYED: Final = {"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
"""Variables of Python itself that a forked process obeys. With others, a process is started anew."""

_FORKED: ContextVar[bool] = ContextVar("forked", default=False)


@contextmanager
def processes() -> Generator[None]:
    """Fork the processes of Python that are started in the block."""
    token = _FORKED.set(IS_POSSIBLE)
    try:
        yield
    finally:
        _FORKED.reset(token)


async def start(*arguments: str, **options: Any) -> Process:
    """Start Python with arguments, as `asyncio.create_subprocess_exec` does."""
    with processes():
        return await create_subprocess_exec(sys.executable, *arguments, **options)


async def start_anew(*arguments: str, **options: Any) -> Process:
    """Start Python with arguments, and let it load its packages."""
    return await create_subprocess_exec(sys.executable, *arguments, **options)


class Zygote:
    """The process that has the packages loaded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line: socket.socket | None = None

    def fork(
        self, request: Mapping[str, object], descriptors: tuple[int, int, int], path: str
    ) -> int:
        """Fork a child of this process, and return its id."""
        with self._lock:
            if self._line is None:
                self._line = self._start(path)
            # The child's parent is a process that ends at once, so that this one inherits the child.
            _inherit_orphans(yes=True)
            try:
                socket.send_fds(self._line, [json.dumps(request).encode()], [*descriptors])
                reply = self._line.recv(_LONGEST_REPLY)
            finally:
                _inherit_orphans(yes=False)
        if not reply:
            raise RuntimeError("The process that others are forked from has ended.")
        return int(reply)

    def _start(self, path: str) -> socket.socket:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.zygote", str(its.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=ROOT,
                env={"PATH": path},
                pass_fds=[its.fileno()],
                start_new_session=True,
            )

        def end() -> None:
            ours.close()
            with suppress(OSError):
                process.wait()

        atexit.register(end)
        return ours


def _inherit_orphans(*, yes: bool) -> None:
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)


_ZYGOTE: Final = Zygote()
_execute_child: Final[Any] = getattr(subprocess.Popen, "_execute_child")  # noqa: B009  private
_PARAMETERS: Final = inspect.signature(_execute_child)


def _fork_or_execute(popen: Any, *arguments: Any) -> None:
    """Do what `Popen._execute_child` does."""
    given: dict[str, Any] = _PARAMETERS.bind(popen, *arguments).arguments
    environment = dict(os.environ if given["env"] is None else given["env"])
    settings = {name for name in environment if name.startswith("PYTHON")}
    if not _FORKED.get() or not settings <= _OBEYED:
        _execute_child(popen, *arguments)
        return
    command: list[str] = [str(one) for one in given["args"]]
    _check(command, given)
    request: dict[str, object] = {
        "arguments": command[1:],
        "environment": environment,
        "directory": os.fspath(given["cwd"] or Path.cwd()),
        "umask": given["umask"],
        "new_session": given["start_new_session"],
    }
    pipes = {"p2cread": 0, "c2pwrite": 1, "errwrite": 2}
    stdin, stdout, stderr = (own if given[end] < 0 else given[end] for end, own in pipes.items())
    # While the zygote starts, which is started anew itself.
    token = _FORKED.set(False)
    try:
        popen.pid = _ZYGOTE.fork(request, (stdin, stdout, stderr), os.environ["PATH"])
    finally:
        _FORKED.reset(token)
    popen._child_created = True
    ends = "p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"
    popen._close_pipe_fds(*(given[end] for end in ends))


def _check(command: list[str], given: dict[str, Any]) -> None:
    """Refuse what a forked process would not do as one that is started."""
    first, option, *_ = command
    if first != sys.executable or (option.startswith("-") and option not in {"-m", "-c"}):
        raise ValueError(f"It is no program of this Python: {command}")
    if given["preexec_fn"] or given["pass_fds"]:
        raise ValueError("No function and no further descriptors reach a forked process")


setattr(subprocess.Popen, "_execute_child", _fork_or_execute)  # noqa: B010  private
