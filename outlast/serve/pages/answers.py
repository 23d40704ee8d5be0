"""Answers that wait for approval, as a page shows and changes them."""

from dataclasses import dataclass
from typing import Any, cast

from outlast.agents.errors import UserError
from outlast.serve.pages.schema_form import parse_json
from outlast.serve.pages.word_changes import Piece, word_changes
from outlast.views.records import ApprovalRequest, Json, JsonObject
from outlast.views.redaction import Redaction
from outlast.views.run import RunSnapshot, loop_state


@dataclass(frozen=True, slots=True)
class Proposed:
    """The text that the customer gets if somebody approves it.

    Attributes:
        text: the text.
        pieces: how a person has changed what the agent wrote; empty if nobody has.
    """

    text: str
    pieces: tuple[Piece, ...] = ()


def proposed_answer(
    request: ApprovalRequest, state: RunSnapshot, hides: Redaction
) -> Proposed | None:
    """Return the answer that a request is about; None if it is about no text.

    Args:
        request: the request, as its reader may see it.
        state: the run that made it.
        hides: what policies hide from the reader.
    """
    text, gate = answer_of(request), loop_state(state).gate
    if not isinstance(text, str):
        return None
    was = None if gate is None else gate.output
    is_changed = request.edited is not None and not request.terms.redact
    if not is_changed or not isinstance(was, str) or was == text:
        return Proposed(text)
    return Proposed(text, word_changes(hides.text(was), text))


def answer_of(request: ApprovalRequest) -> Json:
    """Return the answer in the arguments of a request; None if there is none to be seen."""
    if request.kind != "output":
        return None
    found = value_of(request)
    return cast("JsonObject", found).get("answer") if isinstance(found, dict) else None


def value_of(request: ApprovalRequest) -> Json:
    """Return the arguments of a request, as its form shows them; an empty object if they are no JSON."""
    try:
        return parse_json(request.arguments or "{}")
    except UserError:
        return {}


def start_of_answer(request: ApprovalRequest) -> Json | None:
    """Return what an answer in its place begins with: the agent's answer, or what the schema has.

    None if there is nothing to begin with.
    """
    if request.kind == "output":
        return answer_of(request)
    properties: Any = (request.terms.response_schema or {}).get("properties")
    rules = cast("JsonObject", properties) if isinstance(properties, dict) else {}
    found = {
        name: cast("JsonObject", one)["default"]
        for name, one in rules.items()
        if isinstance(one, dict) and "default" in one
    }
    return found or None
