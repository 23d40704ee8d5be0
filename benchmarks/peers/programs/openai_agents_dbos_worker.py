"""A program with `dbos-openai-agents` on PostgreSQL, configured as its README does."""

import asyncio

from agents import Agent, RunConfig, function_tool, set_default_openai_client
from dbos import DBOS, DBOSConfig, SetWorkflowID
from dbos_openai_agents import DBOSRunner
from openai import AsyncOpenAI

from benchmarks.model_server import AGENTS
from benchmarks.peers.programs.job import the_job
from benchmarks.peers.programs.note import keep_note
from benchmarks.peers.programs.requests_socket import Request, serve
from benchmarks.usage import report_when_asked

JOB = the_job()
RUNNING: dict[str, Request] = {}
CONFIG = RunConfig(tracing_disabled=True)


@function_tool(needs_approval=JOB.variant == "approvals")
@DBOS.step()
async def note(number: int) -> str:
    """Keep a note.

    Args:
        number: The number of the note.
    """
    run = DBOS.workflow_id or ""
    return await keep_note(number, JOB, run=run, key=f"{DBOS.step_id}")


def agent_of(variant: str) -> Agent:
    """Return the starting agent."""
    front, back = (Agent(name, instructions="You keep notes.", tools=[note]) for name in AGENTS)
    if variant == "handoffs":
        front.handoffs.append(back)
        back.handoffs.append(front)
    return front


@DBOS.workflow()
async def converse(question: str, turns: int) -> str:
    """Return the answer."""
    agent = agent_of(JOB.variant)
    result = await DBOSRunner.run(agent, question, max_turns=turns, run_config=CONFIG)
    while result.interruptions:
        state = result.to_state()
        request = RUNNING.get(DBOS.workflow_id or "")
        if request is not None:
            request.waiting.pending.release()
        await DBOS.recv_async("approved", timeout_seconds=600)
        for item in result.interruptions:
            state.approve(item)
        result = await DBOSRunner.run(agent, state, max_turns=turns, run_config=CONFIG)
    return str(result.final_output)


async def run(request: Request) -> str:
    """Start the run, or wait for the one that goes on."""
    RUNNING[request.id] = request
    with SetWorkflowID(request.id):
        handle = await DBOS.start_workflow_async(converse, request.question, request.turns)
    try:
        return await handle.get_result()
    finally:
        del RUNNING[request.id]


async def approve(request: Request) -> None:
    """Send the decision."""
    await DBOS.send_async(request.id, True, "approved")  # noqa: FBT003  the message


async def main() -> None:
    """Take requests until standard input ends."""
    report_when_asked()
    client = AsyncOpenAI(base_url=JOB.model_url, api_key="none")
    set_default_openai_client(client, use_for_tracing=False)
    config: DBOSConfig = {
        "name": "notes",
        "system_database_url": JOB.database,
        "application_version": "1",
        "log_level": "WARNING",
    }
    DBOS(config=config)
    DBOS.launch()
    await serve(run, approve)


if __name__ == "__main__":
    asyncio.run(main())
