"""The default options of a Temporal worker that hosts runs of agents."""

import importlib.metadata
import inspect
import os
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, cast

from temporalio.common import VersioningBehavior
from temporalio.worker import Worker, WorkerConfig, WorkerDeploymentConfig

from outlast.contract import names
from outlast.worker.workflow_executor import WorkflowExecutor
from outlast.worker.workflow_runner import PatientRunner

GRACE: Final = timedelta(seconds=30)
"""How long running effects may take to finish when the worker stops."""

DEFAULTS: Final[dict[str, Any]] = {
    "graceful_shutdown_timeout": GRACE,
    # The server offers a run to other workers this long after its worker died.
    "sticky_queue_schedule_to_start_timeout": timedelta(seconds=5),
    # Cancellations come with the answer to a heartbeat, and a model's stream with the
    # heartbeat itself, so heartbeats must not be held back.
    "max_heartbeat_throttle_interval": timedelta(milliseconds=20),
}
"""The defaults for options that the user has not set."""

TASKS_PER_CORE: Final = 8
MOST_TASKS: Final = 16
"""How many workflow tasks a worker holds at once; the workers of one parent share its cores.

A task that a worker holds has ten seconds, and all that it holds share one interpreter. Replaying
the longest of histories takes up to 0.8 seconds of that, most take a tenth. Tasks beyond that are
better off in the queue, where another worker may take them. Several per core keep the worker busy
while some wait for the server or for a fast tool, and while idle pollers hold a place of theirs.
"""

THREADS_OF_SDK: Final = 500
"""The SDK's number of threads for workflow tasks with a tuner."""

_PARAMETERS = inspect.signature(cast("Any", Worker)).parameters


def with_defaults(config: WorkerConfig) -> WorkerConfig:
    """Return a worker's options, with defaults for those that the user has not set."""
    options = cast("dict[str, Any]", config)
    defaults: dict[str, Any] = {**DEFAULTS, "unsandboxed_workflow_runner": PatientRunner()}
    deployment: WorkerDeploymentConfig | None = options.get("deployment_config")
    if deployment is not None:
        options = {**options, "deployment_config": _with_behavior(deployment, options["workflows"])}
    elif not options.get("use_worker_versioning"):
        # Without an id, the SDK hashes every loaded module at start: seconds. It stands in six
        # records of every turn, so it is short.
        defaults["build_id"] = importlib.metadata.version("outlast")
    if options.get("tuner") is None:
        defaults["max_concurrent_workflow_tasks"] = min(TASKS_PER_CORE * _cores(), MOST_TASKS)
    if all(_is_ours(workflow) for workflow in options.get("workflows", ())):
        # The SDK cannot refuse an update larger than 2 MB: its refusal repeats the update, and its
        # check of sizes then fails the workflow task, for 20 seconds and more. The server drops
        # the update at once. Everything else that runs send is bounded before.
        defaults["disable_payload_error_limit"] = True
        # A thread for each task that the worker may hold, as many as the SDK would have.
        own: Any = options.get("max_concurrent_workflow_tasks")
        tasks = own or defaults.get("max_concurrent_workflow_tasks", THREADS_OF_SDK)
        defaults["workflow_task_executor"] = WorkflowExecutor(max_workers=tasks)
    if options.get("max_activities_per_second") is not None:
        # What the server hands out with a workflow task does not count against the limit.
        defaults["disable_eager_activity_execution"] = True
    ours = {name: value for name, value in defaults.items() if not _is_set(options, name)}
    return cast("WorkerConfig", {**options, **ours})


def _cores() -> int:
    processes = int(os.environ.get(names.WORKER_PROCESSES, "1"))
    if hasattr(os, "sched_getaffinity"):
        return max(len(os.sched_getaffinity(0)) // processes, 1)
    return max((os.cpu_count() or 1) // processes, 1)


def _with_behavior(
    deployment: WorkerDeploymentConfig, workflows: Iterable[type]
) -> WorkerDeploymentConfig:
    """Pin runs if nothing sets a versioning behavior.

    The run's workflow cannot set it itself: the server refuses that from a worker without versions.
    The worker's default also applies to the user's workflows, so if one of those sets nothing
    either, the SDK's refusal stays.
    """
    if (
        not deployment.use_worker_versioning
        or deployment.default_versioning_behavior != VersioningBehavior.UNSPECIFIED
        or not all(_is_ours_or_says(workflow) for workflow in workflows)
    ):
        return deployment
    return replace(deployment, default_versioning_behavior=VersioningBehavior.PINNED)


def _is_ours(workflow: type) -> bool:
    definition: Any = getattr(workflow, "__temporal_workflow_definition", None)
    return definition is not None and definition.name in names.WORKFLOWS


def _is_ours_or_says(workflow: type) -> bool:
    definition: Any = getattr(workflow, "__temporal_workflow_definition", None)
    return definition is None or bool(
        definition.name in names.WORKFLOWS
        or definition.versioning_behavior
        or definition.dynamic_config_fn
    )


def _is_set(options: dict[str, Any], name: str) -> bool:
    """Whether the user, or another plugin, has set an option.

    The SDK fills in its own defaults first. By identity they differ from an equal value that the
    user wrote.
    """
    return options.get(name) is not _PARAMETERS[name].default
