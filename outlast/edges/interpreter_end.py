"""Internal. A short pause at the interpreter's exit, for the Temporal SDK's threads.

The SDK delivers responses to Python from native threads. If the interpreter exits while such a
thread is about to release the GIL, the process aborts. This happened in about one of thirty scripts
that end with a response of the server. A short pause lets the threads finish.
"""

import atexit
import time
from functools import cache

PAUSE_SECONDS = 0.02
"""How long to pause. A thread needs microseconds, but on a busy machine it waits for the CPU."""


@cache
def wait_for_native_threads() -> None:
    """Make the interpreter pause once at exit, however often this is called."""
    atexit.register(time.sleep, PAUSE_SECONDS)
