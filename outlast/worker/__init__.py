"""The worker: where runs proceed and users' code is called.

`OutlastPlugin` adds the workflow and the activities to a Temporal worker that you have;
`AgentWorker` is a worker with good defaults.
"""

from outlast.worker.agent_worker import AgentWorker, AgentWorkerConfig
from outlast.worker.plugin import OutlastPlugin

__all__ = ["AgentWorker", "AgentWorkerConfig", "OutlastPlugin"]
