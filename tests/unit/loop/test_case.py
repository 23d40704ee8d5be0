"""The case of a conversation: assigned, put off, resolved, and what brings it back."""

from typing import Any

import pytest

from outlast.contract.refusals import refusal_of
from outlast.loop.actions import (
    LONGEST_COMMENT,
    LONGEST_NAME,
    CaseAction,
    RatingRecord,
    TeamReport,
)
from outlast.loop.approvals import ApprovalTerms, Audience
from outlast.loop.case import COMMENTS_KEPT, NO_CASE, Case, Rating, case_words
from outlast.loop.case_acts import due_ms
from outlast.loop.effects import ReportToTeam
from outlast.loop.events import ConversationRated, PersonActed
from outlast.loop.human_actions import row_of
from outlast.loop.start import Parent
from outlast.loop.state import Hold
from outlast.loop.values import JsonObject
from tests.laws.driver import Play, play_in, said, tool

HOUR = 3_600_000
DAY = 24 * HOUR


def resting(**start: Any) -> Play:
    """A conversation in which nothing waits for an answer."""
    return play_in("idle", keep_open=True, **start)


def refused(play: Play) -> str:
    """Why the newest act had no effect."""
    return play.state.ignored[-1].why


def test_a_conversation_is_assigned_to_a_person_of_a_team_and_given_back() -> None:
    play = resting()
    play.case("assign", to="bob", team="billing")
    case = play.state.case
    assert (case.to, case.team, case.since_ms) == ("bob", "billing", play.state.at_ms)
    play.passes(HOUR)
    play.case("assign", to="bob", team="billing")
    assert play.state.case == case
    play.case("assign")
    assert (play.state.case.to, play.state.case.team) == ("", "")


def test_comments_are_for_colleagues_each_once_and_the_newest_are_kept() -> None:
    play = resting()
    items = play.state.items
    for number in range(COMMENTS_KEPT + 1):
        play.case("comment", text=f"Look, @bob: {number}", comment_id=f"c{number}")
    play.case("comment", text="Again", comment_id="c9")
    kept = play.state.case.comments
    assert (len(kept), kept[0].id, kept[-1].by) == (COMMENTS_KEPT, "c1", "ann")
    assert "Again" not in {one.text for one in kept}
    assert play.state.items == items


def test_a_comment_tags_whom_it_mentions_and_its_words_say_so_already() -> None:
    play = resting()
    play.case("comment", text="Look, @cid.", comment_id="c1", add=("@cid",))
    before = play.state.case
    assert before.tags == ("@cid",)
    assert case_words(Case(), before) == "comment: Look, @cid."
    play.case("comment", text="Done.", comment_id="c2", remove=("@cid",))
    assert play.state.case.tags == ()
    assert case_words(before, play.state.case) == "comment: Done."
    play.case("comment", text="Again.", comment_id="c2", add=("@eve",))
    assert play.state.case.tags == ()


def test_tags_and_links_come_and_go_one_by_one() -> None:
    play = resting()
    play.case("tag", add=("refund", "vip"))
    play.case("tag", add=("vip", "angry"), remove=("refund",))
    play.case("link", add=("support-7",))
    assert play.state.case.tags == ("vip", "angry")
    assert play.state.case.links == ("support-7",)


def test_a_resolved_conversation_stays_open_for_a_while_and_ends() -> None:
    play = resting(resolved_stays_ms=DAY)
    play.case("resolve", text="paid")
    assert (play.state.status, play.state.case.resolved_by) == ("resolved", "ann")
    first = play.state.case
    play.passes(DAY - HOUR)
    play.case("resolve", by="bob")
    assert play.state.case == first
    assert due_ms(play.state) == (first.resolved_ms or 0) + DAY
    play.passes(HOUR)
    assert (play.state.phase, play.finish.status) == ("closed", "completed")


def test_a_word_of_the_customer_reopens_it() -> None:
    play = resting(resolved_stays_ms=DAY)
    play.case("resolve")
    play.hears("m2", "One more thing.")
    assert (play.state.phase, play.state.case.resolved_ms) == ("thinking", None)
    play.replies(said("Yes?"))
    assert (play.state.status, due_ms(play.state)) == ("idle", None)
    play.case("resolve")
    play.case("reopen")
    play.passes(9 * DAY)
    assert play.state.status == "idle"


def test_a_snoozed_conversation_comes_back_in_time_or_with_a_word() -> None:
    play = resting()
    play.case("snooze", until_ms=play.now_ms + DAY)
    assert (play.state.status, due_ms(play.state)) == ("snoozed", play.state.at_ms + DAY)
    play.passes(DAY)
    assert (play.state.status, play.state.case.snoozed_until_ms) == ("idle", None)
    play.case("snooze", until_ms=play.now_ms + DAY)
    play.hears("m2", "Hello?")
    assert play.state.case.snoozed_until_ms is None


def test_who_holds_it_resolves_it_and_gives_it_back_by_that() -> None:
    play = resting()
    play.holds()
    play.case("resolve", by="bob")
    assert "ann has the conversation" in refused(play)
    play.case("snooze", until_ms=play.now_ms + DAY, by="bob")
    assert play.state.status == "snoozed"
    play.case("resolve")
    assert (play.state.status, play.state.hold) == ("resolved", None)
    assert play.state.phase == "idle"


def test_who_takes_a_resolved_conversation_over_reopens_it_so_that_it_does_not_end() -> None:
    play = resting(resolved_stays_ms=DAY)
    play.case("resolve")
    play.holds(by="bob")
    assert (play.state.status, play.state.case.resolved_ms) == ("held", None)
    play.passes(9 * DAY)
    assert play.state.status == "held"


def test_a_run_of_one_question_that_is_held_ends_when_it_is_resolved() -> None:
    play = Play.ready()
    play.holds(mode="after_turn")
    play.replies(said("Hello."))
    assert play.state.phase == "held"
    play.case("resolve")
    assert play.finish.status == "completed"


@pytest.mark.parametrize("do", ["resolve", "snooze"])
def test_nothing_is_resolved_or_put_off_while_somebody_waits_for_an_answer(do: Any) -> None:
    play = Play.ready(keep_open=True)
    play.case(do, until_ms=play.now_ms + DAY)
    assert "still waits for an answer" in refused(play)
    play.case("tag", add=("vip",))
    assert play.state.case.tags == ("vip",)


def test_what_cannot_be_done_says_why() -> None:
    play = resting(takeover=ApprovalTerms(audience=Audience(subjects=("ann",))))
    play.case("tag", add=("vip",), by="eve")
    assert refused(play).startswith("What colleagues do with a conversation: eve may not")
    play.case("snooze", until_ms=play.now_ms - 1)
    assert "has passed" in refused(play)
    play.case("resolve")
    play.case("snooze", until_ms=play.now_ms + DAY)
    assert "Reopen it first" in refused(play)
    nested = play_in("idle", keep_open=True, parent=Parent(run_id="support-1", prefix="n1."))
    nested.case("tag", add=("vip",))
    assert "support-1, which has the case" in refused(nested)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"do": "comment", "text": " ", "comment_id": "c1"}, "comment needs text"),
        ({"do": "comment", "text": "Hello"}, "comment needs text, and comment_id"),
        ({"do": "snooze"}, "snooze needs until_ms"),
        ({"do": "tag"}, "tag needs words"),
        ({"do": "link", "add": (" ",)}, "link needs words"),
        ({"do": "assign", "to": "x" * (LONGEST_NAME + 1)}, "at most 500 characters"),
        ({"do": "resolve", "text": "x" * (LONGEST_COMMENT + 1)}, "at most 10,000 characters"),
    ],
)
def test_an_act_that_says_nothing_or_too_much_is_refused(
    fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        CaseAction(**fields)


def act(**fields: Any) -> tuple[str, str, JsonObject]:
    """Do something with a case; return what the audit and its readers say, and the receipt."""
    play = resting()
    play.case("tag", add=("old",))
    before = play.state.case
    play.case(**fields)
    event = play.events[-1]
    assert isinstance(event, PersonActed)
    row = row_of(event.action)
    return (
        row.note(event),
        case_words(before, play.state.case),
        row.receipt(play.state, event.action),
    )


@pytest.mark.parametrize(
    ("fields", "note", "words"),
    [
        ({"do": "assign", "to": "bob"}, "assigned to bob", "assigned to bob"),
        ({"do": "assign", "team": "billing"}, "assigned to billing", "assigned to billing"),
        (
            {"do": "comment", "text": "Look.", "comment_id": "c1"},
            "comment c1",
            "comment: Look.",
        ),
        ({"do": "resolve", "text": "paid"}, "resolved", "resolved"),
        ({"do": "reopen"}, "reopened", ""),
        ({"do": "snooze", "until_ms": 10**12}, "snoozed", "snoozed"),
        (
            {"do": "tag", "add": ("vip",), "remove": ("old",)},
            "tag vip, not old",
            "tag vip; no tag old",
        ),
        ({"do": "link", "add": ("support-7",)}, "link support-7", "link support-7"),
        ({"do": "recount"}, "times counted anew", "times counted anew"),
    ],
)
def test_the_audit_and_the_stream_say_what_was_done(
    fields: dict[str, Any], note: str, words: str
) -> None:
    said, shown, receipt = act(**fields)
    assert (said, shown) == (note, words)
    assert receipt["tags"] == (["vip"] if fields["do"] == "tag" else ["old"])


def test_what_goes_back_has_words_too() -> None:
    before = Case(to="bob", team="billing", resolved_ms=1, snoozed_until_ms=None)
    assert case_words(before, Case()) == "assigned to nobody; reopened"
    assert case_words(Case(snoozed_until_ms=5), Case()) == "back"
    assert case_words(Case(to="bob", team="billing"), Case(to="ann", team="billing")) == (
        "assigned to ann of billing"
    )


# --- The team of a conversation ----------------------------------------------------------------------


def reports(play: Play) -> list[tuple[str, TeamReport]]:
    """What teams have heard since the last look."""
    told = [(one.team, one.record) for one in play.commands if isinstance(one, ReportToTeam)]
    play.commands.clear()
    return told


def report(number: int, **fields: Any) -> TeamReport:
    began_ms = Play().state.start.started_at_ms
    return TeamReport(chain_id="", run_id=Play.run_id, report=number, began_ms=began_ms, **fields)


def test_a_team_says_whose_a_conversation_is_and_hears_when_they_take_it_and_give_it_back() -> None:
    play = resting()
    play.case("assign", team="billing")
    assert reports(play) == [("billing", report(1))]
    play.team_says("bob", due_ms=play.now_ms + HOUR)
    case = play.state.case
    assert (case.to, case.due_ms, case.since_ms) == (
        "bob",
        play.state.at_ms + HOUR,
        play.state.at_ms,
    )
    assert reports(play) == []
    play.holds("bob")
    assert reports(play) == [("billing", report(2, to="bob"))]
    assert play.state.case.due_ms is None
    play.says("I look into it.", "bob")
    assert reports(play) == [("billing", report(3, to="bob", taken=True))]
    play.releases("bob")
    assert reports(play) == [("billing", report(4, gone=True))]
    assert (play.state.case.to, play.state.case.team) == ("bob", "billing")
    play.holds("ann")
    assert reports(play) == [("billing", report(5, to="ann"))]
    assert play.state.case.to == "ann"


def test_a_team_that_names_who_has_spoken_already_hears_that_it_is_taken() -> None:
    play = resting()
    play.holds("bob")
    play.case("assign", team="billing", to="bob")
    play.says("I look into it.", "bob")
    play.case("assign", team="billing", to="ann")
    assert reports(play)[-1] == ("billing", report(3, to="ann"))
    play.team_says("bob", due_ms=play.now_ms + HOUR)  # ann did not take it in time
    assert reports(play) == [("billing", report(4, to="bob", taken=True))]
    assert (play.state.case.to, play.state.case.due_ms) == ("bob", None)


def test_a_run_takes_only_the_answer_to_its_newest_report() -> None:
    play = resting()
    play.case("assign", team="billing")
    play.case("assign", to="cid", team="billing")
    before = play.state.case
    play.team_says("bob", report=1)
    play.team_says("bob", team="leads")
    play.team_says("bob", chain_id="of another run")
    assert play.state.case == before
    assert play.state.ignored == ()
    play.team_says("bob")
    assert play.state.case.to == "bob"


@pytest.mark.parametrize("how", ["resolve", "cancel", "assign"])
def test_a_team_hears_that_it_has_nothing_more_to_do(how: str) -> None:
    play = resting()
    play.case("assign", team="billing")
    reports(play)
    if how == "cancel":
        play.cancelled()
    else:
        play.case("resolve" if how == "resolve" else "assign")
    assert reports(play) == [("billing", report(2, gone=True))]
    play.hears("m2", "And now?") if how == "resolve" else None
    assert reports(play) == []


def test_another_team_gets_it_from_the_one_before() -> None:
    play = resting()
    play.case("assign", team="billing")
    reports(play)
    play.case("assign", team="leads", to="dan")
    assert reports(play) == [
        ("billing", report(2, gone=True)),
        ("leads", report(2, to="dan")),
    ]


def test_what_is_put_off_does_not_go_on_to_the_next_person_until_it_is_back() -> None:
    play = resting()
    play.case("assign", team="billing", to="bob")
    reports(play)
    play.case("snooze", until_ms=play.now_ms + HOUR)
    assert reports(play) == [("billing", report(2, to="bob", taken=True))]
    play.passes(HOUR)
    assert reports(play) == [("billing", report(3, to="bob"))]


def test_a_conversation_without_a_team_tells_none() -> None:
    play = resting()
    play.case("assign", to="bob")
    play.holds("bob")
    play.case("resolve", by="bob")
    assert reports(play) == []


def handed_over(**start: Any) -> Play:
    """A run whose tool gives the conversation to a team."""
    play = Play.ready(**start)
    play.replies(tool("ask_people", "c1"), tool("look_up", "c2"))
    play.returns("c1", "A colleague takes over.", team="billing")
    return play


def test_a_tool_gives_the_conversation_to_a_team_once_its_turn_is_over() -> None:
    play = handed_over(keep_open=True)
    assert reports(play) == [("billing", report(1))]
    assert play.state.phase == "acting"
    play.returns("c2", "Found.")
    assert (play.state.status, play.state.hold) == ("held", Hold(by="", at_ms=1_003_000))
    play.holds("bob")
    assert play.state.ignored == ()
    assert play.state.case.to == "bob"
    play.holds("cid")
    assert "bob has the conversation" in refused(play)


def test_who_has_the_conversation_keeps_it_and_a_nested_run_has_none_to_give() -> None:
    play = Play.ready(keep_open=True)
    play.replies(tool("ask_people", "c1"))
    play.holds("ann", mode="after_turn")
    play.returns("c1", "A colleague takes over.", team="billing")
    assert play.state.hold is not None
    assert (play.state.hold.by, play.state.case.team) == ("ann", "billing")
    nested = handed_over(parent=Parent(run_id="root", prefix="e1."))
    assert (nested.state.hold, nested.state.case) == (None, NO_CASE)


# --- Ratings -----------------------------------------------------------------------------------------


def test_the_newest_rating_counts_until_the_conversation_ends() -> None:
    play = resting()
    play.rates(2, "It took long.")
    play.rates(4)
    assert play.state.case.rating == Rating(score=4, at_ms=play.state.at_ms)
    before = play.state
    play.rates(4)
    assert play.state.case == before.case
    play.cancelled()
    assert refusal_of(play.state, ConversationRated(at_ms=play.now_ms, score=1)) is not None


def test_a_nested_run_is_not_rated() -> None:
    play = resting(parent=Parent(run_id="root", prefix="e1."))
    play.rates(1)
    assert play.state.case == NO_CASE
    problem = refusal_of(play.state, ConversationRated(at_ms=play.now_ms, score=1))
    assert problem is not None
    assert problem.message == "The run works for root, which is rated."


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"score": 0}, "score must be 1 to 5, not 0"),
        ({"score": 6}, "score must be 1 to 5, not 6"),
        ({"score": 1, "text": "x" * 2_001}, "text must have at most 2,000 characters"),
    ],
)
def test_what_is_no_rating_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        RatingRecord(**fields)


def test_people_see_a_rating() -> None:
    rated = Case(rating=Rating(score=1, text="Rude."))
    assert case_words(NO_CASE, rated) == "rated 1 of 5: Rude."
    assert case_words(rated, rated) == ""
    assert case_words(rated, Case(rating=Rating(score=5))) == "rated 5 of 5"
