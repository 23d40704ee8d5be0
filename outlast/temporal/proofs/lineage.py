"""Asks the Temporal server which run an execution belongs to."""

from collections import OrderedDict
from typing import Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest
from temporalio.client import Client

from outlast.edges.newest import keep_newest
from outlast.ports.identity import Lineage

MOST_KEPT: Final = 10_000
"""How many lineages a process keeps: they never change."""


class ServerLineage:
    """Implements `LineageReader` with a client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: OrderedDict[tuple[str, str], Lineage] = OrderedDict()

    async def __call__(self, workflow_id: str, execution_id: str = "") -> Lineage:
        """Return the lineage of an execution; without an id, of the newest of the workflow."""
        known = self._known.get((workflow_id, execution_id))
        if known is not None:
            return known
        info = await self._describe(workflow_id, execution_id)
        lineage = Lineage(chain_id=info.first_run_id or info.execution.run_id)
        if info.HasField("parent_execution"):
            root = info.root_execution
            first = await self._describe(root.workflow_id, root.run_id)
            lineage = Lineage(
                chain_id=first.first_run_id or first.execution.run_id,
                parent_id=info.parent_execution.workflow_id,
            )
        if execution_id:
            keep_newest(self._known, (workflow_id, execution_id), lineage, MOST_KEPT)
        return lineage

    async def _describe(self, workflow_id: str, execution_id: str) -> WorkflowExecutionInfo:
        request = DescribeWorkflowExecutionRequest(
            namespace=self._client.namespace,
            execution=WorkflowExecution(workflow_id=workflow_id, run_id=execution_id),
        )
        described = await self._client.workflow_service.describe_workflow_execution(
            request, retry=True
        )
        return described.workflow_execution_info
