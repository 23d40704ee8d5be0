"""The worker: its defaults, and what it refuses before it starts."""

import subprocess
import sys
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Self

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.testing import ScriptedModel
from outlast.worker import agent_worker
from outlast.worker.agent_worker import AgentWorker
from outlast.worker.plugin import OutlastPlugin

A = Agent[Any](name="A")
CLIENT: Any = SimpleNamespace()


class RecordedWorker:
    """Stands for Temporal's worker, which needs a server."""

    made: "list[RecordedWorker]"

    def __init__(self, client: Any, **options: Any) -> None:
        self.client = client
        self.options = options
        self.calls: list[Any] = []
        RecordedWorker.made.append(self)

    async def run(self) -> None:
        self.calls.append("run")

    async def shutdown(self) -> None:
        self.calls.append("shutdown")

    async def __aenter__(self) -> Self:
        self.calls.append("enter")
        return self

    async def __aexit__(self, kind: object, *_error: object) -> None:
        self.calls.append(kind)


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[RecordedWorker]:
    RecordedWorker.made = []
    monkeypatch.setattr(agent_worker, "Worker", RecordedWorker)
    return RecordedWorker.made


def options_of(**options: Any) -> dict[str, Any]:
    AgentWorker(CLIENT, agents=[A], model_provider=ScriptedModel(), **options)
    return RecordedWorker.made[-1].options


def test_options_of_temporals_worker_are_passed_on_as_they_are() -> None:
    assert options_of().keys() == {"task_queue", "plugins"}, "all defaults are the plugin's"
    options = options_of(
        task_queue="support",
        graceful_shutdown_timeout=timedelta(0),
        build_id="mine",
        max_concurrent_activities=3,
    )
    assert options["task_queue"] == "support"
    assert (options["graceful_shutdown_timeout"], options["build_id"]) == (timedelta(0), "mine")
    assert options["max_concurrent_activities"] == 3


def test_other_plugins_come_first_and_their_list_is_left_alone() -> None:
    others = [object()]
    plugins = options_of(plugins=others)["plugins"]
    assert plugins[0] is others[0]
    assert isinstance(plugins[1], OutlastPlugin)
    assert len(others) == 1


def test_a_worker_says_what_it_knows() -> None:
    worker = AgentWorker(CLIENT, agents=[A], task_queue="support")
    assert worker.registry.names == ["A"]
    assert worker.task_queue == "support"


def shorten(data: object) -> object:
    return data


def test_what_settings_of_runs_refer_to_is_given_to_the_worker() -> None:
    by_itself = AgentWorker(CLIENT, agents=[A], references=[shorten]).registry
    assert by_itself.reference(f"{__name__}:shorten") is shorten
    named = AgentWorker(CLIENT, agents=[A], references={"the filter": shorten}).registry
    assert named.reference("the filter") is shorten
    assert named.unknown_references(["the filter", "another"]) == ["another"]


@pytest.mark.parametrize("references", ["shorten", {"the filter": None}, [5], 5])
def test_references_that_make_no_sense_are_refused(
    references: Any, made: list[RecordedWorker]
) -> None:
    with pytest.raises(UserError, match="references="):
        AgentWorker(CLIENT, agents=[A], references=references)
    assert made == []


@pytest.mark.parametrize("agents", [[], ["A"], A, [Agent(name="B"), Agent(name="B")]])
def test_agents_that_make_no_sense_are_refused_before_a_worker_is_made(
    agents: Any, made: list[RecordedWorker]
) -> None:
    with pytest.raises(UserError):
        AgentWorker(CLIENT, agents=agents)
    assert made == []


async def test_a_worker_is_run_entered_and_stopped_like_temporals(
    made: list[RecordedWorker],
) -> None:
    worker = AgentWorker(CLIENT, agents=[A])
    await worker.run()
    await worker.shutdown()
    async with worker as entered:
        assert entered is worker
    assert made[0].calls == ["run", "shutdown", "enter", None]


async def test_a_block_that_fails_stops_the_worker_and_keeps_its_error(
    made: list[RecordedWorker],
) -> None:
    async def fail() -> None:
        async with AgentWorker(CLIENT, agents=[A]):
            raise ConnectionError

    with pytest.raises(ConnectionError):
        await fail()
    assert made[0].calls == ["enter", ConnectionError]


@pytest.mark.parametrize("client", [None, "localhost:7233", SimpleNamespace])
def test_what_is_no_client_is_refused_with_how_to_make_one(client: Any) -> None:
    with pytest.raises(
        UserError, match=r"AgentWorker\(client\) must be a connected.* await Client"
    ):
        AgentWorker(client, agents=[A])


@pytest.mark.parametrize("queue", [None, "", 3])
def test_a_worker_without_a_queue_is_refused(queue: Any) -> None:
    with pytest.raises(UserError, match=r"task_queue= must be a (non-empty )?string"):
        AgentWorker(CLIENT, agents=[A], task_queue=queue)


OVERLAP = (
    "Failed creating worker\n\nCaused by:\n  multiple workers with overlapping worker task types"
)
NO_NAMESPACE = "Worker validation failed: Namespace nope was not found or otherwise could not be"


def test_a_second_worker_of_a_process_on_a_queue_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(client: object, **options: Any) -> None:
        raise RuntimeError(OVERLAP)

    monkeypatch.setattr(agent_worker, "Worker", refused)
    with pytest.raises(UserError, match="already has a worker on the task queue 'support'") as one:
        AgentWorker(CLIENT, agents=[A], task_queue="support")
    assert one.value.__suppress_context__


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        (NO_NAMESPACE, UserError, "The namespace '.*' does not exist on this server"),
        ("out of memory", RuntimeError, "out of memory"),
    ],
)
async def test_why_a_worker_cannot_start_is_told_in_words(
    said: str, kind: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(worker: RecordedWorker, *_error: object) -> None:
        raise RuntimeError(said)

    monkeypatch.setattr(RecordedWorker, "run", refused)
    monkeypatch.setattr(RecordedWorker, "__aexit__", refused)
    worker = AgentWorker(CLIENT, agents=[A])
    with pytest.raises(kind, match=message):
        await worker.run()
    with pytest.raises(kind, match=message):
        async with worker:
            pass


def test_the_import_of_a_worker_loads_only_what_every_worker_needs() -> None:
    code = (
        "import sys, outlast.worker; outlast.worker.AgentWorker;"
        "print(*[one for one in sys.modules if one.partition('.')[0] == 'outlast'])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    packages = {".".join(one.split(".")[:2]) for one in loaded}
    assert not packages & {"outlast.archive", "outlast.temporal.proofs", "outlast.sessions"}
    assert len(loaded) <= 245
