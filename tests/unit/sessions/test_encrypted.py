"""Sessions whose items another session stores encrypted."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.config.session_input import SessionSettings
from outlast.agents.errors import UserError
from outlast.models.openai.compaction_session import OpenAIResponsesCompactionSession
from outlast.ports.session import IdempotentSession
from outlast.sessions import encrypted
from outlast.sessions.encrypted import EncryptedSession
from outlast.sessions.sqlite import SQLiteSession
from tests.unit.activities.test_session import Notebook
from tests.unit.sessions.behaviour import BYE, HELLO, ORDER, SessionBehaviour

KEY = "a long random secret"
OF_THE_SDK = {
    "__enc__": 1,
    "v": 1,
    "kid": "hkdf-v1",
    "payload": (
        "gAAAAABrAyr0lZbS6Vl2Wh0QPi1N8CRilhvN1Un4kZY9y96vgK69mA9zvVkZkoIPxUQzcRGnIOmrVjXmHgT1WXkj"
        "G89GtOZDsN357yT2YZ-wutJYoGBEjvE7toFvuoHGBPkvaG2YoBXH"
    ),
}
"""What the OpenAI Agents SDK 0.24 stores for an item under this key."""


class Clock:
    """A clock for the module under test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        real = encrypted.time.time
        monkeypatch.setattr(encrypted.time, "time", lambda: real() + self.ahead)


@pytest.fixture
def store() -> Iterator[SQLiteSession]:
    session = SQLiteSession("customer-7")
    yield session
    session.close()


class TestAroundSQLite(SessionBehaviour):
    @pytest.fixture
    def session(self, tmp_path: Path) -> Iterator[EncryptedSession]:
        inner = SQLiteSession("support-7", tmp_path / "sessions.db")
        yield EncryptedSession("support-7", inner, KEY)
        inner.close()

    def another(
        self, session: Any, session_id: str, settings: SessionSettings | None = None
    ) -> EncryptedSession:
        place = session.underlying_session.db_path
        inner = SQLiteSession(session_id, place, session_settings=settings)
        return EncryptedSession(session_id, inner, KEY)

    async def write_row(self, session: Any, text: str) -> None:
        inner: SQLiteSession = session.underlying_session
        statement = "INSERT INTO agent_messages (session_id, message_data) VALUES (?, ?)"
        await inner._do(
            lambda connection: connection.execute(statement, (inner.session_id, text)).close()
        )


async def test_nothing_readable_is_stored(store: SQLiteSession) -> None:
    session = EncryptedSession("customer-7", store, KEY)
    await session.add_items([ORDER])
    await session.add_items_once("run-1:1", [HELLO])
    stored = await store.get_items()
    assert [sorted(item) for item in stored] == [["__enc__", "kid", "payload", "v"]] * 2
    assert "order" not in str(stored)


async def test_a_session_of_the_sdk_is_read(store: SQLiteSession) -> None:
    await store.add_items([OF_THE_SDK])
    session = EncryptedSession("customer-7", store, KEY, ttl=10**9)
    assert await session.get_items() == [{"role": "user", "content": "Grüße"}]


async def test_items_expire_and_stay_where_they_are(
    store: SQLiteSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(monkeypatch)
    session = EncryptedSession("customer-7", store, KEY, ttl=60)
    await session.add_items([HELLO])
    clock.ahead = 50
    assert await session.get_items() == [HELLO]
    clock.ahead = 70
    assert await session.get_items() == await session.get_items(limit=1) == []
    assert len(await store.get_items()) == 1
    assert caplog.messages == []
    assert await session.pop_item() is None


@pytest.mark.parametrize(("key", "session_id"), [("another", "customer-7"), (KEY, "customer-8")])
async def test_another_key_or_session_reads_nothing_and_removes_nothing(
    store: SQLiteSession, caplog: pytest.LogCaptureFixture, key: str, session_id: str
) -> None:
    await EncryptedSession("customer-7", store, KEY).add_items([HELLO])
    await store.add_items([])
    other = EncryptedSession(session_id, store, key)
    with caplog.at_level(logging.WARNING, logger="outlast"):
        assert await other.get_items() == []
    assert "1 items of the session" in caplog.text
    with pytest.raises(UserError, match="was encrypted with another key or for another session"):
        await other.pop_item()
    assert len(await store.get_items()) == 1


async def test_plain_items_of_the_other_session_are_not_read(store: SQLiteSession) -> None:
    session = EncryptedSession("customer-7", store, KEY)
    await session.add_items([HELLO])
    await store.add_items([ORDER])
    assert await session.get_items() == await session.get_items(limit=1) == [HELLO]
    assert await session.pop_item() == HELLO


async def test_a_bound_for_reading_is_kept(store: SQLiteSession) -> None:
    session = EncryptedSession("customer-7", store, KEY, max_scan_items=2)
    await session.add_items([HELLO, ORDER])
    await store.add_items([BYE])
    assert await session.get_items(limit=1) == [ORDER]
    with pytest.raises(UserError, match="has more items than max_scan_items=2"):
        await session.get_items(limit=2)


def test_it_saves_once_where_the_other_session_does(store: SQLiteSession) -> None:
    assert isinstance(EncryptedSession("customer-7", store, KEY), IdempotentSession)
    assert not isinstance(EncryptedSession("a", Notebook(), KEY), IdempotentSession)


async def test_the_beginning_of_a_history_can_be_replaced(store: SQLiteSession) -> None:
    session = EncryptedSession("customer-7", store, KEY)
    await session.add_items([HELLO, ORDER, BYE])
    assert not await session.replace_items([ORDER], [])
    assert await session.replace_items([HELLO, ORDER], [{"role": "user", "content": "short"}])
    assert await session.get_items() == [{"role": "user", "content": "short"}, BYE]
    assert "short" not in str(await store.get_items())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"encryption_key": ""}, "encryption_key must be a non-empty string"),
        ({"ttl": 0}, "ttl must be a positive number, not 0"),
        ({"max_scan_items": -1}, "max_scan_items must be a positive number, not -1"),
        ({"session_id": ""}, "session_id that is a non-empty string"),
        ({"underlying_session": object()}, "has no method get_items"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], problem: str) -> None:
    fitting: dict[str, Any] = {
        "session_id": "a",
        "underlying_session": Notebook(),
        "encryption_key": KEY,
    }
    with pytest.raises(UserError, match=problem):
        EncryptedSession(**(fitting | options))


def test_a_session_that_compacts_is_refused(store: SQLiteSession) -> None:
    compacting = OpenAIResponsesCompactionSession("customer-7", store)
    with pytest.raises(UserError, match="Wrap it the other way round"):
        EncryptedSession("customer-7", compacting, KEY)
