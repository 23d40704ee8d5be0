"""Guardrail records of a run as the public result classes."""

from typing import Any, cast

from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    TRIPPED_RECORD,
    GuardrailFunctionOutput,
    InputGuardrailResult,
    OutputGuardrailResult,
)
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailResult,
    ToolOutputGuardrailResult,
)
from outlast.agents.schemas.agent_output import read_output
from outlast.client.known_agents import KnownAgents
from outlast.contract import records
from outlast.loop.checks import GuardrailRecord, GuardrailStage
from outlast.loop.state import LoopState
from outlast.loop.values import Failure, JsonObject


def guardrail_results(state: LoopState, stage: GuardrailStage, known: KnownAgents) -> list[Any]:
    """Return the results of a stage's guardrails for the current question, in order."""
    return [guardrail_result(one, known) for one in state.question.guardrails if one.stage == stage]


def tripped(state: LoopState, stage: GuardrailStage) -> GuardrailRecord | None:
    """Return the record of the guardrail that ended the run, or None."""
    found = (one for one in reversed(state.question.guardrails) if one.stage == stage)
    return next((one for one in found if one.tripped or _raises(one)), None)


def tripped_inside(failure: Failure) -> GuardrailRecord | None:
    """Return the record of the guardrail that ended a nested run, and so its parent."""
    told: JsonObject | None = (failure.details or {}).get(TRIPPED_RECORD)
    return None if told is None else records.read(GuardrailRecord, told)


def guardrail_result(
    record: GuardrailRecord, known: KnownAgents
) -> (
    InputGuardrailResult
    | OutputGuardrailResult
    | ToolInputGuardrailResult
    | ToolOutputGuardrailResult
):
    """Return one record as a public result."""
    agent, name = record.agent, record.name
    match record.stage:
        case "input":
            return InputGuardrailResult(
                guardrail=known.input_guardrail(agent, name), output=_output(record)
            )
        case "output":
            return OutputGuardrailResult(
                guardrail=known.output_guardrail(agent, name),
                agent_output=_checked(record, known),
                agent=known.agent(agent),
                output=_output(record),
            )
        case "tool_input":
            return ToolInputGuardrailResult(
                guardrail=known.tool_input_guardrail(agent, record.tool, name),
                output=_verdict(record),
            )
        case "tool_output":
            return ToolOutputGuardrailResult(
                guardrail=known.tool_output_guardrail(agent, record.tool, name),
                output=_verdict(record),
            )


def _output(record: GuardrailRecord) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=record.info, tripwire_triggered=record.tripped)


def _verdict(record: GuardrailRecord) -> ToolGuardrailFunctionOutput:
    if record.behavior is None:
        return ToolGuardrailFunctionOutput(output_info=record.info)
    return ToolGuardrailFunctionOutput(
        output_info=record.info, behavior=cast("Any", record.behavior)
    )


def _checked(record: GuardrailRecord, known: KnownAgents) -> Any:
    try:
        return read_output(known.output_schema(record.agent), record.output)
    except UserError:  # a tool's output need not have the agent's type
        return record.output


def _raises(record: GuardrailRecord) -> bool:
    return record.behavior is not None and record.behavior.get("type") == "raise_exception"
