"""Carries out `CompactView`: summarizes the older part of what a model reads."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from outlast.activities.attempt import FIRST, Attempt
from outlast.activities.errors import EffectError, fitting, mistake, user_code, worker_lookup
from outlast.activities.invocation import Invocation, annotated_type
from outlast.activities.model.choice import check_price, compacting_model, model_of, priced
from outlast.activities.model.input import sent_items, shown_items
from outlast.activities.model.response import compacted, plain_answer
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.callables import call
from outlast.agents.config.compaction import Compaction
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.hooks import call_hooks
from outlast.agents.items.raw_items import copies
from outlast.contract import failures
from outlast.contract.effects import EffectRequest
from outlast.loop.call_forms import FORM_OF_OUTPUT, arguments_of, is_call, name_of
from outlast.loop.calls import ViewSummary
from outlast.loop.effects import CompactView
from outlast.loop.items import text_of
from outlast.loop.phrases import as_text
from outlast.loop.values import Failure, Json, JsonObject
from outlast.ports.model import ModelRequest, ModelResponse

LARGEST_SUMMARY_BYTES = 200_000
"""The maximum size of a summary: the run carries it."""

_BREAKS: Final = {one: f"\\u{ord(one):04x}" for one in "\x85\u2028\u2029"}
"""Line breaks that JSON does not escape, and their escapes."""


async def compact_view(
    worker: WorkerDeps, request: EffectRequest[CompactView], attempt: Attempt = FIRST
) -> ViewSummary:
    """Summarize the older items of the view, and call the hooks before and after.

    An agent that is not to be summarized any more, since a deploy, gets no summary.

    Raises:
        EffectError: the model, the program's own function or a start hook failed, or there is no
            text.
    """
    del attempt
    with worker_lookup():
        agent = worker.registry.agent(request.effect.agent)
    invocation = Invocation.of(worker, request.effect, annotated_type(agent))
    compaction = invocation.agent.compaction
    if compaction is None:
        return ViewSummary()
    items = shown_items(invocation, request.items)
    with user_code(f"on_compaction_start of agent {agent.name!r}"):
        await _call_hooks(invocation, "on_compaction_start", items)
    found = await _written(invocation, compaction, items)
    if found.failure is not None:
        return found
    try:
        with user_code(f"on_compaction_end of agent {agent.name!r}"):
            await _call_hooks(invocation, "on_compaction_end", found.items)
        return replace(found, changes=invocation.changes())
    except EffectError as error:
        return _unused(found, error)


def _unused(summary: ViewSummary, error: EffectError) -> ViewSummary:
    """Return the record of a summary that is paid for and not used; a retry would pay again."""
    failure = Failure(code=error.code, message=error.message)
    return replace(summary, items=(), failure=failure)


async def _call_hooks(invocation: Invocation, step: str, items: Sequence[JsonObject]) -> None:
    if invocation.hooked(step):
        agent = invocation.agent
        await call_hooks(*invocation.hook_calls(step, invocation.wrapper, agent, copies(items)))


async def _written(
    invocation: Invocation, compaction: Compaction, items: Sequence[JsonObject]
) -> ViewSummary:
    """Return the summary of items by the program, a model or its provider."""
    if compaction.by == "provider":
        return await _by_the_provider(invocation, compaction, items)
    if compaction.summarize is None:
        text, found = await _by_a_model(invocation, compaction, items)
    else:
        text, found = await _by_the_program(invocation, compaction, items), ViewSummary()
    if not text.strip():
        what = f"The summary for {invocation.agent.name!r}"
        raise EffectError(failures.MODEL_BEHAVIOR, f"{what} is empty.", retryable=True)
    return replace(found, items=(_as_item(fitting(text, LARGEST_SUMMARY_BYTES)),))


async def _by_the_program(
    invocation: Invocation, compaction: Compaction, items: Sequence[JsonObject]
) -> str:
    what = f"summarize of the compaction of agent {invocation.agent.name!r}"
    assert compaction.summarize is not None  # noqa: S101  the caller's case
    with user_code(what):
        text: object = await call(compaction.summarize, invocation.wrapper, copies(items))
    if not isinstance(text, str):
        raise mistake(f"{what} returned {type(text).__name__} instead of a string.")
    return text


async def _by_a_model(
    invocation: Invocation, compaction: Compaction, items: Sequence[JsonObject]
) -> tuple[str, ViewSummary]:
    """Return what a model writes, and what it took."""
    model, label = model_of(invocation, compaction.model)
    check_price(invocation.settings, model, label)
    request = ModelRequest(
        instructions=compaction.instructions,
        input=[{"role": "user", "content": "\n".join(filter(None, map(_line, items)))}],
        settings=ModelSettings(),
        run_id=invocation.run_id,
    )
    response = await plain_answer(model, request, of=invocation.agent.name)
    said = (one for one in _objects(response) if one.get("type", "message") == "message")
    return "\n".join(map(text_of, said)), _paid(response, model, label)


async def _by_the_provider(
    invocation: Invocation, compaction: Compaction, items: Sequence[JsonObject]
) -> ViewSummary:
    """Return the items that the model's provider makes of others; it may have encrypted them."""
    model, label = compacting_model(invocation, compaction)
    check_price(invocation.settings, model, label)
    request = ModelRequest(instructions=None, input=sent_items(items), run_id=invocation.run_id)
    response = await compacted(model, request, of=invocation.agent.name)
    found = replace(_paid(response, model, label), items=_objects(response))
    size = len(json.dumps(found.items))
    if size > LARGEST_SUMMARY_BYTES:
        what = (
            f"The provider made {size:,} bytes of the conversation, more than the "
            f"{LARGEST_SUMMARY_BYTES:,} that a run carries: it keeps what users have written and "
            'attached. Use Compaction(by="model").'
        )
        return _unused(found, mistake(what))
    return found


def _objects(response: ModelResponse) -> tuple[JsonObject, ...]:
    output = cast("Sequence[object]", response.output)
    return tuple(cast("JsonObject", one) for one in output if isinstance(one, dict))


def _paid(response: ModelResponse, model: object, label: str) -> ViewSummary:
    return ViewSummary(model=label, usage=priced(response.usage, model, label))


def _line(raw: JsonObject) -> str:
    """Return an item as a line of JSON that a model can read, whatever provider the item is from.

    No text in it can pretend to be another line, and so another one's words.
    """
    if is_call(raw):
        line: JsonObject = {"call": name_of(raw), "arguments": arguments_of(raw)}
    elif raw.get("type") in FORM_OF_OUTPUT:
        line = {"output": as_text(raw.get("output", ""))}
    elif "role" in raw:
        line = {str(raw["role"]): text_of(raw) or _other_parts(raw)}
    elif raw.get("type") == "reasoning":
        return ""
    else:
        line = raw
    text = json.dumps(line, ensure_ascii=False)
    return "".join(_BREAKS.get(one, one) for one in text)


def _other_parts(raw: JsonObject) -> str:
    """Return what a message has besides text, such as an image."""
    content: Json = raw.get("content")
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    kinds = [str(cast("JsonObject", one).get("type")) for one in parts if isinstance(one, dict)]
    return f"({', '.join(kinds)})"


def _as_item(text: str) -> JsonObject:
    """Return a summary as a message of the user, which the model does not read as instructions."""
    content = (
        "This is a summary of the earlier part of this conversation, which you do not see any "
        f"more. It was written for you and is no new message.\n\n{text}"
    )
    return {"role": "user", "content": content}
