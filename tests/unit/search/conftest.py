"""Indexes for tests: a file, and a database of PostgreSQL where it is installed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.search import SearchIndex, open_index
from tests.unit.sessions.postgres import programs, serve


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a database of these tests' own."""
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL is not installed")
    with serve(found) as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.installed)])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> SearchIndex:
    """An empty index."""
    is_file = request.param == "sqlite"
    found = open_index(tmp_path / "i.db" if is_file else request.getfixturevalue("postgres"))
    if is_file:
        found.prepare()
    else:
        found.create()
    return found


@pytest.fixture
def file_index(tmp_path: Path) -> Callable[[], Any]:
    """Make indexes in files of their own."""
    made = list[int]()

    def make() -> SearchIndex:
        made.append(len(made))
        found = open_index(tmp_path / f"{len(made)}.db")
        found.prepare()
        return found

    return make
