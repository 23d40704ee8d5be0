"""The port to a session: what counts as one."""

from pathlib import Path
from typing import Any

import pytest

from outlast.agents.config.session_input import SESSION_METHODS, SessionSettings
from outlast.agents.errors import UserError
from outlast.ports.session import (
    DescribedSession,
    IdempotentSession,
    Session,
    SessionABC,
    item_limit,
    store_name_of,
)
from outlast.sessions.described import session_from_description
from outlast.sessions.sqlite import SQLiteSession


class Notebook:
    """A session as users write one, without a base class."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.items: list[Any] = []

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return list(self.items)

    async def add_items(self, items: list[Any]) -> None:
        self.items.extend(items)

    async def pop_item(self) -> Any | None:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items.clear()


class Derived(Notebook, SessionABC):
    """The same, with the base class."""


def test_an_object_with_the_methods_is_a_session() -> None:
    session: Session = Notebook("a")
    assert isinstance(session, Session)
    assert not isinstance(session, IdempotentSession)
    assert not isinstance(session, DescribedSession)
    assert not isinstance("a", Session)


def test_the_base_class_has_settings_that_say_nothing() -> None:
    session = Derived("a")
    assert isinstance(session, Session)
    assert session.session_settings is None


@pytest.mark.parametrize("method", SESSION_METHODS)
def test_the_base_class_wants_every_method(method: str) -> None:
    methods = {name: getattr(Notebook, name) for name in SESSION_METHODS if name != method}
    incomplete = type("Incomplete", (SessionABC,), methods)
    with pytest.raises(TypeError, match=method):
        incomplete()


def test_a_session_may_save_once_and_be_described() -> None:
    class Careful(Notebook):
        async def add_items_once(self, key: str, items: list[Any]) -> bool:
            return True

        def describe(self) -> None:
            return None

    assert isinstance(Careful("a"), IdempotentSession)
    assert isinstance(Careful("a"), DescribedSession)


@pytest.mark.parametrize(
    ("limit", "settings", "expected"),
    [
        (None, None, None),
        (None, SessionSettings(), None),
        (None, SessionSettings(limit=3), 3),
        (0, SessionSettings(limit=3), 0),
        (5, None, 5),
    ],
)
def test_a_limit_of_the_call_goes_before_one_of_the_settings(
    limit: int | None, settings: SessionSettings | None, expected: int | None
) -> None:
    assert item_limit(limit, settings) == expected


def test_a_described_session_is_made_again(tmp_path: Path) -> None:
    described: DescribedSession = SQLiteSession("a", tmp_path / "sessions.db")
    data = described.describe()
    assert data is not None
    with pytest.raises(UserError, match="may not open"):
        session_from_description(data)
    again = session_from_description(data, is_own=True)
    assert isinstance(again, SQLiteSession)
    assert again.describe() == data


@pytest.mark.parametrize("data", [{}, {"kind": "redis"}, {"kind": ["sqlite"]}])
def test_a_description_of_nothing_known_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="There is no kind of session"):
        session_from_description(data)


def test_a_limit_below_zero_is_refused() -> None:
    with pytest.raises(UserError, match="or at least 0, not -2"):
        item_limit(-2, None)


def test_a_session_may_name_the_store_that_it_is_in() -> None:
    session: Any = Notebook("a")
    assert store_name_of(session) == ""
    session.store_name = "postgresql://desk/sessions"
    assert store_name_of(session) == "postgresql://desk/sessions"
    session.store_name = None
    assert store_name_of(session) == ""
