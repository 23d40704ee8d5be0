"""Sessions in Redis, or in a server that speaks its protocol, such as Valkey.

The URL and the client contain secrets, so a session has no `describe`: each worker creates its own.
"""

import contextlib
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

try:
    from redis.asyncio import Redis
    from redis.asyncio.cluster import RedisCluster
    from redis.exceptions import RedisError, WatchError
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "RedisSession requires the 'redis' extra: pip install 'outlast[redis]'", name=error.name
    ) from error

from outlast.agents.checks import check_count
from outlast.agents.config.session_input import SessionSettings
from outlast.agents.errors import UserError
from outlast.sessions.rows import ClientSession, RowsToKeep

REPEATS_FOR = timedelta(minutes=10)
"""How long a call of `add_items` is remembered. The client repeats commands whose reply was lost."""

_ADD = """
local seconds, once, key = tonumber(ARGV[1]), ARGV[2] == 'once', ARGV[3]
if once then
  if redis.call('SADD', KEYS[3], key) == 0 then return 0 end
elseif not redis.call('SET', KEYS[4], '1', 'NX', 'EX', ARGV[4]) then
  return 0
end
local now = redis.call('TIME')[1]
redis.call('HSET', KEYS[1], 'session_id', ARGV[5], 'updated_at', now)
redis.call('HSETNX', KEYS[1], 'created_at', now)
for at = 6, #ARGV do redis.call('RPUSH', KEYS[2], ARGV[at]) end
if seconds > 0 then
  for at = 1, 3 do redis.call('EXPIRE', KEYS[at], seconds) end
end
return 1
"""
"""Add rows and their key in one step. KEYS: the session, its rows, its keys, this call."""


class RedisSession(ClientSession):
    """A session in Redis.

    Any number of sessions and processes may use the same server at the same time. The items of one
    call of `add_items` stay together. The rows are those of the OpenAI Agents SDK: a list of JSON
    texts under `{key_prefix}:{session_id}:messages`.

    Redis keeps data in memory: switch its persistence on (`appendonly yes`), or a restart of the
    server loses conversations.

    It needs the extra `redis`.

    Args:
        session_id: the id of the conversation.
        redis_client: a client of `redis.asyncio`, which its creator must close.
        key_prefix: the beginning of the names of the session's keys. On a cluster, a part in braces
            keeps the keys of a session together, such as `agents:{eu}`.
        ttl: the time in seconds after which the server forgets the session, from its last write;
            None keeps it.
        session_settings: how to read the session, unless the run has its own settings.

    Raises:
        UserError: an argument is invalid.
    """

    def __init__(
        self,
        session_id: str,
        *,
        redis_client: "Redis | RedisCluster",
        key_prefix: str = "agents:session",
        ttl: int | None = None,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(session_id, session_settings)
        if not callable(getattr(redis_client, "register_script", None)):
            raise UserError(
                "RedisSession: redis_client must be a client of redis.asyncio, not "
                f"{type(redis_client).__name__}."
            )
        if ttl is not None:
            check_count("RedisSession: ttl", ttl, expected="a positive number of seconds")
        self.client: Any = redis_client
        self._ttl = ttl
        self._key = f"{key_prefix}:{session_id}"
        self._rows = f"{self._key}:messages"
        self._saved = f"{self._key}:saved"
        self._add = self.client.register_script(_ADD)

    @property
    def store_name(self) -> str:
        """The server without its password, the database and the prefix of the keys."""
        pool = getattr(self.client, "connection_pool", None)  # a cluster has none
        options: dict[str, Any] = {} if pool is None else pool.connection_kwargs
        server = options.get("path") or f"{options.get('host', '')}:{options.get('port', '')}"
        prefix = self._key.removesuffix(f":{self.session_id}")
        return f"{server}/{options.get('db', 0)} {prefix}"

    @classmethod
    def from_url(
        cls,
        session_id: str,
        *,
        url: str,
        redis_kwargs: dict[str, Any] | None = None,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> "RedisSession":
        """Return a session with a new client, which `close` closes.

        Args:
            session_id: the id of the conversation.
            url: the server's URL, such as `redis://localhost:6379/0`.
            redis_kwargs: passed to `redis.asyncio.from_url`.
            session_settings: how to read the session, unless the run has its own settings.
            **kwargs: passed to `RedisSession`.

        Raises:
            UserError: there is no client for the URL.
        """
        try:
            client = cast("Any", Redis).from_url(url, **(redis_kwargs or {}))
        except ValueError:  # the message may contain a password
            scheme = str(url).partition("://")[0][:40]
            raise UserError(
                f"RedisSession: the URL begins with {scheme!r} and cannot be read. It needs one of "
                "redis://, rediss:// and unix://."
            ) from None
        session = cls(session_id, redis_client=client, session_settings=session_settings, **kwargs)
        session._close_client = client.aclose
        return session

    async def clear_session(self) -> None:
        """Delete all items of the session and the keys of saved items."""
        await self.client.delete(self._key, self._rows, self._saved)

    async def ping(self) -> bool:
        """Return whether the server answers."""
        try:
            return bool(await self.client.ping())
        except RedisError:
            return False

    async def _append(self, rows: list[str], *, key: str | None) -> bool:
        call = f"{self._key}:call:{secrets.token_hex(8)}"
        seconds = int(REPEATS_FOR.total_seconds())
        way, name = ("call", "") if key is None else ("once", key)
        keys = [self._key, self._rows, self._saved, call]
        arguments = [self._ttl or 0, way, name, seconds, self.session_id, *rows]
        return bool(await self._add(keys=keys, args=arguments))

    async def _newest(self, at_most: int | None) -> tuple[list[str], bool]:
        rows = await self.client.lrange(self._rows, -(at_most or 0), -1)
        return list(map(_text, rows)), at_most is None or len(rows) < at_most

    async def _replace(self, added: list[str], rows_to_keep: RowsToKeep) -> bool:
        while True:
            async with self.client.pipeline(transaction=True) as pipeline:
                await pipeline.watch(self._rows)
                kept = rows_to_keep(
                    [_text(row) for row in await pipeline.lrange(self._rows, 0, -1)]
                )
                if kept is None:
                    return False
                pipeline.multi()
                pipeline.delete(self._rows)
                for row in [*added, *kept]:
                    pipeline.rpush(self._rows, row)
                if self._ttl is not None:
                    pipeline.expire(self._rows, self._ttl)
                with contextlib.suppress(WatchError):  # another writer came first
                    await pipeline.execute()
                    return True

    async def _pop(self) -> str | None:
        row = await self.client.rpop(self._rows)
        return None if row is None else _text(row)


def _text(row: bytes | str) -> str:
    return row if isinstance(row, str) else row.decode(errors="replace")
