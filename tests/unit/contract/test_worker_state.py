"""What a worker shares with its workflows: requests by claim, and which run each execution is of."""

from typing import Any

import pytest

from outlast.contract import worker_state
from outlast.contract.effects import EffectRequest, request_of
from outlast.contract.worker_state import (
    INLINE_BYTES,
    Lineage,
    Lineages,
    OfferedRequests,
    WorkerState,
)
from outlast.loop.effects import CallModel
from tests.laws.driver import BUSY, Play, play_in


def two_requests() -> list[EffectRequest[Any]]:
    play = Play.ready()
    return [EffectRequest(effect=effect) for effect in play.issued]


@pytest.mark.parametrize("situation", [name for name in BUSY if name != "waiting"])
def test_every_request_can_be_offered_and_is_the_very_same_object(situation: str) -> None:
    claims = OfferedRequests()
    play = play_in(situation)
    for effect in play.state.pending:
        request = request_of(play.state, effect)
        claims.offer("run", effect.effect, request)
        assert claims.take("run", effect.effect) is request
        assert claims.take("run", effect.effect) is request, "a retry takes it again"


def test_small_requests_are_those_that_people_can_read() -> None:
    """Recorded histories depend on the number."""
    assert INLINE_BYTES == 2_000


def test_a_claim_does_not_keep_a_request_alive() -> None:
    claims = OfferedRequests()
    play = Play.ready()
    request: Any = request_of(play.state, play.only(CallModel))
    claims.offer("run", 2, request)
    del request
    assert claims.take("run", 2) is None


def test_claims_of_other_runs_and_effects_are_others() -> None:
    claims = OfferedRequests()
    first, second = two_requests()
    claims.offer("run", 1, first)
    claims.offer("other run", 1, second)
    assert claims.take("run", 1) is first
    assert claims.take("other run", 1) is second
    assert claims.take("run", 2) is None
    assert claims.take("third run", 1) is None


def test_a_second_offer_replaces_the_first() -> None:
    claims = OfferedRequests()
    first, second = two_requests()
    claims.offer("run", 1, first)
    claims.offer("run", 1, second)
    assert claims.take("run", 1) is second


# --- Which run an execution is of -------------------------------------------------------------------------


def test_every_execution_of_a_chain_belongs_to_the_first() -> None:
    lineages = Lineages()
    for execution in ("first", "second", "third"):
        lineages.note(execution, "first", None)
    lineages.note("another of the id", "another of the id", None)
    for execution in ("first", "second", "third"):
        assert lineages.get(execution) == Lineage(chain_id="first", parent_id="")
    assert lineages.get("another of the id") == Lineage(chain_id="another of the id")
    assert lineages.get("gone") is None


def test_nested_runs_belong_to_the_chain_of_the_outermost() -> None:
    lineages = Lineages()
    lineages.note("second", "first", None)
    lineages.note("nested", "nested", ("support-42", "second"))
    lineages.note("in it", "the first of its own", ("support-42/ask-3", "nested"))
    assert lineages.get("nested") == Lineage(chain_id="first", parent_id="support-42")
    assert lineages.get("in it") == Lineage(chain_id="first", parent_id="support-42/ask-3")


def test_of_a_nested_run_whose_parent_is_elsewhere_only_the_server_knows() -> None:
    lineages = Lineages()
    lineages.note("nested", "nested", ("support-42", "first"))
    assert lineages.get("nested") is None
    lineages.note("first", "first", None)
    lineages.note("nested", "nested", ("support-42", "first"))
    assert lineages.get("nested") == Lineage(chain_id="first", parent_id="support-42")


def test_the_places_of_the_newest_executions_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_state, "MOST_LINEAGES", 2)
    lineages = Lineages()
    for execution in ("one", "two", "three"):
        lineages.note(execution, execution, None)
    assert [lineages.get(one) is not None for one in ("one", "two", "three")] == [False, True, True]


def test_the_end_of_a_run_concerns_nobody_by_default() -> None:
    state = WorkerState()
    state.on_end("default", "first")
    assert state.lineages.get("first") is None
    assert state.lineages is not WorkerState().lineages
