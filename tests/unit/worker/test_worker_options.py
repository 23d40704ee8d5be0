"""The options that every worker with the plugin gets, and those of the user's that stay."""

import inspect
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Worker, WorkerDeploymentConfig

import outlast
from outlast.agents.agent import Agent
from outlast.testing import ScriptedModel
from outlast.worker.plugin import OutlastPlugin
from outlast.worker.worker_options import DEFAULTS, GRACE, THREADS_OF_SDK
from outlast.workflows.agent_run import AgentRun
from outlast.workflows.errand import Errand
from outlast.workflows.people_notices import PeopleNotices
from outlast.workflows.scheduled_message import QualityCheck, ScheduledMessage
from outlast.workflows.team import Team

TEMPORALS: dict[str, Any] = {
    name: parameter.default
    for name, parameter in inspect.signature(Worker).parameters.items()
    if parameter.default is not inspect.Parameter.empty
}
"""What Temporal's worker hands its plugins where the user has said nothing."""


def configured(**options: Any) -> Any:
    """Return the options of a worker as the plugin leaves them."""
    plugin = OutlastPlugin([Agent[Any](name="A")], model_provider=ScriptedModel())
    config: Any = {**TEMPORALS, **options}
    return plugin.configure_worker(config)


def test_a_worker_has_defaults_for_long_running_work() -> None:
    options = configured()
    assert options["graceful_shutdown_timeout"] == GRACE
    assert options["build_id"] == outlast.__version__
    assert options["sticky_queue_schedule_to_start_timeout"] <= timedelta(seconds=10)
    assert options["max_heartbeat_throttle_interval"] <= timedelta(seconds=1)


@pytest.mark.parametrize("name", DEFAULTS)
def test_an_option_of_the_users_own_stays(name: str) -> None:
    own: object = timedelta(minutes=3) if isinstance(DEFAULTS[name], timedelta) else 7
    assert configured(**{name: own})[name] == own


def test_an_option_stays_where_it_is_what_temporal_would_do_anyway() -> None:
    seconds = TEMPORALS["sticky_queue_schedule_to_start_timeout"].total_seconds()
    own = timedelta(seconds=seconds)
    options = configured(sticky_queue_schedule_to_start_timeout=own)
    assert options["sticky_queue_schedule_to_start_timeout"] is own


@pytest.mark.parametrize(("cores", "tasks"), [(1, 8), (2, 16), (3, 16), (64, 16)])
def test_a_worker_holds_no_more_tasks_than_its_cores_can_do(
    cores: int, tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def affinity(_pid: int) -> set[int]:
        return set(range(cores))

    monkeypatch.setattr("os.sched_getaffinity", affinity, raising=False)
    assert configured()["max_concurrent_workflow_tasks"] == tasks
    assert configured(max_concurrent_workflow_tasks=100)["max_concurrent_workflow_tasks"] == 100


def test_a_rate_limit_counts_every_activity() -> None:
    assert configured()["disable_eager_activity_execution"] is False
    assert configured(max_activities_per_second=2)["disable_eager_activity_execution"] is True


def test_the_workers_of_one_parent_share_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    def affinity(_pid: int) -> set[int]:
        return {0, 1}

    monkeypatch.setattr("os.sched_getaffinity", affinity, raising=False)
    for processes in ("2", "4"):
        monkeypatch.setenv("OUTLAST_WORKER_PROCESSES", processes)
        assert configured()["max_concurrent_workflow_tasks"] == 8


def test_cores_are_counted_where_a_process_cannot_be_bound_to_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert configured()["max_concurrent_workflow_tasks"] == 8


def test_a_tuner_of_the_users_own_decides_how_much_a_worker_holds() -> None:
    assert configured(tuner=object())["max_concurrent_workflow_tasks"] is None


@pytest.mark.parametrize(
    ("options", "threads"),
    [
        ({}, None),
        ({"max_concurrent_workflow_tasks": 40}, 40),
        ({"tuner": object()}, THREADS_OF_SDK),
    ],
)
def test_each_workflow_task_that_a_worker_may_hold_has_a_thread(
    options: dict[str, Any], threads: int | None
) -> None:
    """A replay that waited for a thread would count as a deadlock."""
    config = configured(**options, workflows=[])
    has = config["workflow_task_executor"]._max_workers
    assert has == (threads or config["max_concurrent_workflow_tasks"])


def test_other_workflows_and_activities_of_the_worker_stay() -> None:
    def other() -> None: ...

    options = configured(workflows=[object], activities=[other], build_id="mine")
    assert options["workflows"] == [
        object,
        AgentRun,
        PeopleNotices,
        ScheduledMessage,
        Errand,
        Team,
        QualityCheck,
    ]
    assert options["activities"][0] is other
    assert options["build_id"] == "mine"


def test_a_worker_of_a_deployment_gets_no_build_id_of_ours() -> None:
    deployment = WorkerDeploymentConfig(
        version=WorkerDeploymentVersion("support", "2"),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )
    assert configured(deployment_config=deployment)["build_id"] is None
    assert configured(use_worker_versioning=True)["build_id"] is None, "Temporal refuses this"


@workflow.defn
class Silent:
    @workflow.run
    async def run(self) -> None: ...


@workflow.defn(versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class Outspoken:
    @workflow.run
    async def run(self) -> None: ...


@pytest.mark.parametrize(
    ("said", "others", "expected"),
    [
        ("UNSPECIFIED", [], "PINNED"),
        ("UNSPECIFIED", [Outspoken], "PINNED"),
        ("UNSPECIFIED", [Silent], "UNSPECIFIED"),
        ("AUTO_UPGRADE", [Silent], "AUTO_UPGRADE"),
        ("PINNED", [], "PINNED"),
    ],
)
def test_runs_are_pinned_unless_somebody_says_otherwise(
    said: str, others: list[type], expected: str
) -> None:
    deployment = WorkerDeploymentConfig(
        version=WorkerDeploymentVersion("support", "2"),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior[said],
    )
    options = configured(deployment_config=deployment, workflows=others)
    assert options["deployment_config"].default_versioning_behavior.name == expected


def test_a_version_that_is_only_a_label_stays_as_it_is() -> None:
    label = WorkerDeploymentConfig(
        version=WorkerDeploymentVersion("support", "2"), use_worker_versioning=False
    )
    assert configured(deployment_config=label)["deployment_config"] == label
