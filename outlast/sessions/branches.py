"""Sessions with branches, turns and usage: `AdvancedSQLiteSession`.

Each branch is a conversation of its own in the tables of `SQLiteSession`, so that a worker
elsewhere, which opens a branch as a plain session, adds to it. Turns are not stored: a user's
message begins one.
"""

import json
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from outlast.agents.config.session_input import SessionSettings
from outlast.agents.errors import UserError
from outlast.agents.usage import AnyUsage
from outlast.loop.values import JsonObject
from outlast.ports.session import item_limit
from outlast.sessions.rows import read_rows
from outlast.sessions.sqlite import CLEAR, MEMORY, TOUCH, SQLiteSession, Statements

MAIN = "main"
"""The branch that every session has."""

PREVIEW_LENGTH = 100


class BranchError(UserError, ValueError):
    """A branch or a turn does not exist, or a name cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    row: int
    item: JsonObject
    timestamp: str
    turn: int

    @property
    def is_users(self) -> bool:
        """Whether it is a user's message, which begins a turn."""
        return self.item.get("role") == "user"


class AdvancedSQLiteSession(SQLiteSession):
    """A SQLite session with branches, with its turns, and with the usage of each turn.

    Every method of a session works on the current branch of this object, at first `main`. Do not
    switch while a run uses the session. `clear_session` deletes all branches.

    Args:
        session_id: the id of the conversation.
        db_path: the file, or the default, memory; as for `SQLiteSession`.
        create_tables: without effect, because missing tables are always created.
        logger: without effect, because nothing is logged for want of usage.
        sessions_table: name of the table of sessions.
        messages_table: name of the table of items.
        session_settings: how to read the session, unless the run has its own settings.

    Raises:
        UserError: an argument is invalid.
    """

    def __init__(
        self,
        *,
        session_id: str,
        db_path: str | Path = MEMORY,
        create_tables: bool = False,
        logger: Any = None,
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            session_id,
            db_path,
            sessions_table=sessions_table,
            messages_table=messages_table,
            session_settings=session_settings,
        )
        self._sql = Statements(
            (*self._sql.create, *_CREATE),
            **self._sql.names,
            branches=f"{messages_table}_branches",
            usage=f"{messages_table}_turn_usage",
        )
        self._branch = MAIN

    def describe(self) -> JsonObject | None:
        """Return data with which another local process can open the current branch.

        None for a session in memory, which other processes cannot open, and for a subclass.
        """
        return self._description() if type(self) is AdvancedSQLiteSession else None

    # --- Items ----------------------------------------------------------------------------------

    async def get_items(self, limit: int | None = None, branch_id: str | None = None) -> list[Any]:
        """Return the newest items of a branch, oldest first.

        Args:
            limit: the maximum number of items, as for `SQLiteSession.get_items`.
            branch_id: the branch; default the current one.

        Raises:
            BranchError: there is no such branch.
        """
        if branch_id is None:
            return await super().get_items(limit)
        items = [entry.item for entry in await self._entries(branch_id)]
        count = item_limit(limit, self.session_settings)
        return items if count is None else items[len(items) - min(count, len(items)) :]

    async def pop_item(self) -> Any | None:
        """Remove and return the newest item; the usage of a turn goes with its last item."""
        item = await super().pop_item()
        turns = _last_turn(await self._entries())
        key = self._key
        await self._do(
            lambda connection: connection.execute(self._sql(_FORGET), (key, turns)).rowcount
        )
        return item

    async def clear_session(self) -> None:
        """Delete all branches with their items and usage, and go back to `main`.

        The ids of branches stay in use, so that another process on a deleted branch cannot write
        into a new one of the same name.
        """

        def clear(connection: sqlite3.Connection) -> None:
            for _, key, _ in self._branches(connection):
                self._delete(connection, key)
            connection.execute(self._sql(_DELETE_BRANCHES), (self.session_id, None, None))

        await self._do_in_transaction(clear)
        self._branch, self._key = MAIN, self.session_id

    # --- Turns ----------------------------------------------------------------------------------

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """Return the turns of a branch: number, the user's message, and when it was added.

        Returns:
            Dicts with `turn`, `content` (its first 100 characters), `full_content`, `timestamp`
            and `can_branch`, which is True.
        """
        users = [entry for entry in await self._entries(branch_id) if entry.is_users]
        return [_turn(entry, PREVIEW_LENGTH) for entry in users]

    async def find_turns_by_content(
        self, search_term: str, branch_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the turns of a branch with a text in the user's message; case does not matter.

        The dicts are those of `get_conversation_turns`, with the whole text as `content`.
        """
        term = search_term.lower()
        users = [entry for entry in await self._entries(branch_id) if entry.is_users]
        found = [one for one in users if any(term in text.lower() for text in _texts(one.item))]
        return [_turn(entry) for entry in found]

    async def get_conversation_by_turns(
        self, branch_id: str | None = None
    ) -> dict[int, list[dict[str, str | None]]]:
        """Return the type of each item of a branch, and the name of a called tool, by turn."""
        turns: dict[int, list[dict[str, str | None]]] = {}
        for entry in await self._entries(branch_id):
            shown = {"type": _kind(entry.item), "tool_name": _tool_name(entry.item)}
            turns.setdefault(entry.turn, []).append(shown)
        return turns

    async def get_tool_usage(self, branch_id: str | None = None) -> list[tuple[str, int, int]]:
        """Return how often each tool was called: (name, calls, turn), in the order of turns."""
        counts: Counter[tuple[int, str]] = Counter()
        for entry in await self._entries(branch_id):
            name = _tool_name(entry.item)
            if name is not None and _kind(entry.item).endswith(("_call", "_approval_request")):
                counts[entry.turn, name] += 1
            elif name == "tool_search":  # its output, where the provider has made the call itself
                counts[entry.turn, name] = counts[entry.turn, name] or 1
        return [(name, count, turn) for (turn, name), count in sorted(counts.items())]

    # --- Usage ----------------------------------------------------------------------------------

    async def store_run_usage(self, result: Any) -> None:
        """Store the usage of a run's result, which has just ended, as that of the newest turn."""
        usage: AnyUsage = result.context_wrapper.usage
        key = self._key
        turn = _last_turn(await self._entries())
        cached, written = usage.input_tokens_details, usage.output_tokens_details
        row = (
            key,
            turn,
            usage.requests,
            usage.input_tokens,
            usage.output_tokens,
            usage.total_tokens,
            _details(cached, "cached_tokens", "cache_write_tokens"),
            _details(written, "reasoning_tokens"),
        )
        await self._do(lambda connection: connection.execute(self._sql(_STORE_USAGE), row).rowcount)

    async def get_session_usage(self, branch_id: str | None = None) -> dict[str, int] | None:
        """Return the sums of the stored usage, by default of all branches; None if there is none.

        Returns:
            A dict with `requests`, `input_tokens`, `output_tokens`, `total_tokens` and
            `total_turns`.
        """

        def read(connection: sqlite3.Connection) -> list[JsonObject]:
            keys = [key for _, key, _ in self._branches(connection)]
            if branch_id is not None:
                keys = [self._key_of(connection, branch_id)]
            return [usage for key in keys for usage in self._usage(connection, key)]

        found = await self._do(read)
        if not found:
            return None
        names = ("requests", "input_tokens", "output_tokens", "total_tokens")
        sums = {name: sum(usage[name] for usage in found) for name in names}
        return {**sums, "total_turns": len(found)}

    async def get_turn_usage(
        self, user_turn_number: int | None = None, branch_id: str | None = None
    ) -> list[dict[str, Any]] | dict[str, Any]:
        """Return the stored usage of each turn, or of one turn.

        Args:
            user_turn_number: the turn; default all of them.
            branch_id: the branch; default the current one.

        Returns:
            Dicts with `user_turn_number`, `requests`, the numbers of tokens and their details; for
            one turn a dict without its number, which is empty if nothing is stored.
        """
        found = await self._do(
            lambda connection: self._usage(connection, self._key_of(connection, branch_id))
        )
        if user_turn_number is None:
            return found
        for usage in found:
            if usage.pop("user_turn_number") == user_turn_number:
                return usage
        return {}

    # --- Branches -------------------------------------------------------------------------------

    async def create_branch_from_turn(
        self, turn_number: int, branch_name: str | None = None
    ) -> str:
        """Copy the items before a turn to a new branch, and switch to it.

        Args:
            turn_number: the turn; its message and all that follows is not copied.
            branch_name: the id of the new branch; default made of the turn and the time.

        Returns:
            The id of the new branch.

        Raises:
            BranchError: there is no such turn, or the name is empty or was used before.
        """
        if branch_name is not None and not branch_name.strip():
            raise BranchError("Branch name cannot be empty: leave it out, or choose one.")

        def copy(connection: sqlite3.Connection) -> tuple[str, str]:
            entries = self._read(connection, self._key)
            first = next((one for one in entries if one.is_users and one.turn == turn_number), None)
            if first is None:
                raise BranchError(
                    f"Turn {turn_number} does not contain a user message in branch "
                    f"{self._branch!r}, which has {_last_turn(entries)} turns."
                )
            branch, key = self._add_branch(connection, branch_name, turn_number)
            connection.execute(self._sql(TOUCH), (key,))
            connection.execute(self._sql(_COPY), (key, self._key, first.row))
            return branch, key

        self._branch, self._key = await self._do_in_transaction(copy)
        return self._branch

    async def create_branch_from_content(
        self, search_term: str, branch_name: str | None = None
    ) -> str:
        """Branch as `create_branch_from_turn` from the first turn with a text in its message.

        Raises:
            BranchError: no turn contains it, or the name is empty or was used before.
        """
        turns = await self.find_turns_by_content(search_term)
        if not turns:
            raise BranchError(f"No user turns found containing {search_term!r}.")
        return await self.create_branch_from_turn(turns[0]["turn"], branch_name)

    async def switch_to_branch(self, branch_id: str) -> None:
        """Make another branch the current one.

        Raises:
            BranchError: there is no such branch.
        """
        self._key = await self._do(lambda connection: self._key_of(connection, branch_id))
        self._branch = branch_id

    async def delete_branch(self, branch_id: str, force: bool = False) -> None:  # noqa: FBT001, FBT002  the SDK's
        """Delete a branch with its items and usage. Its id cannot be used again.

        Args:
            branch_id: the branch.
            force: also delete the current branch, and switch to `main`.

        Raises:
            BranchError: there is no such branch, it is `main`, or it is the current one.
        """
        if not branch_id.strip():
            raise BranchError("Branch ID cannot be empty.")
        if branch_id == MAIN:
            raise BranchError("Cannot delete the 'main' branch; clear_session() empties it.")
        if branch_id == self._branch and not force:
            raise BranchError(
                f"Cannot delete current branch {branch_id!r}: switch to another one, or use force=True."
            )

        def delete(connection: sqlite3.Connection) -> None:
            self._delete(connection, self._key_of(connection, branch_id))
            names = (self.session_id, branch_id, branch_id)
            connection.execute(self._sql(_DELETE_BRANCHES), names)

        await self._do_in_transaction(delete)
        if branch_id == self._branch:
            self._branch, self._key = MAIN, self.session_id

    async def list_branches(self) -> list[dict[str, Any]]:
        """Return the branches, oldest first.

        Returns:
            Dicts with `branch_id`, `message_count`, `user_turns`, `is_current` and `created_at`.
        """

        def read(connection: sqlite3.Connection) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = []
            for branch, key, created_at in self._branches(connection):
                entries = self._read(connection, key)
                found.append(
                    {
                        "branch_id": branch,
                        "message_count": len(entries),
                        "user_turns": _last_turn(entries),
                        "is_current": branch == self._branch,
                        "created_at": created_at or (entries[0].timestamp if entries else None),
                    }
                )
            return found

        return await self._do(read)

    # --- Rows -----------------------------------------------------------------------------------

    async def _entries(self, branch_id: str | None = None) -> list[_Entry]:
        return await self._do(
            lambda connection: self._read(connection, self._key_of(connection, branch_id))
        )

    def _read(self, connection: sqlite3.Connection, key: str) -> list[_Entry]:
        entries: list[_Entry] = []
        turn = 0
        for row, data, timestamp in connection.execute(self._sql(_ALL_ITEMS), (key,)):
            for item in read_rows([data], session_id=self.session_id):
                turn += item.get("role") == "user"
                entries.append(_Entry(row=row, item=item, timestamp=timestamp, turn=turn))
        return entries

    def _branches(self, connection: sqlite3.Connection) -> Iterator[tuple[str, str, str | None]]:
        """Yield the id, the key and the time of creation of each branch, `main` first."""
        yield MAIN, self.session_id, None
        yield from connection.execute(self._sql(_BRANCHES), (self.session_id,)).fetchall()

    def _key_of(self, connection: sqlite3.Connection, branch_id: str | None) -> str:
        """Return the key of a branch's rows; None means the current branch."""
        if branch_id is None:
            return self._key
        keys = {branch: key for branch, key, _ in self._branches(connection)}
        if branch_id not in keys:
            raise BranchError(f"Branch {branch_id!r} does not exist. There are {', '.join(keys)}.")
        return keys[branch_id]

    def _add_branch(
        self, connection: sqlite3.Connection, name: str | None, turn: int
    ) -> tuple[str, str]:
        key = f"{self.session_id}#{secrets.token_hex(16)}"  # unlike any id of another session
        wanted = name or f"branch_from_turn_{turn}_{int(time.time())}"
        branch, number = wanted, 1
        while branch == MAIN or not self._claim(connection, branch, key):
            if name is not None:
                raise BranchError(f"Branch ID {name!r} has already been used. Choose another one.")
            number += 1
            branch = f"{wanted}_{number}"
        return branch, key

    def _claim(self, connection: sqlite3.Connection, branch: str, key: str) -> bool:
        row = (self.session_id, branch, key)
        return connection.execute(self._sql(_ADD_BRANCH), row).rowcount > 0

    def _delete(self, connection: sqlite3.Connection, key: str) -> None:
        for statement in CLEAR:
            connection.execute(self._sql(statement), (key,))
        connection.execute(self._sql(_FORGET), (key, -1))

    def _usage(self, connection: sqlite3.Connection, key: str) -> list[JsonObject]:
        names = ("user_turn_number", "requests", "input_tokens", "output_tokens", "total_tokens")
        found: list[JsonObject] = []
        for *numbers, read, written in connection.execute(self._sql(_USAGE), (key,)):
            details = {
                "input_tokens_details": json.loads(read),
                "output_tokens_details": json.loads(written),
            }
            found.append({**dict(zip(names, numbers, strict=True)), **details})
        return found


_CREATE = (
    """
    CREATE TABLE IF NOT EXISTS {branches} (
        session_id TEXT NOT NULL,
        branch_id TEXT NOT NULL,
        conversation TEXT NOT NULL,
        created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
        deleted INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (session_id, branch_id)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS {usage} (
        conversation TEXT NOT NULL,
        turn INTEGER NOT NULL,
        requests INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        total_tokens INTEGER NOT NULL,
        input_tokens_details TEXT NOT NULL,
        output_tokens_details TEXT NOT NULL,
        PRIMARY KEY (conversation, turn)
    )
    """,
)
_ALL_ITEMS = """
    SELECT id, message_data, created_at FROM {messages} WHERE session_id = ? ORDER BY id
"""
_BRANCHES = """
    SELECT branch_id, conversation, created_at FROM {branches}
    WHERE session_id = ? AND NOT deleted ORDER BY created_at, rowid
"""
_ADD_BRANCH = """
    INSERT OR IGNORE INTO {branches} (session_id, branch_id, conversation) VALUES (?, ?, ?)
"""
_DELETE_BRANCHES = """
    UPDATE {branches} SET deleted = 1 WHERE session_id = ? AND (? IS NULL OR branch_id = ?)
"""
_COPY = """
    INSERT INTO {messages} (session_id, message_data, created_at)
    SELECT ?, message_data, created_at FROM {messages} WHERE session_id = ? AND id < ? ORDER BY id
"""
_USAGE = """
    SELECT turn, requests, input_tokens, output_tokens, total_tokens,
           input_tokens_details, output_tokens_details
    FROM {usage} WHERE conversation = ? ORDER BY turn
"""
_STORE_USAGE = "INSERT OR REPLACE INTO {usage} VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM {usage} WHERE conversation = ? AND turn > ?"


def _last_turn(entries: list[_Entry]) -> int:
    return entries[-1].turn if entries else 0


def _turn(entry: _Entry, length: int | None = None) -> dict[str, Any]:
    content: object = entry.item.get("content", "")
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    is_long = length is not None and len(text) > length
    return {
        "turn": entry.turn,
        "content": f"{text[:length]}..." if is_long else text,
        "full_content": content,
        "timestamp": entry.timestamp,
        "can_branch": True,
    }


def _texts(item: JsonObject) -> list[str]:
    content: object = item.get("content", "")
    parts = cast("list[object]", content) if isinstance(content, list) else [{"text": content}]
    texts = [cast("JsonObject", part).get("text") for part in parts if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str)]


def _kind(item: JsonObject) -> str:
    role = item.get("role")
    return str(role if role in {"user", "assistant"} else item.get("type") or "other")


def _details(counts: object, *names: str) -> str:
    return json.dumps(counts and {name: getattr(counts, name) for name in names})


def _tool_name(item: JsonObject) -> str | None:
    kind, name = str(item.get("type")), item.get("name")
    if kind in {"mcp_call", "mcp_approval_request"} and item.get("server_label"):
        return ".".join(str(part) for part in (item["server_label"], name) if part)
    if kind.startswith("tool_search_"):
        return "tool_search"
    if name:
        return ".".join(dict.fromkeys(str(part) for part in (item.get("namespace"), name) if part))
    return kind if kind.endswith("_call") else None
