"""Heartbeats with the text of a streamed model call, and how often they are sent.

Temporal Cloud bills each heartbeat, so texts that people read are sent at a cadence, other events
rarely, and nothing while the model is silent. A server of one's own bills nothing: there, texts are
sent as often as a page shows them.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from temporalio import activity
from temporalio.client import Client

from outlast.activities.heartbeats.engine_heartbeat import sender
from outlast.activities.heartbeats.heartbeats import Beat
from outlast.contract import policies
from outlast.contract.streams.window import TEXTS, DeltaWindow, ShownText
from outlast.loop.values import JsonObject

SHORTEST_SECONDS: Final = 0.12
"""The time between two heartbeats at the beginning of a text that is billed, in seconds."""

SHARE: Final = 0.05
"""The same later on, as a share of the text's age: a longer text takes longer to read anyway."""

LONGEST_SECONDS: Final = 1.0
"""The longest default time between two heartbeats of a text, and the first of other events."""

UNBILLED_SECONDS: Final = 0.05
"""The default time between two heartbeats of a text that nobody bills, in seconds."""

MOST_PER_SECOND: Final = 200
"""How many such heartbeats a process sends per second, for all its texts together. A server writes
each to its database, and takes 2,400 requests per second and namespace unless told otherwise."""

CLOUDS: Final = (".tmprl.cloud", ".api.temporal.io")
"""How the names of Temporal Cloud's hosts end."""


def is_billed(client: Client) -> bool:
    """Whether a client's server bills heartbeats, as Temporal Cloud does.

    Temporal Cloud ends a namespace's name with the account's, after a dot. That holds where a
    private endpoint hides the host.
    """
    host = client.service_client.config.target_host.rpartition(":")[0].lower()
    return "." in client.namespace or host.endswith(CLOUDS)


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often the text of a streamed model call is sent.

    Attributes:
        interval: seconds between two heartbeats; None for the default.
        is_billed: whether each heartbeat costs money; then the default grows with the text.
    """

    interval: float | None = None
    is_billed: bool = True

    @classmethod
    def of(cls, settings: JsonObject | None, *, is_billed: bool = True) -> "Cadence":
        """Return the cadence of a run with these settings."""
        interval_ms = policies.stream_interval_ms(settings)
        return cls(None if interval_ms is None else interval_ms / 1000, is_billed)

    def text(self, age: float, texts: int = 1) -> float:
        """Return the seconds between two heartbeats of a text.

        Args:
            age: for how many seconds the text has been written.
            texts: how many texts are written in this process.
        """
        if self.interval is not None:
            return self.interval
        if not self.is_billed:
            return min(max(texts / MOST_PER_SECOND, UNBILLED_SECONDS), LONGEST_SECONDS)
        return min(max(age * SHARE, SHORTEST_SECONDS), LONGEST_SECONDS)

    def other(self) -> float:
        """Return the seconds between two heartbeats for events that are no text."""
        return max(self.interval or 0.0, LONGEST_SECONDS)


class StreamHeartbeats:
    """Sends the heartbeats of one attempt of a streamed model call, from its event loop.

    If `is_read_here`, a reader in this process takes the text from the window itself, and by default
    it is sent with the signs of life only. Where it decides whether another model follows, the first
    text is sent at once: an attempt elsewhere has to know that it has left.
    """

    _with_text: ClassVar[set["StreamHeartbeats"]] = set()
    """The calls of this process that have sent text."""

    def __init__(
        self,
        window: DeltaWindow,
        beat: Beat,
        cadence: Cadence,
        is_read_here: Callable[[], bool],
        shown: ShownText | None = None,
    ) -> None:
        self._window = window
        self._beat = beat
        self._cadence = cadence
        self._is_read_here = is_read_here
        self._shown = shown or ShownText()
        self._is_shown_known = self._shown.has_left
        self._alive = beat.interval
        self._loop = beat.loop
        self._sent_at = beat.loop.time()
        self._text: tuple[Any, float] = (None, 0.0)
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def feed(self, event: JsonObject) -> None:
        """Add the next event of the provider's stream, and send it when it is due."""
        self._window.feed(event)
        if not self._window.has_news:
            return
        if self._timer is None:
            self._keep_details()
            self._beat.interval = self._alive * policies.BEATS_WITHIN_TIMEOUT / 2
        if self._shown.decides and self._shown.has_left and not self._is_shown_known:
            self._is_shown_known = True
            self._send_at(self._loop.time())
            return
        interval = min(self._interval(event) * self._window.weight, self._alive)
        self._send_at(self._sent_at + interval)

    def __enter__(self) -> Self:
        if self._is_shown_known:
            self._keep_details()
        return self

    def _keep_details(self) -> None:
        """Send details with every heartbeat: one without would remove them from the server."""
        self._beat.send = sender(self._details)

    def __exit__(self, *_error: object) -> None:
        self._with_text.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def _interval(self, event: JsonObject) -> float:
        is_text, now = event.get("type") in TEXTS, self._loop.time()
        name = event.get("type"), event.get("output_index")
        if is_text and name != self._text[0]:
            self._text = name, now
            self._with_text.add(self)
        if self._cadence.interval is None and self._is_read_here():
            return self._alive
        return self._seconds(now) if is_text else self._cadence.other()

    def _seconds(self, now: float) -> float:
        return self._cadence.text(now - self._text[1], len(self._with_text))

    def _send_at(self, due: float) -> None:
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due, self._timer = due, self._loop.call_at(due, self._send)

    def _send(self) -> None:
        self._sent_at = self._loop.time()
        self._timer = None
        self._send_at(self._sent_at + self._alive)
        self._window.note_sent(self._sent_at)
        self._beat.note_sent()
        activity.heartbeat(self._details())

    def _details(self) -> JsonObject:
        """Return the window, with the time in which no newer one of the same text comes."""
        seconds = self._seconds(self._loop.time())
        known = {**self._window.details(), **self._shown.details()}
        return {**known, "next_ms": round(seconds * 1000)}
