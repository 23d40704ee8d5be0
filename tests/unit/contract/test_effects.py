"""The table of effects: every row leads to a function, and says in words what it does."""

import pkgutil
from inspect import iscoroutinefunction

import pytest

from outlast.contract import effects
from outlast.contract.effects import EffectKind
from outlast.loop.effects import CallModel, EffectFailed
from tests.laws.driver import Play, play_in, play_with_everything
from tests.unit.loop.test_fallback import failure_of

LINES = {
    "prepare_run": "Triage · look up",
    "check_input": "Triage · input guardrails",
    "call_model": "Triage · model-Billing · turn 1",
    "run_tool": "look_up()",
    "clean_up": "clean up: look_up()",
    "cancel_response": "cancel the response resp_1",
    "compact_view": "Triage · summarise 3 items",
    "run_agent": "ask_orders()",
    "run_handoff": "Triage → Billing",
    "finalize_answer": "Billing · finalize the answer",
    "save_session": "save items 0 to 1",
    "offload_items": "store the content of items 0 to 1",
    "keep_line_open": "On the line: phone call",
    "notify_people": "notify people: held",
    "count_hours": "count the hours of support-hours",
}


@pytest.mark.parametrize("kind", [row for row in effects.ROWS if row.function])
def test_every_row_names_the_function_that_carries_it_out(kind: EffectKind) -> None:
    assert iscoroutinefunction(pkgutil.resolve_name(kind.function))


def test_only_a_nested_run_has_no_function() -> None:
    assert [row.activity for row in effects.ROWS if row.function == ""] == ["AgentRun"]


def test_every_effect_says_in_a_line_what_it_does() -> None:
    play = play_with_everything()
    lines = {one.kind: effects.kind_of(one).line(play.state, one) for one in reversed(play.issued)}
    assert lines == LINES


@pytest.mark.parametrize(("model", "named"), [("gpt-5", " · gpt-5"), ("", "")])
def test_the_line_of_a_model_call_names_the_model_where_it_is_known(model: str, named: str) -> None:
    play = Play()
    play.prepared(model=model)
    (call,) = play.state.pending
    assert effects.kind_of(call).line(play.state, call) == f"Triage{named} · turn 1"


def test_the_line_of_a_model_call_says_in_whose_place_it_is_made() -> None:
    play = Play()
    play.prepared(model="first")
    call = play.only(CallModel)
    play.take(EffectFailed(at_ms=play.now_ms, effect=call.effect, failure=failure_of()))
    (call,) = play.state.pending
    line = "Triage · second · turn 1 · in place of first: overloaded"
    assert effects.kind_of(call).line(play.state, call) == line


def test_an_activity_type_leads_back_to_its_row() -> None:
    for effect in play_with_everything().issued:
        row = effects.kind_of(effect)
        assert effects.kind_of_activity(effects.activity_type(effect)) is row
    assert effects.kind_of_activity("somebody_elses") is None


def test_what_says_nothing_of_its_requests_may_be_written_into_history() -> None:
    play = play_in("running")
    for effect in play.state.pending:
        assert effects.kind_of(effect).inline(effect) is True


def test_the_request_of_stored_content_has_the_items_of_its_range() -> None:
    play = play_with_everything()
    (store,) = [one for one in play.issued if one.kind == "offload_items"][:1]
    moved = effects.request_of(play.state, store)
    assert moved.items == play.state.items[store.start : store.stop]
