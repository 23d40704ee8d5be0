"""Carries out `CheckInput`: runs the guardrails of a stage."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from outlast.activities.attempt import FIRST, Attempt
from outlast.activities.errors import of_user_code
from outlast.activities.guardrails.parallel import run_guardrails
from outlast.activities.guardrails.tripwires import tripwire
from outlast.activities.invocation import Invocation
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.guardrails.guardrail import InputGuardrail
from outlast.agents.items.raw_items import copies
from outlast.contract.effects import EffectRequest
from outlast.loop.checks import CheckResult
from outlast.loop.effects import CheckInput
from outlast.loop.items import Item, only_text, text_of
from outlast.loop.values import JsonObject


async def check_input(
    worker: WorkerDeps, request: EffectRequest[CheckInput], attempt: Attempt = FIRST
) -> CheckResult:
    """Run a stage's guardrails in parallel. The first tripwire cancels the others.

    Raises:
        EffectError: a guardrail failed.
    """
    del attempt
    effect = request.effect
    invocation = Invocation.of(worker, effect)
    if effect.stage == "said":
        return await _check_words(invocation, text_of(effect.items[0].raw))
    content = as_input(effect.items, invocation)
    checks = [
        (guardrail, partial(guardrail.run, invocation.agent, content, invocation.wrapper))
        for guardrail in _chosen(invocation.input_guardrails(), effect.stage)
    ]
    name = invocation.agent_name
    records, error = await run_guardrails(checks, stage="input", agent=name, stop_at_error=True)
    if error is not None:
        raise of_user_code(f"An input guardrail of agent {name!r}", error) from error
    return CheckResult(
        results=tuple(records),
        failure=tripwire(invocation, records),
        changes=invocation.changes(),
    )


async def _check_words(invocation: Invocation, text: str) -> CheckResult:
    name = invocation.agent_name
    checks = [
        (guardrail, partial(guardrail.run, invocation.wrapper, invocation.agent, text))
        for guardrail in invocation.output_guardrails()
        if guardrail.judges_people
    ]
    records, error = await run_guardrails(
        checks, stage="output", agent=name, output=text, stop_at_error=True
    )
    if error is not None:
        raise of_user_code(f"An output guardrail of agent {name!r}", error) from error
    failure = tripwire(invocation, records)
    return CheckResult(results=tuple(records), failure=failure, changes=invocation.changes())


def as_input(items: Sequence[Item], invocation: Invocation) -> str | list[JsonObject]:
    """Return the input as guardrails get it: one plain text, or items."""
    raws = copies(item.raw for item in items)
    text = None if invocation.shows_items else only_text(raws)
    return raws if text is None else text


def _chosen(guardrails: Sequence[InputGuardrail[Any]], stage: str) -> list[InputGuardrail[Any]]:
    if stage == "added":
        return list(guardrails)
    return [
        guardrail for guardrail in guardrails if guardrail.run_in_parallel == (stage == "parallel")
    ]
