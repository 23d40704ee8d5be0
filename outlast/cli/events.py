"""The events of a run, as lines for people and records for programs.

The names are those of `RunHandle.stream_events`. More kinds are for the team: the failure of a
question, ignored input, takeovers, notes to the model, and answers that were not approved.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, assert_never

from outlast.agents.items.call_outputs import output_content
from outlast.agents.items.stream_events import AgentUpdatedStreamEvent, RunItemStreamEvent
from outlast.cli.durations import iso_time, rough
from outlast.client.read.events import (
    ApprovalStreamEvent,
    NumberedEvent,
    StatusStreamEvent,
    changes,
)
from outlast.contract.blobs import readable
from outlast.contract.redaction import NOTHING, Redaction, redaction_of
from outlast.loop.approvals import ApprovalRequest, RequestKind
from outlast.loop.call_forms import arguments_of, name_of
from outlast.loop.items import INTERNAL_KINDS, Item, call_id_of, text_of
from outlast.loop.state import LoopState
from outlast.loop.values import Failure, JsonObject
from outlast.loop.votes import audience_text
from outlast.rendering import call_line

_WAITS: Final[dict[RequestKind, str]] = {
    "tool": "",
    "handoff": "",
    "output": " to approve its answer",
    "budget": ": a budget is used up",
    "worker": ": no worker can carry it out",
}
"""What a request waits for, where it is not the call in the line above."""

_VERBS: Final = {"edit": "changes the arguments of", "withdraw": "withdraws their votes for"}

_WRITTEN: Final = frozenset({"text", "arguments", "output", "message", "why", "blocked"})
"""The data that others have written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """Something that happened in a run.

    Attributes:
        type: the name of the stream event.
        who: the agent or person who did it.
        text: one line for people; empty if the event is only for programs.
        data: the content for programs.
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


def run_events(at_ms: int, before: LoopState, after: LoopState) -> Iterator[RunEvent]:
    """Yield the events between two consecutive states, in order and as people may see them."""
    hides = redaction_of(after)
    return (redacted(event, hides) for event in _run_events(at_ms, before, after))


def redacted(event: RunEvent, hides: Redaction) -> RunEvent:
    """Return an event as people may see it."""
    if hides == NOTHING:
        return event
    data, text = event.data, event.text
    if {"call_id", "arguments"} <= data.keys():
        arguments = hides.call(event.who, data["name"], data["arguments"])
        data = {**data, "arguments": arguments}
        text = call_line(data["name"], arguments) if text else ""
    written = {name: hides.json(value) for name, value in data.items() if name in _WRITTEN}
    return replace(event, text=hides.text(text), data={**data, **written})


def _run_events(at_ms: int, before: LoopState, after: LoopState) -> Iterator[RunEvent]:
    earlier = {request.id: request for request in before.approvals}
    yield from _takeover(at_ms, before, after)
    answers = [answer for answer in after.answers[len(before.answers) :] if answer.item is not None]
    answered = {id(after.items[answer.item]) for answer in answers if answer.item is not None}
    status: StatusStreamEvent | None = None
    # Decisions come before their consequences.
    for change in sorted(changes(before, after, 0, internal=True), key=decisions_first):
        match change:
            case RunItemStreamEvent():
                final = id(change.entry) in answered
                internal = change.entry.kind in INTERNAL_KINDS
                name = change.entry.kind if internal else change.name
                yield _item(at_ms, name, change.entry, answers=final)
            case AgentUpdatedStreamEvent():
                by = before.hold.by if before.hold is not None else before.agent
                yield _agent_updated(at_ms, by, change.new_agent.name)
            case ApprovalStreamEvent():
                yield _approval(at_ms, earlier.get(change.request.id), change.request)
            case StatusStreamEvent():
                status = change
            case _:
                assert_never(change)
    yield from _failures(at_ms, before, after)
    if status is not None:
        yield _status(at_ms, status, before=before, after=after)
    if after.ignored != before.ignored:  # only the newest are kept, so do not compare lengths
        one = after.ignored[-1]
        data = {"what": one.what, "why": one.why}
        text = f"{one.what}: {one.why}"
        yield RunEvent(at_ms=at_ms, type="ignored", who="outlast", text=text, data=data)


def decisions_first(change: NumberedEvent) -> bool:
    """Return a sort key that puts decisions before their consequences."""
    return not (isinstance(change, ApprovalStreamEvent) and change.request.decision is not None)


def _item(at_ms: int, name: str, item: Item, *, answers: bool) -> RunEvent:
    raw: JsonObject = readable(item.raw)
    text, who = "", item.agent
    data: JsonObject = {"turn": item.turn}
    match item.kind:
        case "input" | "note":
            text, who = text_of(raw), str(raw.get("role", "user"))
            data = {"text": text}
        case "message":
            text = text_of(raw)
            by_person = {} if item.turn else {"by_person": True}
            data |= {"text": text, "answers": answers, **by_person}
        case "draft":
            data |= {"text": text_of(raw)}
            text = f"(not approved) {text_of(raw)}"
        case "tool_call" | "handoff_call":
            call, arguments = name_of(raw), arguments_of(raw)
            text = call_line(call, arguments) if item.kind == "tool_call" else ""
            data |= {"name": call, "call_id": call_id_of(raw), "arguments": arguments}
        case "tool_output" | "handoff_output":
            output = raw.get("output", raw.get("approve"))
            text = f"{output_content(raw)}" if item.kind == "tool_output" else ""
            if raw.get("type") == "mcp_approval_response":
                text = "approved" if output is True else str(raw.get("reason", "rejected"))
            data |= {"call_id": call_id_of(raw), "output": output}
        case "history" | "reasoning" | "other":
            data |= {"item_type": raw.get("type")}
    return RunEvent(at_ms=at_ms, type=name, who=who, text=text, data=data, answers=answers)


def _takeover(at_ms: int, before: LoopState, after: LoopState) -> Iterator[RunEvent]:
    if before.hold is None and after.hold is not None:
        who, text = after.hold.by, "takes the conversation over"
        yield RunEvent(at_ms=at_ms, type="held", who=who, text=text, data={"by": who})
    if before.hold is not None and after.hold is None:
        who, text = before.hold.by, f"gives the conversation back to {after.agent}"
        data = {"by": who, "agent": after.agent}
        yield RunEvent(at_ms=at_ms, type="released", who=who, text=text, data=data)


def _agent_updated(at_ms: int, before: str, agent: str) -> RunEvent:
    return RunEvent(
        at_ms=at_ms,
        type="agent_updated",
        who=before or agent,
        text=f"hands over to {agent}" if before else "",
        data={"agent": agent},
    )


def _approval(at_ms: int, before: ApprovalRequest | None, request: ApprovalRequest) -> RunEvent:
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
        who, text = _undecided(before, request)
        return RunEvent(at_ms=at_ms, type="approval", who=who, text=text, data=data)
    message = f": {decision.message}" if decision.message else ""
    waited_ms = (request.decided_at_ms or at_ms) - request.requested_at_ms
    waited = rough(timedelta(milliseconds=waited_ms))
    return RunEvent(
        at_ms=at_ms,
        type="approval",
        who=decision.by or "somebody",
        text=f"{request.status} {request.id} after {waited}{message}",
        data={**data, "by": decision.by, "message": decision.message, "waited_ms": waited_ms},
    )


def _undecided(before: ApprovalRequest | None, request: ApprovalRequest) -> tuple[str, str]:
    if request.status != "pending":
        return request.agent, f"{request.id} {request.status}"
    if before is None:
        return request.agent, f"waits for a person{_WAITS[request.kind]} ({request.id})"
    if len(request.votes) > len(before.votes):
        decision = request.votes[-1].decision
        count = f"{len(request.standing_votes)} of {request.terms.quorum} votes"
        verb = _VERBS.get(decision.type, "votes for")
        return decision.by or "somebody", f"{verb} {request.id}: {count}"
    if request.claim != before.claim:
        if request.claim is not None:
            return request.claim.by, f"works on {request.id}"
        return before.claim.by if before.claim else "", f"no longer works on {request.id}"
    if request.escalated > before.escalated:
        steps = request.terms.escalations[before.escalated : request.escalated]
        whom = audience_text([step.audience for step in steps]) or "anybody"
        return "outlast", f"{request.id} is overdue: {whom} may decide, too"
    is_reminder = request.reminders > before.reminders
    return "outlast", f"reminds people of {request.id}" if is_reminder else ""


def _status(
    at_ms: int, change: StatusStreamEvent, *, before: LoopState, after: LoopState
) -> RunEvent:
    kind, text = "status", ""
    data: JsonObject = {"status": change.status}
    if after.outcome is not None:
        text = change.status
    elif change.blocked:
        kind, text = "blocked", change.reason
        steps = [{"step": one.step, "lacks": one.lacks} for one in change.blocked]
        data["blocked"] = steps
    elif before.blocked:
        kind, text = "unblocked", "A worker can go on: the run continues."
    return RunEvent(at_ms=at_ms, type=kind, who="outlast", text=text, data=data)


def _failures(at_ms: int, before: LoopState, after: LoopState) -> Iterator[RunEvent]:
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
