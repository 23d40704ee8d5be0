"""The rows of what people do: names, receipts, what is told, and what an action without effect leaves."""

from typing import Any, get_args

import pytest

from outlast.loop.actions import (
    Action,
    ClaimAction,
    HoldAction,
    ReleaseAction,
    SayAction,
    SetAsideAction,
)
from outlast.loop.approvals import Decision
from outlast.loop.effects import CallModel
from outlast.loop.events import EffectBlocked, PersonActed
from outlast.loop.human_actions import ACTION_NAMED, HUMAN_ACTIONS, problem_of, row_of
from tests.laws.driver import Play, gated, said

HELD = {"status": "held", "held_by": "ann", "agent": "Triage", "is_judged": False}


def receipt_of(play: Play, action: Action) -> dict[str, Any]:
    """Let somebody act, and return what they get."""
    play.take(PersonActed(at_ms=play.now_ms, action=action))
    assert play.state.ignored == ()
    return row_of(action).receipt(play.state, action)


def test_every_action_has_one_row_and_a_name_of_its_own() -> None:
    assert [one.record for one in HUMAN_ACTIONS] == [*get_args(Action)]
    assert [*ACTION_NAMED] == ["decide", "claim", "hold", "say", "release", "set_aside", "case"]
    assert all('{"' in one.usage for one in HUMAN_ACTIONS), "an example of the payload"


def test_who_decides_and_who_claims_hears_what_became_of_the_request() -> None:
    play = Play.ready()
    play.replies(gated("pay", "c1"))
    claimed = receipt_of(play, ClaimAction(by="ann", request_id="a1", minutes=5))
    until_ms = play.events[-1].at_ms + 5 * 60_000
    assert claimed == {
        "request_id": "a1",
        "status": "pending",
        "claimed_by": "ann",
        "until_ms": until_ms,
    }
    given_back = receipt_of(play, ClaimAction(by="ann", request_id="a1", minutes=0))
    assert (given_back["claimed_by"], given_back["until_ms"]) == (None, None)
    decided = receipt_of(play, Decision(by="ann", request_id="a1", type="approve"))
    assert decided == {
        "request_id": "a1",
        "status": "approved",
        "by": "ann",
        "votes": 1,
        "votes_needed": 1,
    }


def test_who_sets_an_item_aside_hears_what_the_model_reads_no_more() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    aside = SetAsideAction(by="ann", item=1, reason="Wrong.")
    assert receipt_of(play, aside) == {"item": 1, "set_aside": True, "parts": [None]}
    note = row_of(aside).note
    event = PersonActed(at_ms=1, action=aside)
    assert note(event) == "item 1: Wrong."
    back = SetAsideAction(by="ann", item=1, back=True)
    assert receipt_of(play, back) == {"item": 1, "set_aside": False, "parts": []}
    assert note(PersonActed(at_ms=1, action=back)) == "item 1 taken back"
    part = SetAsideAction(by="ann", item=1, part=0)
    assert note(PersonActed(at_ms=1, action=part)) == "item 1, part 0"


def test_who_takes_over_speaks_and_releases_hears_who_has_the_conversation() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    assert receipt_of(play, HoldAction(by="ann")) == HELD
    assert receipt_of(play, SayAction(by="ann", text="I help.")) == HELD
    released = receipt_of(play, ReleaseAction(by="ann"))
    assert (released["status"], released["held_by"]) == ("idle", None)


@pytest.mark.parametrize(
    ("action", "told", "note", "text"),
    [
        (HoldAction(), "held", "", ""),
        (HoldAction(force=True), "held", "by force", ""),
        (HoldAction(force=True, to="bob"), "held", "handed over to bob", ""),
        (SayAction(text="Hi", message_id="m1"), "said", "message m1", "Hi"),
        (SayAction(text="Hi"), "said", "message said at 7", "Hi"),
        (ReleaseAction(note="refunded"), "released", "refunded", ""),
        (ClaimAction(request_id="a1"), None, "", ""),
    ],
)
def test_the_audit_says_what_was_done(action: Action, told: str, note: str, text: str) -> None:
    row = row_of(action)
    event = PersonActed(at_ms=7, action=action)
    assert (row.told_as, row.note(event), row.text(action)) == (told, note, text)


def test_words_without_a_text_are_no_words() -> None:
    with pytest.raises(ValueError, match="say something"):
        SayAction(text=" ")


def test_words_without_an_id_are_said_once_in_a_moment() -> None:
    play = Play.ready(keep_open=True)
    play.holds()
    words = PersonActed(at_ms=play.now_ms, action=SayAction(by="ann", text="Hi"))
    play.take(words)
    play.take(words)
    assert play.state.hold is not None
    assert play.state.hold.said == (f"said at {words.at_ms}",)


def test_a_repeated_decision_is_no_problem_and_has_no_effect() -> None:
    play = Play.ready()
    play.replies(gated("pay", "c1"))
    decision = Decision(by="ann", request_id="a1", type="approve", idempotency_key="k")
    play.take(PersonActed(at_ms=play.now_ms, action=decision))
    before = play.state
    again = PersonActed(at_ms=before.at_ms, action=decision)
    assert problem_of(before, again) is None
    play.take(again)
    assert play.state == before


def test_a_decision_about_a_call_counts_beside_a_blocked_effect() -> None:
    play = Play.ready(keep_open=True)
    play.replies(gated("pay", "c1"))
    play.attached()
    blocked = play.state.pending[-1]
    play.take(EffectBlocked(at_ms=play.now_ms, effect=blocked.effect, lacks="the line"))
    assert play.state.blocked != ()
    assert not isinstance(blocked, CallModel)
    play.decided("a1")
    assert [one.status for one in play.state.approvals] == ["approved"]


@pytest.mark.parametrize(
    ("action", "what"),
    [
        (Decision(by="zoe", request_id="a9", type="approve"), "decision approve for a9 by zoe"),
        (ClaimAction(by="zoe", request_id="a9"), "claim of a9 by zoe"),
        (HoldAction(by="zoe", to="bob"), "hold by zoe"),
        (SayAction(by="zoe", text="Hi"), "say by zoe"),
        (ReleaseAction(), "release"),
        (SetAsideAction(by="zoe", item=9), "set aside item 9 by zoe"),
    ],
)
def test_an_action_without_effect_is_noted_with_its_sender(action: Action, what: str) -> None:
    play = Play.ready()
    event = PersonActed(at_ms=play.now_ms, action=action)
    why = problem_of(play.state, event)
    play.take(event)
    assert [(one.what, one.why) for one in play.state.ignored] == [(what, why)]
