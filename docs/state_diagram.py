"""Draws docs/state-diagram.md from the loop, by trying every event in every kind of state.

python docs/state_diagram.py            writes the page
python docs/state_diagram.py --check    fails when the page is not what the loop does
"""

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from outlast.loop.approvals import Decision
from outlast.loop.calls import Briefing, HandoffResult, ModelReply, PlannedCall, ToolResult
from outlast.loop.commands import CallModel, PrepareRun, RunHandoff, RunTool
from outlast.loop.events import (
    CancelRequested,
    DecisionReceived,
    EffectFailed,
    Event,
    HandoffFinished,
    MessageReceived,
    ModelReplied,
    RunPrepared,
    RunStarted,
    ToolFinished,
)
from outlast.loop.items import Message
from outlast.loop.machine import advance
from outlast.loop.state import RunState
from outlast.loop.values import Failure, JsonObject

PAGE = Path(__file__).parent / "state-diagram.md"
LONGEST = 9

INTRODUCTION = """# What a run goes through

Drawn from the loop by `make docs`: every event was tried in every kind of state that a run can get into. An event that is not shown
changes nothing, or not the phase.

"""

MEANING = """
| phase | what the run is doing |
|---|---|
| `preparing` | looking its first agent up |
| `thinking` | a model call is under way |
| `acting` | tools run, or people have to decide |
| `transferring` | the callback of a handoff runs |
| `idle` | a conversation waits for its next message |
| `closed` | completed, failed or cancelled |
"""


def main() -> int:
    """Write the page, or compare it."""
    page = INTRODUCTION + draw() + MEANING
    if "--check" in sys.argv:
        return 0 if PAGE.read_text() == page else 1
    PAGE.write_text(page)
    return 0


def draw() -> str:
    """Return the diagram in Mermaid."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> new"]
    edges: dict[tuple[str, str], set[str]] = defaultdict(set)
    for before, event, after in transitions():
        edges[before, after].add(event)
    for (before, after), events in sorted(edges.items()):
        lines.append(f"    {before} --> {after}: {', '.join(sorted(events))}")
    return "\n".join([*lines, "    closed --> [*]", "```", ""])


def transitions() -> set[tuple[str, str, str]]:
    """Return every change of phase that was found: (before, event, after)."""
    found: set[tuple[str, str, str]] = set()
    start = RunStarted(at_ms=0, run_id="r", agent="A", message=_message("m0"), max_turns=3)
    level = [RunState()]
    seen: set[str] = set()
    for depth in range(LONGEST):
        following: list[RunState] = []
        for state in level:
            starts = [start, _kept_open(start)]
            events = starts if state.phase == "new" else _events(state, depth)
            for event in events:
                after, _ = advance(state, event)
                if after.phase != state.phase:
                    found.add((state.phase, type(event).__name__, after.phase))
                if _kind(after) not in seen:
                    seen.add(_kind(after))
                    following.append(after)
        level = following
    return found


def _kept_open(start: RunStarted) -> RunStarted:
    return RunStarted(
        at_ms=0, run_id="r", agent="A", message=start.message, max_turns=3, keep_open=True
    )


def _events(state: RunState, depth: int) -> Iterator[Event]:
    for effect in state.pending:
        number = effect.effect
        failure = Failure(code="user_error", message="failed")
        yield EffectFailed(at_ms=0, effect=number, failure=failure)
        match effect:
            case PrepareRun():
                yield RunPrepared(at_ms=0, effect=number, briefing=Briefing())
            case CallModel():
                for reply in _replies():
                    yield ModelReplied(at_ms=0, effect=number, reply=reply)
            case RunTool():
                yield ToolFinished(at_ms=0, effect=number, result=ToolResult(output="x"))
            case RunHandoff():
                yield HandoffFinished(at_ms=0, effect=number, result=HandoffResult())
    for request in state.pending_approvals:
        yield DecisionReceived(at_ms=0, decision=Decision(request_id=request.id, type="approve"))
        yield DecisionReceived(at_ms=0, decision=Decision(request_id=request.id, type="reject"))
    yield MessageReceived(at_ms=0, message=_message(f"m{depth}"))
    yield CancelRequested(at_ms=0)
    yield CancelRequested(at_ms=0, mode="after_turn")


def _replies() -> Iterator[ModelReply]:
    yield ModelReply(items=({"type": "message", "role": "assistant", "content": "hello"},))
    yield ModelReply(items=({"type": "web_search_call"},), final="again")
    for plan in (
        PlannedCall(item=0, kind="tool"),
        PlannedCall(item=0, kind="tool", needs_approval=True),
        PlannedCall(item=0, kind="tool", fatal=True),
        PlannedCall(item=0, kind="unknown", problem="There is no such tool."),
        PlannedCall(item=0, kind="handoff", target="B"),
        PlannedCall(item=0, kind="handoff", target="B", callback=True),
    ):
        yield ModelReply(items=(_call("c"),), calls=(plan,))
    both = (
        PlannedCall(item=0, kind="tool"),
        PlannedCall(item=1, kind="handoff", target="B", callback=True),
    )
    yield ModelReply(items=(_call("c"), _call("d")), calls=both)


def _call(call_id: str) -> JsonObject:
    return {"type": "function_call", "call_id": call_id, "name": "t", "arguments": "{}"}


def _message(name: str) -> Message:
    return Message(name, ({"role": "user", "content": "hello"},))


def _kind(state: RunState) -> str:
    calls = [(call.status, call.plan.fatal, call.plan.callback) for call in state.calls]
    return repr((state.phase, state.keep_open, state.turn, calls, state.cancel, bool(state.inbox)))


if __name__ == "__main__":
    sys.exit(main())
