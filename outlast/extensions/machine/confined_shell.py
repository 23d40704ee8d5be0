"""An executor for `ShellTool`: listed programs, without a shell, in a folder they cannot leave."""

import asyncio
import contextlib
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, ClassVar, Final

from outlast.agents.checks import duration
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.durations import as_duration
from outlast.agents.errors import UserError
from outlast.agents.items.run_items import ToolApprovalItem
from outlast.extensions.machine import confinement
from outlast.extensions.machine.shell import (
    MOST_OUTPUT_CHARACTERS,
    ShellActionRequest,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
)

PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""Where programs are found, whatever the worker's own PATH is."""

NOT_RUN: Final = 126
"""The exit code of a command that was refused."""

_QUOTED = re.compile(r"""\\.|'[^']*'|"((?:\\.|[^"\\])*)\"""", re.DOTALL)
_SYNTAX = re.compile(r"[|&;<>()$`*?\[\n]")


class RefusedCommandError(Exception):
    """A command that is not run; the model reads why."""


class ConfinedShell:
    """An executor of `ShellTool` that runs listed programs in a folder they cannot leave.

    Each command is one program and its arguments; no shell reads it. The program has a small
    environment without the worker's, no network, and limits of time, memory and output. It reads
    and writes files of the folder only, besides programs and libraries of the system, which it
    reads. The kernel enforces that (Landlock and seccomp, Linux 6.2 and later), also for whatever
    the program starts.
    """

    is_confined: ClassVar[bool] = True
    """What `outlast doctor --security` looks for."""

    def __init__(
        self,
        root: str | Path,
        programs: Iterable[str],
        *,
        timeout: timedelta | float = timedelta(seconds=30),
        environment: Mapping[str, str] | None = None,
        readable: Iterable[str | Path] = (),
        memory_bytes: int = 1 << 30,
        file_bytes: int = 1 << 26,
        processes: int = 64,
    ) -> None:
        """Create the executor.

        Args:
            root: the folder, which exists: where commands run, and the only place that they change.
            programs: the names of the programs that may run, such as `{"cat", "ls"}`. An
                interpreter among them runs what the model wrote, in the folder.
            timeout: the longest time of a call with all its commands; a number is in seconds. The
                model may ask for less.
            environment: variables for the programs. They have no others but PATH, HOME, TMPDIR and
                LANG.
            readable: further files and folders that they may read.
            memory_bytes: the limit of each process's memory.
            file_bytes: the limit of each written file. The model reads the first 100,000 characters
                of the outputs.
            processes: how many more processes may run at once than this user has already. Does not
                limit a worker that runs as root.

        Raises:
            UserError: an argument is invalid, a program is not there, or this machine cannot
                confine programs.
        """
        self._root = Path(root).resolve()
        if not self._root.is_dir() or self._root == Path("/"):
            raise UserError(f"ConfinedShell(root={str(root)!r}) must be a folder other than '/'.")
        limit: Any = as_duration(timeout)
        duration("ConfinedShell(timeout=...)", limit)
        self._timeout: float = limit.total_seconds()
        self._programs = {name: self._found(name) for name in sorted(_names(programs))}
        _check_machine()
        home = str(self._root)
        own = {"PATH": PATH, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8"}
        self._environment = {**own, **(environment or {})}
        self._settings = {
            "root": home,
            "execute": [str(path) for path in self._programs.values()],
            "read": [str(Path(one).resolve()) for one in readable],
            "limits": {
                "seconds": math.ceil(self._timeout),
                "memory_bytes": memory_bytes,
                "file_bytes": file_bytes,
                "processes": processes,
            },
        }

    async def __call__(self, request: ShellCommandRequest) -> ShellResult:
        """Run the commands of a call, one after the other."""
        action = request.data.action
        asked = math.inf if action.timeout_ms is None else action.timeout_ms / 1000
        deadline = asyncio.get_running_loop().time() + min(asked, self._timeout)
        return ShellResult([await self._output_of(one, deadline) for one in action.commands])

    def approve(
        self, *programs: str
    ) -> Callable[[RunContextWrapper[Any], ToolApprovalItem], dict[str, bool]]:
        """Return an `on_approval` that lets calls of these programs run without a person.

        A call with a command of another program, or that this executor would refuse, is left to a
        person. Name programs that only read, whatever their arguments say: `find` deletes and
        `sort` writes, if asked to.

        Raises:
            UserError: a program is not one of this executor's.
        """
        unknown = sorted(_names(programs) - set(self._programs))
        if unknown or not programs:
            raise UserError(
                f"ConfinedShell.approve({', '.join(map(repr, programs))}) must name programs of "
                f"this executor: {', '.join(self._programs)}."
            )

        def on_approval(context: RunContextWrapper[Any], item: ToolApprovalItem) -> dict[str, bool]:
            action: ShellActionRequest = item.raw_item.action
            return {"approve": True} if self._are_all_of(action.commands, programs) else {}

        return on_approval

    def _are_all_of(self, commands: Iterable[str], programs: Iterable[str]) -> bool:
        try:
            return {self._words(one)[0] for one in commands} <= set(programs)
        except RefusedCommandError:
            return False

    def _found(self, name: str) -> Path:
        found = shutil.which(name, path=PATH) if re.fullmatch(r"[\w+.-]+", name) else None
        if found is None:
            raise UserError(f"ConfinedShell(programs=...): there is no program {name!r} in {PATH}.")
        path = Path(found).resolve()
        if path.is_relative_to(self._root):
            raise UserError(
                f"ConfinedShell: the program {name!r} is in the folder {str(self._root)!r}, where "
                "commands could change it."
            )
        return path

    def _words(self, command: str) -> list[str]:
        if _SYNTAX.search(_QUOTED.sub(_expanded, command)):
            raise RefusedCommandError(
                "No shell reads this command: there are no pipes, redirections, variables, "
                "patterns, or several commands in one. Quote such characters where they are "
                "meant literally."
            )
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise RefusedCommandError(f"The command cannot be read: {error}.") from None
        if not words or words[0] not in self._programs:
            raise RefusedCommandError(
                f"The programs that may run here are {', '.join(self._programs)}."
            )
        if any("\0" in word for word in words):
            raise RefusedCommandError("The command has a zero byte.")
        return words

    async def _output_of(self, command: str, deadline: float) -> ShellCommandOutput:
        try:
            words = self._words(command)
        except RefusedCommandError as error:
            return ShellCommandOutput("", str(error), ShellCallOutcome("exit", NOT_RUN), command)
        if asyncio.get_running_loop().time() >= deadline:
            outcome = ShellCallOutcome("timeout")
            return ShellCommandOutput(
                "", "Not run: the time of the call is over.", outcome, command
            )
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            process = self._start(words, stdout, stderr)
            try:
                ended = await _ended(process, deadline)
            finally:
                await _killed(process)
            code = process.returncode
            outcome = ShellCallOutcome("timeout")
            if ended:  # by a signal, its number below zero
                outcome = ShellCallOutcome("exit", code if code >= 0 else 128 - code)
            return ShellCommandOutput(_text_of(stdout), _text_of(stderr), outcome, command)

    def _start(
        self, words: list[str], stdout: IO[bytes], stderr: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        settings = json.dumps({**self._settings, "path": str(self._programs[words[0]])})
        return subprocess.Popen(  # noqa: S603  a list of arguments, without a shell
            [sys.executable, "-I", "-S", confinement.__file__, settings, *words],
            cwd=self._root,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,  # one group, which ends as a whole
        )


def _check_machine() -> None:
    try:
        confinement.check()
    except confinement.CannotConfineError as error:
        raise UserError(
            f"ConfinedShell cannot confine programs on this machine: {error}. Run the worker "
            "in a container on such a machine."
        ) from None


def _names(programs: Iterable[str]) -> set[str]:
    return {programs} if isinstance(programs, str) else set(programs)


def _expanded(quoted: re.Match[str]) -> str:
    """Return what a shell would replace in a quoted text: it does between double quotes."""
    return "".join(re.findall(r"[$`]", re.sub(r"\\.", "", quoted[1] or "", flags=re.DOTALL)))


def _text_of(output: IO[bytes]) -> str:
    """Return an output; one that is too long is cut off where the model reads it."""
    output.seek(0)
    return output.read(4 * MOST_OUTPUT_CHARACTERS).decode(errors="replace")


async def _ended(process: subprocess.Popen[bytes], deadline: float) -> bool:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    watched = os.pidfd_open(process.pid)
    loop.add_reader(watched, over.set)
    try:
        async with asyncio.timeout_at(deadline):
            await over.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(watched)
        os.close(watched)
    return True


async def _killed(process: subprocess.Popen[bytes]) -> None:
    # Not reaped yet, so that its id still is its group's.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await asyncio.to_thread(process.wait)
