"""The decorators that make tools and guardrails of functions, gathered under the name users know.

Owns: the name `tool`, which is `function_tool`. Everything else is `outlast.agents`'s.
"""

from outlast.agents.guardrails.guardrail import input_guardrail, output_guardrail
from outlast.agents.guardrails.tool_guardrails import tool_input_guardrail, tool_output_guardrail
from outlast.agents.tools.function_tool import function_tool

__all__ = [
    "function_tool",
    "input_guardrail",
    "output_guardrail",
    "tool",
    "tool_input_guardrail",
    "tool_output_guardrail",
]

tool = function_tool
