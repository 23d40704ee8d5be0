"""The events of a run, as lines for people and records for programs.

The names are those of `RunHandle.stream_events`. More kinds are for the team: the failure of a
question, ignored input, takeovers, notes to the model, and answers that were not approved.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from operator import itemgetter
from typing import Any, Final

from outlast.agents.items.call_outputs import output_content
from outlast.client.read.events import InStream, item_name, status_event
from outlast.contract.blobs import readable
from outlast.edges.rendering import call_line, counted, iso_time, named, rough, shown_time
from outlast.loop.approvals import ApprovalRequest, Claim, RequestKind
from outlast.loop.aside import aside_words
from outlast.loop.call_forms import arguments_of, name_of
from outlast.loop.calls import Call, Parked, TriedModel
from outlast.loop.case import case_words
from outlast.loop.events import Event
from outlast.loop.items import INTERNAL_KINDS, Item, call_id_of, summary_text, text_of
from outlast.loop.run_changes import (
    AgentChanged,
    ArgumentsChanged,
    AttemptIgnored,
    CaseChanged,
    ClaimChanged,
    Escalated,
    HoldReleased,
    HoldTaken,
    ItemSetAside,
    ItemsShown,
    ModelReplaced,
    QuestionAnswered,
    QuestionFailed,
    Reminded,
    RequestChange,
    RequestCreated,
    RequestSettled,
    RequestUpdated,
    RunChange,
    RunFailed,
    StatusChanged,
    ViewCompacted,
    VoteCast,
    WaitBegan,
    WaitEnded,
    run_changes,
)
from outlast.loop.state import LoopState, Receipt, visible_item_count
from outlast.loop.values import JsonObject
from outlast.loop.votes import audience_text
from outlast.views.redaction import NOTHING, Redaction, redaction_of
from outlast.views.run import AnyState, loop_state
from outlast.views.words import with_parts

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
        place: which of the step's events in the run's stream it is, from 0; None if it is not there.
        item: the index of the transcript's item; None for what is no item.
    """

    at_ms: int
    type: str
    who: str
    text: str = ""
    data: JsonObject = field(default_factory=dict[str, Any])
    answers: bool = False
    place: int | None = None
    item: int | None = None

    def record(self) -> JsonObject:
        """Return the event as a line of JSON lines."""
        item = {} if self.item is None else {"item": self.item}
        return {
            "type": self.type,
            "at": iso_time(self.at_ms),
            "who": self.who,
            **item,
            **self.data,
        }


def run_events(
    at_ms: int, before: AnyState, after: AnyState, by: Event | None = None
) -> Iterator[RunEvent]:
    """Yield the events between two consecutive states, in order and as people may see them.

    Args:
        at_ms: the time.
        before: the state before.
        after: the state after.
        by: the event of the loop that led to it, if the reader has it.
    """
    hides = redaction_of(after)
    changes = _run_events(at_ms, loop_state(before), loop_state(after), by)
    return (redacted(event, hides) for event in changes)


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


def _run_events(
    at_ms: int, before: LoopState, after: LoopState, by: Event | None
) -> list[RunEvent]:
    changes = list(run_changes(before, by, after))
    answered = {id(change.item) for change in changes if isinstance(change, QuestionAnswered)}
    found: list[tuple[tuple[bool, bool], RunEvent]] = []
    places, first = count(), visible_item_count(before)
    for change in changes:
        for at, event in enumerate(_events_of(change, at_ms, after, answered), first):
            has_number = isinstance(change, InStream) and event.type not in INTERNAL_KINDS
            place = next(places) if has_number else None
            item = at if isinstance(change, ItemsShown) else None
            found.append((_order(change), replace(event, place=place, item=item)))
    return [event for _, event in sorted(found, key=itemgetter(0))]


def _order(change: RunChange) -> tuple[bool, bool]:
    """Return a sort key that puts what a person does before what follows: takeovers, decisions."""
    is_takeover = isinstance(change, HoldTaken | HoldReleased)
    is_decision = isinstance(change, RequestUpdated) and change.request.decision is not None
    return not is_takeover, not is_decision


def _events_of(  # noqa: C901, PLR0912  a row for each change
    change: RunChange, at_ms: int, after: LoopState, answered: set[int]
) -> Iterator[RunEvent]:
    match change:
        case ItemsShown(items=items):
            yield from (_item(at_ms, item, answers=id(item) in answered) for item in items)
        case AgentChanged(agent=agent, by=by):
            yield _agent_updated(at_ms, by, agent)
        case RequestUpdated():
            yield _approval(at_ms, change)
        case HoldTaken(by=by, before=""):
            text, data = "takes the conversation over", {"by": by}
            yield RunEvent(at_ms=at_ms, type="held", who=by, text=text, data=data)
        case HoldReleased(by=by):
            text = f"gives the conversation back to {after.agent}"
            data = {"by": by, "agent": after.agent}
            yield RunEvent(at_ms=at_ms, type="released", who=by, text=text, data=data)
        case QuestionFailed(agent=agent, failure=failure) | RunFailed(agent, failure):
            text, data = failure.message, {"code": failure.code, "message": failure.message}
            yield RunEvent(at_ms=at_ms, type="failed", who=agent, text=text, data=data)
        case ViewCompacted():
            yield _compacted(at_ms, change)
        case ItemSetAside():
            yield _set_aside(at_ms, change)
        case CaseChanged(before=was, after=case):
            if text := case_words(was, case):
                data = {"team": case.team, "to": case.to, "tags": list(case.tags)}
                yield RunEvent(at_ms=at_ms, type="case", who="outlast", text=text, data=data)
        case ModelReplaced(agent=agent, tried=tried, model=model):
            yield _model_replaced(at_ms, agent, tried, model)
        case WaitBegan(call=call, parked=parked):
            yield _wait_began(at_ms, after, call, parked)
        case WaitEnded(receipt=receipt):
            yield _wait_ended(receipt)
        case StatusChanged():
            yield _status(at_ms, change, after)
        case AttemptIgnored(ignored=one):
            text, data = f"{one.what}: {one.why}", {"what": one.what, "why": one.why}
            yield RunEvent(at_ms=at_ms, type="ignored", who="outlast", text=text, data=data)
        case _:
            pass


def _item(at_ms: int, item: Item, *, answers: bool) -> RunEvent:
    name = item.kind if item.kind in INTERNAL_KINDS else item_name(item)
    raw: JsonObject = readable(item.raw)
    text, who = "", item.agent
    data: JsonObject = {"turn": item.turn}
    match item.kind:
        case "input" | "note":
            text, who = text_of(raw), str(raw.get("role", "user"))
            data = {"text": text}
            text = with_parts(text, raw.get("content"))
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
            text = with_parts(text, output)
            if raw.get("type") == "mcp_approval_response":
                text = "approved" if output is True else str(raw.get("reason", "rejected"))
            data |= {"call_id": call_id_of(raw), "output": output}
        case "history" | "reasoning" | "other":
            data |= {"item_type": raw.get("type")}
    return RunEvent(at_ms=at_ms, type=name, who=who, text=text, data=data, answers=answers)


def _agent_updated(at_ms: int, by: str, agent: str) -> RunEvent:
    return RunEvent(
        at_ms=at_ms,
        type="agent_updated",
        who=by or agent,
        text=f"hands over to {agent}" if by else "",
        data={"agent": agent},
    )


def _compacted(at_ms: int, change: ViewCompacted) -> RunEvent:
    made, text = change.made, summary_text(change.items)
    tokens = made.usage.total_tokens
    by = [made.model] if made.model else []
    used = [*by, *([counted(tokens, "token")] if tokens else [])]
    line = f"the next model call reads a summary of {counted(made.entries, 'item')}"
    line += f" ({', '.join(used)})" if used else ""
    return RunEvent(
        at_ms=at_ms,
        type="compacted",
        who=made.agent,
        text=f"{line}: {text}" if text else line,
        data={
            "items": made.entries,
            "model": made.model,
            "tokens": tokens,
            "cost_micros": made.usage.cost_micros,
            "text": text,
        },
    )


def _set_aside(at_ms: int, change: ItemSetAside) -> RunEvent:
    one = change.aside
    return RunEvent(
        at_ms=at_ms,
        type="set_aside",
        who=one.by or "outlast",
        text=aside_words(one, is_back=change.back),
        data={
            "item": one.item,
            "part": one.part,
            "back": change.back,
            "by": one.by,
            "why": one.reason,
        },
    )


def _model_replaced(at_ms: int, agent: str, tried: TriedModel, model: str) -> RunEvent:
    asks = f"asks {named(model or 'the default model')} in place of {named(tried.line)}"
    data = {
        "model": model,
        "tried": tried.model,
        "reason": tried.reason,
        "message": tried.message,
    }
    text = f"{asks}: {tried.message}"
    return RunEvent(at_ms=at_ms, type="model_replaced", who=agent, text=text, data=data)


def _approval(at_ms: int, update: RequestUpdated) -> RunEvent:
    request, decision = update.request, update.request.decision
    data = {
        "approval": request.id,
        "status": request.status,
        "tool": request.name,
        "arguments": request.arguments,
        "args_digest": request.args_digest,
        "digest": request.digest,
        "reason": request.reason,
    }
    if decision is None:
        who, text = _undecided(update)
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


def _wait_began(at_ms: int, after: LoopState, call: Call, parked: Parked) -> RunEvent:
    until = "" if parked.ends_ms is None else f" until {shown_time(parked.ends_ms)}"
    return RunEvent(
        at_ms=at_ms,
        type="wait",
        who=after.agent,
        text=f"waits for {named(parked.wait.name)}{until} ({named(call.name)})",
        data={
            "tool": call.name,
            "call_id": call.call_id,
            "waits_for": parked.wait.name,
            "until": None if parked.ends_ms is None else iso_time(parked.ends_ms),
        },
    )


def _wait_ended(receipt: Receipt) -> RunEvent:
    """Return what came of a wait: a delivery, a person's value, or nothing in time."""
    name = named(receipt.name)
    text = f"nothing came for {name} in time" if receipt.timed_out else f"delivers {name}"
    return RunEvent(
        at_ms=receipt.at_ms,
        type="wait_ended",
        who="outlast" if receipt.timed_out else receipt.source or "somebody",
        text=text,
        data={
            "tool": receipt.tool,
            "call_id": receipt.call_id,
            "waits_for": receipt.name,
            "delivery_id": receipt.delivery_id,
            "source": receipt.source,
            "timed_out": receipt.timed_out,
        },
    )


def _undecided(update: RequestUpdated) -> tuple[str, str]:
    """Return who did something to a request without a decision, and a line about it."""
    request = update.request
    if request.status != "pending":
        return request.agent, f"{request.id} {request.status}"
    lines = {type(change): _line(request, change) for change in update.changes}
    told = (lines[kind] for kind in _TOLD if kind in lines)
    return next(told, ("outlast", ""))


_TOLD: Final[tuple[type[RequestChange], ...]] = (
    RequestCreated,
    VoteCast,
    ClaimChanged,
    Escalated,
    Reminded,
)
"""What one line tells of a request that waits: the first of these that happened."""


def _line(request: ApprovalRequest, change: RequestChange) -> tuple[str, str]:
    match change:
        case RequestCreated():
            return request.agent, f"waits for a person{_WAITS[request.kind]} ({request.id})"
        case VoteCast(vote=vote):
            count = f"{len(request.standing_votes)} of {request.terms.quorum} votes"
            verb = _VERBS.get(vote.decision.type, "votes for")
            return vote.decision.by or "somebody", f"{verb} {request.id}: {count}"
        case ClaimChanged(claim=Claim(by=by)):
            return by, f"works on {request.id}"
        case ClaimChanged(before=claim):
            return claim.by if claim else "", f"no longer works on {request.id}"
        case Escalated(steps=steps):
            whom = audience_text([step.audience for step in steps]) or "anybody"
            return "outlast", f"{request.id} is overdue: {whom} may decide, too"
        case Reminded():
            return "outlast", f"reminds people of {request.id}"
        case ArgumentsChanged() | RequestSettled():
            return "outlast", ""


def _status(at_ms: int, change: StatusChanged, after: LoopState) -> RunEvent:
    """Return a change of the status: with a line for people if the run is blocked, or has ended."""
    shown = status_event(after)
    kind, text = "status", ""
    data: JsonObject = {"status": change.status}
    if after.outcome is not None:
        text = change.status
    elif shown.blocked:
        kind, text = "blocked", shown.reason
        steps = [{"step": one.step, "lacks": one.lacks} for one in shown.blocked]
        data["blocked"] = steps
    elif change.was_blocked:
        kind, text = "unblocked", "A worker can go on: the run continues."
    return RunEvent(at_ms=at_ms, type=kind, who="outlast", text=text, data=data)
