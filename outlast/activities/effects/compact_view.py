"""Carries out `CompactView`: summarises the older part of what a model reads."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from outlast.activities.attempt import FIRST, Attempt
from outlast.activities.errors import EffectError, fitting, mistake, user_code, worker_lookup
from outlast.activities.invocation import Invocation, annotated_type
from outlast.activities.model.choice import cost_micros, model_of, price_for
from outlast.activities.model.input import shown_items
from outlast.activities.model.response import plain_answer
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.callables import call
from outlast.agents.config.compaction import Compaction
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.hooks import call_hooks
from outlast.agents.items.raw_items import copies
from outlast.agents.usage import plain_usage
from outlast.contract import failures
from outlast.contract.effects import EffectRequest
from outlast.loop.call_forms import FORM_OF_OUTPUT, arguments_of, is_call, name_of
from outlast.loop.calls import ViewSummary
from outlast.loop.effects import CompactView
from outlast.loop.items import text_of
from outlast.loop.phrases import as_text
from outlast.loop.values import Failure, Json, JsonObject, Usage
from outlast.ports.model import ModelRequest

LARGEST_SUMMARY_BYTES = 200_000
"""The maximum size of a summary: the run carries it."""


async def compact_view(
    worker: WorkerDeps, request: EffectRequest[CompactView], attempt: Attempt = FIRST
) -> ViewSummary:
    """Summarise items of the view, between the hooks.

    An agent that is not to be summarised any more, since a deploy, gets no summary.

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
    if compaction.summarize is not None:
        text, model = await _by_the_program(invocation, compaction, items), ""
        usage, cost = Usage(), 0
    else:
        text, model, usage, cost = await _by_a_model(invocation, compaction, items)
    if not text.strip():
        what = f"The summary for {agent.name!r}"
        raise EffectError(failures.MODEL_BEHAVIOR, f"{what} is empty.", retryable=True)
    summary = [_as_item(fitting(text, LARGEST_SUMMARY_BYTES))]
    found = ViewSummary(model=model, usage=usage, cost_micros=cost)
    try:
        with user_code(f"on_compaction_end of agent {agent.name!r}"):
            await _call_hooks(invocation, "on_compaction_end", summary)
        return replace(found, items=tuple(summary), changes=invocation.changes())
    except EffectError as error:  # the summary is paid, so no retry
        return replace(found, failure=Failure(code=error.code, message=error.message))


async def _call_hooks(invocation: Invocation, step: str, items: Sequence[JsonObject]) -> None:
    if invocation.hooked(step):
        agent = invocation.agent
        await call_hooks(*invocation.hook_calls(step, invocation.wrapper, agent, copies(items)))


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
) -> tuple[str, str, Usage, int]:
    """Return what a model writes, its name, the tokens and the cost."""
    model, label = model_of(invocation, compaction.model)
    price = price_for(invocation.settings, label)
    request = ModelRequest(
        instructions=compaction.instructions,
        input=[{"role": "user", "content": "\n".join(map(_line, items))}],
        settings=ModelSettings(),
        run_id=invocation.run_id,
    )
    response = await plain_answer(model, request, of=invocation.agent.name)
    output = cast("Sequence[object]", response.output)
    said = (cast("JsonObject", one) for one in output if isinstance(one, dict))
    text = "\n".join(text_of(one) for one in said if one.get("type", "message") == "message")
    usage = plain_usage(response.usage)
    return text, label, usage, cost_micros(price, usage)


def _line(raw: JsonObject) -> str:
    """Return an item as a line that a model can read, whatever provider the item is from."""
    if is_call(raw):
        return f"[call of {name_of(raw)}] {arguments_of(raw)}"
    if raw.get("type") in FORM_OF_OUTPUT:
        return f"[output] {as_text(raw.get('output', ''))}"
    if "role" in raw:
        return f"[{raw['role']}] {text_of(raw) or _other_parts(raw)}"
    return "" if raw.get("type") == "reasoning" else f"[{raw.get('type')}] {json.dumps(raw)}"


def _other_parts(raw: JsonObject) -> str:
    """Return what a message has besides text, such as an image."""
    content: Json = raw.get("content")
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    kinds = [str(cast("JsonObject", one).get("type")) for one in parts if isinstance(one, dict)]
    return f"({', '.join(kinds)})"


def _as_item(text: str) -> JsonObject:
    """Return a summary as the model reads it: with no more weight than what users have written."""
    content = (
        "This is a summary of the earlier part of this conversation, which you do not see any "
        f"more. It was written for you and is no new message.\n\n{text}"
    )
    return {"role": "user", "content": content}
