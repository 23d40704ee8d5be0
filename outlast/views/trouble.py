"""What keeps a run from going on, the same on every surface, and its words.

`troubles` derives it from a state and from facts that a server says; it asks nobody.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from outlast.contract import names
from outlast.edges.rendering import Shown, counted, excerpt, joined, named
from outlast.loop.effects import BACKGROUND, Effect
from outlast.loop.items import Message
from outlast.loop.revision import revised
from outlast.loop.state import LoopState
from outlast.views.redaction import Redaction, redaction_of
from outlast.views.run import AnyState, RunSnapshot, loop_state, snapshot_of

TroubleKind: TypeAlias = Literal[
    "no_server", "no_worker", "untaken", "lacks", "retry", "kept", "unsaved"
]

TAKEN_WITHIN_MS: Final = 1_000
"""A worker that runs takes what waits for it well before this."""

FIRST_MESSAGE: Final = "the first message"

LONGEST_REASON: Final = 600
"""The most characters of a reason in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One thing that keeps a run from going on.

    Attributes:
        kind: `no_server`: the server does not answer. `no_worker`: no worker polls the task queue.
            `untaken`: no worker has taken the first message, or an effect. `lacks`: no worker has
            what an effect needs. `retry`: an effect fails, and is tried again. `kept`: the server
            keeps what somebody sent until a worker takes it. `unsaved`: the session could not be
            saved.
        since_ms: since when, in milliseconds since the epoch; None if that is not known.
        what: what waits or fails: an effect, a decision, a task queue.
        why: the reason, as far as people may read it; empty if there is none.
        attempt: how many attempts have failed.
        next_ms: when the next attempt begins; None if that is not known, or it has begun.
        is_beside: whether the conversation goes on beside it.
    """

    kind: TroubleKind
    since_ms: int | None = None
    what: str = ""
    why: str = ""
    attempt: int = 0
    next_ms: int | None = None
    is_beside: bool = False


# --- What a server says --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTry:
    """An effect that waits for a worker, or whose attempts have failed.

    Attributes:
        effect: the number of the effect; 0 if it has none.
        name: the name of its activity.
        failed: how many attempts have failed.
        why: why the last one did.
        waits_since_ms: since when it waits for a worker; None if a worker has it.
        next_ms: when the next attempt begins; None if it has begun.
        failed_ms: when the last attempt failed; None if none did.
    """

    effect: int
    name: str
    failed: int = 0
    why: str = ""
    waits_since_ms: int | None = None
    next_ms: int | None = None
    failed_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSignal:
    """Something that was sent to a run, and that no workflow task has taken.

    Attributes:
        what: what was sent, and by whom, as its sender says.
        at_ms: when the server had it.
    """

    what: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What a server says about an open run.

    Attributes:
        at_ms: when the server said it, in milliseconds since the epoch; None for now.
        answers: whether the server answers.
        queue: the run's task queue.
        workers: how many workers poll it; None if nobody asked, or the server does not say.
        task_since_ms: since when a workflow task waits for a worker; None if there is none.
        is_begun: whether a workflow task of the run has completed.
        tries: effects that wait for a worker, or whose attempts have failed.
        kept: what no workflow task has taken, oldest first.
        first: the first message of a run that has not begun; None without one.
    """

    at_ms: int | None = None
    answers: bool = True
    queue: str = ""
    workers: int | None = None
    task_since_ms: int | None = None
    is_begun: bool = True
    tries: tuple[PendingTry, ...] = ()
    kept: tuple[KeptSignal, ...] = ()
    first: Message | None = None

    @property
    def asks_again(self) -> bool:
        """Whether something waits here that a worker may take at any moment."""
        return not self.answers or bool(self.tries) or self.task_since_ms is not None


QUIET: Final = ServerFacts()
"""What a server says about a run without trouble."""

SILENT: Final = ServerFacts(answers=False)
"""What is known of a server that does not answer."""


def needs_worker(state: LoopState, facts: ServerFacts) -> bool:
    """Whether a run can only go on with a worker, and not with a person or a message."""
    return state.outcome is None and (state.status == "running" or facts.task_since_ms is not None)


def with_first_message(run: RunSnapshot, facts: ServerFacts) -> RunSnapshot:
    """Return a run with the first message unread, if no worker has begun it.

    Whoever wrote it sees it at once.
    """
    if facts.first is None or run.has_begun or not run.is_open:
        return run
    return snapshot_of(revised(loop_state(run), inbox=(facts.first,)))


# --- What keeps a run from going on --------------------------------------------------------------


def troubles(
    run: AnyState, facts: ServerFacts, now_ms: int, hides: Redaction | None = None
) -> tuple[Trouble, ...]:
    """Return what keeps a run from going on, the most important first.

    Args:
        run: the run.
        facts: what its server says.
        now_ms: the time, in milliseconds since the epoch.
        hides: what the run hides from the reader; default: what it hides from everybody.
    """
    if not facts.answers:
        return (Trouble(kind="no_server"),)
    state = loop_state(run)
    hidden = redaction_of(state) if hides is None else hides
    asked_ms = now_ms if facts.at_ms is None else facts.at_ms
    if state.outcome is not None:
        return tuple(_unsaved(state, hidden))
    return (
        *_no_worker(state, facts),
        *_untaken(state, facts, asked_ms),
        *_lacks(state, hidden),
        *_retries(state, facts, hidden),
        *_kept(facts, asked_ms, hidden),
        *_unsaved(state, hidden),
    )


def _no_worker(state: LoopState, facts: ServerFacts) -> Iterator[Trouble]:
    if facts.workers == 0 and needs_worker(state, facts):
        waits = [facts.task_since_ms, *(one.waits_since_ms for one in facts.tries)]
        since = min((one for one in waits if one is not None), default=None)
        yield Trouble(kind="no_worker", since_ms=since, what=facts.queue)


def _untaken(state: LoopState, facts: ServerFacts, asked_ms: int) -> Iterator[Trouble]:
    since = facts.task_since_ms
    is_first = not facts.is_begun and state.phase == "new"
    if is_first and since is not None and _is_late(since, facts, asked_ms):
        yield Trouble(kind="untaken", since_ms=since, what=FIRST_MESSAGE)
    for one in facts.tries:
        waits = one.waits_since_ms
        if not one.failed and waits is not None and _is_late(waits, facts, asked_ms):
            what, is_beside = _effect(state, one)
            yield Trouble(kind="untaken", since_ms=waits, what=what, is_beside=is_beside)


def _is_late(since_ms: int, facts: ServerFacts, asked_ms: int) -> bool:
    return facts.workers == 0 or asked_ms - since_ms >= TAKEN_WITHIN_MS


def _lacks(state: LoopState, hides: Redaction) -> Iterator[Trouble]:
    effects = {one.effect: one for one in state.pending}
    for one in state.blocked:
        effect = effects.get(one.effect)
        yield Trouble(
            kind="lacks",
            since_ms=one.at_ms,
            what="" if effect is None else _words_of(effect),
            why=hides.text(one.lacks),
            is_beside=effect is not None and effect.kind in BACKGROUND,
        )


def _retries(state: LoopState, facts: ServerFacts, hides: Redaction) -> Iterator[Trouble]:
    for one in facts.tries:
        if one.failed:
            what, is_beside = _effect(state, one)
            yield Trouble(
                kind="retry",
                since_ms=one.failed_ms,
                what=what,
                why=hides.text(one.why),
                attempt=one.failed,
                next_ms=one.next_ms,
                is_beside=is_beside,
            )


def _kept(facts: ServerFacts, asked_ms: int, hides: Redaction) -> Iterator[Trouble]:
    for one in facts.kept:
        if _is_late(one.at_ms, facts, asked_ms):
            yield Trouble(kind="kept", since_ms=one.at_ms, what=hides.text(one.what))


def _unsaved(state: LoopState, hides: Redaction) -> Iterator[Trouble]:
    problem = state.saving.save_failure
    if problem is None:
        return
    items = sum(one.stop - one.start - len(one.dropped) for one in state.saving.to_save)
    yield Trouble(
        kind="unsaved",
        since_ms=problem.at_ms,
        what=counted(items, "item"),
        why=hides.text(problem.failure.message),
        is_beside=True,
    )


_EFFECTS: Final = {
    "prepare_run": "the beginning of the run",
    "call_model": "the model call",
    "cancel_response": "the end of a model call",
    "compact_view": "a summary",
    "check_input": "the check of the message",
    "run_tool": "the tool",
    "clean_up": "the end of the tool",
    "run_agent": "the agent",
    "run_handoff": "the handoff to",
    "finalize_answer": "the check of the answer",
    "save_session": "saving the session",
    "offload_items": "storing large content",
    "keep_line_open": "the line",
    "notify_people": "notifying people",
    "count_hours": "counting the hours of a calendar",
}
"""Effects in words; the name of a tool or an agent follows."""


def _effect(state: LoopState, one: PendingTry) -> tuple[str, bool]:
    """Return an effect in words, and whether the conversation goes on beside it."""
    for effect in state.pending:
        if effect.effect == one.effect:
            return _words_of(effect), effect.kind in BACKGROUND
    return _EFFECTS.get(one.name, named(one.name)), one.name in BACKGROUND


def _words_of(effect: Effect) -> str:
    words = _EFFECTS[effect.kind]
    if effect.kind == "call_model":
        return joined(words, " of ", named(effect.agent))
    name = getattr(effect, "name", "") or getattr(effect, "target", "")
    return joined(words, " ", named(name)) if isinstance(name, str) and name else words


# --- Words ---------------------------------------------------------------------------------------


def trouble_words(trouble: Trouble, now_ms: int | None = None) -> Shown:
    """Return a trouble in words for the team, as sentences in one line.

    Args:
        trouble: the trouble.
        now_ms: the time, for how long it lasts and when the next attempt is; None for words that
            are the same at any time.
    """
    since = trouble.since_ms
    lasts = "" if now_ms is None or since is None else f", for {_span(now_ms - since)}"
    what, why = excerpt(trouble.what), excerpt(trouble.why, LONGEST_REASON)
    match trouble.kind:
        case "no_server":
            return joined("The Temporal server does not answer. This is what was known before.")
        case "no_worker":
            return joined(without_worker(trouble.what))
        case "untaken":
            return joined("No worker has taken ", what, lasts, ".")
        case "lacks":
            return joined("No worker can carry out ", what or "the next step", lasts, _colon(why))
        case "retry":
            failed = joined(f"Attempt {trouble.attempt} of ", what, " failed", _colon(why))
            return joined(failed, " ", _next(trouble, now_ms))
        case "kept":
            kept = joined("The server keeps the ", what, lasts, ": no worker has taken it yet.")
            return joined(kept, " It counts, or is refused, when one does.")
        case "unsaved":
            return joined(what, " could not be saved in the session", lasts, _colon(why))


_SLOW: Final = "The answer takes longer than usual. We keep trying."

_CUSTOMERS: Final[dict[TroubleKind, str]] = {
    "no_server": "This conversation cannot be updated at the moment. What you see may be out of date.",
    "no_worker": "We cannot answer at the moment. Your messages are kept, and the answer comes later.",
    "untaken": "Your message has arrived, and waits for its turn. The answer comes later.",
    "lacks": "We cannot answer at the moment. Your messages are kept, and the answer comes later.",
    "retry": _SLOW,
    "kept": "This takes longer than usual. The conversation goes on by itself.",
    "unsaved": "",
}


def customer_words(trouble: Trouble) -> str:
    """Return a trouble in words for the customer; empty if it does not concern them."""
    if trouble.is_beside:
        return ""
    is_effect = trouble.kind == "untaken" and trouble.what != FIRST_MESSAGE
    return _SLOW if is_effect else _CUSTOMERS[trouble.kind]


def words_for_customer(found: Iterable[Trouble]) -> str:
    """Return the words for the most important trouble that concerns the customer; or nothing."""
    said = (customer_words(one) for one in found)
    return next((one for one in said if one), "")


def without_worker(task_queue: str) -> str:
    """Return what to do for a run whose task queue no worker polls."""
    if task_queue.startswith(names.PROGRAM_QUEUE_PREFIX):
        return (
            "The program that started this run has ended. Run it again, in another terminal, and "
            "the run continues."
        )
    return (
        f"No worker polls the task queue {task_queue!r}, so nothing happens until "
        "you start one: `outlast worker MODULE`."
    )


def _next(trouble: Trouble, now_ms: int | None) -> str:
    at_ms = trouble.next_ms
    if at_ms is None or now_ms is None or at_ms <= now_ms:
        return "It is tried again."
    return f"It is tried again in {_span(at_ms - now_ms)}."


def _colon(why: Shown) -> Shown:
    """Return a reason as the end of a sentence; the end alone without one."""
    if not why:
        return joined(".")
    return joined(": ", why, "" if why.endswith((".", "!", "?")) else ".")


def _span(ms: int) -> str:
    seconds = max(round(ms / 1000), 1)
    if seconds < 100:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else counted(round(minutes / 60), "hour")
