"""The index in a file: whose it is, what is left of removed words, and damage."""

import sqlite3
import stat
from pathlib import Path

import pytest

from outlast.agents.errors import UserError
from outlast.search import SearchIndexDamaged, SearchUnavailable, open_index
from outlast.search import sqlite as sqlite_module
from outlast.search.sqlite import SQLiteIndex
from tests.unit.search.documents import SPACE, document


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "i.db"


@pytest.fixture
def index(file: Path) -> SQLiteIndex:
    index = SQLiteIndex(file)
    index.prepare()
    return index


def test_the_file_is_for_its_user_alone(index: SQLiteIndex, file: Path) -> None:
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert repr(index) == f"SQLiteIndex({str(file)!r})"


def test_a_reader_makes_no_file_and_needs_no_right_to_write(file: Path) -> None:
    with pytest.raises(SearchUnavailable, match=r"no index at .*i\.db yet\. `outlast search run`"):
        open_index(file).search(SPACE, "x", limit=1)
    assert not file.exists()
    index = SQLiteIndex(file)
    index.prepare()
    index.put(SPACE, document("c1", "a promise"))
    file.chmod(0o400)
    file.parent.chmod(0o500)
    try:
        assert len(index.search(SPACE, "promise", limit=1)) == 1
    finally:
        file.parent.chmod(0o700)


def test_nothing_is_left_of_removed_words_in_the_file(index: SQLiteIndex, file: Path) -> None:
    index.put(SPACE, document("c1", "жщъэюя quokkazebra"))
    for at in range(40):
        index.put(SPACE, document(f"d{at}", f"others say {at} things"))
    assert b"quokkazebra" in file.read_bytes()
    index.forget(["c1"])
    index.purge()
    content = file.read_bytes()
    for left in ("quokka", "zebra", "жщъ", "ъэю", r"\u0436", "kkaz"):
        assert left.encode() not in content
    index.check()
    assert len(index.search(SPACE, "others", limit=99)) == 40


def test_a_file_of_something_else_is_never_touched(tmp_path: Path) -> None:
    other, text = tmp_path / "other.db", tmp_path / "notes.txt"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    text.write_text("my notes\n" * 100)
    for file in (other, text):
        before = file.read_bytes()
        index = SQLiteIndex(file)
        for act in (index.prepare, index.check):
            with pytest.raises(SearchUnavailable):
                act()
        with pytest.raises(SearchUnavailable, match=r"is no index of outlast\. Name another file"):
            index.create()
        assert file.read_bytes() == before


def test_a_damaged_file_is_named_and_made_anew(index: SQLiteIndex, file: Path) -> None:
    index.put(SPACE, document("c1", *(f"a promise {at}" for at in range(200))))
    whole = file.read_bytes()
    file.write_bytes(whole[:100] + b"\xa5" * (len(whole) - 100))
    with pytest.raises(SearchIndexDamaged, match=r"is damaged: .* `outlast search rebuild`"):
        index.search(SPACE, "promise", limit=1)
    with pytest.raises(SearchIndexDamaged):
        index.put(SPACE, document("c2", "x"))
    with pytest.raises(SearchIndexDamaged):
        index.check()
    index.create()
    index.check()
    assert index.search(SPACE, "promise", limit=1) == []


def test_words_that_do_not_fit_their_index_are_damage(index: SQLiteIndex, file: Path) -> None:
    index.put(SPACE, document("c1", "a promise"))
    connection = sqlite3.connect(file)
    connection.execute("UPDATE words_content SET c0 = 'another text'")
    connection.commit()
    connection.close()
    with pytest.raises(SearchIndexDamaged):
        index.check()


def test_an_index_of_another_version_is_rebuilt(index: SQLiteIndex, file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.close()
    for act in (index.prepare, index.check):
        with pytest.raises(SearchIndexDamaged, match="made by another version of outlast"):
            act()
    index.create()
    index.check()


def test_a_search_that_takes_too_long_ends(
    index: SQLiteIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(50):
        index.put(SPACE, document(f"c{at}", "xy " * 2_000))
    monkeypatch.setattr(sqlite_module, "LONGEST_SEARCH", -1.0)
    monkeypatch.setattr(sqlite_module, "STEPS", 1)
    with pytest.raises(SearchUnavailable, match=r"takes too long. Add a word of three letters"):
        index.search(SPACE, "zq", limit=1)


def test_a_folder_that_is_not_there_and_a_sqlite_without_trigrams_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SearchUnavailable, match=r"cannot be used: .*No such file"):
        SQLiteIndex(tmp_path / "nowhere" / "i.db").prepare()
    monkeypatch.setattr(sqlite_module, "_WORDS", "CREATE VIRTUAL TABLE w USING fts5(x, tokenize=y)")
    with pytest.raises(UserError, match=r"has no trigrams: use 3\.34 or newer"):
        SQLiteIndex(tmp_path / "i.db").prepare()
