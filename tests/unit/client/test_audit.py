"""The audit of made-up states, of recordings, and its figures."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import (
    ListWorkflowExecutionsRequest,
    ListWorkflowExecutionsResponse,
)
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCStatusCode

from outlast.agents.errors import AgentsException, RunNotFound
from outlast.client.audit import (
    FIELDS,
    LONGEST_TEXT,
    AuditRecord,
    audit_run,
    audit_since,
    finished,
    records_between,
    summary_of,
)
from outlast.client.read.history import HistoryReader
from outlast.contract.history import fold
from outlast.contract.records import write_state
from outlast.loop import votes
from outlast.loop.actions import ClaimAction, HoldAction, ReleaseAction, SayAction, fields_of
from outlast.loop.approvals import (
    ApprovalRequest,
    ApprovalTerms,
    Audience,
    Decision,
    EscalationStep,
    Person,
    Seen,
)
from outlast.loop.effects import EffectAnswered
from outlast.loop.events import (
    Event,
    PersonActed,
    SignalUnreadable,
    TimePassed,
)
from outlast.loop.machine import advance
from outlast.loop.notices import Delivered, NoticeReceipt
from outlast.loop.revision import revised
from outlast.loop.state import Hold, Ignored, LoopState
from outlast.views.redaction import NOTHING, redaction_of_texts
from tests.laws.driver import Play
from tests.unit.client.parked import TWO_DAYS_MS, parked_play, running_play
from tests.unit.client.recorded import FakeClient, Recording, refused

TERMS = ApprovalTerms(
    effect="irreversible",
    risk="high",
    policy="refunds",
    quorum=2,
    expires_in_ms=60_000,
    remind_every_ms=20_000,
    escalations=(EscalationStep(after_ms=30_000, audience=Audience(groups=("leads",))),),
)
REQUEST = ApprovalRequest(
    id="a1",
    call_id="c1",
    name="refund_order",
    agent="Billing",
    arguments='{"amount": 250}',
    args_digest="d1",
    schema={"type": "object"},
    reason="more than 200",
    terms=TERMS,
    requested_at_ms=10_000,
    expires_at_ms=70_000,
    remind_at_ms=30_000,
)
AT = votes.Sender(at_ms=11_000)
ANN = Person(subject="ann", display="Ann", groups=("billing",), method="token")


def decision_of(who: str, kind: Any = "approve", **fields: Any) -> Decision:
    return Decision(
        request_id="a1", type=kind, by=who, groups=("billing",), method="os_user", channel="cli", **fields
    )  # fmt: skip


@dataclass
class Story:
    """A run's approvals, event after event, with the records of each."""

    state: LoopState = field(default_factory=lambda: LoopState(run_id="support-42"))
    records: list[AuditRecord] = field(default_factory=list[AuditRecord])

    def tell(self, event: Event | None, after: LoopState) -> list[AuditRecord]:
        found = [*records_between(self.state, event, after, "support-1")]
        self.state = after
        self.records += found
        return found

    @property
    def request(self) -> ApprovalRequest:
        return self.state.approvals[-1]

    def request_made(self, request: ApprovalRequest = REQUEST) -> list[AuditRecord]:
        after = replace(self.state, approvals=(*self.state.approvals, request))
        return self.tell(TimePassed(at_ms=request.requested_at_ms + 7), after)

    def changed(self, event: Event, request: ApprovalRequest) -> list[AuditRecord]:
        after = replace(self.state, approvals=(*self.state.approvals[:-1], request))
        return self.tell(event, after)

    def decided(self, decision: Decision, at_ms: int, *, verified: bool) -> list[AuditRecord]:
        """Take a decision by the rules of the loop, or ignore it."""
        sender = votes.Sender(at_ms=at_ms, verified=verified)
        event = PersonActed(at_ms=at_ms, action=decision, verified=verified)
        why = votes.refusal(self.state.approvals, decision, sender)
        if why is not None:
            ignored = Ignored(at_ms, f"decision {decision.type} for {decision.request_id}", why)
            after = replace(self.state, ignored=(*self.state.ignored, ignored)[-3:])
            return self.tell(event, after)
        return self.changed(event, votes.voted(self.request, decision, sender, "{}"))

    def time_passed(self, at_ms: int) -> list[AuditRecord]:
        return self.changed(TimePassed(at_ms=at_ms), votes.aged(self.request, at_ms))


@pytest.fixture
def story() -> Story:
    one = Story()
    one.request_made()
    return one


# --- One event -----------------------------------------------------------------------------------


def test_a_request_is_recorded_with_its_terms() -> None:
    (one,) = Story().request_made()
    assert one == AuditRecord(
        at_ms=10_000,
        event="requested",
        run_id="support-42",
        root_run_id="support-1",
        request_id="a1",
        kind="tool",
        agent="Billing",
        tool="refund_order",
        call_id="c1",
        args_digest="d1",
        effect="irreversible",
        risk="high",
        policy="refunds",
        status="pending",
        note="more than 200",
        due_at_ms=70_000,
        audience=Audience(),
        quorum=2,
        arguments='{"amount": 250}',
    )


def test_each_vote_and_the_decision_are_recorded(story: Story) -> None:
    (first,) = story.decided(decision_of("ann"), 12_500, verified=True)
    assert (first.event, first.by, first.seconds_to_decide) == ("vote", "ann", 2.5)
    assert (first.status, first.verified, first.decision) == ("pending", True, "approve")
    second, end = story.decided(decision_of("bob"), 20_000, verified=False)
    assert (second.event, second.by, second.verified) == ("vote", "bob", False)
    assert (end.event, end.status, end.at_ms) == ("decided", "approved", 20_000)
    assert (end.by, end.verified, end.seconds_to_decide) == ("bob", False, 10.0)
    assert (end.method, end.channel, end.groups) == ("os_user", "cli", ("billing",))


def test_an_edit_has_the_digest_that_it_is_about(story: Story) -> None:
    (vote,) = story.decided(
        decision_of("ann", "edit", edited_arguments={"amount": 5}), 11_000, verified=True
    )
    assert vote.args_digest == story.request.args_digest != "d1"
    assert vote.arguments == '{"amount": 5}'
    *_, end = story.decided(decision_of("bob"), 12_000, verified=True)
    assert (end.status, end.decision) == ("edited", "approve")


def test_a_rejection_has_its_message_and_its_scope(story: Story) -> None:
    story.changed(TimePassed(at_ms=10_500), replace(REQUEST, terms=replace(TERMS, quorum=1)))
    rejection = decision_of("ann", "reject", message="too much", remember=True)
    vote, end = story.decided(rejection, 11_000, verified=True)
    assert vote.note == end.note == "too much"
    assert vote.remember == "tool until conversation"


def test_time_leaves_its_marks(story: Story) -> None:
    assert [one.event for one in story.time_passed(20_000)] == []
    (reminded, escalated) = story.time_passed(41_000)
    assert (reminded.event, reminded.at_ms, reminded.due_at_ms) == ("reminded", 41_000, 30_000)
    assert (escalated.event, escalated.due_at_ms) == ("escalated", 40_000)
    (expired,) = story.time_passed(99_000)
    assert (expired.event, expired.status, expired.note) == ("expired", "expired", "then: reject")
    assert (expired.at_ms, expired.due_at_ms) == (99_000, 70_000)
    assert (expired.by, expired.verified, expired.seconds_to_decide) == ("", None, None)


def test_a_request_that_is_approved_when_it_expires_is_decided_by_nobody(story: Story) -> None:
    story.decided(decision_of("ann"), 12_500, verified=True)
    lenient = replace(story.request, terms=replace(TERMS, on_expiry="approve", escalations=()))
    story.changed(TimePassed(at_ms=13_000), replace(lenient, escalated=0))
    *_, end = story.time_passed(70_000)
    assert (end.event, end.status, end.note) == ("expired", "approved", "then: approve")
    assert (end.by, end.verified, end.seconds_to_decide) == ("", None, None)


def test_further_people_are_part_of_the_audience_once_they_may_decide() -> None:
    story = Story()
    billing = Audience(subjects=("ann",), groups=("billing",), exclude_requester=True)
    story.request_made(replace(REQUEST, terms=replace(TERMS, audience=billing)))
    *_, escalated = story.time_passed(41_000)
    asked = story.records[0].audience
    assert asked == billing
    assert escalated.audience == replace(billing, groups=("billing", "leads"))


def test_a_signed_action_has_the_time_of_its_signature_and_a_forged_one_has_none(
    story: Story,
) -> None:
    sender = votes.Sender(at_ms=20_000, verified=True)
    event = PersonActed(
        at_ms=20_000,
        action=decision_of("ann", seen=Seen(call_id="c1", arguments="d1")),
        verified=True,
        made_at_ms=14_000,
        arrived_at_ms=15_000,
    )
    after = votes.voted(story.request, event.action, sender, "{}")
    (vote,) = story.changed(event, after)
    assert (vote.at_ms, vote.made_at_ms, vote.arrived_at_ms) == (20_000, 14_000, 15_000)
    assert vote.seconds_to_decide == 5.0, "the run took it late, but it had arrived"
    assert vote.seen == Seen(call_id="c1", arguments="d1")
    claim = PersonActed(
        at_ms=21_000, action=ClaimAction(request_id="a1", **fields_of(ANN), minutes=5), made_at_ms=9
    )
    (claimed,) = story.changed(claim, votes.claimed(story.request, "ann", 5, AT.at_ms))
    assert (claimed.made_at_ms, claimed.arrived_at_ms) == (None, 21_000)


def test_what_a_notifier_took_is_recorded(story: Story) -> None:
    delivered = Delivered(event="created", request_id="a1", notifier="slack", at_ms=10_000)
    event = EffectAnswered(at_ms=12_000, effect=3, result=NoticeReceipt(delivered=(delivered,)))
    (one,) = story.tell(event, story.state)
    assert (one.event, one.request_id, one.channel) == ("notified", "a1", "slack")
    assert (one.at_ms, one.note, one.by) == (10_000, "created", "")


def test_records_are_finished_without_what_policies_redact() -> None:
    hidden = redaction_of_texts(["DE02", "DE0212345"])
    one = entry("said", note="to DE02", text="x DE0212345 y", arguments='{"to": "DE0212345"}')
    done = finished(one, hidden)
    assert (done.note, done.text) == ("to [redacted]", "x [redacted] y")
    assert done.arguments == '{"to": "[redacted]"}'


@pytest.mark.parametrize("status", ["cancelled", "superseded"])
def test_a_request_that_ends_with_its_call_is_recorded(story: Story, status: Any) -> None:
    (end,) = story.changed(TimePassed(at_ms=15_000), replace(REQUEST, status=status))
    assert (end.event, end.status, end.at_ms, end.by) == (status, status, 15_000, "")


def test_claims_are_recorded(story: Story) -> None:
    event = PersonActed(
        at_ms=11_000,
        action=ClaimAction(request_id="a1", **fields_of(ANN), minutes=5),
        verified=True,
    )
    (claimed,) = story.changed(event, votes.claimed(REQUEST, ANN.subject, 5, AT.at_ms))
    assert (claimed.event, claimed.by, claimed.method) == ("claimed", "ann", "token")
    assert (claimed.verified, claimed.display, claimed.status) == (True, "Ann", "pending")
    (back,) = story.changed(
        replace(event, action=replace(event.action, minutes=0)),
        votes.claimed(REQUEST, ANN.subject, 0, AT.at_ms),
    )
    assert (back.event, back.by) == ("unclaimed", "ann")


def test_a_claim_that_ends_with_the_decision_is_no_entry(story: Story) -> None:
    event = PersonActed(
        at_ms=11_000, action=ClaimAction(request_id="a1", **fields_of(ANN), minutes=5)
    )
    story.changed(event, votes.claimed(REQUEST, ANN.subject, 5, AT.at_ms))
    ended = replace(REQUEST, status="cancelled", claim=None)
    assert [one.event for one in story.changed(TimePassed(at_ms=12_000), ended)] == ["cancelled"]


def test_what_a_signal_tried_in_vain_is_recorded_with_its_sender(story: Story) -> None:
    (one,) = story.decided(replace(decision_of("mallory"), request_id="a9"), 11_000, verified=False)
    assert (one.event, one.by, one.verified, one.request_id) == ("ignored", "mallory", False, "a9")
    assert "The run has no approval 'a9'" in one.note
    unreadable = SignalUnreadable(at_ms=12_000, name="signal decide", problem="no JSON")
    ignored = (*story.state.ignored, Ignored(12_000, "signal decide", "no JSON"))
    (bad,) = story.tell(unreadable, replace(story.state, ignored=ignored))
    assert (bad.event, bad.note, bad.by) == ("ignored", "signal decide: no JSON", "")


@pytest.mark.parametrize(
    "event",
    [
        PersonActed(at_ms=11_000, action=ClaimAction(request_id="a1", **fields_of(ANN), minutes=5)),
        PersonActed(at_ms=11_000, action=HoldAction(**fields_of(ANN))),
        PersonActed(at_ms=11_000, action=SayAction(**fields_of(ANN), message_id="m1", text="Hi")),
        PersonActed(at_ms=11_000, action=ReleaseAction(**fields_of(ANN))),
    ],
    ids=lambda event: type(event.action).__name__,
)
def test_other_attempts_are_recorded_with_their_sender(story: Story, event: Any) -> None:
    (one,) = story.tell(event, replace(story.state, ignored=(Ignored(11_000, "it", "no"),)))
    assert (one.event, one.by, one.verified, one.note) == ("ignored", "ann", False, "it: no")


def test_takeovers_are_recorded(story: Story) -> None:
    events: list[Event] = [
        PersonActed(at_ms=11_000, action=HoldAction(**fields_of(ANN)), verified=True),
        PersonActed(
            at_ms=12_000,
            action=SayAction(**fields_of(ANN), message_id="m1", text="secret"),
            verified=True,
        ),
        PersonActed(
            at_ms=13_000, action=ReleaseAction(**fields_of(ANN), note="refunded"), verified=True
        ),
    ]
    holds = [Hold(by="ann", at_ms=11_000), Hold(by="ann", at_ms=11_000, said=("m1",)), None]
    found = [
        one
        for event, hold in zip(events, holds, strict=True)
        for one in story.tell(event, revised(story.state, hold=hold))
    ]
    assert [one.event for one in found] == ["held", "said", "released"]
    assert {(one.by, one.verified) for one in found} == {("ann", True)}
    assert [one.note for one in found] == ["", "message m1", "refunded"]
    assert [one.text for one in found] == ["", "secret", ""]
    assert story.tell(events[0], story.state) == [], "an event without effect"


def test_what_machines_send_in_vain_is_no_matter_of_people(story: Story) -> None:
    ignored = replace(story.state, ignored=(Ignored(11_000, "retry", "Nothing has failed."),))
    assert story.tell(TimePassed(at_ms=11_000), ignored) == []


def test_a_state_without_its_history_has_the_records_that_it_holds() -> None:
    told = Story()
    told.request_made()
    told.decided(decision_of("ann"), 12_000, verified=True)
    told.decided(decision_of("ann"), 13_000, verified=True)  # ignored: twice
    told.decided(decision_of("bob"), 14_000, verified=True)
    late = Story(LoopState())
    found = late.tell(None, told.state)
    assert [one.event for one in found] == ["requested", "vote", "vote", "decided", "ignored"]
    kept = [one for one in told.records if one.event != "ignored"]
    of_the_events = {"status": "", "arrived_at_ms": None}
    expected = [replace(one, **of_the_events) for one in kept]
    assert [replace(one, **of_the_events) for one in found[:-1]] == expected
    assert late.tell(None, told.state) == [], "the next history begins with the same state"


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "eve", ""]),
        st.sampled_from(["approve", "edit", "reject", "respond", "time"]),
        st.booleans(),
        st.integers(1, 40_000),
    ),
    max_size=12,
)


@given(ACTS, st.integers(1, 3))
def test_every_vote_is_recorded_once_and_a_request_ends_once(acts: Any, quorum: int) -> None:
    story, at_ms = Story(), 10_000
    story.request_made(replace(REQUEST, terms=replace(TERMS, quorum=quorum)))
    attempts = 0
    for who, kind, verified, wait in acts:
        at_ms += wait
        if kind == "time":
            story.time_passed(at_ms)
            continue
        attempts += 1
        more: Any = {"edited_arguments": {"amount": wait}} if kind == "edit" else {}
        more |= {"response": "no"} if kind == "respond" else {}
        story.decided(decision_of(who, kind, **more), at_ms, verified=verified)
    events = [one.event for one in story.records]
    assert events.count("requested") == 1
    assert events.count("vote") == len(story.request.votes)
    assert events.count("vote") + events.count("ignored") == attempts
    assert events.count("decided") + events.count("expired") == (story.request.status != "pending")
    assert events.count("reminded") == story.request.reminders
    assert {one.root_run_id for one in story.records} == {"support-1"}


def test_a_record_is_json_with_every_field() -> None:
    (one,) = Story().request_made()
    record = one.record()
    assert record["at"] == "1970-01-01T00:00:10.000+00:00"
    assert tuple(record) == FIELDS
    names = set(AuditRecord.__slots__) - {"signed"}
    assert set(FIELDS) == {name.removesuffix("_ms") for name in names}
    assert record["audience"] == {"subjects": [], "groups": [], "exclude_requester": False}
    assert record["due_at"] == "1970-01-01T00:01:10.000+00:00"


def test_long_texts_are_cut(story: Story) -> None:
    sent = decision_of("x" * 10_000_000, "reject", display="y" * 10_000)
    (one,) = story.decided(replace(sent, request_id="z" * 10_000), 11_000, verified=False)
    one = finished(one, NOTHING)
    for text in (one.by, one.display, one.request_id):
        assert text.startswith(text[0] * LONGEST_TEXT)
        assert len(text) < LONGEST_TEXT + 60


# --- Reading -------------------------------------------------------------------------------------


class Server(FakeClient):
    """A server that also lists runs."""

    def __init__(self, *pages: Any) -> None:
        super().__init__(*pages)
        self.listed: list[Any] = []
        self.queries: list[str] = []
        self.failure: Exception | None = None

    @property
    def workflow_service(self) -> Any:
        return SimpleNamespace(list_workflow_executions=self._search)

    async def _search(self, request: ListWorkflowExecutionsRequest) -> Any:
        self.queries.append(request.query)
        if self.failure is not None:
            raise self.failure
        return ListWorkflowExecutionsResponse(executions=self.listed)


def listed(run_id: str, execution: str = "run-1", root: str = "") -> WorkflowExecutionInfo:
    return WorkflowExecutionInfo(
        execution=WorkflowExecution(workflow_id=run_id, run_id=execution),
        root_execution=WorkflowExecution(workflow_id=root),
    )


def asked() -> Recording:
    """A run that gets two signals: a decision about nothing, and one that cannot be read."""
    run = Recording()
    run.asked()
    run.prepared()
    run.signal("decide", {"request_id": "a9", "type": "approve", "by": "mallory"})
    run.signal("decide", {"type": 7})
    run.task()
    return run


async def test_a_run_is_read_without_waiting_for_more() -> None:
    log = await audit_run(cast("Client", Server(asked().events)), "support-42")
    assert [(one.event, one.by) for one in log.records] == [("ignored", "mallory"), ("ignored", "")]
    assert {one.root_run_id for one in log.records} == {"support-42"}
    assert (log.unread, log.is_cut) == ((), False)
    sent = log.records[0]
    assert sent.arrived_at_ms is not None
    assert sent.at_ms == sent.arrived_at_ms + 1_000, "the workflow task came a second later"


async def test_an_execution_before_a_reset_is_read_too_and_nothing_counts_twice() -> None:
    before, after = asked(), asked()
    before.signal("decide", {"request_id": "a8", "type": "reject", "by": "ann"})
    before.task()
    server = Server(after.events)
    server.runs["run-0"] = [before.events]
    server.listed = [listed("support-42", "run-0"), listed("support-42"), listed("support-421")]
    log = await audit_run(cast("Client", server), "support-42")
    assert [one.by for one in log.records] == ["mallory", "", "ann"]
    assert "WorkflowId = 'support-42'" in server.queries[0]


async def test_an_unknown_run_is_an_error() -> None:
    with pytest.raises(RunNotFound, match="There is no run 'support-9'"):
        await audit_run(cast("Client", Server()), "support-9")


async def test_all_runs_since_a_time_are_read_by_a_search() -> None:
    server = Server(asked().events)
    server.nested["support-42/ask-3"] = FakeClient(asked().events)
    server.listed = [listed("support-42"), listed("support-42/ask-3", root="support-42")]
    since = datetime(1970, 1, 1, 1, tzinfo=UTC) - timedelta(hours=1)
    log = await audit_since(cast("Client", server), since)
    assert (
        sorted(one.run_id for one in log.records) == ["support-42"] * 2 + ["support-42/ask-3"] * 2
    )
    assert {one.root_run_id for one in log.records} == {"support-42"}
    assert (
        "(ExecutionStatus = 'Running' OR CloseTime >= '1970-01-01T00:00:00Z')" in server.queries[0]
    )
    assert (await audit_since(cast("Client", server), since + timedelta(days=1))).records == ()
    cut = await audit_since(cast("Client", server), since, limit=1)
    assert cut.is_cut
    assert {one.run_id for one in cut.records} == {"support-42"}


async def test_a_run_that_cannot_be_read_is_named() -> None:
    server = Server(asked().events)
    server.listed = [listed("support-42"), listed("gone-1")]
    log = await audit_since(cast("Client", server), datetime(1970, 1, 1, tzinfo=UTC))
    assert len(log.records) == 2
    assert [(one.run_id, one.why) for one in log.unread] == [
        ("gone-1", "Its history is no longer retained.")
    ]


async def test_a_server_that_cannot_search_says_so() -> None:
    server = Server(asked().events)
    server.failure = refused(RPCStatusCode.INVALID_ARGUMENT, "no such attribute")
    with pytest.raises(AgentsException, match="cannot search for this: no such attribute"):
        await audit_since(cast("Client", server), datetime(1970, 1, 1, tzinfo=UTC))


async def test_a_conversation_is_read_through_all_its_histories() -> None:
    first = asked()
    tasks = await HistoryReader(DataConverter.default).feed(first.events)
    *_, (_, state) = fold(LoopState(), "support-42", tasks)
    first.close(
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW, new_execution_run_id="run-2"
    )
    second = Recording()
    second.started({"agent": "Triage", "carried": write_state(state)}, continues="run-1")
    second.signal("decide", {"request_id": "a7", "type": "approve", "by": "bob"})
    second.task()
    server = Server(first.events)
    server.runs["run-2"] = [second.events]
    server.newest = "run-2"
    log = await audit_run(cast("Client", server), "support-42")
    assert sorted(one.by for one in log.records) == ["", "bob", "mallory"]
    del server.runs["run-1"]  # no longer retained: the state has the newest of what it was
    log = await audit_run(cast("Client", server), "support-42")
    assert len(log.records) == 3


# --- Figures -------------------------------------------------------------------------------------


def entry(event: Any, **fields: Any) -> AuditRecord:
    return AuditRecord(at_ms=0, event=event, run_id="r", root_run_id="r", **fields)


def of_tool(tool: str, status: str, count: int, seconds: float = 60) -> Sequence[AuditRecord]:
    event = "expired" if status == "expired" else "decided"
    spent = None if status == "expired" else seconds
    return [entry(event, tool=tool, status=status, seconds_to_decide=spent)] * count


def of_person(by: str, decision: str, count: int, seconds: float, **fields: Any) -> Any:
    one = entry("vote", by=by, decision=decision, seconds_to_decide=seconds, **fields)
    return [one] * count


def test_figures_of_a_tool() -> None:
    records = [
        *of_tool("refund", "approved", 2, 2),
        *of_tool("refund", "edited", 1, 10),
        *of_tool("refund", "rejected", 1, 30),
        *of_tool("refund", "expired", 3),
        *of_tool("ship", "expired", 1),
        entry("requested", tool="refund"),
    ]
    refund, ship = summary_of(records).tools
    assert (refund.name, refund.decisions, refund.expired, refund.fast) == ("refund", 4, 3, 2)
    assert (refund.approve_rate, refund.edit_rate, refund.median_seconds) == (0.75, 0.25, 6)
    assert (ship.decisions, ship.expired) == (0, 1)
    assert (ship.approve_rate, ship.edit_rate, ship.median_seconds) == (None, None, None)


def test_figures_of_people_tell_a_proven_name_from_another() -> None:
    records = [
        *of_person("ann", "approve", 3, 1, verified=True),
        *of_person("ann", "edit", 1, 9, verified=True),
        *of_person("ann", "approve", 2, 9, verified=False),
        *of_person("", "reject", 1, 9, verified=False),
    ]
    ann, claimed, nobody = summary_of(records).people
    assert (ann.name, ann.decisions, ann.approved, ann.edited, ann.fast) == ("ann", 4, 4, 1, 3)
    assert (claimed.name, claimed.unverified) == ("ann (unverified)", 2)
    assert (nobody.name, nobody.approved) == ("(no name) (unverified)", 0)


@pytest.mark.parametrize(
    ("records", "suggestion"),
    [
        (of_tool("refund", "approved", 212), "refund: approved 212 of 212 times, never edited."),
        (of_tool("refund", "rejected", 20), "refund: approved 0 of 20 times."),
        ([*of_tool("refund", "expired", 15), *of_tool("refund", "approved", 5)],
         "refund: 15 of 20 requests expired."),
        (of_person("ann", "approve", 30, 1, verified=True),
         "ann: 30 of 30 decisions took under 3 seconds."),
    ],
    ids=range(4),
)  # fmt: skip
def test_figures_suggest_rules(records: Sequence[AuditRecord], suggestion: str) -> None:
    (said,) = summary_of(records).suggestions
    assert said.startswith(suggestion)


@pytest.mark.parametrize(
    "records",
    [
        [],
        of_tool("refund", "approved", 19),
        [*of_tool("refund", "approved", 211), *of_tool("refund", "rejected", 1)],
        [*of_tool("refund", "approved", 211), *of_tool("refund", "edited", 1)],
        [*of_tool("refund", "approved", 211), *of_tool("refund", "expired", 1)],
        of_person("ann", "approve", 30, 3, verified=True),
    ],
    ids=range(6),
)
def test_other_figures_suggest_nothing(records: Sequence[AuditRecord]) -> None:
    assert summary_of(records).suggestions == ()


def test_a_summary_is_json() -> None:
    summary = summary_of(of_tool("refund", "approved", 20, 2)).record()
    assert summary["tools"][0] == {
        "name": "refund",
        "decisions": 20,
        "approve_rate": 1.0,
        "edit_rate": 0.0,
        "median_seconds": 2,
        "under_3_seconds": 20,
        "unverified": 0,
        "expired": 0,
    }
    assert len(summary["suggestions"]) == 1


# --- Waits for something outside -----------------------------------------------------------------


def audited(play: Play) -> list[AuditRecord]:
    """Return the records of a played run."""
    state, found = LoopState(), list[AuditRecord]()
    for event in play.events:
        before, (state, _) = state, advance(state, event)
        found += records_between(before, event, state, "root")
    return found


def test_a_wait_has_its_begin_and_its_delivery() -> None:
    play = parked_play()
    play.delivers()
    began, came = audited(play)
    assert (began.event, began.kind, began.tool, began.wait) == (
        "wait_began",
        "wait",
        "book",
        "courier",
    )
    assert began.due_at_ms == began.at_ms + TWO_DAYS_MS
    assert (came.event, came.by, came.verified, came.delivery_id, came.wait) == (
        "delivered",
        "courier.example",
        False,
        "d1",
        "courier",
    )


def test_a_wait_for_which_nothing_came_was_ended_by_nobody() -> None:
    play = parked_play()
    play.nothing_comes()
    _, ended = audited(play)
    assert (ended.event, ended.by, ended.verified, ended.delivery_id) == (
        "wait_timed_out",
        "",
        None,
        "",
    )


def test_a_value_that_came_early_and_did_not_fit_is_in_the_audit() -> None:
    play = running_play()
    play.delivers(value=5)
    play.begins_to_wait(schema={"type": "string"})
    came, *others = audited(play)
    assert came.event == "delivered"
    [refused] = [one for one in others if one.event == "ignored"]
    assert refused.note.startswith("delivery d1: The value for 'courier' does not fit")
    assert [one.event for one in others if one.event != "ignored"] == ["wait_began"]
