"""Large content of requests and results, on its way from and to the blob store.

Requests get their content back before users' code sees them; results move theirs to the store
before they are recorded. `contract/blobs.py` splits and joins values.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from outlast.activities.carry_out import FIRST, Attempt
from outlast.activities.errors import EffectError
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.logs import get_logger
from outlast.contract import blobs, failures
from outlast.contract.blobs import Contents
from outlast.contract.effects import EffectRequest
from outlast.loop.call_forms import FORMS, is_call
from outlast.loop.calls import HandoffResult, ModelReply, PreparedRun, ToolResult
from outlast.loop.checks import Candidate
from outlast.loop.effects import CheckInput, FinalizeAnswer, OffloadItems, PrepareRun, RunTool
from outlast.loop.items import Item
from outlast.loop.stored import OFFLOAD_ABOVE, Offload, weight
from outlast.loop.values import Json, JsonObject
from outlast.loop.view import ViewEdit
from outlast.ports.blobs import BlobDamaged, LargeContent

T = TypeVar("T")

logger = get_logger(__name__)

INLINE_BYTES = 500_000
"""How much text a result may hold inline if every text is below the threshold."""


async def whole_request(content: LargeContent, request: EffectRequest[Any]) -> EffectRequest[Any]:
    """Return a request with all of its content.

    Raises:
        EffectError: the store lacks the content, or is unavailable.
    """
    try:
        return await _whole(content, request)
    except EffectError:
        raise
    except Exception as error:
        raise _unavailable(error) from error


async def recorded_result(content: LargeContent, request: EffectRequest[Any], result: T) -> T:
    """Return a result with its large content moved to the store.

    If the store is unavailable, the content stays inline in the result: finished work, which may
    have been paid for, is never repeated because of the store.
    """
    if content.store is None:
        return result
    found: Contents = {}
    made = _recorded(content, request, result, found)
    try:
        await content.put_all(found)
    except Exception as error:  # noqa: BLE001  any store's error
        logger.warning("large content stays in the history of the run: %s", error)
        return result
    return made


async def offload_items(
    worker: WorkerDeps, request: EffectRequest[OffloadItems], attempt: Attempt = FIRST
) -> Offload:
    """Move the content of items to the blob store.

    Raises:
        EffectError: this worker has no store, or the store is unavailable.
    """
    del attempt
    content = worker.content
    if content.store is None:
        message = (
            "This worker has no blob store, but another worker of the task queue has one. Give all "
            "workers the same store: blob_store=, or the environment variable OUTLAST_BLOB_STORE."
        )
        raise EffectError(failures.CONTENT_UNAVAILABLE, message, retryable=True)
    found: Contents = {}
    made = blobs.offload(request.items, request.effect.start, content.threshold, found)
    try:
        await content.put_all(found)
    except Exception as error:
        raise _unavailable(error) from error
    return made


def _unavailable(error: Exception) -> EffectError:
    message = f"The blob store failed: {type(error).__name__}: {error}"
    retryable = not isinstance(error, BlobDamaged)
    return EffectError(failures.CONTENT_UNAVAILABLE, message, retryable=retryable)


async def _whole(content: LargeContent, request: EffectRequest[Any]) -> EffectRequest[Any]:
    effect, items = request.effect, request.items
    if not isinstance(effect, OffloadItems):
        items = await _whole_items(content, items)
    match effect:
        case CheckInput():
            said = await _whole_items(content, effect.items)
            effect = effect if said is effect.items else replace(effect, items=tuple(said))
        case FinalizeAnswer():
            candidate = await _whole_candidate(content, effect.candidate)
            if candidate is not effect.candidate:
                effect = replace(effect, candidate=candidate)
        case PrepareRun() if effect.input is not None:
            effect = replace(effect, input=tuple(await content.joined_all(effect.input)))
        case _:
            pass
    if effect is request.effect and items is request.items:
        return request
    return EffectRequest(effect=effect, items=tuple(items))


async def _whole_items(content: LargeContent, items: Sequence[Item]) -> Sequence[Item]:
    raws = await content.joined_all([item.raw for item in items])
    if all(raw is item.raw for raw, item in zip(raws, items, strict=True)):
        return items
    return tuple(
        item if raw is item.raw else replace(item, raw=raw)
        for raw, item in zip(raws, items, strict=True)
    )


async def _whole_candidate(content: LargeContent, candidate: Candidate) -> Candidate:
    parts: list[Json] = [candidate.output]
    for one in candidate.outcomes:
        parts.extend((one.output, one.value))
    output, *rest = await content.joined_all(parts)
    if all(new is old for new, old in zip([output, *rest], parts, strict=True)):
        return candidate
    pairs = zip(candidate.outcomes, rest[::2], rest[1::2], strict=True)
    outcomes = tuple(replace(one, output=said, value=value) for one, said, value in pairs)
    return replace(candidate, output=output, outcomes=outcomes)


def _recorded(
    content: LargeContent, request: EffectRequest[Any], result: Any, found: Contents
) -> Any:
    least = content.threshold
    match result:
        case PreparedRun():
            said = result.input
            if said is not None:
                said = tuple(blobs.split_to_fit(said, least, INLINE_BYTES, found))
            return replace(result, input=said, stores=True)
        case ModelReply():
            items = tuple(_recorded_reply(raw, least, found) for raw in result.items)
            return replace(result, items=items, stores=_holds_much(request))
        case ToolResult() if isinstance(request.effect, RunTool):
            return _recorded_output(request.effect, result, least, found)
        case HandoffResult(edit=ViewEdit() as edit):
            segments = tuple(
                blobs.split_item(one, least, found) if isinstance(one, dict) else one
                for one in edit.segments
            )
            added = tuple(blobs.split_item(raw, least, found) for raw in edit.added)
            return replace(result, edit=replace(edit, segments=segments, added=added))
        case _:
            return result


def _holds_much(request: EffectRequest[Any]) -> bool:
    """Whether the run holds so much content that it should learn about the store."""
    return weight(request.items) > OFFLOAD_ABOVE // 2


def _recorded_reply(raw: JsonObject, least: int, found: Contents) -> JsonObject:
    """Return an item of a reply; calls and answers stay inline, because the loop reads them."""
    if is_call(raw) or raw.get("type") == "message":
        return raw
    return blobs.split_item(raw, least, found)


def _recorded_output(
    request: RunTool, result: ToolResult, least: int, found: Contents
) -> ToolResult:
    """Return a tool's result; an output that may become the answer moves whole or not at all."""
    output, value = result.output, result.value
    if isinstance(output, str):
        if FORMS[request.form].text:
            output = blobs.split(output, least, found)
    elif not request.final:
        output = blobs.split(output, least, found)
    if isinstance(value, str):
        value = blobs.split(value, least, found)
    return replace(result, output=output, value=value)
