"""Session databases: what this version writes into files, and what it reads from those of a release."""

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import create_async_engine

from outlast.sessions import (
    AdvancedSQLiteSession,
    AsyncSQLiteSession,
    EncryptedSession,
    SQLAlchemySession,
    SQLiteSession,
)
from outlast.testing import call, say

ITEMS: list[Any] = [
    {"role": "user", "content": "Where is A-17? ✓"},
    call("look_up", "c1", order_id="A-17"),
    {"type": "function_call_output", "call_id": "c1", "output": "on its way"},
    *say("It is on its way."),
]
MORE: list[Any] = [{"role": "user", "content": "Thank you."}]
AGES = 100 * 365 * 24 * 3600
"""In seconds: a recording does not expire."""

KEY = "a key of the recordings, which protects nothing"


async def write(folder: Path) -> None:
    """Write a file for each kind of session into a folder that is there."""
    with closing(SQLiteSession("plain", folder / "plain.sqlite")) as plain:
        await plain.add_items(ITEMS)
        sealed = SQLiteSession("sealed", folder / "plain.sqlite")
        await EncryptedSession("sealed", sealed, KEY, ttl=AGES).add_items(ITEMS)
        sealed.close()
    other = AsyncSQLiteSession("other", folder / "plain.sqlite")
    await other.add_items(ITEMS)
    await other.close()
    with closing(
        AdvancedSQLiteSession(session_id="advanced", db_path=folder / "branches.sqlite")
    ) as advanced:
        await advanced.add_items(ITEMS)
        await advanced.add_items(MORE)
        await advanced.create_branch_from_turn(2, "second")
        await advanced.add_items(MORE)
    engine = create_async_engine(f"sqlite+aiosqlite:///{folder / 'alchemy.sqlite'}")
    await SQLAlchemySession("alchemy", engine=engine, create_tables=True).add_items(ITEMS)
    await engine.dispose()


async def contents(folder: Path, scratch: Path) -> dict[str, Any]:
    """Return what copies of a release's files hold, before and after a further message."""
    copy = scratch / "sessions"
    shutil.copytree(folder, copy)
    found: dict[str, Any] = {}
    for name, kind in (("plain", SQLiteSession), ("other", SQLiteSession)):
        with closing(kind(name, copy / "plain.sqlite")) as session:
            found[name] = await _read_and_add(session)
    with closing(SQLiteSession("sealed", copy / "plain.sqlite")) as session:
        found["sealed"] = await _read_and_add(EncryptedSession("sealed", session, KEY, ttl=AGES))
    with closing(
        AdvancedSQLiteSession(session_id="advanced", db_path=copy / "branches.sqlite")
    ) as session:
        found["main"] = await _read_and_add(session)
        await session.switch_to_branch("second")
        found["second"] = await _read_and_add(session)
    engine = create_async_engine(f"sqlite+aiosqlite:///{copy / 'alchemy.sqlite'}")
    found["alchemy"] = await _read_and_add(SQLAlchemySession("alchemy", engine=engine))
    await engine.dispose()
    return found


async def _read_and_add(session: Any) -> list[Any]:
    items = await session.get_items()
    await session.add_items(MORE)
    assert await session.get_items() == [*items, *MORE]
    return items
