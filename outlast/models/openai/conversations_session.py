"""Sessions in OpenAI's Conversations API."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from outlast.agents.config.session_input import SessionSettings, plain_item
from outlast.agents.config.settings_field import as_settings
from outlast.agents.items.raw_items import as_input, as_json
from outlast.loop.values import JsonObject
from outlast.models.openai.connection import OpenAIConnection, without_retries
from outlast.models.openai.responses import PROVIDER_DATA, is_invented
from outlast.ports.session import SessionABC, item_limit

if TYPE_CHECKING:
    from openai import AsyncOpenAI

KIND = "openai_conversation"

_PATH = "/conversations"

_WITH_ID = frozenset({
    "code_interpreter_call", "computer_call", "file_search_call", "image_generation_call",
    "item_reference", "local_shell_call", "local_shell_call_output", "mcp_approval_request",
    "mcp_call", "mcp_list_tools", "program", "program_output", "reasoning", "web_search_call",
})  # fmt: skip
"""Types of items that the API requires an id of; other items get new ids."""


class OpenAIConversationsSession(SessionABC):
    """A session in OpenAI's Conversations API.

    Without a `conversation_id`, a run creates the conversation before it starts, and refers to it by
    its id.

    Attributes:
        batch_size: how many items one request stores. A save of more items can fail in between.
    """

    batch_size = 20

    def __init__(
        self,
        *,
        conversation_id: str | None = None,
        openai_client: "AsyncOpenAI | None" = None,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        """Create the session; nothing is sent yet.

        Args:
            conversation_id: the id of an existing conversation; None for a new one.
            openai_client: the client to use, which the caller closes; None means the default
                client, else one with the key of the environment. A worker elsewhere needs a
                factory for a session with a client.
            session_settings: how to read the session, unless the run has its own settings.
        """
        self.session_settings: SessionSettings | None = as_settings(
            SessionSettings, session_settings or {}
        )
        self._conversation_id = conversation_id
        self._has_client = openai_client is not None
        self._connection = OpenAIConnection(client=openai_client)
        self._creating = asyncio.Lock()

    if not TYPE_CHECKING:  # there, it is the attribute of the base class

        @property
        def session_id(self) -> str:
            """The id of the conversation.

            Raises:
                ValueError: the conversation is not created yet.
            """
            if self._conversation_id is None:
                raise ValueError(
                    "The conversation of this session is not created yet: await session.open(), "
                    "or add_items() with a non-empty list, or pass conversation_id=."
                )
            return self._conversation_id

        @session_id.setter
        def session_id(self, value: str) -> None:
            self._conversation_id = value

    @property
    def is_open(self) -> bool:
        """Whether the conversation exists, so that the session has an id."""
        return self._conversation_id is not None

    async def open(self) -> str:
        """Create the conversation unless it exists, and return its id."""
        async with self._creating:
            if self._conversation_id is None:
                client = await self._client()
                created = await client.conversations.create(items=[])
                self._conversation_id = created.id
            return self._conversation_id

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the newest `limit` items, or all for None, oldest first."""
        conversation_id = await self.open()
        count = item_limit(limit, self.session_settings)
        found: list[Any] = []
        if count == 0:
            return found
        client = await self._client()
        newest_first = client.conversations.items.list(conversation_id, order="desc")
        async for item in newest_first:
            found.append(as_json(item))
            if len(found) == count:
                break
        return found[::-1]

    async def add_items(self, items: list[Any]) -> None:
        """Append items in requests of at most 20, of which the first may be stored alone.

        Raises:
            UserError: an item is no JSON object.
        """
        rows = [row for item in items if (row := _row(item)) is not None]
        if not rows:
            return
        conversation_id = await self.open()
        # A retry of the client could store items twice: the run reads before it tries again.
        client = without_retries(await self._client())
        for start in range(0, len(rows), self.batch_size):
            batch: Any = rows[start : start + self.batch_size]
            await client.conversations.items.create(conversation_id=conversation_id, items=batch)

    async def pop_item(self) -> Any | None:
        """Remove and return the newest item; None if there is none."""
        items = await self.get_items(limit=1)
        if not items:
            return None
        client = await self._client()
        item_id = str(items[0]["id"])
        await client.conversations.items.delete(conversation_id=self.session_id, item_id=item_id)
        return items[0]

    async def clear_session(self) -> None:
        """Delete the conversation; the next use creates another one."""
        if self._conversation_id is not None:
            client = await self._client()
            await client.conversations.delete(self._conversation_id)
            self._conversation_id = None

    def describe(self) -> JsonObject | None:
        """Return data with which another process can open the same session.

        None for a session with a client of its own, without an id, or of a subclass.
        """
        if self._has_client or not self.is_open or type(self) is not OpenAIConversationsSession:
            return None
        settings = (self.session_settings or SessionSettings()).to_dict()
        return {"kind": KIND, "conversation_id": self.session_id, "settings": settings}

    @classmethod
    def from_description(cls, data: JsonObject) -> "OpenAIConversationsSession":
        """Return the session for the data of `describe`."""
        return cls(
            conversation_id=str(data.get("conversation_id")),
            session_settings=SessionSettings(**data.get("settings", {})),
        )

    async def _client(self) -> "AsyncOpenAI":
        return await self._connection.client(_PATH)


async def start_openai_conversations_session(openai_client: "AsyncOpenAI | None" = None) -> str:
    """Create a conversation, and return its id for `OpenAIConversationsSession`."""
    return await OpenAIConversationsSession(openai_client=openai_client).open()


def _row(item: object) -> JsonObject | None:
    """Return an item as the API accepts it; None for reasoning that it cannot store."""
    row = as_input(plain_item(as_json(item), what="add_items"))
    kept = str(row.get("type")) in _WITH_ID and not is_invented(row.get("id"))
    dropped = {PROVIDER_DATA} if kept else {PROVIDER_DATA, "id"}
    row = {name: value for name, value in row.items() if name not in dropped}
    if row.get("type") == "reasoning" and not (row.get("id") or row.get("encrypted_content")):
        return None
    return row
