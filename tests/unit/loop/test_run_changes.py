"""What changes in a run with each event, and that a reader of the changes knows the run."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

from hypothesis import given

from outlast.contract import records
from outlast.loop.approvals import ApprovalTerms, Audience, EscalationStep
from outlast.loop.effects import CallModel, EffectAnswered, RunAgent, RunTool
from outlast.loop.events import EffectBlocked, RunEnded
from outlast.loop.machine import advance
from outlast.loop.notices import Delivered, NoticeReceipt, Undelivered
from outlast.loop.run_changes import (
    AgentChanged,
    ArgumentsChanged,
    AttemptIgnored,
    ClaimChanged,
    Escalated,
    HolderAwaited,
    HolderSpoke,
    HoldReleased,
    HoldTaken,
    ItemsRecorded,
    ItemsShown,
    NoticeDelivered,
    NoticeUndelivered,
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
    VoteCast,
    WaitBegan,
    WaitEnded,
    run_changes,
)
from outlast.loop.state import Ignored, LoopState, visible_item_count
from outlast.loop.values import Failure
from tests.laws.driver import Play, gated, nested, said, tool, transfer
from tests.laws.strategies import Script, examples, play_script, scripts

C = TypeVar("C", bound=RunChange)
SOME = examples(20)
LEADS = EscalationStep(after_ms=150_000, audience=Audience(groups=("leads",)))
TERMS = ApprovalTerms(
    quorum=2,
    remind_every_ms=100_000,
    escalations=(LEADS,),
    expires_in_ms=300_000,
    on_expiry="reject",
)


def changes_of(play: Play) -> list[RunChange]:
    """Return what changed with the newest event."""
    return list(run_changes(play.before, play.events[-1], play.state))


def found(play: Play, kind: type[C]) -> list[C]:
    """Return the changes of a kind with the newest event."""
    return [one for one in changes_of(play) if isinstance(one, kind)]


def of_requests(play: Play) -> list[RequestChange]:
    """Return what happened to requests with the newest event."""
    return [change for one in found(play, RequestUpdated) for change in one.changes]


def waiting(terms: ApprovalTerms = TERMS) -> Play:
    """Return a run that waits for the approval a1 of the call c1."""
    play = Play.ready(keep_open=True)
    play.replies(gated("refund", "c1", '{"amount": 9}', terms=terms))
    return play


# --- Each kind ------------------------------------------------------------------------------------


def test_a_start_shows_nothing_yet_but_who_is_active() -> None:
    play = Play()
    assert changes_of(play) == [
        AgentChanged("Triage", before="", by=""),
    ]


def test_an_event_that_changes_nothing_is_no_change() -> None:
    play = Play.ready()
    assert list(run_changes(play.state, play.events[-1], play.state)) == []
    assert list(run_changes(play.state, play.events[-1], replace(play.state))) == []


def test_items_are_recorded_and_shown_at_once() -> None:
    play = Play.ready()
    items = play.state.items
    assert found(play, ItemsRecorded) == [ItemsRecorded(0, items)]
    assert found(play, ItemsShown) == [ItemsShown(items)]


def test_an_answer_is_recorded_first_and_shown_when_guardrails_have_passed_it() -> None:
    play = Play.ready()
    play.replies(said("Hello."), required_steps=("finalize_answer", "check_output"))
    assert found(play, ItemsRecorded) == [ItemsRecorded(1, play.state.items[1:])]
    assert found(play, ItemsShown) == []
    play.concluded()
    assert found(play, ItemsRecorded) == []
    assert found(play, ItemsShown) == [ItemsShown(play.state.items[1:])]
    (answered,) = found(play, QuestionAnswered)
    assert answered.item is play.state.items[1]
    assert answered.answer.to == ("start",)


def test_a_handoff_changes_the_agent() -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "h1"))
    assert found(play, AgentChanged) == [AgentChanged("Billing", before="Triage", by="Triage")]


def test_a_person_may_give_the_conversation_to_another_agent() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    play.holds()
    play.releases(to="Billing")
    assert found(play, AgentChanged) == [AgentChanged("Billing", before="Triage", by="ann")]
    assert found(play, HoldReleased) == [HoldReleased("ann")]


def test_a_reader_who_comes_late_learns_the_whole_path() -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "h1"))
    late = run_changes(LoopState(), None, play.state)
    assert [one for one in late if isinstance(one, AgentChanged)] == [
        AgentChanged("Triage", before="", by=""),
        AgentChanged("Billing", before="Triage", by=""),
    ]


def test_a_question_without_an_answer_has_a_reason() -> None:
    play = Play.ready(keep_open=True)
    failure = play.fails(play.only(CallModel))
    assert found(play, QuestionFailed) == [QuestionFailed("Triage", failure)]
    assert found(play, RunFailed) == []


def test_a_run_fails_once_whether_or_not_a_question_does() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    lost = Failure(code="internal", message="It timed out.")
    event = RunEnded(at_ms=play.now_ms, outcome="failed", failure=lost)
    ended, _ = advance(play.state, event)
    assert list(run_changes(play.state, event, ended)) == [
        RunFailed("Triage", lost),
        StatusChanged("failed", was_blocked=False),
    ]


def test_a_blocked_step_changes_the_status_each_time_that_the_reason_does() -> None:
    play = Play.ready()
    effect = play.only(CallModel).effect
    seen: list[list[StatusChanged]] = []
    for lacks in ("no agent", "no agent", "no model", ""):
        play.take(EffectBlocked(at_ms=play.now_ms, effect=effect, lacks=lacks))
        seen.append(found(play, StatusChanged))
    assert seen == [
        [StatusChanged("blocked", was_blocked=False)],
        [],
        [StatusChanged("blocked", was_blocked=True)],
        [StatusChanged("running", was_blocked=True)],
    ]


def test_a_blocked_step_of_a_nested_run_is_a_change_and_its_reminders_are_none() -> None:
    inner = Play.ready()
    inner.replies(tool("look_up", "c1"))
    effect = inner.only(RunTool).effect
    inner.take(EffectBlocked(at_ms=inner.now_ms, effect=effect, lacks="There is no 'look_up'."))
    (request,) = inner.state.own_requests
    play = Play.ready()
    play.replies(nested("Billing", "n1"))
    request = replace(request, id=f"e{play.only(RunAgent).effect}.{request.id}")
    seen: list[int] = []
    for requests in ((request,), (replace(request, reminders=1),), ()):
        play.reported(*requests)
        seen.append(len(found(play, StatusChanged)))
    assert seen == [1, 0, 1]


def test_an_attempt_in_vain_is_a_change_even_where_only_the_newest_are_kept() -> None:
    play = Play.ready()
    for _ in range(30):
        play.hears_noise()
        assert found(play, AttemptIgnored) == [AttemptIgnored(play.state.ignored[-1])]
    assert len(play.state.ignored) < 30
    twice = (Ignored(1, "it", "no"), Ignored(1, "it", "no"))
    before, after = LoopState(ignored=twice[:1]), LoopState(ignored=twice)
    assert [*run_changes(before, None, after)] == [AttemptIgnored(twice[1])]


def test_a_request_is_created_and_settled() -> None:
    play = Play.ready(keep_open=True)
    play.replies(gated("refund", "c1"))
    assert found(play, RequestUpdated) == [
        RequestUpdated(play.state.approvals[0], (RequestCreated(),))
    ]
    play.decided("a1", by="ann")
    (vote,) = play.state.approvals[0].votes
    assert of_requests(play) == [VoteCast(vote), RequestSettled(waited=True, due_at_ms=None)]


def test_a_blocked_step_that_people_give_up_has_a_request_that_never_waited() -> None:
    play = Play.ready(keep_open=True)
    play.replies(tool("look_up", "c1"))
    effect = play.only(RunTool).effect
    play.take(EffectBlocked(at_ms=play.now_ms, effect=effect, lacks="There is no 'look_up'."))
    assert of_requests(play) == []
    (request,) = play.state.own_requests
    play.decided(request.id, "reject", by="ann")
    (given_up,) = found(play, RequestUpdated)
    assert given_up.changes == (
        RequestCreated(),
        VoteCast(given_up.request.votes[0]),
        RequestSettled(waited=False, due_at_ms=None),
    )


def test_a_claim_changes_hands_and_is_given_back() -> None:
    play = waiting()
    seen: list[RequestChange] = []
    for by, minutes in (("ann", 5), ("bob", 5), ("bob", 0)):
        play.claimed("a1", by, minutes, force=True)
        seen += of_requests(play)
    names = [(change.before, change.claim) for change in seen if isinstance(change, ClaimChanged)]
    assert [tuple(one.by if one else "" for one in pair) for pair in names] == [
        ("", "ann"),
        ("ann", "bob"),
        ("bob", ""),
    ]
    assert len(seen) == 3


def test_an_edit_that_needs_more_votes_changes_the_arguments() -> None:
    play = waiting()
    play.decided("a1", "edit", by="ann", edited_arguments={"amount": 5})
    (vote,) = play.state.approvals[0].votes
    assert of_requests(play) == [VoteCast(vote), ArgumentsChanged(vote, 1)]


def test_time_reminds_escalates_and_ends() -> None:
    play = waiting()
    asked_at_ms = play.state.approvals[0].requested_at_ms
    play.passes(100_000)
    assert of_requests(play) == [Reminded(due_at_ms=asked_at_ms + 100_000)]
    play.passes(50_000)
    assert of_requests(play) == [Escalated((LEADS,), due_at_ms=asked_at_ms + 150_000)]
    play.passes(150_000)
    assert of_requests(play) == [
        RequestSettled(waited=True, due_at_ms=asked_at_ms + 300_000),
    ]


def test_an_escalation_by_expiry_was_due_when_the_request_ran_out() -> None:
    late = replace(LEADS, after_ms=900_000)
    play = waiting(replace(TERMS, escalations=(late,), on_expiry="escalate", remind_every_ms=None))
    expires_at_ms = play.state.approvals[0].expires_at_ms
    assert expires_at_ms is not None
    play.passes(310_000)
    assert of_requests(play) == [Escalated((late,), due_at_ms=expires_at_ms)]


def test_a_pause_is_an_update_in_which_nothing_happened() -> None:
    play = waiting()
    play.holds()
    assert found(play, RequestUpdated) == [RequestUpdated(play.state.approvals[0], ())]


def test_a_takeover_is_told_from_its_beginning_to_its_end() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    play.holds()
    assert changes_of(play)[0] == HoldTaken("ann", before="")
    play.holds(to="bob")
    assert changes_of(play) == [HoldTaken("bob", before="ann")]
    play.hears("m1")
    assert found(play, HolderAwaited) == [HolderAwaited("bob")]
    play.hears("m2")
    assert found(play, HolderAwaited) == [], "the user waits already"
    play.says("I am here.", by="bob")
    assert found(play, HolderSpoke) == [HolderSpoke("bob")]
    assert found(play, HolderAwaited) == []
    play.releases("bob")
    assert found(play, HoldReleased) == [HoldReleased("bob")]


def test_what_a_holder_says_is_a_change_before_guardrails_have_passed_it() -> None:
    play = Play(keep_open=True)
    play.prepared(required_steps=("check_said",))
    play.holds()
    play.says("I am here.")
    assert found(play, HolderSpoke) == [HolderSpoke("ann")]


def test_a_notice_is_delivered_or_not() -> None:
    play = Play(keep_open=True)
    play.prepared(notifies=True)
    (effect,) = play.replies(gated("refund", "c1"))
    lost = Undelivered(event="created", request_id="a1", notifier="mail", why="No.", at_ms=1)
    taken = Delivered(event="created", request_id="a1", notifier="slack", at_ms=1)
    receipt = NoticeReceipt(undelivered=(lost,), delivered=(taken,))
    number = play.outstanding.popitem()[0]
    play.outstanding[number] = effect  # pyright: ignore[reportArgumentType]  an effect, as commands say
    play.take(EffectAnswered(at_ms=play.now_ms, effect=number, result=receipt))
    assert changes_of(play) == [NoticeUndelivered(lost), NoticeDelivered(taken)]


def parked(**wait: Any) -> Play:
    """Return a run whose call c1 waits for the courier."""
    play = Play.ready(keep_open=True)
    play.replies(tool("book", "c1"))
    play.parks("c1", **wait)
    return play


def test_a_wait_begins_and_ends_with_what_came() -> None:
    play = parked()
    (call,) = play.state.calls
    assert call.parked is not None
    assert found(play, WaitBegan) == [WaitBegan(call, call.parked)]
    assert found(play, StatusChanged) == [StatusChanged("parked", was_blocked=False)]
    play.delivered("c1")
    assert found(play, WaitEnded) == [WaitEnded(play.state.receipts[0])]
    assert found(play, WaitBegan) == []
    assert found(play, StatusChanged) == [StatusChanged("running", was_blocked=False)]
    play.returns("c1")
    assert (found(play, WaitBegan), found(play, WaitEnded)) == ([], [])


def test_an_early_value_ends_a_wait_that_never_begins() -> None:
    play = Play.ready()
    play.replies(tool("book", "c1"))
    play.delivered("c1")
    assert len(found(play, WaitEnded)) == 1
    play.parks("c1")
    assert (found(play, WaitBegan), found(play, WaitEnded)) == ([], [])


def test_an_early_value_that_does_not_fit_lets_the_wait_begin() -> None:
    play = Play.ready()
    play.replies(tool("book", "c1"), tool("book", "c2"))
    play.delivered("c2", name="invoice", delivery_id="d0")
    play.delivered("c1", "?")
    play.parks("c1", schema={"type": "integer"})
    assert len(found(play, WaitBegan)) == 1
    assert found(play, WaitEnded) == []
    assert len(found(play, AttemptIgnored)) == 1
    play.delivered("c1", 9)
    assert found(play, WaitEnded) == [WaitEnded(play.state.receipts[-1])]


def test_a_refused_delivery_is_an_attempt_in_vain() -> None:
    play = parked()
    play.delivered("c1", turn=7)
    assert changes_of(play) == [AttemptIgnored(play.state.ignored[-1])]


def test_a_wait_that_people_are_asked_about_goes_on_until_they_say_more() -> None:
    play = parked(timeout_ms=60_000, on_timeout="ask")
    play.passes(60_000)
    assert (found(play, WaitBegan), found(play, WaitEnded)) == ([], [])
    assert of_requests(play) == [RequestCreated()]
    play.decided("a1", by="ann")
    (call,) = play.state.calls
    assert call.parked is not None
    assert found(play, WaitBegan) == [WaitBegan(call, call.parked)], "as long again"
    play.passes(60_000)
    play.decided("a2", "reject", by="ann")
    (ended,) = found(play, WaitEnded)
    assert (ended.receipt.timed_out, ended.receipt.source) == (True, "ann")


def test_the_next_wait_of_a_call_in_the_same_millisecond_is_another() -> None:
    play = parked()
    (call,) = play.state.calls
    assert call.parked is not None
    wait = replace(call.parked.wait, name="invoice")
    next_call = replace(call, parked=replace(call.parked, wait=wait))
    after = replace(play.state, calls=(next_call,))
    assert [
        one.parked.wait.name
        for one in run_changes(play.state, None, after)
        if isinstance(one, WaitBegan)
    ] == ["invoice"]


def test_a_call_that_is_stopped_while_it_waits_has_no_end_of_its_wait() -> None:
    play = parked()
    play.hears("m2", mode="interrupt")
    assert found(play, WaitEnded) == []
    assert len(found(play, ItemsRecorded)) == 1, "its output says what became of it"


# --- Laws -----------------------------------------------------------------------------------------


def steps_of(play: Play) -> list[tuple[LoopState, list[RunChange]]]:
    """Return each state of a run with the changes that led to it."""
    found: list[tuple[LoopState, list[RunChange]]] = []
    state = LoopState()
    for event in play.events:
        before, (state, _) = state, advance(state, event)
        found.append((state, list(run_changes(before, event, state))))
    return found


class Reader:
    """What a reader of the changes alone knows of a run."""

    def __init__(self) -> None:
        self.recorded = self.shown = self.answers = 0
        self.path: list[str] = []
        self.requests: dict[str, RequestUpdated] = {}
        self.created: list[str] = []
        self.settled: set[str] = set()
        self.holder: str | None = None
        self.ignored: list[Ignored] = []
        self.status = LoopState().status

    def take(self, changes: list[RunChange]) -> None:  # noqa: C901  a row each
        for change in changes:
            match change:
                case ItemsRecorded(start=start, items=items):
                    assert (start, bool(items)) == (self.recorded, True)
                    self.recorded += len(items)
                case ItemsShown(items=items):
                    self.shown += len(items)
                case AgentChanged(agent=agent, before=before):
                    assert before == (self.path[-1] if self.path else "")
                    self.path.append(agent)
                case RequestUpdated(request=request):
                    self.requests[request.id] = change
                    for one in change.changes:
                        self._take_request_change(request.id, one)
                case HoldTaken(by=by, before=before):
                    assert before == (self.holder or "")
                    assert by != self.holder
                    self.holder = by
                case HoldReleased(by=by):
                    assert by == self.holder
                    self.holder = None
                case HolderSpoke(by=by) | HolderAwaited(by=by):
                    assert by == self.holder
                case QuestionAnswered() | QuestionFailed():
                    self.answers += 1
                case AttemptIgnored(ignored=one):
                    self.ignored.append(one)
                case StatusChanged(status=status):
                    self.status = status
                case _:
                    pass

    def _take_request_change(self, request_id: str, change: RequestChange) -> None:
        if isinstance(change, RequestCreated):
            self.created.append(request_id)
        elif isinstance(change, RequestSettled):
            assert request_id not in self.settled
            self.settled.add(request_id)


@SOME
@given(scripts())
def test_who_reads_the_changes_knows_the_run(script: Script) -> None:
    reader = Reader()
    for state, changes in steps_of(play_script(script)):
        reader.take(changes)
        requests = tuple(one.request for one in reader.requests.values())
        assert requests == state.approvals
        assert reader.recorded == len(state.items)
        assert reader.path == list(state.handoff_path)
        assert reader.answers == len(state.answers)
        assert reader.holder == (None if state.hold is None else state.hold.by)
        assert reader.status == state.status
        assert tuple(reader.ignored[-len(state.ignored) :] if state.ignored else ()) == (
            state.ignored
        )


@SOME
@given(scripts())
def test_a_request_is_created_once_and_settled_at_most_once(script: Script) -> None:
    reader = Reader()
    for state, changes in steps_of(play_script(script)):
        reader.take(changes)
        assert reader.created == [one.id for one in state.approvals]
        pending = {one.id for one in state.approvals if one.status == "pending"}
        assert set(reader.created) - reader.settled == pending


@SOME
@given(scripts())
def test_the_items_that_are_shown_are_those_that_readers_may_see(script: Script) -> None:
    """Unless a line and a worker both speak in a turn: then it may be held back again."""
    steps = steps_of(play_script(script))
    counts = [visible_item_count(state) for state, _ in steps]
    is_shared = any(later < earlier for earlier, later in pairwise(counts))
    shown = 0
    for (state, changes), count in zip(steps, counts, strict=True):
        for change in changes:
            if isinstance(change, ItemsShown):
                assert is_shared or change.items == state.items[shown : shown + len(change.items)]
                shown += len(change.items)
        assert is_shared or shown == count


@SOME
@given(scripts())
def test_a_reader_who_comes_late_learns_what_the_others_know(script: Script) -> None:
    play = play_script(script)
    early, late = Reader(), Reader()
    for _, changes in steps_of(play):
        early.take(changes)
    late.take(list(run_changes(LoopState(), None, play.state)))
    for one in (early, late):
        one.requests = {name: replace(update, changes=()) for name, update in one.requests.items()}
        one.ignored = one.ignored[-len(play.state.ignored) :]
        one.shown = visible_item_count(play.state)
    assert vars(late) == vars(early)


@SOME
@given(scripts(max_moves=20))
def test_a_new_history_begins_with_no_change(script: Script) -> None:
    state = play_script(script).state
    carried = records.read_state(json.loads(json.dumps(records.write_state(state))))
    assert list(run_changes(state, None, carried)) == []
