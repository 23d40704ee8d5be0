"""A run that holds much has its content stored outside, beside whatever else it does."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from outlast.contract.blobs import encode
from outlast.loop import stored, transcript
from outlast.loop.approvals import ApprovalTerms
from outlast.loop.calls import ModelReply
from outlast.loop.effects import CallModel, EffectAnswered, OffloadItems
from outlast.loop.items import Item, last_words, text_of
from outlast.loop.machine import advance
from outlast.loop.stored import OFFLOAD_ABOVE, Moved, Offload, long_texts, weight
from outlast.loop.values import BLOB, is_reference, reference
from tests.laws.driver import Play, everything_stored, gated, message, nested, said, searched, tool
from tests.laws.strategies import Script, examples, play_script, scripts

LARGE = "x" * (OFFLOAD_ABOVE + 1)
KEY = "sha256:" + "0" * 64


@examples(60)
@given(scripts())
def test_every_step_of_a_run_that_stores_content_keeps_the_laws(script: Script) -> None:
    """Everything is large here, and everything is stored."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transcript, "OFFLOAD_ABOVE", 20)
        patch.setattr(stored, "MOVED_ABOVE", 2)
        play_script(script)


def test_what_decides_whether_content_is_stored_never_changes():
    """Recorded histories depend on it."""
    assert (stored.OFFLOAD_ABOVE, stored.MOVED_ABOVE) == (1_000_000, 256)
    assert {"type", "role", "id", "call_id", "name", "status"} == stored.KEPT


def test_fields_that_the_loop_reads_stay_where_they_are():
    raw = dict.fromkeys((*stored.KEPT, "output"), "x" * 300)
    assert [path for path, _ in long_texts({**raw, "part": dict(raw)}, 300)] == [
        ("output",),
        *(("part", name) for name in raw),
    ]
    assert list(long_texts({"output": "x" * 299}, 300)) == []


def large(**start: Any) -> Play:
    """A run that asks for its content to be stored."""
    play = Play(said=message("start", LARGE), **start)
    play.prepared(stores=True)
    return play


def test_large_content_is_stored_while_the_model_is_asked():
    play = large()
    offload = play.only(OffloadItems)
    assert (offload.start, offload.stop) == (0, 1)
    assert play.only(CallModel).input_length == 1
    play.offloaded()
    assert is_reference(play.state.items[0].raw["content"])
    assert (play.state.storage.offloaded, play.state.storage.inline) == (1, 0)
    play.replies(said("Hello."))
    assert play.finish.final_output == "Hello."


def test_what_time_adds_before_content_is_stored_counts_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stored, "MOVED_ABOVE", 2)
    play = large()
    play.replies(gated("pay", "c1", terms=ApprovalTerms(expires_in_ms=1_000)))
    effect = play.only(OffloadItems)
    play.take(everything_stored(effect, play.state, play.now_ms + 2_000))
    assert play.state.approvals[0].status == "expired"
    assert play.state.storage.inline == weight(play.state.items[1:]) > 0


def test_a_run_whose_workers_have_no_store_keeps_everything():
    play = Play(said=message("start", LARGE))
    play.prepared()
    assert [one for one in play.issued if isinstance(one, OffloadItems)] == []
    assert play.state.storage.inline == 0


def test_a_text_with_half_a_character_is_stored_as_any_other():
    text = "\ud800" * 300
    moved = Moved(0, ("content",), len(encode(text)), 0)
    whole = Item("tool_output", {"content": text}, custom_data={"chart": 1})
    (item,) = stored.with_references([whole], Offload(keys=(KEY,), moved=(moved,)))
    assert is_reference(item.raw["content"])
    assert item.custom_data == {"chart": 1}
    other = replace(moved, bytes=moved.bytes + 1)
    (item,) = stored.with_references(
        [Item("input", {"content": text})], Offload(keys=(KEY,), moved=(other,))
    )
    assert item.raw["content"] == text, "a text of another size has taken its place"


def test_a_model_call_may_tell_of_a_store_later():
    play = Play(said=message("start", LARGE))
    play.prepared()
    play.replies(tool("look_up", "c1"), stores=True)
    assert play.only(OffloadItems).stop == 2
    play.returns("c1")
    play.replies(said("Done."), stores=True)
    assert play.state.phase == "closing" or play.state.outcome == "completed"


def test_what_comes_later_is_counted_from_there():
    play = large(keep_open=True)
    play.offloaded()
    play.replies(said("Hello."))
    play.hears("m2", LARGE)
    assert (play.only(OffloadItems).start, play.only(OffloadItems).stop) == (1, 3)
    play.hears("m3", LARGE)
    play.offloaded()
    play.replies(said("Again."))
    assert play.only(OffloadItems).start == 3


def test_what_cannot_be_stored_stays_and_is_tried_again_later():
    play = large(keep_open=True)
    play.fails(play.only(OffloadItems))
    assert play.state.items[0].raw["content"] == LARGE
    assert not play.state.storage.stores
    play.replies(said("Hello."), stores=True)
    assert play.only(OffloadItems).start == 0


def test_a_run_that_ends_stores_nothing_more():
    play = Play()
    play.prepared(stores=True)
    play.replies(said(LARGE))
    assert play.state.phase == "closed"
    assert play.state.pending == ()


def test_the_end_of_a_run_does_not_wait_for_the_store():
    play = large()
    offload = play.only(OffloadItems).effect
    play.replies(said("Hello."))
    assert play.state.phase == "closed"
    assert play.stopped == [offload]


def test_a_persons_answer_of_the_same_size_is_not_replaced_by_the_models(
    monkeypatch: pytest.MonkeyPatch,
):
    """The references of an offload under way are to the texts that it read."""
    monkeypatch.setattr(transcript, "OFFLOAD_ABOVE", 20)
    monkeypatch.setattr(stored, "MOVED_ABOVE", 2)
    play = Play.ready(keep_open=True)
    theirs, ours = "You get 500 euros back.", "You get 900 euros back."
    play.replies(said(theirs), answer_terms=ApprovalTerms(), stores=True)
    late, index = play.only(OffloadItems), len(play.state.items) - 1
    play.decided("a1", "edit", edited_arguments={"answer": ours})
    assert late.effect in play.stopped
    moved = Moved(index, ("content", 0, "text"), len(theirs), 0)
    result = Offload(keys=(KEY,), moved=(moved,))
    advanced, commands = advance(
        play.state, EffectAnswered(at_ms=play.now_ms, effect=late.effect, result=result)
    )
    assert text_of(advanced.items[index].raw) == ours
    assert commands == ()
    assert play.only(OffloadItems).stop == len(play.state.items), "it begins anew"


def test_an_answer_of_another_kind_stores_nothing():
    play = large()
    before = play.state
    effect = play.only(OffloadItems).effect
    play.take(EffectAnswered(at_ms=play.now_ms, effect=effect, result=None))
    call = play.only(CallModel).effect
    play.take(EffectAnswered(at_ms=play.now_ms, effect=call, result=Offload()))
    assert play.state is before


def test_a_run_that_waits_for_people_waits_while_content_is_stored():
    play = Play(said=message("start", "Hi"))
    play.prepared(stores=True)
    play.hears("m2", LARGE)
    play.replies(tool("look_up", "c1"), gated("refund", "c2"))
    play.returns("c1", LARGE)
    assert play.state.status == "waiting"
    assert play.outputs["c1"] == LARGE, "what has finished is told before people are waited for"
    play.offloaded()
    play.decided("a1")
    play.returns("c2")
    assert play.only(CallModel)


def test_the_answer_of_a_nested_run_may_be_stored():
    play = Play()
    play.prepared()
    play.replies(nested("Orders", "c1"))
    play.worked(final_output=reference(KEY, 70_000))
    assert play.outputs["c1"] == reference(KEY, 70_000)


def test_the_last_words_of_a_silent_run_may_be_stored():
    play = Play()
    play.prepared()
    play.replies(tool("look_up", "c1"))
    play.returns("c1", reference(KEY, 70_000))
    assert last_words(play.state.items) == reference(KEY, 70_000)
    part = {"type": "output_text", "text": reference(KEY, 9)}
    raw = {"type": "message", "role": "assistant", "content": [part]}
    assert text_of(raw) == "[9 bytes, stored outside of the run]"
    play.replies((raw, None), searched())
    assert last_words(play.state.items) == reference(KEY, 9)
    assert text_of({"role": "user", "content": reference(KEY, 9)}).startswith("[9 bytes")


def test_long_texts_are_found_everywhere_but_in_what_the_loop_reads():
    raw = {"type": "x" * 9, "name": "y" * 9, "output": [{"type": "z" * 9, "n": 5}], "s": "abc"}
    assert list(long_texts(raw, 4)) == [(("output", 0, "type"), "z" * 9)]


def test_references_are_put_where_texts_are():
    play = large()
    assert weight(play.state.items) == len(LARGE)
    moved = (
        Moved(0, ("content",), len(LARGE), 0, 3),
        Moved(0, ("content", 7), 5, 0),
        Moved(8, ("a",), 5, 0),
    )
    items = stored.with_references(play.state.items, Offload(keys=(KEY,), moved=moved))
    assert items[0].raw["content"] == {BLOB: KEY, "bytes": len(LARGE), "part": 3}
    parts = [Item("input", {"content": [{"text": "a"}, "b"]})]
    moved = (Moved(0, ("content", 0, "text"), 1, 0), Moved(0, ("content", 1), 1, 0))
    (item,) = stored.with_references(parts, Offload(keys=(KEY,), moved=moved))
    assert item.raw == {"content": [{"text": reference(KEY, 1)}, reference(KEY, 1)]}


def test_a_reply_says_nothing_of_a_store_by_itself():
    assert ModelReply(items=()).stores is False


@pytest.mark.parametrize("extra", [0, 1])
def test_content_moves_above_the_threshold_and_not_at_it(extra: int) -> None:
    play = Play(said=message("start", "x" * (OFFLOAD_ABOVE + extra)))
    play.prepared(stores=True)
    moves = [one for one in play.issued if isinstance(one, OffloadItems)]
    assert len(moves) == (weight(play.state.items) > OFFLOAD_ABOVE)


def test_a_run_that_closes_moves_nothing_while_its_session_is_saved() -> None:
    play = Play(session=True)
    play.prepared(stores=True)
    play.saved()
    play.replies(said(LARGE))
    assert play.state.phase == "closing"
    assert not any(isinstance(one, OffloadItems) for one in play.issued)
