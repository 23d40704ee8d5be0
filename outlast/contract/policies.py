"""How effects are bounded and retried where neither a plan nor the run says otherwise.

Owns: the defaults. Every effect has a bound on each attempt, on the number of attempts, and on
the whole; a worker that dies is noticed by its missing heartbeat.
"""

from datetime import timedelta
from typing import Final

from outlast.loop.calls import Policy
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject

MODEL: Final = Policy(timeout_ms=600_000, attempts=10, maximum_interval_ms=60_000)
"""Ten attempts wait about five minutes in all: longer than most provider incidents."""

PREPARE: Final = Policy(timeout_ms=10_000, attempts=3, fast=True)

LOAD: Final = Policy(timeout_ms=60_000, attempts=5)
"""A run that begins with its session's items reads them from a database; a nested run begins with
what users' code makes of a call."""

CHECK: Final = Policy(timeout_ms=300_000)
"""Guardrails, hooks and handlers may ask models themselves."""

UNTIL_A_WORKER_HAS_IT: Final = Policy(attempts=0, maximum_interval_ms=15_000)
"""How often an effect is tried that the first worker could not carry out."""

WAIT_FOR_A_TOOL_MS: Final = 15 * 60_000
"""How long a call waits for a worker that has its tool, before the model is told: a deploy."""

WAIT_FOR_A_WORKER_MS: Final = 7 * 24 * 3_600_000
"""How long anything else waits for a worker that has its agent, context type or name."""

NESTED: Final = Policy(attempts=1)
"""A nested run retries what it does by itself."""

SAVE: Final = Policy(timeout_ms=60_000, attempts=10, maximum_interval_ms=60_000)

OFFLOAD: Final = Policy(timeout_ms=120_000, attempts=5, maximum_interval_ms=60_000)
"""Nothing waits for it; what fails is tried again when a model has been asked once more."""

LONGEST_MS: Final = 24 * 3_600_000
"""Bound on an effect as a whole. Generous, because it also covers the time without any worker."""

SLACK_MS: Final = 5_000
"""How much longer the engine waits for an attempt than the effect gives itself, so that the
effect's own time-out, which says more, comes first."""

HEARTBEAT_MS: Final = 10_000
"""How long a worker may be silent before an effect is tried elsewhere."""

ROLL_OVER_EVENTS: Final = 1_250
ROLL_OVER_BYTES: Final = 2_000_000
"""A history longer or larger than this is continued in a new one, between two steps."""

MAY_BE_CARRIED: Final = 8_000_000
"""Characters of content up to which a state is compressed to see whether a payload can hold it."""

TRIED_AGAIN_AFTER_BYTES: Final = 2_000_000
"""How much a history grows before it is seen again whether its state can be carried."""

FULL_BYTES: Final = 44_000_000
FULL_EVENTS: Final = 45_000
"""How far a history grows whose state cannot be carried. The server ends one of 50 MB (in this
count, 52 million bytes) or 51,200 events."""

EFFECT_BYTES: Final = 1_100_000
"""What an effect may add to a history: its result and the changes of the context."""

FAST_CALLS: Final = 12
"""How many fast calls of one reply run as local activities: all their results travel together, in a
message of at most 4 MB. Recorded histories depend on this number."""

STARTED_AT_ONCE_BYTES: Final = 1_500_000
"""How much input nested runs may have that start in one workflow task, whose commands travel
together. Recorded histories depend on this number."""

LONGEST_INBOX: Final = 1_000
"""Unanswered messages of a run. A server takes 2,000 updates for one history, decisions included."""

SHORTEST_HISTORY: Final = 20
"""No history is continued before it has held a step; the run would never come to one."""

LONGEST_RETRY_AFTER: Final = timedelta(minutes=5)
"""A provider may ask us to wait, but not longer than this."""


def heartbeat_ms(settings: JsonObject | None) -> int:
    """Return how long a worker may be silent: the run's own setting, or the default."""
    return _setting(settings, "heartbeat_ms", HEARTBEAT_MS, least=500)


def rolls_over(state: LoopState, *, events: int, size_bytes: int) -> bool:
    """Whether a history of this length is to be continued in a new one."""
    limit = _setting(
        state.start.settings, "roll_over_events", ROLL_OVER_EVENTS, least=SHORTEST_HISTORY
    )
    return events >= limit or size_bytes >= ROLL_OVER_BYTES


def is_full(*, events: int, size_bytes: int, running: int) -> bool:
    """Whether a history that cannot be continued in a new one has no room for another effect.

    Args:
        events: its length.
        size_bytes: its size.
        running: how many effects will still add their results.
    """
    return size_bytes + EFFECT_BYTES * (running + 1) > FULL_BYTES or events > FULL_EVENTS


def _setting(settings: JsonObject | None, name: str, default: int, *, least: int) -> int:
    """Return a setting of the run. It may have been typed by hand, so nonsense counts as none."""
    value = (settings or {}).get(name)
    return max(value, least) if type(value) is int else default
