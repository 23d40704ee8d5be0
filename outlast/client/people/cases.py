"""What colleagues do with a conversation: whose it is, what they write about it, and how it stands."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from outlast.agents.approvals.policy_file import calendar_of_file
from outlast.agents.calendars import Calendar
from outlast.agents.checks import check_printable
from outlast.agents.errors import RunClosed, UserError
from outlast.client.people.actions import By, People, person_of
from outlast.contract import names, records
from outlast.edges.clock import ms_of, now, now_ms, time_if_any
from outlast.loop.actions import CaseAction, CaseDeed, RatingRecord, fields_of
from outlast.loop.problems import ENDED_UNRATED
from outlast.views.mentions import mention_tag, mention_tags


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseReceipt:
    """The state of a conversation after an act of a colleague.

    Attributes:
        run_id: the run.
        status: its status, such as `resolved` or `snoozed`.
        team: the team that it is assigned to; empty for none.
        to: the person that it is assigned to; empty for nobody.
        resolved_at: when it was resolved; None if it is open.
        snoozed_until: when it comes back; None if nobody has put it off.
        tags: the words by which people find it.
        links: the ids of other conversations about the same.
    """

    run_id: str
    status: str
    team: str = ""
    to: str = ""
    resolved_at: datetime | None = None
    snoozed_until: datetime | None = None
    tags: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


class Cases(People):
    """What colleagues do with a conversation; `RunHandle` inherits it.

    Whoever may take the conversation over may do all of it. Neither the customer nor the model reads
    any of it. A repeated call changes nothing and has the same receipt.
    """

    async def assign(self, to: By = None, *, by: By, team: str = "") -> CaseReceipt:
        """Assign the conversation to a person, to a team, or to nobody.

        Args:
            to: the person; None for whom the team chooses, or for nobody.
            by: who assigns it.
            team: the name of the team; empty for none.

        Raises:
            UserError: the run has ended, or this person may not do it.
        """
        return await self._act("assign", by, to=person_of(to).subject, team=team)

    async def comment(self, text: str, *, by: By, comment_id: str | None = None) -> CaseReceipt:
        """Write something for colleagues; a `comment_id` makes a repeated call the same comment.

        `@name` mentions a colleague: the conversation gets the tag `@name`, by which they find it,
        until they comment on it themselves or somebody removes the tag.

        Raises:
            UserError: the text is empty or longer than 10,000 characters, the run has ended, or this
                person may not do it.
        """
        check_printable("comment(comment_id=...)", comment_id or "")
        name = comment_id or f"c-{secrets.token_hex(8)}"
        tags, answered = mention_tags(text), mention_tag(person_of(by).subject)
        done = () if answered in tags or answered == "@" else (answered,)
        return await self._act("comment", by, text=text, comment_id=name, add=tags, remove=done)

    async def resolve(self, *, by: By, why: str = "") -> CaseReceipt:
        """Say that nothing is left to do.

        A word of the customer reopens the conversation. Without one it ends, after
        `RunConfig(resolved_stays_open=)`. Who holds the conversation gives it back by this.

        Raises:
            UserError: something still waits for an answer, somebody else holds the conversation, the
                run has ended, or this person may not do it.
        """
        return await self._act("resolve", by, text=why)

    async def reopen(self, *, by: By) -> CaseReceipt:
        """Open a conversation again that was resolved, or bring back one that was put off.

        Raises:
            UserError: the run has ended, or this person may not do it.
        """
        return await self._act("reopen", by)

    async def snooze(
        self, until: datetime | timedelta, *, by: By, within: Calendar | str | None = None
    ) -> CaseReceipt:
        """Put a conversation off; it comes back then, or with the customer's next word.

        Args:
            until: when, as a time with a zone or as a duration from now.
            by: who puts it off.
            within: the calendar whose hours count for a duration, or its name in the operators' file
                that `OUTLAST_APPROVALS` names; None: all hours count.

        Raises:
            UserError: the time has no zone or has passed, the calendar is not there, something still waits for an answer, the
                run has ended, or this person may not do it.
        """
        return await self._act("snooze", by, until_ms=end_ms("snooze", until, within))

    async def tag(self, *tags: str, by: By, remove: tuple[str, ...] = ()) -> CaseReceipt:
        """Add tags, by which people find the conversation, and remove others.

        Raises:
            UserError: there is no tag, the run has ended, or this person may not do it.
        """
        return await self._act("tag", by, add=tags, remove=tuple(remove))

    async def link(self, *run_ids: str, by: By, remove: tuple[str, ...] = ()) -> CaseReceipt:
        """Link other conversations about the same, and take links back.

        Raises:
            UserError: there is no id, the run has ended, or this person may not do it.
        """
        return await self._act("link", by, add=run_ids, remove=tuple(remove))

    async def recount(self, *, by: By) -> CaseReceipt:
        """Count the times of open requests anew, because the hours of a calendar have changed.

        Only those count whose policy has `within=`. A worker with the new calendar has to run.

        Raises:
            UserError: the run has ended, or this person may not do it.
        """
        return await self._act("recount", by)

    async def rate(self, score: int, text: str = "") -> None:
        """Keep what the customer thinks of the conversation; the newest rating counts.

        Args:
            score: from 1, the worst, to 5.
            text: why, in their words.

        Raises:
            UserError: the score is another number, or the text is longer than 2,000 characters.
            RunClosed: the conversation has ended.
        """
        try:
            record = RatingRecord(score=score, text=text)
        except ValueError as error:
            raise UserError(f"rate(): {error}.") from None
        name = f"rate-{secrets.token_hex(8)}"
        try:
            await self._address.update(names.UPDATE_RATE, records.write(record), name)
        except RunClosed as error:
            raise RunClosed(ENDED_UNRATED) from error

    async def _act(self, do: CaseDeed, by: By, **fields: Any) -> CaseReceipt:
        try:
            action = CaseAction(do=do, **fields, **fields_of(person_of(by)))
        except ValueError as error:
            raise UserError(f"{do}(): {error}.") from None
        outcome = await self._update(self._address, action, f"case-{secrets.token_hex(8)}")
        return CaseReceipt(
            run_id=self._address.run_id,
            status=outcome["status"],
            team=outcome["team"],
            to=outcome["to"],
            resolved_at=time_if_any(outcome["resolved_ms"]),
            snoozed_until=time_if_any(outcome["snoozed_until_ms"]),
            tags=tuple(outcome["tags"]),
            links=tuple(outcome["links"]),
        )


def end_ms(act: str, until: datetime | timedelta, within: Calendar | str | None = None) -> int:
    """Return when something ends, in milliseconds since the epoch, by the hours of a calendar.

    Raises:
        UserError: it is no time with a zone and no duration, or the calendar is not there.
    """
    if within is not None:
        if not isinstance(until, timedelta):
            raise UserError(
                f"{act}(within=...) counts the hours of a timedelta, not of {until!r:.80}."
            )
        calendar = within if isinstance(within, Calendar) else calendar_of_file(within)
        return ms_of(calendar.after(now(), until))
    if isinstance(until, timedelta):
        return now_ms() + round(until.total_seconds() * 1000)
    is_time = isinstance(cast("object", until), datetime)
    if not is_time or until.tzinfo is None:
        raise UserError(
            f"{act}(until) must be a time with a zone, or a timedelta, not {until!r:.80}."
        )
    return ms_of(until)
