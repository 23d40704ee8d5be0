"""Repairs of what servers send, so that one odd part does not cost the rest.

The package validates a whole message: a tool with a numeric title would remove every tool of its
server, and an unknown kind of content would discard a result after the tool has had its effect. The
repairs are made on the transport, before the package reads the message.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Self, cast

import mcp.types as mcp_types
from mcp.shared.message import SessionMessage
from mcp.types import methods
from pydantic import ValidationError

from outlast.agents.logs import get_logger, logs_exception_texts
from outlast.agents.mcp.results import MARK
from outlast.edges.rendering import cut, visible
from outlast.loop.values import JsonObject
from outlast.mcp.wrapped_streams import WrappedStream

logger: Final = get_logger(__name__)

NoteTool = Callable[[str, str], None]
"""Called with the name of a tool and what is wrong with it."""

VALIDATION_SECONDS: Final = 2.0
"""How long a result may be compared with its schema: the tool has had its effect, and the answer
must not be lost to a listing that hangs."""

LONGEST_REASON: Final = 500
"""How many characters of why a result does not fit are logged."""

MOST_ASKED: Final = 1_000
"""How many requests without an answer are remembered."""

_CALL: Final = "tools/call"
_LIST: Final = "tools/list"
_TASK: Final = "tasks/get"
_REPAIRED: Final = frozenset({_CALL, _LIST, _TASK})

_NO_RESULTS: Final = frozenset({"task", "input_required"})
"""The types of answers to a call that are no results; `tasks.call` reads them."""

_LAST_OF_HANDSHAKES: Final = "2025-11-25"


class Repairs:
    """What is repaired on one connection.

    Args:
        note_tool: called for each tool that is left out or changed.
    """

    def __init__(self, note_tool: NoteTool) -> None:
        self._note_tool = note_tool
        self._asked: dict[str, str] = {}
        self._client: Any = None

    def attach(self, client: Any) -> None:
        """Learn the version of the protocol, and let results pass that do not fit their schema."""
        self._client = client
        session = client.session
        validate = session.validate_tool_result

        async def note_misfit(name: str, result: Any) -> None:
            try:
                async with asyncio.timeout(VALIDATION_SECONDS):
                    await validate(name, result)
            except Exception as error:  # noqa: BLE001  whatever the schema is made of
                logger.warning(
                    "the result of the MCP tool %r was not checked, or does not fit its output "
                    "schema: %s",
                    name,
                    cut(visible(_misfit(error)), LONGEST_REASON),
                )
                result.meta = {**(result.meta or {}), MARK: True}

        session.validate_tool_result = note_misfit

    @asynccontextmanager
    async def over(self, streams: AbstractAsyncContextManager[Any]) -> AsyncGenerator[Any]:
        """Open a transport whose messages are repaired."""
        async with streams as (read, write):
            yield _Reading(read, self), _Writing(write, self)

    def note_request(self, message: Any) -> None:
        """Remember what a request asks for."""
        method = getattr(message, "method", None)
        if method in _REPAIRED and (own := getattr(message, "id", None)) is not None:
            if len(self._asked) >= MOST_ASKED:  # their callers have given up
                del self._asked[next(iter(self._asked))]
            self._asked[str(own)] = method

    def repair(self, message: Any) -> None:
        """Repair the response to a request, in place."""
        method = self._asked.pop(str(getattr(message, "id", None)), None)
        if method is None or not isinstance(message, mcp_types.JSONRPCResponse):
            return
        version = getattr(self._client, "protocol_version", None) or _LAST_OF_HANDSHAKES
        if method == _CALL:
            message.result = repaired_result(message.result, version)
        elif method == _LIST:
            message.result = repaired_list(message.result, version, self._note_tool)
        elif isinstance(ended := message.result.get("result"), dict):
            message.result["result"] = repaired_result(cast("JsonObject", ended), version)


# --- Results -------------------------------------------------------------------------------------


def repaired_result(raw: JsonObject, version: str) -> JsonObject:
    """Return the result of a call in the protocol's form, with a mark if it had another.

    Content of an unknown kind becomes a text: its JSON.
    """
    if str(raw.get("resultType")) in _NO_RESULTS or _is_result(raw, version):
        return raw
    given: Any = raw.get("content")
    listed = cast("list[Any]", given) if isinstance(given, list) else [given]
    content = [_block(one, version) for one in listed if one is not None]
    made: JsonObject = {"content": content, "resultType": "complete"}
    structured: Any = raw.get("structuredContent")
    if structured is not None:
        if _is_result({**made, "structuredContent": structured}, version):
            made["structuredContent"] = structured
        elif not content:
            content.append(_text(structured))
    meta: Any = raw.get("_meta")
    known = {"content", "structuredContent", "isError", "_meta", "resultType"}
    rest = {name: value for name, value in raw.items() if name not in known}
    if not content and structured is None and rest:
        content.append(_text(rest))
    if raw.get("isError") not in (None, False, "false"):
        made["isError"] = True
    made["_meta"] = {**(cast("JsonObject", meta) if isinstance(meta, dict) else {}), MARK: True}
    return made


def _is_result(raw: JsonObject, version: str) -> bool:
    def parse() -> None:
        methods.validate_server_result(_CALL, version, raw)
        mcp_types.CallToolResult.model_validate(raw, by_name=False)

    has_type = version not in _MODERN or raw.get("resultType") == "complete"
    return has_type and _fits(parse)


def _block(block: Any, version: str) -> JsonObject:
    if _is_result({"content": [block], "resultType": "complete"}, version):
        return cast("JsonObject", block)
    fields = cast("JsonObject", block) if isinstance(block, dict) else {}
    text = fields.get("text")
    is_text = fields.get("type") == "text" and isinstance(text, str)
    return _text(text if is_text else block)


def _text(value: Any) -> JsonObject:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {"type": "text", "text": text}


# --- Tools ---------------------------------------------------------------------------------------


def repaired_list(raw: JsonObject, version: str, note: NoteTool) -> JsonObject:
    """Return a list of tools without what the package would refuse the whole list for."""
    listed: Any = raw.get("tools")
    if not isinstance(listed, list):
        return raw
    tools = [_tool(one, version, note) for one in cast("list[Any]", listed)]
    return {**raw, "tools": [one for one in tools if one is not None]}


def _tool(given: Any, version: str, note: NoteTool) -> JsonObject | None:
    raw = cast("JsonObject", given) if isinstance(given, dict) else {}
    if _is_tool(raw, version):
        return raw
    name: Any = raw.get("name")
    if not isinstance(name, str):
        note("", "is left out: it has no name")
        return None
    schema: Any = raw.get("inputSchema", {})
    if isinstance(schema, dict) and "type" not in schema:
        schema = {"type": "object", **cast("JsonObject", schema)}
    bare: JsonObject = {"name": name, "inputSchema": schema}
    if not _is_tool(bare, version):
        note(name, "is left out: its inputSchema is no JSON Schema of an object")
        return None
    made, lost = dict(bare), list[str]()
    for field, value in raw.items():
        if field in bare:
            continue
        if _is_tool({**bare, field: value}, version):
            made[field] = value
        else:
            lost.append(field)
    if lost:
        note(name, f"is used without its {', '.join(lost)}, which cannot be read")
    return made


def _is_tool(raw: JsonObject, version: str) -> bool:
    def parse() -> None:
        listing = {"tools": [raw], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        methods.validate_server_result(_LIST, version, listing)
        mcp_types.Tool.model_validate(raw, by_name=False)

    return _fits(parse)


_MODERN: Final = frozenset({"2026-07-28"})


def _fits(parse: Callable[[], None]) -> bool:
    try:
        parse()
    except (ValidationError, RecursionError):
        return False
    except (KeyError, ValueError):  # a version that the package does not check
        return True
    return True


# --- The transport -------------------------------------------------------------------------------


class _Reading(WrappedStream):
    def __init__(self, read: Any, repairs: Repairs) -> None:
        super().__init__(read)
        self._repairs = repairs

    @property
    def last_context(self) -> Any:
        """The context of the newest message's sender, as the package's own streams have it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        return self._repaired(await self._stream.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._repaired(await self._stream.__anext__())

    def _repaired(self, item: Any) -> Any:
        if isinstance(item, SessionMessage):
            self._repairs.repair(item.message)
        return item


class _Writing(WrappedStream):
    def __init__(self, write: Any, repairs: Repairs) -> None:
        super().__init__(write)
        self._repairs = repairs

    async def send(self, item: SessionMessage, /) -> None:
        self._repairs.note_request(item.message)
        await self._stream.send(item)


def _misfit(error: Exception) -> str:
    """Return why a result does not fit, or was not checked: words of the schema, none of the result."""
    rule = getattr(error.__cause__, "absolute_schema_path", None)
    if rule is not None:
        return "its rule " + ".".join(map(str, rule))
    return f"{type(error).__name__}: {error}" if logs_exception_texts() else type(error).__name__
