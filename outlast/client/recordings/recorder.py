"""Folds the events of a run into a recording."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from outlast.client.recordings.recording import Entry, EntryKind, RecordedStart, Recording
from outlast.contract.names import SETTINGS_OF_TRACE, ListedStatus
from outlast.contract.records import read, write
from outlast.loop.approvals import (
    REDACTED,
    ApprovalRequest,
    ApprovalTerms,
    Decision,
    Evidence,
    Vote,
)
from outlast.loop.call_forms import FORMS, form_of, is_call, name_of
from outlast.loop.calls import AgentResult, ModelReply, ToolResult
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    CompactView,
    Effect,
    EffectAnswered,
    EffectFailed,
    FinalizeAnswer,
    PrepareRun,
    RunAgent,
    RunHandoff,
    RunTool,
)
from outlast.loop.events import (
    CancelRequested,
    Event,
    LineAttached,
    LineReplied,
    MessageReceived,
    MessageWithdrawn,
    PersonActed,
    RetryRequested,
    RunEnded,
    RunForked,
    RunStarted,
    TimePassed,
    ValueDelivered,
)
from outlast.loop.human_actions import row_of
from outlast.loop.items import Item
from outlast.loop.run_changes import (
    QuestionAnswered,
    QuestionFailed,
    RequestCreated,
    RequestUpdated,
    RunFailed,
    StatusChanged,
    run_changes,
)
from outlast.loop.state import LoopState
from outlast.loop.values import Json, JsonObject
from outlast.views.redaction import Redaction, redaction_of_requests

LEFT_OUT: Final = frozenset({*SETTINGS_OF_TRACE, "session", "hooks", "as_tool"})
"""Settings that belong to the process or the trace of the run, and not to what it decides."""

_APPROVED: Final = frozenset({"approved", "edited"})
_OF_EFFECTS: Final = ("agent", "name", "target", "call_id", "arguments")

KIND_OF: Final[dict[type[Any], EntryKind]] = {
    PrepareRun: "prepared",
    CallModel: "model",
    RunTool: "tool",
    RunAgent: "agent",
    RunHandoff: "handoff",
    CheckInput: "input_check",
    FinalizeAnswer: "answer_check",
    CompactView: "summary",
}


@dataclass
class Recorder:
    """Makes a recording of a run's events, each taken with the state after it."""

    state: LoopState = field(default_factory=LoopState)
    entries: list[Entry] = field(default_factory=list[Entry])
    starts_late: bool = False
    _context: Json = None
    _question: int = 0
    _has_begun: bool = False

    def take(self, event: Event | None, state: LoopState, lost: str = "") -> None:
        """Take an event; None where a history begins, with the lost one before it, if any."""
        before, self.state = self.state, state
        if event is None:
            self.starts_late |= state.phase != "new" and not self._has_begun
            if lost:
                question = len(state.answers)
                self.entries.append(Entry(kind="lost", at_ms=0, question=question, id=lost))
                self._question = question
            return
        if isinstance(event, RunForked):
            self.starts_late = True  # its first messages are those of another run
        if isinstance(event, RunStarted):
            self._context, self._has_begun = event.context, True
        self.entries += self._of_event(event, before)
        if isinstance(event, EffectAnswered) and isinstance(event.result, ToolResult):
            self._take_unproven(event.result)
        self.entries += self._of_changes(event, before)
        self._question = len(state.answers)

    def _take_unproven(self, result: ToolResult) -> None:
        """Note that the newest delivery for a wait did not count, as its worker found later."""
        if not result.unproven or result.wait is None:
            return
        for at in reversed(range(len(self.entries))):
            one = self.entries[at]
            if one.kind == "delivery" and one.name == result.wait.name:
                self.entries[at] = replace(one, verified=False)
                return

    def _take_votes(self, request: ApprovalRequest) -> None:
        """Note what people have decided about a request so far."""
        votes: list[Json] = [one.decision.by or "somebody" for one in request.standing_votes]
        is_approved = request.status in _APPROVED and request.decision is not None
        for at, one in enumerate(self.entries):
            if one.kind == "request" and one.id == request.id:
                self.entries[at] = replace(one, value=votes or None, approved=is_approved)

    def recording(self, execution_id: str = "") -> Recording:
        """Return what there is so far; `execution_id` is that of the run's newest execution."""
        state = self.state
        settings, rating = state.start.settings or {}, state.case.rating
        return Recording(
            run_id=state.run_id,
            execution_id=execution_id,
            status=cast("ListedStatus", state.status),
            complete=state.outcome is not None,
            starts_late=self.starts_late,
            start=RecordedStart(
                agent=state.handoff_path[0] if state.handoff_path else state.agent,
                context=self._context,
                context_type=state.start.context_type,
                max_turns=state.start.max_turns,
                keep_open=state.start.keep_open,
                handled=state.start.handled,
                settings={k: v for k, v in settings.items() if k not in LEFT_OUT} or None,
            ),
            entries=tuple(self.entries),
            rating=None if rating is None else {"score": rating.score, "text": rating.text},
            hidden=state.redacted,
        )

    # --- Events -----------------------------------------------------------------------------------

    def _of_event(self, event: Event, before: LoopState) -> Iterator[Entry]:
        place: dict[str, Any] = {
            "at_ms": event.at_ms,
            "question": self._question,
            "turn": before.question.turn,
        }
        match event:
            case RunStarted(message=message) | MessageReceived(message=message):
                if message is not None:
                    yield Entry(
                        kind="message",
                        **place,
                        id=message.id,
                        name=message.mode,
                        items=message.content,
                    )
            case EffectAnswered() | EffectFailed():
                effect = next((one for one in before.pending if one.effect == event.effect), None)
                if effect is not None:
                    yield from _of_effect(effect, event, before)
            case PersonActed():
                yield from _of_action(event, before)
            case ValueDelivered():
                tools = (one.name for one in before.calls if one.call_id == event.call_id)
                yield Entry(
                    kind="delivery",
                    **place,
                    target=next(tools, ""),
                    call_id=event.call_id,
                    name=event.name,
                    value=event.value,
                    by=event.source,
                    verified=event.verified is not False,
                )
            case TimePassed() if _has_effect(before, self.state):
                yield Entry(kind="time", **place)
            case LineAttached() | LineReplied():
                yield _of_line(event, place)
            case _:
                yield from _of_request(event, place)

    def _of_changes(self, event: Event, before: LoopState) -> Iterator[Entry]:
        after, at_ms, question = self.state, event.at_ms, self._question
        turn = after.question.turn
        for change in run_changes(before, event, after):
            match change:
                case RequestUpdated(request=one, changes=changes):
                    if not any(isinstance(made, RequestCreated) for made in changes):
                        self._take_votes(one)
                    else:
                        asked: JsonObject = {"kind": one.kind, "terms": write(one.terms)}
                        yield Entry(
                            kind="request",
                            at_ms=at_ms,
                            question=question,
                            turn=turn,
                            agent=one.agent,
                            name=one.name,
                            call_id=one.call_id,
                            arguments=one.arguments,
                            id=one.id,
                            result=asked | ({"reason": one.reason} if one.reason else {}),
                        )
                case QuestionAnswered(answer=answer):
                    yield Entry(
                        kind="answer",
                        at_ms=at_ms,
                        question=question,
                        agent=answer.agent,
                        value=after.final_output,
                    )
                case QuestionFailed(agent, failure) | RunFailed(agent, failure):
                    yield Entry(
                        kind="answer", at_ms=at_ms, question=question, agent=agent, failure=failure
                    )
                case StatusChanged(status=status) if after.outcome is not None:
                    failed = status in {"failed", "terminated"}
                    yield Entry(
                        kind="end",
                        at_ms=at_ms,
                        question=len(after.answers),
                        name=status,
                        by="server" if isinstance(event, RunEnded) else "",
                        failure=after.failure if failed else None,
                    )
                case _:
                    pass


def _of_request(event: Event, place: dict[str, Any]) -> Iterator[Entry]:
    match event:
        case CancelRequested(mode=mode):
            yield Entry(kind="cancel", **place, name=mode)
        case RetryRequested():
            yield Entry(kind="retry", **place)
        case MessageWithdrawn(message_id=message_id):
            yield Entry(kind="withdraw", **place, id=message_id)
        case _:
            pass


def _of_line(event: LineAttached | LineReplied, place: dict[str, Any]) -> Entry:
    if isinstance(event, LineAttached):
        return Entry(kind="line", **place, name=event.label)
    return Entry(kind="line", **place, items=event.message.content, result=write(event.reply))


def _has_effect(before: LoopState, after: LoopState) -> bool:
    """Whether time changed more than the time of the newest event."""
    return replace(after, at_ms=before.at_ms) != before


def _of_effect(
    effect: Effect, event: EffectAnswered[Any] | EffectFailed, state: LoopState
) -> Iterator[Entry]:
    kind = KIND_OF.get(type(effect))
    if kind is None:
        return
    fields: dict[str, Any] = {name: getattr(effect, name, "") for name in _OF_EFFECTS}
    fields |= {
        "turn": getattr(effect, "turn", 0),
        "run_id": getattr(effect, "nested_id", ""),
        "approved": _is_approved(effect),
    }
    if isinstance(effect, CheckInput):
        fields["name"] = effect.stage
    made = Entry(kind=kind, at_ms=event.at_ms, question=len(state.answers), **fields)
    if isinstance(event, EffectFailed):
        yield replace(made, failure=event.failure)
        return
    result = event.result
    if isinstance(result, ModelReply) and (result.unchecked or result.begun is not None):
        return  # the model was not called, or has not replied yet
    if isinstance(result, ToolResult) and _has_not_run(result):
        return
    if isinstance(result, AgentResult) and result.required is not None:
        return
    yield replace(made, result=None if result is None else write(result))


def _is_approved(effect: Effect) -> bool:
    """Whether people have approved a call, with a decision about it or with a remembered one."""
    evidence = getattr(effect, "evidence", None)
    return isinstance(evidence, Evidence) and bool(evidence.decisions)


def _has_not_run(result: ToolResult) -> bool:
    """Whether a call runs again for a reason of its worker: see the fields."""
    return result.deferred or result.required is not None or bool(result.unproven)


def _of_action(event: PersonActed[Any], state: LoopState) -> Iterator[Entry]:
    row = row_of(event.action)
    if row.name == "claim":
        return  # changes nothing of what the run does
    payload = write(event.action)
    for private in ("proof", "seen", "args_digest", "idempotency_key"):
        payload.pop(private, None)  # they belong to this run, and count in no other
    made = Entry(
        kind="action",
        at_ms=event.at_ms,
        question=len(state.answers),
        turn=state.question.turn,
        name=row.name,
        result=payload,
        by=event.person.subject,
        verified=event.verified,
    )
    if isinstance(event.action, Decision):
        asked = next(
            (one for one in state.pending_approvals if one.id == event.action.request_id), None
        )
        if asked is None or asked.run_id or asked.kind == "worker":
            return
        made = replace(made, agent=asked.agent, target=asked.name, call_id=asked.call_id)
    yield made


# --- Redaction -----------------------------------------------------------------------------------


def redacted(recording: Recording) -> Recording:
    """Return a recording without what the policies of the run's requests hide, as the desk does."""
    redaction = redaction_in(recording)
    if not redaction.arguments and not redaction.texts:
        return replace(recording, redacted=True)
    start = recording.start
    return replace(
        recording,
        redacted=True,
        start=replace(
            start,
            context=redaction.json(start.context),
            settings=cast("JsonObject | None", redaction.json(start.settings)),
        ),
        entries=tuple(_redacted(one, redaction) for one in recording.entries),
        rating=cast("JsonObject | None", redaction.json(recording.rating)),
    )


def redaction_in(recording: Recording) -> Redaction:
    """Return what a recorded run hides: its requests, and the run that it is nested in."""
    votes: dict[str, list[Vote]] = {}
    for one in recording.entries:
        if one.kind == "action" and one.name == "decide":
            decision = read(Decision, one.result)
            vote = Vote(decision=decision, at_ms=one.at_ms)
            votes.setdefault(decision.request_id, []).append(vote)
    requests = (_request_of(one, votes) for one in recording.entries if one.kind == "request")
    replies = (one for one in recording.entries if one.kind in {"model", "line"} and one.result)
    items = (
        Item("tool_call", raw, agent=one.agent)
        for one in replies
        for raw in cast("Any", one.result).get("items", ())
        if is_call(raw)
    )
    return redaction_of_requests(requests, items, recording.hidden)


def _request_of(entry: Entry, votes: Mapping[str, Sequence[Vote]]) -> ApprovalRequest:
    asked = entry.result or {}
    return ApprovalRequest(
        id=entry.id,
        call_id=entry.call_id,
        name=entry.name,
        agent=entry.agent,
        arguments=entry.arguments,
        args_digest="",
        terms=read(ApprovalTerms, asked.get("terms") or {}),
        requested_at_ms=entry.at_ms,
        votes=tuple(votes.get(entry.id, ())),
    )


def _redacted(entry: Entry, redaction: Redaction) -> Entry:
    arguments = entry.arguments
    if arguments and entry.kind in {"tool", "agent", "request"}:
        arguments = redaction.call(entry.agent, entry.name, arguments)
    result = entry.result
    if result is not None and entry.kind in {"model", "line"}:
        written = cast("list[JsonObject]", result.get("items", []))
        items = [_redacted_call(one, entry.agent, redaction) for one in written]
        plans = cast("list[JsonObject]", result.get("calls", []))
        calls = [_redacted_plan(one, items, entry, redaction) for one in plans]
        result = {**result, "items": items} | ({"calls": calls} if calls else {})
    elif result is not None and entry.kind == "action":
        hidden = redaction.arguments.get((entry.agent, entry.target), ())
        edited = result.get("edited_arguments")
        if isinstance(edited, dict):
            shown = {
                k: REDACTED if k in hidden else v for k, v in cast("JsonObject", edited).items()
            }
            result = {**result, "edited_arguments": shown}
    failure = entry.failure
    if failure is not None:
        details = cast("JsonObject | None", redaction.json(failure.details))
        failure = replace(failure, message=redaction.text(failure.message), details=details)
    return replace(
        entry,
        arguments=redaction.text(arguments),
        items=tuple(cast("JsonObject", redaction.json(one)) for one in entry.items),
        result=cast("JsonObject | None", redaction.json(result)),
        value=redaction.json(entry.value),
        failure=failure,
    )


def _redacted_call(raw: JsonObject, agent: str, redaction: Redaction) -> JsonObject:
    text = FORMS[form_of(raw)].text if is_call(raw) else ""
    if not text or not isinstance(raw.get(text), str):
        return raw
    return {**raw, text: redaction.call(agent, name_of(raw), str(raw[text]))}


def _redacted_plan(
    plan: JsonObject, items: list[JsonObject], entry: Entry, redaction: Redaction
) -> JsonObject:
    written = plan.get("arguments")
    if not isinstance(written, str):
        return plan
    return {
        **plan,
        "arguments": redaction.call(entry.agent, name_of(items[int(plan["item"])]), written),
    }


def canonical(arguments: str) -> str:
    """Return arguments in one spelling, so that equal ones have equal texts."""
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments
