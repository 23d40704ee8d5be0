"""Counts the moves of random runs by kind, and those that have an effect.

`PYTHONPATH=. python tests/laws/tally.py [runs]` plays runs and prints the table.
"""

import sys
from collections import Counter
from itertools import zip_longest
from typing import TYPE_CHECKING

from outlast.loop.actions import (
    CaseAction,
    ClaimAction,
    HoldAction,
    ReleaseAction,
    SayAction,
    SetAsideAction,
)
from outlast.loop.approvals import Decision
from outlast.loop.effects import EffectFailed
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
    SignalUnreadable,
    TeamAnswered,
    TimePassed,
    ValueDelivered,
)
from outlast.loop.state import LoopState, has_message
from tests.laws.step_laws import is_due

if TYPE_CHECKING:
    from tests.laws.driver import Play


class Tally:
    """Counts the moves of all runs of a process."""

    def __init__(self) -> None:
        self.runs = 0
        self.taken: Counter[str] = Counter()
        self.effective: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()

    def count(self, play: "Play", event: Event) -> None:
        """Count the newest event of a run.

        Args:
            play: the run after the event.
            event: the event.
        """
        before, after = play.before, play.state
        name = label(before, event, play.events[-2].at_ms)
        self.runs += len(play.events) == 2
        self.taken[name] += 1
        self.effective[name] += has_effect(before, after)
        if len(after.ignored) > 0 and after.ignored is not before.ignored:
            self.refusals[reason(after.ignored[-1].why)] += 1
        for old, new in zip_longest(before.approvals, after.approvals):
            if old is None:
                self.outcomes[f"{new.kind}: requested"] += 1
            if new.status != "pending" and (old is None or old.status == "pending"):
                by = "" if new.decision else f" (on_expiry={new.terms.on_expiry})"
                is_cancelled = new.status in {"cancelled", "superseded"}
                self.outcomes[f"{new.kind}: {new.status}{'' if is_cancelled else by}"] += 1
            if old is not None and new.escalated > old.escalated:
                self.outcomes[f"{new.kind}: escalated"] += 1
            if old is not None and new.reminders > old.reminders:
                self.outcomes[f"{new.kind}: reminded"] += 1


def has_effect(before: LoopState, after: LoopState) -> bool:
    """Whether anything but the list of ignored events changed."""
    return any(
        getattr(after, name) is not getattr(before, name)
        for name in LoopState.__dataclass_fields__
        if name != "ignored"
    )


def label(before: LoopState, event: Event, last_ms: int) -> str:  # noqa: C901, PLR0911, PLR0912  one of each
    """Return the row of a table for an event."""
    if before.phase == "closed":
        return "anything after the end of the run"
    match event:
        case PersonActed(action=Decision() as decision):
            found = [one for one in before.approvals if one.id == decision.request_id]
            waits = found and found[0].status == "pending"
            what = found[0].kind if waits else "a request that is settled or unknown"
            kept = " and remember" if decision.remember else ""
            return f"{decision.type}{kept}: {what}" if waits else f"decide {what}"
        case PersonActed(action=ClaimAction() as claim):
            return "claim by force" if claim.force else "claim" if claim.minutes else "unclaim"
        case TimePassed():
            if event.at_ms < last_ms:
                return "time jumps back"
            due = is_due(before, event.at_ms)
            return "time passes, something is due" if due else "time passes, nothing is due"
        case PersonActed(action=HoldAction() as hold) if hold.to or hold.force:
            return "hand a hold over" if hold.to else "hold by force"
        case PersonActed(action=HoldAction(mode=mode)):
            return f"hold, {mode}"
        case PersonActed(action=SayAction()):
            return "say"
        case PersonActed(action=ReleaseAction(to=to)):
            return "release to another agent" if to else "release"
        case PersonActed(action=SetAsideAction(back=back)):
            return "take back" if back else "set aside"
        case PersonActed(action=CaseAction(do=do)):
            return f"case: {do}"
        case PersonActed():
            raise AssertionError(f"{event.action} has no row here")
        case MessageReceived() if has_message(before, event.message.id):
            return "message, repeated"
        case MessageReceived():
            return f"message, {event.message.mode}"
        case MessageWithdrawn():
            return "withdraw a message"
        case ValueDelivered():
            early = all(one.status != "parked" for one in before.calls)
            return "deliver, while nothing waits" if early else "deliver"
        case CancelRequested():
            return f"cancel, {event.mode}"
        case RetryRequested():
            return "retry"
        case LineAttached() | LineReplied():
            return "realtime line"
        case NestedReported():
            return "nested run reports"
        case BudgetLent():
            return "the parent lends more"
        case ConversationRated():
            return "the customer rates it"
        case TeamAnswered():
            return "the team answers"
        case SignalUnreadable():
            return "unreadable signal"
        case EffectFailed() | EffectBlocked():
            return "an effect fails or is blocked"
        case _:
            return "an effect is answered"


REASONS = (
    "is already",
    "for other arguments",
    "cannot be decided with",
    "cannot be remembered for",
    "cannot be remembered where",
    "proved who they are",
    "needs the name",
    "asked for this",
    "may not do this",
    "has decided already",
    "is working on it",
    "of at most",
    "needs edited_arguments",
    "edited arguments do not fit",
    "response does not fit",
    "claimed by name",
    "has no approval",
    "has the conversation. Only who has it",
    "Nobody has the conversation",
    "The turn of",
    "No such message",
    "comes too late",
    "came first",
    "No call waits",
    "The value for",
)
"""Parts of the sentences with which people are refused."""


def reason(why: str) -> str:
    """Return the part of a sentence that all refusals of its kind share."""
    return next((one for one in REASONS if one in why), "another reason")


def table(tally: Tally) -> str:
    """Return the counts as tables for people."""
    lines = [f"{tally.runs:,} runs, {sum(tally.taken.values()):,} moves", ""]
    lines += [f"{'move':52} {'taken':>7} {'effect':>7} {'share':>6}"]
    for name, taken in sorted(tally.taken.items()):
        effective = tally.effective[name]
        lines.append(f"{name:52} {taken:7,} {effective:7,} {effective / taken:6.0%}")
    for title, counts in (("requests", tally.outcomes), ("refused because", tally.refusals)):
        lines += ["", title, *(f"{name:52} {count:7,}" for name, count in sorted(counts.items()))]
    return "\n".join(lines)


TALLY = Tally()
"""The moves of this process."""


def played(runs: int) -> Tally:
    """Play the same runs as every time, and return what they were made of."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    from tests.laws.strategies import TALLY, Script, play_script, scripts

    TALLY.__init__()

    @seed(1)
    @settings(
        max_examples=runs,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(scripts())
    def plays(script: Script) -> None:
        play_script(script)

    plays()
    return TALLY


if __name__ == "__main__":
    # By its own name, because the strategies count there.
    from tests.laws import tally

    print(table(tally.played(int(sys.argv[1]) if len(sys.argv) > 1 else 500)))  # noqa: T201
