"""Conditions on the loop's own state, for what waits on the public one."""

from collections.abc import Callable

from outlast.loop.state import LoopState
from outlast.views.run import RunSnapshot, loop_state


def of_loop(condition: Callable[[LoopState], bool]) -> Callable[[RunSnapshot], bool]:
    """Return a condition on a run as programs have it."""
    return lambda run: condition(loop_state(run))
