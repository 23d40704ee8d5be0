"""The default runtime of the Temporal SDK's core in this process.

This runtime logs less than the SDK's default. A forked process inherits a copy of its parent's
runtime, but not the runtime's threads. Creating a client with that copy, or replacing it, crashes
the process every few times.
"""

import gc
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig

from outlast.agents.errors import UserError

_ALWAYS_TOLD: Final = "temporalio_sdk_core::worker::activities"


@dataclass(frozen=True, slots=True)
class _Owner:
    runtime: Runtime
    pid: int


_owner: _Owner | None = None


def have_runtime() -> None:
    """Set this process's default runtime, unless the program has set one.

    Raises:
        UserError: this process was forked from one with a runtime, and has not set its own.
    """
    global _owner  # noqa: PLW0603  the default is the process's, too
    pid = os.getpid()
    if _owner is not None and _owner.pid == pid:
        return
    if _owner is None:
        with suppress(RuntimeError):  # the program has set its own
            Runtime.set_default(_quiet())
    elif Runtime.default() is _owner.runtime:
        raise UserError(
            "This process was forked from one that has run agents, whose connections and threads "
            "are not here. Start a new process instead, as multiprocessing does with the start method "
            "'spawn' or 'forkserver', or fork before the first run."
        )
    _owner = _Owner(Runtime.default(), pid)


def _leave_alone() -> None:
    """Keep a forked process from destroying what it inherited, which waits for missing threads."""
    if _owner is not None:
        gc.freeze()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_alone)


def _quiet() -> Runtime:
    """Create a runtime that does not log late activity results after a cancel."""
    usual: Any = LoggingConfig.default.filter
    words = usual if isinstance(usual, str) else usual.formatted()
    logs = LoggingConfig(filter=f"{words},{_ALWAYS_TOLD}=ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=logs))
