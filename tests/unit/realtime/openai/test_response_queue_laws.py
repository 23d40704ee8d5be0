"""Every request for a response gets one, in any order of events."""

import asyncio
from collections import deque
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from outlast.loop.values import JsonObject
from outlast.realtime.openai.response_queue import ACTIVE, NOT_ACTIVE, ResponseQueue

STEPS = ("request", "request alone", "speak", "finish", "deliver", "cancel", "refuse next")


class Provider:
    """A provider whose events reach the client later, and that starts responses by itself."""

    def __init__(self) -> None:
        self.responses = ResponseQueue(self.receive)
        self.events: deque[tuple[str, Any]] = deque()
        self.active: str | None = None
        self.count = 0
        self.clock = 0
        self.requested = 0
        self.settled = 0
        self.refuses = False
        self.own: list[int] = []
        self.taken: list[int] = []

    async def receive(self, message: JsonObject) -> None:
        if message["type"] == "response.cancel":
            if self.active is None:
                self.events.append(("error", (NOT_ACTIVE, None)))
            else:
                self.end()
        elif self.active is not None:
            self.events.append(("error", (ACTIVE, message["event_id"])))
        else:
            self.settled = self.clock
            self.taken += [message["response"]["own"]] if "response" in message else []
            if self.refuses:
                self.refuses = False
                self.events.append(("error", ("invalid_value", message["event_id"])))
            else:
                self.start()

    def start(self) -> None:
        self.count += 1
        self.active = f"r{self.count}"
        self.events.append(("created", self.active))

    def end(self) -> None:
        self.events.append(("done", self.active))
        self.active = None

    async def deliver(self) -> None:
        kind, about = self.events.popleft()
        if kind == "created":
            self.responses.created(about)
        elif kind == "done":
            self.responses.done(about)
            await self.responses.start_next()
        else:
            code, event_id = about
            self.responses.failed(code, event_id, "")
            await self.responses.start_next()

    async def take(self, step: str) -> None:
        self.clock += 1
        match step:
            case "request":
                self.requested = self.clock
                await self.responses.request()
            case "request alone":
                self.requested = self.clock
                self.own.append(self.clock)
                own = {"type": "response.create", "response": {"own": self.clock}}
                await self.responses.request(own)
            case "speak" if self.active is None:
                self.start()
            case "finish" if self.active is not None:
                self.end()
            case "deliver" if self.events:
                await self.deliver()
            case "cancel":
                await self.responses.cancel()
            case "refuse next":
                self.refuses = True
            case _:
                pass

    async def drain(self) -> None:
        """Let the provider finish what it does, and the client hear of it."""
        self.refuses = False
        while self.events or self.active is not None:
            await self.take("deliver" if self.events else "finish")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=30))
@example(["request", "request alone", "request", "finish", "speak", "finish", "speak"])
def test_every_request_is_answered_in_the_end(steps: list[str]) -> None:
    async def play() -> None:
        provider = Provider()
        for step in steps:
            await provider.take(step)
        await provider.drain()
        assert provider.responses.is_idle
        assert not provider.responses.in_progress
        assert provider.settled >= provider.requested, "the last request has no response of its own"
        assert sorted(provider.taken) == provider.own, "requests with settings come once each"

    asyncio.run(play())
