"""The customer's view for pages: with the texts that are in the blob store, and files on demand."""

from dataclasses import replace
from typing import Any, cast

from temporalio.client import Client

from outlast.agents.logs import get_logger
from outlast.blobs import large_content
from outlast.contract import blobs
from outlast.loop.items import Item
from outlast.loop.state import LoopState
from outlast.loop.values import Json, JsonObject
from outlast.serve.customer_view import CustomerView, customer_view
from outlast.serve.pages.uploads import content_of

logger = get_logger(__name__)

_FILES = ("image_url", "file_data")
"""The fields with the content of photos and files, which no list of messages needs."""


async def view_of(client: Client, state: LoopState) -> CustomerView:
    """Return what a customer sees of a run, with all of its texts."""
    view = customer_view(await _with_texts(client, state))
    # No worker has taken the run yet, so its first message is nowhere.
    return replace(view, works=True) if state.phase == "new" else view


async def file_of(client: Client, view: CustomerView, message_id: str, at: int) -> bytes | None:
    """Return a photo or a file of a message; None if there is none.

    Raises:
        Exception: the blob store cannot be read.
    """
    for message in (*view.messages, *view.unread):
        if message.id == message_id and 0 <= at < len(message.attachments):
            part = message.attachments[at]
            value = next((part[name] for name in _FILES if name in part), None)
            text = await large_content(client=client).joined(value)
            try:
                return content_of(text) if isinstance(text, str) else None
            except ValueError:
                return None
    return None


async def _with_texts(client: Client, state: LoopState) -> LoopState:
    """Return a state whose messages have their texts; photos and files stay where they are."""
    stored = [at for at, item in enumerate(state.items) if _needs_texts(item)]
    content = large_content(client=client)
    if not stored or content.store is None:
        return state
    lean = [_without_files(state.items[at].raw) for at in stored]
    try:
        texts = await content.joined_all(lean, words_for="missing")
    except Exception:  # any store's error; placeholders stand for the texts
        logger.exception("Texts of %s cannot be read from the blob store", state.run_id)
        return state
    items = list(state.items)
    for at, raw in zip(stored, texts, strict=True):
        whole = _with_files(cast("JsonObject", raw), items[at].raw)
        items[at] = replace(items[at], raw=whole)
    return replace(state, items=tuple(items))


def _needs_texts(item: Item) -> bool:
    is_shown = item.kind in {"input", "message", "tool_output", "other"}
    return is_shown and not blobs.is_plain(_without_files(item.raw))


def _without_files(raw: JsonObject) -> JsonObject:
    content: Any = raw.get("content")
    if not isinstance(content, list):
        return raw
    parts = [_without(part) for part in cast("list[Json]", content)]
    return {**raw, "content": parts}


def _without(part: Any) -> Json:
    if not isinstance(part, dict) or blobs.is_reference(cast("Json", part)):
        return cast("Json", part)
    fields = cast("dict[str, Any]", part)
    return {name: value for name, value in fields.items() if name not in _FILES}


def _with_files(raw: JsonObject, stored: JsonObject) -> JsonObject:
    parts, old = raw.get("content"), stored.get("content")
    if not isinstance(parts, list) or not isinstance(old, list):
        return raw
    pairs = zip(cast("list[Json]", parts), cast("list[Json]", old), strict=True)
    return {**raw, "content": [_filled(part, was) for part, was in pairs]}


def _filled(part: Any, was: Any) -> Json:
    if not isinstance(part, dict) or not isinstance(was, dict):
        return cast("Json", part)
    old = cast("dict[str, Any]", was)
    return cast("dict[str, Any]", part) | {name: old[name] for name in _FILES if name in old}
