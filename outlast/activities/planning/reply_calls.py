"""The calls in a model's reply, compared with the offered tools and handoffs."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count
from operator import attrgetter, methodcaller
from typing import Final

from outlast.activities.planning.offered_tools import OfferedTools
from outlast.agents.handoffs.handoff import Handoff
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.programs import PROGRAMS, callers_of
from outlast.contract import failures
from outlast.loop.call_forms import (
    FORMS,
    FUNCTION,
    MCP_APPROVAL,
    form_of,
    is_call,
    name_of,
    same_call,
)
from outlast.loop.items import OTHER_CALL_IDS, Item, call_id_of, program_of
from outlast.loop.values import Failure, JsonObject

_LONGEST_STEM: Final = 30
"""Chat Completions has ids of 40 characters at most."""

_MOST_OF_A_TURN: Final = 100
"""How many calls of a reply get new ids whose numbers are those of its turn alone."""

_PROGRAM_ITEMS = frozenset({"program", "program_output"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyItem:
    """An item of a reply, and what it calls.

    Attributes:
        raw: the item in the Responses format.
        is_planned: it is a call that the run makes. Function calls always are. A call of another
            type may be of the provider's own tool: then its output is in the reply, too, or the
            agent has a hosted tool of that type.
        form: the type of a call.
        name: the name of the called tool or handoff.
        call_id: the id of a call.
        tool: the offered tool of that name and type.
        handoff: the offered handoff of that name.
    """

    raw: JsonObject
    is_planned: bool = False
    form: str = FUNCTION
    name: str = ""
    call_id: str = ""
    tool: FunctionTool | None = None
    handoff: Handoff | None = None


def reply_items(output: Sequence[JsonObject], offer: OfferedTools) -> list[ReplyItem]:
    """Return the items of a reply with what they call."""
    answered = {(str(raw.get("type")), call_id_of(raw)) for raw in output if not is_call(raw)}
    return [_reply_item(raw, offer, answered) for raw in output]


def _reply_item(raw: JsonObject, offer: OfferedTools, answered: set[tuple[str, str]]) -> ReplyItem:
    if not is_call(raw):
        return ReplyItem(raw=raw)
    form, name, call_id = form_of(raw), name_of(raw), call_id_of(raw)
    tool = offer.tools.get(name)
    tool = tool if tool is not None and tool.form == form else None
    is_function = form == FUNCTION
    is_planned = is_function or (
        (FORMS[form].output, call_id) not in answered
        and (tool is not None or FORMS[form].name not in offer.hosted_kinds())
    )
    handoff = offer.handoffs.get(name) if is_function else None
    return ReplyItem(
        raw=raw,
        is_planned=is_planned,
        form=form,
        name=name,
        call_id=call_id,
        tool=tool,
        handoff=handoff,
    )


def unknown_call(items: Sequence[ReplyItem], offer: OfferedTools) -> Failure | None:
    """Return why a run cannot go on after a call of something that was not offered.

    A call of a shell, an editor or a computer that the agent does not have ends the run; an unknown
    name becomes an output for the model, unless the run wants an error. A hosted MCP server that
    waits for an approval would wait for ever, and ask again on every turn.
    """
    for one in items:
        if not one.is_planned or one.tool or one.handoff or one.form == MCP_APPROVAL:
            continue
        if FORMS[one.form].name:
            return nonsense(
                f"The model made a call without a {one.name} tool, which it was not offered."
            )
        if offer.unknown_is_fatal:
            return nonsense(f"The model called a tool that it was not offered: {one.name!r}.")
    return None


def program_problem(
    items: Sequence[ReplyItem], history: Sequence[Item], offer: OfferedTools
) -> Failure | None:
    """Return why a program, or a call by a program that the provider runs, is invalid."""
    has_runner = any(tool.name == PROGRAMS for tool in offer.hosted)
    running: set[str] = set()
    for item in history if has_runner else ():
        if program := program_of(item.raw):
            running.add(program)
        _follow_program(item.raw, running)
    for one in items:
        raw = one.raw
        program, kind = program_of(raw), raw.get("type")
        if (program or kind in _PROGRAM_ITEMS) and not has_runner:
            return nonsense("The model used programs without a programmatic_tool_calling tool.")
        if kind == "program" and not call_id_of(raw):
            return nonsense("The model wrote a program without a valid call_id.")
        parent = call_id_of(raw) if kind == "program_output" else program
        if parent and parent not in running:
            return nonsense(f"The model used the program {parent!r} without a parent program item.")
        _follow_program(raw, running)
        callee = one.tool or one.handoff
        caller = "programmatic" if program else "direct"
        if one.is_planned and callee is not None and caller not in callers_of(callee):
            return nonsense(
                f"The model called {one.name!r} with the caller {caller!r}, but the tool allows "
                f"{', '.join(callers_of(callee))}."
            )
    return None


def _follow_program(raw: JsonObject, running: set[str]) -> None:
    if raw.get("type") == "program_output" and raw.get("status") == "completed":
        running.discard(call_id_of(raw))
    elif raw.get("type") in _PROGRAM_ITEMS:
        running.add(call_id_of(raw))


def without_repeats(
    items: Sequence[ReplyItem], history: Sequence[Item], *, renames: bool = True
) -> tuple[list[ReplyItem], Failure | None]:
    """Return the items without repeated calls, each call with an id of its own.

    A call id ties a call, its approval and its side effects together. Several models and servers
    use the same few ids again, so another call with the id of an earlier one gets a new id. Within
    one reply, a call that is repeated word for word is one call.

    Args:
        items: the items of the reply.
        history: the items before it.
        renames: False if the provider has the conversation, and knows the calls by its own ids.

    Returns:
        The items, and a failure for an invalid id.
    """
    ids = {one.call_id for one in items if one.is_planned}
    earlier = _earlier_calls(history, ids) if ids else {}
    seen = {} if renames else dict(earlier)
    kept: list[ReplyItem] = []
    for one in items:
        call_id = one.call_id
        if not one.is_planned:
            kept.append(one)
        elif not call_id:
            return kept, nonsense(
                f"The model called {one.name!r} without a non-empty string call ID."
            )
        elif call_id in seen and same_call(seen[call_id], one.raw):
            while kept and kept[-1].raw.get("type") == "reasoning":  # providers refuse it alone
                kept.pop()
        elif call_id not in seen and not (renames and call_id in earlier):
            seen[call_id] = one.raw
            kept.append(one)
        elif renames:
            seen.setdefault(call_id, one.raw)
            kept.append(_renamed(one, history, ids))
            ids.add(kept[-1].call_id)
        else:
            kind, place = (
                ("completed tool", "") if call_id in earlier else ("same", " in one response")
            )
            return kept, nonsense(
                f"Each call needs a unique call ID, but the model used the {kind} call ID "
                f"{call_id!r} for two different calls{place}."
            )
    return kept, None


def _renamed(one: ReplyItem, history: Sequence[Item], used: AbstractSet[str]) -> ReplyItem:
    """Return a call with a new id in the style of its own, which some models need.

    The id ends with a number that no earlier turn has used, also one that a summary hides.
    """
    stem = one.call_id.rstrip("0123456789")
    stem = stem if stem != one.call_id and stem else f"{one.call_id}_"
    if len(stem) > _LONGEST_STEM:
        stem = f"call_{sha256(stem.encode()).hexdigest()[: _LONGEST_STEM - 6]}_"
    turn = next((item.turn for item in reversed(history) if item.turn), 0)
    names = (f"{stem}{number}" for number in count(turn * _MOST_OF_A_TURN))
    new = next(name for name in names if name not in used and not _earlier_calls(history, {name}))
    field = OTHER_CALL_IDS.get(one.form, "call_id")
    return replace(one, call_id=new, raw={**one.raw, field: new})


_RAW, _CALL_ID = attrgetter("raw"), methodcaller("get", "call_id")
_TYPE = methodcaller("get", "type")


def _earlier_calls(history: Sequence[Item], ids: AbstractSet[str]) -> dict[str, JsonObject]:
    """Return the calls of a conversation that have one of these ids, also those of a session.

    Long conversations have thousands of calls, and nearly always none has one of the ids.
    """
    raws = [*map(_RAW, history)]
    if ids.isdisjoint(map(str, map(_CALL_ID, raws))) and MCP_APPROVAL not in map(_TYPE, raws):
        return {}
    found = [
        raw
        for item in history
        if item.kind != "tool_output"
        and (str((raw := item.raw).get("call_id")) in ids or raw.get("type") == MCP_APPROVAL)
    ]
    return {call_id: raw for raw in found if is_call(raw) and (call_id := call_id_of(raw)) in ids}


def nonsense(message: str) -> Failure:
    """Return the failure of an invalid model reply."""
    return Failure(code=failures.MODEL_BEHAVIOR, message=message)
