"""The runtime of the engine's core in this process: it says little, and every process has its own.

A process that was forked has a copy of its parent's, whose threads are not there: no client can be
made with it.

Owns: which runtime there is by default. Must not know: clients, workers.
"""

import ctypes
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig

_ALWAYS_TOLD: Final = "temporalio_sdk_core::worker::activities"


@dataclass(frozen=True, slots=True)
class _Known:
    """The runtime that a process was found or given, and which process that was."""

    runtime: Runtime
    pid: int


_known: _Known | None = None


def have_runtime() -> None:
    """Have a default runtime that works in this process; one that the program has chosen is kept.

    A forked process gets a new one, unless it has chosen one by itself since.
    """
    global _known  # noqa: PLW0603  the default is the process's, too
    pid = os.getpid()
    if _known is not None and _known.pid == pid:
        return
    if _known is None:
        with suppress(RuntimeError):  # the program has chosen its own
            Runtime.set_default(_quiet())
    elif Runtime.default() is _known.runtime:
        _keep_for_ever(_known.runtime)
        Runtime.set_default(_quiet(), error_if_already_set=False)
    _known = _Known(Runtime.default(), pid)


def _quiet() -> Runtime:
    """Leave out that the core answered a run which had ended; a cancel makes that happen."""
    usual: Any = LoggingConfig.default.filter
    words = usual if isinstance(usual, str) else usual.formatted()
    logs = LoggingConfig(filter=f"{words},{_ALWAYS_TOLD}=ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=logs))


def _keep_for_ever(runtime: Runtime) -> None:
    """Never let a copy of a parent's runtime be taken apart.

    That would wait for threads which are the parent's, and the process would never end.
    """
    core: Any = runtime._core_runtime  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  nothing public holds the threads
    for one in (runtime, core):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
