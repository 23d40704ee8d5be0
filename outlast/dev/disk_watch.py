"""Says that the embedded server's directory cannot be written to, which it does not say itself.

With a full disk the server answers that it is unavailable, and its clients try again without a
word, for minutes; its log, which would say why, is on the same disk.
"""

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

from outlast.agents.logs import get_logger
from outlast.dev.data_dir import running_server

EVERY_SECONDS: Final = 5.0
"""How often a directory is looked at."""

AGAIN_SECONDS: Final = 60.0
"""How long after saying it, it is said again."""

_PROBE: Final = b"\0" * 65_536
"""As much as a run needs for its next steps."""

logger: Final = get_logger(__name__)


def problem_of_writing(path: Path) -> str | None:
    """Return why nothing can be written to a directory, in words; None if it can."""
    probe = path / f"probe.{os.getpid()}.{threading.get_ident()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    try:
        descriptor = os.open(probe, flags, 0o600)
        try:
            left = len(_PROBE)
            while left:  # less is written where less has room
                left -= os.write(descriptor, _PROBE[:left])
        finally:
            with suppress(FileNotFoundError):
                probe.unlink()
            os.close(descriptor)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return f"the disk of {path} is full ({error.strerror})"
        return f"{path} cannot be written to ({error.strerror})"
    return None


class DiskWatch:
    """Looks at a directory in a thread of its own, and says when it cannot be written to."""

    def __init__(self, path: Path, say: Callable[[str], None] | None = None) -> None:
        self._path = path
        self._say = say or partial(logger.warning, "%s")
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, name="outlast-disk", daemon=True).start()

    def stop(self) -> None:
        """Stop looking."""
        self._stopped.set()

    def _watch(self) -> None:
        said_at: float | None = None
        while not self._stopped.wait(EVERY_SECONDS):
            problem = problem_of_writing(self._path)
            if problem is None:
                if said_at is not None:
                    self._say(f"{self._path} can be written to again{self._outcome()}.")
                said_at = None
            elif said_at is None or monotonic() - said_at >= AGAIN_SECONDS:
                self._say(
                    f"The Temporal server on this machine cannot record anything: {problem}. Runs "
                    "wait, and continue when there is room."
                )
                said_at = monotonic()

    def _outcome(self) -> str:
        if running_server(self._path) is not None:
            return ", and runs continue"
        return "; the server has ended, and runs continue when it is started again"
