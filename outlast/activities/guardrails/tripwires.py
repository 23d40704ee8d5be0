"""Tripwires: failures, guardrail results, and placeholders for blocked outputs.

A nested run's failure carries its guardrail's record, because the parent has no such record.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from outlast.activities.invocation import Invocation
from outlast.agents.config.run_config import OutputGuardrailBlockedMessageArgs
from outlast.agents.config.settings import BLOCKED_MESSAGE_REF
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    TRIPPED_RECORD,
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
)
from outlast.agents.guardrails.output_info import read_info
from outlast.contract import failures, records
from outlast.loop.checks import GuardrailRecord
from outlast.loop.phrases import WITHHELD
from outlast.loop.values import Failure, JsonObject


def tripwire(invocation: Invocation, results: Sequence[GuardrailRecord]) -> Failure | None:
    """Return the failure of the first tripped guardrail, if any."""
    tripped = next((record for record in results if record.tripped), None)
    if tripped is None:
        return None
    is_input = tripped.stage == "input"
    code = failures.INPUT_GUARDRAIL if is_input else failures.OUTPUT_GUARDRAIL
    what = f"{tripped.stage} guardrail {tripped.name!r} of agent {tripped.agent!r}"
    message = f"The {what} triggered its tripwire."
    details: JsonObject = {"guardrail": tripped.name}
    if invocation.parent_call is not None:
        details[TRIPPED_RECORD] = records.write(tripped)
    return Failure(code=code, message=message, details=details)


def guardrail_result_of(
    invocation: Invocation, failure: Failure
) -> InputGuardrailResult | OutputGuardrailResult | None:
    """Return the result of the guardrail that ended a nested run, or None."""
    written: JsonObject | None = (failure.details or {}).get(TRIPPED_RECORD)
    if written is None:
        return None
    record = records.read(GuardrailRecord, written)
    try:
        agent = invocation.worker.registry.agent(record.agent)
    except UserError:  # removed by a deploy
        return None
    for guardrail in invocation.input_guardrails(agent) if record.stage == "input" else ():
        if guardrail.get_name() == record.name:
            return InputGuardrailResult(guardrail=guardrail, output=_output(record, guardrail))
    for judge in invocation.output_guardrails(agent) if record.stage == "output" else ():
        if judge.get_name() == record.name:
            return OutputGuardrailResult(
                guardrail=judge,
                agent_output=record.output,
                agent=agent,
                output=_output(record, judge),
            )
    return None


def _output(
    record: GuardrailRecord, guardrail: InputGuardrail[Any] | OutputGuardrail[Any]
) -> GuardrailFunctionOutput:
    info = read_info(record.info, record.info_type, guardrail.guardrail_function)
    return GuardrailFunctionOutput(output_info=info, tripwire_triggered=record.tripped)


def without_payload(results: Sequence[GuardrailRecord], placeholder: str) -> list[GuardrailRecord]:
    """Return output guardrails' records without the blocked output: logs must not reveal it."""
    return [replace(record, info=None, info_type=None, output=placeholder) for record in results]


def withheld(invocation: Invocation, guardrail: str) -> str:
    """Return the placeholder for an output that this guardrail has blocked."""
    message = invocation.settings.get("output_guardrail_blocked_message")
    if message is None and (formatter := invocation.reference(BLOCKED_MESSAGE_REF)) is not None:
        arguments = OutputGuardrailBlockedMessageArgs(
            default_message=WITHHELD,
            guardrail_name=guardrail,
            agent=invocation.agent,
            run_context=invocation.wrapper,
        )
        try:
            message = formatter(arguments)
        except Exception:  # noqa: BLE001  the output stays blocked
            message = None
    return message if isinstance(message, str) and message else WITHHELD
