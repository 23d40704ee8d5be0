"""Results of local activities that a workflow task may have lost.

A local activity runs inside a workflow task, which the server gives up after ten seconds. A call
that blocks the event loop for longer has its result when the server no longer waits for the task:
the next task asks for the same call, which would block the loop again, and so on. So a process
keeps the results that came late, and the next attempt of the same call gets its own.
"""

import threading
import time
from collections import OrderedDict
from typing import Final, TypeAlias

from outlast.loop.values import JsonObject

LATE_SECONDS: Final = 2.0
"""From which duration on a result is kept; its workflow task may be lost."""

MOST: Final = 100
"""How many results a process keeps; each has at most 300 kB."""

KEPT_SECONDS: Final = 600.0
"""How long a result is kept."""

Key: TypeAlias = tuple[str, str, str]
"""The run id of a workflow, and the id and the type of its activity."""


class LateResults:
    """The late results of a process. Thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, tuple[float, JsonObject]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: Key) -> JsonObject | None:
        """Return the result that an earlier attempt of a call had, if it came late.

        The result stays: its next workflow task may be lost, too.
        """
        with self._lock:
            kept_at, result = self._kept.get(key, (0.0, None))
            return result if time.monotonic() - kept_at <= KEPT_SECONDS else None

    def keep(self, key: Key, result: JsonObject, seconds: float) -> None:
        """Keep the result of a call that took so many seconds, if that is late."""
        if seconds < LATE_SECONDS:
            return
        now = time.monotonic()
        with self._lock:
            self._kept[key] = (now, result)
            self._kept.move_to_end(key)
            while len(self._kept) > MOST or now - next(iter(self._kept.values()))[0] > KEPT_SECONDS:
                self._kept.popitem(last=False)


late_results = LateResults()
"""The instance of this process."""
