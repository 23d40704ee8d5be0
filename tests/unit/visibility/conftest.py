"""One embedded server for the tests that only need any."""

from collections.abc import AsyncIterator

import pytest

from outlast.dev.server import EmbeddedServer


@pytest.fixture(scope="package")
async def server() -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(search_attributes={"OutlastAgent": "Keyword"}) as server:
        yield server
