"""The calls in a model's reply, compared with the offered tools and handoffs."""

from collections.abc import Sequence

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
from outlast.loop.state import CALL_KINDS
from outlast.loop.values import Failure, JsonObject

_PROGRAM_ITEMS = frozenset({"program", "program_output"})


class ReplyCalls:
    """The items of one reply that are calls to be planned.

    Function calls always are. A call of another type may be of the provider's own tool: then its
    output is in the reply, too, or the agent has a hosted tool of that type.
    """

    def __init__(self, output: Sequence[JsonObject], offer: OfferedTools) -> None:
        self._offer = offer
        self._answered = {(str(raw.get("type")), call_id_of(raw)) for raw in output}

    def has(self, raw: JsonObject) -> bool:
        """Whether an item of the reply is a call to be planned."""
        if not is_call(raw):
            return False
        if form_of(raw) == FUNCTION:
            return True
        form = FORMS[form_of(raw)]
        if (form.output, call_id_of(raw)) in self._answered:
            return False
        return tool_of(raw, self._offer) is not None or form.name not in self._offer.hosted_kinds()


def tool_of(raw: JsonObject, offer: OfferedTools) -> FunctionTool | None:
    """Return the offered tool of a call, which must also have the call's type."""
    tool = offer.tools.get(name_of(raw))
    return tool if tool is not None and tool.form == form_of(raw) else None


def handoff_of(raw: JsonObject, offer: OfferedTools) -> Handoff | None:
    """Return the offered handoff of a call."""
    return offer.handoffs.get(name_of(raw)) if form_of(raw) == FUNCTION else None


def unknown_call(
    items: Sequence[JsonObject], calls: ReplyCalls, offer: OfferedTools
) -> Failure | None:
    """Return why a run cannot go on after a call of something that was not offered.

    A call of a shell, an editor or a computer that the agent does not have ends the run; an unknown
    name becomes an output for the model, unless the run wants an error. A hosted MCP server that
    waits for an approval would wait for ever, and ask again on every turn.
    """
    for raw in items:
        if not calls.has(raw) or tool_of(raw, offer) or handoff_of(raw, offer):
            continue
        if form_of(raw) == MCP_APPROVAL:
            continue
        if FORMS[form_of(raw)].name:
            return nonsense(
                f"The model made a call without a {name_of(raw)} tool, which it was not offered."
            )
        if offer.unknown_is_fatal:
            return nonsense(f"The model called a tool that it was not offered: {name_of(raw)!r}.")
    return None


def program_problem(
    items: Sequence[JsonObject], history: Sequence[Item], calls: ReplyCalls, offer: OfferedTools
) -> Failure | None:
    """Return why a program, or a call by a program that the provider runs, is invalid."""
    has_runner = any(tool.name == PROGRAMS for tool in offer.hosted)
    running: set[str] = set()
    for item in history if has_runner else ():
        if program := program_of(item.raw):
            running.add(program)
        _follow_program(item.raw, running)
    for raw in items:
        program, kind = program_of(raw), raw.get("type")
        if (program or kind in _PROGRAM_ITEMS) and not has_runner:
            return nonsense("The model used programs without a programmatic_tool_calling tool.")
        if kind == "program" and not call_id_of(raw):
            return nonsense("The model wrote a program without a valid call_id.")
        parent = call_id_of(raw) if kind == "program_output" else program
        if parent and parent not in running:
            return nonsense(f"The model used the program {parent!r} without a parent program item.")
        _follow_program(raw, running)
        callee = tool_of(raw, offer) or handoff_of(raw, offer)
        caller = "programmatic" if program else "direct"
        if calls.has(raw) and callee is not None and caller not in callers_of(callee):
            return nonsense(
                f"The model called {name_of(raw)!r} with the caller {caller!r}, but the tool allows "
                f"{', '.join(callers_of(callee))}."
            )
    return None


def _follow_program(raw: JsonObject, running: set[str]) -> None:
    if raw.get("type") == "program_output" and raw.get("status") == "completed":
        running.discard(call_id_of(raw))
    elif raw.get("type") in _PROGRAM_ITEMS:
        running.add(call_id_of(raw))


def without_repeats(
    output: Sequence[JsonObject], history: Sequence[Item], calls: ReplyCalls
) -> tuple[list[JsonObject], Failure | None]:
    """Return the items without repeated calls, and a failure for an invalid call id.

    A call id ties a call, its approval and its side effects together. Used again for another call
    it would mix them up, so that is the model's error.
    """
    ids = {call_id_of(raw) for raw in output if calls.has(raw)}
    earlier = {
        call_id_of(item.raw): item.raw
        for item in history
        if item.kind in CALL_KINDS
        # Long conversations have thousands of calls: nearly all are told apart at once.
        and (str(item.raw.get("call_id", "")) in ids or str(item.raw.get("type")) in OTHER_CALL_IDS)
        and call_id_of(item.raw) in ids
    }
    seen = dict(earlier)
    items: list[JsonObject] = []
    for raw in output:
        if not calls.has(raw):
            items.append(raw)
            continue
        call_id = call_id_of(raw)
        if not call_id:
            return items, nonsense(
                f"The model called {name_of(raw)!r} without a non-empty string call ID."
            )
        if call_id not in seen:
            seen[call_id] = raw
            items.append(raw)
        elif same_call(seen[call_id], raw):
            while items and items[-1].get("type") == "reasoning":  # providers refuse it alone
                items.pop()
        else:
            kind, place = ("completed tool", "") if call_id in earlier else ("", " in one response")
            return items, nonsense(
                f"Each call needs a unique call ID, but the model used the {kind or 'same'} call ID "
                f"{call_id!r} for two different calls{place}."
            )
    return items, None


def nonsense(message: str) -> Failure:
    """Return the failure of an invalid model reply."""
    return Failure(code=failures.MODEL_BEHAVIOR, message=message)
