"""The worker: where runs proceed and users' code is called.

The one place that puts the workflow, the activities, the registry and a model provider together.
`OutlastPlugin` adds them to a Temporal worker that you have; `AgentWorker` is a worker with good
defaults.
"""

from outlast.worker.agent_worker import AgentWorker, AgentWorkerConfig
from outlast.worker.plugin import OutlastPlugin

__all__ = ["AgentWorker", "AgentWorkerConfig", "OutlastPlugin"]
