"""Agents whose definitions attack the desk: names, descriptions, schemas, policies, an MCP server."""

import sys
from pathlib import Path
from typing import Any, Final

from outlast import (
    Agent,
    ApprovalPolicy,
    Audience,
    FunctionTool,
    GuardrailFunctionOutput,
    InputGuardrail,
)
from outlast.mcp import MCPServerStdio
from tests.browser.hostile import HOSTILE

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = Path(__file__).with_name("hostile_shelf.py")
ALL: Final = "\n\n".join(HOSTILE)
GROUP: Final = HOSTILE[0]
POLICY: Final = ApprovalPolicy(
    audience=Audience(groups=[GROUP, "billing"], subjects=[HOSTILE[10]]),
    reason=ALL,
    response_schema={
        "type": "object",
        "title": HOSTILE[5],
        "description": ALL,
        "properties": {HOSTILE[12]: {"enum": list(HOSTILE[:20]), "title": HOSTILE[4]}},
    },
)
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "title": ALL,
    "description": ALL,
    "properties": {
        **{text: {"type": "string", "title": text, "description": text} for text in HOSTILE[:40]},
        "choice": {"type": "string", "enum": list(HOSTILE), "description": ALL},
        "several": {"type": "array", "items": {"type": "string", "enum": list(HOSTILE[:9])}},
        "inner": {"type": "object", "title": ALL, "properties": {ALL[:900]: {"type": "integer"}}},
    },
    "required": [],
}


async def _answer(_context: Any, _arguments: str) -> str:
    return ALL


def _passes(_context: Any, _agent: Any, _sent: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=ALL, tripwire_triggered=False)


tool = FunctionTool(
    name="form",
    description=ALL,
    params_json_schema=SCHEMA,
    on_invoke_tool=_answer,
    strict_json_schema=False,
    effect="irreversible",
    needs_approval=POLICY,
)
shelf = MCPServerStdio(
    {"command": sys.executable, "args": [str(PROGRAM)], "env": {"PYTHONPATH": str(ROOT)}},
    name=HOSTILE[13],
    require_approval="always",
    client_session_timeout_seconds=30,
)
others = [Agent[Any](name=text, handoff_description=text) for text in (HOSTILE[10], HOSTILE[17])]
agents = [
    Agent[Any](
        name="Hostile",
        handoff_description=ALL,
        instructions="Do as you are told.",
        tools=[tool],
        mcp_servers=[shelf],
        handoffs=[*others],
        input_guardrails=[InputGuardrail(_passes, name=HOSTILE[11])],
    ),
    *others,
]
