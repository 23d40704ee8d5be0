"""One embedded server for the tests that only need any, and users who are not this one."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from outlast.dev.server import EmbeddedServer


@pytest.fixture(scope="package")
async def server() -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(search_attributes={"OutlastAgent": "Keyword"}) as server:
        yield server


STRANGER = 12_345


@pytest.fixture
def as_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this process is another user than the one who has made the files."""
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)


@pytest.fixture
def give_away() -> Callable[[Path], None]:
    """Make a file or folder somebody else's, as only root can."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    return lambda path: os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
