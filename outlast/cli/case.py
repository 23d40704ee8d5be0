"""`outlast case`: what colleagues do with a conversation: whose it is, and how it stands."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from outlast.agents.checks import duration_of
from outlast.agents.errors import UserError
from outlast.cli import options, server
from outlast.cli.caller import Caller, PersonCaller, on_server
from outlast.cli.durations import coming_time
from outlast.contract.ratings import SCORES
from outlast.edges.clock import now
from outlast.edges.rendering import json_fields

if TYPE_CHECKING:
    from outlast.client.people.cases import CaseReceipt

_Words: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="[WORD]...", show_default=False)
]


@on_server
async def assign(caller: PersonCaller, to: str = "", team: str = "") -> None:
    """Assign a conversation to a person, to a team, or to nobody.

    Command line:
        to: The person. Default: nobody.
        team: The team. Default: none.
    """
    case = await caller.act(lambda run: run.assign(to or None, by=caller.person, team=team))
    _show(caller, case, f"Assigned to {whose(case.to, case.team) or 'nobody'}.")


@on_server
async def comment(caller: PersonCaller, text: str, comment_id: str | None = None) -> None:
    """Write something for colleagues, which neither the customer nor the model reads.

    `@name` mentions a colleague, who finds the conversation by the tag `@name`.

    Command line:
        text (TEXT): What you write for colleagues.
        comment_id: A repeated id is the same comment.
    """
    case = await caller.act(lambda run: run.comment(text, by=caller.person, comment_id=comment_id))
    _show(caller, case, "Commented. The customer does not see it.")


@on_server
async def resolve(caller: PersonCaller, why: str = "") -> None:
    """Say that nothing is left to do; a word of the customer reopens the conversation.

    Without one, it ends by itself after a while.

    Command line:
        why: Why, for colleagues.
    """
    case = await caller.act(lambda run: run.resolve(by=caller.person, why=why))
    _show(caller, case, "Resolved.")


@on_server
async def reopen(caller: PersonCaller) -> None:
    """Open a conversation again that was resolved, or bring back one that was put off."""
    case = await caller.act(lambda run: run.reopen(by=caller.person))
    _show(caller, case, "It is open.")


@on_server
async def snooze(caller: PersonCaller, until: str, within: str | None = None) -> None:
    """Put a conversation off; it comes back then, or with the customer's next word.

    Command line:
        until (UNTIL): A length, such as 2h or 3d, or a time, such as 2026-11-30T09:00.
        within (CALENDAR): A length counts only the hours of this calendar of the operators' file.
    """
    length = None if within is None else duration_of(until, "With --within, UNTIL")
    end = coming_time(until, "UNTIL", now()).astimezone() if length is None else length
    case = await caller.act(lambda run: run.snooze(end, by=caller.person, within=within))
    back = case.snoozed_until
    away = "" if back is None else f"Snoozed until {back.astimezone():%Y-%m-%d %H:%M %Z}."
    _show(caller, case, away or "It is back.")


@on_server
async def tag(caller: PersonCaller, tags: _Words = None, remove: list[str] | None = None) -> None:
    """Add tags, by which people find the conversation, or take some away.

    Command line:
        remove: What to take away; repeatable.
    """
    added, removed = tags or (), tuple(remove or ())
    case = await caller.act(lambda run: run.tag(*added, by=caller.person, remove=removed))
    _show(caller, case, f"Tags: {', '.join(case.tags) or 'none'}.")


@on_server
async def link(caller: PersonCaller, ids: _Words = None, remove: list[str] | None = None) -> None:
    """Link other conversations about the same, by their ids, or take links back.

    Command line:
        remove: What to take away; repeatable.
    """
    added, removed = ids or (), tuple(remove or ())
    case = await caller.act(lambda run: run.link(*added, by=caller.person, remove=removed))
    _show(caller, case, f"Linked to {', '.join(case.links) or 'none'}.")


@on_server
async def rate(
    caller: Caller,
    run_id: options.RunId,
    score: str,
    text: Annotated[str, typer.Argument()] = "",
) -> None:
    """Say what the customer thinks of a conversation, while it is open; the newest rating counts.

    Command line:
        score (SCORE): good, bad, or a number from 1, the worst, to 5.
        text ([TEXT]): Why, in their words.
    """
    from outlast.client.handle import RunHandle

    number = next((one for word, one in SCORES.items() if word == score), None)
    if number is None and not score.isdecimal():
        raise UserError(f"{score!r:.40} is no rating: write good, bad, or a number from 1 to 5.")
    number = int(score) if number is None else number
    handle = RunHandle((await caller.connect()).client, run_id)
    async with server.waiting_for_worker(handle, f"waiting for {run_id}"):
        await handle.rate(number, text)
    caller.show({"run_id": run_id, "score": number, "text": text}, f"Rated {number} of 5.")


def whose(to: str, team: str) -> str:
    """Return to whom a conversation is assigned, in words."""
    return " of ".join(one for one in (to, team) if one)


def _show(caller: PersonCaller, case: "CaseReceipt", sentence: str) -> None:
    names = ("status", "to", "team", "tags", "links", "resolved_at", "snoozed_until")
    caller.show(json_fields(case, *names), sentence)
