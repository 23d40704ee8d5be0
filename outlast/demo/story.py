"""The demo's story: a conversation, two killed workers, a decision, the proof."""

import json
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from temporalio.client import Client

from outlast.agents.config.settings import RunConfig
from outlast.client.handle import RunHandle
from outlast.client.runner import Runner
from outlast.contract import names
from outlast.demo.feed import Feed, Narrator
from outlast.demo.processes import Child, DemoFailed
from outlast.demo.proof import Proof, key_of, ledger, prove
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.effects import RunTool
from outlast.loop.state import LoopState
from outlast.rendering import call_line, joined

AGENT = "Triage"
HEARTBEAT = timedelta(seconds=5)
"""How soon Temporal detects a dead worker; the default is ten seconds."""

SLOW = timedelta(seconds=3)
"""How long a change by the first worker takes; the second half, after the commit, is for killing
the worker."""

QUESTION = "Hi, I'm Mara. Where is my order A-17?"
CHANGE = "Please send order A-18 to Neue Gasse 5, 01067 Dresden instead."
REFUND = "Please refund order A-42, it arrived broken."


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A reviewer's decision about an approval request."""

    approve: bool
    by: str
    message: str | None = None


class Person(Protocol):
    """A reviewer, who may also speak as the customer.

    Attributes:
        speaks: whether the person speaks as the customer.
    """

    speaks: bool

    async def decide(self, request: ApprovalRequest) -> Choice:
        """Decide about a request."""
        ...

    async def next_message(self) -> str:
        """Return the customer's next message; an empty text ends the conversation."""
        ...

    async def leave(self) -> None:
        """Return when the demo may be cleaned up."""
        ...


class Script:
    """Approves every request and sends no messages, for a demo without a person."""

    speaks = False

    async def decide(self, request: ApprovalRequest) -> Choice:
        """Approve the request."""
        return Choice(approve=True, by="the demo")

    async def next_message(self) -> str:
        """Return an empty text."""
        return ""

    async def leave(self) -> None:
        """Return at once."""


@dataclass(kw_only=True)
class Story:
    """One performance of the story.

    Attributes:
        client: a client connected to the demo's own server.
        run_id: the id of the conversation.
        database: the shop's database file.
        narrator: shows the story.
        person: the reviewer, who may also speak as the customer.
        hire: starts a worker whose changes take the given time.
        link: the URL of the run's page in the web UI.
        patience: how long any wait may take.
    """

    client: Client
    run_id: str
    database: Path
    narrator: Narrator
    person: Person
    hire: Callable[[timedelta], Awaitable[Child]]
    link: str
    patience: timedelta
    _said: list[str] = field(default_factory=list[str])
    _interrupted: str = ""
    _kills: int = 0

    async def tell(self) -> None:
        """Play the story, and show the proof.

        Raises:
            DemoFailed: something did not happen, or did not happen exactly once.
        """
        async with AsyncExitStack() as stack:
            self.narrator.scene("1. A customer writes")
            worker = await self._hire(SLOW)
            handle = await self._start()
            feed = Feed(self.client, self.run_id, self.narrator, patience=self.patience)
            await stack.enter_async_context(feed)
            await self._answered(feed, handle)
            await self._kill_in_a_tool_call(feed, handle, worker)
            await self._kill_while_a_person_is_asked(feed, handle)
            await self._go_on(feed, handle)
            await handle.cancel("after_turn")
            await handle.result()
            self.narrator.note("The conversation is closed.")
        await self._prove()

    # --- The scenes -----------------------------------------------------------------------------

    async def _start(self) -> RunHandle:
        handle = await Runner.start(
            AGENT,
            QUESTION,
            id=self.run_id,
            keep_open=True,
            run_config=RunConfig(heartbeat_timeout=HEARTBEAT),
            client=self.client,
        )
        self._said.append("start")
        self.narrator.facts([("watch it", self.link)])
        return handle

    async def _kill_in_a_tool_call(self, feed: Feed, handle: RunHandle, worker: Child) -> None:
        self.narrator.scene("2. kill -9 in the middle of a tool call")
        await self._say(handle, CHANGE)
        call = await feed.catch_in_the_act("change of the address", self._is_in_ledger)
        await self._kill(worker)
        if await feed.pending(call) is None:
            raise DemoFailed(f"{call.name} was reported before its worker could be killed.")
        self._interrupted = key_of(call)
        self.narrator.note(
            f"{worker.name} died after the shop had written the change into its ledger, and before "
            "anybody was told. Was it done? Nobody can know but the shop."
        )
        self.narrator.note(
            f"Temporal waits {HEARTBEAT.total_seconds():g} s for a sign of life, then it has the "
            "call made again. The run itself is kept for the worker that had it for 5 s more."
        )
        await self._hire(timedelta())
        why = await feed.lost(call)
        self.narrator.note(
            f"Attempt 1 is given up ({why}). Attempt 2 has the same idempotency key, so the shop "
            "answers with its receipt and does nothing twice."
        )
        await self._answered(feed, handle)

    async def _kill_while_a_person_is_asked(self, feed: Feed, handle: RunHandle) -> None:
        self.narrator.scene("3. kill -9 while a person is asked")
        await self._say(handle, REFUND)
        message = self._said[-1]
        state = await feed.reach(
            "request for approval",
            lambda state: state.status == "waiting" or _is_answered(state, message),
        )
        if state.status != "waiting":
            raise DemoFailed("The model gave its answer without asking for the refund.")
        await self._kill(self._worker)
        requests = await handle.approvals()
        self.narrator.note(
            "No worker runs now. What waits for a person is safe; this is read from the history:"
        )
        self.narrator.facts(
            [
                (one.id, joined(one.agent, " asks: ", call_line(one.name, one.arguments)))
                for one in requests
            ]
        )
        await self._hire(timedelta())
        await self._answered(feed, handle)

    async def _go_on(self, feed: Feed, handle: RunHandle) -> None:
        """Let the person speak as the customer for as long as they like."""
        if self.person.speaks:
            self.narrator.scene("4. In your own words")
        while text := await self.person.next_message():
            await self._say(handle, text)
            await self._answered(feed, handle, may_fail=True)

    # --- Steps of the scenes --------------------------------------------------------------------

    async def _hire(self, delay: timedelta) -> Child:
        async with self.narrator.waiting("a worker starts"):
            self._worker = worker = await self.hire(delay)
        slowly = f"; its changes take {delay.total_seconds():g} s, time to kill it" if delay else ""
        self.narrator.note(f"{worker.name} is there, process {worker.pid}{slowly}")
        return worker

    async def _kill(self, worker: Child) -> None:
        await worker.kill()
        self._kills += 1
        self.narrator.note(f"kill -9 {worker.pid}", loud=True)

    async def _say(self, handle: RunHandle, text: str) -> None:
        self._said.append((await handle.send(text)).id)

    async def _answered(self, feed: Feed, handle: RunHandle, *, may_fail: bool = False) -> None:
        """Wait for the answer to the last message, deciding approvals until then."""
        message = self._said[-1]
        while True:
            state = await feed.reach(
                "answer",
                lambda state: _is_answered(state, message) or state.status == "waiting",
            )
            if _is_answered(state, message):
                break
            for request in state.pending_approvals:
                await self._decide(handle, request)
            # A signal has no response: the decision is effective once it is in the run's history.
            await feed.reach("decision", _are_decided(state.pending_approvals))
        answer = next(one for one in state.answers if message in one.to)
        if answer.failure is not None and not may_fail:
            raise DemoFailed(f"There is no answer: {answer.failure.message}")

    async def _decide(self, handle: RunHandle, request: ApprovalRequest) -> None:
        choice = await self.person.decide(request)
        payload = {
            "request_id": request.id,
            "type": "approve" if choice.approve else "reject",
            "by": choice.by,
            **({"message": choice.message} if choice.message else {}),
        }
        self.narrator.note(
            f"The decision travels as a Temporal signal, `{names.SIGNAL_DECIDE}` with "
            f"{json.dumps(payload, ensure_ascii=False)}. The Temporal UI can send it, too."
        )
        await self.client.get_workflow_handle(handle.id).signal(names.SIGNAL_DECIDE, payload)

    def _is_in_ledger(self, call: RunTool) -> bool:
        return any(entry.key == key_of(call) for entry in ledger(self.database))

    # --- The proof ------------------------------------------------------------------------------

    async def _prove(self) -> None:
        self.narrator.scene("The proof, from the shop's ledger and Temporal's history")
        proof = await prove(self.client, self.run_id, self.database, self._said)
        deviations = proof.deviations(interrupted=self._interrupted)
        self.narrator.deeds(proof.deeds)
        for text in [] if deviations else self._findings(proof):
            self.narrator.verdict(text, good=True)
        for text in deviations:
            self.narrator.verdict(text, good=False)
        if deviations:
            raise DemoFailed(f"The proof fails: {'; '.join(deviations)}.")

    def _findings(self, proof: Proof) -> list[str]:
        said, calls, workers = len(proof.said), len(proof.calls), ", ".join(proof.workers)
        size_kb = proof.size_bytes / 1000
        done = sum(deed.applied == 1 for deed in proof.deeds)
        return [
            f"{done} side effects, each exactly once",
            f"{said} of {said} messages have one answer, {calls} of {calls} calls one output",
            f"{self._kills} workers were killed; {len(proof.workers)} carried the run: {workers}",
            f"the whole history: {proof.events} events, {size_kb:.1f} KB",
        ]


def _is_answered(state: LoopState, message_id: str) -> bool:
    return any(message_id in answer.to for answer in state.answers)


def _are_decided(requests: Iterable[ApprovalRequest]) -> Callable[[LoopState], bool]:
    ids = {request.id for request in requests}
    return lambda state: not ids & {request.id for request in state.pending_approvals}
