"""Reading a session at the start of a run, and saving to it once."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from outlast.activities.session import load_session, save_items, to_session_item
from outlast.agents.config.session_input import SessionSettings
from outlast.agents.errors import UserError
from outlast.sessions.sqlite import SQLiteSession


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


HELLO, ORDER, BYE = said("hello"), said("where is my order?"), said("bye")
CALL = {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "shipped"}
THOUGHT: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}
ANSWER = {"type": "message", "role": "assistant", "id": "m_1", "content": "It is on its way."}


class Notebook:
    """A plain session: nothing but the protocol."""

    def __init__(self, *items: Any) -> None:
        self.session_id = "a"
        self.items: list[Any] = list(items)
        self.asked: list[int | None] = []

    async def get_items(self, limit: int | None = None) -> list[Any]:
        self.asked.append(limit)
        return (
            self.items[max(len(self.items) - limit, 0) :] if limit is not None else list(self.items)
        )

    async def add_items(self, items: list[Any]) -> None:
        self.items.extend(items)

    async def pop_item(self) -> Any | None:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items.clear()


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[SQLiteSession]:
    session = SQLiteSession("a", tmp_path / "sessions.db")
    yield session
    session.close()


class TestLoading:
    async def test_the_second_run_sees_the_first(self, session: SQLiteSession) -> None:
        first = await load_session(session, [ORDER])
        assert first.items == first.to_save == (ORDER,)
        await save_items(session, "run-1:0", first.to_save)
        await save_items(session, "run-1:1", [CALL, OUTPUT])
        await save_items(session, "run-1:2", [ANSWER])
        second = await load_session(session, [BYE])
        assert second.items == (ORDER, CALL, OUTPUT, ANSWER, BYE)
        assert second.to_save == (BYE,)

    @pytest.mark.parametrize(
        ("limit", "history"),
        [
            (0, ()),
            (1, (ANSWER,)),
            (2, (ANSWER,)),
            (3, (ANSWER,)),
            (None, (ORDER, CALL, OUTPUT, ANSWER)),
        ],
    )
    async def test_a_limit_takes_the_newest_and_leaves_no_half_of_a_call(
        self, session: SQLiteSession, limit: int | None, history: tuple[Any, ...]
    ) -> None:
        await session.add_items([ORDER, CALL, OUTPUT, ANSWER])
        loaded = await load_session(session, [BYE], settings=SessionSettings(limit=limit))
        assert loaded.items == (*history, BYE)

    async def test_settings_of_the_run_go_before_those_of_the_session(self) -> None:
        session = Notebook(HELLO, ORDER, ANSWER)
        await load_session(session, [])
        session.session_settings = SessionSettings(limit=2)  # type: ignore[attr-defined]
        await load_session(session, [])
        await load_session(session, [], settings=SessionSettings())
        await load_session(session, [], settings=SessionSettings(limit=1))
        assert session.asked == [None, 2, 2, 1]

    async def test_a_session_that_knows_no_limit_is_read_without(self) -> None:
        class Simple(Notebook):
            async def get_items(self) -> list[Any]:  # type: ignore[override]
                return self.items

        loaded = await load_session(Simple(HELLO), [BYE])  # type: ignore[arg-type]
        assert loaded.items == (HELLO, BYE)

    async def test_the_callback_gets_the_cut_history(self, session: SQLiteSession) -> None:
        await session.add_items([HELLO, ORDER, ANSWER])
        seen: list[Any] = []

        async def callback(history: list[Any], new: list[Any]) -> list[Any]:
            seen.append((list(history), list(new)))
            return [*new, *history]

        loaded = await load_session(
            session, [BYE], settings=SessionSettings(limit=2), callback=callback
        )
        assert seen == [([ORDER, ANSWER], [BYE])]
        assert loaded.items == (BYE, ORDER, ANSWER)
        assert loaded.to_save == (BYE,)

    @pytest.mark.parametrize("with_callback", [False, True])
    async def test_ids_of_reasoning_are_taken_off_the_history(self, with_callback: bool) -> None:
        def callback(history: list[Any], new: list[Any]) -> list[Any]:
            return history + new

        loaded = await load_session(
            Notebook(THOUGHT, ANSWER),
            [{**THOUGHT, "id": "rs_2"}, {**ANSWER, "id": "m_2"}],
            callback=callback if with_callback else None,
            reasoning_item_id_policy="omit",
        )
        ids = [item.get("id") for item in loaded.items]
        assert ids == [None, "m_1", "rs_2", "m_2"]

    async def test_models_in_a_session_are_written(self) -> None:
        class Said(BaseModel):
            role: str
            content: str
            status: str | None = None

        loaded = await load_session(Notebook(Said(role="user", content="hello")), [BYE])
        assert loaded.items == (HELLO, BYE)

    async def test_a_session_that_fails_fails_the_load(self) -> None:
        class Broken(Notebook):
            async def get_items(self, limit: int | None = None) -> list[Any]:
                raise ConnectionError("the database is away")

        with pytest.raises(ConnectionError, match="the database is away"):
            await load_session(Broken(), [BYE])

    @pytest.mark.parametrize(
        ("items", "message"),
        [
            (None, r"Odd.get_items\(\) returned NoneType"),
            ("hello", r"Odd.get_items\(\) returned str"),
            (["hello"], r"the result of Odd.get_items\(\) must be a dict, not str"),
        ],
    )
    async def test_a_session_that_returns_no_items_is_named(self, items: Any, message: str) -> None:
        class Odd(Notebook):
            async def get_items(self, limit: int | None = None) -> list[Any]:
                return items

        with pytest.raises(UserError, match=message):
            await load_session(Odd(), [BYE])

    async def test_a_session_that_is_not_async_is_named(self) -> None:
        class Blocking(Notebook):
            def get_items(self, limit: int | None = None) -> Any:
                return []

            def add_items(self, items: list[Any]) -> None:  # type: ignore[override]
                return None

        session: Any = Blocking()
        with pytest.raises(UserError, match=r"Blocking.get_items\(\) must be async"):
            await load_session(session, [BYE])
        with pytest.raises(UserError, match=r"Blocking.add_items\(\) must be async"):
            await save_items(session, "k", [BYE])

    async def test_settings_of_another_type_are_refused(self) -> None:
        session = Notebook()
        session.session_settings = {"limit": 3}  # type: ignore[attr-defined]
        with pytest.raises(UserError, match="session_settings of the session of type Notebook"):
            await load_session(session, [BYE])

    @pytest.mark.parametrize("session", ["support-7", SQLiteSession, object()])
    async def test_what_is_no_session_is_refused(self, session: Any) -> None:
        with pytest.raises(UserError):
            await load_session(session, [BYE])
        with pytest.raises(UserError):
            await save_items(session, "k", [BYE])


class TestSaving:
    async def test_a_key_is_saved_once_whatever_the_attempt_says(
        self, session: SQLiteSession
    ) -> None:
        assert await save_items(session, "run-1:0", [HELLO])
        assert not await save_items(session, "run-1:0", [HELLO])
        assert not await save_items(session, "run-1:0", [HELLO], attempt=2)
        assert await save_items(session, "run-2:0", [HELLO], attempt=2)
        assert await session.get_items() == [HELLO, HELLO]

    async def test_nothing_is_nothing_to_save(self, session: SQLiteSession) -> None:
        assert not await save_items(session, "run-1:0", [])
        assert await save_items(session, "run-1:0", [HELLO])

    async def test_a_plain_session_is_asked_before_a_second_attempt_only(self) -> None:
        session = Notebook(HELLO)
        assert await save_items(session, "run-1:0", [HELLO])
        assert session.asked == []
        assert session.items == [HELLO, HELLO]

    async def test_a_plain_session_that_has_the_items_is_left_alone(self) -> None:
        session = Notebook(HELLO)
        assert await save_items(session, "run-1:1", [CALL, OUTPUT])
        assert not await save_items(session, "run-1:1", [CALL, OUTPUT], attempt=2)
        assert session.items == [HELLO, CALL, OUTPUT]

    @pytest.mark.parametrize("there", [[], [HELLO], [CALL], [CALL, OUTPUT, ANSWER]])
    async def test_a_plain_session_that_does_not_have_them_gets_them(
        self, there: list[Any]
    ) -> None:
        session = Notebook(*there)
        assert await save_items(session, "run-1:1", [CALL, OUTPUT], attempt=2)
        assert session.items == [*there, CALL, OUTPUT]

    @pytest.mark.parametrize(
        ("stored", "is_found"),
        [
            ({**HELLO, "id": "m_1", "status": "completed", "phase": "x", "type": "message"}, True),
            ({**HELLO, "content": [{"type": "input_text", "text": "hello"}]}, True),
            ({**HELLO, "content": ["hello"], "more": None}, True),
            ({**HELLO, "content": [{"type": "input_text", "text": "bye"}]}, False),
            ({**HELLO, "role": "system"}, False),
            ({**HELLO, "content": [{"type": "input_image"}]}, False),
        ],
    )
    async def test_an_item_is_found_in_the_form_that_a_server_gave_it(
        self, stored: dict[str, Any], *, is_found: bool
    ) -> None:
        assert await save_items(Notebook(stored), "k", [HELLO], attempt=2) is not is_found

    @pytest.mark.parametrize(
        ("there", "added"),
        [
            ([HELLO, ORDER], [BYE]),
            ([HELLO], [HELLO, ORDER, BYE]),
            ([HELLO, ORDER, BYE], []),
        ],
    )
    async def test_of_a_save_in_batches_the_rest_is_added(
        self, there: list[Any], added: list[Any]
    ) -> None:
        class Batched(Notebook):
            batch_size = 2

        session = Batched(*there)
        assert await save_items(session, "k", [HELLO, ORDER, BYE], attempt=2) is bool(added)
        assert session.items == [*there, *added]

    async def test_what_the_session_raises_is_raised_and_the_next_attempt_saves(self) -> None:
        class Unsteady(Notebook):
            failures = 1

            async def add_items(self, items: list[Any]) -> None:
                if self.failures:
                    self.failures -= 1
                    raise ConnectionError("the database is away")
                await super().add_items(items)

        session = Unsteady()
        with pytest.raises(ConnectionError):
            await save_items(session, "run-1:0", [HELLO])
        assert await save_items(session, "run-1:0", [HELLO], attempt=2)
        assert session.items == [HELLO]

    async def test_a_save_whose_answer_is_lost_is_not_doubled(self) -> None:
        class Forgetful(Notebook):
            async def add_items(self, items: list[Any]) -> None:
                await super().add_items(items)
                raise ConnectionError("lost after the commit")

        session = Forgetful()
        with pytest.raises(ConnectionError):
            await save_items(session, "run-1:0", [HELLO, ORDER])
        assert not await save_items(session, "run-1:0", [HELLO, ORDER], attempt=2)
        assert session.items == [HELLO, ORDER]

    async def test_what_a_program_puts_on_a_session_is_called(self) -> None:
        session, heard = SQLiteSession("a"), list[Any]()

        async def listen(items: list[Any]) -> None:
            heard.extend(items)

        session.add_items = listen
        assert await save_items(session, "k", [HELLO])
        assert heard == [HELLO]
        session.close()

    async def test_a_session_that_changes_how_another_adds_is_asked_to_add(
        self, tmp_path: Path
    ) -> None:
        class Shouting(SQLiteSession):
            async def add_items(self, items: list[Any]) -> None:
                await super().add_items([{**item, "content": "HELLO"} for item in items])

        class Counting(Shouting):
            async def add_items_once(self, key: str, items: list[Any]) -> bool:
                return await super().add_items_once(key, [*items, BYE])

        for kind, stored in ((Shouting, [said("HELLO")]), (Counting, [HELLO, BYE])):
            session = kind(kind.__name__, tmp_path / "sessions.db")
            assert await save_items(session, "run-1:0", [HELLO])
            assert await session.get_items() == stored
            session.close()

    async def test_what_is_no_item_is_refused_and_nothing_saved(self) -> None:
        session = Notebook()
        with pytest.raises(UserError, match="an item to save in the session"):
            await save_items(session, "k", [HELLO, {"content": object()}])
        assert session.items == []


def test_an_item_is_saved_as_the_model_knows_it() -> None:
    assert to_session_item(ANSWER) == ANSWER
    assert to_session_item(THOUGHT) == THOUGHT
    assert to_session_item(THOUGHT, reasoning_item_id_policy="omit") == {
        "type": "reasoning",
        "summary": [],
    }
    assert to_session_item(ANSWER, reasoning_item_id_policy="omit") == ANSWER
