"""The proof at the end of the demo, from the shop's ledger and Temporal's history.

Both records are read anew, so the proof does not depend on what the story remembers.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from outlast.client.handle import RunHandle, progress_of
from outlast.contract import names
from outlast.edges.rendering import call_line
from outlast.loop.effects import RunTool
from outlast.loop.items import call_id_of
from outlast.loop.state import CALL_KINDS, OUTPUT_KINDS, LoopState
from outlast.loop.values import Json
from outlast.testing.demo.desk_model import answer_of

EFFECT_OF = {
    "change_address": "address_change",
    "send_courier": "pickup",
    "refund_order": "refund",
    "refund_large_order": "refund",
    "ask_human": "ticket",
}
"""The ledger's name for each tool with side effects; the other tools only read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One side effect, as recorded by the shop."""

    key: str
    effect: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """A tool call with a side effect, according to both records.

    Attributes:
        attempts: how many times a worker started it, according to the history.
        resumed: how many of these took up the call after a wait.
        applied: how many times it happened, according to the shop.
        wanted: how many times it should have happened; None if its output does not say.
    """

    key: str
    what: str
    attempts: int
    resumed: int = 0
    applied: int
    wanted: int | None

    @property
    def expected(self) -> str:
        """How often the side effect should have happened, in words."""
        return "at most 1" if self.wanted is None else str(self.wanted)

    @property
    def is_as_expected(self) -> bool:
        """Whether the side effect happened as often as it should have."""
        return self.applied <= 1 if self.wanted is None else self.applied == self.wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The contents of both records.

    Attributes:
        webhooks: how many deliveries the server kept for the run, according to the history.
        counted: the deliveries that have ended a wait, by id.
    """

    deeds: tuple[Deed, ...]
    strangers: tuple[str, ...]
    message_ids: tuple[str, ...]
    answered: Counter[str]
    calls: Counter[str]
    webhooks: int
    counted: Counter[str]
    events: int
    size_bytes: int
    workers: tuple[str, ...]
    status: str

    def deviations(self, *, interrupted: str, webhook: str) -> list[str]:
        """Return all deviations from the expected result; an empty list is the proof.

        Args:
            interrupted: the key of the call whose worker was killed.
            webhook: the id of the delivery that came twice.
        """
        found = [
            f"{deed.what} was applied {deed.applied} times instead of {deed.expected} ({deed.key})"
            for deed in self.deeds
            if not deed.is_as_expected
        ]
        found += [f"the ledger has the key {key}, which no call has" for key in self.strangers]
        found += [
            f"the message {one} has {self.answered[one]} answers"
            for one in self.message_ids
            if self.answered[one] != 1
        ]
        found += [
            f"the call {one} has {count} outputs" for one, count in self.calls.items() if count != 1
        ]
        victim = next((deed for deed in self.deeds if deed.key == interrupted), None)
        if victim is None or victim.attempts < 2:
            found.append(f"the call {interrupted} was not in progress when its worker was killed")
        if self.webhooks < 2 or self.counted[webhook] != 1:
            found.append(
                f"the webhook {webhook} counted {self.counted[webhook]} times; the server kept "
                f"{self.webhooks} for the run"
            )
        if self.status != "completed":
            found.append(f"the run is {self.status}")
        return found


def ledger(database: Path) -> list[LedgerEntry]:
    """Return the shop's side effects, oldest first; none without a database."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        rows = db.execute("SELECT key, effect, arguments FROM ledger ORDER BY number").fetchall()
    return [LedgerEntry(key=key, effect=effect, arguments=args) for key, effect, args in rows]


def key_of(call: RunTool, chain_id: str) -> str:
    """Return the idempotency key that a call of a run with this first execution passes to the shop."""
    return f"{names.run_key(call.run_id, chain_id)}:{call.call_id}"


async def prove(client: Client, run_id: str, database: Path, message_ids: Sequence[str]) -> Proof:
    """Read the records of a run that has ended."""
    calls, state = await _read_run(client, run_id)
    histories = await _histories(client, run_id)
    attempts = Counter[int]()
    for events in histories:
        attempts.update(_attempts(events))
    entries = ledger(database)
    applied = _applied(database, entries)
    deeds = [
        Deed(
            key=key,
            what=call_line(calls[effects[0]].name, calls[effects[0]].arguments),
            attempts=sum(attempts[one] for one in effects),
            resumed=len(effects) - 1,
            applied=applied[key],
            wanted=_wanted(_output_of(state, calls[effects[0]].call_id)),
        )
        for key, effects in effects_by_key(calls, state.chain_id).items()
    ]
    call_keys = {deed.key for deed in deeds}
    described = await client.get_workflow_handle(run_id).describe()
    return Proof(
        deeds=tuple(deeds),
        strangers=tuple(entry.key for entry in entries if entry.key not in call_keys),
        message_ids=tuple(message_ids),
        answered=Counter(
            one for answer in state.answers if answer.failure is None for one in answer.to
        ),
        calls=_outputs_of_calls(state),
        webhooks=sum(_is_delivery(event) for events in histories for event in events),
        counted=Counter(receipt.delivery_id for receipt in state.receipts),
        events=sum(len(events) for events in histories),
        size_bytes=described.raw_info.history_size_bytes,
        workers=tuple(dict.fromkeys(_workers(histories))),
        status=state.status,
    )


async def _read_run(client: Client, run_id: str) -> tuple[dict[int, RunTool], LoopState]:
    calls: dict[int, RunTool] = {}
    state = LoopState()
    async for progress in progress_of(RunHandle(client, run_id)):
        state = progress.state
        calls |= {one.effect: one for one in state.pending if isinstance(one, RunTool)}
    return calls, state


def effects_by_key(calls: Mapping[int, RunTool], chain_id: str) -> dict[str, list[int]]:
    """Return the effects of each call with a side effect: one more for each wait that has ended."""
    found: dict[str, list[int]] = {}
    for effect, call in calls.items():
        if call.name in EFFECT_OF:
            found.setdefault(key_of(call, chain_id), []).append(effect)
    return found


def _is_delivery(event: HistoryEvent) -> bool:
    is_signal = event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    signal = event.workflow_execution_signaled_event_attributes
    return is_signal and signal.signal_name == names.DELIVER


async def _histories(client: Client, run_id: str) -> list[list[HistoryEvent]]:
    described = await client.get_workflow_handle(run_id).describe()
    histories: list[list[HistoryEvent]] = []
    execution = described.raw_info.first_run_id
    while execution:
        fetched = await client.get_workflow_handle(run_id, run_id=execution).fetch_history()
        events = list(fetched.events)
        histories.append(events)
        last = events[-1].workflow_execution_continued_as_new_event_attributes
        execution = last.new_execution_run_id
    return histories


def _attempts(events: Iterable[HistoryEvent]) -> Counter[int]:
    """Return how often each effect was started, from its last recorded attempt."""
    effects: dict[int, int] = {}
    attempts = Counter[int]()
    for event in events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            if scheduled.activity_type.name.startswith(names.TOOL_PREFIX):
                effects[event.event_id] = int(scheduled.activity_id)
        elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
            started = event.activity_task_started_event_attributes
            if started.scheduled_event_id in effects:
                attempts[effects[started.scheduled_event_id]] += started.attempt
    return attempts


def _workers(histories: Iterable[Iterable[HistoryEvent]]) -> Iterable[str]:
    for events in histories:
        for event in events:
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                yield event.workflow_task_completed_event_attributes.identity


def _applied(database: Path, entries: Iterable[LedgerEntry]) -> Counter[str]:
    """Return how often each key's side effect has happened.

    The ledger has each key at most once, so the other effects are counted in their own tables.
    An address change leaves only its ledger entry.
    """
    applied = Counter[str]()
    counts = {
        "pickup": "SELECT count(*) FROM pickups WHERE ledger_key = :key",
        "refund": "SELECT count(*) FROM refunds WHERE ledger_key = :key",
        "ticket": "SELECT count(*) FROM tickets WHERE ledger_key = :key",
        "address_change": "SELECT count(*) FROM ledger WHERE key = :key",
    }
    for entry in entries:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
            (count,) = db.execute(counts[entry.effect], {"key": entry.key}).fetchone()
        applied[entry.key] += count
    return applied


def _outputs_of_calls(state: LoopState) -> Counter[str]:
    counts = Counter({call_id_of(i.raw): 0 for i in state.items if i.kind in CALL_KINDS})
    counts.update(call_id_of(item.raw) for item in state.items if item.kind in OUTPUT_KINDS)
    return counts


def _output_of(state: LoopState, call_id: str) -> Json:
    for item in state.items:
        if item.kind in OUTPUT_KINDS and call_id_of(item.raw) == call_id:
            return item.raw.get("output")
    return None


def _wanted(output: Json) -> int | None:
    """Return how often a call should have had its effect, according to its output.

    None if the output is a failure text: the effect may have happened before the failure.
    """
    answer: object = answer_of(output) if isinstance(output, str) else output
    return (0 if "error" in answer else 1) if isinstance(answer, dict) else None
