"""Guardrail records of a run as the public result classes."""

from typing import Any, cast

from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    TRIPPED_RECORD,
    GuardrailFunctionOutput,
    InputGuardrailResult,
    OutputGuardrailResult,
)
from outlast.agents.guardrails.output_info import read_info
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailResult,
    ToolOutputGuardrailResult,
)
from outlast.agents.schemas.agent_output import read_output
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.contract import records
from outlast.loop.checks import GuardrailRecord, GuardrailStage
from outlast.loop.state import LoopState
from outlast.loop.values import Failure, JsonObject


def guardrail_results(
    state: LoopState, stage: GuardrailStage, definitions: LocalDefinitions
) -> list[Any]:
    """Return the results of a stage's guardrails for the current question, in order."""
    return [
        guardrail_result(record, definitions)
        for record in state.question.guardrails
        if record.stage == stage
    ]


def tripped(state: LoopState, stage: GuardrailStage) -> GuardrailRecord | None:
    """Return the record of the guardrail that ended the run, or None."""
    found = (record for record in reversed(state.question.guardrails) if record.stage == stage)
    return next((record for record in found if record.tripped or _raises(record)), None)


def tripped_inside(failure: Failure) -> GuardrailRecord | None:
    """Return the record of the guardrail that ended a nested run, and so its parent."""
    written: JsonObject | None = (failure.details or {}).get(TRIPPED_RECORD)
    return None if written is None else records.read(GuardrailRecord, written)


def guardrail_result(
    record: GuardrailRecord, definitions: LocalDefinitions
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
            guardrail = definitions.input_guardrail(agent, name)
            return InputGuardrailResult(guardrail=guardrail, output=_output(record, guardrail))
        case "output":
            judge = definitions.output_guardrail(agent, name)
            return OutputGuardrailResult(
                guardrail=judge,
                agent_output=_read_checked_output(record, definitions),
                agent=definitions.agent(agent),
                output=_output(record, judge),
            )
        case "tool_input":
            before = definitions.tool_input_guardrail(agent, record.tool, name)
            return ToolInputGuardrailResult(guardrail=before, output=_verdict(record, before))
        case "tool_output":
            after = definitions.tool_output_guardrail(agent, record.tool, name)
            return ToolOutputGuardrailResult(guardrail=after, output=_verdict(record, after))


def _info(record: GuardrailRecord, guardrail: Any) -> Any:
    return read_info(record.info, record.info_type, guardrail.guardrail_function)


def _output(record: GuardrailRecord, guardrail: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(
        output_info=_info(record, guardrail), tripwire_triggered=record.tripped
    )


def _verdict(record: GuardrailRecord, guardrail: Any) -> ToolGuardrailFunctionOutput:
    info = _info(record, guardrail)
    if record.behavior is None:
        return ToolGuardrailFunctionOutput(output_info=info)
    return ToolGuardrailFunctionOutput(output_info=info, behavior=cast("Any", record.behavior))


def _read_checked_output(record: GuardrailRecord, definitions: LocalDefinitions) -> Any:
    try:
        return read_output(definitions.output_schema(record.agent), record.output)
    except UserError:  # a tool's output need not have the agent's type
        return record.output


def _raises(record: GuardrailRecord) -> bool:
    return record.behavior is not None and record.behavior.get("type") == "raise_exception"
