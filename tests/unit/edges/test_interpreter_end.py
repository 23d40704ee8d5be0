"""The pause before the interpreter ends."""

import subprocess
import sys
from time import monotonic

from outlast.edges.interpreter_end import PAUSE_SECONDS


def ended_after(program: str) -> float:
    """Return how long a program takes from its last line to the end of its exit functions."""
    program = (
        "import atexit, time\n"
        "atexit.register(lambda: print(time.monotonic() - begun))\n"  # runs after the others
        f"{program}\n"
        "begun = time.monotonic()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def test_the_interpreter_ends_after_a_pause_and_however_often_it_is_asked_for_after_one() -> None:
    wait = "from outlast.edges.interpreter_end import wait_for_native_threads as wait; "
    begun = monotonic()
    took = ended_after(wait + "[wait() for _ in range(100)]")
    assert PAUSE_SECONDS <= took < 100 * PAUSE_SECONDS
    assert took < monotonic() - begun
