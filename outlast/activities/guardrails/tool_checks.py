"""Runs a tool's own guardrails, before and after its call."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from outlast.activities.inner_spans import traced_guardrail
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.guardrails.output_info import write_info
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputGuardrailData,
)
from outlast.agents.tools.definition import FunctionTool
from outlast.contract import failures
from outlast.loop.checks import GuardrailRecord, GuardrailStage
from outlast.loop.values import Failure


@dataclass(frozen=True, slots=True)
class ToolCheck:
    """The results of a tool's guardrails.

    Attributes:
        records: the result of each guardrail, in order.
        message: a guardrail's text that replaces the output; None if all passed.
        failure: why the run cannot go on.
    """

    records: tuple[GuardrailRecord, ...] = ()
    message: str | None = None
    failure: Failure | None = None


async def check_call(tool: FunctionTool, context: ToolContext[Any]) -> ToolCheck:
    """Run a tool's input guardrails in order, until one does not allow the call.

    Raises:
        Exception: any error of a guardrail.
    """
    if not tool.tool_input_guardrails:
        return ToolCheck()
    data = ToolInputGuardrailData(context=context, agent=context.agent)
    return await _check("tool_input", tool.tool_input_guardrails, data)


async def check_result(tool: FunctionTool, context: ToolContext[Any], output: Any) -> ToolCheck:
    """Run a tool's output guardrails in order, until one does not allow the output.

    Raises:
        Exception: any error of a guardrail.
    """
    data = ToolOutputGuardrailData(context=context, agent=context.agent, output=output)
    return await _check("tool_output", tool.tool_output_guardrails, data)


async def _check(stage: GuardrailStage, guardrails: Sequence[Any], data: Any) -> ToolCheck:
    records: list[GuardrailRecord] = []
    context: ToolContext[Any] = data.context
    for guardrail in guardrails:
        name = guardrail.get_name()
        verdict: ToolGuardrailFunctionOutput = await traced_guardrail(
            name, partial(guardrail.run, data), tripped=_is_tripped
        )
        info, info_type = write_info(verdict.output_info)
        records.append(
            GuardrailRecord(
                stage=stage,
                name=name,
                agent=context.agent.name,
                info=info,
                info_type=info_type,
                tripped=_is_tripped(verdict),
                tool=context.tool_name,
                call_id=context.tool_call_id,
                behavior=dict(verdict.behavior),
            )
        )
        if verdict.behavior["type"] != "allow":
            return _decision(records, verdict)
    return ToolCheck(tuple(records))


def _is_tripped(verdict: ToolGuardrailFunctionOutput) -> bool:
    return verdict.behavior["type"] == "raise_exception"


def _decision(
    records: Sequence[GuardrailRecord], verdict: ToolGuardrailFunctionOutput
) -> ToolCheck:
    if verdict.behavior["type"] == "reject_content":
        return ToolCheck(tuple(records), message=verdict.behavior["message"])
    last = records[-1]
    is_input = last.stage == "tool_input"
    code = failures.TOOL_INPUT_GUARDRAIL if is_input else failures.TOOL_OUTPUT_GUARDRAIL
    message = f"The guardrail {last.name!r} of the tool {last.tool!r} triggered its tripwire."
    return ToolCheck(tuple(records), failure=Failure(code=code, message=message))
