"""Runs one command for as long as somebody uses it, and never longer.

    python -I -S guard.py USERS_LOCK kept|temporary COMMAND...

Whoever uses the command holds a shared lock on the file USERS_LOCK. The kernel drops a lock when
its process ends, however it ends, so the guard ends the command when the last user is gone, also
after SIGKILL. `temporary` removes the lock's directory then. The first line on standard output is
the command's process id; everything the command prints goes to standard error.

Owns: the life of one child process. Must not import anything but the standard library: it is run
as a script, before and without the package.
"""

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import NoReturn

GRACE_SECONDS = 10.0
"""How long the command may take to end after SIGTERM before it gets SIGKILL."""

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> NoReturn:
    """Run the command until it ends, SIGTERM arrives, or its last user is gone."""
    users_lock, keep, *command = arguments
    users = os.open(users_lock, os.O_RDWR)
    child: subprocess.Popen[bytes] | None = None
    ending = False

    def end(_signal: int = 0, _frame: FrameType | None = None) -> None:
        nonlocal ending
        ending = True
        if child is not None:
            child.terminate()
            killer = threading.Timer(GRACE_SECONDS, child.kill)
            killer.daemon = True
            killer.start()

    def end_when_unused() -> None:
        # Granted when no process is left that holds it shared. Kept until the guard ends, so a
        # newcomer that cannot get its shared lock knows that the command is ending.
        fcntl.flock(users, fcntl.LOCK_EX)
        end()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Safe although it runs between fork and exec: the guard has only this thread so far. It
    # covers the death of the guard itself, on Linux; elsewhere nothing does.
    die_with_guard = _die_with_parent if sys.platform == "linux" else None
    child = subprocess.Popen(command, stdout=sys.stderr, preexec_fn=die_with_guard)  # noqa: PLW1509
    if ending:
        end()
    sys.stdout.write(f"{child.pid}\n")
    sys.stdout.flush()
    threading.Thread(target=end_when_unused, daemon=True).start()
    code = child.wait()
    if ending and keep == "temporary":
        shutil.rmtree(Path(users_lock).parent, ignore_errors=True)
    sys.exit(code if code >= 0 else 128 - code)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
