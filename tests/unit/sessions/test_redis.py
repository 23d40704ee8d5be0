"""Sessions in a real Redis server."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as LostConnection

from outlast import Agent
from outlast.agents.config.session_input import SessionSettings
from outlast.agents.errors import UserError
from outlast.sessions.redis import RedisSession
from outlast.testing import ScriptedModel, run_in_memory
from tests.unit.sessions import redis_server
from tests.unit.sessions.behaviour import BYE, HELLO, ORDER, SessionBehaviour, said


def connect(url: str, **options: Any) -> Any:
    redis: Any = Redis
    return redis.from_url(url, **options)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    program = redis_server.program()
    if program is None:
        pytest.skip("Redis is not installed: there is no program named redis-server")
    with redis_server.serve(program) as found:
        yield found


@pytest.fixture(params=[True, False], ids=["texts", "bytes"])
async def session(url: str, request: pytest.FixtureRequest) -> AsyncIterator[RedisSession]:
    """A session whose client decodes replies, or leaves them as bytes."""
    client = connect(url, decode_responses=request.param)
    await client.flushall()
    yield RedisSession("a", redis_client=client)
    await client.aclose()


class TestRedis(SessionBehaviour):
    def another(
        self, session: RedisSession, session_id: str, settings: SessionSettings | None = None
    ) -> RedisSession:
        return RedisSession(session_id, redis_client=session.client, session_settings=settings)

    async def write_row(self, session: RedisSession, text: str) -> None:
        await session.client.rpush(f"agents:session:{session.session_id}:messages", text)

    async def test_more_items_than_a_script_can_unpack_are_one_save(
        self, session: RedisSession
    ) -> None:
        items = [said(str(number)) for number in range(10_000)]
        assert await session.add_items_once("k", items)
        assert await session.get_items() == items
        assert await session.replace_items(items[:-1], [HELLO])
        assert await session.get_items() == [HELLO, items[-1]]

    async def test_a_session_expires_after_its_last_write(self, session: RedisSession) -> None:
        short = RedisSession("b", redis_client=session.client, ttl=1000)
        await short.add_items_once("k", [HELLO])
        await short.add_items([ORDER])
        keys = [f"agents:session:b{suffix}" for suffix in ("", ":messages", ":saved")]
        for key in keys:
            await session.client.expire(key, 10)
        await short.add_items([BYE])
        assert all([await session.client.ttl(key) > 900 for key in keys])
        assert await short.replace_items([HELLO], [])
        assert await session.client.ttl(keys[1]) > 900
        await session.add_items([HELLO])
        assert await session.client.ttl("agents:session:a:messages") == -1

    async def test_a_replacement_beside_writers_loses_nothing(self, session: RedisSession) -> None:
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

    async def test_an_append_that_is_sent_twice_is_there_once(
        self, session: RedisSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The client repeats a command whose reply was lost."""
        script: Any = session._add

        async def twice(**options: Any) -> Any:
            await script(**options)
            return await script(**options)

        monkeypatch.setattr(session, "_add", twice)
        await session.add_items([HELLO])
        await session.add_items([HELLO])
        assert await session.get_items() == [HELLO, HELLO]

    async def test_a_run_continues_the_conversation(self, session: RedisSession) -> None:
        model = ScriptedModel("Ann.", "You are Ann.")
        for question in ("I am Ann.", "Who am I?"):
            await run_in_memory(Agent("Desk"), question, model=model, session=session)
        words = [item["content"] for item in await session.get_items() if "role" in item]
        assert len(words) == 4
        assert words[0] == "I am Ann."


async def test_the_sessions_of_the_agents_sdk_are_read(url: str) -> None:
    client = connect(url)
    await client.flushall()
    await client.rpush("agents:session:old:messages", '{"role":"user","content":"hello"}')
    assert await RedisSession("old", redis_client=client).get_items() == [HELLO]
    await client.aclose()


async def test_a_client_of_its_own_is_closed_and_others_stay_open(url: str) -> None:
    session = RedisSession.from_url("a", url=url, redis_kwargs={"client_name": "desk"}, ttl=60)
    await session.clear_session()
    await session.add_items([HELLO])
    assert "desk" in str(await session.client.client_getname())
    assert await session.ping()
    other = RedisSession("a", redis_client=session.client)
    await other.close()
    assert await session.get_items() == [HELLO]
    await session.close()


async def test_a_server_that_is_gone_is_a_lost_connection(tmp_path: Path) -> None:
    session = RedisSession.from_url(
        "a", url=f"unix://{tmp_path}/none", redis_kwargs={"retry": None}
    )
    assert not await session.ping()
    with pytest.raises(LostConnection):
        await session.add_items_once("k", [HELLO])
    await session.close()


@pytest.mark.parametrize("ttl", [0, -1, True, 1.5, "60"])
def test_a_time_that_is_none_is_refused(ttl: Any) -> None:
    with pytest.raises(UserError, match="ttl must be a positive number of seconds"):
        RedisSession.from_url("a", url="redis://localhost", ttl=ttl)


def test_wrong_arguments_are_named() -> None:
    client = connect("redis://localhost")
    with pytest.raises(UserError, match="session_id must be a non-empty string"):
        RedisSession("", redis_client=client)
    wrong: Any = "redis://localhost"
    with pytest.raises(UserError, match=r"client of redis\.asyncio, not str"):
        RedisSession("a", redis_client=wrong)


def test_a_url_that_cannot_be_read_is_refused_without_its_password() -> None:
    with pytest.raises(UserError, match="begins with 'http'") as caught:
        RedisSession.from_url("a", url="http://user:secret@localhost")
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_the_extra_is_named_where_the_package_is_missing() -> None:
    program = """
import sys
sys.modules["redis"] = None
sys.modules["redis.asyncio"] = None
from outlast.sessions import RedisSession
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "RedisSession requires the 'redis' extra: pip install 'outlast[redis]'" in done.stderr
