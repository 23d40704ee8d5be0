"""The plan: what each call in a model's reply is, decided once and recorded.

Owns: reading a reply against what the agent offered: which calls are tools, handoffs or nothing,
whether their arguments fit, whether a person decides. User code that decides something runs here
and never again: the outcome is in the record. Its failure is part of the plan too, because the
model has been paid. Must not know: what happens next; that is the loop's.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from outlast.agents.callables import call
from outlast.agents.context import RunContextWrapper
from outlast.agents.handoff import Handoff
from outlast.agents.registry import target_of
from outlast.agents.tool import FunctionTool
from outlast.contract import failures
from outlast.loop.calls import FinalKind, PlannedCall, Policy
from outlast.loop.items import Item, call_id_of
from outlast.loop.values import Failure, Json, JsonObject

logger = logging.getLogger(__name__)

LONGEST_FAST = timedelta(seconds=5)


LARGEST_REPLY_BYTES = 1_000_000
"""As JSON. Far beyond what any model says, and below what a record in history can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What an agent offered its model in one call: tools and handoffs by name."""

    tools: Mapping[str, FunctionTool]
    handoffs: Mapping[str, Handoff]
    unknown_is_fatal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a reply means: the items to keep, a plan for each call, or why it makes no sense."""

    items: tuple[JsonObject, ...]
    calls: tuple[PlannedCall, ...] = ()
    final: FinalKind = "text"
    failure: Failure | None = None


async def plan_reply(
    output: Sequence[JsonObject],
    offer: Offer,
    history: Sequence[Item],
    wrapper: RunContextWrapper[Any],
) -> Plan:
    """Plan a reply.

    Args:
        output: the provider's output items.
        offer: what the model was offered.
        history: the items before the reply, to find call ids that are used again.
        wrapper: the context for approval predicates.
    """
    junk = _junk(output)
    if junk is not None:
        return Plan(items=(), failure=Failure(code=failures.MODEL_BEHAVIOR, message=junk))
    items, problem = _without_repeats(output, history)
    if problem is None and offer.unknown_is_fatal:
        problem = _unknown_name(items, offer)
    if problem is not None:
        failure = Failure(code=failures.MODEL_BEHAVIOR, message=problem)
        return Plan(items=tuple(raw for raw in items if not _is_call(raw)), failure=failure)
    calls = [
        await _plan_call(index, raw, offer, wrapper)
        for index, raw in enumerate(items)
        if _is_call(raw)
    ]
    return Plan(items=tuple(items), calls=tuple(calls), final=_final(items))


async def _plan_call(
    index: int, raw: JsonObject, offer: Offer, wrapper: RunContextWrapper[Any]
) -> PlannedCall:
    name, arguments = str(raw.get("name", "")), str(raw.get("arguments", ""))
    entry = offer.handoffs.get(name)
    if entry is not None:
        return PlannedCall(
            item=index,
            kind="handoff",
            target=entry.agent_name,
            target_model=model_label(target_of(entry).model),
            callback=entry.on_handoff is not None,
        )
    tool = offer.tools.get(name)
    if tool is None:
        return PlannedCall(item=index, kind="unknown", problem=_not_offered(name, offer))
    problem = _argument_problem(tool, arguments)
    needs_approval, reason = False, None
    if problem is None:
        needs_approval, reason = await _gate(tool, arguments, call_id_of(raw), wrapper)
    return PlannedCall(
        item=index,
        kind="tool",
        problem=problem,
        needs_approval=needs_approval,
        reason=reason,
        fatal=tool.failure_error_function is None,
        policy=policy_of_tool(tool),
    )


async def _gate(
    tool: FunctionTool, arguments: str, call_id: str, wrapper: RunContextWrapper[Any]
) -> tuple[bool, str | None]:
    """Whether a person decides, and why. A rule that fails gates the call: fail closed."""
    rule = tool.needs_approval
    if isinstance(rule, bool):
        return rule, None
    try:
        fields: Json = json.loads(arguments or "{}")
        return bool(await call(rule, wrapper, fields, call_id)), None
    except Exception as error:  # noqa: BLE001  whatever a user's rule raises
        return True, f"The approval rule failed ({type(error).__name__}), so a person decides."


def policy_of_tool(tool: FunctionTool) -> Policy:
    """Return how a tool's calls are bounded and retried.

    A fast tool holds the run's workflow task while it runs, so it gets a few seconds at most.
    """
    timeout = min(tool.timeout, LONGEST_FAST) if tool.fast else tool.timeout
    return Policy(
        timeout_ms=int(timeout.total_seconds() * 1000),
        attempts=tool.retry.attempts,
        initial_interval_ms=int(tool.retry.initial_interval.total_seconds() * 1000),
        backoff=tool.retry.backoff,
        maximum_interval_ms=int(tool.retry.maximum_interval.total_seconds() * 1000),
        fast=tool.fast,
    )


def model_label(model: object) -> str:
    """Return a model's name for people: its name, or its class where it is an object."""
    if model is None:
        return ""
    return model if isinstance(model, str) else type(model).__name__


def _junk(output: object) -> str | None:
    """Return why a reply cannot be recorded. It is paid for, so it is not asked for again."""
    entries = cast("list[object]", output) if isinstance(output, list | tuple) else [None]
    if not all(isinstance(entry, dict) for entry in entries):
        return f"The model's reply is no list of items: {output!r:.80}."
    try:
        size = len(json.dumps(output))
    except (TypeError, ValueError, RecursionError) as error:
        return f"The model's reply cannot be written as JSON: {error}."
    if size > LARGEST_REPLY_BYTES:
        return f"The model's reply has {size:,} bytes, of at most {LARGEST_REPLY_BYTES:,}."
    return None


def _argument_problem(tool: FunctionTool, arguments: str) -> str | None:
    try:
        if tool.validate is not None:
            return tool.validate(arguments)
        fits = isinstance(json.loads(arguments or "{}"), dict)
    except Exception as error:  # noqa: BLE001  the model is paid: a user's check must not repeat it
        logger.warning("the arguments of %s could not be checked: %r", tool.name, error)
        fits = False
    return None if fits else f"The arguments of {tool.name} have to be a JSON object."


def _not_offered(name: str, offer: Offer) -> str:
    known = ", ".join([*offer.tools, *offer.handoffs]) or "none"
    return f"There is no tool {name!r}. Available: {known}."


def _unknown_name(items: Sequence[JsonObject], offer: Offer) -> str | None:
    for raw in items:
        name = str(raw.get("name", ""))
        if _is_call(raw) and name not in offer.tools and name not in offer.handoffs:
            return f"The model called a tool that it was not offered: {name!r}."
    return None


def _without_repeats(
    output: Sequence[JsonObject], history: Sequence[Item]
) -> tuple[list[JsonObject], str | None]:
    """Return the items without calls that are repeated word for word, and what is wrong.

    A call id ties a call, its approval and its side effects together. Used again for another
    call it would mix them up, so that is the model's error.
    """
    seen = {
        call_id_of(item.raw): _call_of(item.raw) for item in history if item.kind == "tool_call"
    }
    items: list[JsonObject] = []
    for raw in output:
        if not _is_call(raw):
            items.append(raw)
            continue
        call_id = call_id_of(raw)
        if not call_id:
            return items, f"The model called {raw.get('name')!r} without a call id."
        if call_id not in seen:
            seen[call_id] = _call_of(raw)
            items.append(raw)
        elif seen[call_id] != _call_of(raw):
            return items, f"The model used the call id {call_id!r} for two different calls."
    return items, None


def _final(items: Sequence[JsonObject]) -> FinalKind:
    """A reply in which the provider only did things of its own is not an answer yet."""
    types = {raw.get("type") for raw in items}
    return "again" if types - {"message", "reasoning"} and "message" not in types else "text"


def _is_call(raw: JsonObject) -> bool:
    return raw.get("type") == "function_call"


def _call_of(raw: JsonObject) -> tuple[str, str]:
    return str(raw.get("name", "")), str(raw.get("arguments", ""))
