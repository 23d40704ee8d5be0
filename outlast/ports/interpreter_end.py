"""The end of the interpreter, and threads that are not Python's.

Owns: `wait_for_native_threads`. The Temporal SDK answers Python from threads of its own. One that
has just done so, and is interrupted before it has let go of the interpreter, aborts the process if
the interpreter ends meanwhile: one in thirty scripts that end with an answer of the server. A short
pause at the end, in which it can go on, is all it needs. Must not know: what the threads did.
"""

import atexit
import time
from functools import cache

PAUSE_SECONDS = 0.02
"""A thread needs microseconds; on a busy machine it has to get its turn first."""


@cache
def wait_for_native_threads() -> None:
    """Pause when the interpreter ends; called once or often, it is one pause."""
    atexit.register(time.sleep, PAUSE_SECONDS)
