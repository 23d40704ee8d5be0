"""Somebody who follows a conversation live, at whichever desk is there, and what they have read."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import httpx2

from benchmarks.desk_processes import RETRY_SECONDS, Desks, by, of_run

PATIENCE_SECONDS = 150


def said_in(run: dict[str, Any]) -> list[str]:
    """Return what customer, agent and colleagues have said; not what the run tells the model."""
    items = run["items"]
    return [str(one["text"]) for one in items if one.get("text") and one["by"] != "run"]


class Reader:
    """A supporter's page of a conversation. Leaving the block closes it.

    Attributes:
        texts: what was said, in order, as the stream told it.
        text: the text in progress.
        requests: the status of each request.
        status: the run's status.
        connections: how often the stream was opened.
        faults: what it was told that cannot be.
    """

    def __init__(self, desks: Desks, run_id: str, desk: int) -> None:
        self.texts: list[str] = []
        self.text = self.status = ""
        self.requests: dict[str, str] = {}
        self.connections = 0
        self.faults: list[str] = []
        self._desks = desks
        self._run_id = run_id
        self._desk = desk
        self._cursor = ""
        self._has_ended = False
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until what was read fulfills a condition.

        Raises:
            TimeoutError: it does not come; the message says what was read instead.
        """
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not condition():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            read = f"{self.status}, {self.requests}, {self.texts[-2:]}, {self.text[-40:]!r}"
            raise TimeoutError(f"{self._run_id} is stuck before {what}: {read}") from None

    async def until_said(self, beginning: str) -> None:
        """Wait until somebody has said something that begins so."""
        await self.until(lambda: any(one.startswith(beginning) for one in self.texts), beginning)

    async def until_ended(self) -> None:
        """Wait until the stream says that the conversation has ended."""
        await self.until(lambda: self._has_ended, "its end")

    async def _read(self) -> None:
        while not self._has_ended:
            with suppress(httpx2.TransportError):
                await self._connect()
            self._desk += 1
            await asyncio.sleep(RETRY_SECONDS)

    async def _connect(self) -> None:
        headers = by("reader") | ({"Last-Event-ID": self._cursor} if self._cursor else {})
        self.connections += 1
        event = ""
        path = of_run(self._run_id, "events")
        async with self._desks.stream(path, self._desk, headers) as response:
            if response.status_code != 200:
                return
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    event = value
                elif name == "id":
                    self._cursor = value
                elif name == "data":
                    self._take(event, json.loads(value))
                    self._news.set()

    def _take(self, event: str, content: dict[str, Any]) -> None:
        match event:
            case "snapshot":
                run = content["run"]
                self.texts = said_in(run)
                self.text, self.status = content["text"], run["status"]
                self.requests = {one["id"]: one["status"] for one in run["requests"]}
            case "text":
                self.text += content["text"]
            case "reset":
                self.text = ""
            case "ended":
                self._has_ended = True
            case "event":
                self._take_event(content)
            case _:
                pass

    def _take_event(self, content: dict[str, Any]) -> None:
        said = next(iter(said_in({"items": [content.get("item") or {}]})), "")
        if said:
            self.texts.append(said)
        if content.get("clears_text"):
            if said and not said.startswith(self.text):
                self.faults.append(f"the stream had {self.text!r}, and then came {said!r}")
            self.text = ""
        if request := content.get("request"):
            self.requests[request["id"]] = request["status"]
        self.status = content.get("status") or self.status
