"""Carries out `CheckInput`: runs the guardrails of a stage."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from outlast.activities.attempt import FIRST, Attempt
from outlast.activities.errors import of_user_code
from outlast.activities.guardrails.parallel import Check, run_guardrails
from outlast.activities.guardrails.tripwires import tripwire
from outlast.activities.invocation import Invocation
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.guardrails.guardrail import InputGuardrail
from outlast.contract.effects import EffectRequest
from outlast.loop.checks import CheckResult
from outlast.loop.effects import CheckInput
from outlast.loop.items import text_of


async def check_input(
    worker: WorkerDeps, request: EffectRequest[CheckInput], attempt: Attempt = FIRST
) -> CheckResult:
    """Run a stage's guardrails in parallel. The first tripwire cancels the others.

    Raises:
        EffectError: a guardrail failed.
    """
    effect = request.effect
    invocation = Invocation.of(worker, effect)
    agent, wrapper, name = invocation.agent, invocation.wrapper, invocation.agent_name
    checks: list[Check]
    if effect.stage == "said":  # output guardrails judge what people say
        stage, output = "output", text_of(effect.items[0].raw)
        judges = [one for one in invocation.output_guardrails() if one.judges_people]
        checks = [(one, partial(one.run, wrapper, agent, output)) for one in judges]
    else:
        stage, output, content = "input", None, invocation.as_input(effect.items)
        chosen = _chosen(invocation.input_guardrails(), effect.stage)
        checks = [(one, partial(one.run, agent, content, wrapper)) for one in chosen]
    records, error = await run_guardrails(
        checks, stage=stage, agent=name, output=output, stop_at_error=True
    )
    if error is not None:
        raise of_user_code(f"An {stage} guardrail of agent {name!r}", error) from error
    failure = tripwire(invocation, records)
    return CheckResult(results=tuple(records), failure=failure, changes=invocation.changes())


def _chosen(guardrails: Sequence[InputGuardrail[Any]], stage: str) -> list[InputGuardrail[Any]]:
    if stage == "added":
        return list(guardrails)
    return [
        guardrail for guardrail in guardrails if guardrail.run_in_parallel == (stage == "parallel")
    ]
