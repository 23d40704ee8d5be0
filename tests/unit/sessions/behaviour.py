"""What every session that this package ships does, whatever it is kept in."""

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Any

import pytest

from outlast.agents.config.session_input import SessionSettings, check_session
from outlast.agents.errors import UserError
from outlast.ports.session import IdempotentSession, Session, SessionABC


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


HELLO, ORDER, BYE = said("hello"), said("where is my order?"), said("bye")


class SessionBehaviour(ABC):
    """Tests of one kind of session; a subclass says how to make one and to damage it."""

    @abstractmethod
    def another(
        self, session: Any, session_id: str, settings: SessionSettings | None = None
    ) -> Any:
        """Return one more session in the same place."""

    @abstractmethod
    async def write_row(self, session: Any, text: str) -> None:
        """Put a row behind those of the session, whatever is in it."""

    async def test_it_is_a_session(self, session: Any) -> None:
        check_session(session)
        assert isinstance(session, Session)
        assert isinstance(session, SessionABC)
        assert isinstance(session, IdempotentSession)

    async def test_a_new_one_remembers_nothing(self, session: Any) -> None:
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.clear_session()
        assert await session.get_items() == []

    async def test_items_come_back_in_the_order_they_were_added(self, session: Any) -> None:
        await session.add_items([HELLO, ORDER])
        await session.add_items([])
        await session.add_items([BYE])
        assert await session.get_items() == [HELLO, ORDER, BYE]

    @pytest.mark.parametrize(
        ("limit", "expected"), [(0, []), (2, [ORDER, BYE]), (3, [HELLO, ORDER, BYE]), (9, None)]
    )
    async def test_a_limit_takes_the_newest_in_the_order_of_time(
        self, session: Any, limit: int, expected: list[Any] | None
    ) -> None:
        await session.add_items([HELLO, ORDER, BYE])
        wanted = [HELLO, ORDER, BYE] if expected is None else expected
        assert await session.get_items(limit=limit) == wanted

    async def test_settings_limit_what_is_read_unless_the_call_says_otherwise(
        self, session: Any
    ) -> None:
        await session.add_items([HELLO, ORDER, BYE])
        other = self.another(session, session.session_id, SessionSettings(limit=1))
        assert await other.get_items() == [BYE]
        assert await other.get_items(limit=2) == [ORDER, BYE]

    async def test_a_limit_below_zero_is_refused(self, session: Any) -> None:
        with pytest.raises(UserError, match=r"limit must be None, .* or at least 0, not -1"):
            await session.get_items(limit=-1)

    async def test_the_newest_item_can_be_taken_back(self, session: Any) -> None:
        await session.add_items([HELLO, ORDER])
        assert await session.pop_item() == ORDER
        assert await session.get_items() == [HELLO]

    async def test_conversations_under_other_ids_are_none_of_its_business(
        self, session: Any
    ) -> None:
        other = self.another(session, "somebody else")
        await session.add_items([HELLO])
        await other.add_items([ORDER])
        assert await other.add_items_once("run-1:1", [BYE])
        assert await session.add_items_once("run-1:1", [BYE])
        await session.clear_session()
        assert await session.get_items() == []
        assert await other.get_items() == [ORDER, BYE]

    async def test_what_is_saved_under_a_key_is_saved_once(self, session: Any) -> None:
        assert await session.add_items_once("run-1:1", [HELLO, ORDER])
        assert not await session.add_items_once("run-1:1", [HELLO, ORDER])
        assert await session.add_items_once("run-1:2", [HELLO])
        assert await session.get_items() == [HELLO, ORDER, HELLO]

    async def test_tries_of_one_save_at_the_same_time_store_it_once(self, session: Any) -> None:
        others = [self.another(session, session.session_id) for _ in range(5)]
        stored = await asyncio.gather(
            *(one.add_items_once("run-1:1", [HELLO, ORDER]) for one in [session, *others])
        )
        assert sorted(stored) == [False] * 5 + [True]
        assert await session.get_items() == [HELLO, ORDER]

    async def test_an_item_that_cannot_be_saved_saves_none_and_takes_no_key(
        self, session: Any
    ) -> None:
        for bad in ({"role": "user", "content": object()}, "hello", ["hello"]):
            with pytest.raises(UserError, match="add_items"):
                await session.add_items_once("run-1:1", [HELLO, bad])
            with pytest.raises(UserError, match="add_items"):
                await session.add_items([HELLO, bad])
        assert await session.get_items() == []
        assert await session.add_items_once("run-1:1", [HELLO])

    async def test_clearing_forgets_the_keys_too(self, session: Any) -> None:
        await session.add_items_once("run-1:1", [HELLO])
        await session.clear_session()
        assert await session.add_items_once("run-1:1", [HELLO])

    async def test_any_text_comes_back_as_it_was(self, session: Any) -> None:
        texts = [
            "Grüße 🦊 日本語",
            "\x00 \ud83e \u2028",
            "'; DROP TABLE agent_messages; --",
            "{}%s",
        ]
        await session.add_items([said(text) for text in texts])
        assert [item["content"] for item in await session.get_items()] == texts

    async def test_a_big_item_comes_back_whole(self, session: Any) -> None:
        item = said("🦊" * 500_000)
        await session.add_items([item])
        assert await session.get_items() == [item]

    async def test_a_row_that_is_no_item_is_left_out_with_a_warning(
        self, session: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        await session.add_items([HELLO])
        for text in ("{no json", '"a string"', "", "[" * 100_000):
            await self.write_row(session, text)
        await session.add_items([BYE])
        with caplog.at_level(logging.WARNING, logger="outlast"):
            assert await session.get_items() == [HELLO, BYE]
        assert len(caplog.records) == 4

    async def test_a_row_that_is_no_item_does_not_count_for_a_limit(self, session: Any) -> None:
        await session.add_items([HELLO, ORDER, BYE])
        for text in ("{no json", '"a string"', "", "[]"):
            await self.write_row(session, text)
        assert await session.get_items(limit=1) == [BYE]
        assert await session.get_items(limit=2) == [ORDER, BYE]
        assert await session.get_items(limit=9) == [HELLO, ORDER, BYE]

    async def test_rows_that_are_no_items_are_taken_back_with_the_item_before_them(
        self, session: Any
    ) -> None:
        await session.add_items([HELLO])
        await self.write_row(session, "{no json")
        await self.write_row(session, "[]")
        assert await session.pop_item() == HELLO
        await self.write_row(session, "{no json")
        assert await session.pop_item() is None

    async def test_what_is_added_at_once_stays_together(self, session: Any) -> None:
        writers = [self.another(session, session.session_id) for _ in range(4)]

        async def write(writer: Any, name: str) -> None:
            for number in range(5):
                await writer.add_items([said(f"{name}{number}{part}") for part in "abc"])

        await asyncio.gather(*(write(one, name) for one, name in zip(writers, "WXYZ", strict=True)))
        texts = [item["content"] for item in await session.get_items()]
        batches = [texts[at : at + 3] for at in range(0, len(texts), 3)]
        assert len(texts) == 60
        assert all([text[2] for text in batch] == ["a", "b", "c"] for batch in batches)
        assert all(len({text[:2] for text in batch}) == 1 for batch in batches)
        for name in "WXYZ":
            mine = [batch[0][1] for batch in batches if batch[0][0] == name]
            assert mine == ["0", "1", "2", "3", "4"]

    async def test_two_who_take_back_at_once_get_different_items(self, session: Any) -> None:
        items = [said(str(number)) for number in range(6)]
        await session.add_items(items)
        others = [self.another(session, session.session_id) for _ in range(6)]
        taken = await asyncio.gather(*(other.pop_item() for other in others))
        assert sorted(item["content"] for item in taken) == ["0", "1", "2", "3", "4", "5"]
        assert await session.get_items() == []

    async def test_the_oldest_items_can_be_replaced_in_one_step(self, session: Any) -> None:
        assert await session.add_items_once("run-1:1", [HELLO, ORDER, BYE])
        await self.write_row(session, "{no json")
        assert not await session.replace_items([ORDER], [])
        assert not await session.replace_items([HELLO, ORDER, BYE, HELLO], [])
        assert await session.get_items() == [HELLO, ORDER, BYE]
        assert await session.replace_items([HELLO, ORDER], [said("short")])
        assert await session.get_items() == [said("short"), BYE]
        assert await session.replace_items([], [said("first")])
        assert await session.get_items() == [said("first"), said("short"), BYE]
        assert not await session.add_items_once("run-1:1", [HELLO]), "its keys stay"
