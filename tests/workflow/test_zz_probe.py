import asyncio, random
from typing import Any
from outlast.agents.agent import Agent
from outlast.agents.tool import function_tool
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import Desk
from tests.workflow.replies import outputs
from tests.workflow.conftest import *

@function_tool
async def noise(number: int) -> str:
    return random.Random(number).randbytes(220_000).hex()

async def test_big(client):
    desk = Desk(client, cached=True)
    def reply(request: Any) -> Any:
        done = len(outputs(request))
        return say("Done.") if done == 9 else [call("noise", f"c{done}", number=done)]
    agent = Agent[Any](name="N", tools=[noise])
    await desk.open(agent, model=ScriptedModel(always=reply))
    h = await desk.start_record(agent="N", input="x", max_turns=None)
    try:
        async with asyncio.timeout(25):
            r = await desk.workflow(h).result()
            print("RESULT", r["status"])
    except BaseException as e:
        print("EXC", repr(e), getattr(e, "cause", None))
    hist = await desk.workflow(h).fetch_history()
    for e in list(hist.events)[-6:]:
        print("EV", e.event_type, str(e.workflow_task_failed_event_attributes.failure.message)[:300], e.workflow_task_failed_event_attributes.cause, str(e.workflow_execution_failed_event_attributes.failure.message)[:200])
    print("N", len(hist.events))
    await desk.workflow(h).terminate("x") if False else None
    await desk.close_all()
