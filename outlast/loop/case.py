"""The case of a conversation: whose it is, how it stands, and what colleagues write about it.

Neither the customer nor the model reads any of it.
"""

from dataclasses import dataclass
from typing import Final

COMMENTS_KEPT: Final = 200
"""The newest comments that a run's state has; its history has all."""

MOST_MENTIONED: Final = 20
"""The most colleagues who hear of a comment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """What a person wrote for colleagues.

    Attributes:
        id: a second comment with the same id is the same comment.
        by: who wrote it.
        text: the words.
        at_ms: when, in milliseconds since the epoch.
        mentions: the colleagues whom it mentions, but for who wrote it.
    """

    id: str
    by: str
    text: str
    at_ms: int
    mentions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyClock:
    """A customer waits for a person's reply.

    Attributes:
        since_ms: since when, in milliseconds since the epoch.
        lasts_ms: how long the reply may take, in hours of the calendar if there is one.
        due_ms: when the time is over; None while no worker has counted the hours.
        warn_ms: when people are warned; None for no warning.
        away: what the customer reads because nobody is there; empty for nothing.
        back_ms: when somebody is there again.
        is_counted: the times need no worker any more.
        warned: people have been warned.
        late: the time is over.
    """

    since_ms: int
    lasts_ms: int
    due_ms: int | None = None
    warn_ms: int | None = None
    away: str = ""
    back_ms: int | None = None
    is_counted: bool = False
    warned: bool = False
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """What the customer thinks of the conversation.

    Attributes:
        score: from 1, the worst, to 5.
        text: why, in their words.
        at_ms: when they said so, in milliseconds since the epoch.
    """

    score: int
    text: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Whose a conversation is, and how it stands.

    Attributes:
        team: the team that it is assigned to; empty for none.
        to: the person that it is assigned to; empty for nobody.
        since_ms: since when it is theirs, in milliseconds since the epoch.
        due_ms: until when they may take it, before the team gives it to the next one; None for no
            limit.
        waits: whether the team has to act: until who took the conversation over gives it back.
        report: the number of the newest report to a team. The team's answer names the one it answers.
        resolved_ms: when a person said that nothing is left to do; None if it is open.
        resolved_by: who said so.
        snoozed_until_ms: when it comes back; None if nobody has put it off.
        tags: the words by which people find it.
        comments: the newest comments, in order.
        links: the ids of other conversations about the same.
        recounted_ms: when a person last let the times of open requests be counted anew.
        reply: the customer waits for a person; None while the last word is ours, and without targets.
        replied: a customer who waited has had a reply.
        rating: what the customer thinks of it; None if they have not said.
    """

    team: str = ""
    to: str = ""
    since_ms: int = 0
    due_ms: int | None = None
    waits: bool = False
    report: int = 0
    resolved_ms: int | None = None
    resolved_by: str = ""
    snoozed_until_ms: int | None = None
    tags: tuple[str, ...] = ()
    comments: tuple[Comment, ...] = ()
    links: tuple[str, ...] = ()
    recounted_ms: int | None = None
    reply: ReplyClock | None = None
    replied: bool = False
    rating: Rating | None = None


NO_CASE: Final = Case()
"""Of a run about whose case nobody has said anything."""


def case_words(before: Case, after: Case) -> str:
    """Return what changed, in words; empty if people see no change."""
    said: list[str] = []
    if (before.team, before.to) != (after.team, after.to):
        whom = " of ".join(one for one in (after.to, after.team) if one)
        said.append(f"assigned to {whom or 'nobody'}")
    if (before.resolved_ms is None) != (after.resolved_ms is None):
        said.append("reopened" if after.resolved_ms is None else "resolved")
    elif before.snoozed_until_ms != after.snoozed_until_ms:
        said.append("back" if after.snoozed_until_ms is None else "snoozed")
    comments = new_comments(before, after)
    words = (("tag", before.tags, after.tags), ("link", before.links, after.links))
    for what, old, new in () if comments else words:  # the tags of a comment are in its text
        said += [f"{what} {one}" for one in new if one not in old]
        said += [f"no {what} {one}" for one in old if one not in new]
    if after.rating is not None and after.rating != before.rating:
        why = f": {after.rating.text}" if after.rating.text else ""
        said.append(f"rated {after.rating.score} of 5{why}")
    said += [f"comment: {one.text}" for one in comments]
    said += ["times counted anew"] if before.recounted_ms != after.recounted_ms else []
    return "; ".join(said)


def new_comments(before: Case, after: Case) -> list[Comment]:
    """Return the comments that came; a state keeps only the newest."""
    known = {one.id for one in before.comments}
    return [one for one in after.comments if one.id not in known]
