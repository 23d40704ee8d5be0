"""The cards of agents: what A2A clients read first. Everybody may, so they say no more than names.

Nothing of an agent's instructions, tools or people is in its card.
"""

from importlib.metadata import version
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request

from outlast.a2a.protocol import (
    VERSION,
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
)
from outlast.agents.agent import Agent
from outlast.serve.routing import Desk, own_origin
from outlast.views.records import JsonObject

_BEARER: Final[JsonObject] = {
    "httpAuthSecurityScheme": {
        "scheme": "Bearer",
        "description": "An API key of the desk, or the token of one conversation.",
    }
}


def card_of(desk: Desk, request: Request, agent: Agent[Any]) -> AgentCard:
    """Return the card of an agent, as it is reached by a request."""
    url = f"{own_origin(desk, request)}/a2a/{quote(agent.name, safe='')}"
    described = agent.handoff_description or f"The agent {agent.name}."
    interfaces = [
        AgentInterface(url=url, protocol_binding=binding, protocol_version=VERSION)
        for binding in ("JSONRPC", "HTTP+JSON")
    ]
    skill = AgentSkill(id="answer", name=agent.name, description=described, tags=["conversation"])
    return AgentCard(
        name=agent.name,
        description=described,
        version=version("outlast"),
        supported_interfaces=interfaces,
        capabilities=AgentCapabilities(streaming=True, push_notifications=False),
        default_input_modes=["text/plain", "application/json", "image/*", "application/*"],
        default_output_modes=["text/plain"],
        skills=[skill],
        security_schemes={"bearer": _BEARER},
        security_requirements=[{"schemes": {"bearer": {"list": []}}}],
    )
