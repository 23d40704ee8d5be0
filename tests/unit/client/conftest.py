"""No server is there for these tests, so no caller waits for one to come back."""

from datetime import timedelta

import pytest

from outlast.client.transport import run_address


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_PATIENCE_SECONDS", "0")


@pytest.fixture
def short_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates are given up soon. For tests that wait for that: in others, a slow moment would end them."""
    monkeypatch.setattr(run_address, "SHORTEST_PATIENCE", timedelta(seconds=0.05))
