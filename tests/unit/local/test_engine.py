"""The engine in the process: one for each event loop, and nothing left behind."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, Self

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import ServerUnavailable
from outlast.agents.registry import Registry
from outlast.contract import names
from outlast.local import engine
from outlast.local.engine import LocalEngine
from outlast.ports.tracing import get_current_trace, trace


class Surroundings:
    """What an engine puts together: a configuration, a server, a client, workers."""

    def __init__(self) -> None:
        self.configured = False
        self.refusal: Exception | None = None
        self.connected: list[tuple[Any, ...]] = []
        self.servers: list[Any] = []
        self.workers: list[Any] = []

    def is_configured(self) -> bool:
        return self.configured

    async def connect(self, *where: Any) -> Any:
        await asyncio.sleep(0)
        self.connected.append(where)
        if self.refusal is not None:
            raise self.refusal
        return SimpleNamespace(where=where)

    def make_server(self, **options: Any) -> Any:
        server = FakeServer(options)
        self.servers.append(server)
        return server

    def make_worker(self, client: Any, **options: Any) -> Any:
        worker = FakeWorker(client, options)
        self.workers.append(worker)
        return worker


class FakeServer:
    address = "127.0.0.1:7777"
    info = SimpleNamespace(namespace="default")

    def __init__(self, options: Any) -> None:
        self.options = options
        self.joined = False
        self.calls: list[str] = []

    def keep(self) -> None:
        self.calls.append("keep")

    async def start(self) -> None:
        self.calls.append("start")

    async def stop(self) -> None:
        self.calls.append("stop")


class FakeWorker:
    def __init__(self, client: Any, options: Any) -> None:
        self.client = client
        self.options = options
        self.registry = Registry(options["agents"])
        self.calls: list[str] = []

    async def __aenter__(self) -> Self:
        self.calls.append("enter")
        self.started_in = get_current_trace()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.calls.append("exit")


@pytest.fixture
async def around(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Surroundings]:
    surroundings = Surroundings()
    monkeypatch.setattr(engine, "is_configured", surroundings.is_configured)
    monkeypatch.setattr(engine, "connect", surroundings.connect)
    monkeypatch.setattr(engine, "EmbeddedServer", surroundings.make_server)
    monkeypatch.setattr(engine, "AgentWorker", surroundings.make_worker)
    yield surroundings
    await LocalEngine.close_shared()


async def test_where_a_server_is_configured_none_is_started(around: Surroundings) -> None:
    around.configured = True
    await LocalEngine.shared()
    assert (around.connected, around.servers) == ([()], [])


async def test_where_none_is_configured_one_is_started_with_what_runs_need(
    around: Surroundings,
) -> None:
    one = await LocalEngine.shared()
    (server,) = around.servers
    assert server.calls == ["start"]
    assert server.options["search_attributes"] == names.SEARCH_ATTRIBUTES
    client: Any = one.client
    assert client.where == ("127.0.0.1:7777", "default")


async def test_there_is_one_engine_also_for_two_that_ask_at_once(around: Surroundings) -> None:
    engines = await asyncio.gather(*(LocalEngine.shared() for _ in range(5)))
    assert len({id(one) for one in engines}) == 1
    assert len(around.servers) == 1


async def test_another_event_loop_has_its_own(around: Surroundings) -> None:
    async def elsewhere() -> LocalEngine:
        try:
            return await LocalEngine.shared()
        finally:
            await LocalEngine.close_shared()

    here = await LocalEngine.shared()
    there = await asyncio.to_thread(asyncio.run, elsewhere())
    assert there is not here
    assert [server.calls for server in around.servers] == [["start"], ["start", "stop"]]


async def test_a_server_that_cannot_be_used_is_not_left_running(around: Surroundings) -> None:
    around.refusal = ServerUnavailable("It does not answer.")
    with pytest.raises(ServerUnavailable):
        await LocalEngine.shared()
    assert around.servers[0].calls == ["start", "stop"]
    around.refusal = None
    assert await LocalEngine.shared(), "the next one who asks tries again"


async def test_an_agent_is_carried_on_a_queue_of_its_name(around: Surroundings) -> None:
    one = await LocalEngine.shared()
    agent = Agent[Any](name="Triage")
    assert await one.serve(agent) == "outlast-local-Triage"
    assert await one.serve(agent) == "outlast-local-Triage"
    assert await one.serve(Agent(name="Other")) == "outlast-local-Other"
    first, second = around.workers
    assert (first.calls, second.calls) == (["enter"], ["enter"])
    assert first.options["task_queue"] == "outlast-local-Triage"
    assert first.client is one.client


async def test_two_runs_of_an_agent_that_start_at_once_have_one_worker(
    around: Surroundings,
) -> None:
    one = await LocalEngine.shared()
    agent = Agent[Any](name="Triage")
    await asyncio.gather(*(one.serve(agent) for _ in range(5)))
    assert len(around.workers) == 1


async def test_an_agent_that_is_defined_again_takes_the_place_of_the_first(
    around: Surroundings,
) -> None:
    one = await LocalEngine.shared()
    await one.serve(Agent(name="Triage", instructions="old"))
    again = Agent[Any](name="Triage", instructions="new", handoffs=[Agent(name="Orders")])
    await one.serve(again)
    (worker,) = around.workers
    assert worker.registry.agent("Triage") is again
    assert worker.registry.names == ["Orders", "Triage"]


async def test_a_type_of_context_is_known_to_the_worker(around: Surroundings) -> None:
    one = await LocalEngine.shared()
    agent = Agent[Any](name="Triage")
    await one.serve(agent)
    await one.serve(agent, SimpleNamespace)
    (worker,) = around.workers
    assert worker.registry.context_type("types:SimpleNamespace") is SimpleNamespace


async def test_a_worker_is_not_in_the_trace_of_its_first_caller(around: Surroundings) -> None:
    one = await LocalEngine.shared()
    with trace("Support"):
        await one.serve(Agent(name="Triage"))
        assert get_current_trace() is not None
    assert around.workers[0].started_in is None


async def test_closing_stops_the_workers_and_then_the_server(around: Surroundings) -> None:
    one = await LocalEngine.shared()
    await one.serve(Agent(name="A"))
    await one.serve(Agent(name="B"))
    await LocalEngine.close_shared()
    assert [worker.calls for worker in around.workers] == [["enter", "exit"]] * 2
    assert around.servers[0].calls == ["start", "stop"]
    await LocalEngine.close_shared()
    assert around.servers[0].calls == ["start", "stop"], "a second time changes nothing"


async def test_a_worker_that_breaks_does_not_keep_the_server_running(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(_worker: FakeWorker, *_error: object) -> None:
        raise ConnectionError

    one = await LocalEngine.shared()
    await one.serve(Agent(name="A"))
    monkeypatch.setattr(FakeWorker, "__aexit__", breaks)
    with pytest.raises(ConnectionError):
        await LocalEngine.close_shared()
    assert around.servers[0].calls == ["start", "stop"]


@pytest.mark.parametrize(("joined", "end"), [(False, "keep"), (True, "stop")])
async def test_at_the_end_of_a_loop_the_workers_stop_and_the_server_is_kept_for_the_next(
    around: Surroundings, *, joined: bool, end: str
) -> None:
    async def work() -> None:
        await (await LocalEngine.shared()).serve(Agent(name="A"))
        around.servers[-1].joined = joined

    for _ in range(2):
        await asyncio.to_thread(asyncio.run, work())
    assert [worker.calls for worker in around.workers] == [["enter", "exit"]] * 2
    assert [server.calls for server in around.servers] == [["start", end]] * 2
