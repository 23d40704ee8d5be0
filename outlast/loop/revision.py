"""New states from old ones, by the names of the fields that change."""

from dataclasses import fields
from typing import Any, Final, TypedDict, Unpack

from outlast.loop.actions import CancelMode
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms, Remembered
from outlast.loop.aside import Aside
from outlast.loop.calls import Call, TriedModel
from outlast.loop.case import Case
from outlast.loop.checks import Candidate, GuardrailRecord, RequiredStep
from outlast.loop.effects import Effect
from outlast.loop.fork import Fork
from outlast.loop.items import Item, Message
from outlast.loop.notices import Undelivered
from outlast.loop.redacted import Redacted
from outlast.loop.start import Start
from outlast.loop.state import (
    Answer,
    Blocked,
    Compaction,
    Ending,
    Gate,
    GivenUp,
    Hold,
    Ignored,
    ItemsToSave,
    Lent,
    LoopState,
    NestedWaits,
    Outcome,
    Pauses,
    Phase,
    Question,
    Receipt,
    Response,
    SaveFailure,
    Saving,
    Server,
    Storage,
    Words,
)
from outlast.loop.values import Failure, Json, ModelUse, ServerThread, Usage
from outlast.loop.view import View


class Changes(TypedDict, total=False):
    """The fields of a state and of its parts, as a type checker reads them.

    A test compares them with the classes.
    """

    run_id: str
    start: Start
    phase: Phase
    agent: str
    model: str
    required_steps: tuple[RequiredStep, ...]
    context: Json
    items: tuple[Item, ...]
    view: View
    hidden: tuple[int, ...]
    arranged: tuple[tuple[int, ...], ...]
    blocked_from: int | None
    answered_unchecked: tuple[tuple[int, int], ...]
    turns: int
    usage: Usage
    nested_uses: tuple[ModelUse, ...]
    responses: tuple[Response, ...]
    handoff_path: tuple[str, ...]
    inbox: tuple[Message, ...]
    question: Question
    calls: tuple[Call, ...]
    pending: tuple[Effect, ...]
    next_effect: int
    blocked: tuple[Blocked, ...]
    approvals: tuple[ApprovalRequest, ...]
    remembered: tuple[Remembered, ...]
    redacted: tuple[Redacted, ...]
    nested: tuple[NestedWaits, ...]
    gate: Gate | None
    extended: tuple[tuple[int, int], ...]
    lent: tuple[Lent, ...]
    fork: Fork | None
    aside: tuple[Aside, ...]
    case: Case
    wants: tuple[int, ...]
    hold: Hold | None
    given_up: GivenUp | None
    unsaid: tuple[Words, ...]
    pauses: Pauses
    notifies: bool
    notifies_later: bool
    notifies_mentions: bool
    undelivered: tuple[Undelivered, ...]
    answers: tuple[Answer, ...]
    final_output: Json
    failure: Failure | None
    saving: Saving
    server: Server
    storage: Storage
    cancel: CancelMode | None
    closing: Ending | None
    outcome: Outcome | None
    ignored: tuple[Ignored, ...]
    at_ms: int
    line_token: str
    nonces: tuple[tuple[int, str], ...]
    receipts: tuple[Receipt, ...]
    compaction: Compaction
    answering: tuple[str, ...]
    turn: int
    question_from: int
    replies_from: int
    responses_from: int
    tokens_before: int
    began_ms: int
    pauses_ms: int
    unchecked_from: int | None
    guardrails: tuple[GuardrailRecord, ...]
    candidate: Candidate | None
    tool_users: tuple[str, ...]
    starts: bool
    judged: bool
    parallel: int | None
    answer_terms: ApprovalTerms | None
    answer_reason: str | None
    streams: bool
    authors: tuple[str, ...]
    model_at: int
    tried: tuple[TriedModel, ...]
    to_save: tuple[ItemsToSave, ...]
    queued_up_to: int
    skipped_from: int | None
    save_failure: SaveFailure | None
    has_saved: bool
    thread: ServerThread | None
    on_server: int
    stores: bool
    offloaded: int
    inline: int


_PARTS: Final = {
    "question": Question,
    "saving": Saving,
    "server": Server,
    "storage": Storage,
}
_FIELDS: Final = frozenset(field.name for field in fields(LoopState))
_CALL_FIELDS: Final = frozenset(field.name for field in fields(Call))
_PART_OF: Final[dict[str, str]] = {
    field.name: part for part, kind in _PARTS.items() for field in fields(kind)
}
_IN_PARTS: Final = _PART_OF.keys()


def revised(state: LoopState, **changes: Unpack[Changes]) -> LoopState:
    """Return the state with some fields changed, its own or those of its parts.

    Faster than `dataclasses.replace`, which copies every field through the constructor: every event
    makes about ten states, and that took a quarter of the loop's time.

    Raises:
        TypeError: neither the state nor a part of it has such a field.
    """
    newer = object.__new__(LoopState)
    values: dict[str, Any] = vars(newer)
    values.update(vars(state))
    if _IN_PARTS.isdisjoint(changes):
        values.update(changes)
    else:
        copied = set[str]()
        for name, value in changes.items():
            part = _PART_OF.get(name)
            if part is None:
                values[name] = value
                continue
            if part not in copied:
                copied.add(part)
                values[part] = _copy(values[part])
            vars(values[part])[name] = value
    if len(values) > len(_FIELDS):
        raise TypeError(f"LoopState has no {', '.join(sorted(values.keys() - _FIELDS))}")
    return newer


def revised_call(call: Call, **changes: Any) -> Call:
    """Return a call with some fields changed, as `revised` does a state.

    Raises:
        TypeError: calls have no such field.
    """
    if not changes.keys() <= _CALL_FIELDS:
        raise TypeError(f"Call has no {', '.join(sorted(changes.keys() - _CALL_FIELDS))}")
    newer = object.__new__(Call)
    vars(newer).update(vars(call), **changes)
    return newer


def _copy(part: object) -> object:
    newer = object.__new__(type(part))
    vars(newer).update(vars(part))
    return newer
