"""What a provider refuses, or a person sets aside, is read by the model no more, and by people still."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.loop import phrases
from outlast.loop.actions import SetAsideAction
from outlast.loop.approvals import ApprovalTerms, Audience, Decision
from outlast.loop.aside import (
    Aside,
    RefusedEntry,
    aside_words,
    entries_read,
    is_text,
    parts_of,
    read_without,
    without,
)
from outlast.loop.calls import BegunResponse, ModelReply, ViewSummary
from outlast.loop.effect_results import RESPONSE_NOT_FOUND
from outlast.loop.effects import CallModel, CompactView, EffectAnswered, EffectFailed
from outlast.loop.events import PersonActed
from outlast.loop.items import Item
from outlast.loop.problems import aside_problem
from outlast.loop.run_changes import ItemSetAside, run_changes
from outlast.loop.start import Budget
from outlast.loop.state import LoopState, items_of, items_to_summarise
from outlast.loop.values import Failure, JsonObject, ServerThread
from outlast.loop.view import View
from tests.laws.driver import Play, reply_of, said, tool

IMAGE: JsonObject = {"type": "input_image", "image_url": "data:image/png;base64,x"}
PHOTO: JsonObject = {"role": "user", "content": [{"type": "input_text", "text": "Look"}, IMAGE]}


def read(play: Play) -> list[Item]:
    """Return what the pending model call reads."""
    return [*items_of(play.state, play.only(CallModel))]


def acted(play: Play, item: int, **fields: Any) -> str | None:
    """Let a person set an item aside or take it back; return why it had no effect."""
    before = play.state.ignored
    given: dict[str, Any] = {"by": "ann", "item": item, **fields}
    action = SetAsideAction(**given)
    play.take(PersonActed(at_ms=play.now_ms, action=action))
    newer = play.state.ignored[len(before) :]
    return newer[0].why if newer else None


def refused(*entries: RefusedEntry, text: str = "Hello.") -> ModelReply:
    return replace(reply_of(said(text)), refused=entries)


def answered(play: Play, result: ModelReply) -> None:
    effect = play.only(CallModel).effect
    play.take(EffectAnswered(at_ms=play.now_ms, effect=effect, result=result))


def test_what_the_provider_refused_is_read_no_more_and_stays_in_the_transcript() -> None:
    play = Play.ready(keep_open=True)
    before = play.state
    answered(play, refused(RefusedEntry(entry=0, reason="Flagged."), RefusedEntry(entry=9)))
    [one] = play.state.aside
    assert (one.item, one.part, one.reason, one.by) == (0, None, "Flagged.", "")
    changes = run_changes(before, play.events[-1], play.state)
    [change] = [change for change in changes if isinstance(change, ItemSetAside)]
    assert change == ItemSetAside(one, play.state.items[0])
    play.hears("m2")
    first, _, newest = read(play)
    assert first.raw["content"] == phrases.left_out("a message")
    assert play.state.items[0].raw["content"] != first.raw["content"]
    assert newest.raw["content"] == "text of m2"
    answered(play, refused(RefusedEntry(entry=0), text="Again."))
    assert play.state.aside == (one,), "once"


def test_a_response_in_the_background_goes_on_without_what_was_refused() -> None:
    play = Play.ready()
    begun = BegunResponse(response_id="r1", number=1)
    answered(play, ModelReply(items=(), begun=begun, refused=(RefusedEntry(entry=0),)))
    assert play.only(CallModel).begun == begun
    assert [one.item for one in play.state.aside] == [0]


def test_a_person_sets_an_item_aside_and_takes_it_back() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    assert acted(play, 1, reason="Wrong.") is None
    [one] = play.state.aside
    assert (one.item, one.reason, one.by) == (1, "Wrong.", "ann")
    play.hears("m2")
    text = read(play)[1].raw["content"][0]["text"]
    assert text == phrases.left_out("a message")
    play.replies(said("Well."))
    before = play.state
    assert acted(play, 1, back=True) is None
    assert play.state.aside == ()
    changes = run_changes(before, play.events[-1], play.state)
    [change] = [change for change in changes if isinstance(change, ItemSetAside)]
    assert change.back


def test_a_person_who_repeats_it_changes_nothing_and_is_not_refused() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    assert acted(play, 1, back=True) is None, "the model reads it already"
    assert acted(play, 1, back=True, part=9) == "Item 1 has no part 9: it has 1."
    assert acted(play, 1, reason="Wrong.") is None
    standing = play.state.aside
    assert acted(play, 1, reason="Wrong.") is None
    assert acted(play, 1, reason="Rude.") == "Item 1 is set aside already."
    assert play.state.aside is standing
    for _ in "12":
        assert acted(play, 1, back=True) is None
        assert play.state.aside == ()


def test_what_somebody_without_a_name_sets_aside_is_no_refusal_of_the_provider() -> None:
    play = Play.ready(keep_open=True)
    for _ in "12":
        assert acted(play, 0, by="") is None
    [one] = play.state.aside
    assert "not read by the model any more: a person set it aside." in aside_words(one)
    assert acted(play, 0) == "Item 0 is set aside already.", "somebody else did"


def test_what_nobody_may_set_aside_stays() -> None:
    play = Play.ready(keep_open=True)
    play.replies(tool("look", "c1"))
    play.returns("c1")
    play.replies(said("Hello."))
    assert acted(play, 99) == "The transcript has no item 99: it has 4."
    assert acted(play, 0, part=3) == "Item 0 has no part 3: it has 0."
    note = Item("note", {"role": "developer", "content": "Be brief."})
    play.state = replace(play.state, items=(*play.state.items, note))
    problem = "Item 4 is an instruction or a call, without which no model can go on."
    assert acted(play, 4) == problem
    with pytest.raises(ValueError, match="0 or more"):
        SetAsideAction(item=-1)


def test_a_run_that_has_ended_sets_nothing_aside() -> None:
    play = Play.ready()
    play.replies(said("Hello."))
    assert acted(play, 0) is None, "a closed run takes nothing in"
    assert play.state.aside == ()


def test_only_the_refused_part_of_a_message_is_left_out() -> None:
    read_now = without(Item("input", PHOTO), [1])
    assert read_now is not None
    text, note = read_now.raw["content"]
    assert text == {"type": "input_text", "text": "Look"}
    assert note == {"type": "input_text", "text": phrases.left_out("an image")}
    whole = without(Item("input", PHOTO), [None])
    assert whole is not None
    assert [one["text"] for one in whole.raw["content"]] == [phrases.left_out("a message")]


PAIRS: list[tuple[JsonObject, list[int | None], JsonObject | None]] = [
    ({"type": "reasoning", "id": "r"}, [None], None),
    ({"type": "compaction", "encrypted_content": "x"}, [None], None),
    (
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "BAD"},
        [None],
        {"arguments": '{"left_out": "' + phrases.CALL_LEFT_OUT + '"}', "call_id": "c"},
    ),
    (
        {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "BAD"},
        [None],
        {"input": phrases.CALL_LEFT_OUT},
    ),
    (
        {"type": "function_call_output", "call_id": "c", "output": "BAD", "caller": {"a": 1}},
        [None],
        {"output": phrases.OUTPUT_LEFT_OUT, "call_id": "c", "caller": {"a": 1}},
    ),
    (
        {"type": "function_call_output", "call_id": "c", "output": [IMAGE, "odd"]},
        [0, 1],
        {
            "output": [
                {"type": "input_text", "text": phrases.left_out("an image")},
                {"type": "input_text", "text": phrases.left_out("a text")},
            ]
        },
    ),
    (
        {"type": "message", "role": "assistant", "content": [{"type": "output_text"}]},
        [0],
        {
            "content": [
                {
                    "type": "output_text",
                    "text": phrases.left_out("a text"),
                    "annotations": [],
                }
            ]
        },
    ),
]


@pytest.mark.parametrize(("raw", "parts", "kept"), PAIRS)
def test_pairs_stay_pairs(
    raw: JsonObject, parts: list[int | None], kept: JsonObject | None
) -> None:
    item = without(Item("other", raw), parts)
    if kept is None or item is None:
        assert (item, kept) == (None, None)
        return
    assert item.raw["type"] == raw["type"]
    assert {name: item.raw[name] for name in kept} == kept


def test_what_reasoning_led_to_that_is_left_out_has_no_id() -> None:
    def made(kind: str, item_id: str, turn: int = 1, **fields: Any) -> Item:
        return Item("message", {"type": kind, "id": item_id, **fields}, "A", turn)

    thought, again = made("reasoning", "rs_1"), made("reasoning", "rs_2")
    search = made("web_search_call", "ws_1")
    call = made("function_call", "fc_1", call_id="c1", name="look", arguments="{}")
    output = Item("tool_output", {"type": "function_call_output", "call_id": "c1", "output": "x"})
    answer = made("message", "msg_1", role="assistant", content=[])
    later = made("message", "msg_2", 2, role="assistant", content=[])
    items = [thought, search, call, output, again, answer, later]
    read = [item.raw.get("id") for _, item in read_without(enumerate(items), {0: [None]})]
    assert read == [None, None, "rs_2", "msg_1", "msg_2"], (
        "the search needs its id, and is left out"
    )
    read = [item.raw.get("id") for _, item in read_without(enumerate(items), {4: [None]})]
    assert read == ["rs_1", "ws_1", "fc_1", None, None, "msg_2"]


def test_what_only_the_view_has_is_left_out_by_its_content() -> None:
    summary: JsonObject = {"type": "compaction", "encrypted_content": "x"}
    play = Play.ready(keep_open=True)
    view = View(segments=(summary, (0, 1)), rest=1, history=2)
    play.state = replace(play.state, view=view)
    answered(play, refused(RefusedEntry(entry=0, reason="Unknown item.")))
    [one] = play.state.aside
    assert (one.item, bool(one.digest)) == (None, True)
    play.hears("m2")
    assert [item.kind for item in read(play)] == ["input", "message", "input"]
    [change] = [
        change
        for change in run_changes(LoopState(), None, play.state)
        if isinstance(change, ItemSetAside)
    ]
    assert change.item is None


def test_a_summary_is_made_without_what_the_provider_refuses() -> None:
    aside = (Aside(item=0, reason="Flagged."),)
    play = Play.ready()
    effect = CompactView(
        effect=9, agent="A", input_length=1, entries=1, place=0, run_id="r", aside=aside, turn=1
    )
    [item] = items_to_summarise(play.state, effect)
    assert item.raw["content"] == phrases.left_out("a message")
    assert items_to_summarise(play.state, replace(effect, aside=())) == play.state.items[:1]


def test_entries_are_named_from_where_the_server_does_not_have_them() -> None:
    items = tuple(Item("input", {"role": "user", "content": str(at)}) for at in range(4))
    found = entries_read(View(), items, 4, (Aside(item=3),), start=2)
    assert [key for key, _ in found] == [2, 3]


def test_the_parts_of_an_item_are_those_of_its_content_or_output() -> None:
    output: JsonObject = {"type": "function_call_output", "call_id": "c1", "output": [IMAGE]}
    assert (parts_of(PHOTO)[1], parts_of(output)) == (IMAGE, [IMAGE])
    assert parts_of({"role": "user", "content": "Look"}) == []
    assert [is_text(one) for one in ({"type": "input_text", "text": "x"}, "x", IMAGE)] == [
        True,
        True,
        False,
    ]


def test_people_read_what_is_left_out_and_why() -> None:
    assert aside_words(Aside(item=3, part=1, reason="No image.")) == (
        "Item 3, part 1, is not read by the model any more: the model provider refused it: "
        "No image."
    )
    assert aside_words(Aside(digest="x", by="ann")) == (
        "A summary is not read by the model any more: ann set it aside."
    )
    assert aside_words(Aside(item=3), is_back=True) == "Item 3 is read by the model again."


# --- A thread that the provider has lost -----------------------------------------------------------


def lose_thread(play: Play) -> None:
    failure = Failure(
        code="model_call_failed", message="Gone.", details={"reason": RESPONSE_NOT_FOUND}
    )
    effect = play.only(CallModel).effect
    play.take(EffectFailed(at_ms=play.now_ms, effect=effect, failure=failure))


def test_a_lost_response_of_the_run_sends_the_whole_conversation_again() -> None:
    play = Play.ready(thread=ServerThread(chained=True), keep_open=True)
    play.replies(said("Hello."), response_id="r1")
    play.hears("m2")
    assert play.only(CallModel).previous_response_id == "r1"
    lose_thread(play)
    call = play.only(CallModel)
    assert (call.previous_response_id, call.on_server, call.chained) == (None, 0, True)
    assert [one.kind for one in read(play)] == ["input", "message", "input"]
    assert play.state.ignored[-1].why == phrases.THREAD_LOST
    play.replies(said("Fine."), response_id="r2")
    play.hears("m3")
    assert play.only(CallModel).previous_response_id == "r2"


def test_the_model_reads_that_what_came_before_the_run_is_lost() -> None:
    thread = ServerThread(previous_response_id="r0", chained=True)
    play = Play.ready(thread=thread, keep_open=True)
    lose_thread(play)
    assert read(play)[-1].raw["content"] == phrases.EARLIER_PART_LOST


def test_a_budget_that_was_used_up_meanwhile_comes_before_the_whole_conversation() -> None:
    budget = Budget(of="seconds", limit=60, terms=ApprovalTerms())
    thread = ServerThread(previous_response_id="r0", chained=True)
    play = Play.ready(thread=thread, keep_open=True, budgets=(budget,))
    play.passes(60_000)
    lose_thread(play)
    (request,) = play.state.pending_approvals
    decision = Decision(request_id=request.id, type="approve", by="ann")
    play.take(PersonActed(at_ms=play.now_ms, action=decision))
    assert read(play)[-1].raw["content"] == phrases.EARLIER_PART_LOST
    assert play.only(CallModel).previous_response_id is None


def test_a_call_without_a_thread_fails_whatever_the_provider_says() -> None:
    play = Play.ready(keep_open=True)
    lose_thread(play)
    assert play.state.answers[-1].failure is not None


def test_a_summary_is_no_reply() -> None:
    assert ViewSummary().items == ()


def test_only_whoever_may_take_over_an_open_run_sets_aside() -> None:
    terms = ApprovalTerms(audience=Audience(subjects=("bob",)))
    play = Play.ready(keep_open=True, takeover=terms)
    for back in (False, True):
        why = acted(play, 0, back=back)
        assert why is not None
        assert why.startswith("Setting aside what the model reads: ann may not do this.")
    ended = replace(play.state, phase="closing")
    event = PersonActed(at_ms=play.now_ms, action=SetAsideAction(by="bob", item=0), verified=True)
    assert aside_problem(play.state, event) is None
    assert aside_problem(ended, event) == "The run has ended. Start a new one."
