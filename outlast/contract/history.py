"""The history is the event log: its entries become events of the loop here.

The workflow uses the same functions on its input, so that folding a history gives the workflow's
own state. Both treat undecodable entries alike: a signal becomes `SignalUnreadable`, a result
becomes the effect's failure.

The order within one workflow task is the order in which the Temporal SDK delivers: signals, then
updates, then timers, then results of activities, then a request to cancel, then results of local
activities, which arrive while the task runs. Time is the time of the workflow task; a local activity's result
moves it on to its own end.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeAlias, TypeVar, assert_never, cast

from outlast.contract import names
from outlast.contract.effects import failure_of
from outlast.contract.failures import (
    FAILED_ON_CAPABLE_WORKER,
    INTERNAL,
    WORKER_LACKS,
    EngineFailure,
)
from outlast.contract.identity import parse_proof
from outlast.contract.records import (
    LeftRecord,
    RunInput,
    SendRecord,
    Unreadable,
    UnreadableRecordError,
    budgets_of,
    customer_of,
    first_message_of,
    message_of,
    read,
    read_carried,
    reply_times_of,
    resolved_stays_of,
    takeover_of,
)
from outlast.loop.actions import DeliverRecord
from outlast.loop.calls import AgentResult, RequiredApproval
from outlast.loop.checks import LACKS_APPROVAL
from outlast.loop.effects import Effect, EffectAnswered, EffectFailed, NotifyPeople, RunAgent
from outlast.loop.events import (
    BudgetLent,
    CancelRequested,
    ConversationRated,
    EffectBlocked,
    Event,
    LineAttached,
    LineReplied,
    MessageReceived,
    MessageWithdrawn,
    NestedReported,
    PersonActed,
    RetryRequested,
    RunForked,
    RunStarted,
    SignalUnreadable,
    TeamAnswered,
    TimePassed,
    ValueDelivered,
)
from outlast.loop.human_actions import ACTION_NAMED, HumanAction
from outlast.loop.machine import advance
from outlast.loop.notices import ALL_DELIVERED
from outlast.loop.start import Start
from outlast.loop.state import LoopState
from outlast.loop.values import Failure, Json, JsonObject, Usage


def started(run_id: str, record: RunInput, at_ms: int, chain_id: str = "") -> RunStarted:
    """Return the event of a run's start.

    Args:
        run_id: the workflow id.
        record: the input of the run.
        at_ms: the time, in milliseconds since the epoch.
        chain_id: the run id of the first of the run's histories, including those before resets.
    """
    start = Start(
        max_turns=record.max_turns,
        keep_open=record.keep_open or record.awaits_line,
        settings=record.settings,
        context_type=record.context_type,
        started_at_ms=at_ms,
        session=record.session,
        previous_response_id=None if record.thread is None else record.thread.previous_response_id,
        handled=record.handled,
        parent=record.parent,
        chain_id=chain_id,
        customer=customer_of(record.settings),
        takeover=takeover_of(record.settings),
        budgets=budgets_of(record.settings),
        resolved_stays_ms=resolved_stays_of(record.settings),
        reply_times=reply_times_of(record.settings),
    )
    return RunStarted(
        at_ms=at_ms,
        run_id=run_id,
        agent=record.agent,
        message=first_message_of(record, at_ms),
        start=start,
        context=record.context,
        thread=record.thread,
        remembered=record.remembered,
        redacted=record.redacted,
        fork=record.fork,
    )


def start_of(
    run_id: str, record: RunInput, at_ms: int, chain_id: str
) -> RunStarted | RunForked | None:
    """Return the event with which a history begins; None if it continues another one.

    The arguments are those of `started`.
    """
    if record.carried is None:
        return started(run_id, record, at_ms, chain_id)
    if record.fork is None:
        return None
    return RunForked(
        at_ms=at_ms,
        run_id=run_id,
        chain_id=chain_id,
        fork=record.fork,
        settings=record.settings,
    )


_SIGNALS: Final[Mapping[str, type[Event]]] = {
    names.SIGNAL_CANCEL: CancelRequested,
    names.SIGNAL_NESTED: NestedReported,
    names.SIGNAL_LEND: BudgetLent,
    names.SIGNAL_LINE_REPLY: LineReplied,
    names.SIGNAL_ASSIGNED: TeamAnswered,
    names.WITHDRAW: MessageWithdrawn,
}
_UPDATES: Final[Mapping[str, type[Event]]] = {
    names.WITHDRAW: MessageWithdrawn,
    names.UPDATE_RETRY: RetryRequested,
    names.UPDATE_ATTACH_LINE: LineAttached,
    names.UPDATE_RATE: ConversationRated,
}
"""The events of signals and updates that programs send, by name. Each inherits its payload's record."""

_NO_SUCH_SIGNAL: Final = "There is no such signal. Signals: decide, claim, hold, say, release, set_aside, withdraw, cancel."
"""A part of the states to which recorded histories fold, so that later signals are not in it."""

E = TypeVar("E")


def event_of(kind: Callable[..., E], record: Any, at_ms: int, **more: Any) -> E:
    """Return the event of a record that a program sent: the record with its time."""
    sent = {field.name: getattr(record, field.name) for field in fields(record)}
    return kind(at_ms=at_ms, **sent, **more)


def _sent(kind: type[Event], payload: Json | Unreadable, at_ms: int) -> Event:
    """Return the event of a payload: what is read is the record, which has no time of its own."""
    assert kind.__base__ is not None  # noqa: S101  the record
    return event_of(kind, read(kind.__base__, payload), at_ms)


def signalled(
    name: str,
    arguments: Sequence[Json | Unreadable],
    at_ms: int,
    arrived_at_ms: int | None = None,
) -> Event:
    """Return the event of a signal; an unreadable signal has an event, too."""
    # People send `cancel` without input as often as with an empty object.
    payload: Json | Unreadable = arguments[0] if arguments and arguments[0] is not None else {}
    try:
        if name in _SIGNALS:
            return _sent(_SIGNALS[name], payload, at_ms)
        if name == names.DELIVER:
            return _delivered(payload, at_ms, is_checked=False)
        if name in ACTION_NAMED:
            event = _acted(ACTION_NAMED[name], payload, at_ms, is_checked=False)
            return replace(event, arrived_at_ms=arrived_at_ms)
    except UnreadableRecordError as error:
        return SignalUnreadable(at_ms=at_ms, name=f"signal {name}", problem=str(error))
    return SignalUnreadable(at_ms=at_ms, name=f"signal {name}", problem=_NO_SUCH_SIGNAL)


def updated(name: str, arguments: Sequence[Json | Unreadable], at_ms: int) -> Event:
    """Return the event of an accepted update: a worker has checked its proof, if it has one.

    Raises:
        UnreadableRecordError: the update is unreadable or does not exist; it is refused.
    """
    payload: Json | Unreadable = arguments[0] if arguments else None
    if name in ACTION_NAMED:
        return _acted(ACTION_NAMED[name], payload, at_ms, is_checked=True)
    if name == names.UPDATE_SEND:
        return MessageReceived(at_ms=at_ms, message=message_of(read(SendRecord, payload), at_ms))
    if name == names.DELIVER:
        return _delivered(payload, at_ms, is_checked=True)
    if name in _UPDATES:
        return _sent(_UPDATES[name], payload, at_ms)
    known = ", ".join(
        (
            names.UPDATE_SEND,
            names.UPDATE_RETRY,
            *ACTION_NAMED,
            names.WITHDRAW,
            names.DELIVER,
        )
    )
    raise UnreadableRecordError(f"No update {name!r:.80}. Updates: {known}.")


def _acted(
    row: HumanAction[Any], payload: Json | Unreadable, at_ms: int, *, is_checked: bool
) -> PersonActed[Any]:
    """Return the event of a person's action.

    Args:
        row: the action.
        payload: its record.
        at_ms: the time, in milliseconds since the epoch.
        is_checked: a worker accepts the action only if it has verified its proof: it does so for
            updates, and cannot refuse signals.
    """
    action = read(row.record, payload)
    proof = parse_proof(action.proof)
    if proof is None:
        return PersonActed(at_ms=at_ms, action=action)
    # A caller may sign, and say that it only names the sender.
    verified = is_checked and action.method != names.METHOD_NAMED
    return PersonActed(
        at_ms=at_ms, action=action, verified=verified, nonce=proof.nonce, made_at_ms=proof.at_ms
    )


def _delivered(payload: Json | Unreadable, at_ms: int, *, is_checked: bool) -> ValueDelivered:
    """Return the event of a delivery; see `_acted` for `is_checked`."""
    record = read(DeliverRecord, payload)
    if parse_proof(record.proof) is None:
        return event_of(ValueDelivered, replace(record, proof=None), at_ms)
    return event_of(ValueDelivered, record, at_ms, verified=True if is_checked else None)


def answered(effect: Effect, payload: Json | Unreadable, at_ms: int) -> Event:
    """Return the event of an effect's result: an activity's, or a nested run's."""
    number = effect.effect
    if effect.result is None:
        return EffectAnswered(at_ms=at_ms, effect=number, result=None)
    if payload is None and isinstance(effect, NotifyPeople):  # earlier workers told nothing
        return EffectAnswered(at_ms=at_ms, effect=number, result=ALL_DELIVERED)
    try:
        return EffectAnswered(at_ms=at_ms, effect=number, result=read(effect.result, payload))
    except UnreadableRecordError as error:
        failure = Failure(code=INTERNAL, message=str(error))
        return EffectFailed(at_ms=at_ms, effect=number, failure=failure)


def effect_of_nested(nested_id: str) -> int:
    """Return the effect number of a nested run, with which its id ends."""
    _, _, number = nested_id.rpartition("-")
    return int(number) if number.isdecimal() else 0


def failed(
    effect: Effect, engine: EngineFailure, at_ms: int, *, blocked: bool = True
) -> EffectFailed | EffectAnswered[AgentResult] | EffectBlocked:
    """Return the event of a failed activity or nested run; the nested run's usage counts.

    Args:
        effect: the failed effect.
        engine: how it failed.
        at_ms: the time, in milliseconds since the epoch.
        blocked: the effect has already waited for a worker, so it is not blocked again.
    """
    if engine.code == FAILED_ON_CAPABLE_WORKER:
        return EffectBlocked(at_ms=at_ms, effect=effect.effect, lacks="")
    if engine.code == WORKER_LACKS and not blocked:
        return EffectBlocked(at_ms=at_ms, effect=effect.effect, lacks=engine.message)
    failure = failure_of(effect, engine)
    if isinstance(effect, RunAgent) and engine.spent is not None:
        with suppress(UnreadableRecordError):
            usage = read(Usage, engine.spent)
            left = read(LeftRecord, engine.spent)
            lacks = (failure.details or {}).get(LACKS_APPROVAL)
            result = AgentResult(
                status="failed",
                failure=failure,
                usage=usage,
                uses=left.uses,
                remembered=left.remembered,
                redacted=left.redacted,
                spent=left.spent,
                required=None if lacks is None else read(RequiredApproval, lacks),
            )
            return EffectAnswered(at_ms=at_ms, effect=effect.effect, result=result)
    return EffectFailed(at_ms=at_ms, effect=effect.effect, failure=failure)


def is_blocked(state: LoopState, effect: Effect) -> bool:
    """Whether an effect waits for a worker that can carry it out."""
    return any(one.effect == effect.effect for one in state.blocked)


# --- Folding a history ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The workflow started."""

    payload: Json | Unreadable
    chain_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signalled:
    """A signal was delivered; `arrived_at_ms` is when the server had it."""

    name: str
    arguments: tuple[Json | Unreadable, ...]
    arrived_at_ms: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """An update was accepted."""

    name: str
    arguments: tuple[Json | Unreadable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """An activity ended; `local` ones hold their own time, in milliseconds since the epoch."""

    effect: int
    payload: Json | Unreadable = None
    failure: EngineFailure | None = None
    local_end_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired:
    """A timer of the run fired: something may be due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAsked:
    """The engine requested a cancellation of the workflow."""


HistoryEntry: TypeAlias = Started | Signalled | Updated | TimerFired | Resolved | CancelAsked
Rank: TypeAlias = Literal[0, 1, 2, 3, 4, 5, 6]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowTask:
    """The entries that one workflow task delivered, and its time in milliseconds."""

    at_ms: int
    entries: tuple[HistoryEntry, ...]


def rank(entry: HistoryEntry) -> Rank:
    """Return the position of an entry within its workflow task."""
    match entry:
        case Started():
            return 0
        case Signalled():
            return 1
        case Updated():
            return 2
        case TimerFired():
            return 3
        case Resolved():
            return 4 if entry.local_end_ms is None else 6
        case CancelAsked():
            return 5
        case _:
            assert_never(entry)


def fold(
    state: LoopState, run_id: str, tasks: Iterable[WorkflowTask]
) -> Iterator[tuple[Event, LoopState]]:
    """Apply workflow tasks to a state.

    Args:
        state: the state before the tasks.
        run_id: the workflow id.
        tasks: the workflow tasks, oldest first.

    Yields:
        Each event of the loop with the state after it. The start of a run that continues another
        has no event: use `opening` for its first state.
    """
    for task in tasks:
        at_ms = task.at_ms
        for entry in sorted(task.entries, key=rank):
            if isinstance(entry, Resolved) and entry.local_end_ms is not None:
                at_ms = entry.local_end_ms
            event = _event_of(state, run_id, entry, at_ms)
            if event is not None:
                state, _ = advance(state, event)
                yield event, state


def opening(payload: Json | Unreadable) -> LoopState:
    """Return the first state of a workflow: the carried state, or a new one."""
    try:
        record = read(RunInput, payload)
        return read_carried(record.carried) if record.carried is not None else LoopState()
    except UnreadableRecordError:
        return LoopState()


def begins_as_fork(payload: Json | Unreadable) -> bool:
    """Whether the input of a run is the state of another one, from which the run begins anew."""
    return isinstance(payload, dict) and cast("JsonObject", payload).get("fork") is not None


def chain_in(payload: Json | Unreadable) -> str:
    """Return the chain that the input of a nested run names; empty if it names none, or cannot be read."""
    try:
        record = read(RunInput, payload)
    except UnreadableRecordError:
        return ""
    return "" if record.parent is None else record.parent.chain_id


def _event_of(state: LoopState, run_id: str, entry: HistoryEntry, at_ms: int) -> Event | None:
    match entry:
        case Started():
            return _start_of(run_id, entry, at_ms)
        case Signalled():
            return signalled(entry.name, entry.arguments, at_ms, entry.arrived_at_ms)
        case Updated():
            try:
                return updated(entry.name, entry.arguments, at_ms)
            except UnreadableRecordError:
                return None
        case Resolved():
            effect = next((one for one in state.pending if one.effect == entry.effect), None)
            if effect is None:
                return None
            if entry.failure is not None:
                return failed(effect, entry.failure, at_ms, blocked=is_blocked(state, effect))
            return answered(effect, entry.payload, at_ms)
        case TimerFired():
            return TimePassed(at_ms=at_ms)
        case CancelAsked():
            return CancelRequested(at_ms=at_ms)
        case _:
            assert_never(entry)


def _start_of(run_id: str, entry: Started, at_ms: int) -> RunStarted | RunForked | None:
    try:
        record = read(RunInput, entry.payload)
        return start_of(run_id, record, at_ms, entry.chain_id)
    except UnreadableRecordError:
        return None
