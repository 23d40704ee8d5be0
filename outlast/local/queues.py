"""The task queues of programs that host their own runs.

A run uses the definitions of the process that polls its queue. So two processes never poll the same
queue, even if they execute the same script: the second process takes the next queue name. When a
process ends, in any way, its queues can be claimed again.
"""

import fcntl
import hashlib
import os
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

from outlast.agents.logs import get_logger
from outlast.contract import names
from outlast.dev.data_dir import create_data_dir, open_lock, try_lock
from outlast.local.program import Program

logger: Final = get_logger(__name__)

# Of the process: a lock on a file that cannot be written keeps no second event loop out.
_claimed_here: set[str] = set()
_claiming = threading.Lock()


def queue_names(program: Program, agent: str) -> Iterator[str]:
    """Yield the queue names for an agent's runs in a program, in order of preference."""
    for number in count(1):
        which = program.name if number == 1 else f"{program.name}.{number}"
        yield f"{names.PROGRAM_QUEUE_PREFIX}{which}-{agent}"


class QueueClaim:
    """A queue that no other process on this machine has claimed."""

    def __init__(self, queue: str, path: Path, descriptor: int | None) -> None:
        self.queue = queue
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def take(cls, queue: str, directory: Path) -> "QueueClaim | None":
        """Claim a queue, or return None if another process has claimed it."""
        path = directory / f"{hashlib.sha256(queue.encode()).hexdigest()[:16]}.lock"
        with _claiming:
            if queue in _claimed_here:
                return None
            descriptor = _open(path)
            if descriptor is not None and not try_lock(descriptor, fcntl.LOCK_EX):
                os.close(descriptor)
                return None
            _claimed_here.add(queue)
            return cls(queue, path, descriptor)

    def release(self, *, for_good: bool = False) -> None:
        """Release the claim, so that other processes can take the queue.

        After `for_good`, no process claims the queue again.
        """
        with _claiming:
            _claimed_here.discard(self.queue)
            if self._descriptor is not None:
                if for_good:
                    self._path.unlink(missing_ok=True)
                os.close(self._descriptor)
                self._descriptor = None


def _open(path: Path) -> int | None:
    """Open the lock file of a claim; return None if it cannot be written."""
    try:
        create_data_dir(path.parent.parent)
        path.parent.mkdir(exist_ok=True, mode=0o700)
        return open_lock(path)
    except OSError as error:
        logger.debug("other processes cannot see which queues this one hosts: %s", error)
        return None
