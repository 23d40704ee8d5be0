"""Writes what a caller sees of a run as AG-UI events.

A writer knows what its client has and compares it with what there is: text that grows is sent in
pieces, and new messages as they come. The protocol can add to a message but not take anything back,
so whatever else changes is replaced by a snapshot of all messages: a model call that starts over, an
answer that was not approved, a client that comes back with something else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from ag_ui.core import (
    PROTOCOL_VERSION,
    ActivitySnapshotEvent,
    BaseEvent,
    Interrupt,
    MessagesSnapshotEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from outlast.serve.wires.ag_ui_view import (
    OWN,
    Called,
    Part,
    Returned,
    Said,
    as_messages,
)
from outlast.views.records import JsonObject

WAITING: Final = "outlast.waiting"
"""The type of the activity that says what a conversation waits for."""

_WAITING_ID: Final = f"{OWN}waiting"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a stream says about a run beside its messages.

    Attributes:
        state: what is under `outlast` in the state of the front end.
        waiting: the activity: what the run waits for; None if it has never waited.
    """

    state: JsonObject
    waiting: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Why a run of the protocol ends: the conversation waits for somebody, or is over.

    Attributes:
        kind: `failed` means that there is no answer.
        interrupts: what the caller is asked.
        message: why it failed, in words for the caller.
        code: a stable name for programs.
    """

    kind: Literal["done", "interrupt", "cancelled", "failed"]
    interrupts: tuple[Interrupt, ...] = ()
    message: str = ""
    code: str = ""


class EventWriter:
    """Writes the events of one stream.

    Args:
        thread_id: the run.
        run_id: the protocol's run, as the client names it.
        known: what the client has already, in order.
        client_state: the state that the front end has; it keeps its own fields.
        names_version: whether the client knows that the protocol has a version.
    """

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        known: Sequence[Part] = (),
        client_state: object = None,
        *,
        names_version: bool = True,
    ) -> None:
        self._goes_on = False
        self._thread_id = thread_id
        self._run_id = self._first_run_id = run_id
        self._version = PROTOCOL_VERSION if names_version else None
        self._known: list[Part] = list(known)
        kept = cast("JsonObject", client_state) if isinstance(client_state, dict) else {}
        self._client_state: JsonObject = dict(kept)
        self._facts: Facts | None = None
        self._notices: set[str] = set()
        self._open: str | None = None
        self._runs = 0
        self.is_in_run: bool = False

    def go_on(self) -> None:
        """Send what is new event by event, as to a client that has all that came before."""
        self._goes_on = True

    def start(self) -> Iterator[BaseEvent]:
        """Begin a run of the protocol; a stream may have several, one after the other."""
        self._runs += 1
        if self._runs > 1:
            self._run_id = f"{self._first_run_id}.{self._runs}"
        self.is_in_run = True
        yield RunStartedEvent(
            thread_id=self._thread_id, run_id=self._run_id, protocol_version=self._version
        )

    def show(self, parts: Sequence[Part], live: str | None, facts: Facts) -> Iterator[BaseEvent]:
        """Bring the client up to date.

        Args:
            parts: all that it is to have, in order.
            live: the id of the message that is written at the moment; None for none.
            facts: what the run says about itself.
        """
        yield from self._show_parts(parts, live)
        yield from self._show_facts(facts)

    def say(self, text: str) -> Iterator[BaseEvent]:
        """Say something to the caller that is no part of the conversation."""
        own = f"{OWN}notice-{self._run_id}-{len(self._notices)}"
        said = Said(own, "assistant", text, "desk")
        self._notices.add(own)
        yield from self._add(said, live=None)
        self._known.append(said)

    def finish(self, pause: Pause) -> Iterator[BaseEvent]:
        """End the run of the protocol."""
        yield from self._close()
        self.is_in_run = False
        if pause.kind == "failed":
            yield RunErrorEvent(message=pause.message, code=pause.code or None)
            return
        if pause.kind == "interrupt":
            outcome = RunFinishedInterruptOutcome(interrupts=list(pause.interrupts))
        elif pause.kind == "cancelled":
            # Clients from before version 1.0 take an outcome that they do not know for a broken event.
            outcome = None if self._version is None else RunFinishedCancelledOutcome()
        else:
            outcome = RunFinishedSuccessOutcome()
        yield RunFinishedEvent(thread_id=self._thread_id, run_id=self._run_id, outcome=outcome)

    # --- Messages --------------------------------------------------------------------------------

    def _show_parts(self, parts: Sequence[Part], live: str | None) -> Iterator[BaseEvent]:
        wanted = self._with_notices(parts)
        is_first = self._facts is None
        if is_first:
            self._known = _as_wanted(self._known, wanted)
        missing = _missing(self._known, wanted)
        # A client that comes back gets the rest of the text in progress, and else all at once.
        comes_back = is_first and not self._goes_on
        lacks_more = comes_back and any(one.id != live for one in missing or ())
        if missing is None or lacks_more:
            yield from self._close()
            yield from self._replace(wanted)
        else:
            for part in missing:
                yield from self._add(part, live)
            if self._open != live:
                yield from self._close()
        self._known = wanted

    def _replace(self, wanted: Sequence[Part]) -> Iterator[BaseEvent]:
        """Replace all messages.

        A client keeps messages that it has at their places, and puts new ones behind them. Where
        that would be another order, it first gets the messages without those that are in the way.
        """
        before, messages = as_messages(self._known), as_messages(wanted)
        order = [one.id for one in messages]
        kept = [one.id for one in before if one.id in set(order)]
        if order[: len(kept)] != kept:
            both = zip(order, kept, strict=False)
            length = next(at for at, (new, old) in enumerate(both) if new != old)
            yield MessagesSnapshotEvent(messages=messages[:length])
        yield MessagesSnapshotEvent(messages=messages)

    def _with_notices(self, parts: Sequence[Part]) -> list[Part]:
        """Return the parts with what this stream said beside the conversation, at its place.

        What an earlier one said goes when the client comes back.
        """
        wanted = list(parts)
        for at, one in enumerate(self._known):
            if one.id in self._notices:
                wanted.insert(min(at, len(wanted)), one)
        return wanted

    def _add(self, part: Part, live: str | None) -> Iterator[BaseEvent]:
        match part:
            case Said():
                if self._open != part.id:
                    yield TextMessageStartEvent(
                        message_id=part.id, role=part.role, name=part.name or None
                    )
                yield TextMessageContentEvent(message_id=part.id, delta=part.text)
                if part.id == live:
                    self._open = part.id
                else:
                    self._open = None if self._open == part.id else self._open
                    yield TextMessageEndEvent(message_id=part.id)
            case Called():
                yield ToolCallStartEvent(
                    tool_call_id=part.id,
                    tool_call_name=part.name,
                    parent_message_id=part.message_id,
                )
                if part.arguments:
                    yield ToolCallArgsEvent(tool_call_id=part.id, delta=part.arguments)
                yield ToolCallEndEvent(tool_call_id=part.id)
            case Returned():
                yield ToolCallResultEvent(
                    message_id=part.id, tool_call_id=part.call_id, content=part.text
                )

    def _close(self) -> Iterator[BaseEvent]:
        if self._open is not None:
            yield TextMessageEndEvent(message_id=self._open)
            self._open = None

    # --- Facts -----------------------------------------------------------------------------------

    def _show_facts(self, facts: Facts) -> Iterator[BaseEvent]:
        before, self._facts = self._facts, facts
        if before is None:
            yield StateSnapshotEvent(snapshot={**self._client_state, "outlast": facts.state})
        elif before.state != facts.state:
            change: Any = {"op": "add", "path": "/outlast", "value": facts.state}
            yield StateDeltaEvent(delta=[change])
        if facts.waiting is not None and (before is None or before.waiting != facts.waiting):
            yield ActivitySnapshotEvent(
                message_id=_WAITING_ID, activity_type=WAITING, content=facts.waiting
            )


def _as_wanted(known: Sequence[Part], wanted: Sequence[Part]) -> list[Part]:
    """Return what a client says it has, with what does not come back from a client.

    Its own messages are as it wrote them. Names and attachments of others are not compared.
    """
    by_id = {one.id: one for one in wanted if isinstance(one, Said)}
    found: list[Part] = []
    for part in known:
        own = by_id.get(part.id)
        if not isinstance(part, Said) or own is None or own.role != part.role:
            found.append(part)
        elif part.role == "user" and not part.id.startswith(OWN):
            found.append(own)
        else:
            found.append(replace(own, text=part.text))
    return found


def _missing(known: Sequence[Part], wanted: Sequence[Part]) -> list[Part] | None:
    """Return what a client lacks, as parts with the rest of their texts.

    None if it has something else than the beginning of what there is, or if only a snapshot can
    have what it lacks.
    """
    if len(known) > len(wanted):
        return None
    missing: list[Part] = []
    for at, part in enumerate(wanted):
        if at >= len(known):
            if isinstance(part, Said) and part.attachments:
                return None
            missing.append(part)
        elif part is not known[at] and part != known[at]:
            grown = _growth(known[at], part)
            if grown is None:
                return None
            missing.append(grown)
    return missing


def _growth(had: Part, wanted: Part) -> Part | None:
    """Return what was added to a text; None if it did not just grow."""
    if not isinstance(had, Said) or not isinstance(wanted, Said):
        return None
    if replace(had, text="") != replace(wanted, text=""):
        return None
    if not wanted.text.startswith(had.text):
        return None
    return replace(wanted, text=wanted.text[len(had.text) :])
