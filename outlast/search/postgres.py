"""An index in PostgreSQL, for several desks: its extension pg_trgm, in a schema of its own."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, LiteralString, cast
from urllib.parse import urlsplit

from outlast.agents.errors import AgentsException
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

try:
    import psycopg
    from psycopg import errors
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "An index in PostgreSQL needs psycopg: pip install 'outlast[search]'", name=error.name
    ) from error

SCHEMA: Final = "outlast_search"
WRITERS: Final = 0x6F75746C
"""The number of the lock that writers take."""

CONNECT_SECONDS: Final = 5

_WORDS: Final = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "CREATE TABLE IF NOT EXISTS words (id BIGINT PRIMARY KEY, letters TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS by_trigram ON words USING gin (letters gin_trgm_ops)",
    "CREATE TABLE IF NOT EXISTS about (format INTEGER PRIMARY KEY)",
)


class PostgresIndex(SearchIndex):
    """An index in a database of PostgreSQL; the process that writes it creates its schema.

    Args:
        url: the address of the database, such as `postgresql://user:password@host/database`. Errors
            show no password.
    """

    _word_id = "id"

    def __init__(self, url: str) -> None:
        self._url = url.replace("postgresql+psycopg://", "postgresql://", 1)
        parts = urlsplit(self._url)
        self._shown: str = f"postgresql://{parts.hostname or ''}{parts.path}"

    def __repr__(self) -> str:
        return f"PostgresIndex({self._shown!r})"

    def create(self) -> None:
        """Create the schema, the extension and the tables."""
        with self._writing() as rows:
            rows.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
            rows.execute(f"CREATE SCHEMA {SCHEMA}")
            for one in (*TABLES, *_WORDS):
                rows.execute(one.format(number="BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"))
            rows.execute("INSERT INTO about (format) VALUES (?)", (FORMAT,))

    @contextmanager
    def _opened(self) -> Generator["psycopg.Connection[Any]"]:
        with self._errors():
            connection = psycopg.connect(
                self._url,
                connect_timeout=CONNECT_SECONDS,
                options=f"-c search_path={SCHEMA},public",
            )
            with connection:  # commits, or takes back what an error has interrupted
                yield connection

    @contextmanager
    def _reading(self) -> Generator[Rows]:
        with self._opened() as connection:
            connection.read_only = True
            rows = _Rows(connection)
            rows.execute(f"SET LOCAL statement_timeout = {round(LONGEST_SEARCH * 1_000)}")
            found = rows.execute("SELECT format FROM about").fetchone()
            if found is None or found[0] != FORMAT:
                raise SearchIndexDamaged(f"The index {self._shown} {OTHER_FORMAT}. {REBUILD}")
            yield rows

    @contextmanager
    def _writing(self) -> Generator[Rows]:
        with self._opened() as connection:
            rows = _Rows(connection)
            rows.execute("SELECT pg_advisory_xact_lock(?)", (WRITERS,))
            yield rows

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except psycopg.Error as error:
            # Nothing of its chain is shown: it may quote the address, with the password.
            raise self._translated(error) from None

    def _translated(self, error: psycopg.Error) -> AgentsException:
        # A sentence of the server, without what it quotes of a statement.
        words = error.diag.message_primary or str(error).partition("\n")[0]
        match error:
            case errors.QueryCanceled():
                return SearchUnavailable(SLOW)
            case errors.UndefinedTable() | errors.InvalidSchemaName():
                return SearchIndexMissing(f"There is no index in {self._shown} yet. {MAKE}")
            case errors.DataCorrupted() | errors.IndexCorrupted():
                damage = f"The index {self._shown} is damaged: {words}. {REBUILD}"
                return SearchIndexDamaged(damage)
            case _:
                problem = f"The index {self._shown} cannot be used: {words}. {WITHOUT}"
                return SearchUnavailable(problem)

    def _matching(self, term: str) -> tuple[str, str]:
        escaped = term.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        within = "SELECT w.id FROM words w WHERE w.letters LIKE ?"
        return f"d.id IN ({within})", f"%{escaped}%"


class _Rows:
    """A connection whose parameters are written as those of SQLite."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Any:
        """Run a statement."""
        text = cast("LiteralString", sql.replace("?", "%s"))
        return self._connection.execute(text, parameters or None)
