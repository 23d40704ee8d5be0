"""Where an index is, as options and the environment name it."""

from pathlib import Path

import pytest

from outlast.agents.errors import UserError
from outlast.search import open_index
from outlast.search.locations import index_from_environment
from outlast.search.sqlite import SQLiteIndex


def test_a_path_is_a_file(tmp_path: Path) -> None:
    for place in (tmp_path / "i.db", str(tmp_path / "i.db")):
        found = open_index(place)
        assert isinstance(found, SQLiteIndex)
        assert found.path == tmp_path / "i.db"
    assert not (tmp_path / "i.db").exists()


@pytest.mark.parametrize("place", ["", "mysql://host/x", "s3://bucket/i.db", "a\0b"])
def test_another_place_is_refused(place: str) -> None:
    with pytest.raises(UserError, match="An index of search is a file, such as"):
        open_index(place)


def test_the_environment_names_an_index_or_a_file_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OUTLAST_SEARCH_INDEX", raising=False)
    assert index_from_environment() is None
    monkeypatch.setenv("OUTLAST_SEARCH_INDEX", str(tmp_path / "i.db"))
    assert isinstance(index_from_environment(), SQLiteIndex)
    monkeypatch.delenv("OUTLAST_SEARCH_INDEX")
    (tmp_path / "place").write_text(str(tmp_path / "j.db"))
    monkeypatch.setenv("OUTLAST_SEARCH_INDEX_FILE", str(tmp_path / "place"))
    found = index_from_environment()
    assert isinstance(found, SQLiteIndex)
    assert found.path.name == "j.db"
