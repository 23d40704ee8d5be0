"""Output guardrails of realtime agents: they check the transcript while the model speaks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.guardrails.guardrail import OutputGuardrail, OutputGuardrailResult
from outlast.agents.guardrails.output_info import write_info
from outlast.agents.logs import get_logger
from outlast.loop.checks import GuardrailRecord
from outlast.realtime.agents import RealtimeAgent

logger: Final = get_logger(__name__)

DEBOUNCE = 100
"""How many characters of an answer pass between two checks."""


@dataclass
class SpeechChecks:
    """Decides when a growing answer is checked: each time it has `debounce` more characters."""

    debounce: int = DEBOUNCE
    _texts: dict[str, str] = field(default_factory=dict[str, str])
    _checked: dict[str, int] = field(default_factory=dict[str, int])

    def grow(self, item_id: str, delta: str) -> str | None:
        """Add to an answer; return its text so far if it is to be checked now."""
        text = self._texts.get(item_id, "") + delta
        self._texts[item_id] = text
        done = self._checked.get(item_id, 0)
        if len(text) < (done + 1) * self.debounce:
            return None
        crossed = len(text) // self.debounce if self.debounce > 0 else 1
        self._checked[item_id] = max(done + 1, crossed)
        return text

    def forget(self) -> None:
        """Begin anew: the response has ended."""
        self._texts.clear()
        self._checked.clear()


async def tripped(
    guardrails: Sequence[OutputGuardrail[Any]],
    context: RunContextWrapper[Any],
    agent: RealtimeAgent[Any],
    text: str,
) -> list[OutputGuardrailResult]:
    """Return the results of the guardrails that refuse a text; a failing one ends no call."""
    found: list[OutputGuardrailResult] = []
    for guardrail in guardrails:
        try:
            result = await guardrail.run(context, agent, text)
        except Exception:  # user code must not end a call
            name = guardrail.get_name()
            logger.exception("the output guardrail %r failed on a call and is skipped", name)
            continue
        if result.output.tripwire_triggered:
            found.append(result)
    return found


def records_of(
    results: Sequence[OutputGuardrailResult], agent: str, text: str
) -> tuple[GuardrailRecord, ...]:
    """Return the records of results, for the run."""
    written = [(result, write_info(result.output.output_info)) for result in results]
    return tuple(
        GuardrailRecord(
            stage="output",
            name=result.guardrail.get_name(),
            agent=agent,
            info=info,
            info_type=info_type,
            tripped=True,
            output=text,
        )
        for result, (info, info_type) in written
    )
