"""`outlast monitor` on a server: each alert fires on its fault, one process counts, and only what is its.

Every test has a namespace of its own, so that nothing else is counted.
"""

import asyncio
import itertools
import json
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import httpx2
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client
from temporalio.common import WorkerDeploymentVersion
from temporalio.converter import DataConverter
from temporalio.service import RPCError
from temporalio.worker import WorkerDeploymentConfig

from outlast import Agent, add_trace_processor, function_tool
from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.archive import Archive, Sweep
from outlast.client.handle import RunHandle
from outlast.client.start.runner import Runner
from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.encryption import EncryptionCodec
from outlast.loop.approvals import Person
from outlast.monitor import gauges, reading
from outlast.monitor.health import Health, health_of, reported_health
from outlast.monitor.process import MonitorProcess
from outlast.monitor.reading import NamespaceReader
from outlast.otel import OpenTelemetryProcessor
from outlast.otel.page import PageReader
from outlast.ports.notifier import Notification, Notifier, NotifierRejected
from outlast.serve.health_feed import HealthFeed
from outlast.testing import ScriptedModel, call
from outlast.tracing.receivers import REGISTRATION
from outlast.views.run import loop_state
from outlast.worker import AgentWorker
from tests.prometheus import check_firing, needs_promtool, samples_of, value_of
from tests.servers import new_namespace

QUEUE = "support"
OFTEN = timedelta(seconds=0.2)


@pytest.fixture(scope="module")
async def address() -> AsyncIterator[str]:
    async with EmbeddedServer(ui_port=None) as server:
        yield server.address


@pytest.fixture
async def client(address: str) -> Client:
    return await new_namespace(address)


@asynccontextmanager
async def watched(client: Client, **options: Any) -> AsyncGenerator["Watched"]:
    """Count a namespace in this process, and serve the page."""
    desks = options.pop("desks", ())
    given: dict[str, Any] = {"queues": [QUEUE], "groups": {"billing"}, **options}
    reader = NamespaceReader(client, **given)
    process = MonitorProcess(reader=reader, every=OFTEN, desks=desks)
    page = PageReader("127.0.0.1", 0)
    provider = MeterProvider([page], shutdown_on_exit=False)
    gauges.observe(provider.get_meter("outlast"), client.namespace, process.counts)
    try:
        async with process.running():
            yield Watched(page.port, process)
    finally:
        await asyncio.to_thread(provider.shutdown)


class Watched:
    def __init__(self, port: int, process: MonitorProcess) -> None:
        self.port = port
        self.process = process

    async def page(self) -> str:
        async with httpx2.AsyncClient() as client:
            return (await client.get(f"http://127.0.0.1:{self.port}/metrics")).text

    async def until(self, name: str, value: float, **labels: str) -> str:
        """Wait until a series has a value, and return the page."""
        async with asyncio.timeout(60):
            while value_of(page := await self.page(), name, **labels) != value:  # noqa: ASYNC110  a scraper polls
                await asyncio.sleep(0.1)
            return page


def clerk(**policy: Any) -> Agent[Any]:
    @function_tool(
        needs_approval=ApprovalPolicy(
            risk="high",
            audience=Audience(groups=["billing", "ann@example.com"]),
            unverified="allow",
            **policy,
        )
    )
    async def refund(order: str) -> str:
        return f"refunded {order}"

    return Agent(name="Clerk", tools=[refund])


def asks() -> ScriptedModel:
    return ScriptedModel([call("refund", "c1", order="A-17 of Zoe Secret")], "Done.")


async def start(client: Client, agent: Agent[Any], run_id: str = "support-42") -> RunHandle:
    return await Runner.start(
        agent, "Refund Zoe Secret.", id=run_id, client=client, task_queue=QUEUE
    )


def worker(client: Client, agent: Agent[Any], model: Any = None, **options: Any) -> AgentWorker:
    return AgentWorker(
        client,
        agents=[agent],
        task_queue=QUEUE,
        model_provider=model or asks(),
        graceful_shutdown_timeout=timedelta(seconds=0.1),
        **options,
    )


async def waiting(client: Client, agent: Agent[Any], **options: Any) -> RunHandle:
    """Return a run that waits for a person, and whose worker is gone."""
    async with worker(client, agent, **options):
        handle = await start(client, agent)
        async with asyncio.timeout(30):
            while not await handle.approvals():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    return handle


# --- Each alert, on its fault --------------------------------------------------------------------


def plants(*alerts: str) -> Callable[[Any], Any]:
    """Mark a test that plants a fault and returns the page; just these alerts have to fire on it."""

    def mark(plant: Any) -> Any:
        async def test(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
            page = await plant(client, tmp_path, monkeypatch)
            await asyncio.to_thread(check_firing, page, set(alerts), tmp_path)

        test.__name__ = plant.__name__
        return pytest.mark.nightly(needs_promtool(test))

    return mark


@plants()
async def test_a_run_that_waits_as_it_should_raises_no_alert(client: Client, *_: Any) -> str:
    agent = clerk()
    async with worker(client, agent), watched(client) as seen:
        await start(client, agent)
        return await seen.until("outlast_requests_waiting", 1, risk="high")


@plants("RequestsOverdue")
async def test_a_deadline_that_nothing_acts_on(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    monkeypatch.setattr(reading, "OVERDUE_AFTER", timedelta(seconds=0.1))
    await waiting(client, clerk(expires_in=timedelta(seconds=3)))
    async with watched(client) as seen:
        return await seen.until("outlast_requests_overdue", 1, risk="high")


@plants("OldestRequestTooOld")
async def test_a_request_that_nobody_decides(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    await waiting(client, clerk())
    async with watched(client) as seen:
        await seen.until("outlast_requests_waiting", 1, risk="high")
        now_ms = gauges.now_ms
        monkeypatch.setattr(gauges, "now_ms", lambda: now_ms() + 40 * 60_000)
        page = await seen.page()
    age = value_of(page, "outlast_group_requests_oldest_age_seconds", group="billing")
    assert age is not None
    assert 40 * 60 <= age < 41 * 60
    return page


@plants("DecisionsKept")
async def test_a_decision_that_no_worker_takes(client: Client, *_: Any) -> str:
    handle = await waiting(client, clerk())
    decision = {"request_id": "a1", "type": "approve", "by": "ann"}
    await client.get_workflow_handle(handle.id).signal("decide", decision)
    async with watched(client) as seen:
        return await seen.until("outlast_decisions_kept", 1)


class _Away(Notifier):
    name = "pager"

    async def notify(self, notice: Notification) -> None:
        raise OSError("The pager is away.")


@plants("NoticesUndelivered")
async def test_a_notice_that_is_sent_again_and_again(client: Client, *_: Any) -> str:
    agent = clerk()
    async with worker(client, agent, notifiers=[_Away()]), watched(client) as seen:
        await start(client, agent)
        return await seen.until("outlast_notices_undelivered", 1, stage="retrying")


class _Refuses(Notifier):
    name = "channel"

    async def notify(self, notice: Notification) -> None:
        raise NotifierRejected("There is no such channel.")


@plants("NoticesUndelivered")
async def test_a_notice_of_a_request_that_is_given_up(client: Client, *_: Any) -> str:
    agent = clerk()
    async with worker(client, agent, notifiers=[_Refuses()]):
        handle = await start(client, agent)
        async with asyncio.timeout(30):
            while not loop_state(await handle.state()).undelivered:  # noqa: ASYNC110  nothing announces it
                await asyncio.sleep(0.05)
        async with watched(client) as seen:
            return await seen.until("outlast_notices_undelivered", 1, stage="given_up")


@plants("NoticesUndelivered")
async def test_a_notice_of_the_end_of_a_run_that_is_given_up(client: Client, *_: Any) -> str:
    """It counts for an hour, although the run is closed."""
    agent = clerk()
    handle = await waiting(client, agent, notifiers=[_Refuses()])
    async with worker(client, agent, notifiers=[_Refuses()]), watched(client) as seen:
        await handle.cancel()
        await seen.until("outlast_monitor_open", 0)
        return await seen.until("outlast_notices_undelivered", 1, stage="given_up")


@plants()
async def test_without_the_codec_of_the_runs_it_counts_all_the_same(client: Client, *_: Any) -> str:
    """Since when a request waits is then as long as the monitor has seen it."""
    encrypted = replace(DataConverter.default, payload_codec=EncryptionCodec({"k": b"k" * 32}, "k"))
    config = client.config()
    config["data_converter"] = encrypted
    await waiting(Client(**config), clerk())
    async with watched(client) as seen:
        page = await seen.until("outlast_requests_waiting", 1, risk="high")
    age = value_of(page, "outlast_requests_oldest_age_seconds", risk="high")
    assert age is not None
    assert 0 <= age < 5
    return page


@plants("RunsBlocked")
async def test_a_call_of_a_tool_that_no_worker_has_any_more(client: Client, *_: Any) -> str:
    handle = await waiting(client, clerk())
    async with worker(client, Agent[Any](name="Clerk")), watched(client) as seen:
        await handle.approve("a1", by=Person(subject="ann", groups=("billing",)))
        return await seen.until("outlast_runs", 1, status="blocked")


def _away(_: Any) -> str:
    raise ConnectionError("the model is away")


@plants("RunsFailing", "ModelErrors")
async def test_a_model_that_fails(client: Client, *_: Any) -> str:
    """The errors of models are on the page of the worker, the failing runs on that of the monitor."""
    agent, own = clerk(), PageReader("127.0.0.1", 0)
    provider = MeterProvider([own], shutdown_on_exit=False)
    processor = OpenTelemetryProcessor(exporter=InMemorySpanExporter(), meter_provider=provider)
    add_trace_processor(processor)
    try:
        async with worker(client, agent, ScriptedModel(always=_away)), watched(client) as seen:
            await start(client, agent)
            page = await seen.until("outlast_runs_failing", 1)
            REGISTRATION.flush(10)
            errors = await Watched(own.port, seen.process).page()
    finally:
        REGISTRATION.remove(processor)
        processor.shutdown()
        await asyncio.to_thread(provider.shutdown)
    failed = "gen_ai_client_inference_duration_seconds_count"
    assert [one.labels["error_type"] for one in samples_of(errors) if one.name == failed]
    return f"{page}\n{errors}"


@plants("QueueWithoutWorker")
async def test_a_queue_that_no_worker_polls(client: Client, *_: Any) -> str:
    async with watched(client) as seen:
        await start(client, clerk())
        page = await seen.until("outlast_queue_backlog", 1, taken="workflow", version="")
    assert value_of(page, "outlast_queue_workers", taken="workflow") == 0
    return page


@plants("QueueBacklog")
async def test_tasks_that_wait(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """A worker was there a moment ago, and the clock of the server cannot be moved: the rule is scaled."""
    await waiting(client, clerk())
    await start(client, clerk(), "support-43")
    async with watched(client) as seen:
        page = await seen.until("outlast_queue_backlog", 1, taken="workflow", version="")
        async with asyncio.timeout(30):
            while not (age := value_of(page, BACKLOG_AGE, taken="workflow", version="")):
                page = await seen.page()
    assert age < 60
    return (
        "\n".join(
            line.replace(str(age), str(age + 60)) if line.startswith(BACKLOG_AGE) else line
            for line in page.splitlines()
        )
        + "\n"
    )


@pytest.mark.nightly
async def test_a_backlog_of_a_version_whose_workers_are_gone(client: Client) -> None:
    version = WorkerDeploymentVersion("shop", "v2")
    deployment = WorkerDeploymentConfig(version=version, use_worker_versioning=True)
    current = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace, deployment_name="shop", build_id="v2"
    )
    async with worker(client, clerk(), deployment_config=deployment), asyncio.timeout(30):
        while not await is_current(client, current):  # noqa: ASYNC110  the server has to see the worker
            await asyncio.sleep(0.2)
    await start(client, clerk())
    async with watched(client) as seen:
        page = await seen.until("outlast_queue_backlog", 1, taken="workflow", version="shop:v2")
    assert value_of(page, "outlast_queue_backlog", taken="workflow", version="") == 1


async def is_current(client: Client, request: SetWorkerDeploymentCurrentVersionRequest) -> bool:
    try:
        await client.workflow_service.set_worker_deployment_current_version(request)
    except RPCError:
        return False
    return True


BACKLOG_AGE = "outlast_queue_backlog_age_seconds"


def is_late(page: str) -> bool:
    return (value_of(page, "outlast_archive_lag_seconds", task_queue=QUEUE) or 0) > 7_000


@plants("ArchiveLag")
async def test_an_archive_that_no_worker_fills(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    archive = Archive(tmp_path / "archive")
    assert await Sweep(client, archive, QUEUE).look() is not None
    async with watched(client, archive=archive) as seen:
        await seen.until("outlast_monitor_open", 0)
        lag = value_of(await seen.page(), "outlast_archive_lag_seconds", task_queue=QUEUE)
        assert lag is not None
        assert lag < 60
        now_ms = reading.now_ms
        monkeypatch.setattr(reading, "now_ms", lambda: now_ms() + 2 * 3_600_000)
        async with asyncio.timeout(30):
            while not is_late(page := await seen.page()):  # noqa: ASYNC110  a scraper polls
                await asyncio.sleep(0.1)
        return page


@plants("DeskDown")
async def test_a_desk_that_is_gone(client: Client, tmp_path: Path, *_: Any) -> str:
    desk = await program("serve", client, "--port", "0")
    listens_at = desk.said["listens_at"]
    async with watched(client, desks=[listens_at]) as seen:
        await seen.until("outlast_desk_answers", 1)
        desk.process.kill()
        await desk.process.wait()
        return await seen.until("outlast_desk_answers", 0)


@plants("MonitorDown")
async def test_a_monitor_that_cannot_count(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    async with watched(client) as seen:
        await seen.until("outlast_monitor_open", 0)
        seen.process._until = 0
        monkeypatch.setattr(reading, "_OPEN", "there is no such search")
        return await seen.until("outlast_monitor_open", None)  # type: ignore[arg-type]


# --- One process counts --------------------------------------------------------------------------


class Program:
    """A command of `outlast` that says in a line of JSON when it is ready."""

    def __init__(self, process: asyncio.subprocess.Process, said: dict[str, str]) -> None:
        self.process = process
        self.said = said

    async def page(self) -> str:
        async with httpx2.AsyncClient() as client:
            return (await client.get(self.said["metrics"])).text

    async def counts(self) -> bool:
        return value_of(await self.page(), "outlast_monitor_took_seconds") is not None


async def program(command: str, client: Client, *arguments: str) -> Program:
    where = [
        f"--address={client.service_client.config.target_host}",
        f"--namespace={client.namespace}",
    ]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "outlast.cli.entry", command, *where, "--json", *arguments,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(60):
        return Program(process, json.loads(await process.stdout.readline()))


async def until_counts(*programs: Program) -> Program:
    """Return the first of some that counts."""
    while True:
        for one in programs:
            if await one.counts():
                return one
        await asyncio.sleep(0.1)


@pytest.mark.nightly
async def test_a_killed_monitor_is_replaced_within_40_seconds(client: Client) -> None:
    """And while both live, only one counts; a process that is stopped hands over at once."""
    every = "--every=1s"
    first, second = [await program("monitor", client, "--port=0", every) for _ in range(2)]
    try:
        async with asyncio.timeout(30):
            one = await until_counts(first, second)
        other = second if one is first else first
        for _ in range(20):
            assert await one.counts()
            assert not await other.counts()
            await asyncio.sleep(0.1)
        one.process.kill()
        killed = monotonic()
        async with asyncio.timeout(60):
            assert await until_counts(other) is other
        assert monotonic() - killed < 40
        third = await program("monitor", client, "--port=0", every)
        other.process.send_signal(signal.SIGTERM)
        stopped = monotonic()
        async with asyncio.timeout(30):
            await until_counts(third)
        assert monotonic() - stopped < 15
        third.process.kill()
    finally:
        for each in (first, second):
            if each.process.returncode is None:
                each.process.kill()
    monitor = client.get_workflow_handle(names.MONITOR_QUEUE)
    assert len([event async for event in monitor.fetch_history_events()]) < 10


# --- What desks read ---------------------------------------------------------------------------------


async def own_health(client: Client) -> Health:
    """Count as a desk does where no monitor runs."""
    return health_of(await NamespaceReader(client, is_brief=True).count())


async def test_a_desk_reads_what_the_monitor_counts_and_else_counts_itself(client: Client) -> None:
    """With a failing model and a worker with a version, both say the same; without any, so do both."""
    agent, feed = clerk(), HealthFeed(QUEUE)
    assert await reported_health(client) is None
    [quiet] = await feed.look(client)
    assert [(one.name, one.workers) for one in quiet.queues] == [(QUEUE, 0)]
    config = WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name="desk", build_id="1"),
        use_worker_versioning=False,
    )
    async with worker(client, agent, ScriptedModel(always=_away), deployment_config=config):
        # A look may come between two attempts: so there are runs until one sees a failing one.
        runs = itertools.count()
        async with asyncio.timeout(60), watched(client):
            while (told := await reported_health(client)) is None or not told.model_errors:
                await start(client, agent, f"support-{next(runs)}")
                await asyncio.sleep(0.5)
            assert (await feed.look(client))[0] == await reported_health(client)
        async with asyncio.timeout(60):
            while not (counted := await own_health(client)).model_errors:
                await start(client, agent, f"support-{next(runs)}")
                await asyncio.sleep(0.5)
    for found in (told, counted):
        [queue] = found.queues
        assert (queue.name, queue.workers, dict(queue.versions)) == (QUEUE, 1, {"desk:1": 1})
        assert (found.kept, found.overdue, found.answers) == (0, 0, True)


# --- Only what is its ----------------------------------------------------------------------------


async def test_a_page_has_no_text_of_customers_models_or_tenants_and_no_other_namespace(
    address: str, client: Client
) -> None:
    """A person in an audience, a customer, a tenant, arguments and ids of runs are no labels."""
    other = await new_namespace(address)
    agent = clerk()
    async with worker(client, agent), worker(other, agent), watched(client) as seen:
        options: Any = {"tenant": "acme-tenant", "customer": "zoe-customer"}
        await Runner.start(
            agent, "Refund Zoe Secret.", id="run-of-zoe", client=client, task_queue=QUEUE, **options
        )
        for number in range(2):
            await start(other, agent, f"theirs-{number}")
        page = await seen.until("outlast_requests_waiting", 1, risk="high")
        counted = seen.process.counts()
    assert counted is not None
    assert value_of(page, "outlast_requests_waiting", risk="high") == 1
    assert value_of(page, "outlast_group_requests_waiting", group="other") == 1
    found = [one for one in samples_of(page) if one.name.startswith("outlast")]
    texts = {text for one in found for text in one.labels.values()}
    allowed = {client.namespace, QUEUE, "billing", "other", "low", "medium", "high", "workflow"}
    allowed |= {"activity", "retrying", "given_up", "", *counted.runs}
    assert texts <= allowed
    for secret in ("zoe", "secret", "acme", "ann@", "a-17", "theirs", other.namespace):
        assert secret not in page.lower()
