"""Makes the current details of a run when somebody looks at them."""

from typing import Any, Final

from temporalio import workflow
from temporalio.worker import HandleQueryInput, WorkflowInboundInterceptor

from outlast.workflows.agent_run import AgentRun

METADATA: Final = "__temporal_workflow_metadata"
"""The query that the Temporal UI sends for the current details; the SDK answers it."""


class Details(WorkflowInboundInterceptor):
    """Adds the current details to the SDK's answer."""

    async def handle_query(self, input: HandleQueryInput) -> Any:  # noqa: A002  as in the base class
        """Answer a query."""
        answer: Any = await super().handle_query(input)
        run: object = workflow.instance()
        if input.query == METADATA and isinstance(run, AgentRun):
            answer.current_details = run.current_details()
        return answer
