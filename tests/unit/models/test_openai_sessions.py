"""Sessions at OpenAI, with the real client against a scripted server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from openai import AsyncOpenAI

from outlast import Agent
from outlast.activities.session import save_items
from outlast.agents.config.session_input import SessionSettings, check_session
from outlast.agents.errors import UserError
from outlast.client.start.options import run_input
from outlast.loop.values import JsonObject
from outlast.models.openai.compaction_session import OpenAIResponsesCompactionSession
from outlast.models.openai.conversations_session import (
    OpenAIConversationsSession,
    start_openai_conversations_session,
)
from outlast.ports.session import Session
from outlast.sessions.described import session_from_description
from outlast.sessions.encrypted import EncryptedSession
from outlast.sessions.sqlite import SQLiteSession
from outlast.sessions.wrapped import replace_items
from outlast.testing import ScriptedModel, run_in_memory
from tests.unit.activities.test_session import Notebook
from tests.unit.models.model_server import ModelServer


def said(text: str) -> JsonObject:
    return {"role": "user", "content": text}


def stored(text: str, at: int) -> JsonObject:
    """Return a question as the API stores it."""
    content = [{"type": "input_text", "text": text}]
    ids = {"id": f"msg_{at}", "status": "completed"}
    return {"type": "message", "role": "user", "content": content, **ids}


def page(*items: JsonObject) -> JsonObject:
    ids = {"first_id": "a", "last_id": items[-1]["id"] if items else None}
    return {"object": "list", "data": list(items), "has_more": False, **ids}


CREATED: JsonObject = {"id": "conv_1", "object": "conversation", "created_at": 1, "metadata": {}}


class Stuck(Notebook):
    """A store whose method is cancelled once, and which waits before it stores again."""

    def __init__(self, *items: JsonObject, fails_at: str) -> None:
        super().__init__(*items)
        self.fails_at = fails_at
        self.is_putting_back = asyncio.Event()
        self.may_go_on = asyncio.Event()

    def _fail(self, method: str) -> None:
        if method == self.fails_at:
            self.fails_at = ""
            raise asyncio.CancelledError

    async def clear_session(self) -> None:
        await super().clear_session()
        self._fail("clear_session")

    async def add_items(self, items: list[Any]) -> None:
        self._fail("add_items")
        self.is_putting_back.set()
        await self.may_go_on.wait()
        await super().add_items(items)


@pytest.fixture
async def client(server: ModelServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key="sk-test", base_url=server.base_url) as client:
        yield client


class TestConversations:
    async def test_a_stand_in_for_the_client_is_enough(self) -> None:
        stand_in = AsyncMock()
        stand_in.conversations.create.return_value = SimpleNamespace(id="conv_1")
        await OpenAIConversationsSession(openai_client=stand_in).add_items([said("a")])
        create = stand_in.conversations.items.create
        create.assert_awaited_once_with(conversation_id="conv_1", items=[said("a")])

    async def test_a_run_creates_the_conversation_and_saves_into_it(
        self, server: ModelServer, client: AsyncOpenAI
    ) -> None:
        session = OpenAIConversationsSession(openai_client=client)
        with pytest.raises(ValueError, match="not created yet"):
            _ = session.session_id
        server.answer(CREATED)
        server.answer(page())
        server.answer(page(stored("hello", 1)))
        server.answer(page())
        agent = Agent(name="A", model=ScriptedModel("hi"))
        await run_in_memory(agent, "hello", model=ScriptedModel("hi"), session=session)
        assert session.session_id == "conv_1"
        paths = [request.path for request in server.requests]
        items = "/v1/conversations/conv_1/items"
        assert paths == ["/v1/conversations", items, items, items]
        assert server.requests[1].query["order"] == ["desc"]
        assert server.requests[2].body == {"items": [said("hello")]}
        (answer,) = server.requests[3].body["items"]
        assert (answer["role"], answer["content"][0]["text"]) == ("assistant", "hi")

    async def test_the_history_comes_oldest_first_and_over_several_pages(
        self, server: ModelServer, client: AsyncOpenAI
    ) -> None:
        session = OpenAIConversationsSession(conversation_id="conv_1", openai_client=client)
        first = page(stored("c", 3), stored("b", 2))
        server.answer({**first, "has_more": True})
        server.answer(page(stored("a", 1)))
        assert await session.get_items() == [stored("a", 1), stored("b", 2), stored("c", 3)]
        assert server.requests[1].query["after"] == ["msg_2"]
        server.answer(first)
        assert await session.get_items(limit=1) == [stored("c", 3)]
        assert await session.get_items(limit=0) == []
        session.session_settings = SessionSettings(limit=1)
        server.answer(first)
        assert await session.get_items() == [stored("c", 3)]

    async def test_items_are_written_twenty_at_a_time_without_ids_of_others(
        self, server: ModelServer, client: AsyncOpenAI
    ) -> None:
        session = OpenAIConversationsSession(conversation_id="conv_1", openai_client=client)
        for _ in range(2):
            server.answer(page())
        call = {"type": "function_call", "call_id": "c", "name": "x", "arguments": "{}"}
        await session.add_items(
            [
                *(said(str(number)) for number in range(20)),
                {**call, "id": "fc_1", "provider_data": {"model": "m"}},
                {"type": "reasoning", "id": "rs_1", "summary": []},
                {"type": "reasoning", "summary": []},
                {"type": "web_search_call", "id": "ws_1", "status": "completed"},
            ]
        )
        first, second = (request.body["items"] for request in server.requests)
        assert len(first) == 20
        assert [item.get("id") for item in second] == [None, "rs_1", "ws_1"]
        assert second[0] == call
        await session.add_items([])
        assert len(server.requests) == 2

    async def test_a_second_attempt_writes_what_the_first_did_not(
        self, server: ModelServer, client: AsyncOpenAI
    ) -> None:
        session = OpenAIConversationsSession(conversation_id="conv_1", openai_client=client)
        items = [said(str(number)) for number in range(22)]
        server.answer(page(*(stored(str(number), number) for number in range(19, -1, -1))))
        server.answer(page())
        assert await save_items(session, "run-1:1", items, attempt=2)
        assert server.requests[-1].body == {"items": items[20:]}
        server.answer(page(*(stored(str(number), number) for number in range(21, -1, -1))))
        assert not await save_items(session, "run-1:1", items, attempt=3)

    async def test_the_newest_is_taken_back_and_a_cleared_one_begins_anew(
        self, server: ModelServer, client: AsyncOpenAI
    ) -> None:
        session = OpenAIConversationsSession(conversation_id="conv_1", openai_client=client)
        server.answer(page(stored("b", 2)))
        server.answer(CREATED)
        assert await session.pop_item() == stored("b", 2)
        assert server.requests[-1].path == "/v1/conversations/conv_1/items/msg_2"
        server.answer(page())
        assert await session.pop_item() is None
        server.answer({"id": "conv_1", "object": "conversation.deleted", "deleted": True})
        await session.clear_session()
        assert not session.is_open
        server.answer({**CREATED, "id": "conv_2"})
        assert await start_openai_conversations_session(client) == "conv_2"

    async def test_another_process_opens_it_by_its_id(
        self, server: ModelServer, client: AsyncOpenAI, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        session = OpenAIConversationsSession(
            conversation_id="conv_1", session_settings={"limit": 1}
        )
        record = run_input("A", "hello", session=session)
        described = (record.settings or {})["session"]
        assert described["conversation_id"] == "conv_1"
        other: Any = session_from_description(described)
        server.answer(page(stored("b", 2), stored("a", 1)))
        assert await other.get_items() == [stored("b", 2)]
        own = OpenAIConversationsSession(conversation_id="conv_1", openai_client=client)
        assert own.describe() is None
        await other._connection.aclose()

    def test_it_is_a_session_before_and_after_it_has_an_id(self, client: AsyncOpenAI) -> None:
        session = OpenAIConversationsSession(openai_client=client)
        check_session(session)
        session.session_id = "conv_9"
        check_session(session)
        assert isinstance(session, Session)


def answered(*texts: str) -> list[JsonObject]:
    return [
        {"role": "assistant", "id": f"msg_{text}", "type": "message", "content": text}
        for text in texts
    ]


COMPACTION: JsonObject = {"type": "compaction", "id": "cmp_1", "encrypted_content": "short"}


def compacted(*output: JsonObject) -> JsonObject:
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return {
        "id": "resp_c",
        "object": "response.compaction",
        "created_at": 1,
        "output": list(output),
    } | {"usage": usage}


class Meanwhile(OpenAIResponsesCompactionSession):
    """A session that something happens to while the provider compacts."""

    meanwhile: Callable[[], Coroutine[Any, Any, Any]]

    async def _compact(self, mode: str, items: Sequence[JsonObject]) -> list[JsonObject]:
        await self.meanwhile()
        return await super()._compact(mode, items)


class TestCompaction:
    async def test_a_long_history_is_replaced_after_an_answer(
        self, server: ModelServer, client: AsyncOpenAI
    ) -> None:
        inner = SQLiteSession("a")
        session = OpenAIResponsesCompactionSession("a", inner, client=client, model="gpt-5.4")
        await inner.add_items([said("before"), *answered(*"abcdefghi")])
        kept = stored("before", 1)
        server.answer(compacted(kept, *answered("z"), COMPACTION))
        await run_in_memory(
            Agent(name="A"), "hello", model=ScriptedModel("hi", "again"), session=session
        )
        body = server.request.body
        assert (body["model"], len(body["input"])) == ("gpt-5.4", 12)
        assert "previous_response_id" not in body
        without_id = {name: one for name, one in answered("z")[0].items() if name != "id"}
        assert await session.get_items() == [kept, without_id, COMPACTION]
        await run_in_memory(Agent(name="A"), "more", model=ScriptedModel("hi"), session=session)
        assert len(server.requests) == 1, "a short history is left alone"
        assert len(await session.get_items()) == 5
        inner.close()

    async def test_a_failure_is_logged_and_the_history_stays(
        self, server: ModelServer, client: AsyncOpenAI, caplog: pytest.LogCaptureFixture
    ) -> None:
        session = OpenAIResponsesCompactionSession(
            "a", Notebook(), client=client, should_trigger_compaction=lambda context: True
        )
        server.answer({"error": {"message": "no"}}, status=400)
        result = await run_in_memory(
            Agent(name="A"), "hello", model=ScriptedModel("hi"), session=session
        )
        assert result.final_output == "hi"
        assert "was not compacted; it keeps all of its items" in caplog.text
        assert len(await session.get_items()) == 2

    @pytest.mark.parametrize("store", [SQLiteSession("a"), Notebook()])
    async def test_items_that_are_added_meanwhile_stay(
        self, server: ModelServer, client: AsyncOpenAI, store: Any
    ) -> None:
        session = Meanwhile("a", store, client=client)
        await session.add_items([said("a"), *answered("b")])
        session.meanwhile = lambda: session.add_items([said("c")])
        server.answer(compacted(COMPACTION))
        await session.run_compaction({"force": True})
        assert await session.get_items() == [COMPACTION, said("c")]

    @pytest.mark.parametrize("store", [SQLiteSession("a"), Notebook()])
    async def test_a_history_that_lost_items_meanwhile_stays(
        self,
        server: ModelServer,
        client: AsyncOpenAI,
        caplog: pytest.LogCaptureFixture,
        store: Any,
    ) -> None:
        session = Meanwhile("a", store, client=client)
        await session.add_items([said("a"), *answered("b")])
        session.meanwhile = session.pop_item
        server.answer(compacted(COMPACTION))
        await session.run_compaction({"force": True})
        assert "was changed while it was compacted" in caplog.text
        assert await session.get_items() == [said("a")]

    async def test_a_response_of_the_provider_can_be_compact(
        self, server: ModelServer, client: AsyncOpenAI
    ) -> None:
        session = OpenAIResponsesCompactionSession("a", Notebook(said("a")), client=client)
        for args, sent in (
            ({"response_id": "resp_1", "force": True}, {"previous_response_id": "resp_1"}),
            ({"store": False, "force": True}, {"input": [COMPACTION]}),
        ):
            server.answer(compacted(COMPACTION))
            await session.run_compaction(args)  # pyright: ignore[reportArgumentType]
            assert server.requests[-1].body == {"model": "gpt-4.1", **sent}

    async def test_a_response_that_is_not_stored_is_never_referred_to(
        self, server: ModelServer, client: AsyncOpenAI
    ) -> None:
        session = OpenAIResponsesCompactionSession("a", Notebook(said("a")), client=client)
        for args in ({"response_id": "r", "store": False, "force": True}, {"force": True}):
            server.answer(compacted(COMPACTION))
            await session.run_compaction(args)  # pyright: ignore[reportArgumentType]
            assert "previous_response_id" not in server.requests[-1].body

    async def test_content_is_stored_without_empty_fields(
        self, server: ModelServer, client: AsyncOpenAI
    ) -> None:
        inner = Notebook()
        session = OpenAIResponsesCompactionSession("a", inner, client=client)
        image = {"type": "input_image", "image_url": "https://x.example/a.png", "detail": "auto"}
        message = {"type": "message", "role": "user", "content": [image | {"file_id": None}]}
        server.answer(compacted(message))
        await session.run_compaction({"force": True, "response_id": "resp_1"})
        assert await inner.get_items() == [message | {"content": [image]}]

    async def test_a_compaction_of_nothing_leaves_the_history(
        self, server: ModelServer, client: AsyncOpenAI, caplog: pytest.LogCaptureFixture
    ) -> None:
        session = OpenAIResponsesCompactionSession("a", Notebook(said("a")), client=client)
        server.answer(compacted())
        await session.run_compaction({"force": True})
        assert await session.get_items() == [said("a")]
        assert "returned no items" in caplog.text

    @pytest.mark.parametrize("fails_at", ["clear_session", "add_items"])
    async def test_a_replacement_that_is_cancelled_twice_puts_the_history_back(
        self, fails_at: str
    ) -> None:
        inner = Stuck(said("a"), fails_at=fails_at)
        work = asyncio.create_task(replace_items(inner, [said("a")], [said("b")]))
        await inner.is_putting_back.wait()
        work.cancel()
        await asyncio.sleep(0)
        inner.may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert await inner.get_items() == [said("a")]

    def test_a_wrong_argument_is_a_value_error_too(self) -> None:
        with pytest.raises(ValueError, match="Unsupported model 'claude-3'") as caught:
            OpenAIResponsesCompactionSession("a", Notebook(), model="claude-3")
        assert isinstance(caught.value, UserError)

    async def test_an_encrypted_history_stays_encrypted(
        self, server: ModelServer, client: AsyncOpenAI
    ) -> None:
        store = SQLiteSession("a")
        inner = EncryptedSession("a", store, "a long random secret")
        session = OpenAIResponsesCompactionSession("a", inner, client=client)
        await session.add_items([said("a"), *answered("b")])
        server.answer(compacted(COMPACTION))
        await session.run_compaction({"force": True})
        assert await session.get_items() == [COMPACTION]
        assert "compaction" not in str(await store.get_items())
        store.close()

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"model": "claude"}, "must be the name of an OpenAI model"),
            ({"compaction_mode": "often"}, "compaction_mode"),
            ({"max_rollback_items": 0}, "max_rollback_items must be positive"),
            ({"should_trigger_compaction": lambda: True}, "is called with"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, options: dict[str, Any], problem: str) -> None:
        with pytest.raises(UserError, match=problem):
            OpenAIResponsesCompactionSession("a", Notebook(), **options)

    async def test_what_cannot_be_compacted_is_said(self, client: AsyncOpenAI) -> None:
        with pytest.raises(UserError, match="cannot wrap OpenAIConversationsSession"):
            OpenAIResponsesCompactionSession("a", OpenAIConversationsSession(openai_client=client))
        session = OpenAIResponsesCompactionSession(
            "a", Notebook(said("a"), said("b")), client=client, max_rollback_items=1
        )
        with pytest.raises(UserError, match="has 2 items, more than max_rollback_items=1"):
            await session.run_compaction({"force": True})
        session.compaction_mode = "previous_response_id"
        with pytest.raises(UserError, match="needs a response"):
            await session.run_compaction({"force": True})
