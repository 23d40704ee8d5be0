"""Default time-outs and retries of effects, and the limits of histories.

Every effect has a limit on each attempt, on the number of attempts, and on the whole; a missing
heartbeat reveals that a worker died.
"""

from datetime import timedelta
from typing import Final

from outlast.loop.calls import ExecutionOptions
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject

MODEL: Final = ExecutionOptions(timeout_ms=600_000, attempts=10, maximum_interval_ms=60_000)
"""Ten attempts wait about five minutes in total, which is longer than most provider incidents."""

BEGUN: Final = ExecutionOptions(
    timeout_ms=120_000,
    attempts=0,
    initial_interval_ms=2_000,
    backoff=1.5,
    maximum_interval_ms=30_000,
)
"""A look whether the provider has made a response in the background: soon, and then each half minute.
Between two looks, no worker is needed, and the history does not grow."""

CANCEL_RESPONSE: Final = ExecutionOptions(timeout_ms=30_000, attempts=5)
"""A response that cannot be cancelled ends by itself, and costs its tokens."""

PREPARE: Final = ExecutionOptions(timeout_ms=10_000, attempts=3, fast=True)

LOAD: Final = ExecutionOptions(timeout_ms=60_000, attempts=5)
"""Preparing reads a session's items from a database, or runs user code: that which makes a nested
run's input, or a hook."""

CHECK: Final = ExecutionOptions(timeout_ms=300_000)
"""Guardrails, hooks and handlers may call models themselves."""

COMPACT: Final = ExecutionOptions(timeout_ms=600_000, attempts=3, maximum_interval_ms=60_000)
"""A summary that fails is asked for again with the next reply."""

UNTIL_A_WORKER_HAS_IT: Final = ExecutionOptions(attempts=0, maximum_interval_ms=15_000)
"""Retries of an effect that the first worker could not carry out."""

WAIT_FOR_A_TOOL_MS: Final = 15 * 60_000
"""How long a call waits for a worker that has its tool, such as during a deploy, before it
fails."""

WAIT_FOR_A_WORKER_MS: Final = 7 * 24 * 3_600_000
"""How long other effects wait for a worker that has the agent, context type or name."""

NESTED: Final = ExecutionOptions(attempts=1)
"""A nested run retries its own effects."""

SAVE: Final = ExecutionOptions(timeout_ms=60_000, attempts=10, maximum_interval_ms=60_000)

OFFLOAD: Final = ExecutionOptions(timeout_ms=120_000, attempts=5, maximum_interval_ms=60_000)
"""No effect waits for it, and a failure is retried after the next model call."""

NOTIFY: Final = ExecutionOptions(timeout_ms=120_000, attempts=20, maximum_interval_ms=600_000)
"""No run waits for a notification, so that a receiver may be down for two hours."""

HOURS: Final = ExecutionOptions(timeout_ms=10_000, attempts=5, fast=True)
"""It reads calendars, and nothing else."""

SCHEDULED: Final = ExecutionOptions(
    timeout_ms=15_000, attempts=0, initial_interval_ms=1_000, maximum_interval_ms=60_000
)
"""A scheduled message is sent when the conversation's workers are back, however late. An attempt is so
short that it needs no heartbeat: another worker tries when it is over."""

QUALITY: Final = ExecutionOptions(timeout_ms=300_000, attempts=5, maximum_interval_ms=300_000)
"""A score is a model call. A run that cannot be scored is left out, and counted."""

LINE: Final = ExecutionOptions(timeout_ms=24 * 3_600_000, attempts=1)
"""A realtime line is not retried: whoever opens another one says so."""

LINE_HEARTBEAT_MS: Final = 30_000
"""How long a realtime line may miss heartbeats before a worker makes its model calls."""

LONGEST_MS: Final = 24 * 3_600_000
"""The time limit of an effect as a whole; generous, because it includes time without any worker."""

SLACK_MS: Final = 5_000
"""How much longer the engine waits for an attempt than the effect's own time-out, which comes first
because its message is better."""

HEARTBEAT_MS: Final = 10_000
"""How long a worker may miss heartbeats before an effect is retried elsewhere."""

BEATS_WITHIN_TIMEOUT: Final = 3
"""How many heartbeats a worker sends before the server would give an effect up. Each is billed in a
cloud, and a cancellation arrives with the answer to one."""

SHORTEST_STREAM_MS: Final = 20
LONGEST_STREAM_MS: Final = 60_000
"""The bounds of the time between two heartbeats with a model's text."""

ROLL_OVER_EVENTS: Final = 1_250
ROLL_OVER_BYTES: Final = 2_000_000
"""A longer or larger history is continued in a new one, between two steps."""

MAY_BE_CARRIED: Final = 8_000_000
"""The most characters of content for which a state is compressed to see if it fits a payload."""

TRIED_AGAIN_AFTER_BYTES: Final = 2_000_000
"""How much a history grows before its state is measured again."""

FULL_BYTES: Final = 44_000_000
FULL_EVENTS: Final = 45_000
"""The maximum size of a history whose state cannot be carried. The server ends a workflow at 50 MB
(52 million bytes as counted here) or 51,200 events."""

EFFECT_BYTES: Final = 1_100_000
"""The most that an effect may add to a history: its result and the context changes."""

FAST_CALLS: Final = 12
"""How many fast calls of one reply run as local activities: all their results travel together, in a
message of at most 4 MB. Recorded histories depend on this number."""

STARTED_AT_ONCE_BYTES: Final = 1_500_000
"""The most input of nested runs that start in one workflow task, whose commands travel together.
Recorded histories depend on this number."""

LONGEST_INBOX: Final = 1_000
"""The most unanswered messages of a run. A server takes 2,000 updates per history, with
decisions."""

SHORTEST_HISTORY: Final = 20
"""The fewest events before a history is continued; otherwise the run would make no progress."""

LONGEST_RETRY_AFTER: Final = timedelta(minutes=5)
"""The longest wait that a provider can request."""

MODEL_PATIENCE: Final = timedelta(seconds=45)
"""How long a program that hosts its own runs retries a failing model, while somebody waits. Workers
make all attempts."""

MODEL_PATIENCE_VARIABLE: Final = "OUTLAST_MODEL_PATIENCE_SECONDS"

ARCHIVE_VARIABLE: Final = "OUTLAST_ARCHIVE"
"""The environment variable with the directory or the URL of this process's archive."""


def heartbeat_ms(settings: JsonObject | None, default: int = HEARTBEAT_MS) -> int:
    """Return how long a worker may miss heartbeats: the run's setting, or the default."""
    return _setting(settings, "heartbeat_ms", default, least=500)


def stream_interval_ms(settings: JsonObject | None) -> int | None:
    """Return the run's time between two heartbeats with a model's text; None for the default."""
    longest = min(_setting(settings, "stream_interval_ms", 0, least=0), LONGEST_STREAM_MS)
    return max(longest, SHORTEST_STREAM_MS) if longest > 0 else None


def rolls_over(state: LoopState, *, events: int, size_bytes: int) -> bool:
    """Whether a history of this length should be continued in a new one."""
    limit = _setting(
        state.start.settings, "roll_over_events", ROLL_OVER_EVENTS, least=SHORTEST_HISTORY
    )
    return events >= limit or size_bytes >= ROLL_OVER_BYTES


def is_full(*, events: int, size_bytes: int, running: int) -> bool:
    """Whether a history that cannot be continued has no room for another effect.

    Args:
        events: the number of events.
        size_bytes: the size of the history.
        running: the number of effects whose results are still to come.
    """
    return size_bytes + EFFECT_BYTES * (running + 1) > FULL_BYTES or events > FULL_EVENTS


def _setting(settings: JsonObject | None, name: str, default: int, *, least: int) -> int:
    """Return a setting of the run; an invalid value, perhaps typed by hand, counts as unset."""
    value = (settings or {}).get(name)
    return max(value, least) if type(value) is int else default
