"""One customer's case, in which supporters at two desks act at the same moment, and what it must leave.

Owns: who does what, and the checks of every receipt at both desks. Must not know: which processes
are stopped, killed or replaced meanwhile.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Literal, TypeAlias

from temporalio.client import Client

from benchmarks.desk_agents import AGENT, answer_of, story
from benchmarks.desk_processes import PROGRAM, Answer, Desks, by, of_run
from outlast.client.audit import audit_run
from tests.cluster.reader import PATIENCE_SECONDS, Reader, said_in
from tests.workflow.laws import executions, failed_tasks

Point: TypeAlias = Literal["approval", "wait", "takeover", "stream"]
POINTS: Final[tuple[Point, ...]] = ("approval", "wait", "takeover", "stream")
"""What of a case may be open while others do something else, in the order of the case."""

SUPPORTERS: Final = ("ann", "bob")
"""Each sits at another desk."""

Pause: TypeAlias = Callable[[Point], Awaitable[None]]


@dataclass(kw_only=True)
class Case:
    """A case, from its customer's first message to its end.

    Attributes:
        desks: where everybody acts.
        number: the number of the order that it is about.
        random: what chance decides.
        pause: awaited while something is open.
        run_id: the conversation.
        effects: the effects that its acts must have had.
        acts: the entries of the audit that its acts must have made, with who acted.
        kept: how many decisions the server kept, as no worker was there.
        connections: how often its reader's stream was opened.
    """

    desks: Desks
    number: str
    random: Random
    pause: Pause
    effects: list[str] = field(default_factory=list[str])
    acts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    kept: int = 0
    connections: int = 0

    @property
    def run_id(self) -> str:
        """The conversation."""
        return f"case-{self.number}"

    async def carry(self) -> None:
        """Do everything, check each receipt, and end the conversation.

        Raises:
            AssertionError: a receipt was not true at one of the desks.
            TimeoutError: the conversation is stuck.
        """
        begun = {"agent": AGENT, "input": f"refund {self.number}", "id": self.run_id}
        await self._at_each_desk("/api/conversations", begun, headers=PROGRAM)
        async with Reader(self.desks, self.run_id, self.random.randrange(2)) as reader:
            await self._decide(reader)
            await self._deliver(reader)
            await self._take_over(reader)
            await self._listen(reader)
            ended = await self._post("cancel", {"mode": "after_turn"}, person="ann")
            assert ended.status == 202 or ended.was_repeated, ended
            await reader.until_ended()
            await self._check_reader(reader)
            self.connections = reader.connections

    # --- Approvals ---------------------------------------------------------------------------

    async def _decide(self, reader: Reader) -> None:
        """Two supporters decide the same request at the same moment, otherwise than each other."""
        await reader.until(lambda: "pending" in reader.requests.values(), "its request")
        await self.pause("approval")
        seen = (await self._get("requests", 0)).ok()["requests"]
        (request,) = seen
        path = f"requests/{request['id']}"
        kinds = ["approve", "reject"]
        self.random.shuffle(kinds)
        bodies = [{"type": kind, "digest": request["digest"]} for kind in kinds]
        answers = await self._race(f"{path}/decide", bodies)
        self.kept += sum(one.status == 200 and one.body["is_kept"] for one in answers.values())
        settled = await self._same_at_each_desk(
            path, ("status", "settled_by"), lambda one: one["status"] != "pending"
        )
        winner = str(settled["settled_by"])
        expected = {"approve": "approved", "reject": "rejected"}
        assert settled["status"] == expected[kinds[SUPPORTERS.index(winner)]], settled
        self._one_has_won(answers, winner, lambda body: body["is_kept"])
        self.acts += Counter({("vote", winner): 1, ("decided", winner): 1})
        if settled["status"] == "approved":
            self.effects.append(f"refunded {self.number}")
        await reader.until_said(answer_of(f"refund {self.number}"))

    # --- Waits -------------------------------------------------------------------------------

    async def _deliver(self, reader: Reader) -> None:
        """The courier reports once at each desk, with the same delivery."""
        await self._message("courier")
        await reader.until(lambda: reader.status == "parked", "its wait")
        await self.pause("wait")
        (wait,) = (await self._get("waits", 1)).ok()["waits"]
        value = {"token": wait["token"], "value": "Mia", "delivery_id": f"d-{self.number}"}
        first, second = await self._at_each_desk(
            of_run(self.run_id, "waits/finish"), value, headers=by("ann")
        )
        assert None in (first["at"], second["at"]) or first == second
        self.acts["delivered", "ann"] += 1
        self.effects += [f"booked {self.number}", f"picked up {self.number} by Mia"]
        await reader.until_said(answer_of(f"courier {self.number}"))

    # --- Takeovers ---------------------------------------------------------------------------

    async def _take_over(self, reader: Reader) -> None:
        """Two supporters take the conversation at the same moment; the one who has it answers."""
        answers = await self._race("hold", [{}, {}])
        held = await self._same_at_each_desk("", ("status", "hold"), lambda one: one["hold"])
        holder = str(held["hold"]["by"])
        self._one_has_won(answers, holder, lambda body: body["by"] != holder)
        self.acts["held", holder] += 1
        await self._message("help")
        await self.pause("takeover")
        words = f"{holder} says hello to {self.number}"
        said = {"text": words, "message_id": f"s-{self.number}"}
        await self._at_each_desk(of_run(self.run_id, "say"), said, headers=by(holder))
        self.acts["said", holder] += 1
        await reader.until_said(words)
        released = await self._post("release", {"note": "All is well."}, person=holder)
        assert released.status == 200 or released.was_repeated, released
        await self._same_at_each_desk("", ("status", "hold"), lambda one: one["hold"] is None)
        self.acts["released", holder] += 1

    # --- Streams -----------------------------------------------------------------------------

    async def _listen(self, reader: Reader) -> None:
        """A long answer is read while the model speaks."""
        await self._message("story")
        said = story(f"story {self.number}")

        def has_begun() -> bool:
            # A reader whose desk was away may get the whole answer at once.
            return len(reader.text) > len("About story") or said in reader.texts

        await reader.until(has_begun, "its first words")
        await self.pause("stream")
        await reader.until_said(said)

    async def _check_reader(self, reader: Reader) -> None:
        """Compare what the stream told with what both desks have."""
        assert reader.faults == [], reader.faults
        told = Counter(reader.texts)
        for desk in range(2):
            run = (await self._get("", desk)).ok()
            texts = said_in(run)
            assert reader.texts == texts, f"{self.run_id}: {reader.texts}, at desk {desk}: {texts}"
            assert not run["is_open"], run["status"]
        assert set(told.values()) == {1}, f"{self.run_id}: something was said twice: {told}"

    # --- Requests ----------------------------------------------------------------------------

    async def _message(self, what: str) -> None:
        sent = {"text": f"{what} {self.number}", "message_id": f"{what}-{self.number}"}
        path = of_run(self.run_id, "messages")
        await self._at_each_desk(path, sent, headers=PROGRAM)

    async def _at_each_desk(self, path: str, body: Any, *, headers: dict[str, str]) -> list[Any]:
        """Send the same at both desks at the same moment, and return what they answered."""
        sent = (self.desks.send("POST", path, desk, headers, body) for desk in range(2))
        return [one.ok() for one in await asyncio.gather(*sent)]

    async def _race(self, path: str, bodies: list[dict[str, Any]]) -> dict[str, Answer]:
        """Let each supporter act at their desk at the same moment, and return their answers."""
        sent = (
            self.desks.send("POST", of_run(self.run_id, path), desk, by(person), body)
            for desk, (person, body) in enumerate(zip(SUPPORTERS, bodies, strict=True))
        )
        return dict(zip(SUPPORTERS, await asyncio.gather(*sent), strict=True))

    def _one_has_won(
        self, answers: dict[str, Answer], winner: str, is_open: Callable[[Any], bool]
    ) -> None:
        """Check that no receipt promises what did not happen.

        A receipt that says that the server keeps the act promises nothing yet. One whose request
        was cut and sent again may be a refusal, although the first attempt has counted.
        """
        for person, answer in answers.items():
            assert answer.status in {200, 409}, answer
            if person == winner:
                assert answer.status == 200 or answer.was_repeated, answer
            else:
                assert answer.status == 409 or is_open(answer.body), answer

    async def _post(self, path: str, body: Any, *, person: str) -> Answer:
        desk = self.random.randrange(2)
        return await self.desks.send("POST", of_run(self.run_id, path), desk, by(person), body)

    async def _get(self, path: str, desk: int) -> Answer:
        full = of_run(self.run_id, path) if path else of_run(self.run_id)
        return await self.desks.send("GET", full, desk, by("carl"))

    async def _same_at_each_desk(
        self, path: str, fields: tuple[str, ...], condition: Callable[[Any], object]
    ) -> dict[str, Any]:
        """Read something at both desks once it is settled, and check that they agree."""
        found: list[dict[str, Any]] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            for desk in range(2):
                # The server may keep a decision for a worker.
                while not condition(body := (await self._get(path, desk)).ok()):  # noqa: ASYNC110  nothing announces it
                    await asyncio.sleep(0.25)
                found.append({name: body[name] for name in fields})
        assert found[0] == found[1], f"{self.run_id}: the desks differ: {found}"
        return found[0]


async def check_case(client: Client, case: Case, effects: list[tuple[str, int]]) -> int:
    """Check what a case has left, and return how many attempts of its effects were repeated.

    Args:
        client: connected to the server.
        case: a case that has been carried.
        effects: its rows of the ledger.

    Raises:
        AssertionError: an effect or a decision is missing, or is there twice, or a task failed.
    """
    done = sorted(what for what, _ in effects)
    assert done == sorted(case.effects), f"{case.run_id}: {done}, expected {case.effects}"
    log = await audit_run(client, case.run_id)
    made = Counter((one.event, one.by) for one in log.records)
    kinds = {event for event, _ in case.acts}
    acted = Counter({act: count for act, count in made.items() if act[0] in kinds})
    assert acted == case.acts, f"{case.run_id}: {acted}, expected {case.acts}"
    async for execution in executions(client, case.run_id):
        assert failed_tasks(execution.events) == [], case.run_id
    return sum(attempts - 1 for _, attempts in effects)
