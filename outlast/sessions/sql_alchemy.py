"""Sessions in any database with an async SQLAlchemy driver, such as Postgres.

The URL and the engine contain secrets, so a session has no `describe`: each worker creates its own.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

try:
    from sqlalchemy import (
        TIMESTAMP,
        BigInteger,
        Column,
        ForeignKey,
        Index,
        Integer,
        MetaData,
        Select,
        String,
        Table,
        Text,
        delete,
        func,
        insert,
        inspect,
        select,
        update,
    )
    from sqlalchemy.dialects.mysql import LONGTEXT
    from sqlalchemy.engine import Connection, Engine
    from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
    from sqlalchemy.pool import StaticPool
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "SQLAlchemySession needs SQLAlchemy: pip install 'outlast[sqlalchemy]'", name=error.name
    ) from error

from outlast.agents.config.session_input import SessionSettings
from outlast.agents.errors import UserError
from outlast.sessions.rows import RowSession, RowsToKeep

SQLITE_WAIT_SECONDS = 30.0
"""How long a writer to SQLite waits for others; several on a slow disk can take the usual 5."""

_Locks = WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
_locks: "WeakKeyDictionary[Engine, _Locks]" = WeakKeyDictionary()
"""The locks of SQLite's engines, one for each event loop."""


class SQLAlchemySession(RowSession):
    """A session in a database.

    Any number of sessions, threads and processes may use the same database at the same time. The
    items of one call of `add_items` stay together.

    Args:
        session_id: the id of the conversation.
        engine: an async engine, which its creator must dispose of.
        create_tables: whether to create missing tables before the first use. Otherwise the tables
            must exist.
        sessions_table: name of the table of sessions.
        messages_table: name of the table of items. The keys of saved items are in a table with the
            same name and the suffix `_saved`.
        session_settings: how to read the session, unless the run has its own settings.
        ensure_ascii: False keeps non-ASCII characters, so that people can read the rows.

    Raises:
        UserError: an argument is invalid.
    """

    def __init__(
        self,
        session_id: str,
        *,
        engine: AsyncEngine,
        create_tables: bool = False,
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
        ensure_ascii: bool = True,
    ) -> None:
        super().__init__(session_id, session_settings)
        if not isinstance(cast("object", engine), AsyncEngine):
            raise UserError(
                "SQLAlchemySession: engine must come from sqlalchemy.ext.asyncio's "
                f"create_async_engine, not {type(engine).__name__}."
            )
        self.engine = engine
        self._ensure_ascii = ensure_ascii
        self._tables = _Tables(sessions_table, messages_table)
        self._creates = self._to_create = create_tables
        self._creating = asyncio.Lock()

    @property
    def store_name(self) -> str:
        """The database without its password, and the table."""
        return f"{self.engine.url.render_as_string()} {self._tables.messages.name}"

    @classmethod
    def from_url(
        cls,
        session_id: str,
        *,
        url: str,
        engine_kwargs: dict[str, Any] | None = None,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> "SQLAlchemySession":
        """Return a session with a new engine, available as `engine`.

        Args:
            session_id: the id of the conversation.
            url: the database's URL, with an async driver, such as
                `postgresql+psycopg://user@host/db`.
            engine_kwargs: passed to `create_async_engine`. Writers to a SQLite database wait 30
                seconds for each other, unless `connect_args` has another `timeout`.
            session_settings: how to read the session, unless the run has its own settings.
            **kwargs: passed to `SQLAlchemySession`.

        Raises:
            UserError: SQLAlchemy cannot create an engine for the URL.
        """
        try:
            engine = create_async_engine(url, **_patient(url, engine_kwargs or {}))
        except (SQLAlchemyError, ImportError) as error:
            # The URL and the error's message may contain a password, so neither is shown.
            scheme, separator, _ = str(url).partition("://")
            begin = f"begins with {scheme[:40]!r}" if separator else "has no scheme"
            raise UserError(
                f"SQLAlchemySession: cannot create an engine for a URL that {begin} "
                f"({type(error).__name__}). It needs an async driver that is installed, such as "
                "postgresql+psycopg://, postgresql+asyncpg:// or sqlite+aiosqlite://."
            ) from None
        return cls(session_id, engine=engine, session_settings=session_settings, **kwargs)

    async def clear_session(self) -> None:
        """Delete all items of the session and the keys of saved items."""
        tables = self._tables
        async with self._transaction() as connection:
            await self._lock_session(connection)
            for table in (tables.messages, tables.keys, tables.sessions):
                await connection.execute(delete(table).where(table.c.session_id == self.session_id))

    @contextlib.asynccontextmanager
    async def _transaction(self) -> AsyncGenerator[AsyncConnection]:
        async with _alone(self.engine):
            await self._create_tables()
            async with self.engine.connect() as connection:
                try:
                    async with connection.begin():
                        yield connection
                except DBAPIError as error:
                    if missing := await self._missing_tables(connection):
                        if self._creates:  # deleted since the first use; the retry creates them
                            self._to_create = True
                            raise ConnectionError(
                                f"The session {self.session_id!r} has lost its table "
                                f"{', '.join(missing)}. Try again: the table is created again, empty."
                            ) from error
                        raise UserError(
                            "SQLAlchemySession: the database has no table "
                            f"{', '.join(missing)}. Pass create_tables=True, or create it with your "
                            "migrations."
                        ) from error
                    raise

    async def _newest(self, at_most: int | None) -> tuple[list[str], bool]:
        data = self._tables.messages.c.message_data
        async with self._transaction() as connection:
            found = await connection.execute(self._newest_first(data).limit(at_most))
            rows = [str(row) for row in found.scalars()]
        return rows[::-1], at_most is None or len(rows) < at_most

    async def _append(self, rows: list[str], *, key: str | None) -> bool:
        keys = self._tables.keys
        async with self._transaction() as connection:
            await self._lock_session(connection)
            if key is not None:
                mine = (keys.c.session_id == self.session_id) & (keys.c.save_key == key)
                found = await connection.execute(select(keys.c.save_key).where(mine))
                if found.first() is not None:
                    return False
                values = {"session_id": self.session_id, "save_key": key}
                await connection.execute(insert(keys).values(values))
            await self._insert(connection, rows)
            return True

    async def _replace(self, added: list[str], rows_to_keep: RowsToKeep) -> bool:
        messages = self._tables.messages
        async with self._transaction() as connection:
            await self._lock_session(connection)
            found = await connection.execute(self._newest_first(messages.c.message_data))
            kept = rows_to_keep([str(row) for row in found.scalars()][::-1])
            if kept is None:
                return False
            mine = messages.c.session_id == self.session_id
            await connection.execute(delete(messages).where(mine))
            await self._insert(connection, [*added, *kept])
            return True

    async def _pop(self) -> str | None:
        messages = self._tables.messages
        newest = self._newest_first(messages.c.id, messages.c.message_data).limit(1)
        async with self._transaction() as connection:
            await self._lock_session(connection)
            row = (await connection.execute(newest)).first()
            if row is None:
                return None
            await connection.execute(delete(messages).where(messages.c.id == row.id))
            return str(row.message_data)

    def _newest_first(self, *columns: "Column[Any]") -> "Select[Any]":
        ids = self._tables.messages.c
        return select(*columns).where(ids.session_id == self.session_id).order_by(ids.id.desc())

    async def _lock_session(self, connection: AsyncConnection) -> None:
        """Lock the session against other writers until the transaction ends.

        An update of the session's row locks it in every database. As the first statement, the
        update never upgrades a read lock to a write lock, so two writers cannot deadlock.
        """
        sessions = self._tables.sessions
        touch = (
            update(sessions)
            .where(sessions.c.session_id == self.session_id)
            .values(updated_at=func.now())
        )
        if (await connection.execute(touch)).rowcount:
            return
        try:
            async with connection.begin_nested():
                await connection.execute(insert(sessions).values(session_id=self.session_id))
        except IntegrityError:  # another writer inserted the row first
            await connection.execute(touch)

    async def _insert(self, connection: AsyncConnection, rows: Sequence[str]) -> None:
        if rows:
            values = [{"session_id": self.session_id, "message_data": row} for row in rows]
            await connection.execute(insert(self._tables.messages), values)

    async def _create_tables(self) -> None:
        if not self._to_create:
            return
        async with self._creating:
            if not self._to_create:
                return
            async with self.engine.connect() as connection:
                # Another process may create a table between the check and the creation, so retry
                # as often as there are tables.
                for _ in self._tables.metadata.tables:
                    with contextlib.suppress(DBAPIError):
                        await self._create_missing(connection)
                        break
                else:
                    await self._create_missing(connection)
            self._to_create = False

    async def _create_missing(self, connection: AsyncConnection) -> None:
        async with connection.begin():
            await connection.run_sync(self._tables.metadata.create_all)

    async def _missing_tables(self, connection: AsyncConnection) -> list[str]:
        """Return the names of missing tables; empty if the database cannot be inspected."""

        def find(connection: Connection) -> list[str]:
            found = inspect(connection)
            return [name for name in self._tables.metadata.tables if not found.has_table(name)]

        with contextlib.suppress(SQLAlchemyError):
            return await connection.run_sync(find)
        return []


class _Tables:
    def __init__(self, sessions_table: str, messages_table: str) -> None:
        # MySQL requires a maximum length for keys, and limits its TEXT to 64 KB.
        name = String().with_variant(String(255), "mysql", "mariadb")
        text = Text().with_variant(LONGTEXT(), "mysql", "mariadb")
        counter = BigInteger().with_variant(Integer(), "sqlite")  # SQLite's only autoincrement type
        moment = TIMESTAMP(timezone=False)

        def made_at(column: str) -> "Column[Any]":
            return Column(column, moment, server_default=func.now(), nullable=False)

        self.metadata = MetaData()
        self.sessions = Table(
            sessions_table,
            self.metadata,
            Column("session_id", name, primary_key=True),
            made_at("created_at"),
            made_at("updated_at"),
        )
        self.messages = Table(
            messages_table,
            self.metadata,
            Column("id", counter, primary_key=True, autoincrement=True),
            Column(
                "session_id",
                name,
                ForeignKey(f"{sessions_table}.session_id", ondelete="CASCADE"),
                nullable=False,
            ),
            Column("message_data", text, nullable=False),
            made_at("created_at"),
            Index(f"idx_{messages_table}_session_id", "session_id", "id"),
            sqlite_autoincrement=True,
        )
        self.keys = Table(
            f"{messages_table}_saved",
            self.metadata,
            Column("session_id", name, primary_key=True),
            Column("save_key", name, primary_key=True),
            made_at("created_at"),
        )


def _alone(engine: AsyncEngine) -> contextlib.AbstractAsyncContextManager[Any]:
    """Return a lock if one task at a time should use the engine, else a null context.

    SQLite has one writer at a time: others ask again and again until their time is up, in no order,
    so on a slow disk some give up. With the lock, the tasks of a process take turns. SQLite in
    memory has one connection for all tasks, which needs the lock, too.
    """
    core = engine.sync_engine
    if core.dialect.name != "sqlite" and not isinstance(core.pool, StaticPool):
        return contextlib.nullcontext()
    locks = _locks.setdefault(core, WeakKeyDictionary())
    return locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())


def _patient(url: str, engine_kwargs: dict[str, Any]) -> dict[str, Any]:
    if not str(url).startswith("sqlite"):
        return engine_kwargs
    connect_args = {"timeout": SQLITE_WAIT_SECONDS, **engine_kwargs.get("connect_args", {})}
    return {**engine_kwargs, "connect_args": connect_args}
