"""The workflow of `temporalio-openai-agents`: the SDK's runner, and an activity as its tool."""

import dataclasses
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.contrib.workflow_streams import WorkflowStream
from temporalio.openai_agents.workflow import activity_as_tool

with workflow.unsafe.imports_passed_through():
    from agents import Agent, RunConfig, Runner

    from benchmarks.model_server import AGENTS
    from benchmarks.peers.programs.job import the_job
    from benchmarks.peers.programs.note import keep_note


@activity.defn
async def note(number: int) -> str:
    """Keep a note.

    Args:
        number: The number of the note.
    """
    info = activity.info()
    run, key = info.workflow_id or "", info.activity_id
    return await keep_note(number, the_job(), run=run, key=key)


def agent_of(variant: str) -> Agent:
    """Return the starting agent."""
    tool = activity_as_tool(note, start_to_close_timeout=timedelta(seconds=10))
    if variant == "approvals":
        tool = dataclasses.replace(tool, needs_approval=True)
    front, back = (Agent(name, instructions="You keep notes.", tools=[tool]) for name in AGENTS)
    if variant == "handoffs":
        front.handoffs.append(back)
        back.handoffs.append(front)
    return front


@workflow.defn
class Notes:
    """The conversation."""

    @workflow.init
    def __init__(self, question: str, turns: int, variant: str) -> None:
        self._pending = self._approved = 0
        self._stream = WorkflowStream() if variant == "streamed" else None

    @workflow.run
    async def run(self, question: str, turns: int, variant: str) -> str:
        """Return the answer."""
        agent, config = agent_of(variant), RunConfig(tracing_disabled=True)
        if variant == "streamed":
            streamed = Runner.run_streamed(agent, question, max_turns=turns, run_config=config)
            async for _ in streamed.stream_events():
                pass
            return streamed.final_output
        result = await Runner.run(agent, question, max_turns=turns, run_config=config)
        while result.interruptions:
            state = result.to_state()
            self._pending += 1
            await workflow.wait_condition(lambda: self._approved == self._pending)
            for item in result.interruptions:
                state.approve(item)
            result = await Runner.run(agent, state, max_turns=turns, run_config=config)
        return result.final_output

    @workflow.update
    async def approve(self) -> None:
        """Approve the pending call, or the next one."""
        await workflow.wait_condition(lambda: self._approved < self._pending)
        self._approved += 1
