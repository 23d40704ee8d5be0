"""What the model reads becomes shorter: where it is cut, when, and what stays."""

from typing import Any

import pytest

from outlast.contract import records
from outlast.loop.approvals import ApprovalTerms, Decision
from outlast.loop.calls import ViewSummary
from outlast.loop.changes import diff
from outlast.loop.checks import RequiredStep
from outlast.loop.compaction import cut
from outlast.loop.effects import CallModel, CompactView, EffectAnswered, EffectFailed
from outlast.loop.events import PersonActed
from outlast.loop.fallback import NEXT_MODEL
from outlast.loop.items import Item
from outlast.loop.run_changes import ViewCompacted, run_changes
from outlast.loop.spending import spent
from outlast.loop.start import Budget
from outlast.loop.state import LoopState, items_to_summarise
from outlast.loop.values import Failure, Json, JsonObject, ServerThread, Usage
from outlast.loop.view import ViewEdit, shown
from tests.laws.driver import Play, said, transfer

SHORT: JsonObject = {"role": "user", "content": "in short"}


def talk(
    questions: int = 4,
    *,
    need: Any = "beside",
    required_steps: tuple[RequiredStep, ...] = (),
    **fields: Any,
) -> Play:
    """Return a conversation of some questions; the last reply asks for a shorter view."""
    play = Play.ready(keep_open=True, max_turns=None, **fields)
    for number in range(questions):
        last = number == questions - 1
        reply = said(f"answer {number} " + "x" * 100)
        if last:
            play.replies(reply, compaction=need, required_steps=required_steps)
        else:
            play.replies(reply)
        if not last:
            play.hears(f"q{number}", f"question {number} " + "y" * 100)
    return play


def summarised(play: Play, **fields: Any) -> None:
    effect = play.only(CompactView).effect
    given: dict[str, Any] = {"items": (SHORT,), **fields}
    result = ViewSummary(**given)
    play.take(EffectAnswered(at_ms=play.now_ms, effect=effect, result=result))


def read(play: Play) -> list[str]:
    """Return what the pending model call reads, each entry by its beginning."""
    call = play.only(CallModel)
    entries = shown(play.state.view, play.state.items, call.input_length)
    texts = [str(one.raw.get("content") or one.raw.get("output") or one.raw) for one in entries]
    return [
        " ".join(text.removeprefix("[{'type': 'output_text', 'text': '").split()[:2])
        for text in texts
    ]


def test_the_next_model_call_reads_the_summary_and_the_newest_part() -> None:
    play = talk()
    before = play.state.items
    assert play.state.status == "idle", "nobody waits for the summary"
    effect = play.only(CompactView)
    assert not effect.first
    older = items_to_summarise(play.state, effect)
    assert older == before[: len(older)]
    summarised(play, usage=Usage(total_tokens=7, cost_micros=3), model="small")
    play.hears("more", "and now")
    assert play.state.items[: len(before)] == before, "people read all of it"
    assert read(play)[0] == "in short"
    assert read(play)[1:] == [
        text for text in read(play) if text.startswith(("question", "answer", "and"))
    ]
    (made,) = play.state.compaction.made
    assert (made.entries, made.model, made.usage.cost_micros) == (len(older), "small", 3)
    assert made.items == ()


def test_the_tokens_of_a_summary_count() -> None:
    play = talk()
    before = play.state.usage.total_tokens
    summarised(play, usage=Usage(total_tokens=7))
    assert play.state.usage.total_tokens == before + 7


@pytest.mark.parametrize("per", ["run", "question", "agent"])
@pytest.mark.parametrize("of", ["tokens", "cost_micros"])
def test_what_a_summary_took_is_spent(of: Any, per: Any) -> None:
    budget = Budget(of=of, limit=100_000, per=per, terms=ApprovalTerms())
    play = talk(budgets=(budget,))
    play.hears("more", "and now")
    before = spent(play.state, budget, play.now_ms)
    summarised(play, usage=Usage(total_tokens=7, cost_micros=7), model="small")
    assert spent(play.state, budget, play.now_ms) == before + 7


def test_a_summary_that_uses_a_budget_up_while_a_question_is_checked_asks_people() -> None:
    budget = Budget(of="tokens", limit=100_000, terms=ApprovalTerms())
    play = talk(budgets=(budget,), required_steps=("check_first",))
    play.hears("more", "and now")
    summarised(play, usage=Usage(total_tokens=100_000), model="small")
    play.checked()
    assert play.state.phase == "asking"


def test_a_summary_that_uses_a_budget_up_comes_before_the_next_of_the_models() -> None:
    budget = Budget(of="tokens", limit=100_000, terms=ApprovalTerms())
    play = talk(budgets=(budget,))
    play.hears("more", "and now")
    summarised(play, usage=Usage(total_tokens=100_000), model="small")
    following: Json = {"at": 1, "model": "second", "tried": "first"}
    failure = Failure(code="model_call_failed", message="Busy.", details={NEXT_MODEL: following})
    effect = play.only(CallModel).effect
    play.take(EffectFailed(at_ms=play.now_ms, effect=effect, failure=failure))
    assert (play.state.phase, play.outstanding) == ("asking", {})
    (request,) = play.state.pending_approvals
    decision = Decision(request_id=request.id, type="approve", by="ann")
    play.take(PersonActed(at_ms=play.now_ms, action=decision))
    call = play.only(CallModel)
    assert (call.model_at, [one.model for one in call.tried]) == (1, ["first"])
    play.replies(said("Here."), model="second")
    assert play.state.answers[-1].failure is None


def test_the_run_goes_on_while_the_summary_is_written() -> None:
    play = talk()
    play.hears("more", "and now")
    whole = read(play)
    assert "in short" not in whole
    summarised(play)
    assert read(play) == whole, "a call that is under way reads what it read"
    play.replies(said("Well."))
    play.hears("again", "and then")
    assert read(play)[0] == "in short"


def test_a_model_call_waits_for_the_summary_where_the_window_is_nearly_full() -> None:
    play = talk(need="first")
    assert play.hears("more", "and now") == ()
    assert play.state.status == "running"
    summarised(play)
    assert read(play)[0] == "in short"


@pytest.mark.parametrize("how", ["cancel", "person"])
def test_nobody_else_waits_for_the_summary(how: str) -> None:
    play = talk(need="first")
    if how == "cancel":
        play.cancelled("after_turn")
        assert play.state.outcome == "completed"
        return
    play.holds()
    play.hears("more", "and now")
    assert play.state.status == "held"


def test_a_summary_that_fails_is_seen_and_asked_for_with_the_next_reply() -> None:
    play = talk(need="first")
    effect = play.only(CompactView).effect
    failure = Failure(code="model_call_failed", message="The model is away.")
    play.take(EffectFailed(at_ms=play.now_ms, effect=effect, failure=failure))
    assert [(one.what, one.why) for one in play.state.ignored] == [
        ("compaction", "The model is away.")
    ]
    play.hears("more", "and now")
    play.replies(said("Well."), compaction="beside")
    assert play.only(CompactView).effect > effect


def test_a_worker_that_writes_no_summary_changes_nothing() -> None:
    play = talk()
    summarised(play, items=())
    play.hears("more", "and now")
    assert "in short" not in read(play)


def test_a_summary_that_is_refused_counts_and_changes_nothing() -> None:
    play = talk()
    before = play.state.usage.total_tokens
    failure = Failure(code="user_error", message="A-17 is missing.")
    summarised(play, items=(), usage=Usage(total_tokens=7), failure=failure)
    assert play.state.usage.total_tokens == before + 7
    assert [one.why for one in play.state.ignored] == ["A-17 is missing."]
    found = run_changes(play.before, play.events[-1], play.state)
    assert not [one for one in found if isinstance(one, ViewCompacted)]
    play.hears("more", "and now")
    assert "in short" not in read(play)


def test_readers_get_the_summary_with_the_event_that_brings_it() -> None:
    play = talk()
    summarised(play)
    [change] = [
        one
        for one in run_changes(play.before, play.events[-1], play.state)
        if isinstance(one, ViewCompacted)
    ]
    assert (change.items, change.made.entries) == ((SHORT,), play.state.compaction.made[0].entries)
    late = run_changes(LoopState(), None, play.state)
    assert [one.items for one in late if isinstance(one, ViewCompacted)] == [()]


def test_what_hooks_change_in_the_context_is_kept() -> None:
    play = talk()
    summarised(play, changes=diff(None, {"seen": 1}))
    assert play.state.context == {"seen": 1}


def test_a_summary_of_a_view_that_a_handoff_has_changed_is_given_up() -> None:
    play = talk()
    play.hears("more", "and now")
    play.replies(transfer("Billing", "h1", callback=True))
    play.called_back(edit=ViewEdit(segments=((5, 8),), history=1))
    assert not [one for one in play.state.pending if isinstance(one, CompactView)]


def test_a_summary_that_is_ready_is_dropped_where_a_handoff_has_changed_the_view() -> None:
    play = talk()
    play.hears("more", "and now")
    summarised(play)
    play.replies(transfer("Billing", "h1", callback=True))
    play.called_back(edit=ViewEdit(segments=((5, 8),), history=1))
    assert "in short" not in read(play)
    assert play.state.compaction.ready is None


@pytest.mark.parametrize("callback", [False, True])
def test_an_agent_with_a_smaller_window_reads_a_summary_at_once(callback: bool) -> None:
    play = talk(need="")
    play.hears("more", "and now")
    play.replies(transfer("Billing", "h1", callback=callback, target_compaction="first"))
    if callback:
        play.called_back()
    assert play.state.agent == "Billing"
    effect = play.only(CompactView)
    assert (effect.agent, effect.first) == ("Billing", True)
    assert not [one for one in play.state.pending if isinstance(one, CallModel)]
    summarised(play)
    assert read(play)[0] == "in short"


def test_an_agent_with_a_smaller_window_reads_a_summary_that_is_ready() -> None:
    play = talk(need="")
    play.hears("more", "and now")
    billing = transfer("Billing", "h1", callback=True, target_compaction="first")
    play.replies(billing, compaction="beside")
    summarised(play)
    assert play.state.compaction.ready is not None
    play.called_back()
    assert not [one for one in play.state.pending if isinstance(one, CompactView)]
    assert read(play)[0] == "in short"


def test_what_a_filter_has_left_is_not_summarised_at_once() -> None:
    play = talk(need="")
    play.hears("more", "and now")
    play.replies(transfer("Billing", "h1", callback=True, target_compaction="first"))
    play.called_back(edit=ViewEdit(segments=((0, 8),), history=1))
    assert not [one for one in play.state.pending if isinstance(one, CompactView)]


def test_what_the_provider_keeps_is_not_summarised() -> None:
    play = talk(thread=ServerThread(conversation_id="conv_1"))
    assert not [one for one in play.state.pending if isinstance(one, CompactView)]


def test_the_next_summary_is_also_of_the_first_one() -> None:
    play = talk()
    summarised(play)
    for number in range(4):
        play.hears(f"m{number}", f"more {number} " + "z" * 100)
        play.replies(
            said(f"reply {number} " + "w" * 100), compaction="" if number < 3 else "beside"
        )
    effect = play.only(CompactView)
    older = items_to_summarise(play.state, effect)
    assert older[0].raw == SHORT
    second: JsonObject = {"role": "user", "content": "even shorter"}
    summarised(play, items=(second,))
    play.hears("last", "and now")
    assert read(play)[0] == "even shorter"
    assert "in short" not in read(play)


def test_a_summary_alone_is_not_summarised() -> None:
    play = talk(2)
    summarised(play, items=({"role": "user", "content": "s" * 600},))
    play.hears("more", "and now")
    play.replies(said("Well."), compaction="beside")
    assert not [one for one in play.state.pending if isinstance(one, CompactView)]


def test_a_summary_is_carried_into_the_next_history() -> None:
    play = talk()
    summarised(play)
    carried = records.read_state(records.write_state(play.state))
    assert carried.compaction == play.state.compaction


# --- Where a view is cut ---------------------------------------------------------------------------


def user(text: str) -> Item:
    return Item("input", {"role": "user", "content": text})


def model(text: str) -> Item:
    return Item("message", {"type": "message", "role": "assistant", "content": text}, "A", 1)


def call(call_id: str) -> Item:
    raw: JsonObject = {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}
    return Item("tool_call", raw, "A", 1)


def output(call_id: str, text: str = "ok") -> Item:
    raw: JsonObject = {"type": "function_call_output", "call_id": call_id, "output": text}
    return Item("tool_output", raw, "A", 1)


LONG = "x" * 400


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ((), 0),
        ((user(LONG),), 0),
        ((user(LONG), model(LONG), user(LONG), model(LONG)), 2),
        ((user(LONG), call("c1"), output("c1", LONG), call("c2"), output("c2", LONG * 2)), 3),
        ((user(LONG), call("c1"), call("c2"), output("c1", LONG), output("c2", LONG)), 0),
        ((user("hi"), model("hello"), user(LONG * 20), model(LONG * 20)), 0),
    ],
    ids=["nothing", "one message", "two questions", "two turns", "one turn", "too little is old"],
)
def test_a_view_is_cut_between_questions_and_turns(
    entries: tuple[Item, ...], expected: int
) -> None:
    assert cut(entries) == expected


def test_a_call_that_has_no_output_yet_stays_with_all_that_follows() -> None:
    entries = (user(LONG), call("c1"), output("c1", LONG), user(LONG), call("c2"), user(LONG))
    assert cut(entries) == 3


def test_calls_that_share_an_id_stay_together() -> None:
    entries = (user(LONG * 3), call("c1"), call("c1"), output("c1"), user(LONG * 3), output("c1"))
    assert cut(entries) == 0


def test_reasoning_stays_with_what_follows_it() -> None:
    thought = Item("reasoning", {"type": "reasoning", "id": "r1", "summary": []}, "A", 1)
    entries = (user(LONG * 2), output("c0"), thought, user(LONG * 2), model(LONG))
    assert cut(entries) != 3
