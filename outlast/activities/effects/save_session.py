"""Carries out `SaveSession`: adds items to the session of a run, once."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Final

from pydantic_core import to_json

from outlast.activities.attempt import FIRST, Attempt
from outlast.activities.errors import of_user_code
from outlast.activities.parent_call import parent_call_of
from outlast.activities.session import (
    has_lost_items,
    save_items,
    session_label,
    session_of,
    to_session_item,
)
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.items.raw_items import as_input, in_written_order
from outlast.agents.logs import get_logger
from outlast.contract.effects import EffectRequest
from outlast.loop.call_forms import FORM_OF_OUTPUT, FUNCTION, output_item
from outlast.loop.effects import SaveSession
from outlast.loop.items import Item, call_id_of
from outlast.loop.values import JsonObject
from outlast.ports.session import Session, is_openai_responses_compaction_aware_session

logger: Final = get_logger(__name__)

LONGEST_COMPACTION_SECONDS = 45.0
"""The time limit of one compaction: shorter than that of a save, which must not fail with it."""


async def save_session(
    worker: WorkerDeps, request: EffectRequest[SaveSession], attempt: Attempt = FIRST
) -> JsonObject:
    """Save items in the session of a run, once.

    Returns:
        Nothing; or a warning for readers, if the session has lost its earlier items.

    Raises:
        EffectError: the session failed.
    """
    call, registry = request.effect, worker.registry
    settings = call.settings or {}
    parent_call = parent_call_of(registry, settings)
    session = session_of(registry, settings, parent_call.tool if parent_call is not None else None)
    omits = settings.get("reasoning_item_id_policy") == "omit"
    rows = _rows(request.items, call.withheld, omits=omits)
    key = f"{call.run_id}@{call.chain_id}:{call.number}:{_digest(rows)}"
    try:
        is_lost = call.follows and await has_lost_items(session)
        await save_items(session, key, rows, attempt=attempt.number)
    except Exception as error:  # a session may be the user's
        failed = of_user_code(session_label(session), error)
        failed.attempts = None  # a database may be unavailable for longer than other user code
        raise failed from error
    await _compact(session, rows)
    if not is_lost:
        return {}
    note = (
        f"{session_label(session)} no longer holds the items that were saved before: it was deleted, "
        f"replaced or cleared while the run {call.run_id!r} used it. The new items are saved."
    )
    logger.warning("%s", note)
    return {"note": note}


async def _compact(session: Session, rows: Sequence[JsonObject]) -> None:
    """Compact a session after an answer; if that fails, the next answer tries again."""
    if not is_openai_responses_compaction_aware_session(session):
        return
    if not rows or rows[-1].get("role") != "assistant":  # a turn with tool outputs goes on
        return
    try:
        async with asyncio.timeout(LONGEST_COMPACTION_SECONDS):
            await session.run_compaction({})
    except Exception:  # the items are saved: the next answer tries again
        logger.exception("%s was not compacted; it keeps all of its items", session_label(session))


def _digest(rows: Sequence[JsonObject]) -> str:
    return hashlib.sha256(to_json(rows)).hexdigest()[:16]


def _rows(items: Sequence[Item], withheld: str | None, *, omits: bool) -> list[JsonObject]:
    """Return items as rows of a session.

    If a guardrail blocked the output of a tool, only the newest turn's calls are saved, with a
    placeholder for each output. If the turn has reasoning, or calls that the provider ran, nothing
    is saved: providers accept these only with the text that follows, which may reveal the output.
    """
    if withheld is None:
        return [_row(item, omits=omits) for item in items]
    newest = max((item.turn for item in items), default=0)
    kept = [_row(item, omits=omits) for item in items if item.turn < newest]
    blocked = [item for item in items if item.turn == newest and item.kind != "message"]
    if not all(item.raw.get("call_id") for item in blocked):
        return kept
    return [*kept, *(_with_placeholder(item, withheld) for item in blocked)]


def _row(item: Item, *, omits: bool) -> JsonObject:
    if item.kind == "input":
        return item.raw
    raw = in_written_order(as_input(item.raw))
    return to_session_item(raw, reasoning_item_id_policy="omit") if omits else raw


def _with_placeholder(item: Item, placeholder: str) -> JsonObject:
    if item.kind != "tool_output":
        return as_input(item.raw)
    form = FORM_OF_OUTPUT.get(str(item.raw.get("type")), FUNCTION)
    caller = {name: item.raw[name] for name in ("caller",) if name in item.raw}
    return {**output_item(call_id_of(item.raw), placeholder, form), **caller}
