"""Sessions in a server that speaks MongoDB's protocol."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient
from pymongo.errors import ServerSelectionTimeoutError

from outlast import Agent
from outlast.agents.config.session_input import SessionSettings
from outlast.agents.errors import UserError
from outlast.sessions import mongodb
from outlast.sessions.mongodb import MongoDBSession
from outlast.testing import ScriptedModel, run_in_memory
from tests.unit.sessions import mongo_server
from tests.unit.sessions.behaviour import BYE, HELLO, ORDER, SessionBehaviour, said

pytestmark = pytest.mark.installed


def connect(uri: str, **options: Any) -> Any:
    mongo: Any = AsyncMongoClient
    return mongo(uri, **options)


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    if not mongo_server.is_installed():
        pytest.skip("there is neither a program named mongod nor what `make mongo` installs")
    with mongo_server.serve() as found:
        yield found


@pytest.fixture
async def client(uri: str) -> AsyncIterator[Any]:
    made = connect(uri)
    for name in ("agent_sessions", "agent_messages"):
        await made["agents"][name].delete_many({})
    yield made
    await made.close()


@pytest.fixture
def session(client: Any) -> MongoDBSession:
    return MongoDBSession("a", client=client)


class TestMongoDB(SessionBehaviour):
    def another(
        self, session: MongoDBSession, session_id: str, settings: SessionSettings | None = None
    ) -> MongoDBSession:
        return MongoDBSession(session_id, client=session.client, session_settings=settings)

    async def write_row(self, session: MongoDBSession, text: str) -> None:
        await session._append([text], key=None)

    async def test_many_items_are_one_save(self, session: MongoDBSession) -> None:
        items = [said(str(number)) for number in range(5_000)]
        assert await session.add_items_once("k", items)
        assert await session.get_items() == items
        assert await session.replace_items(items[:-1], [HELLO])
        assert await session.get_items() == [HELLO, items[-1]]

    async def test_a_replacement_beside_writers_loses_nothing(
        self, session: MongoDBSession
    ) -> None:
        await session.add_items([HELLO])
        others = [self.another(session, "a") for _ in range(10)]
        texts = [str(number) for number in range(10)]
        *_, replaced = await asyncio.gather(
            *(one.add_items([said(text)]) for one, text in zip(others, texts, strict=True)),
            session.replace_items([HELLO], [BYE]),
        )
        assert replaced
        first, *rest = await session.get_items()
        assert first == BYE
        assert sorted(item["content"] for item in rest) == texts
        left = await session.client["agents"]["agent_messages"].count_documents({})
        assert left <= 11, "what was replaced is deleted"

    async def test_a_reader_beside_replacements_sees_one_or_the_other(
        self, session: MongoDBSession
    ) -> None:
        await session.add_items([HELLO, ORDER])
        other = self.another(session, "a")

        async def replace() -> None:
            for _ in range(20):
                assert await other.replace_items([HELLO, ORDER], [BYE])
                assert await other.replace_items([BYE], [HELLO, ORDER])

        writing = asyncio.create_task(replace())
        while not writing.done():
            assert await session.get_items() in ([HELLO, ORDER], [BYE])
        await writing

    async def test_a_new_session_is_made_once_by_many(self, session: MongoDBSession) -> None:
        others = [self.another(session, "new") for _ in range(8)]
        await asyncio.gather(*(one.add_items([HELLO]) for one in others))
        assert await others[0].get_items() == [HELLO] * 8

    async def test_a_document_that_is_gone_is_left_out_with_a_warning(
        self, session: MongoDBSession, caplog: pytest.LogCaptureFixture
    ) -> None:
        await session.add_items([HELLO])
        await session.add_items([ORDER])
        record = await session._record()
        messages = session.client["agents"]["agent_messages"]
        await messages.delete_one({"_id": record["batches"][1]})
        with caplog.at_level(logging.WARNING):
            assert await session.get_items() == [HELLO]
        assert "The session 'a' has lost 1 documents" in caplog.text
        assert await session.pop_item() == HELLO
        assert await session.get_items() == []

    async def test_what_is_written_anew_is_divided(
        self, session: MongoDBSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mongodb, "BATCH_CHARACTERS", 100)
        items = [said(f"{number} {'x' * 40}") for number in range(9)]
        await session.add_items(items)
        assert await session.replace_items(items[:1], [])
        assert await session.get_items() == items[1:]
        assert await session.get_items(limit=3) == items[-3:]
        assert await session.client["agents"]["agent_messages"].count_documents({}) == 8

    async def test_more_than_a_document_holds_is_refused_in_words(
        self, session: MongoDBSession
    ) -> None:
        with pytest.raises(UserError, match="a document of MongoDB has at most 16 MB"):
            await session.add_items([said("x" * 17_000_000)])
        assert await session.get_items() == []

    async def test_a_run_continues_the_conversation(self, session: MongoDBSession) -> None:
        model = ScriptedModel("Ann.", "You are Ann.")
        for question in ("I am Ann.", "Who am I?"):
            await run_in_memory(Agent("Desk"), question, model=model, session=session)
        words = [item["content"] for item in await session.get_items() if "role" in item]
        assert len(words) == 4
        assert words[0] == "I am Ann."


OF_THE_SDK: list[dict[str, Any]] = [
    {"seq": 9, "generation": 1, "message_data": ['{"role":"user","content":"gone"}']},
    {"seq": 1, "generation": 2, "message_data": ['{"role":"user","content":"hello"}', "{no json"]},
    {"seq": 4, "generation": 2, "message_data": '{"role":"user","content":"bye"}'},
]


async def test_the_sessions_of_the_agents_sdk_are_read_and_continued(client: Any) -> None:
    record = {"_id": ObjectId(), "session_id": "a", "_generation": 2, "_seq": 5}
    await client["agents"]["agent_sessions"].insert_one(record)
    for one in reversed(OF_THE_SDK):
        await client["agents"]["agent_messages"].insert_one({**one, "session_id": "a"})
    session = MongoDBSession("a", client=client)
    assert await session.get_items() == [HELLO, BYE]
    assert await client["agents"]["agent_sessions"].find_one({"session_id": "a"}) == record
    others = [MongoDBSession("a", client=client) for _ in range(5)]
    await asyncio.gather(*(one.add_items_once("k", [ORDER]) for one in others))
    assert await session.get_items() == [HELLO, BYE, ORDER]
    await session.clear_session()
    assert await session.get_items() == []


async def test_the_oldest_sessions_of_the_agents_sdk_have_no_generation(client: Any) -> None:
    await client["agents"]["agent_sessions"].insert_one({"session_id": "a", "_seq": 2})
    row = {"session_id": "a", "seq": 1, "message_data": '{"role":"user","content":"hello"}'}
    await client["agents"]["agent_messages"].insert_one(row)
    session = MongoDBSession("a", client=client)
    assert await session.get_items() == [HELLO]
    assert await session.pop_item() == HELLO
    assert await session.pop_item() is None


async def test_a_client_of_its_own_is_closed_and_others_stay_open(uri: str) -> None:
    session = MongoDBSession.from_uri(
        "own", uri=uri, database="desk", client_kwargs={"appname": "desk"}
    )
    await session.clear_session()
    await session.add_items([HELLO])
    assert await session.ping()
    other = MongoDBSession("own", client=session.client, database="desk")
    await other.close()
    assert await session.get_items() == [HELLO]
    await session.clear_session()
    await session.close()


async def test_a_server_that_is_gone_is_a_lost_connection() -> None:
    session = MongoDBSession.from_uri(
        "a", uri="mongodb://127.0.0.1:1", client_kwargs={"serverSelectionTimeoutMS": 50}
    )
    assert not await session.ping()
    with pytest.raises(ServerSelectionTimeoutError):
        await session.add_items_once("k", [HELLO])
    await session.close()


async def test_wrong_arguments_are_named() -> None:
    client = connect("mongodb://127.0.0.1:1", connect=False)
    with pytest.raises(UserError, match="session_id must be a non-empty string"):
        MongoDBSession("", client=client)
    wrong: Any = "mongodb://localhost"
    with pytest.raises(UserError, match=r"client must be a pymongo\.AsyncMongoClient, not str"):
        MongoDBSession("a", client=wrong)
    await client.close()


@pytest.mark.parametrize(
    "uri", ["http://user:secret@localhost", "mongodb://user:secret@localhost:x"]
)
def test_a_uri_that_cannot_be_read_is_refused_without_its_password(uri: str) -> None:
    with pytest.raises(UserError, match="the URI or the client_kwargs cannot be read") as caught:
        MongoDBSession.from_uri("a", uri=uri)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_the_extra_is_named_where_the_package_is_missing() -> None:
    program = """
import sys
sys.modules["pymongo"] = None
from outlast.sessions import MongoDBSession
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "MongoDBSession needs pymongo: pip install 'outlast[mongodb]'" in done.stderr
