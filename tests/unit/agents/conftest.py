"""What the tests of agents share."""

from collections.abc import AsyncIterator

import pytest

from outlast.local.engine import LocalEngine
from tests.servers import TemporalServer


@pytest.fixture
async def program(server: TemporalServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """A program's environment, in which `Runner.run` carries runs by itself."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    yield
    await LocalEngine.close_shared()
