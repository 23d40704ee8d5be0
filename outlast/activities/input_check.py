"""Answering `CheckInput`: ask the input guardrails.

Owns: which guardrails are asked at which stage, and what the first tripwire ends. Knows no
Temporal.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from outlast.activities.carry_out import FIRST, Attempt
from outlast.activities.errors import of_user_code
from outlast.activities.inner_spans import guarded
from outlast.activities.invocation import Invocation
from outlast.activities.tripwires import tripwire
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.guardrails.guardrail import InputGuardrail
from outlast.agents.items.raw_items import copies
from outlast.agents.schemas.agent_output import write_output
from outlast.contract import failures
from outlast.contract.effects import EffectRequest
from outlast.loop.checks import CheckResult, GuardrailRecord
from outlast.loop.effects import CheckInput
from outlast.loop.items import Item, only_text
from outlast.loop.values import Json, JsonObject


async def check_input(
    worker: WorkerDeps, request: EffectRequest[CheckInput], attempt: Attempt = FIRST
) -> CheckResult:
    """Ask the guardrails of a stage, all at once. The first tripwire stops those still running.

    Raises:
        EffectError: a guardrail failed.
    """
    del attempt
    effect = request.effect
    invocation = Invocation.of(worker, effect)
    chosen = _chosen(invocation.input_guardrails(), effect.stage)
    given = as_input(effect.items, invocation)
    running = {
        asyncio.create_task(
            guarded(
                one.get_name(),
                partial(one.run, invocation.agent, given, invocation.wrapper),
                tripped=lambda result: result.output.tripwire_triggered,
            )
        ): one
        for one in chosen
    }
    records: list[GuardrailRecord] = []
    try:
        for finished in asyncio.as_completed(list(running)):
            result = await finished
            records.append(
                GuardrailRecord(
                    stage="input",
                    name=result.guardrail.get_name(),
                    agent=invocation.agent.name,
                    info=info_of(result.output.output_info),
                    tripped=result.output.tripwire_triggered,
                )
            )
            if records[-1].tripped:
                break
    except Exception as error:
        raise of_user_code(
            f"An input guardrail of agent {invocation.agent.name!r}", error
        ) from error
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return CheckResult(
        results=tuple(records),
        failure=tripwire(invocation, failures.INPUT_GUARDRAIL, "input", records),
        changes=invocation.changes(),
    )


def info_of(info: Any) -> Json:
    """Return what a guardrail tells of its check, as JSON; what is none is told as text."""
    try:
        return write_output(None, info)
    except Exception:  # noqa: BLE001  it is only for people to read
        return repr(info)[:1_000]


def as_input(items: Sequence[Item], invocation: Invocation) -> str | list[JsonObject]:
    """Return what a run is asked as guardrails get it: one plain text, or items."""
    raws = copies(item.raw for item in items)
    text = None if invocation.shows_items else only_text(raws)
    return raws if text is None else text


def _chosen(guardrails: Sequence[InputGuardrail[Any]], stage: str) -> list[InputGuardrail[Any]]:
    if stage == "added":
        return list(guardrails)
    return [one for one in guardrails if one.run_in_parallel == (stage == "parallel")]
