"""The costs of a run by question, folded from its events."""

from typing import Any, cast

import pytest

from outlast.client.costs import CostFold, RunCosts
from outlast.client.read.history import Progress
from outlast.loop.machine import advance
from outlast.loop.spending import merged, model_uses
from outlast.loop.state import LoopState
from outlast.loop.values import ModelUse, Usage
from outlast.pricing import Cost
from outlast.views.run import snapshot_of
from tests.laws.driver import SITUATIONS, Play, nested, play_in, play_with_everything, said, tool
from tests.unit.loop.test_compaction import summarised, talk


def paid(micros: int, tokens: int = 10) -> Usage:
    return Usage(requests=1, total_tokens=tokens, cost_micros=micros, priced=1)


def folded(play: Play, *, after: int = 0) -> CostFold:
    """Return the costs of a run; of its first events, only the state that they led to is known."""
    fold, state = CostFold(), LoopState()
    for number, event in enumerate(play.events, 1):
        state, _ = advance(state, event)
        if number >= after:
            fold.take(Progress(event if number > after else None, state))
    return fold


async def costs_of(play: Play, *, after: int = 0) -> RunCosts:
    nowhere: Any = None
    return await folded(play, after=after).read(nowhere)


def conversation() -> Play:
    play = Play.ready(keep_open=True)
    play.replies(tool("look", "c1"), usage=paid(1), model="gpt-5")
    play.returns("c1")
    play.replies(said("Hello."), usage=paid(2), model="gpt-5")
    play.hears("m2", "Again")
    play.replies(said("Again."), usage=paid(4), model="gpt-5-mini")
    play.hears("m3", "And again")
    play.replies(tool("look", "c2"), usage=paid(8), model="gpt-5")
    return play


async def test_each_question_has_its_cost() -> None:
    costs = await costs_of(conversation())
    assert [(one.first, one.last, one.cost.usd * 1_000_000) for one in costs.questions] == [
        (1, 1, 3),
        (2, 2, 4),
        (3, 3, 8),
    ]
    assert costs.cost.usd * 1_000_000 == 15
    assert {name: one.calls for name, one in costs.cost.by_model.items()} == {
        "gpt-5": 3,
        "gpt-5-mini": 1,
    }


async def test_questions_whose_histories_are_deleted_keep_their_cost() -> None:
    play = conversation()
    for after in range(len(play.events)):
        costs = await costs_of(play, after=after)
        found = [(one.first, one.last, one.cost.usd * 1_000_000) for one in costs.questions]
        assert found == [(1, 1, 3), (2, 2, 4), (3, 3, 8)]


async def test_questions_of_a_lost_history_keep_their_cost_and_it_is_said() -> None:
    play = conversation()
    first = next(number for number in range(1, len(play.events)) if _answers(play, number) == 1)
    last = next(number for number in range(1, len(play.events)) if _answers(play, number) == 2)
    costs = await _with_gap(play, first - 1, last)
    assert [(one.first, one.last, one.cost.usd * 1_000_000) for one in costs.questions] == [
        (1, 1, 3),
        (2, 2, 4),
        (3, 3, 8),
    ]
    assert costs.cost == Cost.of_state(snapshot_of(play.state))
    assert costs.lost_histories == ("lost-1",)


async def test_a_nested_run_that_ended_in_a_lost_history_counts_once() -> None:
    play = Play.ready(keep_open=True)
    play.replies(nested("Lawyer", "c1"), usage=paid(1), model="gpt-5")
    begun = len(play.events)
    uses = (ModelUse(agent="Lawyer", model="law", usage=paid(10)),)
    play.worked(final_output="Yes.", usage=uses[0].usage, uses=uses)
    play.replies(said("Yes."), usage=paid(2), model="gpt-5")
    costs = await _with_gap(play, begun, len(play.events))
    assert costs.cost.usd * 1_000_000 == 13
    assert costs.cost == Cost.of_state(snapshot_of(play.state))
    assert (costs.lost, costs.lost_histories) == ((), ("lost-1",))


async def _with_gap(play: Play, first: int, last: int) -> RunCosts:
    """Return the costs of a run, of which the events after the first and up to the last are lost."""
    fold, state, nowhere = CostFold(), LoopState(), cast("Any", None)
    for number, event in enumerate(play.events, 1):
        state, _ = advance(state, event)
        if number == last:
            fold.take(Progress(None, state, lost="lost-1"))
        elif not first < number < last:
            fold.take(Progress(event, state))
    return await fold.read(nowhere)


def _answers(play: Play, events: int) -> int:
    state = LoopState()
    for event in play.events[:events]:
        state, _ = advance(state, event)
    return len(state.answers)


async def test_a_summary_costs_the_question_in_which_it_was_made() -> None:
    play = talk()
    before = (await costs_of(play)).cost.usd
    summarised(play, usage=paid(5), model="small")
    costs = await costs_of(play)
    assert (costs.cost.usd - before) * 1_000_000 == 5
    assert costs.cost.by_model["small"].calls == 1


async def test_a_nested_run_tells_what_each_of_its_agents_cost() -> None:
    play = Play.ready(keep_open=True)
    play.replies(nested("Lawyer", "c1"), usage=paid(1), model="gpt-5")
    uses = (
        ModelUse(agent="Lawyer", model="law", usage=paid(10)),
        ModelUse(agent="Clerk", model="law", usage=Usage(requests=1, total_tokens=5)),
    )
    used = uses[0].usage.plus(uses[1].usage)
    play.worked(final_output="Yes.", usage=used, uses=uses)
    costs = await costs_of(play)
    assert costs.cost.problem == "price unknown for model law: 5 tokens"
    assert {name: one.usd * 1_000_000 for name, one in costs.cost.by_agent.items()} == {
        "Lawyer": 10,
        "Triage": 1,
        "Clerk": 0,
    }
    assert Cost.of_state(snapshot_of(play.state)).usd == costs.cost.usd
    assert play.state.usage.cost_micros == 11


@pytest.mark.parametrize("name", SITUATIONS)
async def test_the_questions_add_up_to_the_run_in_every_situation(name: str) -> None:
    assert await _all_uses(play_in(name)) == set(model_uses(play_in(name).state))


async def test_the_questions_add_up_to_the_run_where_everything_happens() -> None:
    play = play_with_everything()
    assert await _all_uses(play) == set(model_uses(play.state))


async def _all_uses(play: Play) -> set[ModelUse]:
    """Return what a run has used by itself, with the nested runs that have reported."""
    fold, nowhere = folded(play), cast("Any", None)
    fold._unreported.clear()
    found, _ = await fold.uses(nowhere)
    return set(merged(one for uses in found.values() for one in uses))
