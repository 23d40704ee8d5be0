"""Sessions in SQLite: in a file that several processes may share, or in memory.

A file belongs to one machine: workers on several machines need a session in a database server.
"""

import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from outlast.agents.config.session_input import SessionSettings
from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.agents.threads import run_in_thread
from outlast.loop.values import JsonObject
from outlast.sessions.described import note_created
from outlast.sessions.rows import RowSession, RowsToKeep

T = TypeVar("T")

logger: Final = get_logger(__name__)

MEMORY = ":memory:"
KIND = "sqlite"

BUSY_TIMEOUT_SECONDS = 30.0
"""How long to wait for other writers, which need only milliseconds each."""

BUSY_RETRY_SECONDS = 0.02  # writers need only milliseconds each


class SessionClosedError(UserError, RuntimeError):
    """The session was closed before."""


class SQLiteSession(RowSession):
    """A session in a SQLite database.

    The database is opened on first use. Every access runs in a thread. Any number of sessions,
    threads and processes may use the same file at the same time. A database in memory belongs to
    this object and is lost with it.

    Args:
        session_id: the id of the conversation.
        db_path: the file, which is created if it does not exist; its folder must exist. The default
            keeps the conversation in memory.
        sessions_table: name of the table of sessions.
        messages_table: name of the table of items.
        session_settings: how to read the session, unless the run has its own settings.

    Raises:
        UserError: an argument is invalid.
    """

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = MEMORY,
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(session_id, session_settings)
        for name, value in (
            ("db_path", str(db_path)),
            ("sessions_table", sessions_table),
            ("messages_table", messages_table),
        ):
            if not isinstance(cast("object", value), str) or not value or "\0" in value:
                raise UserError(f"SQLiteSession: {name} must be a non-empty string.")
        self._key = session_id  # the rows of the conversation have it; see AdvancedSQLiteSession
        self.sessions_table = sessions_table
        self.messages_table = messages_table
        # An absolute path, because the working directory of the process may change later.
        self.db_path: str = MEMORY if str(db_path) == MEMORY else str(Path(db_path).absolute())
        if self.db_path != MEMORY:
            note_created(self.db_path)
        self._sql = Statements(
            _CREATE,
            sessions=sessions_table,
            messages=messages_table,
            keys=f"{messages_table}_saved",
            index=f"idx_{messages_table}_session_id",
        )
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    async def clear_session(self) -> None:
        """Delete all items of the session and the keys of saved items."""

        def clear(connection: sqlite3.Connection) -> None:
            for statement in CLEAR:
                connection.execute(self._sql(statement), (self._key,))

        await self._do_in_transaction(clear)

    def close(self) -> None:
        """Close the database. This deletes a session in memory."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def describe(self) -> JsonObject | None:
        """Return data with which another local process can open the same session.

        None for a session in memory, which other processes cannot open, and for a subclass, which
        may treat items differently.
        """
        return self._description() if type(self) is SQLiteSession else None

    def _description(self) -> JsonObject | None:
        if self.db_path == MEMORY:
            return None
        return {
            "kind": KIND,
            "session_id": self._key,
            "db_path": self.db_path,
            "sessions_table": self.sessions_table,
            "messages_table": self.messages_table,
            "settings": (self.session_settings or SessionSettings()).to_dict(),
        }

    @classmethod
    def from_description(cls, data: JsonObject) -> "SQLiteSession":
        """Return the session for the data of `describe`.

        Raises:
            UserError: the data does not describe a session in SQLite.
        """
        try:
            if data["kind"] != KIND:
                raise UserError(f"A session of kind {data['kind']!r} is not a SQLite session.")
            return cls(
                data["session_id"],
                data["db_path"],
                sessions_table=data["sessions_table"],
                messages_table=data["messages_table"],
                session_settings=SessionSettings(**data["settings"]),
            )
        except (KeyError, TypeError) as error:
            raise UserError(f"This does not describe a session in SQLite: {error!r}.") from None

    async def _do(self, action: Callable[[sqlite3.Connection], T]) -> T:
        def run_locked() -> T:
            with self._lock:
                return action(self._connect())

        return await run_in_thread(run_locked)

    def _connect(self) -> sqlite3.Connection:
        if self._closed:
            raise SessionClosedError(
                f"The {type(self).__name__} is closed: create a new one for {self.session_id!r}."
            )
        if self._connection is not None and _file_of(self.db_path) != self._file:
            # Data written to a deleted file is lost when the process ends.
            logger.warning(
                "The file of the session %r was deleted or replaced; %s is opened again.",
                self.session_id,
                self.db_path,
            )
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = _open(self.db_path, self._sql)
            self._file = _file_of(self.db_path)
            # close() is optional; without a finalizer, a dropped connection would warn.
            weakref.finalize(self, self._connection.close).atexit = False
        return self._connection

    async def _newest(self, at_most: int | None) -> tuple[list[str], bool]:
        bounds = (self._key, -1 if at_most is None else at_most)  # -1 means no limit in SQLite

        def read(connection: sqlite3.Connection) -> list[str]:
            with closing(connection.execute(self._sql(_NEWEST), bounds)) as rows:
                return [str(data) for _, data in rows]

        rows = await self._do(read)
        return rows[::-1], at_most is None or len(rows) < at_most

    async def _append(self, rows: list[str], *, key: str | None) -> bool:
        def append(connection: sqlite3.Connection) -> bool:
            if key is not None:
                done = connection.execute(self._sql(_NOTE_KEY), (self._key, key))
                if done.rowcount == 0:
                    return False
            self._add_rows(connection, rows)
            return True

        return await self._do_in_transaction(append)

    async def _replace(self, added: list[str], rows_to_keep: RowsToKeep) -> bool:
        def replace(connection: sqlite3.Connection) -> bool:
            found = connection.execute(self._sql(_NEWEST), (self._key, -1)).fetchall()
            kept = rows_to_keep([str(data) for _, data in reversed(found)])
            if kept is None:
                return False
            connection.execute(self._sql(_REMOVE_ALL), (self._key,))
            self._add_rows(connection, [*added, *kept])
            return True

        return await self._do_in_transaction(replace)

    async def _pop(self) -> str | None:
        def pop(connection: sqlite3.Connection) -> str | None:
            found = connection.execute(self._sql(_NEWEST), (self._key, 1)).fetchone()
            if found is None:
                return None
            connection.execute(self._sql(_REMOVE_ONE), found[:1])
            return str(found[1])

        return await self._do_in_transaction(pop)

    def _add_rows(self, connection: sqlite3.Connection, rows: Sequence[str]) -> None:
        connection.execute(self._sql(TOUCH), (self._key,))
        connection.executemany(self._sql(_ADD), ((self._key, row) for row in rows))

    async def _do_in_transaction(self, action: Callable[[sqlite3.Connection], T]) -> T:
        def run(connection: sqlite3.Connection) -> T:
            with transaction(connection):
                return action(connection)

        return await self._do(run)


_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NO_DATABASE = frozenset(
    {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY}
)
"""Error codes of failures that a retry cannot fix."""

# The braces are replaced by quoted table names; values are always parameters.
_CREATE = (
    """
    CREATE TABLE IF NOT EXISTS {sessions} (
        session_id TEXT PRIMARY KEY,
        created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
        updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS {messages} (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL REFERENCES {sessions} (session_id) ON DELETE CASCADE,
        message_data TEXT NOT NULL,
        created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
    )
    """,
    "CREATE INDEX IF NOT EXISTS {index} ON {messages} (session_id, id)",
    """
    CREATE TABLE IF NOT EXISTS {keys} (
        session_id TEXT NOT NULL,
        save_key TEXT NOT NULL,
        created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
        PRIMARY KEY (session_id, save_key)
    )
    """,
)
_NEWEST = """
    SELECT id, message_data FROM {messages} WHERE session_id = ? ORDER BY id DESC LIMIT ?
"""
_REMOVE_ONE = "DELETE FROM {messages} WHERE id = ?"
_NOTE_KEY = "INSERT OR IGNORE INTO {keys} (session_id, save_key) VALUES (?, ?)"
TOUCH = """
    INSERT INTO {sessions} (session_id) VALUES (?)
    ON CONFLICT (session_id) DO UPDATE SET updated_at = CURRENT_TIMESTAMP
"""
_ADD = "INSERT INTO {messages} (session_id, message_data) VALUES (?, ?)"
_REMOVE_ALL = "DELETE FROM {messages} WHERE session_id = ?"
CLEAR = (
    _REMOVE_ALL,
    "DELETE FROM {keys} WHERE session_id = ?",
    "DELETE FROM {sessions} WHERE session_id = ?",
)


class AsyncSQLiteSession(SQLiteSession):
    """A `SQLiteSession` whose `close` is awaited, as the SDK's session of this name has it."""

    async def close(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Close the database. A later call raises `UserError`."""
        await run_in_thread(super().close)


class Statements:
    """Puts the names of a session's tables into SQL statements."""

    def __init__(self, create: Sequence[str], **names: str) -> None:
        self.create = create
        self.names = names

    def __call__(self, statement: str) -> str:
        """Return a statement with the names instead of the braces."""
        return statement.format(**{key: _quoted(name) for key, name in self.names.items()})


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Run a transaction with an immediate write lock, so that writers never deadlock."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:  # also interrupted: nothing is left half done
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _open(path: str, sql: Statements) -> sqlite3.Connection:
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(
            path,
            timeout=BUSY_TIMEOUT_SECONDS,
            isolation_level=None,  # transactions are explicit, see `transaction`
            check_same_thread=False,  # a lock guards the connection
        )
        _write_ahead(connection)
        _make_tables(connection, sql)
    except sqlite3.DatabaseError as error:
        if connection is not None:
            connection.close()
        if not _is_of(error, _NO_DATABASE):
            raise
        raise UserError(
            f"SQLiteSession cannot open {path}: {error}. The folder must exist and "
            "be writable, and an existing file must be a SQLite database."
        ) from error
    return connection


def _file_of(path: str) -> tuple[int, int] | None:
    """Return the (device, inode) of the file at a path; None without a file."""
    if path == MEMORY:
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _make_tables(connection: sqlite3.Connection, sql: Statements) -> None:
    """Create missing tables; if all tables exist, do not wait for a write lock."""
    there = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if there.issuperset(sql.names.values()):
        return
    with transaction(connection):
        for statement in sql.create:
            connection.execute(sql(statement))


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging: readers and a writer do not block each other.

    The file keeps the mode; a database in memory ignores it. SQLite refuses concurrent switches at
    once, in spite of the busy timeout, so the switch is retried here.
    """
    give_up_at = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").fetchall()
        except sqlite3.OperationalError as error:
            if not _is_of(error, _BUSY) or time.monotonic() > give_up_at:
                raise
            time.sleep(BUSY_RETRY_SECONDS)
        else:
            return


def _is_of(error: sqlite3.DatabaseError, kinds: frozenset[int]) -> bool:
    # The low byte is the primary error code; the other bytes are details.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in kinds


def _quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier, with any quotes in it escaped."""
    return '"' + name.replace('"', '""') + '"'
