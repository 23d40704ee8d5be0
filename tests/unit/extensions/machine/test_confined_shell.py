"""The executor that confines programs: real processes, attacked from inside."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.extensions import ConfinedShell
from outlast.extensions.machine import confinement
from outlast.extensions.machine.shell import (
    ShellActionRequest,
    ShellCallData,
    ShellCommandOutput,
    ShellCommandRequest,
)
from tests.eventually import eventually

try:
    confinement.check()
except confinement.CannotConfineError as error:
    pytest.skip(f"this machine cannot confine programs: {error}", allow_module_level=True)

needs_python = pytest.mark.skipif(
    shutil.which("python3", path="/usr/bin:/bin") is None, reason="there is no python3 in /usr/bin"
)
ANY: Any = RunContextWrapper(None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "secret").write_text("hunter2")
    (tmp_path / "secret").chmod(0o600)
    return folder


def entries(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def change(root: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str) -> None:
    """Let the executor start a changed copy of the script that confines."""
    source = Path(confinement.__file__).read_text()
    assert before in source
    (root.parent / "changed.py").write_text(source.replace(before, after))
    monkeypatch.setattr(confinement, "__file__", str(root.parent / "changed.py"))


async def outputs(
    shell: ConfinedShell, *commands: str, timeout_ms: int | None = None
) -> list[ShellCommandOutput]:
    action = ShellActionRequest(list(commands), timeout_ms)
    result = await shell(ShellCommandRequest(ANY, ShellCallData("c1", action)))
    assert [one.command for one in result.output] == list(commands)
    return result.output


async def output(shell: ConfinedShell, command: str) -> ShellCommandOutput:
    (only,) = await outputs(shell, command)
    return only


async def python(root: Path, program: str, **options: Any) -> ShellCommandOutput:
    """Run a program that the model wrote into the folder."""
    (root / "attack.py").write_text(program)
    return await output(ConfinedShell(root, {"python3"}, **options), "python3 -I attack.py")


async def test_programs_read_and_write_the_folder(root: Path) -> None:
    shell = ConfinedShell(root, {"cat", "cp", "mkdir", "mv", "rm", "touch"})
    (root / "a").write_text("here")
    done = await outputs(shell, "cat a", "mkdir b", "cp a b/c", "mv b/c d", "rm a", "touch 'e f'")
    assert [one.exit_code for one in done] == [0] * 6, done
    assert done[0].stdout == "here"
    assert entries(root) == ["b", "d", "e f"]


@pytest.mark.parametrize(
    "command",
    [
        "cat x; env; touch ../OWNED",
        "cat x && env",
        "cat x | env",
        "cat x & env",
        "cat x\nenv",
        "cat $(env)",
        "cat `env`",
        'cat "$(env)"',
        'cat "`env`"',
        "cat $HOME",
        "cat < ../secret",
        "cat x > ../OWNED",
        "cat *",
        "cat \"it's\" | env 'x'",
    ],
)
async def test_a_command_for_a_shell_is_refused_and_never_approved(
    root: Path, command: str
) -> None:
    shell = ConfinedShell(root, {"cat", "env", "touch"})
    done = await output(shell, command)
    assert (done.exit_code, done.stdout) == (126, "")
    assert "No shell reads this command" in done.stderr
    assert not (root.parent / "OWNED").exists()
    assert approval(shell, command) == {}


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("touch ../OWNED", "The programs that may run here are cat."),
        ("/bin/cat x", "The programs that may run here are cat."),
        ("A=1 cat x", "The programs that may run here are cat."),
        ("", "The programs that may run here are cat."),
        ("cat 'x", "cannot be read"),
        ("cat x\0y", "zero byte"),
    ],
)
async def test_other_commands_are_refused(root: Path, command: str, says: str) -> None:
    shell = ConfinedShell(root, {"cat"})
    done = await output(shell, command)
    assert done.exit_code == 126
    assert says in done.stderr
    assert approval(shell, command) == {}


@pytest.mark.parametrize("command", ["cat ';' '$HOME' \"a|b\" \\*", "cat 'a\nb'"])
async def test_quoted_characters_are_literal(root: Path, command: str) -> None:
    done = await output(ConfinedShell(root, {"cat"}), command)
    assert done.exit_code == 1
    assert "No such file" in done.stderr


def approval(shell: ConfinedShell, *commands: str) -> dict[str, bool]:
    action = ShellActionRequest(list(commands))
    item: Any = SimpleNamespace(raw_item=SimpleNamespace(action=action))
    return shell.approve("cat")(ANY, item)


def test_calls_of_listed_programs_only_are_approved(root: Path) -> None:
    shell = ConfinedShell(root, {"cat", "rm"})
    assert approval(shell, "cat a", "cat 'b c'") == {"approve": True}
    assert approval(shell, "cat a", "rm a") == {}
    with pytest.raises(UserError, match="must name programs of this executor: cat, rm"):
        shell.approve("sed")
    with pytest.raises(UserError, match="must name programs"):
        shell.approve()


@pytest.mark.parametrize(
    "path", ["../secret", "/etc/passwd", "/etc/shadow", "link", "/proc/1/environ"]
)
async def test_files_elsewhere_are_not_read(root: Path, path: str) -> None:
    (root / "link").symlink_to(root.parent / "secret")
    done = await output(ConfinedShell(root, {"cat"}), f"cat {path}")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "denied" in done.stderr


@pytest.mark.parametrize(
    "command",
    ["touch ../OWNED", "cp a ../OWNED", "mv a ../OWNED", "ln ../secret b", "rm ../secret",
     "mkdir ../OWNED", "truncate -s 0 ../secret", "chmod 777 ../secret", "chmod 777 a",
     "mv ../secret b", "rm -r /usr/share/doc", "touch out/OWNED"],
)  # fmt: skip
async def test_nothing_elsewhere_is_changed(root: Path, command: str) -> None:
    (root / "a").write_text("here")
    (root / "out").symlink_to(root.parent)
    name = command.split(maxsplit=1)[0]
    done = await output(ConfinedShell(root, {name}), command)
    assert done.exit_code not in {0, 126}, done
    assert entries(root.parent) == ["secret", "work"]
    assert (root.parent / "secret").read_text() == "hunter2"
    assert (root.parent / "secret").stat().st_mode & 0o777 == 0o600


async def test_the_environment_of_the_worker_stays_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    done = await output(ConfinedShell(root, {"env"}, environment={"MODE": "test"}), "env")
    assert sorted(line.split("=")[0] for line in done.stdout.splitlines()) == [
        "HOME", "LANG", "MODE", "PATH", "TMPDIR",
    ]  # fmt: skip


async def test_only_listed_programs_are_started_by_others(root: Path) -> None:
    shell = ConfinedShell(root, {"find"})
    done = await output(shell, "find . -maxdepth 0 -exec touch OWNED {} ';'")
    assert "denied" in done.stderr
    assert not (root / "OWNED").exists()


@needs_python
async def test_a_program_that_the_model_wrote_does_not_start(root: Path) -> None:
    (root / "own").write_text("#!/bin/sh\necho started\n")
    (root / "own").chmod(0o755)
    done = await python(root, "import os\nos.execv('./own', ['own'])")
    assert "PermissionError" in done.stderr
    assert "started" not in done.stdout


@needs_python
@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"])
async def test_there_is_no_network(root: Path, family: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        done = await python(
            root,
            f"import socket\nprint('made')\ns = socket.socket(socket.{family})\n"
            f"s.connect(('127.0.0.1', {port}))",
        )
    assert done.stdout == "made\n"
    assert "PermissionError" in done.stderr


@needs_python
@pytest.mark.parametrize(
    "attack",
    [
        "os.kill(PID, 9)",
        "os.killpg(os.getpgid(PID), 9)",
        "resource.prlimit(PID, resource.RLIMIT_CPU, (0, 0))",
        "os.setpriority(os.PRIO_PROCESS, PID, 19)",
        "os.sched_setaffinity(PID, {0})",
        "open(f'/proc/{PID}/environ').read()",
        "open(f'/proc/{PID}/mem', 'wb')",
        "os.setsid()",
        "os.setpgid(0, 0)",
        "os.chmod('.', 0o777)",
        "os.utime('..')",
        "os.chown('.', 0, 0)",
        "os.setxattr('.', 'user.a', b'')",
        "os.mknod('device', 0o60600, os.makedev(7, 0))",
    ],
)
async def test_other_processes_are_out_of_reach(root: Path, attack: str) -> None:
    with victims() as victim:
        done = await python(root, f"import os, resource\nPID = {victim.pid}\n{attack}")
        assert done.exit_code == 1, done
        assert "PermissionError" in done.stderr, done
        assert victim.poll() is None
        victim.communicate(b"\n")
    assert victim.returncode == 0


def victims() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    )


@needs_python
async def test_signals_stay_inside_where_landlock_does_not_keep_them(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older kernel, whose filter denies signals."""
    change(root, monkeypatch, "scoped = 3 if abi >= _SIGNALS_ABI else 0", "scoped = 0")
    done = await python(root, f"import os\nos.kill({os.getpid()}, 0)")
    assert "PermissionError" in done.stderr


@needs_python
async def test_limits_hold(root: Path) -> None:
    done = await python(root, "bytearray(1 << 30)", memory_bytes=1 << 28)
    assert "MemoryError" in done.stderr
    done = await python(root, "print('x' * (1 << 22), flush=True)", file_bytes=1 << 20)
    assert "File too large" in done.stderr
    assert 0 < len(done.stdout) <= 400_000
    done = await python(root, "open('large', 'wb').write(bytes(1 << 22))", file_bytes=1 << 20)
    assert "File too large" in done.stderr
    assert (root / "large").stat().st_size <= 1 << 20


async def test_a_call_ends_at_its_time_with_all_that_it_started(root: Path) -> None:
    shell = ConfinedShell(root, {"sh", "sleep", "touch"}, timeout=timedelta(seconds=1))
    began = time.monotonic()
    done = await outputs(
        shell, "sh -c '(trap \"\" TERM HUP; sleep 120; touch late) & sleep 121'", "touch after"
    )
    assert time.monotonic() - began < 20
    assert [one.outcome.type for one in done] == ["timeout", "timeout"]
    assert "Not run" in done[1].stderr
    await eventually(lambda: not sleeping(root))
    assert entries(root) == []


async def test_what_a_command_leaves_behind_ends_with_it(root: Path) -> None:
    shell = ConfinedShell(root, {"sh", "sleep"})
    done = await output(shell, "sh -c 'sleep 120 & echo done'")
    assert (done.stdout, done.exit_code) == ("done\n", 0)
    await eventually(lambda: not sleeping(root))


async def test_the_model_may_ask_for_less_time(root: Path) -> None:
    shell = ConfinedShell(root, {"sleep"}, timeout=120)
    (done,) = await outputs(shell, "sleep 100", timeout_ms=300)
    assert done.outcome.type == "timeout"


async def test_a_cancelled_call_ends_its_program(root: Path) -> None:
    task = asyncio.create_task(output(ConfinedShell(root, {"sleep"}), "sleep 100"))
    await eventually(lambda: sleeping(root))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: not sleeping(root))


def sleeping(root: Path) -> list[str]:
    """Return the processes that still work in the folder."""
    found: list[str] = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and (process / "cwd").resolve() == root:
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return [one for one in found if one]


async def test_a_program_that_cannot_be_confined_does_not_start(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(root, monkeypatch, '"=QQQ", handled, 0, scoped', '"=QQQ", 1 << 63, 0, scoped')
    done = await output(ConfinedShell(root, {"touch"}), "touch a")
    assert done.exit_code == confinement.CANNOT_CONFINE
    assert "touch was not started: Landlock: Invalid argument" in done.stderr
    assert entries(root) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"root": "/"}, "must be a folder other than '/'"),
        ({"root": "missing"}, "must be a folder"),
        ({"timeout": 0}, "timeout"),
        ({"programs": {"no-such-program"}}, "there is no program 'no-such-program'"),
        ({"programs": {"../cat"}}, "there is no program '../cat'"),
        ({"root": "/usr"}, "the program 'cat' is in the folder '/usr'"),
    ],
)
def test_mistakes_are_refused_at_once(root: Path, arguments: dict[str, Any], says: str) -> None:
    given: dict[str, Any] = {"root": root, "programs": {"cat"}, **arguments}
    with pytest.raises(UserError, match=says):
        ConfinedShell(**given)


def test_a_machine_that_cannot_confine_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UserError, match="cannot confine programs on this machine: it needs Linux"):
        ConfinedShell(root, {"cat"})
    monkeypatch.undo()
    monkeypatch.setattr(confinement, "_abi", lambda: 2)
    with pytest.raises(UserError, match="Landlock has version 2"):
        ConfinedShell(root, {"cat"})
