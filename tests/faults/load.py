"""The customers, colleagues and readers of a row, in a process of the place `client`.

    python -m tests.faults.load LOG STOP ROW

Holds conversations in several lanes until the file STOP exists, then ends those that have begun.
Each step is written to LOG when it begins and when it ends. What people would repeat by hand (a
page that does not load, a delivery that is refused with "repeat it") is repeated.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2

from outlast import Runner
from outlast.agents.errors import RunBusy, ServerUnavailable
from outlast.client import RunHandle, connect, finish
from outlast.contract.streams.delta_reader import RESTARTED
from outlast.loop.items import text_of
from outlast.views.run import loop_state
from tests.faults.agents import QUEUE, words_for

T = TypeVar("T")

DESK_VARIABLE: Final = "FAULTS_DESK"
LANES: Final = 6
REQUEST_SECONDS: Final = 10.0
READ_SECONDS: Final = 20.0
"""Above the 15 seconds after which the desk's streams say that they are alive."""
CLOCKS: Final = "compare the clocks"
"""What a worker with another time says of a signature."""
AGAIN_SECONDS: Final = 0.3
QUESTIONS: Final = {"start": "note", "m-1": "refund", "m-2": "courier"}
"""What the customer says, by the ids of the messages."""


@dataclass
class Reader:
    """What somebody has read of a run.

    Attributes:
        number: the number of the next event.
        text: the text in progress.
    """

    name: str
    number: int = 0
    text: str = ""
    texts: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])
    doubled: list[str] = field(default_factory=list[str])

    def event(self, number: int) -> None:
        """Take a numbered event."""
        if number > self.number:
            self.lost.append(f"{self.name}: events {self.number} to {number - 1}")
        if number < self.number:
            self.doubled.append(f"{self.name}: event {number}")
        self.number = number + 1

    def whole(self, text: str) -> None:
        """Take a whole answer, of which the text in progress has to be the beginning."""
        if not text.startswith(self.text):
            self.doubled.append(f"{self.name}: {self.text!r} is no beginning of {text!r}")
        self.texts.append(text)
        self.text = ""


class Load:
    """Conversations, and the log of their steps."""

    def __init__(self, client: Any, http: httpx2.AsyncClient, log: Path) -> None:
        self._client = client
        self._http = http
        self._log = log.open("a", encoding="utf-8")

    def _write(self, **line: Any) -> None:
        self._log.write(json.dumps(line) + "\n")
        self._log.flush()

    @asynccontextmanager
    async def _step(self, run: str, step: str) -> AsyncGenerator[None]:
        began, error = time.monotonic(), ""
        self._write(kind="begin", run=run, step=step, at=began)
        try:
            yield
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"[:300]
            raise
        finally:
            at = time.monotonic()
            self._write(kind="end", run=run, step=step, began=began, at=at, error=error)

    async def _timed(self, run: str, step: str, work: Awaitable[T]) -> T:
        async with self._step(run, step):
            return await work

    async def hold(self, run: str) -> None:
        """Hold a conversation, and write down what is wrong with it."""
        starting = Runner.start(
            "Desk", "note", id=run, keep_open=True, stream=True,
            client=self._client, task_queue=QUEUE,
        )  # fmt: skip
        handle = await self._timed(run, "start", starting)
        client_reader, desk_reader = Reader("client's stream"), Reader("desk's stream")
        reading = [
            asyncio.create_task(self._read_client(handle, client_reader)),
            asyncio.create_task(self._read_desk(run, desk_reader)),
        ]
        try:
            await self._timed(run, "answer to note", handle.wait_for_answer("start"))
            sent = await self._timed(run, "send refund", handle.send("refund", message_id="m-1"))
            await self._timed(run, "approve", self._approve(run))
            await self._timed(run, "answer to refund", sent.answer())
            sent = await self._timed(run, "send courier", handle.send("courier", message_id="m-2"))
            await self._timed(run, "wait", handle.wait(lambda state: state.status == "parked"))
            await self._timed(run, "deliver", self._deliver(handle))
            await self._timed(run, "answer to courier", sent.answer())
            await self._timed(run, "cancel", handle.cancel("after_turn"))
            await self._timed(run, "result", handle.result())
            await self._timed(run, "readers", asyncio.gather(*reading))
            await self._timed(run, "findings", self._find(handle, [client_reader, desk_reader]))
        finally:
            for one in reading:
                one.cancel()

    async def _approve(self, run: str) -> None:
        """Approve the refund at the desk, as often as its page has to be loaded again."""
        path = f"/api/conversations/{run}/requests/a1"
        while True:
            with suppress(httpx2.HTTPError):
                found = await self._http.get(path)
                request: dict[str, Any] = found.json() if found.is_success else {}
                if request.get("status") == "approved":
                    return
                if request.get("status") == "pending":
                    body = {"type": "approve", "digest": request["digest"]}
                    await self._http.post(f"{path}/decide", json=body)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _deliver(self, handle: RunHandle) -> None:
        """Deliver the courier's report twice, as webhooks are."""
        [wait] = await handle.pending_waits()
        left = 2
        while left:
            try:
                await finish(
                    wait.token, "collected", client=self._client, delivery_id=f"{handle.id}-hook"
                )
                left -= 1
            except Exception as error:
                if not isinstance(error, ServerUnavailable | RunBusy) and CLOCKS not in str(error):
                    raise
                await asyncio.sleep(AGAIN_SECONDS)

    async def _read_client(self, handle: RunHandle, reader: Reader) -> None:
        async for event in handle.stream_events():
            if event.type == "raw_response_event":
                if event.raw["type"] == "response.output_text.delta":
                    reader.text += event.raw["delta"]
                elif event.raw["type"] == RESTARTED:
                    reader.text = ""
                continue
            reader.event(event.id)
            if event.type == "run_item_stream_event" and event.name == "message_output_created":
                reader.whole(text_of(event.entry.raw))

    async def _read_desk(self, run: str, reader: Reader) -> None:
        position = "0-0-0000"
        while True:
            try:
                headers = {"Last-Event-ID": position}
                timeout = httpx2.Timeout(REQUEST_SECONDS, read=READ_SECONDS)
                path = f"/api/conversations/{run}/events"
                async with self._http.stream("GET", path, headers=headers, timeout=timeout) as got:
                    if got.is_success:
                        async for name, data, at in _events(got.aiter_lines()):
                            position = at or position
                            if name == "ended":
                                return
                            if name == "error":
                                break
                            _take(reader, name, data)
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(AGAIN_SECONDS)

    async def _find(self, handle: RunHandle, readers: list[Reader]) -> None:
        """Compare what there is with what there should be."""
        state = loop_state(await handle.state())
        lost, doubled = list[str](), list[str]()
        answered = [one for answer in state.answers for one in answer.to]
        for message_id, question in QUESTIONS.items():
            if answered.count(message_id) > 1:
                doubled.append(f"answer to {question}")
            said = [
                text_of(state.items[answer.item].raw)
                for answer in state.answers
                if message_id in answer.to and answer.item is not None
            ]
            if said != [words_for(question)]:
                lost.append(f"answer to {question}: {said}")
        outputs = [str(one.raw["output"])[:200] for one in state.items if one.kind == "tool_output"]
        # What the blob store could not take is in the history.
        expected = (("{'$outlast.blob'", "Paid"), "20 EUR", "collected")
        if len(outputs) != len(expected) or not all(map(str.startswith, outputs, expected)):
            lost.append(f"outputs: {outputs}")
        if [one.status for one in state.approvals] != ["approved"]:
            lost.append(f"approval: {[one.status for one in state.approvals]}")
        if len(state.receipts) != 1:
            lost.append(f"delivery: {len(state.receipts)} receipts")
        for reader in readers:
            lost += reader.lost
            doubled += reader.doubled
            if reader.texts != [words_for(one) for one in QUESTIONS.values()]:
                lost.append(f"{reader.name}: read {reader.texts}")
        self._write(kind="findings", run=handle.id, lost=lost, doubled=doubled)


def _take(reader: Reader, name: str, data: Any) -> None:
    match name:
        case "text":
            reader.text += data["text"]
        case "reset":
            reader.text = ""
        case "snapshot":
            reader.lost.append(f"{reader.name}: it began anew with a snapshot")
        case "event":
            reader.event(data["number"])
            item: dict[str, Any] = data.get("item") or {}
            if item.get("kind") == "message" and item["by"] == "agent":
                reader.whole(item["text"])
            elif data["clears_text"]:
                reader.text = ""
        case _:
            pass


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, Any, str]]:
    """Yield name, data and id of server-sent events."""
    fields = dict[str, str]()
    async for line in lines:
        if not line and "event" in fields:
            yield fields["event"], json.loads(fields["data"]), fields.get("id", "")
        if not line:
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value


async def main() -> None:
    log, stop, row = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    url = os.environ[DESK_VARIABLE]
    async with httpx2.AsyncClient(
        base_url=url, timeout=REQUEST_SECONDS, headers={"X-Forwarded-User": "ann", "Origin": url}
    ) as http:
        load = Load(await connect(), http, log)

        async def lane(number: int) -> None:
            await asyncio.sleep(number * 0.4)  # so that lanes are in different steps
            count = 0
            while not stop.exists():  # noqa: ASYNC240  another process makes it
                try:
                    await load.hold(f"{row}-{number}-{count}")
                except Exception:  # noqa: BLE001  the log has it
                    await asyncio.sleep(AGAIN_SECONDS)
                count += 1

        await asyncio.gather(*map(lane, range(LANES)))


if __name__ == "__main__":
    asyncio.run(main())
