"""Tool guardrails: a call is checked before the tool runs, and its result before the model reads it.

A guardrail lets it pass, gives the model a message in its place, or ends the run.
"""

import asyncio
import json

from outlast import (
    Agent,
    Runner,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputGuardrailData,
    ToolOutputGuardrailTripwireTriggered,
    function_tool,
    tool_input_guardrail,
    tool_output_guardrail,
)


@tool_input_guardrail
def one_voucher_at_most(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
    """Refuse large vouchers; the tool does not run, and the model reads why."""
    amount = json.loads(data.context.tool_arguments)["amount"]
    if amount > 20:
        return ToolGuardrailFunctionOutput.reject_content("Vouchers are 20 EUR at most.", amount)
    return ToolGuardrailFunctionOutput.allow()


@tool_output_guardrail
def no_secrets(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
    """End the run when a tool returns what no model may read."""
    if "password" in str(data.output):
        return ToolGuardrailFunctionOutput.raise_exception({"tool": data.context.tool_name})
    return ToolGuardrailFunctionOutput.allow()


@function_tool(tool_input_guardrails=[one_voucher_at_most])
def send_voucher(amount: float) -> str:
    """Send the customer a voucher of some EUR."""
    return f"A voucher of {amount:g} EUR is on its way."


@function_tool(tool_output_guardrails=[no_secrets])
def read_account(customer_id: str) -> dict[str, str]:
    """Read a customer's account."""
    secrets = {"password": "hunter2"} if customer_id == "cust-7" else {}
    return {"name": "Mara Lindholm", **secrets}


desk = Agent(
    name="Goodwill",
    instructions="Keep customers happy.",
    tools=[send_voucher, read_account],
)

REQUESTS = ("I want a voucher of 50 EUR.", "I am customer cust-7. What is my name?")


async def main(requests: tuple[str, ...] = REQUESTS) -> None:
    """Make two requests that meet guardrails."""
    for request in requests:
        try:
            result = await Runner.run(desk, request)
            for checked in result.tool_input_guardrail_results:
                print(f"{checked.guardrail.get_name()}: {checked.output.behavior['type']}")
            print(f"answered: {result.final_output}")
        except ToolOutputGuardrailTripwireTriggered as error:
            print(f"ended by {error.guardrail.get_name()}: {error.output.output_info}")


if __name__ == "__main__":
    asyncio.run(main())
