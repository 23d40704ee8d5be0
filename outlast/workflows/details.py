"""What a worker sees of its workflows: their place, their end, and their current details."""

from typing import Any, Final

from temporalio import workflow
from temporalio.worker import (
    ExecuteWorkflowInput,
    HandleQueryInput,
    WorkflowInboundInterceptor,
)

from outlast.contract.names import WORKER_STATE
from outlast.contract.worker_state import WorkerState
from outlast.workflows.agent_run import AgentRun, lent
from outlast.workflows.team import Team

METADATA: Final = "__temporal_workflow_metadata"
"""The query that the Temporal UI sends for the current details; the SDK answers it."""


class Details(WorkflowInboundInterceptor):
    """Tells the worker which run an execution belongs to, and adds the current details to queries."""

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002  as in the base class
        """Run a workflow; its worker knows the place of the execution before any effect."""
        run, info = workflow.instance(), workflow.info()
        state: WorkerState | None = lent(WORKER_STATE)
        if state is None or not isinstance(run, AgentRun):
            return await super().execute_workflow(input)
        parent = info.parent and (info.parent.workflow_id, info.parent.run_id)
        state.lineages.note(info.run_id, info.first_execution_run_id, parent)
        try:
            return await super().execute_workflow(input)
        finally:  # also when the worker drops a workflow that goes on, or a query replays an old one
            if run.has_ended and parent is None and not workflow.unsafe.is_replaying():
                state.on_end(info.namespace, info.first_execution_run_id)

    async def handle_query(self, input: HandleQueryInput) -> Any:  # noqa: A002  as in the base class
        """Answer a query."""
        answer: Any = await super().handle_query(input)
        run: object = workflow.instance()
        if input.query == METADATA and isinstance(run, AgentRun | Team):
            answer.current_details = run.current_details()
        return answer
