"""Runs agents with the objects of packages that import the OpenAI Agents SDK; prints what came.

Run by `test_sdk_packages.py`, in an environment that has these packages beside outlast.
"""

import asyncio
import json
import sys
from types import SimpleNamespace
from typing import Any

from outlast import Agent, InputGuardrailTripwireTriggered, Runner, UserError
from outlast.testing import ScriptedModel, call, run_in_memory

AnyAgent: Any = Agent


async def stripe() -> dict[str, Any]:
    """A toolkit whose tools call Stripe; its connection is replaced."""
    from stripe_agent_toolkit.openai.toolkit import StripeAgentToolkit

    toolkit: Any = StripeAgentToolkit(secret_key="rk_test_1")
    asked: list[Any] = []

    async def run_tool(name: str, arguments: dict[str, Any]) -> str:
        asked.append([name, arguments])
        return "re_1 is refunded"

    toolkit.run_tool = run_tool
    schema = {
        "type": "object",
        "properties": {"charge": {"type": "string", "title": "Charge"}},
        "required": ["charge"],
    }
    tools = toolkit._convert_tools(
        [{"name": "create_refund", "description": "Refund.", "inputSchema": schema}]
    )
    model = ScriptedModel([call("create_refund", "c1", charge="ch_1")], "Done.")
    result = await run_in_memory(AnyAgent(name="Desk", tools=tools), "Refund.", model=model)
    return {"asked": asked, "output": result.new_items[1].output, "tool": type(tools[0]).__module__}


async def composio() -> dict[str, Any]:
    """A provider that wraps Composio's tools; what executes them is replaced."""
    from composio_openai_agents import OpenAIAgentsProvider

    def execute(slug: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"successful": True, "data": {"slug": slug, **arguments}, "error": None}

    schema = {"type": "object", "properties": {"repo": {"type": "string"}}, "required": ["repo"]}
    described: Any = SimpleNamespace(
        slug="GITHUB_STAR", description="Star a repository.", input_parameters=schema
    )
    outputs: list[Any] = []
    for strict in (False, True):
        tools = OpenAIAgentsProvider(strict=strict).wrap_tools([described], execute)
        model = ScriptedModel([call("GITHUB_STAR", "c1", repo="a/b")], "Done.")
        result = await run_in_memory(AnyAgent(name="Desk", tools=tools), "Star.", model=model)
        outputs.append(json.loads(result.new_items[1].output)["data"])
    return {"outputs": outputs}


async def guardrails() -> dict[str, Any]:
    """Guardrails of a configuration, and the package's agent, which is one of the SDK."""
    from guardrails import GuardrailAgent

    config = {
        "version": 1,
        "input": {
            "version": 1,
            "guardrails": [{"name": "Keyword Filter", "config": {"keywords": ["casino"]}}],
        },
    }
    theirs: Any = GuardrailAgent(config=config, name="Guarded", instructions="Help.")
    found: dict[str, Any] = {}
    try:
        await Runner.run(theirs, "Hello")
    except UserError as error:
        found["refused"] = str(error)
    desk = AnyAgent(name="Desk", input_guardrails=theirs.input_guardrails)
    passed = await run_in_memory(desk, "Hello", model=ScriptedModel("Hi."))
    found["passed"] = passed.final_output
    found["names"] = [one.guardrail.get_name() for one in passed.input_guardrail_results]
    try:
        await run_in_memory(desk, "To the casino!", model=ScriptedModel("Never."))
    except InputGuardrailTripwireTriggered as error:
        found["tripped"] = error.guardrail_result.output.output_info["guardrail_name"]
    return found


PACKAGES = {"stripe": stripe, "composio": composio, "guardrails": guardrails}
sys.stdout.write(json.dumps(asyncio.run(PACKAGES[sys.argv[1]]())))
