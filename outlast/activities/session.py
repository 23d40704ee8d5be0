"""Reading a session at the start of a run, and saving to it, once, as the run goes on.

Owns: which calls of a session these are, and what tells a second save from the first. Must not
know: Temporal; where a session keeps its items.
"""

import json
from collections.abc import Awaitable, Sequence
from inspect import isawaitable
from typing import Any, cast

from outlast.agents.config.session_input import (
    MergedInput,
    ReasoningItemIdPolicy,
    SessionInputCallback,
    SessionSettings,
    check_session,
    merge_history,
    merge_with_callback,
    plain_item,
    without_reasoning_ids,
)
from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject
from outlast.ports.session import IdempotentSession, Session


async def load_session(
    session: Session,
    new_items: Sequence[JsonObject],
    *,
    settings: SessionSettings | None = None,
    callback: SessionInputCallback | None = None,
    reasoning_item_id_policy: ReasoningItemIdPolicy | None = None,
) -> MergedInput:
    """Read what a session remembers, and put the input of a run together.

    Args:
        session: the session.
        new_items: what the run is started with.
        settings: the run's; they go before those of the session.
        callback: the run's `session_input_callback`.
        reasoning_item_id_policy: `omit` takes the ids off the reasoning items of the history.

    Raises:
        UserError: the object is no session, or it or the callback returned something else than
            items.
        Exception: whatever the session or the callback raised.
    """
    check_session(session)
    history = await _read(session, _settings_of(session).resolve(settings).limit)
    if callback is None:
        return merge_history(history, new_items, reasoning_item_id_policy=reasoning_item_id_policy)
    return await merge_with_callback(
        history, new_items, callback, reasoning_item_id_policy=reasoning_item_id_policy
    )


async def save_items(
    session: Session, key: str, items: Sequence[JsonObject], *, attempt: int = 1
) -> bool:
    """Save items, once, however often this is tried.

    A session with `add_items_once` stores the key and the items together, so nothing is ever
    saved twice. Any other cannot know; it is asked for its newest items before every attempt but
    the first. Where they are those to be saved, an earlier attempt has saved them, and nothing is
    done. So such a session may hold items twice when it changes what it stores, or when somebody
    else wrote to it between the attempts. A class that overrides `add_items` of one with
    `add_items_once`, and not that, is such a session: its own method is called.

    Args:
        session: the session.
        key: stands for these items, and never for others in this session.
        items: what to save.
        attempt: 1 for the first try.

    Returns:
        Whether the items were stored now.

    Raises:
        UserError: the object is no session, or an item is no JSON object.
        Exception: whatever the session raised.
    """
    check_session(session)
    rows = [to_session_item(item) for item in items]
    if not rows:
        return False
    if isinstance(session, IdempotentSession) and _saves_once(session):
        return bool(await _awaited(session, "add_items_once", session.add_items_once(key, rows)))
    if attempt > 1 and _same(await _read(session, len(rows)), rows):
        return False
    await _awaited(session, "add_items", session.add_items(rows))
    return True


async def is_gone(session: Session) -> bool:
    """Whether a session that knows what it has saved holds nothing at all.

    Of others this is not asked: reading them may be slow, or mean something to them.
    """
    if not isinstance(session, IdempotentSession):
        return False
    return not await _read(session, 1)


def to_session_item(
    raw: object, *, reasoning_item_id_policy: ReasoningItemIdPolicy | None = None
) -> JsonObject:
    """Return an item of the transcript as a session stores it: as the model knows it.

    Nothing is taken off but, under the policy `omit`, the id of a reasoning item. Give that policy
    for items that the run has made, and not for those of its caller.

    Raises:
        UserError: it is no JSON object.
    """
    item = plain_item(raw, what="what is saved to the session")
    return without_reasoning_ids([item], reasoning_item_id_policy)[0]


def _saves_once(session: IdempotentSession) -> bool:
    """Whether `add_items_once` says how this session stores: nobody has changed how it adds.

    A subclass may have, or a program that put another `add_items` on the object, as tests do.
    """
    own: dict[str, Any] = getattr(session, "__dict__", {})
    if "add_items" in own and "add_items_once" not in own:
        return False
    for kind in type(session).__mro__:
        if "add_items_once" in vars(kind):
            return True
        if "add_items" in vars(kind):
            return False
    return True


def _settings_of(session: Session) -> SessionSettings:
    settings = getattr(session, "session_settings", None)
    if settings is None:
        return SessionSettings()
    if not isinstance(settings, SessionSettings):
        raise UserError(
            f"session_settings of the session of type {type(session).__name__} must be a "
            f"SessionSettings or None, not {type(settings).__name__}."
        )
    return settings


async def _read(session: Session, limit: int | None) -> list[JsonObject]:
    # Not every session has the parameter, and none needs it where there is no limit.
    asked = session.get_items() if limit is None else session.get_items(limit=limit)
    items = await _awaited(session, "get_items", asked)
    name = type(session).__name__
    if not isinstance(items, list | tuple):
        raise UserError(f"{name}.get_items() returned {type(items).__name__}, not a list.")
    members = cast("Sequence[Any]", items)
    return [plain_item(item, what=f"what {name}.get_items() returned") for item in members]


async def _awaited(session: object, method: str, answer: Awaitable[Any] | object) -> Any:
    if not isawaitable(answer):
        raise UserError(
            f"{type(session).__name__}.{method}() must be async: it returned "
            f"{type(answer).__name__}, which cannot be awaited."
        )
    return await answer


def _same(stored: Sequence[JsonObject], items: Sequence[JsonObject]) -> bool:
    return [_text(item) for item in stored] == [_text(item) for item in items]


def _text(item: JsonObject) -> str:
    return json.dumps(item, sort_keys=True)
