"""Asks the server about task queues: their workers, and what no worker has taken."""

from collections.abc import Iterator, Mapping
from time import time
from typing import Final

from temporalio.api.deployment.v1 import WorkerDeploymentOptions, WorkerDeploymentVersion
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue, TaskQueueStats
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeTaskQueueResponse,
    DescribeWorkerDeploymentVersionRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.client.transport.pollers import LONGEST_POLL
from outlast.monitor.counts import Backlog, Queue

TAKEN: Final[Mapping[str, TaskQueueType.ValueType]] = {
    "workflow": TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    "activity": TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
}
"""What workers take from a queue."""

_CANNOT: Final = frozenset(
    {RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT}
)


async def queue_of(client: Client, name: str) -> Queue:
    """Return what the server says about a task queue.

    Raises:
        RPCError: the server refuses, or does not answer.
    """
    workers: dict[str, int] = {}
    backlog: dict[tuple[str, str], Backlog] = {}
    versions: dict[tuple[str, str], WorkerDeploymentVersion] = {}
    pollers: dict[str, set[str]] = {}
    for taken, kind in TAKEN.items():
        found = await client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=client.namespace,
                task_queue=TaskQueue(name=name),
                task_queue_type=kind,
                report_stats=True,
            ),
            retry=True,
        )
        oldest = time() - LONGEST_POLL.total_seconds()
        polls = [one for one in found.pollers if one.last_access_time.seconds >= oldest]
        workers[taken] = len({one.identity for one in polls})
        for one in polls:
            if one.deployment_options.build_id:
                pollers.setdefault(_label(one.deployment_options), set()).add(one.identity)
        backlog[taken, ""] = _backlog(found.stats)
        versions |= {(one.deployment_name, one.build_id): one for one in _versions(found)}
    for version in versions.values():
        backlog |= await _of_version(client, name, version)
    of_versions = {label: len(found) for label, found in sorted(pollers.items())}
    return Queue(workers=workers, backlog=backlog, versions=of_versions)


def _versions(found: DescribeTaskQueueResponse) -> Iterator[WorkerDeploymentVersion]:
    """Yield the versions that the queue's new runs go to, and those that poll it for old ones."""
    info = found.versioning_info
    for one in (info.current_deployment_version, info.ramping_deployment_version):
        if one.build_id:
            yield one
    for poller in found.pollers:
        options = poller.deployment_options
        if options.deployment_name and options.build_id:
            yield WorkerDeploymentVersion(
                deployment_name=options.deployment_name, build_id=options.build_id
            )


async def _of_version(
    client: Client, name: str, version: WorkerDeploymentVersion
) -> dict[tuple[str, str], Backlog]:
    """Return the backlog of a version's workers; nothing from a server that does not say it."""
    try:
        found = await client.workflow_service.describe_worker_deployment_version(
            DescribeWorkerDeploymentVersionRequest(
                namespace=client.namespace, deployment_version=version, report_task_queue_stats=True
            ),
            retry=True,
        )
    except RPCError as error:
        if error.status not in _CANNOT:
            raise
        return {}
    label = _label(version)
    kinds = {kind: taken for taken, kind in TAKEN.items()}
    return {
        (kinds[one.type], label): _backlog(one.stats)
        for one in found.version_task_queues
        if one.name == name and one.type in kinds
    }


def _label(version: WorkerDeploymentVersion | WorkerDeploymentOptions) -> str:
    return f"{version.deployment_name}:{version.build_id}"


def _backlog(stats: TaskQueueStats) -> Backlog:
    return Backlog(
        tasks=stats.approximate_backlog_count,
        age_seconds=stats.approximate_backlog_age.ToMilliseconds() / 1_000,
    )
