"""Sessions in SQLite: in memory, and in a file that processes share and die over."""

import asyncio
import gc
import sqlite3
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.config.session_input import SessionSettings
from outlast.agents.errors import UserError
from outlast.sessions import sqlite
from outlast.sessions.branches import AdvancedSQLiteSession
from outlast.sessions.sqlite import AsyncSQLiteSession, SQLiteSession
from tests.unit.sessions.behaviour import BYE, HELLO, ORDER, SessionBehaviour


class SQLiteBehaviour(SessionBehaviour):
    async def write_row(self, session: SQLiteSession, text: str) -> None:
        statement = "INSERT INTO agent_messages (session_id, message_data) VALUES (?, ?)"
        await session._do(
            lambda connection: connection.execute(statement, (session.session_id, text)).close()
        )


class TestInAFile(SQLiteBehaviour):
    @pytest.fixture
    def session(self, tmp_path: Path) -> Iterator[SQLiteSession]:
        session = SQLiteSession("support-7", tmp_path / "sessions.db")
        yield session
        session.close()

    def another(
        self, session: SQLiteSession, session_id: str, settings: SessionSettings | None = None
    ) -> SQLiteSession:
        return SQLiteSession(session_id, session.db_path, session_settings=settings)


class TestWithBranches(SQLiteBehaviour):
    @pytest.fixture
    def session(self, tmp_path: Path) -> Iterator[SQLiteSession]:
        session = AdvancedSQLiteSession(session_id="support-7", db_path=tmp_path / "sessions.db")
        yield session
        session.close()

    def another(
        self, session: SQLiteSession, session_id: str, settings: SessionSettings | None = None
    ) -> SQLiteSession:
        return AdvancedSQLiteSession(
            session_id=session_id, db_path=session.db_path, session_settings=settings
        )


class TestInMemory(SQLiteBehaviour):
    @pytest.fixture
    def session(self) -> Iterator[SQLiteSession]:
        session = SQLiteSession("support-7")
        yield session
        session.close()

    def another(
        self, session: SQLiteSession, session_id: str, settings: SessionSettings | None = None
    ) -> SQLiteSession:
        """Share the connection, as one object with other settings would."""
        other = SQLiteSession(session_id, session_settings=settings)
        other._lock, other._connection = session._lock, session._connect()
        return other


async def test_two_in_memory_are_two_even_under_one_id() -> None:
    one, two = SQLiteSession("a"), SQLiteSession("a")
    await one.add_items([HELLO])
    assert await two.get_items() == []


async def test_a_file_is_remembered_after_its_session_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    first = SQLiteSession("a", path)
    await first.add_items([HELLO])
    first.close()
    first.close()
    assert await SQLiteSession("a", str(path)).get_items() == [HELLO]


def delete(path: Path) -> None:
    """Delete a database with the files beside it, which SQLite would read into the next one."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_was_deleted_or_replaced_is_opened_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, replaced: bool
) -> None:
    path = tmp_path / "sessions.db"
    session = SQLiteSession("a", path)
    await session.add_items([HELLO])
    delete(path)
    if replaced:
        other = SQLiteSession("a", tmp_path / "other.db")
        await other.add_items([ORDER])
        other.close()
        (tmp_path / "other.db").rename(path)
    assert await session.get_items() == ([ORDER] if replaced else [])
    assert "The file of the session 'a' was deleted or replaced" in caplog.text
    await session.add_items([BYE])
    session.close()
    found = SQLiteSession("a", path)
    assert (await found.get_items())[-1] == BYE
    found.close()


async def test_a_file_that_became_garbage_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    session = SQLiteSession("a", path)
    await session.add_items([HELLO])
    delete(path)
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(UserError, match=r"SQLiteSession cannot open .*sessions.db"):
        await session.get_items()
    assert path.read_bytes() == b"no database" * 1000
    session.close()


async def test_a_closed_session_says_so() -> None:
    session = SQLiteSession("support-7")
    await session.add_items([HELLO])
    session.close()
    with pytest.raises(RuntimeError, match=r"The SQLiteSession is closed: .*'support-7'"):
        await session.get_items()
    with pytest.raises(UserError, match="is closed"):
        await session.add_items([])


async def test_the_close_of_an_async_session_is_awaited(tmp_path: Path) -> None:
    session = AsyncSQLiteSession("a", tmp_path / "sessions.db")
    await session.add_items([HELLO])
    await session.close()
    with pytest.raises(UserError, match=r"The AsyncSQLiteSession is closed: .*'a'"):
        await session.get_items()
    assert await SQLiteSession("a", tmp_path / "sessions.db").get_items() == [HELLO]


async def test_a_session_that_is_just_dropped_leaves_no_connection_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = threading.Event()

    class Watched(sqlite3.Connection):
        def close(self) -> None:
            super().close()
            closed.set()

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Watched))
    session = SQLiteSession("a", tmp_path / "sessions.db")
    await session.get_items()
    del session
    gc.collect()  # the thread that read may still let go of it, so the close may be a moment away
    assert await asyncio.to_thread(closed.wait, 10)


async def test_a_file_lets_readers_in_while_somebody_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_SECONDS", 0.1)
    path = tmp_path / "sessions.db"
    session = SQLiteSession("a", path)
    await session.add_items([HELLO])
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("DELETE FROM agent_messages")
    assert await session.get_items() == [HELLO]
    assert await SQLiteSession("a", path).get_items() == [HELLO]
    writer.execute("ROLLBACK")
    writer.close()


async def test_a_database_that_stays_busy_is_an_error_that_may_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_SECONDS", 0.1)
    path = tmp_path / "sessions.db"
    selfish = sqlite3.connect(path, isolation_level=None)
    selfish.execute("BEGIN EXCLUSIVE")
    session = SQLiteSession("a", path)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        await session.add_items_once("k", [HELLO])
    selfish.execute("ROLLBACK")
    assert await session.add_items_once("k", [HELLO])
    selfish.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        await session.add_items_once("k2", [HELLO])
    selfish.execute("ROLLBACK")
    selfish.close()
    assert await session.add_items_once("k2", [HELLO])


async def test_a_save_that_fails_halfway_leaves_nothing_of_itself(tmp_path: Path) -> None:
    session = SQLiteSession("a", tmp_path / "sessions.db")
    await session.add_items([HELLO])
    trigger = """
        CREATE TRIGGER full BEFORE INSERT ON agent_messages WHEN NEW.message_data LIKE '%bye%'
        BEGIN SELECT RAISE(ABORT, 'no room'); END
    """
    await session._do(lambda connection: connection.execute(trigger).close())
    with pytest.raises(sqlite3.IntegrityError, match="no room"):
        await session.add_items_once("k", [ORDER, BYE])
    assert await session.get_items() == [HELLO]
    assert await session.add_items_once("k", [ORDER])


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    SQLiteSession("a", tmp_path / "sessions.db")
    assert list(tmp_path.iterdir()) == []


async def test_a_path_where_no_database_can_be_is_named(tmp_path: Path) -> None:
    nowhere = tmp_path / "no such folder" / "sessions.db"
    with pytest.raises(UserError, match="no such folder"):
        await SQLiteSession("a", nowhere).get_items()
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear customer, " * 100, encoding="utf-8")
    with pytest.raises(UserError, match=r"letter\.txt.*not a database"):
        await SQLiteSession("a", letter).add_items([HELLO])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"session_id": ""}, "session_id"),
        ({"session_id": 7}, "session_id"),
        ({"session_id": "a\0b"}, "session_id"),
        ({"db_path": ""}, "db_path"),
        ({"messages_table": ""}, "messages_table"),
        ({"sessions_table": ""}, "sessions_table"),
    ],
)
def test_an_argument_that_makes_no_sense_is_named(arguments: dict[str, Any], named: str) -> None:
    complete: dict[str, Any] = {"session_id": "a", **arguments}
    with pytest.raises(UserError, match=named):
        SQLiteSession(**complete)


async def test_tables_may_have_any_names_and_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    mine = SQLiteSession("a", path, sessions_table='my "sessions"', messages_table="order; {x}")
    yours = SQLiteSession("a", path)
    await mine.add_items_once("k", [HELLO])
    assert await yours.add_items_once("k", [BYE])
    assert (await mine.get_items(), await yours.get_items()) == ([HELLO], [BYE])


async def test_a_file_without_a_table_of_keys_is_taken_over(tmp_path: Path) -> None:
    """Such as one that another library has written."""
    path = tmp_path / "sessions.db"
    old = sqlite3.connect(path)
    old.executescript(
        """
        CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY,
            created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
            updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
        CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT,
            session_id TEXT NOT NULL, message_data TEXT NOT NULL,
            created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
        INSERT INTO agent_sessions (session_id) VALUES ('a');
        INSERT INTO agent_messages (session_id, message_data)
            VALUES ('a', '{"role": "user", "content": "hello"}');
        """
    )
    old.close()
    session = SQLiteSession("a", path)
    assert await session.add_items_once("k", [BYE])
    assert await session.get_items() == [HELLO, BYE]


async def test_a_file_travels_as_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = SQLiteSession(
        "a", "sessions.db", messages_table="m", session_settings=SessionSettings(limit=1)
    )
    await session.add_items_once("k", [HELLO, ORDER])
    data = session.describe()
    assert data is not None
    assert data["kind"] == "sqlite"
    assert data["db_path"] == str(tmp_path / "sessions.db")
    monkeypatch.chdir("/")
    rebuilt = SQLiteSession.from_description(data)
    assert rebuilt.describe() == data
    assert await rebuilt.get_items() == [ORDER]
    assert not await rebuilt.add_items_once("k", [HELLO, ORDER])


def test_memory_does_not_travel() -> None:
    assert SQLiteSession("a").describe() is None


def test_a_class_of_its_own_does_not_travel_as_the_one_it_is_made_of(tmp_path: Path) -> None:
    class WithoutSecrets(SQLiteSession):
        async def get_items(self, limit: int | None = None) -> list[Any]:
            return [item for item in await super().get_items(limit) if item != HELLO]

    assert WithoutSecrets("a", tmp_path / "sessions.db").describe() is None


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "redis"},
        {"kind": "sqlite", "session_id": "a"},
        {
            "kind": "sqlite",
            "session_id": "",
            "db_path": "/x",
            "sessions_table": "s",
            "messages_table": "m",
            "settings": {"limit": None},
        },
        {
            "kind": "sqlite",
            "session_id": "a",
            "db_path": "/x",
            "sessions_table": "s",
            "messages_table": "m",
            "settings": {"colour": "red"},
        },
    ],
)
def test_data_that_describes_no_such_session_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        SQLiteSession.from_description(data)


WRITER = """
import asyncio, sys
from outlast.sessions.sqlite import SQLiteSession

async def main(path, name):
    session = SQLiteSession("a", path)
    for number in range(25):
        batch = [{"role": "user", "content": f"{name} {number} {part}"} for part in "ab"]
        await session.add_items_once(f"{name} {number}", batch)
        await session.add_items_once(f"{name} {number}", batch)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_processes_share_a_file_from_its_first_moment(tmp_path: Path) -> None:
    path = str(tmp_path / "sessions.db")
    names = ["one", "two", "three"]
    writers = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, path, name)
        for name in names
    ]
    assert [await writer.wait() for writer in writers] == [0, 0, 0]
    texts = [item["content"].split() for item in await SQLiteSession("a", path).get_items()]
    assert len(texts) == 150
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    assert all(a[:2] == b[:2] and a[2] + b[2] == "ab" for a, b in pairs)
    for name in names:
        assert [int(number) for who, number, part in texts if (who, part) == (name, "a")] == list(
            range(25)
        )


DIES_AFTER_COMMIT = """
import asyncio, os, signal, sys
from outlast.sessions.sqlite import SQLiteSession

async def main():
    session = SQLiteSession("a", sys.argv[1])
    stored = await session.add_items_once("run-1:1", [{"role": "user", "content": "hello"}])
    assert stored
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""

DIES_BEFORE_COMMIT = """
import asyncio, contextlib, os, signal, sys
from outlast.sessions import sqlite
from outlast.sessions.sqlite import SQLiteSession

@contextlib.contextmanager
def dying(connection):
    connection.execute("BEGIN IMMEDIATE")
    yield
    assert connection.execute("SELECT count(*) FROM agent_messages").fetchone() == (1,)
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    session = SQLiteSession("a", sys.argv[1])
    await session.get_items()
    sqlite.transaction = dying
    await session.add_items_once("run-1:1", [{"role": "user", "content": "hello"}])

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("program", "stored_again"), [(DIES_AFTER_COMMIT, False), (DIES_BEFORE_COMMIT, True)]
)
async def test_a_save_that_died_is_there_once_after_the_next_try(
    tmp_path: Path, program: str, stored_again: bool
) -> None:
    path = str(tmp_path / "sessions.db")
    died = await asyncio.create_subprocess_exec(sys.executable, "-c", program, path)
    assert await died.wait() == -9
    session = SQLiteSession("a", path)
    assert await session.add_items_once("run-1:1", [HELLO]) is stored_again
    assert await session.get_items() == [HELLO]
