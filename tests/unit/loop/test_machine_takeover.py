"""How a person takes the conversation over, and how messages wait, steer and interrupt."""

from typing import Any

import pytest

from outlast.loop import phrases
from outlast.loop.actions import SayAction
from outlast.loop.approvals import ApprovalTerms, Audience, EscalationStep
from outlast.loop.effects import CallModel, CheckInput, SaveSession
from outlast.loop.events import PersonActed
from outlast.loop.items import text_of
from outlast.loop.start import Customer
from outlast.loop.state import items_of, items_to_save, turn_start
from outlast.loop.values import Failure, JsonObject
from outlast.loop.votes import deadline_ms, next_due_ms
from tests.laws.driver import (
    BUSY,
    SITUATIONS,
    Play,
    gated,
    nested,
    play_in,
    said,
    tool,
    transfer,
)

LEADS = ApprovalTerms(audience=Audience(subjects=("ann",)))


def held(**start: Any) -> Play:
    """A conversation that ann has, while it rests."""
    play = play_in("idle", keep_open=True, **start)
    play.holds()
    return play


def texts(play: Play) -> list[str]:
    """What was said, in order."""
    return [text_of(item.raw) for item in play.state.items if item.kind in {"input", "message"}]


# --- Hold ----------------------------------------------------------------------------------------


def test_a_held_conversation_waits_for_the_person() -> None:
    play = held()
    assert (play.state.phase, play.state.status) == ("held", "held")
    assert play.state.hold is not None
    assert play.state.hold.by == "ann"
    play.hears("m2", "Where is it?")
    assert (play.state.phase, play.outstanding) == ("held", {})
    assert texts(play)[-1] == "Where is it?"
    play.says("It is on its way.")
    assert texts(play)[-1] == "It is on its way."
    assert play.answers()[-1] == (("m2",), None)
    assert play.state.final_output == "It is on its way."
    assert play.state.items[play.state.answers[-1].item or 0].agent == "ann"


def test_a_person_may_speak_unasked() -> None:
    play = held()
    play.says("One more thing.")
    assert (len(play.state.answers), texts(play)[-1]) == (1, "One more thing.")


def test_a_repeated_remark_is_one() -> None:
    play = held()
    play.says("Hello.", message_id="s1")
    before = play.state
    play.says("Hello.", message_id="s1")
    assert play.state is before


def test_what_is_said_is_saved_in_the_session() -> None:
    play = Play.ready(session=True, keep_open=True)
    play.saved()
    play.replies(said("Hello to you."))
    play.saved()
    play.holds()
    play.hears("m2")
    play.saved()
    play.says("It is on its way.")
    play.saved()
    assert play.state.saving.queued_up_to == len(play.state.items)


@pytest.mark.parametrize("mode", ["after_turn", "immediate"])
def test_a_hold_comes_when_the_model_call_is_over_or_cancels_it(mode: Any) -> None:
    play = Play.ready(keep_open=True)
    call = play.only(CallModel)
    play.holds(mode=mode)
    assert play.state.status == "held"
    if mode == "after_turn":
        assert play.state.phase == "thinking"
        play.replies(said("Hello to you."))
        assert play.answers() == [(("start",), None)]
    else:
        assert play.stopped == [call.effect]
        assert play.state.question.answering == ("start",)
    assert play.state.phase == "held"


@pytest.mark.parametrize("mode", ["after_turn", "immediate"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_run_comes_to_rest_with_the_person_wherever_it_is(situation: str, mode: Any) -> None:
    play = play_in(situation, keep_open=True)
    play.holds(mode=mode)
    for _ in range(9):
        calls = [one for one in play.outstanding.values() if isinstance(one, CallModel)]
        issued = len([one for one in play.issued if isinstance(one, CallModel)])
        if play.state.pending_approvals:
            play.decided(play.state.pending_approvals[0].id, "reject")
        elif play.outstanding:
            _answer(play)
        later = len([one for one in play.issued if isinstance(one, CallModel)])
        assert later == issued or situation == "saving" or calls, "the agent does nothing"
    assert play.state.phase == "held"


def _answer(play: Play) -> None:
    effect = next(iter(play.outstanding.values()))
    match effect.kind:
        case "prepare_run":
            play.prepared()
        case "call_model":
            play.replies(said("Hello to you."))
        case "run_tool":
            play.returns(play.running_ids[0])
        case "run_handoff":
            play.called_back()
        case "check_input":
            play.checked()
        case "finalize_answer":
            play.concluded()
        case "run_agent":
            play.worked(final_output="x")
        case _:
            play.saved()


def test_a_question_whose_guardrails_run_during_the_hold_is_checked_again_after_it() -> None:
    play = play_in("checking", keep_open=True)
    play.holds()
    play.checked()
    assert (play.state.phase, play.outstanding) == ("held", {})
    play.releases()
    assert play.only(CheckInput).stage == "blocking"


def test_a_reply_that_asks_for_other_guardrails_waits_for_the_release() -> None:
    play = Play.ready(keep_open=True)
    play.holds()
    play.replies(unchecked=True, required_steps=("check_first",))
    assert (play.state.phase, play.outstanding) == ("held", {})
    play.releases()
    assert play.only(CheckInput).stage == "blocking"


def test_a_run_that_begins_held_waits_for_its_person() -> None:
    play = Play(keep_open=True)
    play.holds()
    play.prepared()
    assert play.state.phase == "held"
    play.says("Hello.")
    assert play.answers() == [(("start",), None)]


def test_a_run_of_one_question_may_be_held_after_it() -> None:
    play = Play.ready()
    play.holds()
    play.replies(said("Hello to you."))
    assert play.state.phase == "held"
    play.releases()
    assert play.finish.status == "completed"


def test_a_failed_question_stays_with_the_person() -> None:
    play = Play.ready()
    play.holds()
    play.fails(play.only(CallModel))
    assert (play.state.phase, play.answers()) == ("held", [(("start",), "broken")])
    play.releases()
    assert play.finish.status == "failed"


def test_one_person_at_a_time_has_a_conversation() -> None:
    play = held()
    before = play.state
    play.holds("ann")
    assert play.state is before
    play.holds("bob")
    assert play.state.ignored[-1].what == "hold by bob"
    assert play.state.ignored[-1].why.startswith("ann has the conversation. Only who has it")
    nameless = play_in("idle", keep_open=True)
    nameless.holds("")
    nameless.holds("bob")
    assert nameless.state.ignored[-1].why.startswith("A person has the conversation. ")


def test_only_the_holder_speaks_and_releases() -> None:
    play = held()
    play.says("Hi.", by="bob")
    play.releases("bob")
    play.holds("bob", to="bob")
    assert [note.what for note in play.state.ignored] == [
        "say by bob",
        "release by bob",
        "hold by bob",
    ]
    assert play.state.hold is not None
    assert (play.state.hold.by, play.state.hold.said) == ("ann", ())


def test_a_holder_hands_the_conversation_over_to_a_colleague() -> None:
    play = held()
    play.says("Hello.", message_id="s1")
    play.holds("ann", to="bob")
    assert play.state.hold is not None
    assert (play.state.hold.by, play.state.hold.said) == ("bob", ("s1",))
    play.says("I am gone.", by="ann")
    assert play.state.ignored[-1].what == "say by ann"
    play.says("I am Bob.", by="bob")
    play.releases("bob")
    assert (texts(play)[-1], play.state.phase) == ("I am Bob.", "idle")
    play.holds("ann", to="bob")
    assert play.state.ignored[-1].why == "Nobody has the conversation. Hold it first."


def test_a_conversation_is_handed_over_only_to_whoever_may_have_it() -> None:
    people = Audience(subjects=("ann", "eve", "cora"), exclude_requester=True)
    terms = ApprovalTerms(audience=people)
    play = play_in("idle", keep_open=True, takeover=terms, customer=Customer("cora"))
    play.holds("ann")
    for to, why in (
        ("bob", "bob may not do this. It is for ann or eve or cora."),
        ("Cora", "Cora asked for this, so somebody else has to decide."),
        ("e" * 5000, "needs a name of at most"),
    ):
        play.holds("ann", to=to)
        assert why in play.state.ignored[-1].why
        play.holds("eve", to=to, force=True)
        assert why in play.state.ignored[-1].why
    assert play.state.hold is not None
    assert play.state.hold.by == "ann"
    play.holds("ann", to="Eve")
    play.says("I am Eve.", by="eve")
    assert texts(play)[-1] == "I am Eve."


def test_of_a_group_the_new_holder_is_checked_when_they_act() -> None:
    terms = ApprovalTerms(audience=Audience(subjects=("ann",), groups=("billing",)))
    play = play_in("idle", keep_open=True, takeover=terms)
    play.holds("ann")
    play.holds("ann", to="bob")
    play.says("I am Bob.", by="bob")
    assert "bob may not do this" in play.state.ignored[-1].why


def test_a_hold_is_taken_from_somebody_by_force_only_by_the_audience() -> None:
    play = play_in("idle", keep_open=True, takeover=LEADS)
    play.holds("ann")
    play.holds("bob", force=True)
    assert "bob may not do this" in play.state.ignored[-1].why
    everybody = held()
    everybody.holds("bob", force=True)
    assert everybody.state.hold is not None
    assert everybody.state.hold.by == "bob"


def test_only_those_who_may_take_a_conversation_over() -> None:
    play = play_in("idle", keep_open=True, takeover=LEADS)
    play.holds("bob")
    play.says("Hi.")
    play.releases()
    assert [note.why for note in play.state.ignored] == [
        "Taking over the conversation: bob may not do this. It is for ann.",
        "Nobody has the conversation. Hold it first.",
        "Nobody has the conversation. Hold it first.",
    ]
    play.holds("ann")
    play.says("Hi.", by="bob")
    play.releases("bob")
    assert [note.what for note in play.state.ignored[3:]] == ["say by bob", "release by bob"]
    assert play.state.phase == "held"


def test_a_run_that_ends_or_begins_is_not_taken_over() -> None:
    play = Play.ready(session=True)
    play.replies(said("Bye."))
    play.holds()
    assert play.state.ignored[-1].why == "The run has ended. Start a new one."
    begins = Play(keep_open=True)
    begins.holds()
    begins.says("Hi.")
    assert begins.state.ignored[-1].why == "The run is preparing."


# --- Say, beside a turn --------------------------------------------------------------------------


@pytest.mark.parametrize("situation", [one for one in BUSY if one != "preparing"])
def test_a_person_may_speak_while_the_turn_goes_on(situation: str) -> None:
    play = play_in(situation, keep_open=True)
    play.holds()
    pending = play.state.pending
    play.says("One moment.")
    assert texts(play)[-1] == "One moment."
    assert (play.state.pending, play.state.answers) == (pending, ())


def test_the_newest_turn_begins_before_what_a_person_said_during_it() -> None:
    play = play_in("running", keep_open=True)
    play.holds()
    play.says("One moment.")
    play.returns("c1")
    play.returns("c2")
    assert play.kinds == ["input", *["tool_call"] * 2, "note", "message", *["tool_output"] * 2]
    assert turn_start(play.state) == 1


def test_a_withheld_turn_keeps_what_a_person_said_during_it() -> None:
    play = Play.ready(keep_open=True)
    play.replies(
        tool("look_up", "c1", final=True), required_steps=("finalize_answer", "check_output")
    )
    play.holds()
    play.says("One moment.")
    play.returns("c1", "secret")
    play.concluded(failure=None, results=(), final=True)
    assert "One moment." in texts(play)


# --- Release -------------------------------------------------------------------------------------


def test_a_released_conversation_goes_on_with_what_nobody_answered() -> None:
    play = held()
    play.hears("m2")
    play.releases(note="I refunded it.")
    assert play.only(CallModel)
    note = play.state.items[-1].raw
    assert note == {
        "role": "developer",
        "content": phrases.released("ann", "I refunded it.", spoke=False),
    }
    play.replies(said("You have it back."))
    assert play.answers()[-1] == (("m2",), None)
    assert play.state.phase == "idle"


def test_a_released_conversation_rests_where_everything_is_answered() -> None:
    play = held()
    play.hears("m2")
    play.says("Done.")
    play.releases()
    assert play.state.phase == "idle"
    play.holds("bob")
    assert play.state.hold is not None
    assert play.state.hold.by == "bob"


def test_a_nameless_release_says_that_a_person_spoke() -> None:
    play = play_in("idle", keep_open=True)
    play.holds("")
    play.releases("", note="Done.")
    assert play.state.items[-1].raw["content"].startswith("A person of the team")


def test_another_agent_may_go_on() -> None:
    play = held()
    play.hears("m2")
    play.releases(to="Billing")
    assert play.state.agent == "Billing"
    assert play.state.handoff_path == ("Triage", "Billing")
    assert play.only(CallModel).agent == "Billing"
    assert play.only(CallModel).starts


@pytest.mark.parametrize("situation", [one for one in BUSY if one != "preparing"])
def test_another_agent_goes_on_only_after_the_turn(situation: str) -> None:
    """The calls of a reply belong to the agent that made it."""
    play = play_in(situation, keep_open=True)
    play.holds()
    play.releases(to="Billing")
    assert "The turn of Triage is not over" in play.state.ignored[-1].why
    assert play.state.agent == "Triage"
    play.releases(to="Triage")
    assert play.state.hold is None


def test_a_release_checks_what_was_said_during_the_hold() -> None:
    play = Play(keep_open=True)
    play.prepared(required_steps=("check",))
    play.checked()
    play.replies(said("Hello."), required_steps=("check",))
    play.holds()
    play.hears("m2")
    assert play.state.phase == "held"
    play.releases()
    assert play.only(CheckInput).stage == "parallel"


def notes(play: Play) -> list[str]:
    """What the model reads about people."""
    return [str(item.raw["content"]) for item in play.state.items if item.kind == "note"]


def test_the_model_reads_who_spoke_and_that_it_has_the_conversation_again() -> None:
    play = held()
    play.says("Hello.")
    play.says("Are you there?")
    play.holds("ann", to="bob")
    play.says("I am Bob.", by="bob")
    play.releases("bob")
    assert notes(play) == [
        phrases.taken_over("ann"),
        phrases.taken_over("bob"),
        phrases.released("bob", "", spoke=True),
    ]
    assert play.kinds[-6:] == ["note", "message", "message", "note", "message", "note"]


def test_the_model_reads_that_nobody_spoke() -> None:
    play = held()
    play.releases()
    assert notes(play) == [phrases.released("ann", "", spoke=False)]
    assert "said nothing to the user" in notes(play)[0]


# --- Messages that nobody has checked, and what a person answered to them -------------------------


def guarded(*steps: Any, **start: Any) -> Play:
    """A conversation that ann has, of an agent with guardrails."""
    play = Play(keep_open=True, **start)
    play.prepared(required_steps=steps)
    if {"check", "check_first"} & set(steps):
        play.checked()
    play.replies(said("Hello."), required_steps=steps)
    play.holds()
    return play


BAD = Failure(code="input_guardrail_tripwire", message="The guardrail 'polite' tripped.")


def test_what_is_being_saved_is_saved_once_where_a_person_answers_it_after_all() -> None:
    play = Play(keep_open=True, session=True)
    play.prepared(required_steps=("check_first",))
    play.checked()
    save = play.only(SaveSession)
    play.fails(play.only(CallModel))
    play.retried()
    play.checked()
    play.fails(play.only(CallModel))
    play.retried()
    play.holds()
    play.checked()
    play.says("I take care of it.")
    assert [(one.start, one.stop) for one in play.state.saving.to_save] == [(save.start, save.stop)]
    play.saved()
    assert play.state.saving.queued_up_to == save.stop


def test_a_message_that_a_person_answered_is_checked_alone_before_the_next_question() -> None:
    play = guarded("check_first")
    play.hears("m2", "bad words")
    play.says("Please do not.")
    play.hears("m3", "more bad words")
    play.says("Stop it.")
    play.releases()
    assert (play.state.phase, play.outstanding) == ("idle", {})
    play.hears("m4", "Sorry.")
    first = play.only(CheckInput)
    assert (first.stage, [text_of(item.raw) for item in first.items]) == ("added", ["bad words"])
    play.checked(failure=BAD)
    second = play.only(CheckInput)
    assert [text_of(item.raw) for item in second.items] == ["more bad words"]
    play.checked()
    whole = play.only(CheckInput)
    assert whole.stage == "blocking"
    seen = [text_of(item.raw) for item in whole.items if item.kind == "input"]
    assert seen[-2:] == ["more bad words", "Sorry."]
    assert "bad words" not in seen
    play.checked()
    assert "bad words" not in [
        text_of(item.raw) for item in items_of(play.state, play.only(CallModel))
    ]
    play.replies(said("All is well."))
    assert play.answers()[-1] == (("m4",), None)
    assert "bad words" in texts(play), "people still read it"
    (note,) = play.state.ignored
    assert (note.what, note.why) == ("a message that a person answered", BAD.message)


def test_a_guardrail_that_breaks_passes_nothing_that_a_person_answered() -> None:
    play = guarded("check")
    play.hears("m2", "bad words")
    play.says("Please do not.")
    play.releases()
    play.hears("m3", "Sorry.")
    play.fails(play.only(CheckInput))
    assert play.state.ignored[-1].what == "a message that a person answered"
    assert play.only(CheckInput).stage == "parallel"
    assert play.state.answered_unchecked == ()


def test_a_hold_during_such_a_check_keeps_its_verdict() -> None:
    play = guarded("check")
    play.hears("m2", "bad words")
    play.says("Please do not.")
    play.releases()
    play.hears("m3", "Sorry.")
    play.holds("bob")
    play.checked(failure=BAD)
    assert (play.state.phase, play.outstanding) == ("held", {})
    assert play.state.answered_unchecked == ()


def test_an_agent_without_guardrails_checks_nothing() -> None:
    play = guarded("check")
    play.hears("m2", "bad words")
    play.says("Please do not.")
    play.releases(to="Billing")
    play.hears("m3", "Sorry.")
    assert play.only(CallModel).agent == "Billing"
    assert play.state.answered_unchecked != ()


@pytest.mark.parametrize("passes", [True, False])
def test_the_session_gets_what_was_said_once_it_is_checked(passes: bool) -> None:
    play = guarded("check", session=True)
    play.saved()
    play.saved()
    play.hears("m2", "bad words")
    play.says("Please do not.")
    assert play.state.saving.to_save == ()
    play.releases()
    play.hears("m3", "Sorry.")
    play.checked(failure=None if passes else BAD)
    play.checked()
    play.replies(said("All is well."))
    saved = [
        text_of(item.raw) for effect in _saves(play) for item in items_to_save(play.state, effect)
    ]
    expected = ["Please do not.", "Sorry.", "All is well."]
    everything = ["bad words", *expected] if passes else expected
    assert [one for one in saved if one in {"bad words", *expected}] == everything


def test_the_session_gets_what_a_person_said_between_messages_that_are_not_passed() -> None:
    play = Play(keep_open=True, session=True)
    play.prepared(required_steps=("check_first",))
    play.holds()
    play.says("One moment.")
    play.hears("m2", "bad words")
    play.checked()
    play.says("Please do not.")
    play.releases()
    play.hears("m3", "Sorry.")
    play.checked(failure=BAD)
    play.checked()
    got = [
        text_of(item.raw) for effect in _saves(play) for item in items_to_save(play.state, effect)
    ]
    spoken = [one for one in got if one in {"One moment.", "bad words", "Please do not.", "Sorry."}]
    assert spoken == ["One moment.", "Please do not.", "Sorry."]


def _saves(play: Play) -> list[SaveSession]:
    while any(isinstance(one, SaveSession) for one in play.outstanding.values()):
        play.saved()
    return [one for one in play.issued if isinstance(one, SaveSession)]


def test_a_run_that_ends_before_such_a_check_saves_the_person_s_words_alone() -> None:
    play = guarded("check", session=True)
    play.saved()
    play.hears("m2", "bad words")
    play.says("Please do not.")
    play.cancelled("after_turn")
    saved = [
        text_of(item.raw) for effect in _saves(play) for item in items_to_save(play.state, effect)
    ]
    assert "bad words" not in saved
    assert saved[-1] == "Please do not."
    assert play.finish.status == "completed"


# --- Words that output guardrails judge ----------------------------------------------------------


def test_words_are_said_once_output_guardrails_pass_them() -> None:
    play = guarded("check_said")
    play.hears("m2", "Where is it?")
    play.says("On its way.", message_id="s1")
    check = play.only(CheckInput)
    assert (check.stage, [text_of(item.raw) for item in check.items]) == ("said", ["On its way."])
    assert "On its way." not in texts(play)
    play.says("On its way.", message_id="s1")
    play.says("Anything else?")
    play.checked()
    assert play.answers()[-1] == (("m2",), None)
    play.checked()
    assert texts(play)[-2:] == ["On its way.", "Anything else?"]
    assert (play.state.phase, play.outstanding) == ("held", {})


@pytest.mark.parametrize("broken", [True, False])
def test_words_that_are_not_passed_are_not_said(broken: bool) -> None:
    play = guarded("check_said")
    play.hears("m2", "Where is it?")
    play.says("Never mind, fool.")
    play.fails(play.only(CheckInput)) if broken else play.checked(failure=BAD)
    assert "Never mind, fool." not in texts(play)
    assert play.state.question.answering == ("m2",)
    assert play.state.ignored[-1].what == "say by ann"
    assert (play.state.phase, play.outstanding) == ("held", {})


def test_nameless_words_are_refused_under_no_name() -> None:
    nameless = Play(keep_open=True)
    nameless.prepared(required_steps=("check_said",))
    nameless.replies(said("Hello."), required_steps=("check_said",))
    nameless.holds("")
    nameless.says("Fool.", by="")
    nameless.checked(failure=BAD)
    assert nameless.state.ignored[-1].what == "say"


def test_words_wait_for_the_turn_and_the_release_for_them() -> None:
    play = Play(keep_open=True)
    play.prepared(required_steps=("check_said",))
    play.holds()
    play.says("One moment.")
    assert not [one for one in play.outstanding.values() if isinstance(one, CheckInput)]
    play.releases()
    assert play.state.ignored[-1].why.startswith("Guardrails still judge")
    play.replies(said("Hello."), required_steps=("check_said",))
    play.checked()
    play.releases()
    assert texts(play)[-2:] == ["Hello.", "One moment."]
    assert play.state.phase == "idle"


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
def test_a_cancelled_run_says_nothing_more(mode: Any) -> None:
    play = guarded("check_said")
    play.says("One moment.")
    play.cancelled(mode)
    if mode == "after_turn":
        play.checked()
    assert (play.state.unsaid, play.state.phase) == ((), "closed")


# --- Cancel, retry and time-outs of a held run ---------------------------------------------------


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
def test_a_held_run_can_be_cancelled(mode: Any, asked: bool) -> None:
    play = held()
    if asked:
        play.hears("m2")
    play.cancelled(mode)
    gently = mode == "after_turn" and not asked
    assert play.finish.status == ("completed" if gently else "cancelled")


def test_a_held_run_retries_nothing() -> None:
    play = Play.ready(keep_open=True)
    play.fails(play.only(CallModel))
    play.holds()
    play.retried()
    assert "only an open conversation at rest" in play.state.ignored[-1].why


def test_a_line_stays_with_a_held_run() -> None:
    play = held()
    play.attached()
    play.speaks(said("Hello?"), heard="Is anybody there?")
    assert play.state.phase == "held"
    play.says("I am.")
    play.releases()
    assert play.state.phase == "idle"


def test_a_hold_does_not_cancel_the_model_call_of_a_line() -> None:
    play = play_in("idle", keep_open=True)
    play.attached()
    play.hears("m2")
    play.holds(mode="immediate")
    assert play.state.phase == "thinking"
    play.hears("m3", mode="interrupt")
    assert play.state.phase == "thinking"


# --- Queue, steer, interrupt and withdraw --------------------------------------------------------


def test_a_queued_message_waits_for_the_answer() -> None:
    play = play_in("running", keep_open=True)
    play.hears("m2", mode="queue")
    play.hears("m3", mode="steer")
    play.returns("c1")
    play.returns("c2")
    assert texts(play)[-1] == "text of m3"
    assert [one.id for one in play.state.inbox] == ["m2"]
    play.replies(said("Done."))
    assert play.answers() == [(("start", "m3"), None)]
    assert play.state.question.answering == ("m2",)


def test_a_queued_message_reaches_an_idle_conversation_at_once() -> None:
    play = play_in("idle", keep_open=True)
    play.hears("m2", mode="queue")
    assert play.state.phase == "thinking"
    persons = held()
    persons.hears("m2", mode="queue")
    assert persons.state.inbox == ()


def test_an_interruption_cancels_the_model_call_under_way() -> None:
    play = Play.ready(keep_open=True)
    call = play.only(CallModel)
    play.hears("m2", mode="interrupt")
    assert play.stopped == [call.effect]
    assert play.only(CallModel).turn == 2
    play.replies(said("Both."))
    assert play.answers() == [(("start", "m2"), None)]


def test_an_interruption_drops_what_has_not_begun() -> None:
    play = Play.ready(keep_open=True)
    calls = tool("slow", "c1"), tool("f", "c2"), gated("g", "c3"), transfer("B", "h1")
    play.replies(*calls[:3], parallel=1)
    play.hears("m2", mode="interrupt")
    assert play.running_ids == ["c1"]
    assert [one.status for one in play.state.approvals] == ["superseded"]
    play.returns("c1", "done")
    assert play.outputs == {"c1": "done", "c2": phrases.SUPERSEDED, "c3": phrases.SUPERSEDED}
    assert play.state.phase == "thinking"
    play.replies(calls[3])
    assert play.state.agent == "B"


def test_an_interruption_of_an_answer_that_waits_makes_it_anew() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("You get 500."), answer_terms=ApprovalTerms())
    play.hears("m2", mode="interrupt")
    assert play.state.phase == "thinking"
    assert [one.status for one in play.state.approvals] == ["superseded"]
    note = play.state.items[-2].raw
    assert note["content"].endswith(f": {phrases.ANSWER_SUPERSEDED} Answer anew.")


@pytest.mark.parametrize("situation", ["preparing", "transferring", "checking", "finalizing"])
def test_an_interruption_elsewhere_waits_for_the_next_model_call(situation: str) -> None:
    play = play_in(situation, keep_open=True)
    pending = play.state.pending
    play.hears("m2", mode="interrupt")
    assert play.state.pending == pending
    assert [one.id for one in play.state.inbox][-1] == "m2"


def test_a_nested_run_goes_on_when_the_user_interrupts() -> None:
    play = Play.ready(keep_open=True)
    play.replies(nested("Billing", "c1"), gated("g", "c2"))
    play.hears("m2", mode="interrupt")
    assert play.stopped == []
    play.worked(final_output="x")
    assert play.outputs["c1"] == "x"


def test_a_message_can_be_withdrawn_until_it_is_taken() -> None:
    play = play_in("running", keep_open=True)
    play.hears("m2")
    play.hears("m3")
    play.withdraws("m2")
    assert [one.id for one in play.state.inbox] == ["m3"]
    play.withdraws("m2")
    play.withdraws("start")
    assert [note.what for note in play.state.ignored] == ["withdraw m2", "withdraw start"]


def test_the_message_that_a_run_begins_with_cannot_be_withdrawn() -> None:
    play = Play(keep_open=True)
    play.withdraws("start")
    assert len(play.state.ignored) == 1
    assert play.state.inbox


def test_a_note_of_a_release_is_no_message() -> None:
    play = held()
    play.releases(note="Done.")
    note: JsonObject = play.state.items[-1].raw
    assert note["role"] == "developer"
    assert play.state.phase == "idle"


# --- Time ---------------------------------------------------------------------------------------


SLOW = ApprovalTerms(
    expires_in_ms=60_000,
    escalations=(EscalationStep(after_ms=30_000, audience=Audience(groups=("leads",))),),
    remind_every_ms=60_000,
)


def test_no_time_passes_for_a_request_while_a_person_has_the_conversation() -> None:
    play = Play.ready(keep_open=True)
    play.replies(gated("refund", "c1", terms=SLOW))
    before = play.state.approvals[0]
    play.holds()
    assert next_due_ms(play.state.approvals[0]) is None
    assert deadline_ms(play.state.approvals[0]) is None
    held_ms = play.now_ms
    play.passes(10**9)
    assert play.state.approvals[0].status == "pending"
    assert play.state.approvals[0].escalated == 0
    play.releases()
    pause = play.now_ms - held_ms
    after = play.state.approvals[0]
    assert before.expires_at_ms is not None
    assert after.expires_at_ms == before.expires_at_ms + pause
    assert next_due_ms(after) == after.requested_at_ms + pause + 30_000
    play.passes(31_000)
    assert play.state.approvals[0].escalated == 1
    play.passes(31_000)
    assert play.state.approvals[0].status == "expired"


def test_a_request_that_is_made_while_a_person_takes_over_waits_without_time() -> None:
    play = Play.ready(keep_open=True)
    play.holds()
    play.replies(gated("refund", "c1", terms=SLOW))
    play.passes(10**9)
    assert play.state.approvals[0].status == "pending"
    play.releases()
    assert next_due_ms(play.state.approvals[0]) is not None


def test_a_request_that_is_decided_during_a_takeover_stays_as_it_is() -> None:
    play = Play.ready(keep_open=True)
    play.replies(gated("refund", "c1", terms=SLOW))
    play.holds()
    play.decided("a1")
    settled = play.state.approvals[0]
    play.returns("c1")
    play.passes(1_000)
    play.releases()
    assert play.state.approvals[0] == settled


def test_whoever_repeats_a_release_or_a_handover_changes_nothing_and_is_not_refused() -> None:
    play = play_in("idle", keep_open=True)
    play.holds("ann")
    play.holds("ann", to="bob")
    after = play.state
    play.holds("Ann", to="bob")
    assert play.state is after, "repeated"
    play.holds("ann", to="cora")
    assert play.state.ignored[-1].what == "hold by ann", "she has it no more"
    play.releases("bob", note="Be kind.")
    noted = len(play.state.ignored)
    released = play.state
    play.releases("bob", note="Be kind.")
    assert play.state is released, "repeated"
    for fields in ({"by": "ann", "note": "Be kind."}, {"by": "bob", "note": "Be quick."}):
        play.releases(**fields)
        noted += 1
        assert play.state.ignored[-1].why == "Nobody has the conversation. Hold it first."
    play.holds("ann", to="bob")
    play.holds("ann")
    play.releases("bob", note="Be kind.")
    assert "ann has the conversation" in play.state.ignored[-1].why
    play.releases("ann", note="Be kind.")
    assert play.state.hold is None
    assert [one.what for one in play.state.ignored[noted:]] == ["hold by ann", "release by bob"]


def test_files_of_a_person_stay_beside_their_words_where_no_model_reads_them() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hi."))
    play.holds("ann")
    part: JsonObject = {"type": "input_file", "filename": "bill.pdf", "file_data": "data:,x"}
    action = SayAction(by="ann", text="Your bill.", message_id="p1", files=(part,))
    play.take(PersonActed(at_ms=play.now_ms, action=action))
    play.says("Anything else?")
    first, second = play.state.items[-2:]
    assert (text_of(first.raw), first.custom_data) == ("Your bill.", {"files": [part]})
    assert "bill.pdf" not in str(first.raw)
    assert second.custom_data is None
