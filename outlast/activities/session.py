"""Finds the session of a run, reads it at the start, and saves items in it once."""

import json
from collections.abc import Awaitable, Sequence
from functools import wraps
from inspect import isawaitable
from typing import Any, cast

from outlast.activities.errors import user_code, worker_lookup
from outlast.agents.agent_tools.agent_tool import AgentTool
from outlast.agents.callables import call, callable_name
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
from outlast.agents.config.settings import read_session_settings
from outlast.agents.errors import UserError
from outlast.agents.installed_sdk import as_ours
from outlast.agents.json_values import as_object
from outlast.agents.registry import Registry
from outlast.contract.names import SETTING_SESSION
from outlast.loop.values import JsonObject
from outlast.ports.session import DescribedSession, IdempotentSession, Session, store_name_of


def session_label(session: object) -> str:
    """Return how messages name a session."""
    return f"The session {getattr(session, 'session_id', session)!r}"


REFERENCE = "ref"
"""The key of a session that is named in the settings; any other is described by data."""


def session_of(registry: Registry, settings: JsonObject, tool: AgentTool | None = None) -> Session:
    """Return the session of a run's settings.

    Raises:
        EffectError: this worker cannot find the session.
    """
    if tool is not None and tool.session is not None:
        return cast("Session", tool.session)
    described = as_object(settings.get(SETTING_SESSION)) or {}
    with worker_lookup():
        if REFERENCE in described:
            return _named_session(registry, described)
        from outlast.sessions.described import session_from_description

        return session_from_description(described, is_own=_is_own(registry, described))


def _is_own(registry: Registry, described: JsonObject) -> bool:
    """Whether the session is one that the run's own program made, in this process."""
    own = registry.own_references
    return registry.is_hosted or any(
        isinstance(one, DescribedSession) and one.describe() == described
        for one in (own.objects.values() if own is not None else ())
    )


def _named_session(registry: Registry, described: JsonObject) -> Session:
    """Return a named session; a worker elsewhere may have a factory for it instead."""
    name, kind = str(described[REFERENCE]), described.get("factory")
    session_id = described.get("session_id")
    has_factory = isinstance(kind, str) and not registry.unknown_references([kind])
    if has_factory and registry.unknown_references([name]):
        make: Any = registry.reference(str(kind))
        session: Any = make(session_id) if callable(make) else make
    else:
        session = registry.reference(name)
    actual = getattr(session, "session_id", None)
    store = described.get("store")
    if store is not None and store != store_name_of(session):
        raise UserError(
            f"The run's session {session_id!r} is in the store {store!r}, but the factory {kind!r} "
            f"on this worker opens {store_name_of(session)!r}. Register a factory that opens the "
            "sessions of that store, or use a task queue for each store."
        )
    if session_id is not None and actual != session_id:
        raise UserError(
            f"The run's session is {session_id!r}, but {name!r} is the session {actual!r} on this "
            f"worker. Register a factory for sessions: references={{{kind!r}: "
            "lambda session_id: ...}."
        )
    return cast("Session", session)


async def load(
    registry: Registry,
    settings: JsonObject,
    new_items: tuple[JsonObject, ...],
    tool: AgentTool | None = None,
) -> MergedInput:
    """Read a run's session and prepare the run's input.

    Raises:
        EffectError: the session or the run's callback failed.
    """
    session = session_of(registry, settings, tool)
    callback = settings.get("session_input_callback")
    with user_code(session_label(session)):
        return await load_session(
            session,
            new_items,
            settings=read_session_settings(settings),
            callback=_named(registry.reference(callback)) if isinstance(callback, str) else None,
            reasoning_item_id_policy=settings.get("reasoning_item_id_policy"),
        )


def _named(callback: SessionInputCallback) -> SessionInputCallback:
    """Return a run's callback, whose exceptions name the callback and not the session."""

    @wraps(callback)
    async def named(history: list[Any], new_items: list[Any]) -> list[Any]:
        with user_code(f"session_input_callback {callable_name(callback)!r}"):
            return await call(callback, history, new_items)

    return named


async def load_session(
    session: Session,
    new_items: Sequence[JsonObject],
    *,
    settings: SessionSettings | None = None,
    callback: SessionInputCallback | None = None,
    reasoning_item_id_policy: ReasoningItemIdPolicy | None = None,
) -> MergedInput:
    """Read a session's items, and prepare the input of a run.

    The run's `settings` outrank the session's own.

    Raises:
        UserError: the object is not a session, or the session or the callback returned something
            other than items.
        Exception: any error of the session or the callback.
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
    """Save items once, however often this is attempted; return whether this attempt stored them.

    A session with `add_items_once` stores the key and the items together, so it never stores items
    twice. Any other session, and a subclass that overrides `add_items` alone, is read before every
    attempt but the first: if its newest items are those to save, an earlier attempt has saved them.
    It may store items twice if it alters them, or if another program writes to it in between.

    `key` identifies these items, and no others in this session.

    Raises:
        UserError: the object is no session, or an item is no JSON object.
        Exception: any error of the session.
    """
    check_session(session)
    rows = [to_session_item(item) for item in items]
    if not rows:
        return False
    if isinstance(session, IdempotentSession) and _saves_once(session):
        return bool(await _await_call(session, "add_items_once", session.add_items_once(key, rows)))
    if attempt > 1:
        batch = getattr(session, "batch_size", None) or len(rows)
        rows = rows[_count_saved(await _read(session, len(rows)), rows, batch) :]
        if not rows:
            return False
    await _await_call(session, "add_items", session.add_items(rows))
    return True


async def has_lost_items(session: Session) -> bool:
    """Whether a session that records its saves has lost all items; others may be slow to read."""
    if not isinstance(session, IdempotentSession):
        return False
    return not await _read(session, 1)


def to_session_item(
    raw: object, *, reasoning_item_id_policy: ReasoningItemIdPolicy | None = None
) -> JsonObject:
    """Return an item of the transcript as a session stores it: as the model sees it.

    The policy `omit` removes the id of a reasoning item; pass it for items of the run only.

    Raises:
        UserError: the item is no JSON object.
    """
    item = plain_item(raw, what="an item to save in the session")
    return without_reasoning_ids([item], reasoning_item_id_policy)[0]


def _saves_once(session: IdempotentSession) -> bool:
    """Whether this session stores with `add_items_once`; not if its `add_items` is overridden."""
    own: dict[str, Any] = getattr(session, "__dict__", {})
    if "add_items_once" in own:
        return True
    if "add_items" in own:
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
    settings = as_ours(settings, SessionSettings)
    if not isinstance(settings, SessionSettings):
        raise UserError(
            f"session_settings of the session of type {type(session).__name__} must be a "
            f"SessionSettings or None, not {type(settings).__name__}."
        )
    return settings


async def _read(session: Session, limit: int | None) -> list[JsonObject]:
    # Not every session has the parameter, and without a limit none needs it.
    answer = session.get_items() if limit is None else session.get_items(limit=limit)
    items = await _await_call(session, "get_items", answer)
    name = type(session).__name__
    if not isinstance(items, list | tuple):
        raise UserError(f"{name}.get_items() returned {type(items).__name__}, not a list.")
    members = cast("Sequence[Any]", items)
    return [plain_item(item, what=f"the result of {name}.get_items()") for item in members]


async def _await_call(session: object, method: str, answer: Awaitable[Any] | object) -> Any:
    if not isawaitable(answer):
        raise UserError(
            f"{type(session).__name__}.{method}() must be async: it returned "
            f"{type(answer).__name__}, which cannot be awaited."
        )
    return await answer


def _count_saved(stored: Sequence[JsonObject], items: Sequence[JsonObject], batch_size: int) -> int:
    """Return how many of the items an earlier attempt has saved, in whole batches."""
    ends, begins = [_text(item) for item in stored], [_text(item) for item in items]
    counts = [len(items), *reversed(range(batch_size, len(items), batch_size))]
    return next((count for count in counts if ends[-count:] == begins[:count]), 0)


def _text(item: JsonObject) -> str:
    """Return an item without the ids, states and forms that a server adds."""
    plain = {
        name: value for name, value in item.items() if name not in _ADDED and value is not None
    }
    if "role" in plain:
        plain.pop("type", None)
    content: object = plain.get("content")
    if isinstance(content, list):
        plain["content"] = [_part(part) for part in cast("list[object]", content)]
    elif isinstance(content, str):
        plain["content"] = [content]
    return json.dumps(plain, sort_keys=True)


def _part(part: object) -> object:
    return (as_object(part) or {}).get("text", part)


_ADDED = frozenset({"id", "status", "phase"})
