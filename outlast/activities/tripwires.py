"""Tripwires: what one is, what a guardrail found, and what stands in place of what one blocked.

Owns: what a nested run's failure says of the guardrail, because the run that asked has no record
of it. Must not know: when guardrails are asked. Knows no Temporal.
"""

from collections.abc import Sequence
from dataclasses import replace

from outlast.activities.invocation import Invocation
from outlast.agents.config.run_config import OutputGuardrailBlockedMessageArgs
from outlast.agents.config.settings import BLOCKED_MESSAGE_REF
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    TRIPPED_RECORD,
    GuardrailFunctionOutput,
    InputGuardrailResult,
    OutputGuardrailResult,
)
from outlast.contract import records
from outlast.loop.checks import GuardrailRecord
from outlast.loop.phrases import WITHHELD
from outlast.loop.values import Failure, JsonObject


def tripwire(
    invocation: Invocation, code: str, stage: str, said: Sequence[GuardrailRecord]
) -> Failure | None:
    """Return the failure of the tripwire among guardrails' verdicts, if there is one."""
    tripped = next((record for record in said if record.tripped), None)
    if tripped is None:
        return None
    message = f"The {stage} guardrail {tripped.name!r} of agent {tripped.agent!r} was triggered."
    details: JsonObject = {"guardrail": tripped.name}
    if invocation.outer is not None:
        details[TRIPPED_RECORD] = records.write(tripped)
    return Failure(code=code, message=message, details=details)


def finding(
    invocation: Invocation, failure: Failure
) -> InputGuardrailResult | OutputGuardrailResult | None:
    """Return what the guardrail found whose tripwire ended a nested run, or None."""
    told: JsonObject | None = (failure.details or {}).get(TRIPPED_RECORD)
    if told is None:
        return None
    record = records.read(GuardrailRecord, told)
    output = GuardrailFunctionOutput(output_info=record.info, tripwire_triggered=record.tripped)
    try:
        agent = invocation.worker.registry.agent(record.agent)
    except UserError:  # it has gone with a deploy
        return None
    for asked in invocation.input_guardrails(agent) if record.stage == "input" else ():
        if asked.get_name() == record.name:
            return InputGuardrailResult(guardrail=asked, output=output)
    for judge in invocation.output_guardrails(agent) if record.stage == "output" else ():
        if judge.get_name() == record.name:
            return OutputGuardrailResult(
                guardrail=judge, agent_output=record.output, agent=agent, output=output
            )
    return None


def without_payload(said: Sequence[GuardrailRecord], placeholder: str) -> list[GuardrailRecord]:
    """Return output guardrails' verdicts on a tool's output without anything of that output.

    Neither an error that is logged nor a result says what must not leave the run.

    Args:
        said: what the guardrails said, the one that blocked the output among them.
        placeholder: what stands in place of the output.
    """
    return [replace(record, info=None, output=placeholder) for record in said]


def withheld(invocation: Invocation, guardrail: str) -> str:
    """Return what stands in place of an output that this guardrail has blocked."""
    message = invocation.settings.get("output_guardrail_blocked_message")
    if message is None and (formatter := invocation.reference(BLOCKED_MESSAGE_REF)) is not None:
        given = OutputGuardrailBlockedMessageArgs(
            default_message=WITHHELD,
            guardrail_name=guardrail,
            agent=invocation.agent,
            run_context=invocation.wrapper,
        )
        try:
            message = formatter(given)
        except Exception:  # noqa: BLE001  what is blocked stays blocked, whatever the formatter does
            message = None
    return message if isinstance(message, str) and message else WITHHELD
