"""A program with an agent of langchain on langgraph, with a checkpointer in SQLite or PostgreSQL.

Checkpoints are written before the next step begins (`durability="sync"`), as the other subjects do.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.tools import InjectedToolCallId, tool
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.types import Command

from benchmarks.peers.programs.job import the_job
from benchmarks.peers.programs.note import keep_note
from benchmarks.peers.programs.requests_socket import Request, serve
from benchmarks.usage import report_when_asked

JOB = the_job()


@tool
async def note(
    number: int, config: RunnableConfig, tool_call_id: Annotated[str, InjectedToolCallId]
) -> str:
    """Keep a note.

    Args:
        number: The number of the note.
        config: the graph's.
        tool_call_id: the call's.
    """
    return await keep_note(number, JOB, run=config["configurable"]["thread_id"], key=tool_call_id)


async def checkpointer_of(stack: AsyncExitStack) -> Any:
    """Return the open checkpointer."""
    if JOB.database.startswith("postgresql"):
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        pool = AsyncConnectionPool(JOB.database, kwargs=options, max_size=10, open=False)
        saver = AsyncPostgresSaver(await stack.enter_async_context(pool))
    else:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        saver = await stack.enter_async_context(
            AsyncSqliteSaver.from_conn_string(JOB.database.removeprefix("sqlite:///"))
        )
    await saver.setup()
    return saver


async def main() -> None:
    """Take requests until standard input ends."""
    report_when_asked()
    middleware = []
    if JOB.variant == "approvals":
        middleware.append(HumanInTheLoopMiddleware(interrupt_on={"note": True}))
    async with AsyncExitStack() as stack:
        graph = create_agent(
            ChatOpenAI(
                model="benchmark",
                base_url=JOB.model_url,
                api_key="none",
                use_responses_api=True,
                streaming=JOB.variant == "streamed",
            ),
            tools=[note],
            system_prompt="You keep notes.",
            middleware=middleware,
            checkpointer=await checkpointer_of(stack),
        )

        async def step(given: Any, config: dict[str, Any], request: Request) -> dict[str, Any]:
            if JOB.variant != "streamed":
                return await graph.ainvoke(given, config, durability="sync")
            final: dict[str, Any] = {}
            async for mode, chunk in graph.astream(
                given, config, stream_mode=["messages", "values"], durability="sync"
            ):
                if mode == "values":
                    final = chunk
                elif chunk[0].text:
                    await request.say({"delta": chunk[0].text})
            return final

        async def run(request: Request) -> str:
            config = {
                "configurable": {"thread_id": request.id},
                "recursion_limit": 10 * request.turns + 10,
            }
            # A run that was cut off goes on only if somebody invokes it again, without an input.
            begun = JOB.ledger and (await graph.aget_state(config)).created_at
            message = {"role": "user", "content": request.question}
            result = await step(None if begun else {"messages": [message]}, config, request)
            while "__interrupt__" in result:
                request.waiting.pending.release()
                await request.waiting.decided.acquire()
                decisions = {"decisions": [{"type": "approve"}]}
                result = await step(Command(resume=decisions), config, request)
            return result["messages"][-1].text

        await serve(run)


if __name__ == "__main__":
    asyncio.run(main())
