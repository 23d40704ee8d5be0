"""The phone desk: one call without a key, as it is run from a terminal."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from phone_desk import app, call
from phone_desk.agents import billing, reception
from phone_desk.sound import hum
from support_desk import settings
from support_desk.context import Customer
from support_desk.shop import Shop

from outlast.agents.registry import Registry, handoffs_of
from outlast.local.engine import LocalEngine
from tests.servers import TemporalServer

ARGUMENTS = '{"order_id": "A-42", "amount": 389, "reason": "It leaks."}'


@pytest.fixture
async def engine(
    server: TemporalServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[None]:
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    monkeypatch.setenv(settings.DATABASE, str(tmp_path / "shop.db"))
    yield
    await LocalEngine.close_shared()


def test_a_worker_finds_both_agents() -> None:
    assert Registry(app.agents).names == ["Billing", "Reception"]
    assert app.context_type is Customer
    assert [one.agent for one in handoffs_of(reception)] == [billing]


def test_the_sound_is_speech_and_then_silence() -> None:
    pieces = list(hum())
    assert {len(piece) for piece in pieces} == {4800}
    assert any(pieces[0])
    assert not any(pieces[-1])


@pytest.mark.usefixtures("engine")
async def test_a_refund_is_decided_after_the_call(capsys: pytest.CaptureFixture[str]) -> None:
    await call.main(run_id=f"call-{secrets.token_hex(6)}")
    assert capsys.readouterr().out.splitlines() == [
        "(Reception hands over to Billing)",
        f"(refund_order {ARGUMENTS} waits for a person)",
        "(the caller hangs up)",
        "(ann approves refund_order)",
        "By text: Your refund of 389 EUR is approved and on its way.",
    ]
    order = Shop.open(settings.database_path()).look_up_order("A-42")
    assert order.refunded_cents == 38_900
