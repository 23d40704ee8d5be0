"""A realtime model that follows a script, for tests without sockets.

`ScriptedRealtimeServer` of `outlast.testing` is the counterpart with real sockets.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Required, TypeAlias, TypedDict, cast
from urllib.parse import urlsplit, urlunsplit

from outlast.realtime.port.config import RealtimeSessionModelSettings
from outlast.realtime.port.model import (
    ListenedModel,
    RealtimeModelConfig,
    RealtimeModelListener,
    RealtimePlaybackTracker,
)
from outlast.realtime.port.model_events import (
    RealtimeModelErrorEvent,
    RealtimeModelEvent,
    RealtimeModelExceptionEvent,
)
from outlast.realtime.port.model_inputs import (
    RealtimeModelSendEvent,
    RealtimeModelSendSessionUpdate,
)

__all__ = [
    "RealtimeConnectCall",
    "RealtimeScriptError",
    "RealtimeStep",
    "ScriptedRealtimeModel",
    "UnconsumedRealtimeSteps",
    "UnexpectedRealtimeSend",
]


class RealtimeScriptError(AssertionError):
    """A script was not followed, or used while the model was not connected."""


class UnexpectedRealtimeSend(RealtimeScriptError):
    """A message did not match the next step of the script.

    Attributes:
        expected: what the next step expects; None if there is no further step.
    """

    def __init__(
        self,
        message: str,
        *,
        actual: RealtimeModelSendEvent,
        expected: "RealtimeSendMatcher | None",
    ) -> None:
        super().__init__(message)
        self.actual = actual
        self.expected = expected


class UnconsumedRealtimeSteps(RealtimeScriptError):
    """A script has steps that the test did not reach."""

    def __init__(self, message: str, *, remaining_steps: int) -> None:
        super().__init__(message)
        self.remaining_steps = remaining_steps


RealtimeSendMatcher: TypeAlias = (
    RealtimeModelSendEvent | type[RealtimeModelSendEvent] | Callable[[RealtimeModelSendEvent], bool]
)
"""The message that a step expects: an equal one, one of a type, or one that a function accepts."""


@dataclass(frozen=True)
class RealtimeStep:
    """A message that the model expects, and the events with which it answers.

    Attributes:
        error: the exception that sending the message raises, instead of events.
    """

    expect: RealtimeSendMatcher
    emit: Sequence[RealtimeModelEvent] = field(default_factory=tuple)
    error: Exception | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "emit", tuple(self.emit))
        if self.emit and self.error is not None:
            raise ValueError("A RealtimeStep cannot have both emit events and an error.")


class RealtimeConnectCall(TypedDict, total=False):
    """A call of `connect`, without its key.

    Attributes:
        url: the address, without user, password and query.
    """

    api_key_provided: Required[bool]
    headers_provided: Required[bool]
    url: str
    initial_model_settings: RealtimeSessionModelSettings
    playback_tracker: RealtimePlaybackTracker
    call_id: str


@dataclass
class _Outcome:
    done: asyncio.Future[None]
    pending: int = 0
    error: BaseException | None = None


@dataclass(frozen=True)
class _Delivery:
    events: Sequence[RealtimeModelEvent]
    error: Exception | None
    outcome: _Outcome
    connection: int


class ScriptedRealtimeModel(ListenedModel):
    """A realtime model that answers each expected message with the events of its step.

    Events are delivered in order, one message after the other, to the listeners of that moment.

    Attributes:
        close_calls: how often it was closed.
    """

    def __init__(
        self,
        steps: Iterable[RealtimeStep] = (),
        *,
        connect_events: Iterable[RealtimeModelEvent] = (),
        connect_error: Exception | None = None,
        close_error: Exception | None = None,
        strict: bool = True,
    ) -> None:
        """Set the script.

        Args:
            steps: the messages that the model expects, in order, with its answers.
            connect_events: the events that follow a connection.
            connect_error: the exception that `connect` raises.
            close_error: the exception that `close` raises.
            strict: whether a message that no step expects raises an error; otherwise, nothing
                answers it.

        Raises:
            ValueError: there are `connect_events` and a `connect_error`.
        """
        super().__init__()
        self._connect_events = [_copy(event) for event in connect_events]
        if self._connect_events and connect_error is not None:
            raise ValueError(
                "A ScriptedRealtimeModel cannot have both connect events and a connect error."
            )
        self._steps = deque(
            RealtimeStep(_copy(one.expect), [_copy(event) for event in one.emit], one.error)
            for one in steps
        )
        self._connect_error = connect_error
        self._close_error = close_error
        self._strict = strict
        self._connect_calls: list[RealtimeConnectCall] = []
        self._sent: list[RealtimeModelSendEvent] = []
        self._waiting: deque[_Delivery] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._current: _Outcome | None = None
        self.connected: bool = False
        self.closed: bool = False
        self.close_calls: int = 0

    @property
    def listeners(self) -> tuple[RealtimeModelListener, ...]:
        """The listeners, oldest first."""
        return tuple(self._listeners)

    @property
    def connect_calls(self) -> tuple[RealtimeConnectCall, ...]:
        """The calls of `connect`, oldest first, as copies."""
        return tuple(_copy_call(call) for call in self._connect_calls)

    @property
    def sent_events(self) -> tuple[RealtimeModelSendEvent, ...]:
        """The messages, oldest first, as copies."""
        return tuple(_copy(event) for event in self._sent)

    @property
    def remaining_steps(self) -> int:
        """The number of steps that are left."""
        return len(self._steps)

    async def connect(self, options: RealtimeModelConfig) -> None:
        """Connect, and deliver the events of the connection.

        Raises:
            RealtimeScriptError: the model is connected.
        """
        if self.connected:
            raise RealtimeScriptError(
                "Already connected: call close() of the scripted model first."
            )
        self._connect_calls.append(_call_of(options))
        if self._connect_error is not None:
            raise self._connect_error
        self.connected, self.closed = True, False
        try:
            await self.emit(*self._connect_events)
        except BaseException:  # also cancelled: it is not connected then
            self.connected, self.closed = False, True
            raise

    async def send_event(self, event: RealtimeModelSendEvent) -> None:
        """Take the next step, and wait until its events are delivered.

        Raises:
            RealtimeScriptError: the model is not connected.
            UnexpectedRealtimeSend: the next step expects another message.
        """
        await self.send_event_if(event, lambda: True)

    async def send_event_if(
        self, event: RealtimeModelSendEvent, send_if: Callable[[], bool]
    ) -> bool:
        """Take the next step if a condition holds.

        Returns:
            Whether the step was taken.
        """
        self._check_connected("send a message")
        if not send_if():
            return False
        sent = _copy(event)
        step = self._take_step(event, sent)
        self._sent.append(sent)
        await self._deliver(step.emit if step else (), step.error if step else None)
        return True

    async def emit(self, *events: RealtimeModelEvent) -> None:
        """Deliver events that no message has caused.

        Raises:
            RealtimeScriptError: the model is not connected.
        """
        self._check_connected("emit events")
        await self._deliver([_copy(event) for event in events], None)

    async def close(self) -> None:
        """Close the connection; a second call only counts."""
        self.close_calls += 1
        if self.closed:
            return
        self.connected, self.closed = False, True
        if self._close_error is not None:
            raise self._close_error

    def assert_complete(self) -> None:
        """Check that the test has taken every step.

        Raises:
            UnconsumedRealtimeSteps: there are steps left.
        """
        if self._steps:
            raise UnconsumedRealtimeSteps(
                f"{len(self._steps)} scripted Realtime step(s) left; the next expects"
                f" {_shown(self._steps[0].expect)}.",
                remaining_steps=len(self._steps),
            )

    def _check_connected(self, what: str) -> None:
        if not self.connected:
            raise RealtimeScriptError(f"Cannot {what}: the scripted model is disconnected.")

    def _take_step(
        self, event: RealtimeModelSendEvent, sent: RealtimeModelSendEvent
    ) -> RealtimeStep | None:
        expected = self._steps[0].expect if self._steps else None
        if expected is not None and _matches(expected, event):
            return self._steps.popleft()
        if not self._strict:
            return None
        reason = "there are no scripted steps left"
        if expected is not None:
            reason = f"the next step's expectation is not met: expected {_shown(expected)}"
        raise UnexpectedRealtimeSend(
            f"A {_shown(sent)} was sent, and {reason}. `actual` and `expected` have the messages.",
            actual=sent,
            expected=expected,
        )

    async def _deliver(self, events: Sequence[RealtimeModelEvent], error: Exception | None) -> None:
        """Deliver events after those of earlier messages, and wait for it.

        A listener that sends a message itself does not wait: its events come when the listener has
        returned, and the message that it listens to is done when they are delivered, too.
        """
        nested = self._current if asyncio.current_task() is self._worker else None
        outcome = nested or _Outcome(asyncio.get_running_loop().create_future())
        outcome.pending += 1
        self._waiting.append(_Delivery(tuple(events), error, outcome, self.close_calls))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        if nested is None:
            await asyncio.shield(outcome.done)
            if outcome.error is not None:
                raise outcome.error

    async def _work(self) -> None:
        while self._waiting:
            delivery = self._waiting.popleft()
            outcome = self._current = delivery.outcome
            try:
                await self._play(delivery)
            except BaseException as error:  # noqa: BLE001  raised where the message was sent
                outcome.error = outcome.error or error
            outcome.pending -= 1
            if outcome.pending == 0 and not outcome.done.done():
                outcome.done.set_result(None)
        self._worker = self._current = None

    async def _play(self, delivery: _Delivery) -> None:
        if delivery.error is not None:
            raise delivery.error
        if self.close_calls != delivery.connection:
            raise RealtimeScriptError("The scripted model was closed before its events were sent.")
        for event in delivery.events:
            for listener in tuple(self._listeners):
                if self.close_calls != delivery.connection:
                    return
                await listener.on_event(event)


def _copy(value: Any) -> Any:
    """Return a copy that later changes do not reach; functions and exceptions are shared."""
    if isinstance(value, RealtimeModelSendSessionUpdate):
        return RealtimeModelSendSessionUpdate(_copy_settings(value.session_settings))
    is_error = isinstance(value, RealtimeModelErrorEvent) and isinstance(value.error, Exception)
    if is_error or callable(value) or isinstance(value, RealtimeModelExceptionEvent):
        return value
    return deepcopy(value)


def _copy_settings(settings: RealtimeSessionModelSettings) -> RealtimeSessionModelSettings:
    shared = {"tools", "handoffs"}
    copied = {
        name: list(cast("list[object]", value)) if name in shared else deepcopy(value)
        for name, value in settings.items()
    }
    return cast("RealtimeSessionModelSettings", copied)


def _call_of(options: RealtimeModelConfig) -> RealtimeConnectCall:
    call: RealtimeConnectCall = {
        "api_key_provided": "api_key" in options,
        "headers_provided": "headers" in options,
    }
    if "url" in options:
        parts = urlsplit(options["url"])
        host = parts.netloc.rpartition("@")[2]
        call["url"] = urlunsplit((parts.scheme, host, parts.path, "", ""))
    plain = ("initial_model_settings", "playback_tracker", "call_id")
    kept = {name: value for name, value in options.items() if name in plain}
    return _copy_call(cast("RealtimeConnectCall", {**call, **kept}))


def _copy_call(call: RealtimeConnectCall) -> RealtimeConnectCall:
    copied = call.copy()
    if "initial_model_settings" in copied:
        copied["initial_model_settings"] = _copy_settings(copied["initial_model_settings"])
    return copied


def _matches(expected: RealtimeSendMatcher, event: RealtimeModelSendEvent) -> bool:
    if isinstance(expected, type):
        return isinstance(event, expected)
    if callable(expected):
        return bool(expected(_copy(event)))
    return event == expected


def _shown(expected: object) -> str:
    """Return the type of a message, without its content, which may be secret; a matcher's name."""
    is_named = isinstance(expected, type) or callable(expected)
    return str(getattr(expected if is_named else type(expected), "__name__", expected))
