"""One server for the tests that only need any."""

from collections.abc import AsyncIterator

import pytest

from tests.servers import TemporalServer, server_for_tests


@pytest.fixture(scope="package")
async def server() -> AsyncIterator[TemporalServer]:
    async with server_for_tests({"OutlastAgent": "Keyword"}, shared=False) as server:
        yield server
