"""An index in a file of SQLite, for one machine: FTS5 with trigrams.

The file is in rollback mode, so that readers need no right to write beside it.
"""

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Final
from urllib.parse import quote

from outlast.agents.errors import AgentsException, UserError
from outlast.search.index import (
    FORMAT,
    LONGEST_SEARCH,
    MAKE,
    OTHER_FORMAT,
    REBUILD,
    SLOW,
    TABLES,
    WITHOUT,
    Rows,
    SearchIndex,
    SearchIndexDamaged,
    SearchIndexMissing,
    SearchUnavailable,
)

APPLICATION: Final = 0x6F75746C  # "outl"
"""Marks a file of SQLite as an index of ours, in its header."""

MAGIC: Final = b"SQLite format 3\0"
NOT_OURS: Final = "is no index of outlast. Name another file, or remove this one."

SHORTEST_INDEXED: Final = 3
"""The fewest characters that trigrams find; shorter terms are looked for in every text."""

BUSY_SECONDS: Final = 10.0
STEPS: Final = 20_000
"""How often a search looks at the clock, in steps of SQLite's machine."""

MERGED: Final = 500
"""How many pages a step of `purge` merges."""

_WORDS: Final = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5"
    "(letters, tokenize='trigram case_sensitive 1')"
)


class SQLiteIndex(SearchIndex):
    """An index in a file; created by the process that writes it.

    Args:
        path: the file. Its folder must exist.
    """

    _word_id = "rowid"

    def __init__(self, path: str | Path) -> None:
        self.path: Path = Path(path).expanduser().absolute()

    def __repr__(self) -> str:
        return f"SQLiteIndex({str(self.path)!r})"

    def check(self) -> None:
        """Read the whole file."""
        super().check()
        if self.path.exists():
            with self._opened("rw") as connection:
                found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if found != "ok":
                    raise self._damaged(found)
                connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")

    def create(self) -> None:
        """Create the file."""
        with self._errors():
            if self.path.exists() and self.path.stat().st_size:
                header = self.path.read_bytes()[:72]
                if header[:16] != MAGIC or header[68:] != APPLICATION.to_bytes(4):
                    raise SearchUnavailable(f"{self.path} {NOT_OURS}")
            for end in ("", "-journal", "-wal"):
                Path(f"{self.path}{end}").unlink(missing_ok=True)
            # Nobody else may read what customers wrote; SQLite's other files get the same mode.
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        with self._writing() as rows:
            rows.execute(f"PRAGMA application_id = {APPLICATION}")
            rows.execute(f"PRAGMA user_version = {FORMAT}")
            for one in (*TABLES, _WORDS):
                rows.execute(one.format(number="INTEGER PRIMARY KEY"))

    @contextmanager
    def _opened(self, mode: str) -> Generator[sqlite3.Connection]:
        with self._errors():
            connection = sqlite3.connect(
                f"file:{quote(str(self.path))}?mode={mode}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
            )
            try:
                if mode == "rw":
                    # What is deleted is overwritten.
                    connection.execute("PRAGMA secure_delete = ON")
                yield connection
            finally:
                connection.close()  # ends a transaction without its changes

    @contextmanager
    def _reading(self) -> Generator[Rows]:
        if not self.path.exists() or not self.path.stat().st_size:
            raise SearchIndexMissing(f"There is no index at {self.path} yet. {MAKE}")
        with self._opened("ro") as connection:
            give_up_at = monotonic() + LONGEST_SEARCH
            connection.set_progress_handler(lambda: monotonic() > give_up_at, STEPS)
            connection.execute("BEGIN")
            if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
                raise SearchUnavailable(f"{self.path} {NOT_OURS}")
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found != FORMAT:
                raise SearchIndexDamaged(f"The index {self.path} {OTHER_FORMAT}. {REBUILD}")
            yield connection

    @contextmanager
    def _writing(self) -> Generator[Rows]:
        with self._opened("rw") as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> AgentsException:
        words = str(error)
        if "interrupted" in words:
            return SearchUnavailable(SLOW)
        if "tokenizer" in words or "fts5" in words:
            return UserError(
                f"SQLite {sqlite3.sqlite_version} of this Python has no trigrams: use 3.34 or "
                "newer, or an index in PostgreSQL."
            )
        if isinstance(error, sqlite3.OperationalError | OSError) and "no such table" not in words:
            return SearchUnavailable(f"The index {self.path} cannot be used: {words}. {WITHOUT}")
        return self._damaged(error)

    def _damaged(self, error: object) -> SearchIndexDamaged:
        return SearchIndexDamaged(f"The index {self.path} is damaged: {error}. {REBUILD}")

    def _matching(self, term: str) -> tuple[str, str]:
        if len(term) < SHORTEST_INDEXED:
            within = "SELECT letters FROM words WHERE words.rowid = d.id"
            return f"instr(({within}), ?) > 0", term
        quoted = term.replace('"', '""')
        return "d.id IN (SELECT rowid FROM words WHERE words MATCH ?)", f'"{quoted}"'

    def purge(self) -> None:
        """Merge all segments of the index of words: older ones still have what was removed."""
        with self._opened("rw") as connection:
            pages, changes = -MERGED, 2
            while changes >= 2:  # as SQLite's documentation says when a merge is done
                before = connection.total_changes
                connection.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (pages,))
                pages, changes = MERGED, connection.total_changes - before
        super().purge()
