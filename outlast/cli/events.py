"""The events of a run, as lines for people and records for programs.

The names are those of `RunHandle.stream_events`; each event also has a time. There are two more
kinds: the failure of a question, and ignored input.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, assert_never

from outlast.agents.items.call_outputs import said_by
from outlast.agents.items.stream_events import AgentUpdatedStreamEvent, RunItemStreamEvent
from outlast.client.stream import (
    ApprovalStreamEvent,
    NumberedEvent,
    StatusStreamEvent,
    changes,
)
from outlast.contract.blobs import readable
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.call_forms import arguments_of, name_of
from outlast.loop.items import Item, call_id_of, text_of
from outlast.loop.state import LoopState
from outlast.loop.values import Failure, JsonObject
from outlast.rendering import call_line


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """Something that happened in a run.

    Attributes:
        at_ms: the time, in milliseconds since the epoch.
        type: the name of the stream event.
        who: the agent or person who did it.
        text: one line for people; empty if the event is only for programs.
        data: the content for programs.
        answers: whether the event is an answer.
    """

    at_ms: int
    type: str
    who: str
    text: str = ""
    data: JsonObject = field(default_factory=dict[str, Any])
    answers: bool = False

    def record(self) -> JsonObject:
        """Return the event as a line of JSON lines."""
        return {"type": self.type, "at": iso_time(self.at_ms), "who": self.who, **self.data}


def iso_time(at_ms: int) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def run_events(at_ms: int, before: LoopState, after: LoopState) -> Iterator[RunEvent]:
    """Yield the events between two consecutive states, in order.

    Args:
        at_ms: the time, in milliseconds since the epoch.
        before: the state before an event of the loop.
        after: the state after it.
    """
    answers = [answer for answer in after.answers[len(before.answers) :] if answer.item is not None]
    answered = {id(after.items[answer.item]) for answer in answers if answer.item is not None}
    # Decisions come before their consequences.
    for change in sorted(changes(before, after, 0), key=lambda one: not _is_decision(one)):
        match change:
            case RunItemStreamEvent():
                final = id(change.entry) in answered
                yield _item(at_ms, change.name, change.entry, answers=final)
            case AgentUpdatedStreamEvent():
                yield _agent_updated(at_ms, before.agent, change.new_agent.name)
            case ApprovalStreamEvent():
                yield _approval(at_ms, change.request)
            case StatusStreamEvent():
                yield from _failures(at_ms, before, after)
                closed = after.outcome is not None
                yield RunEvent(
                    at_ms=at_ms,
                    type="status",
                    who="outlast",
                    text=change.status if closed else "",
                    data={"status": change.status},
                )
            case _:
                assert_never(change)
    if after.status == before.status:
        yield from _failures(at_ms, before, after)
    if after.ignored != before.ignored:  # only the newest are kept, so do not compare lengths
        one = after.ignored[-1]
        data = {"what": one.what, "why": one.why}
        text = f"{one.what}: {one.why}"
        yield RunEvent(at_ms=at_ms, type="ignored", who="outlast", text=text, data=data)


def _is_decision(change: NumberedEvent) -> bool:
    return isinstance(change, ApprovalStreamEvent) and change.request.decision is not None


def _item(at_ms: int, name: str, item: Item, *, answers: bool) -> RunEvent:
    raw: JsonObject = readable(item.raw)
    text, who = "", item.agent
    data: JsonObject = {"turn": item.turn}
    match item.kind:
        case "input":
            text, who = text_of(raw), str(raw.get("role", "user"))
            data = {"text": text}
        case "message":
            text = text_of(raw)
            data |= {"text": text, "answers": answers}
        case "tool_call" | "handoff_call":
            call, arguments = name_of(raw), arguments_of(raw)
            text = call_line(call, arguments) if item.kind == "tool_call" else ""
            data |= {"name": call, "call_id": call_id_of(raw), "arguments": arguments}
        case "tool_output" | "handoff_output":
            output = raw.get("output")
            text = f"{said_by(raw)}" if item.kind == "tool_output" else ""
            data |= {"call_id": call_id_of(raw), "output": output}
        case "history" | "reasoning" | "other":
            data |= {"item_type": raw.get("type")}
    return RunEvent(at_ms=at_ms, type=name, who=who, text=text, data=data, answers=answers)


def _agent_updated(at_ms: int, before: str, agent: str) -> RunEvent:
    return RunEvent(
        at_ms=at_ms,
        type="agent_updated",
        who=before or agent,
        text=f"hands over to {agent}" if before else "",
        data={"agent": agent},
    )


def _approval(at_ms: int, request: ApprovalRequest) -> RunEvent:
    decision = request.decision
    data = {
        "approval": request.id,
        "status": request.status,
        "tool": request.name,
        "arguments": request.arguments,
        "args_digest": request.args_digest,
        "reason": request.reason,
    }
    if decision is None:
        waits = request.status == "pending"
        text = f"waits for a person ({request.id})" if waits else f"{request.id} {request.status}"
        return RunEvent(at_ms=at_ms, type="approval", who=request.agent, text=text, data=data)
    message = f": {decision.message}" if decision.message else ""
    return RunEvent(
        at_ms=at_ms,
        type="approval",
        who=decision.by or "somebody",
        text=f"{request.status} {request.id}{message}",
        data={**data, "by": decision.by, "message": decision.message},
    )


def _failures(at_ms: int, before: LoopState, after: LoopState) -> Iterator[RunEvent]:
    """Yield the failure of a question, or of the start of the run."""
    failed: list[tuple[str, Failure]] = [
        (answer.agent, answer.failure)
        for answer in after.answers[len(before.answers) :]
        if answer.failure is not None
    ]
    if not failed and after.failure is not None and after.failure != before.failure:
        failed = [(after.agent, after.failure)]
    for agent, failure in failed:
        data = {"code": failure.code, "message": failure.message}
        yield RunEvent(at_ms=at_ms, type="failed", who=agent, text=failure.message, data=data)
