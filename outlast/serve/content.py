"""The content of runs that is in the blob store: texts for views, and customers' files on demand."""

from dataclasses import replace
from typing import Any, Final, cast

from starlette.responses import Response
from temporalio.client import Client

from outlast.agents.items.pictures import media_type_of
from outlast.agents.logs import get_logger
from outlast.blobs import large_content
from outlast.contract.blobs import is_plain, is_reference
from outlast.serve.uploads import content_of
from outlast.views.customer import CustomerView
from outlast.views.records import Json, JsonObject
from outlast.views.run import RunSnapshot, with_items

logger: Final = get_logger(__name__)

_FILES: Final = ("image_url", "file_data")
"""The fields with the content of photos and files, which no list of messages needs."""

_FILE_HEADERS: Final = {
    "Cache-Control": "private, max-age=600",
    "Content-Security-Policy": "default-src 'none'; sandbox",
}


async def whole_state(client: Client, state: RunSnapshot, *, files: bool = True) -> RunSnapshot:
    """Return a state with the content of its items, where this process has the blob store.

    Args:
        client: connected to the run's server.
        state: the state; placeholders stand for its content where the store cannot be read.
        files: whether photos and files in messages are read, too; otherwise they stay where they
            are.
    """
    content = large_content(client=client)
    if content.store is None:
        return state
    raws = [item.raw if files else _without_files(item.raw) for item in state.items]
    stored = [at for at, raw in enumerate(raws) if not is_plain(raw)]
    if not stored:
        return state
    try:
        found = await content.joined_all([raws[at] for at in stored], words_for="missing")
    except Exception:  # any store's error; placeholders stand for the content
        logger.exception("Content of %s cannot be read from the blob store", state.run_id)
        return state
    items = list(state.items)
    for at, raw in zip(stored, found, strict=True):
        whole = cast("JsonObject", raw)
        items[at] = replace(
            items[at], raw=whole if files else _with_files(whole, state.items[at].raw)
        )
    return with_items(state, items)


async def file_of(client: Client, view: CustomerView, message_id: str, at: str) -> bytes | None:
    """Return a photo or a file of a customer's message; None if there is none.

    Args:
        client: connected to the run's server.
        view: what the customer sees.
        message_id: the id of the message in the view.
        at: the place of the file among the attachments, from 0, as an address has it.

    Raises:
        Exception: the blob store cannot be read.
    """
    number = int(at) if at.isdecimal() and len(at) < 4 else -1
    for message in (*view.messages, *view.unread):
        if message.id == message_id and 0 <= number < len(message.attachments):
            part = message.attachments[number]
            value = next((part[name] for name in _FILES if name in part), None)
            text = await large_content(client=client).joined(value)
            try:
                return content_of(text) if isinstance(text, str) else None
            except ValueError:
                return None
    return None


def file_answer(content: bytes) -> Response:
    """Return a customer's file: browsers show an image that they know, and save everything else."""
    kind, headers = media_type_of(content), dict(_FILE_HEADERS)
    if kind is None:
        headers["Content-Disposition"] = "attachment"
    return Response(content, media_type=kind or "application/octet-stream", headers=headers)


def _without_files(raw: JsonObject) -> JsonObject:
    content: Any = raw.get("content")
    if not isinstance(content, list):
        return raw
    parts = [_without(part) for part in cast("list[Json]", content)]
    return {**raw, "content": parts}


def _without(part: Any) -> Json:
    if not isinstance(part, dict) or is_reference(cast("Json", part)):
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
