"""Sessions in SQLite: a file that several processes may share, or memory.

Owns: `SQLiteSession` and its tables. Must not know: runs. A file is where its path says on *this*
machine: workers on several machines need a session in a database server.
"""

import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from outlast.agents.config.session_input import SessionSettings
from outlast.agents.config.settings_field import as_settings
from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.agents.threads import run_in_thread
from outlast.loop.values import JsonObject
from outlast.ports.session import SessionABC, allow_place, item_limit
from outlast.sessions.rows import read_rows, write_row

T = TypeVar("T")

logger = get_logger(__name__)

MEMORY = ":memory:"
KIND = "sqlite"

BUSY_TIMEOUT_SECONDS = 30.0
"""How long to wait for other writers. Each writes for milliseconds."""

BUSY_RETRY_SECONDS = 0.02


class SQLiteSession(SessionABC):
    """A session in a SQLite database.

    The database is opened when it is first used, in a thread, as every access is. In a file it
    may be used by any number of sessions, threads and processes at the same time. In memory it
    belongs to this object and ends with it.

    Args:
        session_id: names the conversation.
        db_path: the file, made when it is not there; its folder has to be. The default keeps the
            conversation in memory.
        sessions_table: name of the table of sessions.
        messages_table: name of the table of items.
        session_settings: how the session is read where the run does not say otherwise.

    Raises:
        UserError: an argument makes no sense.
    """

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = MEMORY,
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        for name, value in (
            ("session_id", session_id),
            ("db_path", str(db_path)),
            ("sessions_table", sessions_table),
            ("messages_table", messages_table),
        ):
            if not isinstance(cast("object", value), str) or not value or "\0" in value:
                raise UserError(f"SQLiteSession: {name} must be a string that is not empty.")
        self.session_id = session_id
        self.session_settings = as_settings(SessionSettings, session_settings or {})
        self.sessions_table = sessions_table
        self.messages_table = messages_table
        # The folder of the process may change later; the file stays the one that was meant.
        self.db_path = MEMORY if str(db_path) == MEMORY else str(Path(db_path).absolute())
        if self.db_path != MEMORY:
            allow_place(self.db_path)
        self._sql = _Statements(sessions_table, messages_table)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._closed = False

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the newest items, at most `limit` of them, oldest first.

        Rows that are no JSON objects are left out, with a warning in the log, and not counted.

        Args:
            limit: None stands for the limit of the session's settings, or else for all.
        """
        count = item_limit(limit, self.session_settings)
        if count == 0:
            return []

        def read(connection: sqlite3.Connection, at_most: int) -> list[str]:
            bounds = (self.session_id, at_most)
            with closing(connection.execute(self._sql.newest, bounds)) as rows:
                return [str(data) for _, data in rows]

        at_most = -1 if count is None else count  # SQLite's word for no limit
        while True:
            rows = await self._do(partial(read, at_most=at_most))
            items = read_rows(reversed(rows), session_id=self.session_id)
            if count is None or len(items) >= count or len(rows) < at_most:
                return items if count is None else items[-count:]
            at_most *= 2

    async def add_items(self, items: list[Any]) -> None:
        """Put items behind those that are there, all of them or none.

        Raises:
            UserError: an item is no JSON object.
        """
        rows = [write_row(item) for item in items]
        if not rows:
            return
        await self._do(lambda connection: self._write(connection, rows))

    async def add_items_once(self, key: str, items: list[Any]) -> bool:
        """Put items behind those that are there, unless this was done under this key before.

        The items and the note of the key are written in one transaction.

        Returns:
            Whether the items were stored now.

        Raises:
            UserError: an item is no JSON object.
        """
        rows = [write_row(item) for item in items]
        return await self._do(lambda connection: self._write(connection, rows, key))

    async def pop_item(self) -> Any | None:
        """Take the newest item away and return it; None when there is none.

        Newer rows that are no JSON objects are taken away, too.
        """

        def pop(connection: sqlite3.Connection) -> list[str]:
            with _transaction(connection):
                rows = connection.execute(self._sql.newest, (self.session_id, 1)).fetchall()
                for at, _ in rows:
                    connection.execute(self._sql.remove_one, (at,))
                return [str(data) for _, data in rows]

        while rows := await self._do(pop):
            if items := read_rows(rows, session_id=self.session_id):
                return items[0]
        return None

    async def clear_session(self) -> None:
        """Forget everything, also under which keys items were saved."""

        def clear(connection: sqlite3.Connection) -> None:
            with _transaction(connection):
                for statement in self._sql.clear:
                    connection.execute(statement, (self.session_id,))

        await self._do(clear)

    def close(self) -> None:
        """Close the database. A session in memory is gone then."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def describe(self) -> JsonObject | None:
        """Return what another process on this machine makes the same session from.

        None for a session in memory, which is nowhere else, and for one of a class of its own,
        which does something else with the items than this one.
        """
        if self.db_path == MEMORY or type(self) is not SQLiteSession:
            return None
        return {
            "kind": KIND,
            "session_id": self.session_id,
            "db_path": self.db_path,
            "sessions_table": self.sessions_table,
            "messages_table": self.messages_table,
            "settings": (self.session_settings or SessionSettings()).to_dict(),
        }

    @classmethod
    def from_description(cls, data: JsonObject) -> "SQLiteSession":
        """Return the session that `describe` described.

        Raises:
            UserError: the data describes no session in SQLite.
        """
        try:
            if data["kind"] != KIND:
                raise UserError(f"A session of kind {data['kind']!r} is not one in SQLite.")
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
        """Run a database action in a thread, one at a time."""

        def locked() -> T:
            with self._lock:
                return action(self._opened())

        return await run_in_thread(locked)

    def _opened(self) -> sqlite3.Connection:
        if self._closed:
            raise UserError(f"The session {self.session_id!r} is closed; make a new one.")
        if self._connection is not None and _file_of(self.db_path) != self._file:
            # What is written to a deleted file is lost with the process.
            logger.warning(
                "The file of the session %r was deleted or replaced; %s is opened anew.",
                self.session_id,
                self.db_path,
            )
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = _open(self.db_path, self._sql)
            self._file = _file_of(self.db_path)
            # Nobody has to call close(); a connection that is just dropped warns.
            weakref.finalize(self, self._connection.close).atexit = False
        return self._connection

    def _write(
        self, connection: sqlite3.Connection, rows: Sequence[str], key: str | None = None
    ) -> bool:
        with _transaction(connection):
            if key is not None:
                done = connection.execute(self._sql.note_key, (self.session_id, key))
                if done.rowcount == 0:
                    return False
            connection.execute(self._sql.touch, (self.session_id,))
            connection.executemany(self._sql.add, ((self.session_id, row) for row in rows))
            return True


_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NO_DATABASE = frozenset(
    {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY}
)
"""Failures that another try meets again."""

# The names of tables are put in where the braces are, quoted; values are always parameters.
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
_TOUCH = """
    INSERT INTO {sessions} (session_id) VALUES (?)
    ON CONFLICT (session_id) DO UPDATE SET updated_at = CURRENT_TIMESTAMP
"""
_ADD = "INSERT INTO {messages} (session_id, message_data) VALUES (?, ?)"
_CLEAR = (
    "DELETE FROM {messages} WHERE session_id = ?",
    "DELETE FROM {keys} WHERE session_id = ?",
    "DELETE FROM {sessions} WHERE session_id = ?",
)


class _Statements:
    """The SQL of one pair of tables, and of the table of keys that goes with them."""

    def __init__(self, sessions_table: str, messages_table: str) -> None:
        plain = {
            "sessions": sessions_table,
            "messages": messages_table,
            "keys": f"{messages_table}_saved",
            "index": f"idx_{messages_table}_session_id",
        }
        names = {name: _quoted(value) for name, value in plain.items()}
        self.names = frozenset(plain.values())
        self.create = tuple(statement.format(**names) for statement in _CREATE)
        self.newest = _NEWEST.format(**names)
        self.remove_one = _REMOVE_ONE.format(**names)
        self.note_key = _NOTE_KEY.format(**names)
        self.touch = _TOUCH.format(**names)
        self.add = _ADD.format(**names)
        self.clear = tuple(statement.format(**names) for statement in _CLEAR)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Take the right to write at the start, so that two writers wait and never deadlock."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _open(path: str, sql: _Statements) -> sqlite3.Connection:
    """Open the database and make its tables.

    Raises:
        UserError: there cannot be a database at the path.
    """
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(
            path,
            timeout=BUSY_TIMEOUT_SECONDS,
            isolation_level=None,  # transactions are begun and ended here, and in sight
            check_same_thread=False,  # there is a lock
        )
        _write_ahead(connection)
        _make_tables(connection, sql)
    except sqlite3.DatabaseError as error:
        if connection is not None:
            connection.close()
        if not _is_of(error, _NO_DATABASE):
            raise
        raise UserError(
            f"SQLiteSession: no session can be kept in {path}: {error}. The folder must exist and "
            "be writable, and the file must be a SQLite database or not be there."
        ) from error
    return connection


def _file_of(path: str) -> tuple[int, int] | None:
    """Return which file is at a path now; None for no file, and in memory."""
    if path == MEMORY:
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _make_tables(connection: sqlite3.Connection, sql: _Statements) -> None:
    """Make what is not there; a reader of a complete file need not wait for those who write."""
    there = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if there.issuperset(sql.names):
        return
    with _transaction(connection):
        for statement in sql.create:
            connection.execute(statement)


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Let readers and a writer work at the same time. The file remembers it; memory ignores it.

    Two that switch at once are refused without waiting, whatever the time-out says.
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
    # The low byte is the kind of failure, the rest its details.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in kinds


def _quoted(name: str) -> str:
    """Return a name as SQL takes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'
