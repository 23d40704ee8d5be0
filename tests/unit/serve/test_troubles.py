"""The server is asked once for all readers of a run, and not more often than needed."""

import asyncio

import pytest
from temporalio.service import RPCError, RPCStatusCode

from outlast.client.identity import person
from outlast.loop.state import LoopState
from outlast.serve import troubles
from outlast.serve.access import Staff
from outlast.serve.troubles import RunTroubles
from outlast.views.trouble import QUIET, SILENT, ServerFacts

OPERATOR = Staff(person("olga"), frozenset({"viewer", "decider", "operator"}))
WORKING = LoopState(run_id="r", phase="thinking")
NO_WORKER = ServerFacts(queue="desk", workers=0)


class Server:
    """Says what the test has it say, once it may.

    Attributes:
        asked: the runs about which it was asked, and whether they work.
        says: what it says, or raises.
        may: set while it may answer.
    """

    def __init__(self, says: ServerFacts | Exception = NO_WORKER) -> None:
        self.asked: list[tuple[str, bool]] = []
        self.says = says
        self.may = asyncio.Event()
        self.may.set()

    async def read(self, run_id: str, works: bool) -> ServerFacts:
        self.asked.append((run_id, works))
        await self.may.wait()
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


async def test_readers_share_one_question_and_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    found = RunTroubles(server.read)
    server.may.clear()
    asking = asyncio.gather(*(found.of("r", WORKING, OPERATOR) for _ in range(20)))
    await asyncio.sleep(0)
    server.may.set()
    assert {tuple(one.kind for one in said) for said in await asking} == {("no_worker",)}
    assert await found.facts("r", WORKING) == NO_WORKER
    assert server.asked == [("r", True)]
    await found.facts("other", LoopState(phase="idle"))
    assert server.asked[1:] == [("other", False)]
    monkeypatch.setattr(troubles, "FRESH_SECONDS", 0.0)
    await found.facts("r", WORKING)
    assert len(server.asked) == 3


async def test_a_reader_that_goes_away_takes_no_answer_from_the_others() -> None:
    server = Server()
    found = RunTroubles(server.read)
    server.may.clear()
    first = asyncio.create_task(found.facts("r", WORKING))
    second = asyncio.create_task(found.facts("r", WORKING))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait((first,))
    server.may.set()
    assert await second == NO_WORKER


async def test_nobody_is_asked_about_a_run_that_has_ended() -> None:
    server = Server()
    ended = LoopState(phase="closed", outcome="completed")
    assert await RunTroubles(server.read).facts("r", ended) == QUIET
    assert server.asked == []


async def test_a_server_that_is_silent_is_a_trouble_and_one_that_refuses_is_none() -> None:
    (silent,) = await RunTroubles(Server(SILENT).read).of("r", WORKING, OPERATOR)
    assert silent.kind == "no_server"
    refuses = Server(RPCError("no", RPCStatusCode.PERMISSION_DENIED, b""))
    assert await RunTroubles(refuses.read).of("r", WORKING, OPERATOR) == ()


async def test_only_so_many_runs_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(troubles, "MOST_RUNS", 2)
    server = Server()
    found = RunTroubles(server.read)
    for run_id in ("a", "b", "c", "a", "c"):
        await found.facts(run_id, WORKING)
    assert [run_id for run_id, _ in server.asked] == ["a", "b", "c", "a"]


async def test_without_a_server_nothing_is_known() -> None:
    assert await RunTroubles().facts("r", WORKING) == QUIET
