"""The timeline of a run: what it did, step by step, for people who watch it.

    timeline = Timeline()
    async for progress in handle.past():
        timeline.take(progress.event, progress.state)
    for step in timeline.steps:
        print(step.kind, step.name, step.took_ms)

A timeline is made from the run's events alone, so every reader has the same steps with the same
numbers. Steps hold no arguments, outputs or reasoning: they name the transcript items that do. Only
requests for a decision and summaries, which are no transcript items, come whole.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias, cast

from outlast.client.read.events import StreamedState
from outlast.contract import failures
from outlast.loop.actions import Action, SayAction
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.aside import aside_words
from outlast.loop.call_forms import name_of
from outlast.loop.calls import (
    AgentResult,
    Call,
    HandoffResult,
    ModelReply,
    Parked,
    ToolResult,
    ViewSummary,
)
from outlast.loop.case import case_words
from outlast.loop.checks import CheckResult, FinalizedAnswer, GuardrailRecord
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    CleanUp,
    CompactView,
    Effect,
    EffectAnswered,
    EffectFailed,
    FinalizeAnswer,
    KeepLineOpen,
    RunAgent,
    RunHandoff,
    RunTool,
)
from outlast.loop.events import (
    CancelRequested,
    Event,
    LineReplied,
    MessageReceived,
    PersonActed,
    RetryRequested,
    RunForked,
    RunStarted,
)
from outlast.loop.items import Item, Message, call_id_of, summary_text, text_of
from outlast.loop.run_changes import (
    AgentChanged,
    AttemptIgnored,
    CaseChanged,
    HoldReleased,
    HoldTaken,
    ItemSetAside,
    ItemsRecorded,
    NoticeUndelivered,
    QuestionAnswered,
    QuestionFailed,
    RequestUpdated,
    RunChange,
    RunFailed,
    WaitBegan,
    WaitEnded,
    run_changes,
)
from outlast.loop.state import CALL_KINDS, OUTPUT_KINDS, LoopState, Receipt
from outlast.loop.values import NO_USAGE, Failure, Json, Usage
from outlast.views.run import loop_state

StepKind: TypeAlias = Literal[
    "message",
    "model",
    "tool",
    "agent",
    "handoff",
    "guardrails",
    "summary",
    "line",
    "request",
    "wait",
    "takeover",
    "said",
    "release",
    "retry",
    "cancel",
    "answer",
    "failure",
    "set_aside",
    "case",
    "ignored",
    "unheard",
    "end",
]
"""What a step is. `agent` is the run of an agent that works as a tool, `guardrails` a check of the
input or of the answer, `summary` that of the older part of what the model reads, `line` a realtime line, `wait` a tool's wait for something outside of the run, `set_aside` an item that the model reads no more, or again, `case` what colleagues did with the conversation, `unheard` a notice that reached nobody, and `ignored`
an attempt of somebody that had no effect."""

MODEL_STEPS: Final[frozenset[StepKind]] = frozenset({"model", "summary"})
"""Kinds of steps that call a model of the run itself."""

_NOTHING: Final = "Nothing came in time."

StepStatus: TypeAlias = Literal["running", "waiting", "blocked", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The verdict of one guardrail.

    Attributes:
        stage: what it checked: the input, the answer, or the input or output of a tool.
        name: the guardrail.
        tripped: whether it stopped what it checked.
        behavior: the behavior that a tool guardrail chose; empty for others.
        info: what the guardrail reports.
    """

    stage: str
    name: str
    tripped: bool = False
    behavior: str = ""
    info: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a run.

    Attributes:
        number: its place in the timeline; it stays the same.
        kind: what it is.
        status: how far it is.
        at_ms: when it began, in milliseconds since the epoch.
        ended_ms: when it ended; None while it goes on. Moments end when they begin.
        agent: the agent that did it; empty for what people do.
        by: the person who did it, or who delivered what a wait is for; empty if nobody says.
        verified: whether the run says that a worker has checked that person's signature. Only a
            reader with keys knows: see `outlast.views.proofs`.
        name: the name of a tool, or of a wait; of a handoff and a release, the agent that goes on.
        text: the words of a person or the customer, a note, a summary as the model reads it, or why
            something had no effect.
        turn: the number of the model call for the answer.
        model: the model that replied, or wrote the summary.
        usage: the tokens and the cost of the model call, the summary or the nested run.
        calls: the names of the calls in a model's reply; of a wait, the tool that waits.
        until_ms: when a wait ends by itself; None for never.
        tried: the models in whose place the model is called, each with the reason.
        checks: the verdicts of guardrails.
        request: a request for a person's decision, with its votes and its outcome so far.
        failure: why the step failed.
        lacks: what every worker lacks that could carry the step out; empty if one can.
        nested_id: the run of an agent that works as a tool.
        entries: how many items of what the model reads a summary replaces.
        effect: the number of the step's effect, which its record in the history has; 0 for none.
        items: the transcript items of the step: those of a reply, or a call and its output.
        signed: what the person sent, with its signature, of a takeover, words, a release, or an
            item that was set aside; None if the history does not have it.
    """

    number: int
    kind: StepKind
    status: StepStatus = "done"
    at_ms: int
    ended_ms: int | None = None
    agent: str = ""
    by: str = ""
    verified: bool = False
    name: str = ""
    text: str = ""
    turn: int = 0
    model: str = ""
    usage: Usage = NO_USAGE
    calls: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    request: ApprovalRequest | None = None
    failure: Failure | None = None
    lacks: str = ""
    nested_id: str = ""
    entries: int = 0
    effect: int = 0
    items: tuple[int, ...] = ()
    until_ms: int | None = None
    tried: tuple[str, ...] = ()
    signed: Action | None = field(default=None, compare=False, repr=False)

    @property
    def took_ms(self) -> int | None:
        """How long it took, in milliseconds; None while it goes on."""
        return None if self.ended_ms is None else max(self.ended_ms - self.at_ms, 0)


@dataclass
class Timeline:
    """Makes the timeline of a run from its events.

    Attributes:
        steps: the steps so far, in the order in which they began. The list is changed in place:
            steps are replaced when they go on, and never removed.
        times: when each item of the transcript was written, in milliseconds since the epoch; 0 where
            the events do not say, as of items that a fork took along. A message counts from when it
            arrived, though the run may take it later.
    """

    steps: list[Step] = field(default_factory=list[Step])
    times: list[int] = field(default_factory=list[int])
    _state: LoopState = field(default_factory=LoopState)
    _effects: dict[int, int] = field(default_factory=dict[int, int])
    _calls: dict[str, tuple[int, int | None]] = field(
        default_factory=dict[str, tuple[int, int | None]]
    )
    _requests: dict[str, int] = field(default_factory=dict[str, int])
    _waits: dict[str, int] = field(default_factory=dict[str, int])
    _takeover: int | None = None

    def take_state(self, one: StreamedState) -> None:
        """Take the next state of the run, as `RunHandle.past` and `stream_states` yield them."""
        self.take(cast("Event | None", one.cause), loop_state(one.state))

    def take(self, event: Event | None, after: LoopState) -> None:
        """Take the next event of the run, and the state after it.

        Args:
            event: the event; None where a history begins.
            after: the state after it.
        """
        before, self._state = self._state, after
        at_ms = after.at_ms if event is None else event.at_ms
        self._take_words(event, before, after)
        if isinstance(event, EffectAnswered | EffectFailed) and event.effect in self._effects:
            pending = {effect.effect for effect in after.pending}
            if event.effect not in pending:  # a result of the wrong kind answers nothing
                self._end_effect(event, before, after)
        for change in run_changes(before, event, after):
            self._take_change(change, event, at_ms)
            if isinstance(change, ItemsRecorded):
                self._take_times(change, event, before, after)
        self._drop_waits(event, after, at_ms)
        self._take_effects(before, after, at_ms)
        if before.blocked is not after.blocked:
            self._take_blocked(after)
        self._take_end(before, after, at_ms)

    # --- Words and attempts of people -------------------------------------------------------------

    def _take_words(self, event: Event | None, before: LoopState, after: LoopState) -> None:
        match event:
            case RunStarted(message=Message() as message) | MessageReceived(message=message):
                self._take_message(message, event.at_ms, before, after)
            case LineReplied(message=message) if after is not before:
                self._take_message(message, event.at_ms, before, after)
                self._take_reply(event, before, after)
            case RetryRequested(at_ms=at_ms) if after is not before:
                self._add(kind="retry", at_ms=at_ms)
            case CancelRequested(at_ms=at_ms, mode=mode) if before.outcome is None:
                self._add(kind="cancel", at_ms=at_ms, name=mode)
            case PersonActed(action=SayAction(text=text)) if _said(after) > _said(before):
                self._add(
                    kind="said",
                    at_ms=event.at_ms,
                    by=event.person.subject,
                    text=text,
                    **_sent(event),
                )
            case _:
                pass

    def _take_message(
        self, message: Message, at_ms: int, before: LoopState, after: LoopState
    ) -> None:
        if after is before:
            return  # it was sent twice
        words = [text_of(raw) for raw in message.content if raw.get("role") == "user"]
        if message.content:
            self._add(kind="message", at_ms=at_ms, text="\n".join(filter(None, words)))

    def _take_reply(self, event: LineReplied, before: LoopState, after: LoopState) -> None:
        """Take a reply on a realtime line, which need not be the result of an effect."""
        if len(after.responses) > len(before.responses):
            number = self._add(kind="model", at_ms=event.at_ms, agent=before.agent or after.agent)
            self._put(number, turn=after.question.turn, **_of_reply(event.reply, before, after))

    # --- Effects ----------------------------------------------------------------------------------

    def _take_effects(self, before: LoopState, after: LoopState, at_ms: int) -> None:
        if after.pending is before.pending:
            return
        known = {effect.effect for effect in before.pending}
        for effect in after.pending:
            if effect.effect not in known and effect.effect not in self._effects:
                self._begin_effect(effect, after, at_ms)
        pending = {effect.effect for effect in after.pending}
        for gone in [number for number in self._effects if number not in pending]:
            self._put(self._effects.pop(gone), status="cancelled", ended_ms=at_ms)

    def _begin_effect(self, effect: Effect, after: LoopState, at_ms: int) -> None:
        fields: dict[str, Any] = {"at_ms": at_ms, "status": "running", "effect": effect.effect}
        match effect:
            case CallModel(agent=agent, turn=turn, tried=tried):
                number = self._add(
                    kind="model",
                    agent=agent,
                    turn=turn,
                    model=after.model,
                    tried=tuple(one.line for one in tried),
                    **fields,
                )
            case CleanUp():
                return
            case RunTool(agent=agent, name=name):
                number = self._add(kind="tool", agent=agent, name=name, **fields)
            case RunAgent(agent=agent, target=target, nested_id=nested_id):
                number = self._add(
                    kind="agent", agent=agent, name=target, nested_id=nested_id, **fields
                )
            case RunHandoff(agent=agent, target=target):
                number = self._add(kind="handoff", agent=agent, name=target, **fields)
            case CheckInput(agent=agent) as check:
                name = "answer" if check.stage == "said" else "input"
                number = self._add(kind="guardrails", agent=agent, name=name, **fields)
            case FinalizeAnswer(agent=agent):
                number = self._add(kind="guardrails", agent=agent, name="answer", **fields)
            case CompactView(agent=agent, entries=entries):
                number = self._add(kind="summary", agent=agent, entries=entries, **fields)
            case KeepLineOpen(label=label, line=line):
                number = self._add(kind="line", name=label or line, **fields)
            case _:
                return  # looking up the agent, saving, storing, notifying: not the run's work
        self._effects[effect.effect] = number
        if isinstance(effect, RunTool | RunAgent | RunHandoff):
            call, _ = self._calls.get(effect.call_id, (None, None))
            if call is not None:
                self._calls[effect.call_id] = (call, number)
                self._put(number, items=(call,))

    def _end_effect(
        self, event: EffectAnswered[Any] | EffectFailed, before: LoopState, after: LoopState
    ) -> None:
        number = self._effects.pop(event.effect)
        again = _going_on(event, after)
        if again is not None:
            self._effects[again] = number
            self._put(number, effect=again)
            return
        self._put(number, status="done", ended_ms=event.at_ms, lacks="")
        if isinstance(event, EffectFailed):
            was_cancelled = event.failure.code == failures.CANCELLED
            status = "cancelled" if was_cancelled else "failed"
            self._put(number, status=status, failure=None if was_cancelled else event.failure)
            return
        match event.result:
            case ModelReply() as reply:
                self._put(number, **_of_reply(reply, before, after))
            case CheckResult() | FinalizedAnswer() as checked:
                self._put(number, checks=_checks(checked.results))
                self._fail(number, checked.failure)
            case ToolResult(failed=failed, failure=failure, checks=checks, required=required):
                self._put(number, checks=_checks(checks))
                self._fail(number, failure)
                if required is not None:
                    self._put(number, status="cancelled", text=required.reason or "")
                elif failed:
                    self._put(number, status="failed")
            case AgentResult(status=status, failure=failure, usage=usage):
                self._put(number, usage=usage)
                self._fail(number, failure)
                if status == "cancelled":
                    self._put(number, status="cancelled")
            case ViewSummary() as summary:
                self._put(number, **_of_summary(summary, before))
                self._fail(number, summary.failure)
            case HandoffResult(target=target) if target:
                self._put(number, name=target)
            case _:
                pass

    def _fail(self, number: int, failure: Failure | None) -> None:
        if failure is not None:
            self._put(number, status="failed", failure=failure)

    def _take_blocked(self, after: LoopState) -> None:
        lacking = {one.effect: one.lacks for one in after.blocked}
        for effect, number in self._effects.items():
            lacks = lacking.get(effect, "")
            if lacks != self.steps[number].lacks:
                self._put(number, lacks=lacks, status="blocked" if lacks else "running")

    # --- Changes ----------------------------------------------------------------------------------

    def _take_change(  # noqa: C901, PLR0912  a row for each change
        self, change: RunChange, event: Event | None, at_ms: int
    ) -> None:
        match change:
            case ItemsRecorded(start=start, items=items):
                self._take_items(start, items, at_ms)
            case AgentChanged():
                self._take_agent(change, event, at_ms)
            case RequestUpdated(request=request):
                self._take_request(request, at_ms)
            case HoldTaken(by=by):
                self._end_takeover(at_ms)
                self._takeover = self._add(
                    kind="takeover", at_ms=at_ms, status="running", by=by, **_sent(event)
                )
            case HoldReleased(by=by):
                self._end_takeover(at_ms)
                self._take_release(by, event, at_ms)
            case QuestionAnswered(answer=answer, item=item):
                # What a person said is a step already.
                if item is None or item.turn or item.agent == answer.agent:
                    self._add(kind="answer", at_ms=at_ms, agent=answer.agent)
            case QuestionFailed(agent=agent, failure=failure) | RunFailed(agent, failure):
                self._add(
                    kind="failure", at_ms=at_ms, agent=agent, failure=failure, status="failed"
                )
            case AttemptIgnored(ignored=one):
                self._add(kind="ignored", at_ms=one.at_ms, name=one.what, text=one.why)
            case ItemSetAside(aside=one, back=back):
                known = () if one.item is None else (one.item,)
                self._add(
                    kind="set_aside",
                    at_ms=at_ms,
                    by=one.by,
                    text=aside_words(one, is_back=back),
                    items=known,
                    **_sent(event),
                )
            case CaseChanged(before=was, after=case):
                if text := case_words(was, case):
                    by = event.person.subject if isinstance(event, PersonActed) else ""
                    self._add(kind="case", at_ms=at_ms, by=by, text=text, **_sent(event))
            case WaitBegan(call=call, parked=parked):
                self._begin_wait(call, parked)
            case WaitEnded(receipt=receipt):
                self._end_wait(receipt)
            case NoticeUndelivered(notice=one):
                self._add(kind="unheard", at_ms=at_ms, name=one.event, text=one.why)
            case _:
                pass

    def _take_items(self, start: int, items: Sequence[Item], at_ms: int) -> None:
        for at, item in enumerate(items, start):
            if item.kind in CALL_KINDS:
                self._calls[call_id_of(item.raw)] = (at, None)
            elif item.kind in OUTPUT_KINDS:
                self._take_output(at, item, at_ms)
            elif item.kind == "other" and str(item.raw.get("type", "")).endswith("_call"):
                kind = str(item.raw["type"]).removesuffix("_call")
                self._add(kind="tool", at_ms=at_ms, agent=item.agent, name=kind, items=(at,))

    def _take_times(
        self, change: ItemsRecorded, event: Event | None, before: LoopState, after: LoopState
    ) -> None:
        waiting = {message.id for message in after.inbox}
        own = getattr(event, "message", None)
        new = (own,) if isinstance(own, Message) else ()
        taken = (one for one in (*before.inbox, *new) if one.id not in waiting)
        arrived = iter([one.at_ms for one in taken for _ in one.content])
        at_ms = 0 if event is None or isinstance(event, RunForked) else event.at_ms
        self.times += [0] * (change.start - len(self.times))
        self.times[change.start :] = [
            next(arrived, 0) or at_ms if item.kind == "input" else at_ms for item in change.items
        ]

    def _take_output(self, at: int, item: Item, at_ms: int) -> None:
        call, step = self._calls.pop(call_id_of(item.raw), (None, None))
        if call is None:
            return
        if step is not None:
            self._put(step, items=(call, at))
        elif item.kind == "tool_output":
            # Nothing carried it out: a person or a guardrail rejected it, or there is no such tool.
            self._add(
                kind="tool",
                at_ms=at_ms,
                agent=item.agent,
                name=name_of(self._state.items[call].raw),
                status="cancelled",
                items=(call, at),
            )

    def _take_agent(self, change: AgentChanged, event: Event | None, at_ms: int) -> None:
        is_release = isinstance(event, PersonActed)
        if not change.before or is_release:
            return
        if isinstance(event, EffectAnswered) and isinstance(event.result, HandoffResult):
            return  # its effect is a step
        self._add(kind="handoff", at_ms=at_ms, agent=change.before, name=change.agent)

    def _take_request(self, request: ApprovalRequest, at_ms: int) -> None:
        number = self._requests.get(request.id)
        if number is None:
            number = self._requests[request.id] = self._add(
                kind="request",
                at_ms=request.requested_at_ms or at_ms,
                agent=request.agent,
                name=request.name,
            )
        is_pending = request.status == "pending"
        self._put(
            number,
            request=request,
            status="waiting" if is_pending else "done",
            ended_ms=None if is_pending else request.decided_at_ms or at_ms,
            by=request.settled_by or "",
        )

    def _begin_wait(self, call: Call, parked: Parked) -> None:
        earlier = self._waits.get(call.call_id)
        if earlier is not None:  # somebody lets it wait as long again, or it waits for the next
            again = self.steps[earlier].name == parked.wait.name
            status, text = ("failed", _NOTHING) if again else ("done", "")
            self._put(earlier, status=status, ended_ms=parked.since_ms, text=text, until_ms=None)
        self._waits[call.call_id] = self._add(
            kind="wait",
            status="waiting",
            at_ms=parked.since_ms,
            agent=self._state.agent,
            name=parked.wait.name,
            calls=(call.name,),
            until_ms=parked.ends_ms,
        )

    def _end_wait(self, receipt: Receipt) -> None:
        number = self._waits.get(receipt.call_id)
        if number is not None and self.steps[number].name == receipt.name:
            del self._waits[receipt.call_id]
        else:  # it came before the call waits for it, perhaps while it waits for something else
            number = self._add(
                kind="wait",
                at_ms=receipt.at_ms,
                agent=self._state.agent,
                name=receipt.name,
                calls=(receipt.tool,),
            )
        self._put(
            number,
            status="failed" if receipt.timed_out else "done",
            ended_ms=receipt.at_ms,
            by=receipt.source,
            text=_NOTHING if receipt.timed_out else "",
            until_ms=None,
        )

    def _drop_waits(self, event: Event | None, after: LoopState, at_ms: int) -> None:
        """End the waits of calls that do not wait any more: the tool has looked for itself, or not."""
        if not self._waits:
            return
        parked = {call.call_id for call in after.calls if call.outside is not None}
        for call_id in [one for one in self._waits if one not in parked]:
            number = self._waits.pop(call_id)
            has_looked = isinstance(event, EffectAnswered | EffectFailed)
            status = "done" if has_looked else "cancelled"
            self._put(number, status=status, ended_ms=at_ms, until_ms=None)

    def _end_takeover(self, at_ms: int) -> None:
        if self._takeover is not None:
            self._put(self._takeover, status="done", ended_ms=at_ms)
            self._takeover = None

    def _take_release(self, by: str, event: Event | None, at_ms: int) -> None:
        note, to = "", self._state.agent
        if isinstance(event, PersonActed):
            note = getattr(event.action, "note", "")
        if self._state.outcome is None:
            self._add(kind="release", at_ms=at_ms, by=by, text=note, name=to, **_sent(event))

    def _take_end(self, before: LoopState, after: LoopState, at_ms: int) -> None:
        if after.outcome is None or before.outcome is not None:
            return
        self._end_takeover(at_ms)
        for number in self._effects.values():
            self._put(number, status="cancelled", ended_ms=at_ms)
        self._effects.clear()
        is_failure = after.outcome in {"failed", "terminated"}
        self._add(
            kind="end",
            at_ms=at_ms,
            name=after.outcome,
            status="failed" if is_failure else "done",
            failure=after.failure if is_failure else None,
        )

    # --- Steps ------------------------------------------------------------------------------------

    def _add(self, *, status: StepStatus = "done", at_ms: int, **fields: Any) -> int:
        number = len(self.steps)
        is_moment = status not in {"running", "waiting", "blocked"}
        ended_ms = at_ms if is_moment else None
        self.steps.append(
            Step(number=number, status=status, at_ms=at_ms, ended_ms=ended_ms, **fields)
        )
        return number

    def _put(self, number: int, **fields: Any) -> None:
        self.steps[number] = replace(self.steps[number], **fields)


def _sent(event: Event | None) -> dict[str, Any]:
    """Return the fields of a step with what a person has sent, and whether the run took it as proven."""
    if not isinstance(event, PersonActed):
        return {}
    return {"verified": event.verified, "signed": event.action}


def _said(state: LoopState) -> int:
    return 0 if state.hold is None else len(state.hold.said)


def _checks(results: Iterable[GuardrailRecord]) -> tuple[Check, ...]:
    return tuple(
        Check(
            stage=one.stage,
            name=one.name,
            tripped=one.tripped,
            behavior=str((one.behavior or {}).get("type", "")),
            info=one.info,
        )
        for one in results
    )


def _of_summary(summary: ViewSummary, before: LoopState) -> dict[str, Any]:
    """Return what a summary says about its step; without one, the view stays as it is."""
    by_model = summary.usage != NO_USAGE
    return {
        "status": "done" if summary.items else "cancelled",
        "model": summary.model or (before.model if by_model else ""),
        "usage": summary.usage,
        "text": summary_text(summary.items),
    }


def _going_on(event: EffectAnswered[Any] | EffectFailed, after: LoopState) -> int | None:
    """Return the effect that goes on with a model call, whose reply the provider makes."""
    result = event.result if isinstance(event, EffectAnswered) else None
    if not isinstance(result, ModelReply) or result.begun is None:
        return None
    calls = (one for one in after.pending if isinstance(one, CallModel))
    return next((one.effect for one in calls if one.begun == result.begun), None)


def _of_reply(reply: ModelReply, before: LoopState, after: LoopState) -> dict[str, Any]:
    """Return what a reply says about its step."""
    recorded = range(len(before.items), len(after.items))
    of_reply = [at for at in recorded if after.items[at].turn]
    calls = (name_of(after.items[at].raw) for at in of_reply if after.items[at].kind in CALL_KINDS)
    found: dict[str, Any] = {
        "model": reply.model or before.model,
        "usage": reply.usage,
        "calls": tuple(calls),
        "checks": _checks(reply.checks),
        "items": tuple(of_reply),
    }
    if reply.failure is not None:
        found |= {"status": "failed", "failure": reply.failure}
    if reply.withheld:  # a request to stop the run came first
        found |= {"status": "cancelled"}
    return found
