"""Runs guardrails in parallel, and records the result of each."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from outlast.activities.inner_spans import traced_guardrail
from outlast.agents.guardrails.guardrail import (
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
)
from outlast.agents.guardrails.output_info import write_info
from outlast.loop.checks import GuardrailRecord, GuardrailStage
from outlast.loop.values import Json

Guardrail = InputGuardrail[Any] | OutputGuardrail[Any]
Result = InputGuardrailResult | OutputGuardrailResult
Check = tuple[Guardrail, Callable[[], Awaitable[Result]]]


async def run_guardrails(
    checks: Sequence[Check],
    *,
    stage: GuardrailStage,
    agent: str,
    output: Json = None,
    stop_at_error: bool,
) -> tuple[list[GuardrailRecord], Exception | None]:
    """Run guardrails in parallel. The first tripwire cancels those still running.

    With `stop_at_error`, an exception of one guardrail cancels the others, too.

    Returns:
        The records of the guardrails that completed, in order of completion, and the first
        exception that a guardrail raised.
    """
    running = [
        asyncio.create_task(traced_guardrail(guardrail.get_name(), check, tripped=_is_tripped))
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
            info, info_type = write_info(result.output.output_info)
            record = GuardrailRecord(
                stage=stage,
                name=result.guardrail.get_name(),
                agent=agent,
                info=info,
                info_type=info_type,
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


def _is_tripped(result: Result) -> bool:
    return result.output.tripwire_triggered
