"""Sessions in MongoDB.

The URI and the client contain secrets, so a session has no `describe`: each worker creates its own.
"""

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

try:
    from bson import ObjectId
    from pymongo import AsyncMongoClient, ReadPreference, WriteConcern
    from pymongo.errors import ConfigurationError, DocumentTooLarge, DuplicateKeyError, PyMongoError
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "MongoDBSession needs pymongo: pip install 'outlast[mongodb]'", name=error.name
    ) from error

from outlast.agents.config.session_input import SessionSettings
from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.loop.values import JsonObject
from outlast.sessions.rows import ClientSession, RowsToKeep

logger: Final = get_logger(__name__)

BATCH_CHARACTERS: Final = 4_000_000
"""Rows that are written anew are divided into documents of about this size."""

_TOUCHED: Final = {"updated_at": True}
"""The field that every change sets to the server's time."""

_INDEXED: "WeakKeyDictionary[Any, set[tuple[str, str]]]" = WeakKeyDictionary()
"""The collections whose index each client has made, as database and name."""


class MongoDBSession(ClientSession):
    """A session in MongoDB.

    Any number of sessions and processes may use the same server at the same time. The items of one
    call of `add_items` are one document of the messages, which may have 16 MB. The document of the
    session names those documents in their order, and the keys of saved items; each change is one
    update of that document, so the server needs no transactions.

    Sessions of the OpenAI Agents SDK are read. The first change of such a session makes it one that
    the SDK no longer reads.

    It needs the extra `mongodb`.

    Args:
        session_id: the id of the conversation.
        client: a `pymongo.AsyncMongoClient`, which its creator must close. It belongs to the event
            loop that used it first.
        database: the name of the database.
        sessions_collection: the name of the collection of sessions.
        messages_collection: the name of the collection of items.
        session_settings: how to read the session, unless the run has its own settings.

    Raises:
        UserError: an argument is invalid.
    """

    def __init__(
        self,
        session_id: str,
        *,
        client: "AsyncMongoClient[Any]",
        database: str = "agents",
        sessions_collection: str = "agent_sessions",
        messages_collection: str = "agent_messages",
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(session_id, session_settings)
        if not isinstance(cast("object", client), AsyncMongoClient):
            raise UserError(
                "MongoDBSession: client must be a pymongo.AsyncMongoClient, not "
                f"{type(client).__name__}."
            )
        self.client = client
        self._place = (database, sessions_collection)
        safe: dict[str, Any] = {
            "read_preference": ReadPreference.PRIMARY,
            "write_concern": WriteConcern("majority"),
        }
        self._sessions: Any = client[database].get_collection(sessions_collection, **safe)
        self._messages: Any = client[database].get_collection(messages_collection, **safe)

    @property
    def store_name(self) -> str:
        """The database and its collection. Clusters are not told apart: connecting comes later."""
        return ".".join(self._place)

    @classmethod
    def from_uri(
        cls,
        session_id: str,
        *,
        uri: str,
        database: str = "agents",
        client_kwargs: dict[str, Any] | None = None,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> "MongoDBSession":
        """Return a session with a new client, which `close` closes.

        Args:
            session_id: the id of the conversation.
            uri: the server's URI, such as `mongodb://localhost:27017`.
            database: the name of the database.
            client_kwargs: passed to `pymongo.AsyncMongoClient`.
            session_settings: how to read the session, unless the run has its own settings.
            **kwargs: passed to `MongoDBSession`.

        Raises:
            UserError: there is no client for the URI.
        """
        try:
            client: AsyncMongoClient[Any] = AsyncMongoClient(uri, **(client_kwargs or {}))
        except (ConfigurationError, ValueError) as error:  # the message may contain a password
            raise UserError(
                f"MongoDBSession: the URI or the client_kwargs cannot be read "
                f"({type(error).__name__}). A URI begins with mongodb:// or mongodb+srv://."
            ) from None
        session = cls(
            session_id,
            client=client,
            database=database,
            session_settings=session_settings,
            **kwargs,
        )
        session._close_client = client.close
        return session

    async def clear_session(self) -> None:
        """Delete all items of the session and the keys of saved items."""
        found = await self._find()
        batches = await self._batches(found)
        change: JsonObject = {
            "$set": {"batches": [], "saved": []},
            "$inc": {"revision": 1},
            "$currentDate": _TOUCHED,
        }
        before = await self._sessions.find_one_and_update({"session_id": self.session_id}, change)
        if before is not None:
            await self._delete(before.get("batches", batches))

    async def ping(self) -> bool:
        """Return whether the server answers."""
        try:
            await self.client.admin.command("ping")
        except PyMongoError:
            return False
        return True

    # --- The documents ----------------------------------------------------------------------------

    async def _find(self) -> JsonObject | None:
        found: JsonObject | None = await self._sessions.find_one({"session_id": self.session_id})
        return found

    async def _record(self) -> JsonObject:
        """Return the session's document; make one, or make that of the Agents SDK ours."""
        while True:
            found = await self._find()
            if found is not None and "batches" in found:
                return found
            is_new = found is None
            if is_new:
                await self._make_index()
            fields = {"batches": await self._batches(found), "saved": [], "revision": 0}
            wanted = {"session_id": self.session_id, "batches": {"$exists": False}}
            change = {"$set": fields, "$currentDate": {"created_at": True} if is_new else _TOUCHED}
            with contextlib.suppress(DuplicateKeyError):  # another process came first
                await self._sessions.update_one(
                    {**wanted, "_seq": {"$exists": not is_new}}, change, upsert=is_new
                )

    async def _make_index(self) -> None:
        known = _INDEXED.setdefault(self.client, set())
        if self._place not in known:
            await self._sessions.create_index("session_id", unique=True)
            known.add(self._place)

    async def _batches(self, record: JsonObject | None) -> list[Any]:
        if record is None:
            return []
        if "batches" in record:
            return list(record["batches"])
        generation = record.get("_generation") or {"$in": [0, None]}
        query = {"session_id": self.session_id, "generation": generation}
        found = self._messages.find(query, {"_id": 1}).sort("seq", 1)
        return [one["_id"] for one in await found.to_list()]

    async def _rows(self, batches: Sequence[Any]) -> list[str] | None:
        """Return the rows of documents; None if another writer has replaced some of them."""
        found = await self._messages.find({"_id": {"$in": list(batches)}}).to_list()
        known = {one["_id"]: one.get("message_data") for one in found}
        missing = [one for one in batches if one not in known]
        if missing:
            present = set(await self._batches(await self._find()))
            if not present.issuperset(missing):
                return None
            logger.warning("The session %r has lost %d documents", self.session_id, len(missing))
        return [row for one in batches if one in known for row in _texts(known[one])]

    async def _append(self, rows: list[str], *, key: str | None) -> bool:
        await self._record()
        added = await self._insert([rows] if rows else [])
        pushed: JsonObject = {"batches": added[0]} if added else {}
        wanted: JsonObject = {"session_id": self.session_id, "batches": {"$exists": True}}
        if key is not None:
            pushed["saved"] = key
            wanted["saved"] = {"$ne": key}
        change = {"$push": pushed, "$inc": {"revision": 1}, "$currentDate": _TOUCHED}
        done = await self._sessions.update_one(wanted, change)
        if done.matched_count == 0:
            await self._delete(added)
        return bool(done.matched_count)

    async def _newest(self, at_most: int | None) -> tuple[list[str], bool]:
        while True:
            batches = await self._batches(await self._find())
            count = len(batches) if at_most is None else at_most
            rows = await self._rows(batches[-count:] if count else [])
            if rows is not None:
                return rows, count >= len(batches)

    async def _replace(self, added: list[str], rows_to_keep: RowsToKeep) -> bool:
        while True:
            record = await self._record()
            rows = await self._rows(record["batches"])
            if rows is None:
                continue
            kept = rows_to_keep(rows)
            if kept is None:
                return False
            if await self._swap(record, 0, [*added, *kept]):
                return True

    async def _pop(self) -> str | None:
        while await self._find() is not None:
            record = await self._record()
            kept = len(record["batches"]) - 1
            if kept < 0:
                return None
            rows = await self._rows(record["batches"][kept:])
            # Otherwise, another writer came first, or the document is lost.
            if rows is not None and await self._swap(record, kept, rows[:-1]) and rows:
                return rows[-1]
        return None

    async def _swap(self, record: JsonObject, kept: int, rows: Sequence[str]) -> bool:
        """Replace all documents but the first ones by others; return False if one was added."""
        batches: list[Any] = record["batches"]
        added = await self._insert(_divided(rows))
        now = {"session_id": self.session_id, "revision": record["revision"]}
        change = {
            "$set": {"batches": [*batches[:kept], *added]},
            "$inc": {"revision": 1},
            "$currentDate": _TOUCHED,
        }
        done = await self._sessions.update_one(now, change)
        await self._delete(batches[kept:] if done.matched_count else added)
        return bool(done.matched_count)

    async def _insert(self, batches: Sequence[Sequence[str]]) -> list[Any]:
        documents = [
            {"_id": ObjectId(), "session_id": self.session_id, "message_data": list(rows)}
            for rows in batches
        ]
        try:
            for document in documents:
                await self._messages.insert_one(document)
        except DocumentTooLarge:
            raise UserError(
                f"MongoDBSession: items of {sum(map(len, batches[0])):,} characters were added at "
                "once, but a document of MongoDB has at most 16 MB. Keep large content in a blob "
                "store, or in files."
            ) from None
        return [document["_id"] for document in documents]

    async def _delete(self, batches: Sequence[Any]) -> None:
        """Delete documents that no session names any more; what stays is only garbage."""
        if batches:
            with contextlib.suppress(PyMongoError):
                await self._messages.delete_many({"_id": {"$in": list(batches)}})


def _texts(data: Any) -> list[str]:
    """Return the rows in a document; the Agents SDK has also written one row as a text."""
    rows = cast("list[Any]", data) if isinstance(data, list) else [data]
    return [row if isinstance(row, str) else json.dumps(row, default=str) for row in rows]


def _divided(rows: Sequence[str]) -> list[list[str]]:
    batches: list[list[str]] = []
    size = BATCH_CHARACTERS
    for row in rows:
        if size + len(row) > BATCH_CHARACTERS:
            batches.append([])
            size = 0
        batches[-1].append(row)
        size += len(row)
    return batches
