"""Tripwires: the failure that one is, and what a guardrail found, told from that failure.

Owns: what a nested run's failure says of the guardrail, because the run that asked has no record
of it. Must not know: when guardrails are asked. Knows no Temporal.
"""

from collections.abc import Sequence

from outlast.activities.scene import Scene
from outlast.agents.errors import UserError
from outlast.agents.guardrail import (
    TRIPPED_RECORD,
    GuardrailFunctionOutput,
    InputGuardrailResult,
    OutputGuardrailResult,
)
from outlast.contract import records
from outlast.loop.checks import GuardrailRecord
from outlast.loop.values import Failure, JsonObject


def tripwire(
    scene: Scene, code: str, stage: str, said: Sequence[GuardrailRecord]
) -> Failure | None:
    """Return the failure of the tripwire among guardrails' verdicts, if there is one."""
    tripped = next((record for record in said if record.tripped), None)
    if tripped is None:
        return None
    message = f"The {stage} guardrail {tripped.name!r} of agent {tripped.agent!r} was triggered."
    details: JsonObject = {"guardrail": tripped.name}
    if scene.outer is not None:
        details[TRIPPED_RECORD] = records.write(tripped)
    return Failure(code=code, message=message, details=details)


def finding(scene: Scene, failure: Failure) -> InputGuardrailResult | OutputGuardrailResult | None:
    """Return what the guardrail found whose tripwire ended a nested run, or None."""
    told: JsonObject | None = (failure.details or {}).get(TRIPPED_RECORD)
    if told is None:
        return None
    record = records.read(GuardrailRecord, told)
    output = GuardrailFunctionOutput(output_info=record.info, tripwire_triggered=record.tripped)
    try:
        agent = scene.worker.registry.agent(record.agent)
    except UserError:  # it has gone with a deploy
        return None
    for asked in scene.input_guardrails(agent) if record.stage == "input" else ():
        if asked.get_name() == record.name:
            return InputGuardrailResult(guardrail=asked, output=output)
    for judge in scene.output_guardrails(agent) if record.stage == "output" else ():
        if judge.get_name() == record.name:
            return OutputGuardrailResult(
                guardrail=judge, agent_output=record.output, agent=agent, output=output
            )
    return None
