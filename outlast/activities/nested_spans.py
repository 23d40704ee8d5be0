"""The call that a nested run answers, in the trace of the run that asks.

Owns: reading where that call belongs, and telling of it: it has no activity of its own. Must not
know: how effects are carried out, Temporal.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

from outlast.agents.config.run_config import DEFAULT_WORKFLOW_NAME
from outlast.contract.names import SETTING_AS_TOOL, TRACE
from outlast.loop.values import JsonObject
from outlast.tracing.effect_spans import (
    TraceScope,
    agent_span_id,
    effect_span_id,
    tell_effect_span,
    turn_span_id,
)
from outlast.tracing.kinds import FunctionSpanData, SpanError


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterPlace:
    """Where the call that a nested run answers belongs.

    Attributes:
        key: the question of the run that asks.
        root: the question of the outermost run.
        agent: the agent that asks.
        handovers: how often the run that asks had changed hands.
        turn: the turn that asks; 0 where it has no span.
        effect: the number of the call among that run's effects.
        task_name: what the nested run calls its work; None where it has no settings of its own.
        tool: the tool's name.
        arguments: the call's.
    """

    key: str
    root: str
    agent: str
    handovers: int
    turn: int
    effect: int
    task_name: str | None
    tool: str
    arguments: str

    @property
    def span_id(self) -> str:
        """The id of the call's span."""
        return effect_span_id(self.key, self.effect, 1, "function")

    def scope(self, nested: TraceScope) -> TraceScope:
        """Return where the call belongs, from where the nested run does."""
        return replace(
            nested,
            run_id=self.key,
            agent_span_id=agent_span_id(self.key, self.agent, self.handovers),
            turn_span_id=turn_span_id(self.key, self.turn) if self.turn else None,
        )

    def tell(
        self,
        nested: TraceScope,
        *,
        started_at_ms: int,
        output: str | None = None,
        error: SpanError | None = None,
    ) -> None:
        """Tell of the call, which is over.

        Args:
            nested: where the run that answers it belongs.
            started_at_ms: when that run began.
            output: what it came to.
            error: why it failed, if it did.
        """
        data = FunctionSpanData(self.tool, self.arguments, output)
        tell_effect_span(
            self.scope(nested), data, effect=self.effect, started_at_ms=started_at_ms, error=error
        )


def outer_place(settings: JsonObject | None) -> OuterPlace | None:
    """Return where the call belongs that a run answers, where the run of that call is traced."""
    told: Any = (settings or {}).get(SETTING_AS_TOOL)
    if not isinstance(told, dict):
        return None
    call = cast("JsonObject", told)
    place: JsonObject | None = call.get(TRACE)
    if not isinstance(place, dict):
        return None
    is_named = "task" in place
    return OuterPlace(
        key=str(place.get("key")),
        root=str(place.get("root")),
        agent=str(call.get("agent")),
        handovers=int(place.get("handovers", 0)),
        turn=int(place.get("turn", 0)),
        effect=int(place.get("effect", 0)),
        task_name=str(place["task"] or DEFAULT_WORKFLOW_NAME) if is_named else None,
        tool=str(call.get("tool")),
        arguments=str(call.get("arguments")),
    )
