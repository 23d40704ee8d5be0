"""An index in a file of SQLite, for one machine: FTS5 with trigrams.

The file is in rollback mode, so that readers need no right to write beside it.
"""

import os
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Final
from urllib.parse import quote

from outlast.agents.errors import UserError
from outlast.search.index import (
    FORMAT,
    LONGEST_SEARCH,
    OTHER_FORMAT,
    SLOW,
    TABLES,
    Rows,
    SearchIndex,
    SearchIndexDamaged,
    SearchUnavailable,
)

APPLICATION: Final = 0x6F75746C  # "outl"
"""Marks a file of SQLite as an index of ours, in its header."""

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

    def __init__(self, path: str | Path) -> None:
        self.path: Path = Path(path).expanduser().absolute()

    def __repr__(self) -> str:
        return f"SQLiteIndex({str(self.path)!r})"

    def prepare(self) -> None:
        """Create the file, or what is missing in it."""
        self._check_own()
        with self._errors():
            # Nobody else may read what customers wrote; SQLite's other files get the same mode.
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        with self._opened("rw") as connection:
            connection.execute("BEGIN IMMEDIATE")
            if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
            for one in TABLES:
                connection.execute(one.format(number="INTEGER PRIMARY KEY"))
            connection.execute(_WORDS)
            connection.execute("COMMIT")
        with self._reading():
            pass  # it has the format of this version

    def check(self) -> None:
        """Read the whole file."""
        self._check_own()
        if self.path.exists() and self.path.stat().st_size:
            with self._reading() as rows:
                found = rows.execute("PRAGMA quick_check(1)").fetchone()[0]
                if found != "ok":
                    raise self._damaged(found)
            with self._writing() as rows:
                rows.execute("INSERT INTO words (words) VALUES ('integrity-check')")

    def recreate(self) -> None:
        """Remove the file, and create an empty one."""
        self._check_own()
        for one in (self.path, *(Path(f"{self.path}{end}") for end in ("-journal", "-wal"))):
            one.unlink(missing_ok=True)
        self.prepare()

    def _check_own(self) -> None:
        """Refuse a file that somebody has made for something else."""
        with self._errors():
            if not self.path.exists():
                return
            with self.path.open("rb") as file:
                header = file.read(72)
        is_own = header[:16] == b"SQLite format 3\0" and header[68:] == APPLICATION.to_bytes(4)
        if header and not is_own:
            raise SearchUnavailable(
                f"{self.path} is no index of outlast. Name another file, or remove this one."
            )

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
        if not self.path.exists():
            raise SearchUnavailable(
                f"There is no index at {self.path} yet: `outlast search run` makes it."
            )
        with self._opened("ro") as connection:
            give_up_at = monotonic() + LONGEST_SEARCH
            connection.set_progress_handler(lambda: monotonic() > give_up_at, STEPS)
            connection.execute("BEGIN")
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found != FORMAT:
                raise SearchIndexDamaged(
                    f"The index {self.path} {OTHER_FORMAT}: `outlast search rebuild` makes it anew."
                )
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
        except sqlite3.OperationalError as error:
            if "interrupted" in str(error):
                raise SearchUnavailable(SLOW) from None
            if "tokenizer" in str(error) or "fts5" in str(error):
                raise UserError(
                    f"SQLite {sqlite3.sqlite_version} of this Python has no trigrams: use 3.34 or "
                    "newer, or an index in PostgreSQL."
                ) from error
            if "no such table" in str(error):
                raise self._damaged(error) from error
            raise SearchUnavailable(
                f"The index {self.path} cannot be used: {error}. The desk works without it."
            ) from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error
        except OSError as error:
            raise SearchUnavailable(
                f"The index {self.path} cannot be used: {error.strerror}."
            ) from error

    def _damaged(self, error: object) -> SearchIndexDamaged:
        return SearchIndexDamaged(
            f"The index {self.path} is damaged: {error}. `outlast search rebuild` makes it anew."
        )

    def _matching(self, term: str) -> tuple[str, str]:
        if len(term) < SHORTEST_INDEXED:
            within = "SELECT letters FROM words WHERE words.rowid = d.id"
            return f"instr(({within}), ?) > 0", term
        quoted = term.replace('"', '""')
        return "d.id IN (SELECT rowid FROM words WHERE words MATCH ?)", f'"{quoted}"'

    def _index_words(self, rows: Rows, number: int, letters: str) -> None:
        rows.execute("DELETE FROM words WHERE rowid = ?", (number,))
        rows.execute("INSERT INTO words (rowid, letters) VALUES (?, ?)", (number, letters))

    def _forget_words(self, rows: Rows, numbers: Sequence[int]) -> None:
        for number in numbers:
            rows.execute("DELETE FROM words WHERE rowid = ?", (number,))

    def purge(self) -> None:
        """Merge all segments of the index of words: older ones still have what was removed."""
        with self._opened("rw") as connection:
            pages, changes = -MERGED, 2
            while changes >= 2:  # as SQLite's documentation says when a merge is done
                before = connection.total_changes
                connection.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (pages,))
                pages, changes = MERGED, connection.total_changes - before
        super().purge()
