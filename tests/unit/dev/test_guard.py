"""The guard: a command lives exactly as long as somebody uses it."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import outlast.dev

GUARD = Path(outlast.dev.__file__).with_name("guard.py")
# Says that it ends, and when it could not, so that a test can tell the two apart.
POLITE = "import signal, sys; signal.sigwait({signal.SIGTERM}); print('bye'); sys.exit(7)"


class Guarded:
    """A guard with one user, this test, and its command."""

    def __init__(self, directory: Path, code: str, keep: str = "kept") -> None:
        self.users = os.open(directory / "users.lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(self.users, fcntl.LOCK_SH)
        # The command blocks the signal from its first moment: none can come too early.
        setup = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}); "
        lock = str(directory / "users.lock")
        self.guard = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", str(GUARD), lock, keep),
                *(sys.executable, "-c", f"{setup}print('ready', flush=True); {code}"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.guard.stdout is not None
        assert self.guard.stderr is not None
        self.pid = int(self.guard.stdout.readline())
        assert self.guard.stderr.readline() == "ready\n"

    def let_go(self) -> None:
        os.close(self.users)
        self.users = -1

    def last_words(self) -> str:
        """Wait until no process holds standard error any more, and return what was written."""
        assert self.guard.stderr is not None
        return self.guard.stderr.read()

    def clean_up(self) -> None:
        if self.users >= 0:
            self.let_go()
        for pid in (self.guard.pid, self.pid):
            if self.guard.returncode is None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.guard.communicate()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Callable[..., Guarded]]:
    started: list[Guarded] = []

    def start(code: str = POLITE, keep: str = "kept") -> Guarded:
        directory = tmp_path / "dir"
        directory.mkdir()
        started.append(Guarded(directory, code, keep))
        return started[-1]

    yield start
    for one in started:
        one.clean_up()


def test_the_command_ends_in_order_when_its_last_user_lets_go(guarded: Callable[..., Guarded]):
    one = guarded()
    one.let_go()
    assert one.last_words() == "bye\n"
    assert one.guard.wait() == 7


def test_the_command_lives_on_while_another_process_uses_it(
    guarded: Callable[..., Guarded], tmp_path: Path
):
    one = guarded()
    hold = (
        "import fcntl, sys; lock = open(sys.argv[1]); fcntl.flock(lock, fcntl.LOCK_SH); "
        "print('holds', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path / "dir" / "users.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"holds\n"
    one.let_go()
    with pytest.raises(subprocess.TimeoutExpired):
        one.guard.wait(timeout=0.2)
    other.kill()
    other.communicate()
    assert one.last_words() == "bye\n"


def test_sigterm_ends_the_command_in_order(guarded: Callable[..., Guarded]):
    one = guarded()
    one.guard.terminate()
    assert one.last_words() == "bye\n"


def test_the_guard_ends_with_its_command(guarded: Callable[..., Guarded]):
    one = guarded()
    os.kill(one.pid, signal.SIGKILL)
    assert one.guard.wait() == 128 + signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_the_command_does_not_outlive_a_killed_guard(guarded: Callable[..., Guarded]):
    one = guarded()
    one.guard.kill()
    assert one.last_words() == ""


@pytest.mark.parametrize(("keep", "is_left"), [("kept", True), ("temporary", False)])
def test_a_temporary_directory_goes_with_the_last_user(
    guarded: Callable[..., Guarded], tmp_path: Path, keep: str, *, is_left: bool
):
    one = guarded(keep=keep)
    one.let_go()
    one.guard.wait()
    assert (tmp_path / "dir").exists() == is_left


def test_a_command_that_ends_by_itself_leaves_its_directory_to_read(
    guarded: Callable[..., Guarded], tmp_path: Path
):
    one = guarded("sys = __import__('sys'); sys.exit(3)", "temporary")
    assert one.guard.wait() == 3
    assert (tmp_path / "dir").exists()
