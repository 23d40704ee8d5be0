"""The responses of a realtime session, one at a time: when to start, and whether to cancel."""

from bisect import insort
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from secrets import token_hex

from outlast.loop.values import JsonObject

ACTIVE = "conversation_already_has_active_response"
"""The provider's code for a response that was requested while another is in progress."""

NOT_ACTIVE = "response_cancel_not_active"
"""The provider's code for a cancellation without a response in progress."""


_REMEMBERED = 16
"""How many requests are remembered, in case the provider refuses them as too early."""


@dataclass(frozen=True)
class _Request:
    number: int
    message: JsonObject | None


@dataclass
class ResponseQueue:
    """Starts the responses of a session, so that there is never more than one.

    The provider refuses a `response.create` while a response is in progress, which the user's
    speech can start at any time. So requests wait here until the response is done. Requests
    without settings of their own that wait at the same time become one.
    """

    send: Callable[[JsonObject], Awaitable[None]]
    in_progress: bool = False
    response_id: str | None = None
    _waiting: list[_Request] = field(default_factory=list[_Request])
    _requested: str | None = None
    _sent: dict[str, _Request] = field(default_factory=dict[str, _Request])
    _cancelling: bool = False
    _prefix: str = field(default_factory=lambda: f"outlast_{token_hex(4)}")
    _count: int = 0
    _sends: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether no request waits or is on its way."""
        return not self._waiting and self._requested is None

    async def request(self, message: JsonObject | None = None) -> None:
        """Start a response, now or when the one in progress is done.

        The `message` is the `response.create`, if it has settings of its own.
        """
        self._count += 1
        self._waiting.append(_Request(self._count, message))
        await self.start_next()

    async def cancel(self, response_id: str | None = None) -> None:
        """Cancel the response in progress, unless it is another than `response_id`; None: any."""
        if not self.in_progress or self._cancelling:
            return
        if response_id is not None and self.response_id not in (None, response_id):
            return
        message: JsonObject = {"type": "response.cancel"}
        if response_id is not None:
            message["response_id"] = response_id
        self._cancelling = True
        try:
            await self.send(message)
        except BaseException:  # unsent, also if cancelled: the next attempt must not be skipped
            self._cancelling = False
            raise

    def created(self, response_id: str | None) -> None:
        """Record that a response is in progress, whoever started it."""
        self.in_progress, self.response_id = True, response_id
        self._requested, self._cancelling = None, False

    def done(self, response_id: str | None) -> None:
        """Record the end of a response; `start_next` starts the next.

        The end of a response beside the conversation, which has another id, changes nothing.
        """
        if response_id is not None and self.response_id not in (None, response_id):
            return
        self.in_progress, self.response_id = False, None
        self._requested, self._cancelling = None, False

    def failed(self, code: str | None, event_id: str | None, words: str) -> bool:
        """Record an error that the provider reports; `start_next` starts the next response.

        `event_id` is the message that the error is about, if known. Returns whether nothing is
        lost: the response starts when the one in progress is done.
        """
        if code == NOT_ACTIVE:
            self._cancelling = False
            return False
        if code == ACTIVE and event_id in self._sent:
            # Another client of the call, or the user's speech, has started a response.
            insort(self._waiting, self._sent.pop(event_id), key=lambda request: request.number)
            self._requested, self.in_progress = None, True
            return True
        about_response = code == "bad_response_create" or "response.create" in words.lower()
        is_ours = self._requested is not None and event_id == self._requested
        if is_ours or (event_id is None and about_response and not self.in_progress):
            self._requested = None
        return False

    async def start_next(self) -> None:
        """Start the next response that waits, if nothing is in its way."""
        if not self._waiting or self.in_progress or self._cancelling or self._requested is not None:
            return
        request = self._waiting.pop(0)
        while request.message is None and self._waiting and self._waiting[0].message is None:
            self._waiting.pop(0)  # one response answers them all
        message: JsonObject = request.message or {"type": "response.create"}
        self._sends += 1
        event_id = str(message.get("event_id") or f"{self._prefix}_{self._sends}")
        self._requested = event_id
        self._sent[event_id] = request
        if len(self._sent) > _REMEMBERED:
            del self._sent[next(iter(self._sent))]
        try:
            await self.send({**message, "event_id": event_id})
        except BaseException:  # unsent, also if cancelled: later requests must not wait for it
            self._requested = None
            raise

    def forget(self) -> None:
        """Drop all requests: the connection has ended."""
        self._waiting.clear()
        self._sent.clear()
        self.in_progress, self.response_id = False, None
        self._requested, self._cancelling = None, False
