"""The AG-UI protocol, and the routes of CopilotKit's runtime.

A thread of the protocol is a conversation here, and its id is the id of the run. A run of the
protocol is one request: it streams until the conversation needs somebody, which is the end of the
answer, or a request for a person. A client comes back with the same request and what it has.
"""

from typing import Any, Final

from starlette.responses import Response
from starlette.routing import BaseRoute

import outlast
from outlast.agents.agent import Agent
from outlast.deliveries.problems import JSONAnswer
from outlast.serve.access import Customer, Target
from outlast.serve.messages import stream_deadline
from outlast.serve.other_sites import preflight_route, shared_route
from outlast.serve.routing import DeskRequest
from outlast.serve.sse import stream_of
from outlast.serve.wires.ag_ui_input import read_input
from outlast.serve.wires.ag_ui_stream import RunStream

_CAPABILITIES: Final[dict[str, Any]] = {
    "transport": {"streaming": True, "resumable": False},
    "state": {"snapshots": True, "deltas": True, "memory": True},
    "tools": {"supported": True, "clientProvided": False},
    "humanInTheLoop": {
        "supported": True,
        "approvals": True,
        "interrupts": True,
        "approveWithEdits": True,
    },
}


async def _run(asked: DeskRequest) -> Response:
    """Take new messages and decisions, and stream what follows."""
    return await _streamed(asked, takes_messages=True)


async def _connect(asked: DeskRequest) -> Response:
    """Stream a conversation without writing to it.

    Decisions count here, too: a client cannot connect without one for each of its interrupts.
    """
    return await _streamed(asked, takes_messages=False)


async def _streamed(asked: DeskRequest, *, takes_messages: bool) -> Response:
    if asked.caller is None:
        asked.check("read_messages")
    given = await read_input(asked.http)
    asked = await asked.at(given.thread_id)
    asked.check("read_messages")
    events = RunStream(asked, given, takes_messages=takes_messages).events()
    return await stream_of(events, until=stream_deadline(asked.caller))


# --- CopilotKit ----------------------------------------------------------------------------------


async def _info(asked: DeskRequest) -> Response:
    """Say which agents there are, as CopilotKit's runtime does."""
    if not isinstance(asked.caller, Customer):
        asked.check("start_run")
    agents = {one.name: _described(one) for one in asked.desk.agents}
    return JSONAnswer(
        {
            "version": outlast.__version__,
            "agents": agents,
            "mode": "sse",
            "audioFileTranscriptionEnabled": False,
        }
    )


def _described(agent: Agent[Any]) -> dict[str, Any]:
    return {
        "name": agent.name,
        "description": agent.handoff_description or "",
        "capabilities": _CAPABILITIES,
    }


async def _stop(asked: DeskRequest) -> Response:
    """Cancel a run. Customers cannot: the agent goes on without them."""
    state = await asked.handle.state()
    asked.check("cancel", Target(run_id=asked.run_id, state=state))
    await asked.handle.cancel()
    return JSONAnswer({"stopped": True})


ROUTES: Final[list[BaseRoute]] = [
    # The body names the conversation, so these handlers ask for the right to it.
    shared_route("/agui/{agent}", _run, action=None, methods=["POST"]),
    shared_route("/copilotkit/info", _info, action=None),
    shared_route("/copilotkit/agent/{agent}/run", _run, action=None, methods=["POST"]),
    shared_route("/copilotkit/agent/{agent}/connect", _connect, action=None, methods=["POST"]),
    shared_route(
        "/copilotkit/agent/{agent}/stop/{run_id}", _stop, action="cancel", methods=["POST"]
    ),
    preflight_route("/agui/{agent}"),
    preflight_route("/copilotkit/{rest:path}"),
]
