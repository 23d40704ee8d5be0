from dataclasses import replace
from typing import Any

from hypothesis import given

from outlast.client.moments import RunEvent, run_events
from outlast.client.read.events import NumberedEvent, changes
from outlast.edges.rendering import iso_time
from outlast.loop.approvals import (
    ApprovalRequest,
    ApprovalTerms,
    Audience,
    Claim,
    Decision,
    DecisionType,
    EscalationStep,
    Vote,
)
from outlast.loop.call_forms import output_item
from outlast.loop.items import Item, message_of_person
from outlast.loop.machine import advance
from outlast.loop.state import Answer, Hold, Ignored, LoopState
from outlast.loop.values import Failure
from outlast.testing import call, say, shell_call
from tests.laws.driver import Play, gated
from tests.laws.strategies import Script, examples, play_script, scripts
from tests.unit.client.parked import WaitingPlay, parked_play
from tests.unit.loop.test_compaction import summarised, talk
from tests.unit.loop.test_fallback import fail, failure_of

CALL = Item("tool_call", call("look_up", "c1", order_id="A-17"), "Orders", 1)
OUTPUT = Item(
    "tool_output", {"type": "function_call_output", "call_id": "c1", "output": "here"}, "Orders", 1
)
TEXT = Item("message", say("It is here.")[0], "Orders", 2)
QUESTION = Item("input", {"role": "user", "content": "Where?"})


def request(**options: object) -> ApprovalRequest:
    fields: dict[str, object] = {
        "id": "a1",
        "call_id": "c1",
        "name": "refund",
        "agent": "Billing",
        "arguments": '{"order_id": "A-42"}',
        "args_digest": "d",
        "requested_at_ms": 1,
    }
    return ApprovalRequest(**{**fields, **options})  # pyright: ignore[reportArgumentType]


def events(before: LoopState, after: LoopState) -> list[RunEvent]:
    return list(run_events(1_000, before, after))


def lines(before: LoopState, after: LoopState) -> list[tuple[str, str]]:
    return [(event.who, event.text) for event in events(before, after) if event.text]


def test_what_is_said_and_done_is_told_in_order() -> None:
    state = LoopState(phase="thinking", agent="Orders")

    told = lines(state, LoopState(phase="thinking", agent="Orders", items=(QUESTION, CALL, OUTPUT)))

    assert told == [
        ("user", "Where?"),
        ("Orders", 'look_up(order_id="A-17")'),
        ("Orders", "here"),
    ]


def test_the_team_reads_notes_to_the_model_and_answers_that_were_not_approved() -> None:
    draft = Item("draft", say("You get 500.")[0], "Orders", 2)
    note = Item("note", {"role": "developer", "content": "It is 400."})
    state = LoopState(phase="thinking", agent="Orders")

    found = events(state, LoopState(phase="thinking", agent="Orders", items=(draft, note)))

    assert [(event.type, event.who, event.text) for event in found] == [
        ("draft", "Orders", "(not approved) You get 500."),
        ("note", "developer", "It is 400."),
    ]


def test_an_answer_is_told_from_other_words() -> None:
    before = LoopState(phase="thinking", agent="Orders")
    words = LoopState(phase="acting", agent="Orders", items=(TEXT,))
    answer = LoopState(
        phase="idle", agent="Orders", items=(TEXT,), answers=(Answer(("start",), 0, "Orders"),)
    )

    assert [event.answers for event in events(before, words) if event.text] == [False]
    assert [event.answers for event in events(before, answer) if event.text] == [True]


def test_a_handoff_is_told_once_as_a_handoff() -> None:
    wish = Item("handoff_call", call("transfer_to_billing", "c2"), "Orders", 1)
    done = Item(
        "handoff_output",
        {"type": "function_call_output", "call_id": "c2", "output": "{}"},
        "Orders",
    )
    before = LoopState(phase="acting", agent="Orders", handoff_path=("Orders",), items=(wish,))
    after = LoopState(
        phase="thinking", agent="Billing", handoff_path=("Orders", "Billing"), items=(wish, done)
    )

    assert lines(before, after) == [("Orders", "hands over to Billing")]


def test_the_first_agent_takes_nothing_over() -> None:
    started = LoopState(phase="preparing", agent="Orders", handoff_path=("Orders",))

    assert lines(LoopState(), started) == []


def test_an_approval_is_told_when_it_is_asked_and_when_it_is_decided() -> None:
    before = LoopState(phase="thinking", agent="Billing")
    asked = LoopState(phase="acting", agent="Billing", approvals=(request(),))
    decision = Decision(request_id="a1", type="reject", message="Repair it.", by="ann")
    decided = LoopState(
        phase="thinking",
        agent="Billing",
        approvals=(request(status="rejected", decision=decision, decided_at_ms=1 + 180_000),),
        items=(OUTPUT,),
    )

    assert lines(before, asked) == [("Billing", "waits for a person (a1)")]
    assert lines(asked, decided) == [
        ("ann", "rejected a1 after 3 min: Repair it."),
        ("Orders", "here"),
    ]


def test_an_approval_that_nobody_needs_any_more_is_told_too() -> None:
    before = LoopState(phase="acting", agent="Billing", approvals=(request(),))
    after = LoopState(phase="acting", agent="Billing", approvals=(request(status="cancelled"),))

    assert lines(before, after) == [("Billing", "a1 cancelled")]


def test_what_happens_to_a_request_before_it_is_decided_is_told() -> None:
    leads = EscalationStep(after_ms=1, audience=Audience(groups=("leads",)))
    asked = request(terms=ApprovalTerms(quorum=2, escalations=(leads,)))

    def told(before: ApprovalRequest, **changes: Any) -> list[tuple[str, str]]:
        one = LoopState(phase="acting", agent="Billing", approvals=(before,))
        newer = replace(before, **changes)
        return lines(one, LoopState(phase="acting", agent="Billing", approvals=(newer,)))

    def vote(kind: DecisionType, by: str | None) -> Vote:
        decision = Decision(request_id="a1", type=kind, by=by)
        return Vote(decision=decision, at_ms=1, args_digest="d")

    claimed = replace(asked, claim=Claim(by="ann", until_ms=9))
    assert told(asked, votes=(vote("approve", "ann"),)) == [("ann", "votes for a1: 1 of 2 votes")]
    assert told(asked, votes=(vote("edit", None),)) == [
        ("somebody", "changes the arguments of a1: 1 of 2 votes")
    ]
    assert told(asked, claim=claimed.claim) == [("ann", "works on a1")]
    assert told(claimed, claim=None) == [("ann", "no longer works on a1")]
    assert told(asked, escalated=1) == [
        ("outlast", "a1 is overdue: the group leads may decide, too")
    ]
    assert told(asked, reminders=1) == [("outlast", "reminds people of a1")]
    assert told(asked, expires_at_ms=9) == []
    assert told(replace(asked, reminders=1), paused_at_ms=9) == []


def test_an_answer_and_a_budget_that_wait_are_told_as_such() -> None:
    before = LoopState(phase="thinking", agent="Billing")
    answer, budget = request(kind="output"), request(kind="budget", id="a2")
    after = LoopState(phase="thinking", agent="Billing", approvals=(answer, budget))

    assert lines(before, after) == [
        ("Billing", "waits for a person to approve its answer (a1)"),
        ("Billing", "waits for a person: a budget is used up (a2)"),
    ]


def test_a_takeover_is_told_with_what_the_person_says() -> None:
    free = LoopState(phase="idle", agent="Orders", handoff_path=("Orders",))
    hold = Hold(by="ann", at_ms=1)
    held = LoopState(phase="held", agent="Orders", handoff_path=("Orders",), hold=hold)
    words = Item("message", message_of_person("I am here."), "ann")
    spoken = replace(held, items=(words,))
    note = Item("note", {"role": "developer", "content": "ann gives it back."})
    back = LoopState(
        phase="turned",
        agent="Repairs",
        handoff_path=("Orders", "Repairs"),
        items=(words, note),
    )

    assert lines(free, held) == [("ann", "takes the conversation over")]
    (said,) = [event for event in events(held, spoken) if event.text]
    assert (said.who, said.text, said.data["by_person"]) == ("ann", "I am here.", True)
    assert lines(spoken, back) == [
        ("ann", "gives the conversation back to Repairs"),
        ("developer", "ann gives it back."),
        ("ann", "hands over to Repairs"),
    ]


def test_why_there_is_no_answer_is_told_once() -> None:
    failure = Failure(code="max_turns_exceeded", message="10 turns are used up.")
    before = LoopState(phase="thinking", agent="Orders")
    after = LoopState(
        phase="closed",
        agent="Orders",
        outcome="failed",
        failure=failure,
        answers=(Answer(("start",), None, "Orders", failure),),
    )

    assert lines(before, after) == [("Orders", "10 turns are used up."), ("outlast", "failed")]


def test_a_run_that_could_not_begin_says_why() -> None:
    failure = Failure(code="user_error", message="No such agent.")
    before = LoopState(phase="preparing", agent="Nobody")
    after = LoopState(phase="closed", agent="Nobody", outcome="failed", failure=failure)

    assert lines(before, after) == [("Nobody", "No such agent."), ("outlast", "failed")]


def test_what_was_ignored_is_told_even_when_only_the_newest_are_kept() -> None:
    one, two = Ignored(1, "decision approve for a9", "No such."), Ignored(2, "signal x", "What?")
    before = LoopState(phase="idle", agent="Orders", ignored=(one,))
    after = LoopState(phase="idle", agent="Orders", ignored=(two,))

    assert lines(before, after) == [("outlast", "signal x: What?")]


def test_nothing_new_is_nothing_to_tell() -> None:
    state = LoopState(phase="idle", agent="Orders", items=(TEXT,))

    assert events(state, state) == []


def test_a_record_has_the_time_and_the_names_of_the_stream() -> None:
    state = LoopState(phase="thinking", agent="Orders")
    (event,) = events(state, LoopState(phase="thinking", agent="Orders", items=(CALL,)))

    assert event.record() == {
        "type": "tool_called",
        "at": "1970-01-01T00:00:01.000+00:00",
        "who": "Orders",
        "item": 0,
        "turn": 1,
        "name": "look_up",
        "call_id": "c1",
        "arguments": '{"order_id": "A-17"}',
    }


def test_times_are_in_utc_with_milliseconds() -> None:
    assert iso_time(1_500) == "1970-01-01T00:00:01.500+00:00"


def test_calls_and_outputs_of_any_form_are_told() -> None:
    called = Item("tool_call", shell_call("c1", "ls"), "Orders", 1)
    answered = Item("tool_output", output_item("c1", "No such file.", "shell_call"), "Orders", 1)
    before = LoopState(phase="acting", agent="Orders")
    after = LoopState(phase="acting", agent="Orders", items=(called, answered))
    told = lines(before, after)
    assert [who for who, _ in told] == ["Orders", "Orders"]
    assert told[0][1].startswith("shell(action=")
    assert told[1][1] == "stderr:\nNo such file."


def name_in_stream(event: NumberedEvent) -> str:
    """Return what the command line calls an event of the stream."""
    return getattr(event, "name", event.type.removesuffix("_stream_event"))


@examples(6)
@given(scripts())
def test_an_event_knows_its_place_in_the_stream(script: Script) -> None:
    state = LoopState()
    for event in play_script(script).events:
        before, (state, _) = state, advance(state, event)
        found = [one for one in events(before, state) if one.place is not None]
        placed = {
            one.place: one.type.removeprefix("un").replace("blocked", "status") for one in found
        }
        stream = [name_in_stream(one) for one in changes(before, state, 0)]
        assert placed == dict(enumerate(stream))


# --- Waits for something outside -----------------------------------------------------------------


def waits_in(play: WaitingPlay) -> list[RunEvent]:
    state, found = LoopState(), list[RunEvent]()
    for event in play.events:
        before, (state, _) = state, advance(state, event)
        found += [
            one
            for one in run_events(event.at_ms, before, state)
            if one.type in {"wait", "wait_ended"}
        ]
    return found


def test_a_wait_says_what_for_and_until_when_and_who_delivered() -> None:
    play = parked_play()
    play.delivers()
    began, ended = waits_in(play)
    assert began.who == "Triage"
    assert began.text == f"waits for courier until {began.data['until']} (book)"
    assert (ended.who, ended.text) == ("courier.example", "delivers courier")
    assert ended.data["delivery_id"] == "d1"
    assert {began.place, ended.place} == {None}


def test_a_wait_without_a_value_or_an_end() -> None:
    play = parked_play()
    play.nothing_comes()
    assert waits_in(play)[-1].text == "nothing came for courier in time"
    [began] = waits_in(parked_play(timeout_ms=None))
    assert (began.text, began.data["until"]) == ("waits for courier (book)", None)


# --- Summaries of long conversations ---------------------------------------------------------------


def test_a_summary_is_a_line_with_what_the_model_reads() -> None:
    play = talk()
    summarised(play, items=({"role": "user", "content": "In short."},), model="small")
    [event] = [
        one
        for one in run_events(1_000, play.before, play.state, play.events[-1])
        if one.type == "compacted"
    ]
    count = play.state.compaction.made[0].entries
    assert event.text == f"the next model call reads a summary of {count} items (small): In short."
    assert event.data["text"] == "In short."
    [late] = [one for one in run_events(1_000, LoopState(), play.state) if one.type == "compacted"]
    assert late.text.endswith("items (small)"), "a reader of states alone has no text"


def test_a_summary_shows_no_redacted_value() -> None:
    play = talk()
    play.hears("pay", "and pay")
    play.replies(
        gated("pay", "c1", '{"iban": "DE8937040044"}', terms=ApprovalTerms(redact=("iban",)))
    )
    summarised(play, items=({"role": "user", "content": "They pay to DE8937040044."},))
    found = list(run_events(1_000, play.before, play.state, play.events[-1]))
    assert "DE8937040044" not in str(found)
    assert "They pay to [redacted]." in str(found)


def test_a_model_that_another_one_replaces_is_an_event_with_the_reason():
    play = Play.ready(keep_open=True)
    before = play.state
    fail(play, failure_of())
    [event] = [one for one in run_events(1_000, before, play.state) if one.text]
    assert (event.type, event.who) == ("model_replaced", play.state.agent)
    assert (
        event.text == "asks second in place of first: overloaded: The model provider is too busy."
    )
    assert event.data == {
        "model": "second",
        "tried": "first",
        "reason": "overloaded",
        "message": "The model provider is too busy.",
    }
