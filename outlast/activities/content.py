"""Large content of requests and results, on its way from and to the blob store."""

from collections.abc import Sequence
from dataclasses import replace
from operator import is_
from typing import Any, Final, TypeVar

from outlast.activities.errors import EffectError
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.logs import get_logger
from outlast.blobs.contents import Gone, LargeContent
from outlast.contract import blobs, failures
from outlast.contract.blobs import Contents
from outlast.contract.effects import EffectRequest
from outlast.loop.call_forms import FORMS, is_call
from outlast.loop.calls import Arrival, HandoffResult, ModelReply, PreparedRun, ToolResult
from outlast.loop.checks import Candidate, FinalizedAnswer
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    FinalizeAnswer,
    OffloadItems,
    PrepareRun,
    RunTool,
)
from outlast.loop.items import Item
from outlast.loop.stored import OFFLOAD_ABOVE, weight
from outlast.loop.values import Json, JsonObject
from outlast.loop.view import ViewEdit
from outlast.ports.blobs import StoreTimeout

T = TypeVar("T")

logger: Final = get_logger(__name__)

NO_STORE = LargeContent(None, threshold=blobs.NEVER)

INLINE_BYTES = 500_000
"""How much text a result may hold inline if every text is small: a quarter of a payload's limit."""


ATTEMPTS = 4
"""How often content is looked for that the store lacks, or does not return in time."""


async def whole_request(
    worker: WorkerDeps, request: EffectRequest[Any], *, is_last: bool = False
) -> EffectRequest[Any]:
    """Return a request with all of its content.

    Words take the place of content that is gone for good, so that the conversation continues: of
    damaged content, and, if `is_last`, of content that the store lacks.

    Raises:
        EffectError: the store lacks the content, or is unavailable.
    """
    try:
        return await _whole(worker, request, "missing" if is_last else "damaged")
    except EffectError:
        raise
    except Exception as error:  # any store's error
        raise store_failure(error) from error


async def recorded_result(
    content: LargeContent, request: EffectRequest[Any], result: T, *, within: float | None = None
) -> T:
    """Return a result with its large content moved to the store.

    If the store is unavailable, the content stays inline in the result: finished work, which may
    have been paid for, is never repeated because of the store. What tools, models and sessions
    wrote never reads as a reference, with a store or without.

    `within` is how many seconds the store may take, so that the result is recorded in time.
    """
    if content.store is None:
        return _split(NO_STORE, request, result, {})
    found: Contents = {}
    made = _split(content, request, result, found)
    try:
        await content.put_all(found, within=within)
    except Exception as error:  # noqa: BLE001  any store's error
        logger.warning("large content stays in the history of the run: %s", error)
        return _split(NO_STORE, request, result, {})
    return made


def store_failure(error: Exception) -> EffectError:
    """Return the failure of an effect from an error of the blob store."""
    message = f"The blob store failed: {type(error).__name__}: {error}"
    attempts = ATTEMPTS if isinstance(error, StoreTimeout) else None
    return EffectError(failures.CONTENT_UNAVAILABLE, message, retryable=True, attempts=attempts)


async def _whole(
    worker: WorkerDeps, request: EffectRequest[Any], words_for: Gone
) -> EffectRequest[Any]:
    effect, items, content = request.effect, request.items, worker.content
    if isinstance(effect, CallModel):
        items = await _whole_conversation(worker, effect.run_id, items, words_for)
    elif items and not isinstance(effect, OffloadItems):
        items = await _whole_items(content, items, words_for)
    match effect:
        case RunTool():
            if effect.arrived:
                effect = replace(effect, arrived=await _whole_arrivals(content, effect.arrived))
        case CheckInput():
            effect = replace(effect, items=await _whole_items(content, effect.items, words_for))
        case FinalizeAnswer():
            candidate = await _whole_candidate(content, effect.candidate, words_for)
            effect = replace(effect, candidate=candidate)
        case PrepareRun() if effect.input is not None:
            raws = await content.whole_items(effect.input, words_for=words_for)
            effect = replace(effect, input=tuple(raws))
        case _:
            pass
    if effect is request.effect and items is request.items:
        return request
    return EffectRequest(effect=effect, items=items)


async def _whole_conversation(
    worker: WorkerDeps, run_id: str, items: tuple[Item, ...], words_for: Gone
) -> tuple[Item, ...]:
    """Return the items of a model call with their content; earlier items are not searched again."""
    count, _ = worker.memory.plain.find(run_id, items) or (0, None)
    new = items[count:]
    whole = await _whole_items(worker.content, new, words_for)
    if not all(map(is_, whole, new)):
        return (*items[:count], *whole)
    if new:
        worker.memory.plain.keep(run_id, items, None)
    return items


async def _whole_items(
    content: LargeContent, items: Sequence[Item], words_for: Gone
) -> tuple[Item, ...]:
    if not items:
        return ()
    raws = await content.whole_items([item.raw for item in items], words_for=words_for)
    return tuple(
        item if raw is item.raw else replace(item, raw=raw)
        for raw, item in zip(raws, items, strict=True)
    )


async def _whole_arrivals(
    content: LargeContent, arrivals: tuple[Arrival, ...]
) -> tuple[Arrival, ...]:
    """Return what was delivered with its content: a tool never reads words in its place.

    Only deliveries are stored; a default, or what a person gave, is as it is written.
    """
    values = await content.joined_all([one.value if one.delivery_id else None for one in arrivals])
    return tuple(
        replace(one, value=value) if one.delivery_id else one
        for one, value in zip(arrivals, values, strict=True)
    )


async def _whole_candidate(
    content: LargeContent, candidate: Candidate, words_for: Gone
) -> Candidate:
    parts: list[Json] = [candidate.output]
    for outcome in candidate.outcomes:
        parts.extend((outcome.output, outcome.value))
    output, *rest = await content.joined_all(parts, words_for=words_for)
    pairs = zip(candidate.outcomes, rest[::2], rest[1::2], strict=True)
    outcomes = tuple(
        replace(outcome, output=output_whole, value=value) for outcome, output_whole, value in pairs
    )
    return replace(candidate, output=output, outcomes=outcomes)


def _split(content: LargeContent, request: EffectRequest[Any], result: Any, found: Contents) -> Any:
    least, has_store = content.threshold, content.store is not None
    match result:
        case PreparedRun():
            raws = result.input
            if raws is not None:
                raws = _split_items(raws, least, found)
            return replace(result, input=raws, stores=has_store)
        case ModelReply():
            items = tuple(_split_reply(raw, least, found) for raw in result.items)
            stores = has_store and _holds_much(request)
            value = blobs.escape(result.value)
            is_same = all(map(is_, items, result.items)) and value is result.value
            if is_same and stores == result.stores:
                return result
            return replace(result, items=items, value=value, stores=stores)
        case ToolResult() if isinstance(request.effect, RunTool):
            return _split_output(request.effect, result, least, found)
        case FinalizedAnswer():
            message = None if result.message is None else blobs.escape_fields(result.message)
            return replace(result, output=blobs.escape(result.output), message=message)
        case HandoffResult(edit=ViewEdit() as edit):
            segments = tuple(
                _split_item(segment, least, found) if isinstance(segment, dict) else segment
                for segment in edit.segments
            )
            added = tuple(_split_item(raw, least, found) for raw in edit.added)
            return replace(result, edit=replace(edit, segments=segments, added=added))
        case _:
            return result


def _split_items(raws: Sequence[JsonObject], least: int, found: Contents) -> tuple[JsonObject, ...]:
    if least == blobs.NEVER:
        return tuple(map(blobs.escape_item, raws))
    return tuple(blobs.split_to_fit(raws, least, INLINE_BYTES, found))


def _split_item(raw: JsonObject, least: int, found: Contents) -> JsonObject:
    return blobs.escape_item(raw) if least == blobs.NEVER else blobs.split_item(raw, least, found)


def _holds_much(request: EffectRequest[Any]) -> bool:
    return weight(request.items) > OFFLOAD_ABOVE // 2


def _split_reply(raw: JsonObject, least: int, found: Contents) -> JsonObject:
    """Return an item of a reply; calls and messages stay inline for the loop."""
    if is_call(raw) or raw.get("type") == "message":
        return blobs.escape_fields(raw)
    return _split_item(raw, least, found)


def _split_output(request: RunTool, result: ToolResult, least: int, found: Contents) -> ToolResult:
    """Return a tool's result; a list that may become the answer stays inline."""
    output, value = result.output, result.value
    moves = FORMS[request.form].text if isinstance(output, str) else not request.final
    output = blobs.split(output, least if moves else blobs.NEVER, found)
    value = blobs.split(value, least if isinstance(value, str) else blobs.NEVER, found)
    if output is result.output and value is result.value:
        return result
    return replace(result, output=output, value=value)
