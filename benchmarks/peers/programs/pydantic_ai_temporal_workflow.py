"""The agent and the workflow of pydantic-ai on Temporal."""

from temporalio import activity, workflow

with workflow.unsafe.imports_passed_through():
    from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, UsageLimits
    from pydantic_ai.durable_exec.temporal import (
        AgentEventStream,
        PydanticAIWorkflow,
        TemporalDurability,
    )
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from benchmarks.model_server import AGENTS
    from benchmarks.peers.programs.job import the_job
    from benchmarks.peers.programs.note import keep_note

JOB = the_job()

agent = Agent(
    OpenAIResponsesModel(
        "benchmark", provider=OpenAIProvider(base_url=JOB.model_url, api_key="none")
    ),
    name=AGENTS[0],
    instructions="You keep notes.",
    output_type=[str, DeferredToolRequests] if JOB.variant == "approvals" else str,
    capabilities=[
        TemporalDurability(event_stream_topic="events" if JOB.variant == "streamed" else None)
    ],
)


@agent.tool_plain(requires_approval=JOB.variant == "approvals")
async def note(number: int) -> str:
    """Keep a note.

    Args:
        number: The number of the note.
    """
    info = activity.info()
    return await keep_note(number, JOB, run=info.workflow_id or "", key=info.activity_id)


@workflow.defn
class Notes(PydanticAIWorkflow):
    """The conversation."""

    __pydantic_ai_agents__ = (agent,)

    @workflow.init
    def __init__(self, question: str, turns: int, variant: str) -> None:
        self._pending = self._approved = 0
        self._events = AgentEventStream() if variant == "streamed" else None

    @workflow.run
    async def run(self, question: str, turns: int, variant: str) -> str:
        """Return the answer."""
        limits = UsageLimits(request_limit=None)
        if self._events is not None:
            async with self._events:
                return (await agent.run(question, usage_limits=limits)).output
        result = await agent.run(question, usage_limits=limits)
        while isinstance(result.output, DeferredToolRequests):
            self._pending += 1
            await workflow.wait_condition(lambda: self._approved == self._pending)
            results = DeferredToolResults()
            for call in result.output.approvals:
                results.approvals[call.tool_call_id] = True
            result = await agent.run(
                message_history=result.all_messages(),
                deferred_tool_results=results,
                usage_limits=limits,
            )
        return result.output

    @workflow.update
    async def approve(self) -> None:
        """Approve the pending call, or the next one."""
        await workflow.wait_condition(lambda: self._approved < self._pending)
        self._approved += 1
