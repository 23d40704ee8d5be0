"""What a record does not say: recorded histories leave it out, so no default may ever change."""

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

from outlast import loop
from outlast.loop import effects

OTHERS: dict[str, Any] = {
    "AgentResult.status": "completed",
    "ClaimAction.minutes": 30,
    "ApprovalRequest.kind": "tool",
    "ApprovalTerms.on_expiry": "reject",
    "ApprovalTerms.quorum": 1,
    "ApprovalTerms.risk": "low",
    "ApprovalTerms.unverified": True,
    "ApprovalRequest.status": "pending",
    "Call.form": "function_call",
    "CleanUp.form": "function_call",
    "CancelRecord.mode": "immediate",
    "CancelRequested.mode": "immediate",
    "Budget.per": "run",
    "HoldAction.mode": "immediate",
    "Decision.remember_scope": "tool",
    "Decision.remember_until": "conversation",
    "FinalizedAnswer.final": True,
    "LoopState.next_effect": 1,
    "LoopState.phase": "new",
    "ModelReply.final": "text",
    "Notice.number": 1,
    "ExecutionOptions.attempts": 3,
    "ExecutionOptions.initial_interval_ms": 1_000,
    "ExecutionOptions.maximum_interval_ms": 30_000,
    "ExecutionOptions.timeout_ms": 120_000,
    "Question.starts": True,
    "Message.mode": "steer",
    "OutsideWait.on_timeout": "tool",
    "RunTool.form": "function_call",
    "Start.resolved_stays_ms": 3 * 24 * 60 * 60_000,
}
"""All other defaults are False, zero or empty."""


def defaults() -> Iterator[tuple[str, Any]]:
    """Yield the plain defaults of all records of the loop."""
    for module in pkgutil.iter_modules(loop.__path__, "outlast.loop."):
        for name, kind in vars(importlib.import_module(module.name)).items():
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                for field in dataclasses.fields(kind):
                    is_kind = field.name == "kind" and name != "ApprovalRequest"
                    if isinstance(field.default, bool | int | str) and not is_kind:
                        yield f"{name}.{field.name}", field.default


def test_what_a_record_does_not_say_stays_what_it_was() -> None:
    found = {name: value for name, value in defaults() if value and name != "TraceMark.question"}
    assert found == OTHERS


def test_every_effect_is_of_the_kind_that_is_recorded() -> None:
    recorded = {
        effects.CallModel: "call_model",
        effects.CheckInput: "check_input",
        effects.CleanUp: "clean_up",
        effects.CompactView: "compact_view",
        effects.FinalizeAnswer: "finalize_answer",
        effects.OffloadItems: "offload_items",
        effects.PrepareRun: "prepare_run",
        effects.RunAgent: "run_agent",
        effects.RunHandoff: "run_handoff",
        effects.RunTool: "run_tool",
        effects.SaveSession: "save_session",
    }
    for effect, name in recorded.items():
        (kind,) = (field for field in dataclasses.fields(effect) if field.name == "kind")
        assert kind.default == name
