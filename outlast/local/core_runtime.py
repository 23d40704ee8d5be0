"""The runtime of the engine's core in this process: it says little, and no process inherits it.

A process that was forked has a copy of its parent's, whose threads are not there. Neither can a
client be made with it, nor can a new one take its place: every few times, the process crashes.

Owns: which runtime there is by default. Must not know: clients, workers.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig

from outlast.agents.errors import UserError

_ALWAYS_TOLD: Final = "temporalio_sdk_core::worker::activities"


@dataclass(frozen=True, slots=True)
class _Known:
    """The runtime that a process was found or given, and which process that was."""

    runtime: Runtime
    pid: int


_known: _Known | None = None


def have_runtime() -> None:
    """Have a default runtime that works in this process; one that the program has chosen is kept.

    Raises:
        UserError: this process was forked from one that has a runtime, and has not chosen its own.
    """
    global _known  # noqa: PLW0603  the default is the process's, too
    pid = os.getpid()
    if _known is not None and _known.pid == pid:
        return
    if _known is None:
        with suppress(RuntimeError):  # the program has chosen its own
            Runtime.set_default(_quiet())
    elif Runtime.default() is _known.runtime:
        raise UserError(
            "This process was forked from one that has run agents, whose connections and threads "
            "are not here. Start it anew instead, as multiprocessing does with the start method "
            "'spawn' or 'forkserver', or fork before the first run."
        )
    _known = _Known(Runtime.default(), pid)


def _quiet() -> Runtime:
    """Leave out that the core answered a run which had ended; a cancel makes that happen."""
    usual: Any = LoggingConfig.default.filter
    words = usual if isinstance(usual, str) else usual.formatted()
    logs = LoggingConfig(filter=f"{words},{_ALWAYS_TOLD}=ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=logs))
