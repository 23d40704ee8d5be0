"""A run as it was at one moment: what `RunHandle.state()` returns, and every surface shows."""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from outlast.contract.names import SETTING_FOLLOWS
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.case import Case
from outlast.loop.effects import CallModel
from outlast.loop.items import Item, Message
from outlast.loop.revision import revised
from outlast.loop.spending import described, spent
from outlast.loop.start import Customer
from outlast.loop.state import Answer, Hold, Ignored, LoopState, Outcome, Status
from outlast.loop.values import Failure, Json, Usage
from outlast.views.words import amount_text


class RunSnapshot:
    """A run as it was at one moment, read from its history; it never changes.

    `RunSnapshot()` is a run of which nothing is known yet.

    Two snapshots are equal if the runs had the same state.
    """

    __slots__ = ("_state",)
    _state: LoopState

    def __init__(self) -> None:
        self._state = _UNKNOWN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunSnapshot) and self._state == other._state

    def __hash__(self) -> int:
        return hash((self.run_id, self._state.at_ms, len(self.items)))

    def __repr__(self) -> str:
        return (
            f"RunSnapshot(run_id={self.run_id!r}, status={self.status!r}, agent={self.agent!r}, "
            f"items={len(self.items)}, final_output={self.final_output!r})"
        )

    # --- The run ---------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """The workflow id."""
        return self._state.run_id

    @property
    def chain_id(self) -> str:
        """The first execution of the run, or of the run that all others are nested in.

        It stays the same when the run continues as new or is reset; signed actions of people name
        it.
        """
        return self._state.chain_id

    @property
    def customer(self) -> Customer:
        """The person for whom the run works; one without an id if nobody said."""
        return self._state.start.customer

    @property
    def parent_id(self) -> str | None:
        """The run that it is nested in."""
        parent = self._state.start.parent
        return None if parent is None else parent.run_id

    @property
    def forked_from(self) -> str | None:
        """The run that it, or the one that it is nested in, began as a copy of."""
        return None if self._state.fork is None else self._state.fork.run_id

    @property
    def forked_after(self) -> int | None:
        """The number of the event of that run up to which it was copied."""
        return None if self._state.fork is None else self._state.fork.event

    @property
    def follows(self) -> str | None:
        """The conversation that it follows, which was resolved and had ended."""
        return follows_of(self._state)

    @property
    def started_at_ms(self) -> int:
        """When the run began, in milliseconds since the epoch; 0 if it has not."""
        return self._state.start.started_at_ms

    @property
    def updated_at_ms(self) -> int:
        """When its newest event happened, in milliseconds since the epoch."""
        return self._state.at_ms

    # --- Where it is -----------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """The run works (`running`), waits for people, messages or programs, or how it ended."""
        return self._state.status

    @property
    def is_open(self) -> bool:
        """Whether the run goes on."""
        return self._state.outcome is None

    @property
    def has_begun(self) -> bool:
        """Whether a worker has begun the run."""
        return self._state.phase != "new"

    @property
    def is_ending(self) -> bool:
        """Whether the run takes no more messages: it has ended, or is about to."""
        return self._state.phase in {"closing", "closed"}

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended; None while it is open."""
        return self._state.outcome

    @property
    def agent(self) -> str:
        """The name of the active agent."""
        return self._state.agent

    @property
    def model(self) -> str:
        """The name of the active agent's model."""
        return self._state.model

    @property
    def handoff_path(self) -> tuple[str, ...]:
        """The agents that the conversation went through, in order."""
        return self._state.handoff_path

    @property
    def hold(self) -> Hold | None:
        """The person who has the conversation, and since when; None if agents have it."""
        return self._state.hold

    @property
    def is_held(self) -> bool:
        """Whether a person has the conversation, and the agent's turn is over."""
        return self._state.phase == "held"

    @property
    def waits_outside(self) -> tuple[str, ...]:
        """The names of the deliveries that calls wait for, here and in nested runs."""
        return self._state.deliveries

    # --- What was said and done ------------------------------------------------------------------

    @property
    def items(self) -> tuple[Item, ...]:
        """The transcript, oldest first; it only grows."""
        return self._state.items

    @property
    def unread(self) -> tuple[Message, ...]:
        """The messages that the run has not taken into the transcript yet, oldest first."""
        return self._state.inbox

    @property
    def answering(self) -> tuple[str, ...]:
        """The ids of the messages that the present question consists of."""
        return self._state.question.answering

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The answers so far; of a question that failed, why there is none."""
        return self._state.answers

    @property
    def final_output(self) -> Json:
        """The newest answer, as JSON."""
        return self._state.final_output

    @property
    def failure(self) -> Failure | None:
        """Why the newest message has no answer, or why the run failed."""
        return self._state.failure

    @property
    def context(self) -> Json:
        """The application's context, as JSON."""
        return self._state.context

    @property
    def turns(self) -> int:
        """The number of model calls."""
        return self._state.turns

    @property
    def usage(self) -> Usage:
        """The tokens and requests of the model calls; those of nested runs once they have ended."""
        return self._state.usage

    # --- People ----------------------------------------------------------------------------------

    @property
    def approvals(self) -> tuple[ApprovalRequest, ...]:
        """Every request that the run made, in order, settled ones too."""
        return self._state.approvals

    @property
    def pending_approvals(self) -> tuple[ApprovalRequest, ...]:
        """The requests that wait for a decision, here and as nested runs reported them."""
        return self._state.pending_approvals

    @property
    def case(self) -> Case:
        """Whose the conversation is, how it stands, and what colleagues wrote about it."""
        return self._state.case

    @property
    def ignored(self) -> tuple[Ignored, ...]:
        """The newest signals, updates and decisions that had no effect, and why."""
        return self._state.ignored


_UNKNOWN: Final = LoopState()


class AnyState(Protocol):
    """A `RunSnapshot`, or the loop's state: views are made from either."""

    @property
    def run_id(self) -> str:
        """The workflow id."""
        ...

    @property
    def chain_id(self) -> str:
        """The first execution of the run."""
        ...

    @property
    def handoff_path(self) -> tuple[str, ...]:
        """The agents that the conversation went through."""
        ...


class _Access(RunSnapshot):
    """Reads and sets the state in a snapshot, which nothing else does."""

    @staticmethod
    def fill(state: LoopState) -> RunSnapshot:
        snapshot = RunSnapshot()
        snapshot._state = state  # noqa: SLF001  its own base
        return snapshot

    @staticmethod
    def open(run: RunSnapshot) -> LoopState:
        return run._state  # noqa: SLF001  its own base


def snapshot_of(state: LoopState) -> RunSnapshot:
    """Return the snapshot of a state of the loop."""
    return _Access.fill(state)


def loop_state(run: AnyState) -> LoopState:
    """Return the loop's state of a run, for views and for what acts on runs."""
    if isinstance(run, RunSnapshot):
        return _Access.open(run)
    if isinstance(run, LoopState):
        return run
    raise TypeError(f"{run!r:.80} is no RunSnapshot, as `RunHandle.state()` returns it.")


# --- More of it, for surfaces ---------------------------------------------------------------------


def follows_of(run: AnyState) -> str | None:
    """Return the resolved conversation that a run follows; None if it follows none."""
    found = (loop_state(run).start.settings or {}).get(SETTING_FOLLOWS)
    return found if isinstance(found, str) else None


def with_items(run: RunSnapshot, items: Iterable[Item]) -> RunSnapshot:
    """Return a run with the items of its transcript as they are elsewhere, such as with content."""
    return snapshot_of(revised(loop_state(run), items=tuple(items)))


def own_requests(run: AnyState) -> tuple[ApprovalRequest, ...]:
    """Return the requests of the run itself that wait: for approval, or to give a step up."""
    return loop_state(run).own_requests


def reported_requests(run: AnyState) -> tuple[ApprovalRequest, ...]:
    """Return the requests that nested runs have reported; whoever reaches the server may report."""
    return tuple(one for made in loop_state(run).nested for one in made.requests)


def has_nested(run: AnyState) -> bool:
    """Whether nested runs have reported what they wait for."""
    return bool(loop_state(run).nested)


def turn_in_progress(run: AnyState) -> int:
    """Return the number of the model call that is under way; 0 if none is."""
    state = loop_state(run)
    return state.turns if any(isinstance(one, CallModel) for one in state.pending) else 0


def writes_answer(run: AnyState) -> bool:
    """Whether a model writes: a takeover at once withdraws its unfinished answer."""
    return loop_state(run).phase == "thinking"


def notifies(run: AnyState) -> bool:
    """Whether people hear about the requests and takeovers of the run."""
    return loop_state(run).notifies


def budget_lines(run: AnyState, at_ms: int) -> Iterator[str]:
    """Yield how much of each budget is spent, for people."""
    state = loop_state(run)
    for at, budget in enumerate(state.start.budgets):
        if state.outcome is not None and budget.of == "seconds":
            continue  # the clock goes on after the end
        used, is_money = spent(state, budget, at_ms), budget.of == "cost_micros"
        shown = amount_text(budget.of, used) if is_money else f"{used:,}"
        more = sum(amount for index, amount in state.extended if index == at)
        added = f"{amount_text(budget.of, more)} of it" if is_money else f"{more:,} of them"
        extended = f", {added} added by people" if more else ""
        yield f"{shown} used of {described(state, at)}{extended}"


def remembered_lines(run: AnyState) -> Iterator[str]:
    """Yield the decisions that apply to further calls, for people."""
    for kept in loop_state(run).remembered:
        calls = f"calls of {kept.name} by {kept.agent}"
        same = " with the same arguments" if kept.args_digest is not None else ""
        long = ", for this question" if kept.question is not None else ""
        by = f", by {kept.decision.by}" if kept.decision.by else ""
        yield f"{kept.decision.type} further {calls}{same}{long}{by}"
