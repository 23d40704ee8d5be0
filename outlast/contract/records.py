"""Records that travel as payloads, and their JSON.

Written sparsely (without default values) and read tolerantly (unknown fields are ignored), so that
an older reader can follow a newer writer.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, Literal, TypeVar, cast, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from outlast.contract.effects import EffectRequest
from outlast.contract.names import (
    SCHEMA_VERSION,
    SETTING_AS_TOOL,
    SETTING_BUDGETS,
    SETTING_CUSTOMER,
    SETTING_FOLLOWS,
    SETTING_REPLY_TIMES,
    SETTING_RESOLVED_STAYS,
    SETTING_TAKEOVER,
    SETTINGS_OF_TRACE,
    SIGNAL_LEND,
    SIGNAL_NESTED,
    TRACE,
    question_key,
)
from outlast.contract.stages import Stage
from outlast.loop.approvals import (
    TAKEOVER_TERMS,
    ApprovalTerms,
    Remembered,
)
from outlast.loop.calls import ModelReply
from outlast.loop.canonical import LONGEST_NAME
from outlast.loop.effects import LendBudget, NotifyParent, RunAgent
from outlast.loop.fork import Fork
from outlast.loop.invariants import violations
from outlast.loop.items import Message, SendMode
from outlast.loop.notices import Notice
from outlast.loop.redacted import Redacted
from outlast.loop.spending import model_uses, spent_of_parent
from outlast.loop.start import (
    NOBODY,
    RESOLVED_STAYS_MS,
    Budget,
    Customer,
    Parent,
    ReplyTimes,
)
from outlast.loop.state import LoopState, redacted_in
from outlast.loop.values import (
    DEFAULT_MAX_TURNS,
    Failure,
    Json,
    JsonObject,
    ModelUse,
    ServerThread,
    Usage,
)

T = TypeVar("T")

PAGE_BYTES = 1_500_000
"""The size of one page of a query's answer: well below the 2 MB limit of a payload."""

NOT_INHERITED: Final = frozenset(
    {"hooks", "session", "error_handlers", SETTING_AS_TOOL, SETTING_BUDGETS, SETTING_FOLLOWS}
)
"""Settings that a nested run does not take from its parent."""

ALWAYS_INHERITED: Final = (*SETTINGS_OF_TRACE, SETTING_CUSTOMER, SETTING_TAKEOVER)
"""Settings that a nested run takes from its parent, even if it has settings of its own."""

ANY_FAILURE: Final = "*"
"""Handles every failure except a tool's, which has its own failure rule."""

COMPRESS_QUICKLY_ABOVE_BYTES = 3_000_000
"""Larger states are compressed at a lower level, so that a workflow task takes under a second."""

COMPRESS_ABOVE_BYTES = 250_000
"""Larger states are compressed when a run continues as new."""


LARGEST_UNPACKED_BYTES: Final = 48_000_000
"""The most JSON of a carried state: its content has at most `policies.MAY_BE_CARRIED` characters."""

MOST_PARTS: Final = 4_000_000
"""How many brackets a carried state has at most, in texts too: each may become an object."""

LARGEST_BYTES: Final = 1_900_000
"""Servers record payloads of up to 2 MB. A server delivers a larger update to the run, whose worker
can then never complete its workflow task: the run would be stuck."""

NOT_JSON: Final = (
    "This is not JSON that can be stored: it is damaged, nested too deep, or something else."
)
"""One message for all of these: where a parser gives up depends on the process."""


def too_large(size: int) -> str:
    """Return the message for a message, decision or start that is too large to record."""
    return (
        f"The payload has {size:,} bytes, of at most {LARGEST_BYTES:,}. Split it into several "
        "messages, or store large data elsewhere and send a link."
    )


class UnreadableRecordError(ValueError):
    """A payload is not the expected record; the message names the problem."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A payload without JSON, or that cannot be decoded.

    Attributes:
        problem: what is wrong with the payload; the same text in the workflow and every reader.
    """

    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """The input of the workflow.

    Small enough to be typed by hand in the Temporal UI: `{"agent": "Triage", "input": "Hello"}`.

    Attributes:
        agent: the name of the starting agent.
        input: the user's message: a text, or Responses items.
        message_id: the id of that message.
        context: the application's context as JSON.
        context_type: the registered name of the context's type.
        max_turns: the maximum number of model calls for one answer; None for no limit.
        keep_open: stay open after the answer.
        awaits_line: there is no message yet, and the conversation stays open for a realtime line,
            on which it begins.
        settings: the run's settings, for the activities.
        visibility: the namespace has our search attributes, so the run may set them.
        unlisted: the previous history could not set search attributes, so all are set again.
        session: the run has a session, named in the settings.
        thread: how the provider's server keeps the conversation.
        handled: codes of the failures that a handler may turn into answers.
        parent: the parent of a nested run.
        remembered: the decisions of the parent's conversation that apply to a nested run.
        redacted: the values that the parent hides from people.
        authors: the members of the team who wrote the first message, or what a nested run works
            for.
        carried: the state of the run that this one continues, or is forked from.
        fork: where the run is forked from, which then has these settings. A nested run has that of
            its parent.
        stages: what was under way in that run, and since when.
        schema_version: the version of this record.
    """

    agent: str = ""
    input: str | list[JsonObject] = ""
    message_id: str = "start"
    context: Json = None
    context_type: str | None = None
    max_turns: int | None = DEFAULT_MAX_TURNS
    keep_open: bool = False
    awaits_line: bool = False
    settings: JsonObject | None = None
    visibility: bool = False
    unlisted: bool = False
    session: bool = False
    thread: ServerThread | None = None
    handled: tuple[str, ...] = ()
    parent: Parent | None = None
    remembered: tuple[Remembered, ...] = ()
    redacted: tuple[Redacted, ...] = ()
    authors: tuple[str, ...] = ()
    carried: JsonObject | None = None
    fork: Fork | None = None
    stages: tuple[Stage, ...] | None = None
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        """Refuse an invalid turn limit.

        Raises:
            ValueError: the turn limit is negative.
        """
        if self.max_turns is not None and self.max_turns < 0:
            raise ValueError("max_turns must be a positive number, or null for no limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRecord:
    """The payload of the update `send`: a message with its id, and how the run answers it."""

    input: str | list[JsonObject]
    message_id: str
    mode: SendMode = "steer"
    stream: bool = False
    caller: str = ""
    author: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRecord:
    """The input of the workflow that sends a scheduled message.

    The id of the message is that of the workflow, which holds the scheduled time.

    Attributes:
        run_id: the conversation.
        input: the message: a text, or Responses items.
        mode: when a busy run takes it.
        stream: stream the model calls for the answer.
        author: the member of the team who wrote it; empty for nobody.
        start: the start of the conversation where it is not open, without its first message; None
            if a schedule must not start it.
        digest: tells whether another start with that id means the same run.
    """

    run_id: str
    input: str | list[JsonObject]
    mode: SendMode = "steer"
    stream: bool = False
    author: str = ""
    start: RunInput | None = None
    digest: str = ""


def signal_of(command: NotifyParent | LendBudget) -> tuple[str, str, JsonObject]:
    """Return the receiver, the name and the payload of a signal between a run and its parent."""
    if isinstance(command, LendBudget):
        return command.nested_id, SIGNAL_LEND, write(command.record)
    return command.parent, SIGNAL_NESTED, write(command.record)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticesRecord:
    """The input of the workflow that delivers notices after the end of a run."""

    run_id: str
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrandRecord:
    """The input of the workflow `Errand`: an operation, and the wait that gets its result.

    Attributes:
        run_id: the run whose call waits; the next four fields name the wait, as in `DeliverRecord`.
        workflow: the type of a workflow, to execute as a child; empty for a Nexus operation.
        workflow_id: the id of that workflow.
        task_queue: its task queue; empty for that of the run.
        endpoint: the Nexus endpoint; `service` and `operation` are names, too.
        arguments: of the workflow, or the one of the operation.
    """

    run_id: str
    question: int
    turn: int
    call_id: str
    name: str
    workflow: str = ""
    workflow_id: str = ""
    task_queue: str = ""
    endpoint: str = ""
    service: str = ""
    operation: str = ""
    arguments: tuple[Json, ...] = ()


def notices_records(run_id: str, notices: Sequence[Notice]) -> list[JsonObject]:
    """Return the inputs of the workflows that deliver notices, each small enough to be sent."""
    found: list[list[Notice]] = []
    room = 0
    for notice in notices:
        size = len(_text(write(notice)))
        if size > PAGE_BYTES:
            notice, size = _without_content(notice), 0  # noqa: PLW2901  the same notice, smaller
        if not found or size > room:
            found.append([])
            room = PAGE_BYTES
        found[-1].append(notice)
        room -= size
    return [write(NoticesRecord(run_id=run_id, notices=tuple(one))) for one in found]


def _without_content(notice: Notice) -> Notice:
    """Return a notice without the parts of its request that may be of any size."""
    if notice.request is None:
        return notice
    small = replace(
        notice.request, arguments='"[too large]"', schema=None, edited=None, votes=(), decision=None
    )
    return replace(notice, request=small)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResultRecord:
    """The workflow's result: small, because the transcript is in the history.

    `uses` is what each agent used of each model, for lists of runs and for the parent. `context` is
    the parent's, for a nested run, as are the decisions in `remembered`, the values in `redacted`
    and the budgets in `spent`.
    """

    status: Literal["completed", "failed", "cancelled"]
    agent: str
    final_output: Json = None
    failure: Failure | None = None
    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    uses: tuple[ModelUse, ...] = ()
    context: Json = None
    remembered: tuple[Remembered, ...] = ()
    redacted: tuple[Redacted, ...] = ()
    spent: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftRecord:
    """What a failed run leaves its parent, and lists of runs, beside its usage.

    Attributes:
        uses: what each agent used of each model.
        remembered: what people decided in it.
        redacted: the values that it hides from people.
        spent: what it has spent of each budget of the parent, by the budget's index.
    """

    uses: tuple[ModelUse, ...] = ()
    remembered: tuple[Remembered, ...] = ()
    redacted: tuple[Redacted, ...] = ()
    spent: tuple[tuple[int, int], ...] = ()


def spent_of(state: LoopState) -> JsonObject:
    """Return what a failed run leaves, as a detail of its failure."""
    written = write(state.usage)
    if uses := model_uses(state):
        written["uses"] = [write(one) for one in uses]
    if state.start.parent is None:
        return written
    if state.remembered:
        written["remembered"] = [write(one) for one in state.remembered]
    if redacted := redacted_in(state):
        written["redacted"] = [write(one) for one in redacted]
    if spent := spent_of_parent(state):
        written["spent"] = [list(one) for one in spent]
    return written


def customer_of(settings: JsonObject | None) -> Customer:
    """Return the person for whom a run works; `NOBODY` if its settings do not say.

    Raises:
        UnreadableRecordError: the setting does not fit.
    """
    written: Json = (settings or {}).get(SETTING_CUSTOMER)
    return NOBODY if written is None else read(Customer, written)


def takeover_of(settings: JsonObject | None) -> ApprovalTerms:
    """Return who may take a conversation over.

    Raises:
        UnreadableRecordError: the setting does not fit.
    """
    terms: Json = (settings or {}).get(SETTING_TAKEOVER)
    return TAKEOVER_TERMS if terms is None else read(ApprovalTerms, terms)


def budgets_of(settings: JsonObject | None) -> tuple[Budget, ...]:
    """Return the budgets of a run.

    Raises:
        UnreadableRecordError: the setting does not fit.
    """
    written: Json = (settings or {}).get(SETTING_BUDGETS)
    return () if written is None else read(tuple[Budget, ...], written)


def resolved_stays_of(settings: JsonObject | None) -> int:
    """Return how long a resolved conversation stays open, in milliseconds.

    Raises:
        UnreadableRecordError: the setting does not fit.
    """
    written: Json = (settings or {}).get(SETTING_RESOLVED_STAYS)
    return RESOLVED_STAYS_MS if written is None else read(int, written)


def reply_times_of(settings: JsonObject | None) -> ReplyTimes | None:
    """Return how soon a person replies; None without targets.

    Raises:
        UnreadableRecordError: the setting does not fit.
    """
    written: Json = (settings or {}).get(SETTING_REPLY_TIMES)
    return None if written is None else read(ReplyTimes, written)


def messages_of(content: str | list[JsonObject]) -> tuple[JsonObject, ...]:
    """Return input as Responses items; a text is one user message."""
    if isinstance(content, str):
        return ({"content": content, "role": "user"},)  # the order of fields as in the Agents SDK
    return tuple(content)


MOST_OF_CALLER: Final = 55
"""The length of a `traceparent`."""


def message_of(record: SendRecord, at_ms: int) -> Message:
    """Return the message in a record."""
    content, caller = messages_of(record.input), record.caller[:MOST_OF_CALLER]
    authors = (record.author[:LONGEST_NAME],) if record.author else ()
    return Message(record.message_id, content, at_ms, record.mode, record.stream, caller, authors)


def first_message_of(record: RunInput, at_ms: int) -> Message | None:
    """Return the message that a run starts with, if it has one."""
    if record.awaits_line:
        return None
    content = messages_of(record.input)
    return Message(record.message_id, content, at_ms, authors=record.authors)


def write(record: object) -> JsonObject:
    """Return a record as JSON, without the fields that have their default.

    A run's input always holds its schema version, which older readers need. A model's reply, of
    which a history has one for each turn, also leaves out what follows from its other fields.
    """
    written: JsonObject = adapter(_schema(record)).dump_python(
        record, mode="json", exclude_defaults=True
    )
    if isinstance(record, RunInput):
        written["schema_version"] = record.schema_version
    if isinstance(record, ModelReply):
        _leave_out_implied(record, written)
    return written


def write_json(record: object) -> bytes:
    """Return a record as JSON text, as `write` does."""
    try:
        if isinstance(record, ModelReply | RunInput):
            return to_json(write(record))
        return adapter(_schema(record)).dump_json(record, exclude_defaults=True)
    except ValueError:  # a lone surrogate, which only ASCII escapes can express
        return _text(write(record)).encode()


def _leave_out_implied(reply: ModelReply, written: JsonObject) -> None:
    if usage := written.get("usage"):
        for name, implied in _implied_counts({**usage, "requests": reply.usage.requests}).items():
            if (count := getattr(reply.usage, name)) == implied:
                usage.pop(name, None)
            else:
                usage[name] = count
    for call, plan in zip(written.get("calls", ()), reply.calls, strict=True):
        if plan.policy.defers:
            call["policy"].pop("fast", None)
            if not plan.policy.fast:
                call["policy"]["fast"] = False


def _implied_counts(usage: JsonObject) -> dict[str, int]:
    """Return the counts of a model call that it has where its record does not say otherwise."""
    tokens = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    total = sum(one for one in tokens if isinstance(one, int))  # others are refused later
    counts = {"requests": 1, "total_tokens": total}
    if "cost_micros" in usage:
        counts["priced"] = usage.get("requests", 1)
    return counts


def _with_implied(payload: JsonObject) -> JsonObject:
    """Return a model's reply with what its record leaves out."""
    whole = dict(payload)
    usage, calls = payload.get("usage"), payload.get("calls")
    if isinstance(usage, dict):
        whole["usage"] = {**_implied_counts(cast("JsonObject", usage)), **usage}
    if isinstance(calls, list):
        whole["calls"] = [_with_implied_policy(one) for one in cast("list[Json]", calls)]
    return whole


def _with_implied_policy(call: Json) -> Json:
    if not isinstance(call, dict):
        return call
    fields = cast("JsonObject", call)
    policy: Json = fields.get("policy")
    if not isinstance(policy, dict) or not cast("JsonObject", policy).get("defers"):
        return fields
    return {**fields, "policy": {"fast": True, **cast("JsonObject", policy)}}


def read(kind: type[T], payload: Json | Unreadable) -> T:
    """Return the record in a payload.

    Raises:
        UnreadableRecordError: the payload does not fit; the message names each wrong field.
    """
    if isinstance(payload, Unreadable):
        raise UnreadableRecordError(payload.problem)
    version = cast("JsonObject", payload).get("schema_version") if isinstance(payload, dict) else 0
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise UnreadableRecordError(
            f"A newer version of outlast wrote this record (schema {version}; this version reads "
            f"up to {SCHEMA_VERSION}). Upgrade the worker."
        )
    if kind is ModelReply and isinstance(payload, dict):
        payload = _with_implied(cast("JsonObject", payload))
    written, schema = _as_json(payload), adapter(kind)
    try:
        return cast("T", schema.validate_json(written))
    except ValidationError:
        pass  # what is wrong is said of the values, in words that states have recorded
    try:
        return cast("T", schema.validate_python(from_json(written)))
    except ValidationError as error:
        raise UnreadableRecordError(_explain(kind, error)) from None
    except ValueError:  # it is nested too deep
        raise UnreadableRecordError(NOT_JSON) from None


def _as_json(payload: Json) -> bytes:
    """Return a payload as JSON that can be written again.

    Lone surrogates are replaced, and NaN and infinities become null: people and programs send them,
    but a run must be able to carry its state on.

    Raises:
        UnreadableRecordError: the payload is no JSON.
    """
    try:
        return to_json(payload, inf_nan_mode="null")
    except ValueError:
        pass
    try:
        return json.dumps(payload, ensure_ascii=False).encode(errors="replace")
    except (ValueError, TypeError, RecursionError):
        raise UnreadableRecordError(NOT_JSON) from None


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the schema of a record; cached, because building takes milliseconds."""
    return TypeAdapter(kind)


def _schema(record: object) -> Any:
    """Return the type that writes a record; a request is written by its kind of effect."""
    if isinstance(record, EffectRequest):
        return EffectRequest[type(cast("EffectRequest[Any]", record).effect)]
    return type(record)


def write_state(state: object) -> JsonObject:
    """Return a state as JSON, compressed if large: a payload is limited to 2 MB."""
    schema = adapter(type(state))
    try:
        data = schema.dump_json(state)
    except ValueError:  # a lone surrogate, which only ASCII escapes can express
        data = _text(schema.dump_python(state, mode="json")).encode()
    if len(data) <= COMPRESS_ABOVE_BYTES:
        written: JsonObject = json.loads(data)
        return written
    level = 1 if len(data) > COMPRESS_QUICKLY_ABOVE_BYTES else 6
    return {"zlib": base64.b64encode(zlib.compress(data, level)).decode()}


def read_written(kind: type[T], payload: JsonObject, name: str) -> T:
    """Return the state that `write_state` has written; errors call it by a name.

    Raises:
        UnreadableRecordError: the payload does not fit.
    """
    try:
        if "zlib" in payload:
            payload = json.loads(_unpacked(base64.b64decode(str(payload["zlib"]))))
        return cast("T", adapter(kind).validate_python(payload))
    except ValidationError as error:
        raise UnreadableRecordError(_explain(name, error)) from None
    except (ValueError, RecursionError, zlib.error) as error:
        raise UnreadableRecordError(f"The carried state cannot be unpacked: {error}") from None


def read_state(payload: JsonObject) -> LoopState:
    """Return the state of a run in a payload.

    Raises:
        UnreadableRecordError: the payload does not fit.
    """
    state = read_written(LoopState, payload, "RunState")
    if state.phase == "new":
        raise UnreadableRecordError("The carried RunState has not started.")
    return state


def _unpacked(data: bytes) -> bytes:
    """Return compressed JSON, of at most `LARGEST_UNPACKED_BYTES`.

    Raises:
        ValueError: it is larger, has more parts than any state, or is cut off.
        zlib.error: it is not compressed data.
    """
    unpacking = zlib.decompressobj()
    unpacked = unpacking.decompress(data, LARGEST_UNPACKED_BYTES)
    if not unpacking.eof:
        raise ValueError(f"it is cut off, or has more than {LARGEST_UNPACKED_BYTES:,} bytes")
    if unpacked.count(b"[") + unpacked.count(b"{") > MOST_PARTS:
        raise ValueError(f"it has more than {MOST_PARTS:,} lists and objects")
    return unpacked


def read_carried(payload: JsonObject) -> LoopState:
    """Return the state that a workflow continues from, after checks: anybody may write one.

    Raises:
        UnreadableRecordError: the state does not fit, has ended, or would be stuck.
    """
    state = read_state(payload)
    if state.phase == "closed":
        raise UnreadableRecordError("The carried RunState has ended, so it cannot be continued.")
    if broken := violations(state):
        raise UnreadableRecordError(f"The carried RunState breaks an invariant: {broken[0]}.")
    return state


def nested_input(effect: RunAgent, *, visibility: bool) -> RunInput:
    """Return the input of a nested run.

    Without settings of its own, it takes those of its parent, except `NOT_INHERITED`. Some always
    come from the parent.
    """
    nested, parent = effect.nested, effect.settings or {}
    call: JsonObject = {
        "agent": effect.agent,
        "tool": effect.name,
        "call_id": effect.call_id,
        "arguments": effect.arguments,
    }
    if effect.evidence is not None:
        call["evidence"] = write(effect.evidence)
    if "hooks" in parent:
        call["hooks"] = parent["hooks"]
    call[TRACE] = _place_in_trace(effect)
    if nested.settings is not None:  # then the trace's name may not be the workflow's
        call[TRACE]["task"] = nested.settings.get("workflow_name")
    settings = nested.settings
    if settings is None:
        settings = {name: value for name, value in parent.items() if name not in NOT_INHERITED}
    else:
        settings = settings | {name: parent[name] for name in ALWAYS_INHERITED if name in parent}
    if effect.budgets:
        own = budgets_of(settings)
        settings = settings | {SETTING_BUDGETS: [write(one) for one in (*own, *effect.budgets)]}
    return RunInput(
        agent=effect.target,
        message_id=effect.call_id,
        context=effect.context,
        context_type=effect.context_type,
        max_turns=nested.max_turns,
        settings={**settings, SETTING_AS_TOOL: call},
        session=nested.session,
        thread=nested.thread,
        handled=(ANY_FAILURE,),
        parent=Parent(
            run_id=effect.run_id,
            prefix=f"{effect.prefix}e{effect.effect}.",
            chain_id=effect.chain_id,
            question=effect.root_question,
        ),
        remembered=effect.remembered,
        redacted=effect.redacted,
        authors=effect.authors,
        visibility=visibility,
        fork=effect.fork,
    )


def _place_in_trace(effect: RunAgent) -> JsonObject:
    """Return the question and effect of the call that a nested run answers, and the root question."""
    around: JsonObject = (effect.settings or {}).get(SETTING_AS_TOOL) or {}
    parent: JsonObject = around.get(TRACE) or {}
    key = question_key(effect.run_id, effect.started_at_ms, effect.question)
    place: JsonObject = {"key": key, "effect": effect.effect}
    if root := parent.get("root", parent.get("key")):
        place["root"] = root
    return place


def small(record: object, limit_bytes: int) -> bytes | None:
    """Return a record as JSON text if it is small enough for history, else None."""
    written = write_json(record)
    return written if len(written) <= limit_bytes else None


def page_of(data: str, page: int) -> JsonObject:
    """Return one page of a long answer to a query, and whether more pages follow."""
    start = page * PAGE_BYTES
    return {"data": data[start : start + PAGE_BYTES], "more": len(data) > start + PAGE_BYTES}


def dump(record: object) -> str:
    """Return a record as JSON text, to be cut into pages."""
    return _text(adapter(_schema(record)).dump_python(record, mode="json"))


def load(kind: Any, pages: Sequence[str]) -> Any:
    """Return the record from the pages of its JSON text."""
    return adapter(kind).validate_python(json.loads("".join(pages)))


def _text(value: Json) -> str:
    """Return JSON as ASCII text.

    Its length is then its size in bytes, and a lone surrogate, which a model may write, does not
    fail a workflow task.
    """
    return json.dumps(value, separators=(",", ":"))


def _explain(kind: Any, error: ValidationError) -> str:
    problems = "; ".join(
        f"{'.'.join(str(part) for part in one['loc']) or 'the payload'}: {one['msg']}"
        for one in error.errors()[:5]
    )
    return f"This is not a {_named(kind)}: {problems}."


def _named(kind: Any) -> str:
    arguments = get_args(kind)
    return f"request of {arguments[0].__name__}" if arguments else getattr(kind, "__name__", kind)
