"""The server is asked once for all readers of a run, and not more often than needed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from temporalio.service import RPCError, RPCStatusCode

from outlast.client.identity import person
from outlast.loop.state import LoopState
from outlast.serve import troubles
from outlast.serve.access import Staff
from outlast.serve.troubles import RunTroubles
from outlast.views.run import snapshot_of
from outlast.views.trouble import QUIET, SILENT, KeptSignal, ServerFacts
from tests.eventually import eventually

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
    asking = asyncio.gather(*(found.of("r", snapshot_of(WORKING), OPERATOR) for _ in range(20)))
    await asyncio.sleep(0)
    server.may.set()
    assert {tuple(one.kind for one in said) for said in await asking} == {("no_worker",)}
    assert await found.facts("r", snapshot_of(WORKING)) == NO_WORKER
    assert server.asked == [("r", True)]
    await found.facts("other", snapshot_of(LoopState(phase="idle")))
    assert server.asked[1:] == [("other", False)]
    monkeypatch.setattr(troubles, "FRESH_SECONDS", 0.0)
    await found.facts("r", snapshot_of(WORKING))
    assert len(server.asked) == 3


async def test_a_reader_that_goes_away_takes_no_answer_from_the_others() -> None:
    server = Server()
    found = RunTroubles(server.read)
    server.may.clear()
    first = asyncio.create_task(found.facts("r", snapshot_of(WORKING)))
    second = asyncio.create_task(found.facts("r", snapshot_of(WORKING)))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait((first,))
    server.may.set()
    assert await second == NO_WORKER


async def test_nobody_is_asked_about_a_run_that_has_ended() -> None:
    server = Server()
    ended = LoopState(phase="closed", outcome="completed")
    assert await RunTroubles(server.read).facts("r", snapshot_of(ended)) == QUIET
    assert server.asked == []


async def test_a_server_that_is_silent_is_a_trouble_and_one_that_refuses_is_none() -> None:
    (silent,) = await RunTroubles(Server(SILENT).read).of("r", snapshot_of(WORKING), OPERATOR)
    assert silent.kind == "no_server"
    refuses = Server(RPCError("no", RPCStatusCode.PERMISSION_DENIED, b""))
    assert await RunTroubles(refuses.read).of("r", snapshot_of(WORKING), OPERATOR) == ()


async def test_only_so_many_runs_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(troubles, "MOST_RUNS", 2)
    server = Server()
    found = RunTroubles(server.read)
    for run_id in ("a", "b", "c", "a", "c"):
        await found.facts(run_id, snapshot_of(WORKING))
    assert [run_id for run_id, _ in server.asked] == ["a", "b", "c", "a"]


async def test_without_a_server_nothing_is_known() -> None:
    assert await RunTroubles().facts("r", snapshot_of(WORKING)) == QUIET


# --- Watching ------------------------------------------------------------------------------------


async def test_readers_share_one_watcher_which_says_what_changes_and_takes_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(troubles, "FRESH_SECONDS", 0.01)
    server = Server()
    found = RunTroubles(server.read)
    async with (
        asyncio.timeout(10),
        found.watch("r", lambda: snapshot_of(WORKING)) as one,
        found.watch("r", lambda: snapshot_of(WORKING)) as other,
    ):
        await asyncio.gather(one.news(), other.news())
        assert one.facts == other.facts == NO_WORKER
        server.says = QUIET
        await asyncio.gather(one.news(), other.news())
        assert one.facts == QUIET
        asked = len(server.asked)
    await asyncio.sleep(0.05)
    assert len(server.asked) <= asked + 1, "nobody is left who asks"


async def test_a_run_at_rest_is_asked_about_when_something_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(troubles, "FRESH_SECONDS", 0.01)
    server, idle = Server(QUIET), snapshot_of(LoopState(run_id="r", phase="idle"))
    async with RunTroubles(server.read).watch("r", lambda: idle) as watch:
        await eventually(lambda: len(server.asked) >= 1)
        await asyncio.sleep(0.1)
        assert len(server.asked) == 1
        kept = KeptSignal(what="decision approve for a1", at_ms=0)
        server.says = ServerFacts(workers=0, task_since_ms=0, kept=(kept,))
        watch.look()
        async with asyncio.timeout(10):
            await watch.news()
        assert watch.facts.kept == (kept,)
        await eventually(lambda: len(server.asked) >= 4)  # until it is taken


async def test_beside_a_feed_no_entry_is_taken_before_its_time() -> None:
    server = Server()
    taken: list[int] = []

    async def entries() -> AsyncGenerator[int]:
        for number in range(3):
            taken.append(number)
            yield number
        await asyncio.Event().wait()

    async with (
        asyncio.timeout(10),
        RunTroubles(server.read).watch("r", lambda: snapshot_of(WORKING)) as watch,
        aclosing(watch.beside(entries())) as both,
    ):
        seen: list[int | None] = []
        async for one in both:
            seen.append(one)
            assert len(taken) == len([entry for entry in seen if entry is not None]) or one is None
            if len(seen) == 4:
                break
    assert sorted(one for one in seen if one is not None) == [0, 1, 2]
    assert None in seen


async def test_rows_of_a_list_ask_for_runs_that_work_alone() -> None:
    server = Server()
    found = await RunTroubles(server.read).rows({"a": True, "b": False})
    assert found == {
        "a": "No worker polls the task queue 'desk', so nothing happens until you start one: "
        "`outlast worker MODULE`."
    }
    assert server.asked == [("a", True)]


async def test_rows_do_not_wait_for_a_slow_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(troubles, "ROWS_SECONDS", 0.01)
    server = Server()
    server.may.clear()
    found = RunTroubles(server.read)
    assert await found.rows({"a": True}) == {}
    server.may.set()
    await found.facts("a", snapshot_of(WORKING))
    assert list(await found.rows({"a": True})) == ["a"]
