"""Runs one command for as long as at least one process uses it.

    python -I -S guard.py USERS_LOCK kept|temporary COMMAND...

Every user of the command holds a shared lock on the file USERS_LOCK. The kernel releases a lock
when its process ends, even by SIGKILL. So the guard notices when the last user is gone, and ends
the command. With `temporary`, it then deletes the lock's directory. The first line on standard
output is the command's process id; the command's own output goes to standard error.

Must not import anything but the standard library: this file is run as a script, without the
package.
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
"""How long the command may take to end after SIGTERM before it is killed."""

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
        # The exclusive lock is granted when no process holds the lock shared. The guard keeps it
        # until it exits, so a new user that gets no shared lock knows that the command is ending.
        fcntl.flock(users, fcntl.LOCK_EX)
        end()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # `preexec_fn` is safe here, because the guard has only one thread so far. On Linux, it ends
    # the command if the guard itself dies; other systems have no equivalent.
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
