"""Requests by claim: handed over in the process, and never kept alive by the table."""

from typing import Any

import pytest

from outlast.contract.effects import EffectRequest, request_of
from outlast.contract.worker_state import INLINE_BYTES, OfferedRequests
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
