"""The words of notifications, without the syntax of any medium.

Headlines are fixed sentences. Everything that customers, models or people have written is in the
details, made visible and cut, and for the medium to escape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, cast

from outlast.edges.rendering import (
    argument_lines,
    counted,
    cut,
    excerpt,
    named,
    visible,
    visible_lines,
)
from outlast.ports.notifier import Notification
from outlast.views.records import ApprovalStatus, NoticeEvent
from outlast.views.words import STATUS

LONGEST_ARGUMENTS: Final = 2_500
"""How many characters of the arguments a message shows."""

ELSEWHERE: Final = "The arguments are too long to be shown whole, so they are not decided here."
"""Takes the place of buttons: nobody decides by arguments that are not all to be seen."""

LONGEST_DETAIL: Final = 300
"""How many characters of any other text are shown."""

MOST_NAMES: Final = 10
"""How many people and groups are named."""

_REMARK: Final = 50
"""How many characters the remark after a cut line has, at most."""

_SHORTEST_LINE: Final = 40
_LONGEST_READ: Final = 1_000_000
"""How many characters of arguments are parsed."""

_HEADLINES: Final[dict[NoticeEvent, str]] = {
    "created": "A decision is needed",
    "changed": "The arguments have changed: a new decision is needed",
    "reminder": "Reminder: a decision is still needed",
    "escalated": "A decision is overdue: further people may decide",
    "expired": "Nobody decided in time",
    "cancelled": "A decision is no longer needed",
    "held": "A person has taken a conversation over",
    "released": "A person has given a conversation back to the agent",
    "waiting": "The user has written, and waits for the person who has the conversation",
    "reply_due": "A customer waits for a reply, and the time is nearly over",
    "reply_late": "A customer waits for a reply, and the time is over",
    "mentioned": "A comment mentions a colleague",
    "quality_low": "Fewer conversations than wanted pass a quality check",
}


@dataclass(frozen=True, slots=True)
class Detail:
    """A line of a notification: a label of ours, and a text that others have written."""

    label: str
    text: str


def headline(notice: Notification) -> str:
    """Return the first line of a notification, which holds no text of others."""
    if notice.event == "decided":
        word = STATUS.get(cast("ApprovalStatus", notice.status), "decided")
        return f"{word[0].upper()}{word[1:]}"
    return _HEADLINES[notice.event]


def details(notice: Notification) -> tuple[Detail, ...]:
    """Return the lines below the headline, except the arguments."""
    shown = {
        "Run": _detail(notice.run_id),
        "By": _detail(named(notice.by or "")),
        "Why": "" if notice.request_id else _detail(notice.reason),
    }
    if notice.event == "mentioned":
        shown |= {"For": audience_text(notice), "Comment": _detail(notice.message)}
    if notice.request_id:
        path = notice.handoff_path[-6:]
        shown = {
            "What": _detail(what_asked(notice)),
            "Tool": _detail(named(notice.name)) if notice.headline else "",
            "Agent": _detail(named(notice.agent)),
            "Handoffs": " → ".join(excerpt(named(one), 60) for one in path) if path[1:] else "",
            "Why": _detail(notice.reason),
            "Effect": _detail(notice.effect),
            "Risk": notice.risk,
            "Run": shown["Run"],
            "Request": _detail(notice.request_id),
            "By": shown["By"],
            "Message": _detail(notice.message),
        }
    if notice.request_id and notice.status == "pending":
        due, quorum = notice.due_at_ms, notice.quorum
        shown["For"] = audience_text(notice)
        shown["Votes"] = f"{notice.votes} of {quorum} people" if quorum > 1 else ""
        shown["Until"] = "" if due is None else _detail(f"{time_text(due)}, {notice.then}")
    return tuple(
        Detail(label, text) for label, text in shown.items() if text or label in {"What", "Agent"}
    )


def what_asked(notice: Notification) -> str:
    """Return what a request asks for: the words of its policy, or the name of the call."""
    return visible(notice.headline) if notice.headline else named(notice.name)


def _detail(text: str | None) -> str:
    return excerpt(text or "", LONGEST_DETAIL)


def audience_text(notice: Notification) -> str:
    """Return who may decide; empty for everybody."""
    names = [*notice.subjects, *(f"the group {one}" for one in notice.groups)]
    shown = [excerpt(named(one), 80) for one in names[:MOST_NAMES]]
    rest = len(names) - len(shown)
    return ", ".join([*shown, *([f"and {rest:,} more"] if rest else [])])


@dataclass(frozen=True, slots=True)
class ShownArguments:
    """Arguments as lines for people."""

    text: str
    is_whole: bool


def arguments_shown(notice: Notification, longest: int = LONGEST_ARGUMENTS) -> ShownArguments:
    """Return the arguments as lines; long ones are cut line by line, so that none hides others."""
    is_read = len(notice.arguments) <= _LONGEST_READ
    lines = argument_lines(notice.arguments) if is_read else None
    if lines is None:
        lines = tuple(visible_lines(notice.arguments))
    text = "\n".join(lines)
    if len(text) <= longest:
        return ShownArguments(text, is_whole=True)
    width = max(longest // len(lines) - _REMARK, _SHORTEST_LINE)
    shortened = "\n".join(cut(line, width) for line in lines)
    return ShownArguments(cut(shortened, longest), is_whole=False)


def is_open(notice: Notification) -> bool:
    """Whether a request waits for a decision that a button or a link can make."""
    return notice.status == "pending" and not {"approve", "reject"}.isdisjoint(notice.allow)


def command_lines(notice: Notification) -> tuple[str, ...]:
    """Return the commands that decide, which are left out if they cannot be shown whole."""
    return tuple(visible(one) for one in notice.commands if len(visible(one)) <= LONGEST_DETAIL)


def time_text(at_ms: int) -> str:
    """Return a time for people."""
    try:
        at = datetime.fromtimestamp(at_ms / 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms after 1970"
    return at.strftime("%Y-%m-%d %H:%M UTC")


def digest_headline(pending: Sequence[Notification]) -> str:
    """Return the first line of a digest."""
    verb = "waits" if len(pending) == 1 else "wait"
    return f"{counted(len(pending), 'request')} {verb} for a decision"


def digest_lines(pending: Sequence[Notification], most: int = 20) -> tuple[Detail, ...]:
    """Return a line for each request of a digest, the most urgent first."""
    urgent = sorted(
        pending, key=lambda one: (one.due_at_ms is None, one.due_at_ms or 0, one.requested_at_ms)
    )
    lines = [
        Detail(
            f"{one.risk} risk",
            f"{excerpt(what_asked(one), 120)} of {excerpt(named(one.agent), 60)}, run "
            f"{excerpt(one.run_id, 120)} "
            f"{excerpt(one.request_id, 40)}"
            + (f", until {time_text(one.due_at_ms)}" if one.due_at_ms is not None else ""),
        )
        for one in urgent[:most]
    ]
    if len(pending) > most:
        lines.append(Detail("And", f"{len(pending) - most:,} more"))
    return tuple(lines)
