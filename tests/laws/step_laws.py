"""What holds of every step of every run. `Play` in `driver` checks it after every event."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from types import NoneType
from typing import Any

from outlast.contract.blobs import is_plain
from outlast.contract.effects import EffectRequest, request_of
from outlast.contract.refusals import refusal_of
from outlast.contract.stages import Stage, StageBegun, StageChange
from outlast.loop import outside
from outlast.loop.actions import (
    CaseAction,
    ClaimAction,
    HoldAction,
    ReleaseAction,
    SayAction,
    SetAsideAction,
)
from outlast.loop.approvals import Decision
from outlast.loop.calls import (
    AgentResult,
    HandoffResult,
    ModelReply,
    PreparedRun,
    ToolResult,
    ViewSummary,
)
from outlast.loop.canonical import same_person
from outlast.loop.case import Case
from outlast.loop.checks import CheckResult, FinalizedAnswer
from outlast.loop.effects import (
    CallModel,
    CancelEffect,
    CancelResponse,
    CheckInput,
    CleanUp,
    Command,
    CompactView,
    CountHours,
    Effect,
    EffectAnswered,
    EffectFailed,
    FinalizeAnswer,
    KeepLineOpen,
    NotifyAfterEnd,
    NotifyParent,
    NotifyPeople,
    OffloadItems,
    PrepareRun,
    RunAgent,
    RunHandoff,
    RunTool,
    SaveSession,
)
from outlast.loop.events import (
    BudgetLent,
    CancelRequested,
    ConversationRated,
    EffectBlocked,
    Event,
    LineAttached,
    LineReplied,
    MessageReceived,
    MessageWithdrawn,
    NestedReported,
    PersonActed,
    RetryRequested,
    RunEnded,
    RunForked,
    RunStarted,
    SignalUnreadable,
    TeamAnswered,
    TimePassed,
    ValueDelivered,
)
from outlast.loop.items import INTERNAL_KINDS, Message, call_id_of
from outlast.loop.news import notices
from outlast.loop.notices import NoticeReceipt
from outlast.loop.open_hours import HoursCounted
from outlast.loop.problems import line_problem
from outlast.loop.state import CALL_KINDS, LoopState, has_message, visible_item_count
from outlast.loop.stored import Offload, weight
from outlast.loop.values import JsonObject
from outlast.loop.view import shown, size
from outlast.loop.votes import is_repeated, next_due_ms

RESULT_OF: dict[type, type] = {
    PrepareRun: PreparedRun,
    CheckInput: CheckResult,
    CallModel: ModelReply,
    CancelResponse: NoneType,
    CompactView: ViewSummary,
    RunTool: ToolResult,
    CleanUp: ToolResult,
    RunAgent: AgentResult,
    RunHandoff: HandoffResult,
    FinalizeAnswer: FinalizedAnswer,
    SaveSession: NoneType,
    OffloadItems: Offload,
    KeepLineOpen: NoneType,
    NotifyPeople: NoticeReceipt,
    CountHours: HoursCounted,
}


def is_due(state: LoopState, at_ms: int) -> bool:
    """Whether time changes a request that waits, or ends a wait of a call."""
    times = [next_due_ms(one) for one in state.approvals if one.status == "pending"]
    times += [one.parked.due_ms for one in state.calls if one.parked is not None]
    times += [case_due_ms(state)]
    return any(at is not None and at <= at_ms for at in times)


def case_due_ms(state: LoopState) -> int | None:
    """When a conversation comes back or ends by itself, or a reply is nearly due, due, or promised."""
    case, clock = state.case, state.case.reply
    times = [case.snoozed_until_ms]
    if case.resolved_ms is not None:
        ends = case.resolved_ms + state.start.resolved_stays_ms
        times = [ends if is_at_rest(state) else None]
    if clock is not None:
        times += [None if clock.warned else clock.warn_ms, None if clock.late else clock.due_ms]
        times += [clock.back_ms if clock.away else None]
    return min((one for one in times if one is not None), default=None)


def is_at_rest(state: LoopState) -> bool:
    """Whether nobody waits for an answer of the agent, or of who has the conversation."""
    waits = state.inbox or state.unsaid or state.question.answering
    return state.phase in {"idle", "held"} and not waits


def _is_no_answer(state: LoopState, event: TeamAnswered) -> bool:
    case = state.case
    asked = case.waits and (event.team, event.report) == (case.team, case.report)
    speaker = state.hold.speaker if state.hold is not None else None
    taken = case.to and (case.snoozed_until_ms is not None or same_person(speaker or "", case.to))
    other = event.chain_id != state.start.chain_id
    if not asked or other or taken or state.phase == "closing":
        return True
    return (event.to, event.due_ms) == (case.to, case.due_ms)


def _changes_nothing(state: LoopState, action: CaseAction) -> bool:
    """Whether a person says again what is so."""
    case: Case = state.case
    match action.do:
        case "assign":
            same = (case.team, case.to) == (action.team, action.to)
            return same and case.waits == bool(case.team)
        case "comment":
            return action.comment_id in {one.id for one in case.comments}
        case "resolve":
            return case.resolved_ms is not None
        case "reopen":
            return case.resolved_ms is None and case.snoozed_until_ms is None
        case "snooze":
            return case.snoozed_until_ms == action.until_ms
        case "recount":
            return False
        case _:
            words = set(case.tags if action.do == "tag" else case.links)
            return (words | {*action.add}) - {*action.remove} == words


def was_taken(
    before: LoopState, after: LoopState, commands: Sequence[Command], event: Event
) -> bool:
    """Whether an event that came when something was due had an effect of its own.

    What is due happens first, and may end what the event is about.
    """
    match event:
        case MessageReceived(message=message):
            return has_message(after, message.id) and not has_message(before, message.id)
        case MessageWithdrawn(message_id=message_id):
            return has_message(before, message_id) and not has_message(after, message_id)
        case LineReplied():
            return len(after.responses) > len(before.responses)
        case LineAttached():
            return any(isinstance(one, KeepLineOpen) for one in commands)
        case _:
            stopped = [one.effect for one in commands if isinstance(one, CancelEffect)]
            pending = {one.effect: one for one in before.pending}
            number = getattr(event, "effect", None)
            # A result of the wrong kind counts as late, if what was due has stopped its effect.
            has_ended = all(one.effect != number for one in after.pending)
            answers = number in pending and (
                isinstance(event, EffectFailed) or is_answer(event, pending[number]) or has_ended
            )
            return answers and number not in stopped


def is_answer(event: Event, effect: Effect) -> bool:
    """Whether an event has the result of an effect of this kind."""
    return isinstance(event, EffectAnswered) and isinstance(event.result, RESULT_OF[type(effect)])


def is_inert(  # noqa: C901, PLR0911, PLR0912  a row for each event
    state: LoopState,
    outstanding: Mapping[int, Effect],
    accepted: Sequence[Message],
    event: Event,
) -> bool:
    """Whether an event answers nothing, or says nothing new. Told from outside of the loop."""
    if state.phase == "closed" or isinstance(event, RunStarted):
        return True
    if is_due(state, event.at_ms):
        return False
    match event:
        case SignalUnreadable() | TimePassed():
            return True
        case RetryRequested():
            last = state.answers[-1].failure if state.answers else None
            may_call = state.start.max_turns != 0
            at_rest = state.phase == "idle" and last is not None and may_call
            return not at_rest or event.answers != len(state.answers)
        case MessageReceived():
            return any(one.id == event.message.id for one in accepted)
        case PersonActed(action=Decision() as decision):
            repeated = is_repeated(state.approvals, decision)
            return repeated or refusal_of(state, event) is not None
        case (
            MessageWithdrawn()
            | PersonActed(action=ClaimAction() | ReleaseAction() | SetAsideAction())
        ):
            return refusal_of(state, event) is not None
        case PersonActed(action=HoldAction(to=to)):
            by = to or event.person.subject
            same = state.hold is not None and state.hold.by == by
            return same or refusal_of(state, event) is not None
        case PersonActed(action=SayAction(message_id=message_id)):
            said = () if state.hold is None else state.hold.said
            return message_id in said or refusal_of(state, event) is not None
        case PersonActed(action=CaseAction() as action):
            return refusal_of(state, event) is not None or _changes_nothing(state, action)
        case NestedReported():
            return not any(
                isinstance(one, RunAgent) and one.nested_id == event.nested_id
                for one in outstanding.values()
            )
        case TeamAnswered():
            return _is_no_answer(state, event)
        case ConversationRated():
            rating = state.case.rating
            same = rating is not None and (rating.score, rating.text) == (event.score, event.text)
            return same or refusal_of(state, event) is not None
        case BudgetLent():
            return all(one.lent != event.index for one in state.start.budgets)
        case LineAttached():
            lines = [one.line for one in outstanding.values() if isinstance(one, KeepLineOpen)]
            return lines == [event.line] or line_problem(state) is not None
        case LineReplied():
            return not takes_reply(state, outstanding, accepted, event)
        case CancelRequested() | RunEnded():
            return False
        case EffectFailed() | EffectBlocked():
            return event.effect not in outstanding
        case ValueDelivered():
            return refusal_of(state, event) is not None or outside.is_repeated(state, event)
        case PersonActed():
            raise AssertionError(f"{event.action} has no rule here")
        case RunForked():
            return False
        case _:
            effect = outstanding.get(event.effect)
            return effect is None or not is_answer(event, effect)


def takes_reply(
    state: LoopState,
    outstanding: Mapping[int, Effect],
    accepted: Sequence[Message],
    event: LineReplied,
) -> bool:
    """Whether a reply comes from the line of the run, and for the first time."""
    lines = [one.line for one in outstanding.values() if isinstance(one, KeepLineOpen)]
    is_new = all(one.response_id != event.reply.response_id for one in state.responses)
    is_unsaid = all(one.id != event.message.id for one in accepted)
    is_open = state.phase not in {"preparing", "closing", "closed"}
    return lines == [event.line] and is_new and is_unsaid and is_open


def check_nothing_happened(
    before: LoopState, after: LoopState, commands: Sequence[Command], event: Event
) -> None:
    assert commands == (), f"{event} has no effect, but the loop asks for {commands}"
    if after is before:
        return
    assert before.phase != "closed", "a closed run has changed"
    noted = (
        PersonActed,
        MessageWithdrawn,
        SignalUnreadable,
        RetryRequested,
        LineReplied,
        ValueDelivered,
    )
    assert isinstance(event, noted), f"{event} changed the run"
    assert after.ignored != before.ignored
    for name in LoopState.__dataclass_fields__:
        same = getattr(after, name) is getattr(before, name)
        assert same or name in {"ignored", "at_ms", "nonces"}, f"{event} changed {name}"


def check_messages(
    state: LoopState, accepted: Sequence[Message], opened: PreparedRun | None
) -> None:
    """Every message is kept once, and those shown to the model are in the transcript, in order.

    Where the worker made the model's input of the first message, that is what stands for it.
    """
    opening: tuple[JsonObject, ...] = ()
    if opened is not None and opened.input is not None:
        known = set(opened.old)
        opening = opened.input
        old = [at for at in range(len(opening)) if at in known]
        kinds = ["history" if at in known else "input" for at in range(len(opening))]
        assert [one.kind for one in state.items[: len(opening)]] == kinds
        assert [state.items[at].raw for at in old] == [opening[at] for at in old]
        opening = tuple(raw for at, raw in enumerate(opening) if at not in known)
        first, *others = accepted
        accepted = [replace(first, content=()), *others]
    else:
        assert all(one.kind != "history" for one in state.items)
    by_id = {one.id: one for one in accepted}
    answered = [name for answer in state.answers for name in answer.to]
    taken = [*answered, *state.question.answering]
    assert sorted([*taken, *(one.id for one in state.inbox)]) == sorted(by_id), "a message is lost"
    assert state.inbox == tuple(one for one in accepted if one.id not in taken), "out of order"
    for mode in (
        "queue",
        "steer",
    ):  # one that waits for an answer is overtaken by those that do not
        of_mode = [one.id for one in accepted if (one.mode == "queue") == (mode == "queue")]
        assert [one for one in taken if one in of_mode] == [one for one in of_mode if one in taken]
    inputs = [item.raw for item in state.items if item.kind == "input"]
    assert inputs == [*opening, *(raw for name in taken for raw in by_id[name].content)]


def check_readers(before: LoopState, after: LoopState) -> None:
    """What users have read stays as it was; drafts and notes are not for them.

    Reasoning is read before guardrails block the answer after it. An agent with output guardrails
    requires the step `check_output`: without it, the run does not know that an answer could be
    blocked. What a line's model says while a worker's call is under way is of the same turn, so it
    may be held back with it.
    """
    if sum(one.turn == after.turns for one in after.responses) > 1:
        return
    blocked = any(one.stage == "output" and one.tripped for one in after.question.guardrails)
    if blocked and "check_output" not in before.required_steps:
        return
    earlier, later = (
        [
            item.kind if item.kind == "reasoning" else item
            for item in state.items[: visible_item_count(state)]
            if item.kind not in INTERNAL_KINDS
        ]
        for state in (before, after)
    )
    assert later[: len(earlier)] == earlier, "what users have read has changed"


def check_items(before: LoopState, after: LoopState) -> None:
    """No item is lost, and none changes but the newest turn's when its answer is withheld."""
    kept = after.items[: len(before.items)]
    assert len(kept) == len(before.items), "an item was lost"
    changed = [
        (at, old, new)
        for at, (old, new) in enumerate(zip(before.items, kept, strict=True))
        if old is not new
        and old != new
        and is_plain(new.raw)  # what is not refers to content that is stored outside
    ]
    assert not changed or before.phase in {"finalizing", "asking"}, "an item has changed"
    assert before.phase != "asking" or len(changed) <= 1, "a person changes the answer only"
    for at, old, new in changed:
        waits = before.gate is not None and before.gate.item == at  # a handler's is of no turn
        assert waits or old.turn == before.turns, "an item of an earlier turn has changed"
        # An answer that nobody approves; nobody is asked any more while the run is to stop.
        gated = before.phase == "asking" or before.cancel is not None
        becomes_draft = gated and (old.kind, new.kind) == ("message", "draft")
        assert old.kind == new.kind or becomes_draft
        assert (old.agent, old.turn) == (new.agent, new.turn if not waits else old.turn)
        assert old.raw.get("call_id") == new.raw.get("call_id")
        assert new.kind not in CALL_KINDS


def check_calls(state: LoopState) -> None:
    """Every call has one output after it and no more; calls being acted on have none yet."""
    open_calls: list[str] = []
    for item in state.items:
        if item.kind in {"tool_call", "handoff_call"}:
            open_calls.append(call_id_of(item.raw))
        elif item.kind in {"tool_output", "handoff_output"}:
            assert call_id_of(item.raw) in open_calls, "an output without a call"
            open_calls.remove(call_id_of(item.raw))
    assert sorted(open_calls) == sorted(
        call.call_id for call in state.calls if call.status != "recorded"
    )
    running = [call for call in state.calls if call.status == "running"]
    assert state.question.parallel is None or len(running) <= state.question.parallel, (
        "too many calls run at once"
    )


def check_approvals(before: LoopState, after: LoopState) -> None:
    prefix = after.start.parent.prefix if after.start.parent else ""
    assert [one.id for one in after.approvals[: len(before.approvals)]] == [
        one.id for one in before.approvals
    ]
    could_end = {one.request.id for one in before.blocked if one.request is not None}
    for number, new in enumerate(after.approvals[len(before.approvals) :], len(before.approvals)):
        if new.kind == "worker":
            assert (new.id in could_end, new.status) == (True, "rejected")
            assert all(one.request is None or one.request.id != new.id for one in after.blocked)
        else:
            assert new.id == f"{prefix}a{number + 1}"
    for old, new in zip(before.approvals, after.approvals, strict=False):
        assert old.status == "pending" or new == old, "a settled approval has changed"
    nested = {one.nested_id for one in after.pending if isinstance(one, RunAgent)}
    assert {one.nested_id for one in after.nested} <= nested, "a nested run is over and still asks"


def check_reports(state: LoopState, commands: Sequence[Command]) -> None:
    """The parent knows what is waited for here and further down, and nobody else is told."""
    told = [one for one in commands if isinstance(one, NotifyParent)]
    if state.start.parent is None:
        assert told == []
        return
    assert all(one.parent == state.start.parent.run_id for one in told)
    waiting = [
        one if one.run_id else replace(one, run_id=state.run_id) for one in state.pending_approvals
    ]
    assert list(told[-1].record.requests if told else ()) == waiting, (
        "the parent knows something else"
    )
    deliveries = state.deliveries if state.status == "parked" else ()
    assert (told[-1].record.waits if told else ()) == deliveries, "the parent knows another wait"
    for earlier, later in pairwise(told):
        news = (later.record.requests, later.record.waits)
        assert (earlier.record.requests, earlier.record.waits) != news, (
            "the parent was told the same thing twice"
        )


def check_notices(before: LoopState, after: LoopState, commands: Sequence[Command]) -> None:
    """Every notice is on its way until it is delivered, also where its delivery is stopped."""
    if not after.notifies_later:
        return
    at_ms = 0
    sent = [
        (one.event, one.request and one.request.id)
        for command in commands
        if isinstance(command, NotifyPeople | NotifyAfterEnd)
        for one in command.notices
    ]
    stopped = {one.effect for one in commands if isinstance(one, CancelEffect)}
    known = {
        one.effect: one for one in (*before.pending, *commands) if isinstance(one, NotifyPeople)
    }
    due = [*notices(before, after, at_ms)]
    due += [one for effect in stopped & known.keys() for one in known[effect].notices]
    for one in due:
        sent.remove((one.event, one.request and one.request.id))
    assert after.phase != "closed" or not any(
        isinstance(one, NotifyPeople) for one in after.pending
    )


def check_saves(
    before: LoopState, state: LoopState, issued: Sequence[Effect], opened: PreparedRun | None
) -> None:
    """What the session is asked to save are pieces of the transcript, in order, none twice.

    What it has already, from where the run began, it does not get again. Everything else it gets,
    but for the turn of a question that failed, or that somebody stopped at once, and for what
    input guardrails did not pass.
    """
    saves = [one for one in issued if isinstance(one, SaveSession)]
    assert not saves or state.start.session
    for one in (*saves[-1:], *state.saving.to_save):
        assert len(set(one.dropped)) == len(one.dropped), "an item is dropped twice"
        assert all(one.start <= at < one.stop for at in one.dropped), "dropped, but not saved"
        kept = [at for at in range(one.start, one.stop) if at not in one.dropped]
        assert sorted(one.order) in ([], kept), "the order is of other items"
    # One that failed is asked for again.
    ranges = list(dict.fromkeys((one.start, one.stop) for one in saves))
    ranges += [
        (one.start, one.stop) for one in state.saving.to_save if (one.start, one.stop) not in ranges
    ]
    assert all(start < stop <= state.saving.queued_up_to for start, stop in ranges)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(ranges)), "saved twice"
    known = set(opened.old) if opened is not None and opened.input is not None else set[int]()
    sent = {
        at
        for one in (*saves, *state.saving.to_save)
        for at in range(one.start, one.stop)
        if at not in one.dropped
    }
    assert sent.isdisjoint(known), "the session has it already"
    assert state.saving.queued_up_to <= len(state.items)
    given_up = any(one.failure for one in state.answers[len(before.answers) :])
    is_stopped = "cancelled" in {state.outcome, state.closing}
    if state.start.session and not given_up and not is_stopped:
        got = {at for start, stop in ranges for at in range(start, stop)} | known
        got |= set(state.hidden)
        if state.blocked_from is not None:  # guardrails did not pass it
            got |= set(range(state.blocked_from, len(state.items)))
        for first, stop in before.answered_unchecked:  # or may not pass it any more
            got |= {at for at in range(first, stop) if state.items[at].kind == "input"}
        assert set(range(before.saving.queued_up_to, state.saving.queued_up_to)) <= got, (
            "something is not saved"
        )


def check_tool_users(state: LoopState) -> None:
    """The agents that called tools for the question are known, each once."""
    asked = state.items[state.question.replies_from :]
    users = dict.fromkeys(item.agent for item in asked if item.kind == "tool_call")
    assert state.question.tool_users == tuple(users)


def check_unchecked(state: LoopState) -> None:
    """What input guardrails have not passed begins with an input item."""
    start = state.question.unchecked_from
    assert start is None or state.items[start].kind == "input", "nothing is unchecked there"


def check_storage(state: LoopState) -> None:
    """Where there is a store, the run knows how much content is not there yet."""
    kept = state.items[state.storage.offloaded :]
    assert not state.storage.stores or state.storage.inline == weight(kept), "not weighed"


def check_view(state: LoopState) -> None:
    """Nothing is shown twice, and nothing that is said later is left out, unless a filter did it."""
    segments = [one for one in state.view.segments if not isinstance(one, dict)]
    assert all(start < stop <= state.view.rest for start, stop in segments)
    assert state.view.rest <= len(state.items)
    places = [at for start, stop in segments for at in range(start, stop)]
    assert len(set(places)) == len(places), "something is shown twice"
    assert len(shown(state.view, state.items, len(state.items))) == size(
        state.view, len(state.items)
    )


def check_requests(state: LoopState, requests: dict[int, EffectRequest[Any]]) -> None:
    """What an effect asks is the same whenever it is asked, for as long as it is pending."""
    for effect in state.pending:
        if isinstance(effect, CompactView):  # of the same items, some of them stored meanwhile
            continue
        request = request_of(state, effect)
        assert requests.setdefault(effect.effect, request) == request


OUTER = {"agent": "question", "turn": "agent", "handoff": "turn", "nested_run": "turn"}
"""Which stage each stage is in."""


def _is_withheld(event: Event) -> bool:
    """Whether a model was not called, since a program was about to stop the run."""
    return (
        isinstance(event, EffectAnswered)
        and isinstance(event.result, ModelReply)
        and event.result.withheld
    )


class StageLaws:
    """Checks the stages of one run, event by event."""

    def __init__(self) -> None:
        self._under_way: list[Stage] = []
        self._begun: set[Any] = set()

    def check(
        self,
        event: Event,
        state: LoopState,
        stages: Sequence[Stage],
        changes: Sequence[StageChange],
    ) -> None:
        """Every stage begins once and ends once, inside of the one around it, before its run ends.

        Args:
            event: an event.
            state: the state after it.
            stages: the stages after it.
            changes: the stages that began and ended with it.
        """
        under_way = self._under_way
        for change in changes:
            stage = change.stage
            if isinstance(change, StageBegun):
                # A worker may ask people about a handoff, which then begins again.
                is_new = stage.identity not in self._begun
                # a person may take a conversation over twice in one instant
                may_repeat = stage.kind == "handoff" or stage.name == "takeover"
                assert is_new or may_repeat, f"{stage} begins twice"
                self._begun.add(stage.identity)
                if stage.kind in OUTER:
                    assert any(_is_around(one, stage) for one in under_way), f"{stage} is alone"
                under_way.append(stage)
            else:
                assert not any(_is_around(stage, one) for one in under_way), f"{stage} ends early"
                assert change.at_ms >= stage.since_ms
                assert all(count >= 0 for count in asdict(change.usage).values())
                under_way.remove(stage)
                if stage.kind == "turn" and _is_withheld(event):
                    self._begun.remove(stage.identity)  # it made no turn, which begins again
        assert under_way == list(stages)
        assert not stages or state.question.answering
        assert not stages or state.phase not in {"closing", "closed", "idle"}


def _is_around(outer: Stage, inner: Stage) -> bool:
    return (
        OUTER.get(inner.kind) == outer.kind
        and outer.question == inner.question
        and (
            outer.kind == "question"
            or (outer.kind == "agent" and outer.handovers == inner.handovers)
            or (outer.handovers, outer.turn) == (inner.handovers, inner.turn)
        )
    )
