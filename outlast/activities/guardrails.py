"""Runs the guardrails of a check at once, and records what each of them found."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from outlast.activities.inner_spans import guarded
from outlast.agents.guardrails.guardrail import (
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
)
from outlast.agents.schemas.agent_output import write_output
from outlast.loop.checks import GuardrailRecord, GuardrailStage
from outlast.loop.values import Json

Guardrail = InputGuardrail[Any] | OutputGuardrail[Any]
Result = InputGuardrailResult | OutputGuardrailResult


async def run_guardrails(
    checks: Sequence[tuple[Guardrail, Callable[[], Awaitable[Result]]]],
    *,
    stage: GuardrailStage,
    agent: str,
    output: Json = None,
    stop_at_error: bool,
) -> tuple[list[GuardrailRecord], Exception | None]:
    """Run guardrails at once. The first tripwire cancels those still running.

    Args:
        checks: the guardrails, and how each is called.
        stage: what they look at.
        agent: the name of the agent that they belong to.
        output: the output that they look at, as JSON.
        stop_at_error: whether an exception of one cancels the others, too.

    Returns:
        A record for each guardrail that completed, in the order in which they did, and the first
        exception that one raised.
    """
    running = [
        asyncio.create_task(guarded(guardrail.get_name(), check, tripped=_is_tripped))
        for guardrail, check in checks
    ]
    records: list[GuardrailRecord] = []
    error: Exception | None = None
    try:
        for finished in asyncio.as_completed(running):
            try:
                result = await finished
            except Exception as raised:  # noqa: BLE001  the caller decides what it means
                error = error or raised
                if stop_at_error:
                    break
                continue
            record = GuardrailRecord(
                stage=stage,
                name=result.guardrail.get_name(),
                agent=agent,
                info=info_of(result.output.output_info),
                tripped=_is_tripped(result),
                output=output,
            )
            records.append(record)
            if record.tripped:
                break
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return records, error


def info_of(info: Any) -> Json:
    """Return a guardrail's `output_info` as JSON, or as text where it is no JSON."""
    try:
        return write_output(None, info)
    except Exception:  # noqa: BLE001  it is only for people to read
        return repr(info)[:1_000]


def _is_tripped(result: Result) -> bool:
    return result.output.tripwire_triggered
