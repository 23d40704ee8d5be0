"""Sessions over SQLAlchemy: the same behaviour in SQLite and in a real Postgres."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text as sql
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from outlast.agents.config.session_input import SessionSettings
from outlast.agents.errors import UserError
from outlast.sessions.sql_alchemy import SQLAlchemySession
from tests.unit.sessions import postgres
from tests.unit.sessions.behaviour import BYE, HELLO, ORDER, SessionBehaviour


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    programs = postgres.programs()
    if programs is None:
        pytest.skip("Postgres is not installed: there is no program named postgres")
    with postgres.serve(programs) as url:
        yield url


async def empty(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        for table in ("agent_messages_saved", "agent_messages", "agent_sessions"):
            await connection.execute(sql(f"DROP TABLE IF EXISTS {table}"))


class SQLAlchemyBehaviour(SessionBehaviour):
    def another(
        self, session: SQLAlchemySession, session_id: str, settings: SessionSettings | None = None
    ) -> SQLAlchemySession:
        return SQLAlchemySession(
            session_id, engine=session.engine, create_tables=True, session_settings=settings
        )

    async def write_row(self, session: SQLAlchemySession, text: str) -> None:
        statement = sql("INSERT INTO agent_messages (session_id, message_data) VALUES (:id, :row)")
        async with session.engine.begin() as connection:
            await connection.execute(statement, {"id": session.session_id, "row": text})

    async def test_letters_are_kept_where_people_are_to_read_them(
        self, session: SQLAlchemySession
    ) -> None:
        open_book = SQLAlchemySession(
            "b", engine=session.engine, create_tables=True, ensure_ascii=False
        )
        await open_book.add_items([{"role": "user", "content": "Grüße"}])
        async with session.engine.begin() as connection:
            rows = await connection.execute(sql("SELECT message_data FROM agent_messages"))
            assert "Grüße" in str(rows.scalar_one())
        assert await open_book.get_items() == [{"role": "user", "content": "Grüße"}]

    async def test_tables_that_are_not_there_are_named(self, session: SQLAlchemySession) -> None:
        strict = SQLAlchemySession("a", engine=session.engine)
        with pytest.raises(UserError, match=r"agent_sessions.*create_tables=True"):
            await strict.get_items()
        with pytest.raises(UserError, match="agent_sessions"):
            await strict.add_items_once("k", [HELLO])
        await session.add_items([HELLO])
        assert await strict.get_items() == []

    async def test_tables_without_one_of_keys_are_completed(
        self, session: SQLAlchemySession
    ) -> None:
        await session.add_items([HELLO])
        async with session.engine.begin() as connection:
            await connection.execute(sql("DROP TABLE agent_messages_saved"))
        strict = SQLAlchemySession(session.session_id, engine=session.engine)
        assert await strict.get_items() == [HELLO]
        with pytest.raises(UserError, match=r"no table agent_messages_saved"):
            await strict.add_items_once("k", [BYE])
        again = self.another(session, session.session_id)
        assert await again.add_items_once("k", [BYE])
        assert await again.get_items() == [HELLO, BYE]

    async def test_other_errors_of_the_database_stay_what_they_are(
        self, session: SQLAlchemySession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await session.add_items([HELLO])

        async def fail(*_: object) -> None:
            raise OperationalError("INSERT", {}, Exception("the disk is full"))

        monkeypatch.setattr(session, "_insert", fail)
        with pytest.raises(OperationalError, match="the disk is full"):
            await session.add_items_once("k", [BYE])
        monkeypatch.undo()
        assert await session.get_items() == [HELLO]
        assert await session.add_items_once("k", [BYE])

    async def test_a_save_that_is_cancelled_leaves_nothing_of_itself(
        self, session: SQLAlchemySession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        insert, inserted = session._insert, asyncio.Event()

        async def hang(*arguments: Any) -> None:
            await insert(*arguments)
            inserted.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(session, "_insert", hang)
        saving = asyncio.create_task(session.add_items_once("k", [HELLO, ORDER]))
        await inserted.wait()
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
        monkeypatch.undo()
        assert await session.add_items_once("k", [HELLO, ORDER])
        assert await session.get_items() == [HELLO, ORDER]


class TestInSQLite(SQLAlchemyBehaviour):
    @pytest.fixture
    async def session(self, tmp_path: Path) -> AsyncIterator[SQLAlchemySession]:
        url = f"sqlite+aiosqlite:///{tmp_path / 'sessions.db'}"
        session = SQLAlchemySession.from_url("support-7", url=url, create_tables=True)
        yield session
        await session.engine.dispose()


@pytest.mark.parametrize(
    ("given", "wait"),
    [(None, 30.0), ({"connect_args": {"timeout": 2}}, 2), ({"echo": False}, 30.0)],
)
async def test_writers_wait_for_each_other_in_sqlite(
    given: dict[str, Any] | None, wait: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    connect = sqlite3.connect

    def connected(*args: Any, **options: Any) -> sqlite3.Connection:
        waits.append(options["timeout"])
        return connect(*args, **options)

    monkeypatch.setattr(sqlite3, "connect", connected)
    url = f"sqlite+aiosqlite:///{tmp_path / 'sessions.db'}"
    session = SQLAlchemySession.from_url("a", url=url, create_tables=True, engine_kwargs=given)
    await session.add_items([{"role": "user", "content": "Hello"}])
    await session.engine.dispose()
    assert set(waits) == {wait}


async def test_writers_of_one_process_take_turns_in_sqlite(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'sessions.db'}"
    options: dict[str, Any] = {"connect_args": {"timeout": 0}}
    first = SQLAlchemySession.from_url("a", url=url, create_tables=True, engine_kwargs=options)
    others = [SQLAlchemySession("a", engine=first.engine, create_tables=True) for _ in range(9)]
    await asyncio.gather(*(one.add_items([HELLO]) for one in [first, *others]))
    assert await first.get_items() == [HELLO] * 10
    await first.engine.dispose()


class TestInMemory(SQLAlchemyBehaviour):
    """All tasks share one connection here."""

    @pytest.fixture
    async def session(self) -> AsyncIterator[SQLAlchemySession]:
        session = SQLAlchemySession.from_url(
            "support-7", url="sqlite+aiosqlite:///:memory:", create_tables=True
        )
        yield session
        await session.engine.dispose()


class TestInPostgres(SQLAlchemyBehaviour):
    @pytest.fixture
    async def session(self, postgres_url: str) -> AsyncIterator[SQLAlchemySession]:
        session = SQLAlchemySession.from_url("support-7", url=postgres_url, create_tables=True)
        await empty(session.engine)
        yield session
        await session.engine.dispose()

    @pytest.mark.full
    async def test_processes_share_tables_from_their_first_moment(
        self, session: SQLAlchemySession, postgres_url: str
    ) -> None:
        writers = [
            await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, postgres_url, name)
            for name in ("one", "two", "three")
        ]
        assert [await writer.wait() for writer in writers] == [0, 0, 0]
        shared = self.another(session, "a")
        texts = [item["content"].split() for item in await shared.get_items()]
        assert len(texts) == 60
        assert all(
            a[:2] == b[:2] and a[2] + b[2] == "ab"
            for a, b in zip(texts[::2], texts[1::2], strict=True)
        )

    @pytest.mark.full
    async def test_a_process_that_died_after_its_commit_has_saved_once(
        self, session: SQLAlchemySession, postgres_url: str
    ) -> None:
        await session.get_items()
        died = await asyncio.create_subprocess_exec(sys.executable, "-c", DIES, postgres_url)
        assert await died.wait() == -9
        shared = self.another(session, "a")
        assert not await shared.add_items_once("run-1:1", [HELLO])
        assert await shared.get_items() == [HELLO]


WRITER = """
import asyncio, sys
from outlast.sessions.sql_alchemy import SQLAlchemySession

async def main(url, name):
    session = SQLAlchemySession.from_url("a", url=url, create_tables=True)
    for number in range(10):
        batch = [{"role": "user", "content": f"{name} {number} {part}"} for part in "ab"]
        await session.add_items_once(f"{name} {number}", batch)
        await session.add_items_once(f"{name} {number}", batch)
    await session.engine.dispose()

asyncio.run(main(*sys.argv[1:]))
"""

DIES = """
import asyncio, os, signal, sys
from outlast.sessions.sql_alchemy import SQLAlchemySession

async def main():
    session = SQLAlchemySession.from_url("a", url=sys.argv[1])
    assert await session.add_items_once("run-1:1", [{"role": "user", "content": "hello"}])
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_tables_that_cannot_be_made_are_an_error_now_and_made_later(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    url = f"sqlite+aiosqlite:///{path}"
    session = SQLAlchemySession.from_url(
        "a", url=url, create_tables=True, engine_kwargs={"connect_args": {"timeout": 0}}
    )
    selfish = sqlite3.connect(path, isolation_level=None)
    selfish.execute("BEGIN EXCLUSIVE")
    with pytest.raises(OperationalError, match="locked"):
        await session.add_items([HELLO])
    selfish.close()
    await session.add_items([HELLO])
    assert await session.get_items() == [HELLO]
    await session.engine.dispose()


async def test_tables_that_were_dropped_are_made_anew_by_the_next_try(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'sessions.db'}"
    session = SQLAlchemySession.from_url("a", url=url, create_tables=True)
    assert await session.add_items_once("run-1:0", [HELLO])
    async with session.engine.begin() as connection:
        await connection.execute(sql("DROP TABLE agent_messages"))
    with pytest.raises(ConnectionError, match="'a' has lost its table agent_messages"):
        await session.get_items()
    assert await session.get_items() == []
    assert await session.add_items_once("run-1:1", [HELLO])
    assert await session.get_items() == [HELLO]
    await session.engine.dispose()


async def test_a_database_that_is_not_there_is_the_error_of_its_driver(tmp_path: Path) -> None:
    for create_tables in (True, False):
        session = SQLAlchemySession.from_url(
            "a",
            url=f"postgresql+psycopg://test:hunter2@/postgres?host={tmp_path}",
            create_tables=create_tables,
        )
        with pytest.raises(OperationalError) as failed:
            await session.get_items()
        assert "hunter2" not in str(failed.value)
        await session.engine.dispose()


async def test_an_engine_may_be_used_from_one_event_loop_after_another(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'sessions.db'}"
    session = SQLAlchemySession.from_url(
        "a", url=url, create_tables=True, engine_kwargs={"poolclass": NullPool}
    )
    await session.add_items([HELLO])
    await asyncio.to_thread(asyncio.run, session.add_items([BYE]))
    assert await session.get_items() == [HELLO, BYE]


async def test_tables_may_have_other_names(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'sessions.db'}")
    mine = SQLAlchemySession(
        "a", engine=engine, create_tables=True, sessions_table="s", messages_table="my messages"
    )
    yours = SQLAlchemySession("a", engine=engine, create_tables=True)
    assert await mine.add_items_once("k", [HELLO])
    assert await yours.add_items_once("k", [BYE])
    assert (await mine.get_items(), await yours.get_items()) == ([HELLO], [BYE])
    await engine.dispose()


@pytest.mark.parametrize(
    "url",
    ["sqlite:///x.db", "postgresql+pg8000://ann:hunter2@db/x", "ann:hunter2@db", "nosuchdb://x"],
)
def test_a_url_that_makes_no_async_engine_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(UserError, match="async driver") as refused:
        SQLAlchemySession.from_url("a", url=url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("session_id", ["", 7, "a\0b"])
def test_an_id_that_makes_no_sense_is_refused(session_id: Any) -> None:
    with pytest.raises(UserError, match="session_id"):
        SQLAlchemySession.from_url(session_id, url="sqlite+aiosqlite:///:memory:")


def test_what_is_no_async_engine_is_refused() -> None:
    with pytest.raises(UserError, match=r"create_async_engine.*str"):
        SQLAlchemySession("a", engine="sqlite+aiosqlite:///:memory:")  # type: ignore[arg-type]


def test_it_is_not_described_as_data() -> None:
    assert not hasattr(SQLAlchemySession, "describe")


def test_without_sqlalchemy_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "try:\n"
        "    import outlast.sessions.sql_alchemy\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install 'outlast[sqlalchemy]'" in done.stdout
