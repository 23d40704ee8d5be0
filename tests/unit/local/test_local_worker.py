"""A worker on a queue, and the runs that need it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.agent import Agent
from outlast.agents.registry import Registry
from outlast.local import local_worker
from outlast.local.local_worker import HostedRun, LocalWorker
from outlast.local.loop_end import kept_out, kept_tasks
from outlast.local.queues import QueueClaim
from outlast.tracing.provider import get_current_trace, trace
from tests.mcp_servers import Shelf

QUEUE = "outlast-local-desk-0a1b2c3d-A"
A = Agent[Any](name="A")


class FakeWorker:
    """A worker that notes when it starts and stops."""

    def __init__(self, _client: Any, **options: Any) -> None:
        self.registry = options["agents"]
        self.approvals: Any = options["approvals"]
        self.started_in: object = "nothing"

    async def __aenter__(self) -> Self:
        self.started_in = get_current_trace()
        return self

    async def __aexit__(self, *_error: object) -> None:
        raise ConnectionError("The server is gone.")


@pytest.fixture
def made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[LocalWorker, FakeWorker]]:
    workers: list[FakeWorker] = []

    def make(client: Any, **options: Any) -> FakeWorker:
        workers.append(FakeWorker(client, **options))
        return workers[-1]

    monkeypatch.setattr(local_worker, "AgentWorker", make)
    claim = QueueClaim.take(QUEUE, tmp_path)
    assert claim is not None
    client: Any = None
    yield LocalWorker(client, claim, A, is_own=True), workers[0]
    claim.release()


async def test_a_worker_is_not_in_the_trace_of_its_first_caller(
    made: tuple[LocalWorker, FakeWorker],
) -> None:
    one, worker = made
    with trace("Support"):
        await one.start()
    assert worker.started_in is None


async def test_a_worker_that_breaks_does_not_keep_its_queue(
    made: tuple[LocalWorker, FakeWorker], tmp_path: Path
) -> None:
    one, _ = made
    with pytest.raises(ConnectionError):
        await one.stop()
    claim = QueueClaim.take(QUEUE, tmp_path)
    assert claim is not None
    claim.release(for_good=True)


async def test_a_worker_without_its_server_does_not_keep_the_program(
    made: tuple[LocalWorker, FakeWorker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = made
    stopping: list[str] = []

    async def never(*_error: object) -> None:
        stopping.append("begun")
        await asyncio.Event().wait()

    monkeypatch.setattr(FakeWorker, "__aexit__", never)
    monkeypatch.setattr(local_worker, "FAREWELL_SECONDS", 0.01)
    monkeypatch.setattr(local_worker, "is_gone", bool)
    monkeypatch.setattr(one, "_client", object())
    async with asyncio.timeout(10):
        await one.stop()
    (left,) = kept_tasks()  # the end of the loop cancels it
    left.cancel()
    assert stopping == ["begun"]
    claim = QueueClaim.take(QUEUE, tmp_path)
    assert claim is not None
    claim.release(for_good=True)


async def test_a_worker_has_stopped_when_its_last_answers_are_taken(
    made: tuple[LocalWorker, FakeWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = made
    taken: list[str] = []

    async def answer() -> None:
        await asyncio.sleep(0.01)
        taken.append("the last answer")

    async def stop(*_error: object) -> None:
        task = asyncio.create_task(answer())
        setattr(task, "__temporal_task_tag", object())

    monkeypatch.setattr(FakeWorker, "__aexit__", stop)
    await asyncio.create_task(one.stop(), context=kept_out())
    assert taken == ["the last answer"]


def test_a_run_needs_its_worker_until_it_is_let_go(made: tuple[LocalWorker, FakeWorker]) -> None:
    one, _ = made
    dropped: list[LocalWorker] = []
    run, other = (HostedRun(QUEUE, Registry([A]), dropped.append) for _ in range(2))
    run.begin(one)
    other.begin(one)
    assert one.users == 2
    run.release()
    run.release()
    assert (one.users, dropped) == (1, [one])
    other.leave()
    other.release()
    assert one.users == 1, "it goes on without anybody"


def test_a_run_that_is_left_before_it_is_carried_is_carried_without_anybody(
    made: tuple[LocalWorker, FakeWorker],
) -> None:
    one, _ = made
    run = HostedRun(QUEUE, Registry([A]), lambda _: None)
    run.leave()
    run.begin(one)
    run.release()
    assert one.users == 1


async def test_nobody_waits_any_more_for_the_queue_of_a_run_that_is_let_go() -> None:
    run = HostedRun(QUEUE, Registry([A]), lambda _: None)
    run.taking_over = waiting = asyncio.create_task(asyncio.sleep(60))
    run.release()
    await asyncio.wait([waiting])
    assert waiting.cancelled()


async def test_a_worker_closes_what_the_agents_of_its_runs_hold(
    made: tuple[LocalWorker, FakeWorker],
) -> None:
    one, worker = made
    held = [Shelf(), Shelf()]
    for shelf in held:
        definitions = Registry([Agent[Any](name="A", mcp_servers=[shelf])], tell_apart=True)
        run = HostedRun(QUEUE, definitions, lambda _: None)
        run.begin(one)
        run.leave()
    await worker.registry.release()
    assert [shelf.steps for shelf in held] == [["release"], ["release"]]


class EndingWorker(FakeWorker):
    """A worker that the server may turn away."""

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        self.turned_away = options["on_fatal_error"]
        self.has_started, self.has_stopped = asyncio.Event(), False

    async def __aenter__(self) -> Self:
        self.has_started.set()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.has_stopped = True


class Namespaces:
    """A server that has a namespace again when it is asked for the second time."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)

    async def describe_namespace(self, _request: Any) -> None:
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> list[EndingWorker]:
    workers: list[EndingWorker] = []

    def make(client: Any, **options: Any) -> EndingWorker:
        workers.append(EndingWorker(client, **options))
        return workers[-1]

    monkeypatch.setattr(local_worker, "AgentWorker", make)
    return workers


async def test_a_worker_that_the_server_turns_away_is_replaced(
    ending: list[EndingWorker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_worker, "LOOK_AGAIN_SECONDS", 0.01)
    claim = QueueClaim.take(QUEUE, tmp_path)
    assert claim is not None
    gone = RPCError("not now", RPCStatusCode.PERMISSION_DENIED, b"")
    service = Namespaces(gone, None)
    client: Any = SimpleNamespace(namespace="default", workflow_service=service)
    one = LocalWorker(client, claim, A, is_own=True)
    await one.start()
    held = Shelf()
    one.host(Registry([Agent[Any](name="A", mcp_servers=[held])], tell_apart=True))
    await ending[0].turned_away(gone)
    async with asyncio.timeout(10):
        while len(ending) < 2:  # noqa: ASYNC110  it tells nobody
            await asyncio.sleep(0.01)
        await ending[1].has_started.wait()
    assert (ending[0].has_stopped, service.answers) == (True, [])
    assert (ending[1].registry.names, ending[1].registry.tells_apart) == (["A"], True)
    await ending[1].registry.release()
    assert held.steps == ["release"], "the new one closes what the runs hold"
    await one.stop()
    assert ending[1].has_stopped


async def test_a_worker_that_nobody_needs_any_more_is_not_replaced(
    ending: list[EndingWorker], tmp_path: Path
) -> None:
    claim = QueueClaim.take(QUEUE, tmp_path)
    assert claim is not None
    client: Any = SimpleNamespace(namespace="default")
    one = LocalWorker(client, claim, A, is_own=True)
    await one.start()
    await ending[0].turned_away(RuntimeError("no"))
    async with asyncio.timeout(local_worker.LOOK_AGAIN_SECONDS / 2):
        await one.stop()
    assert len(ending) == 1
    again = QueueClaim.take(QUEUE, tmp_path)
    assert again is not None, "the queue is free"
    again.release(for_good=True)


def test_the_operators_file_of_the_environment_holds_for_programs_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: tuple[LocalWorker, FakeWorker]
) -> None:
    assert made[1].approvals is None
    place = tmp_path / "approvals.toml"
    place.write_text("[tool.defined_later]\n", encoding="utf-8")
    monkeypatch.setenv("OUTLAST_APPROVALS", str(place))
    workers: list[FakeWorker] = []

    def make(client: Any, **options: Any) -> FakeWorker:
        workers.append(FakeWorker(client, **options))
        return workers[-1]

    monkeypatch.setattr(local_worker, "AgentWorker", make)
    claim = QueueClaim.take(f"{QUEUE}-2", tmp_path)
    assert claim is not None
    client: Any = None
    LocalWorker(client, claim, A, is_own=True)
    assert workers[0].approvals.tables("tool", "A", "defined_later")
    claim.release()
