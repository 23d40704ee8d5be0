"""Two agents of one name in a program that hosts its own runs."""

from pathlib import Path

from tests.servers import TemporalServer
from tests.workflow.test_scripts import output_of

SCRIPT = """
from outlast import Agent, Runner, handoff
from outlast.testing import ScriptedModel, call

def clerk(answer):
    return Agent(name="Clerk", model=ScriptedModel(answer), instructions=answer)

def filtered(data):
    told.append([item.target_agent is refunds for item in data.new_items if "handoff_out" in item.type])
    return data

told = []

orders, refunds = clerk("Orders here."), clerk("Refunds here.")
triage = Agent(
    name="Triage",
    handoffs=[orders, handoff(refunds, tool_name_override="to_refunds"),
              handoff(refunds, tool_name_override="filtered", input_filter=filtered)],
    tools=[clerk("Nested here.").as_tool("ask", "Ask.")],
    model=ScriptedModel([call("ask", "c1", input="?")], [call("to_refunds", "c2")]),
)
result = Runner.run_sync(triage, "Hello")
print(result.final_output)
print(result.last_agent is refunds, result.last_agent.name)
print([type(item).__name__ for item in result.new_items if item.agent is refunds])
print([item.output for item in result.new_items if item.type == "tool_call_output_item"])
print([item.target_agent is refunds for item in result.new_items if "handoff_out" in item.type])
print([item["output"] for item in refunds.model.requests[-1].input if "output" in item][-1])

triage.model, refunds.model = ScriptedModel([call("filtered", "c2")]), ScriptedModel("Refunds.")
result = Runner.run_sync(triage, "Hello")
print(result.last_agent is refunds, told)
print([item["output"] for item in refunds.model.requests[-1].input if "output" in item][-1])
"""


async def test_agents_of_one_name_are_told_apart(tmp_path: Path, server: TemporalServer):
    lines = await output_of(SCRIPT, tmp_path, address=server.address)
    assert lines == [
        "Refunds here.",
        "True Clerk",
        "['MessageOutputItem']",
        "['Nested here.']",
        "[True]",
        '{"assistant": "Clerk"}',
        "True [[True]]",
        '{"assistant": "Clerk"}',
    ]
