"""The demo's story: a conversation, killed workers, what people and a courier do, the proof."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from temporalio.client import Client

from outlast.agents.config.run_config import RunConfig
from outlast.client.deliveries import PendingWait, finish
from outlast.client.handle import RunHandle
from outlast.client.read.events import RawResponsesStreamEvent
from outlast.client.start.runner import Runner
from outlast.edges.rendering import call_line, joined
from outlast.loop.approvals import ApprovalRequest, Person
from outlast.loop.effects import RunTool
from outlast.loop.values import JsonObject
from outlast.loop.votes import audience_text
from outlast.testing.demo.feed import Feed, Narrator
from outlast.testing.demo.processes import Child, DemoFailed, Desk
from outlast.testing.demo.proof import Proof, key_of, ledger, prove
from outlast.views.run import RunSnapshot

T = TypeVar("T")

AGENT = "Triage"
CUSTOMER = "cust-1001"
HEARTBEAT = timedelta(seconds=5)
"""How soon Temporal detects a dead worker; the default is ten seconds."""

SLOW = timedelta(seconds=3)
"""How long the first worker takes for a change, half of it after the commit, to be killed in."""

QUESTION = "Hi, I'm Mara. Where is my order A-17?"
CHANGE = "Please send order A-18 to Neue Gasse 5, 01067 Dresden instead."
REFUND = "Please refund order A-42, it arrived broken."
PICKUP = "Please have a courier collect the machine, order A-42."
HUMAN = "I would like the same machine again. Can I talk to a human?"
GREETING = "Hello Mara, this is Lee. I can keep a new one for you, until Friday."
REPLY = "Yes, please. Thank you, Lee!"
AGAIN = "And when was order C-3 sent?"
NOTE = "A new machine is kept for her until Friday. A mail confirms it."
AMOUNT = 350.0
"""What the reviewer changes the refund of 389 EUR to."""

COURIER = "courier.example"
REPORT: JsonObject = {"parcel": "LE-2207", "weight_kg": 9.4, "collected_at": "10:24"}
"""What the courier's webhook brings."""

SERVER_KEEPS_AFTER = timedelta(milliseconds=500)
"""How long a webhook waits for a worker; the default is five seconds."""

ASK_HUMAN = "ask_human"

PEOPLE = (
    Person(subject="ann", display="Ann", groups=("billing",), method="demo"),
    Person(subject="bob", display="Bob", groups=("billing",), method="demo"),
    Person(subject="lee", display="Lee", groups=("leads",), method="demo"),
)
"""The people of the desk. Who they are is up to the program that sends what they do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A person's decision about an approval request."""

    type: Literal["approve", "edit", "reject"]
    arguments: JsonObject | None = None
    message: str | None = None


class Staff:
    """Decides and writes for the people of the desk, and perhaps for the customer.

    Does what is suggested and sends no messages; a subclass asks a person.
    """

    speaks = False

    async def decide(self, request: ApprovalRequest, by: Person, suggested: Choice) -> Choice:
        """Decide about a request."""
        del request, by
        return suggested

    async def accept(self, by: Person) -> bool:
        """Return once somebody of the desk takes the conversation over."""
        del by
        return True

    async def write(self, prompt: str, suggested: str) -> str:
        """Return what somebody writes; the prompt says who and what."""
        del prompt
        return suggested

    async def next_message(self) -> str:
        """Return the customer's next message; an empty text ends the conversation."""
        return ""

    async def leave(self) -> None:
        """Return when the demo may be cleaned up."""


@dataclass(kw_only=True)
class Story:
    """One performance of the story."""

    client: Client
    run_id: str
    database: Path
    narrator: Narrator
    staff: Staff
    settings: RunConfig
    hire: Callable[[timedelta], Awaitable[Child]]
    link: str
    patience: timedelta
    desk: Desk | None = None
    restart_server: Callable[[], Awaitable[None]] | None = None
    _message_ids: list[str] = field(default_factory=list[str])
    _interrupted: str = ""
    _first_execution_id: str = ""
    _webhook: str = ""
    _kills: int = 0

    async def tell(self) -> None:
        """Play the story, and show the proof."""
        async with AsyncExitStack() as stack:
            self.narrator.scene("1. A customer writes")
            worker = await self._hire(SLOW)
            handle = await self._start()
            self._first_execution_id = handle.first_execution_id or ""
            feed = Feed(self.client, self.run_id, self.narrator, patience=self.patience)
            await stack.enter_async_context(feed)
            await self._answered(feed, handle)
            await self._kill_in_a_tool_call(feed, handle, worker)
            await self._kill_while_an_approval_waits(feed, handle)
            await self._deliver_without_a_worker(feed, handle)
            await self._let_a_human_take_over(feed, handle)
            if self.desk is not None:
                await self._kill_everything_in_an_answer(feed, handle, self.desk)
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
            context={"customer_id": CUSTOMER},
            customer=CUSTOMER,
            run_config=replace(self.settings, heartbeat_timeout=HEARTBEAT),
            stream=self.desk is not None,
            client=self.client,
        )
        self._message_ids.append("start")
        self.narrator.facts([("watch it", self.link)])
        if self.desk is not None:
            self.narrator.facts(
                [("desk", self._page("conversations")), ("Mara's page", self._page("chat", "c"))]
            )
        return handle

    async def _kill_in_a_tool_call(self, feed: Feed, handle: RunHandle, worker: Child) -> None:
        self.narrator.scene("2. kill -9 in the middle of a tool call")
        await self._say(handle, CHANGE)
        call = await feed.wait_for_half_done_call("change of the address", self._is_in_ledger)
        await self._kill(worker)
        if await feed.pending(call) is None:
            raise DemoFailed(f"{call.name} was reported before its worker could be killed.")
        self._interrupted = key_of(call, self._first_execution_id)
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

    async def _kill_while_an_approval_waits(self, feed: Feed, handle: RunHandle) -> None:
        self.narrator.scene("3. A refund waits for a person, and kill -9 again")
        await self._say(handle, REFUND)
        (request, *_) = await self._asked(feed, "refund")
        self.narrator.facts([(request.id, _people_for(request)), ("", _time_for(request))])
        await self._kill(self._worker)
        self.narrator.note(
            "No worker runs now. The request is safe; this is read from the history:"
        )
        self.narrator.facts(
            [
                (one.id, joined(one.agent, " asks: ", call_line(one.name, one.arguments)))
                for one in await handle.approvals()
            ]
        )
        await self._hire(timedelta())
        await self._answered(feed, handle)

    async def _deliver_without_a_worker(self, feed: Feed, handle: RunHandle) -> None:
        self.narrator.scene("4. A courier's webhook arrives while no worker runs")
        await self._say(handle, PICKUP)
        message = self._message_ids[-1]
        state = await feed.reach(
            "wait for the courier",
            lambda state: state.status == "parked" or _is_answered(state, message),
        )
        if state.status != "parked":
            raise DemoFailed("The model gave its answer without sending a courier.")
        await self._kill(self._worker)
        self.narrator.note(
            "The courier is booked, and the tool has ended. No worker runs now, and none is needed "
            "to wait; this is read from the history:"
        )
        (wait,) = await handle.pending_waits()
        self.narrator.facts([(wait.name, _wait_for(wait)), ("", _schema_for(wait))])
        self._webhook = _webhook_of(wait)
        for what in (f"The courier's webhook arrives: {json.dumps(REPORT)}", "It arrives again"):
            await self._deliver(wait, what, SERVER_KEEPS_AFTER)
        await self._hire(timedelta())
        await feed.reach("report of the courier", lambda state: state.status != "parked")
        self.narrator.note(
            "The report counts once, and is what the tool returns. The tool does not run again: the "
            "call is begun again only to take the report."
        )
        await self._answered(feed, handle)

    async def _let_a_human_take_over(self, feed: Feed, handle: RunHandle) -> None:
        self.narrator.scene("5. The customer asks for a human")
        await self._say(handle, HUMAN)
        (request, *_) = await self._asked(feed, "human")
        self.narrator.facts([(request.id, _people_for(request)), ("", _time_for(request))])
        await self._answered(feed, handle)

    async def _kill_everything_in_an_answer(
        self, feed: Feed, handle: RunHandle, desk: Desk
    ) -> None:
        self.narrator.scene("6. kill -9 of everything, in the middle of an answer")
        await self._say(handle, AGAIN)
        await self._some_words(handle)
        await self._kill(self._worker)
        await desk.kill()
        self.narrator.note(f"kill -9 {desk.pid}, which is the desk", loud=True)
        if self.restart_server is not None:
            async with self.narrator.waiting("a Temporal server starts"):
                await self.restart_server()
            self.narrator.note("kill -9 of the Temporal server, too", loud=True)
        await desk.start_again()
        self.narrator.note("Both are there again. Open pages go on where they were.")
        await self._hire(timedelta())
        await self._answered(feed, handle)

    async def _some_words(self, handle: RunHandle) -> None:
        """Wait until the model has begun to write the answer to the newest message."""
        async with aclosing(handle.stream_answer(self._message_ids[-1])) as events:
            async for event in events:
                is_raw = isinstance(event, RawResponsesStreamEvent)
                if is_raw and event.raw.get("type") == "response.output_text.delta":
                    return

    async def _go_on(self, feed: Feed, handle: RunHandle) -> None:
        if self.staff.speaks:
            self.narrator.scene(f"{6 if self.desk is None else 7}. In your own words")
        while text := await self.staff.next_message():
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

    async def _deliver(self, wait: PendingWait, what: str, patience: timedelta) -> None:
        """Deliver the courier's report, as the receiver of its webhooks does."""
        receipt = await finish(
            wait.token,
            REPORT,
            client=self.client,
            delivery_id=_webhook_of(wait),
            source=COURIER,
            patience=patience,
        )
        kept = "No worker takes it, so the Temporal server keeps it."
        self.narrator.note(f"{what}. {kept if receipt.at is None else 'The run has it.'}")

    async def _say(self, handle: RunHandle, text: str) -> None:
        self._message_ids.append((await handle.send(text)).id)

    async def _asked(self, feed: Feed, what: str) -> tuple[ApprovalRequest, ...]:
        message = self._message_ids[-1]
        state = await feed.reach(
            f"request for a {what}",
            lambda state: state.status == "waiting" or _is_answered(state, message),
        )
        if state.status != "waiting":
            raise DemoFailed(f"The model gave its answer without asking for the {what}.")
        return state.pending_approvals

    async def _answered(self, feed: Feed, handle: RunHandle, *, may_fail: bool = False) -> None:
        """Wait for the answer to the newest message; until then, people do what is asked of them."""
        while True:
            message = self._message_ids[-1]  # a takeover may add one
            state = await feed.reach("answer", _is_settled(message))
            if state.hold is not None:  # taken on the desk, where nobody had asked for it
                await self._speak_for(feed, handle, _holder(state.hold.by))
                continue
            if _is_answered(state, message):
                break
            if state.status == "parked":
                for wait in await handle.pending_waits():
                    await self._deliver(wait, "The courier's webhook arrives", self.patience)
                await feed.reach("report", lambda now: now.status != "parked")
                continue
            for request in state.pending_approvals:
                if request.name == ASK_HUMAN:
                    await self._take_over(feed, handle, request)
                else:
                    await self._decide(feed, handle, request)
            have_votes = _have_votes(state.pending_approvals)
            await feed.reach("decision", lambda now: have_votes(now) or now.hold is not None)  # noqa: B023  awaited here
        answer = next(one for one in state.answers if message in one.to)
        if answer.failure is not None and not may_fail:
            raise DemoFailed(f"There is no answer: {answer.failure.message}")

    # --- What people do -------------------------------------------------------------------------

    async def _decide(self, feed: Feed, handle: RunHandle, request: ApprovalRequest) -> None:
        by = _person_for(request)
        self._tell_to_click(
            self._page("conversations", request_id=request.id),
            "As Lee: Approve, Change the arguments, or Reject",
        )
        have_votes = _have_votes([request])
        choice = await self._unless_on_desk(
            feed,
            self.staff.decide(request, by, _suggested(request)),
            lambda now: have_votes(now) or now.hold is not None,
        )
        if choice is None:
            return
        if choice.type == "edit" and choice.arguments is not None:
            self.narrator.note(
                f"{by.display}, of {_groups(by)}, changes the amount to "
                f"{choice.arguments['amount']:.2f} EUR, and lets the call run."
            )
            await handle.edit(request, choice.arguments, by=by)
        elif choice.type == "reject":
            await handle.reject(request, message=choice.message, by=by)
        else:
            await handle.approve(request, by=by)

    async def _take_over(self, feed: Feed, handle: RunHandle, request: ApprovalRequest) -> None:
        lead = _person_for(request)
        self._tell_to_click(
            self._page("conversations"),
            'As Lee: Take over, write to Mara, Send, and at the end "Give back to an agent"',
        )
        have_votes = _have_votes([request])
        if await self._unless_on_desk(
            feed, self.staff.accept(lead), lambda now: now.hold is not None or have_votes(now)
        ):
            self.narrator.note(
                f"{lead.display}, of {_groups(lead)}, accepts. As long as a person has the "
                "conversation, the agent is silent."
            )
            await handle.hold(by=lead)
            await feed.reach("takeover", lambda now: now.hold is not None)
        if feed.state.hold is not None:
            await self._speak_for(feed, handle, lead)

    async def _speak_for(self, feed: Feed, handle: RunHandle, lead: Person) -> None:
        """Talk with the customer, here or on the pages, until the conversation is given back."""
        name, asked = lead.display, self._message_ids[-1]
        await feed.reach("end of the agent's turn", _or_given_back(lambda now: now.is_held))
        is_said = _or_given_back(lambda now: _is_answered(now, asked))
        here = self.staff.write(f"You are {name}. What do you say to Mara?", GREETING)
        if (text := await self._unless_on_desk(feed, here, is_said)) is not None:
            await handle.say(text, by=lead)
        await feed.reach(f"words of {name}", is_said)

        known = frozenset(self._message_ids)
        has_come = _or_given_back(lambda now: bool(_unknown(now, known)))
        self._tell_to_click(self._page("chat", "c"), "As Mara: write, and Send")
        here = self.staff.write("You are Mara. What do you say?", REPLY)
        if feed.state.hold is None:
            here.close()
        elif (text := await self._unless_on_desk(feed, here, has_come)) is not None:
            await self._say(handle, text)
        await feed.reach("reply", has_come)
        self._message_ids += _unknown(feed.state, frozenset(self._message_ids))

        here = self.staff.write(f"You are {name}. What should the agent know?", NOTE)
        if (note := await self._unless_on_desk(feed, here, _is_given_back)) is not None:
            self.narrator.note(f"{name} leaves a note, which the agent reads and Mara does not.")
            await handle.release(by=lead, note=note)
        await feed.reach("end of the takeover", _is_given_back)

    async def _unless_on_desk(
        self, feed: Feed, here: Coroutine[Any, Any, T], is_done: Callable[[RunSnapshot], bool]
    ) -> T | None:
        """Return what somebody does here; None if it is done in the browser before."""
        typing = asyncio.create_task(here)
        elsewhere = asyncio.create_task(feed.until(is_done))
        try:
            await asyncio.wait({typing, elsewhere}, return_when=asyncio.FIRST_COMPLETED)
            return typing.result() if typing.done() else None
        finally:
            typing.cancel()
            elsewhere.cancel()
            await asyncio.wait({typing, elsewhere})

    def _tell_to_click(self, page: str, what: str) -> None:
        """Say what to do in the browser, if a person plays and there is a desk."""
        if self.desk is not None and self.staff.speaks:
            self.narrator.facts([("click", page), ("", f"{what}. Or answer here:")])

    def _page(self, *parts: str, request_id: str = "") -> str:
        """Return the address of a page about the run."""
        url = "" if self.desk is None else self.desk.url
        ends = ["requests", request_id] if request_id else []
        return "/".join([url, *(quote(one, safe="") for one in (*parts, self.run_id, *ends))])

    def _is_in_ledger(self, call: RunTool) -> bool:
        return any(
            entry.key == key_of(call, self._first_execution_id) for entry in ledger(self.database)
        )

    # --- The proof ------------------------------------------------------------------------------

    async def _prove(self) -> None:
        self.narrator.scene("The proof, from the shop's ledger and Temporal's history")
        proof = await prove(self.client, self.run_id, self.database, self._message_ids)
        deviations = proof.deviations(interrupted=self._interrupted, webhook=self._webhook)
        self.narrator.deeds(proof.deeds)
        for text in [] if deviations else self._findings(proof):
            self.narrator.verdict(text, good=True)
        for text in deviations:
            self.narrator.verdict(text, good=False)
        if deviations:
            raise DemoFailed(f"The proof fails: {'; '.join(deviations)}.")

    def _findings(self, proof: Proof) -> list[str]:
        message_ids, calls = len(proof.message_ids), len(proof.calls)
        workers = ", ".join(proof.workers)
        size_kb = proof.size_bytes / 1000
        done = sum(deed.applied == 1 for deed in proof.deeds)
        return [
            f"{done} side effects, each exactly once",
            f"{message_ids} of {message_ids} messages have one answer, {calls} of {calls} calls one output",
            f"{self._kills} workers were killed; {len(proof.workers)} carried the run: {workers}",
            f"the courier's webhook came {proof.webhooks} times while no worker ran, and counted once",
            f"the whole history: {proof.events} events, {size_kb:.1f} KB",
        ]


def _is_answered(state: RunSnapshot, message_id: str) -> bool:
    return any(message_id in answer.to for answer in state.answers)


def _is_settled(message_id: str) -> Callable[[RunSnapshot], bool]:
    return lambda state: (
        state.status in {"waiting", "parked"}
        or state.hold is not None
        or _is_answered(state, message_id)
    )


def _is_given_back(state: RunSnapshot) -> bool:
    return state.hold is None


def _or_given_back(condition: Callable[[RunSnapshot], bool]) -> Callable[[RunSnapshot], bool]:
    return lambda state: condition(state) or _is_given_back(state)


def _unknown(state: RunSnapshot, known: frozenset[str]) -> list[str]:
    """Return the ids of messages without an answer that were not sent from here."""
    return [one for one in state.answering if one not in known]


def _holder(subject: str) -> Person:
    return next((one for one in PEOPLE if one.subject == subject), Person(subject=subject))


def _have_votes(requests: Iterable[ApprovalRequest]) -> Callable[[RunSnapshot], bool]:
    """Whether each of the requests has got a vote more, or is over."""
    before = {request.id: len(request.votes) for request in requests}

    def have(state: RunSnapshot) -> bool:
        return all(len(one.votes) > before.get(one.id, -1) for one in state.pending_approvals)

    return have


def _suggested(request: ApprovalRequest) -> Choice:
    """Return what the demo suggests: to pay less of a refund, and otherwise to approve."""
    arguments: JsonObject = json.loads(request.arguments)
    amount = arguments.get("amount")
    if request.name != "refund_order" or not isinstance(amount, int | float) or amount <= AMOUNT:
        return Choice(type="approve")
    return Choice(type="edit", arguments={**arguments, "amount": AMOUNT})


def _person_for(request: ApprovalRequest) -> Person:
    voters = {vote.decision.by for vote in request.votes}
    groups = {group for one in request.audiences for group in one.groups}
    for person in PEOPLE:
        if person.subject not in voters and not groups.isdisjoint(person.groups):
            return person
    raise DemoFailed(f"Nobody here may decide {request.id}: {audience_text(request.audiences)}.")


def _people_for(request: ApprovalRequest) -> str:
    quorum = request.terms.quorum
    count = "one person" if quorum == 1 else f"{quorum} different people"
    but = ", but not the customer" if request.terms.audience.exclude_requester else ""
    return f"waits for {count} of {audience_text(request.audiences)}{but}"


def _time_for(request: ApprovalRequest) -> str:
    terms, steps = request.terms, list[str]()
    if terms.remind_every_ms is not None:
        steps.append(f"a reminder every {_duration(terms.remind_every_ms)}")
    for step in terms.escalations:
        who = audience_text([step.audience])
        steps.append(f"after {_duration(step.after_ms)} {who} may decide, too")
    if terms.expires_in_ms is not None:
        steps.append(f"after {_duration(terms.expires_in_ms)} it is rejected")
    return "; ".join(steps)


def _wait_for(wait: PendingWait) -> str:
    until = "" if wait.until is None else f" until {wait.until.astimezone():%A, %H:%M}"
    return f"{wait.agent} waits in {wait.tool}{until}"


def _webhook_of(wait: PendingWait) -> str:
    """Return the id that the courier gives its report."""
    return f"webhook-{wait.call_id}"


def _schema_for(wait: PendingWait) -> str:
    return f"for a report with {', '.join((wait.schema or {}).get('properties', {}))}"


def _duration(milliseconds: int) -> str:
    minutes = milliseconds / 60_000
    return f"{minutes:g} min" if minutes < 60 else f"{minutes / 60:g} h"


def _groups(person: Person) -> str:
    return ", ".join(person.groups)
