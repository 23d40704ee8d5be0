"""`outlast schedule`: starts runs, and sends messages, at set times."""

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, cast

import typer

from outlast.agents.checks import duration_of
from outlast.agents.errors import UserError
from outlast.cli import options, terminal
from outlast.cli.caller import By, Caller, on_server, sender
from outlast.cli.durations import coming_time
from outlast.cli.terminal import Column
from outlast.edges.clock import ms_of, now
from outlast.edges.rendering import command, excerpt, joined, named, rough, shown_time

if TYPE_CHECKING:
    from outlast.client.schedules import Schedule, ScheduleOptions, Schedules, Times

LONGEST_TEXT: Final = 60

_STATUS_STYLES = {"active": "green", "paused": "bold yellow", "done": "dim"}
_NEXT_SHOWN = 3

Overlap: TypeAlias = Literal[
    "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow_all"
]
Mode: TypeAlias = Literal["queue", "steer", "interrupt"]

ScheduleId: TypeAlias = Annotated[
    str, typer.Argument(metavar="ID", help="The schedule's id.", show_default=False)
]
Note: TypeAlias = Annotated[
    str | None, typer.Option("--note", help="A note for people. Default: who did it.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """When a schedule fires.

    Command line:
        at: Once: in 3d, or at a time such as 2026-11-30T09:00.
        cron: A cron expression, such as '0 9 * * MON'; may be repeated.
        every: A length of time, such as 2h.
        offset: How much later than at full lengths of --every.
        time_zone: Such as Europe/Berlin. Default: UTC for --cron, this machine's for --at.
        jitter: Fire up to this much later, by chance.
    """

    at: str | None = None
    cron: list[str] | None = None
    every: str | None = None
    offset: str | None = None
    time_zone: str | None = None
    jitter: str | None = None

    def times(self) -> "Times":
        """Return the times; one without a time zone is this machine's."""
        from outlast.client.schedules import Times

        once = None if self.at is None else coming_time(self.at, "--at", now())
        if once is not None and once.tzinfo is None and self.time_zone is None:
            here = once.astimezone()
            if here.replace(tzinfo=None, fold=0) != once.replace(fold=0):
                raise UserError(
                    f"--at {self.at} does not exist on this machine: clocks go forward then."
                )
            once = here
        return Times(
            at=once,
            cron=tuple(self.cron or ()),
            every=None if self.every is None else duration_of(self.every, "--every"),
            offset=timedelta() if self.offset is None else duration_of(self.offset, "--offset"),
            jitter=None if self.jitter is None else duration_of(self.jitter, "--jitter"),
            time_zone=self.time_zone,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a schedule does with firings that meet, are late or fail.

    Command line:
        overlap: What a firing does while the run before is open.
        catch_up: How late to fire after the server was down; default: 365d.
        pause_on_failure: Pause after a run that failed.
        paused: Do not fire until `outlast schedule resume`.
        note: A note for people.
    """

    overlap: Overlap = "skip"
    catch_up: str | None = None
    pause_on_failure: bool = False
    paused: bool = False
    note: str = ""

    def options(self) -> "ScheduleOptions":
        """Return the rules as options of a schedule."""
        late = self.catch_up
        return {
            "overlap": self.overlap,
            "catch_up": None if late is None else duration_of(late, "--catch-up"),
            "pause_on_failure": self.pause_on_failure,
            "paused": self.paused,
            "note": self.note,
        }


@on_server
async def create(
    caller: Caller,
    schedule_id: ScheduleId,
    text: options.Text,
    agent: str | None = None,
    to: str | None = None,
    *,
    when: When,
    rules: Rules,
    mode: Mode | None = None,
    keep_open: bool = False,
    stream: options.Stream = False,
    context: str | None = None,
    max_turns: Annotated[int | None, typer.Option(min=1)] = None,
    tenant: str | None = None,
    customer: options.Customer = None,
    by: By = None,
    task_queue: options.TaskQueue = options.DEFAULT_TASK_QUEUE,
) -> None:
    """Create a schedule: it starts an agent, or messages a conversation, at set times.

    To create the same schedule again changes nothing. Temporal's server keeps the time, and needs
    no worker for it.

    Command line:
        agent: The agent that each firing starts.
        to (RUN): The conversation that gets the message. With --agent, the message starts it where
            it is not open.
        mode: When a busy conversation takes the message; default: steer.
        keep_open: Each run stays open for `outlast send`.
        context (JSON): The context that the tools receive.
        max_turns: How many model calls each answer may take.
        tenant: The tenant that the runs belong to.
    """
    from outlast.cli.json_values import parse_json
    from outlast.client.schedules import ScheduleOptions, Schedules

    chosen = rules.options()
    chosen |= ScheduleOptions(
        keep_open=keep_open,
        stream=stream,
        tenant=tenant,
        author=sender(by).subject,
        agent=agent,
        to=to,
    )
    read = None if context is None else parse_json(context, "--context")
    given = {"mode": mode, "max_turns": max_turns, "customer": customer, "context": read}
    chosen.update(cast("ScheduleOptions", {k: v for k, v in given.items() if v is not None}))
    client = (await caller.connect()).client
    schedules = Schedules(client, task_queue=task_queue)
    made = await schedules.create(schedule_id, text, when.times(), **chosen)
    first = made.next[:1]
    due = f" First at {shown_time(ms_of(first[0]))}." if first else ""
    caller.show(
        made.record(), "Created ", schedule_id, ": ", _does(made), ", ", made.when, ".", due
    )
    _point_to(caller, schedule_id)


@on_server
async def list_schedules(caller: Caller, limit: options.Limit = 50) -> None:
    """List schedules, a moment behind."""
    schedules = await _schedules(caller)
    async with terminal.waiting(terminal.err(), "listing schedules"):
        found = await schedules.list(limit=limit)
    nothing = "There is no schedule. `outlast schedule create` makes one."
    caller.show_list(_COLUMNS, found, nothing, limit=limit)


@on_server
async def show(caller: Caller, schedule_id: ScheduleId) -> None:
    """Show a schedule: its next times, and what has become of its newest firings."""
    found = await (await _schedules(caller)).get(schedule_id)
    if caller.printed_json(found.record()):
        return
    from outlast.cli.view import say_facts

    console = terminal.out()
    style = _STATUS_STYLES[found.status]
    terminal.say(console, (found.id, "bold"), " ", (found.status, style), " ", _does(found))
    say_facts(console, _facts(found))
    for one in found.recent:
        what = one.status if not one.problem else joined(one.status, ": ", excerpt(one.problem))
        cells = (shown_time(ms_of(one.at)), one.run_id)
        terminal.say_columns(console, *cells, what, widths=[0, 0])


@on_server
async def pause(caller: Caller, schedule_id: ScheduleId, note: Note = None) -> None:
    """Pause a schedule: its times pass without firing."""
    by = note or joined("paused by ", named(sender(None).subject))
    await (await _schedules(caller)).pause(schedule_id, note=by)
    done = f"Paused {schedule_id}. Its times pass until it is resumed."
    caller.show({"id": schedule_id, "status": "paused"}, done)


@on_server
async def resume(caller: Caller, schedule_id: ScheduleId, note: Note = None) -> None:
    """Resume a paused schedule; times that have passed do not count."""
    by = note or joined("resumed by ", named(sender(None).subject))
    await (await _schedules(caller)).resume(schedule_id, note=by)
    caller.show({"id": schedule_id, "status": "active"}, f"Resumed {schedule_id}.")


@on_server
async def trigger(
    caller: Caller,
    schedule_id: ScheduleId,
    overlap: Overlap | None = None,
) -> None:
    """Fire a schedule now, also while it is paused.

    Command line:
        overlap: What happens while a run is open. Default: as the schedule says.
    """
    await (await _schedules(caller)).trigger(schedule_id, overlap=overlap)
    caller.show({"id": schedule_id, "status": "triggered"}, f"Fired {schedule_id}.")
    _point_to(caller, schedule_id)


@on_server
async def delete(caller: Caller, schedule_id: ScheduleId) -> None:
    """Delete a schedule. Runs that it has started go on."""
    await (await _schedules(caller)).delete(schedule_id)
    caller.show({"id": schedule_id, "status": "deleted"}, f"Deleted {schedule_id}.")


async def _schedules(caller: Caller) -> "Schedules":
    from outlast.client.schedules import Schedules

    return Schedules((await caller.connect()).client)


# --- For people ----------------------------------------------------------------------------------


def _does(one: "Schedule") -> str:
    text = excerpt(one.text, LONGEST_TEXT)
    if one.to:
        return joined("sends ", one.to, ' "', text, '"')
    return joined("starts ", named(one.agent), ' "', text, '"')


def _facts(one: "Schedule") -> list[tuple[str, str]]:
    coming = ", ".join(shown_time(ms_of(at)) for at in one.next[:_NEXT_SHOWN])
    counts = f"{one.fired:,} times, {one.skipped:,} skipped, {one.missed:,} missed"
    facts = [
        ("when", one.when),
        ("next", coming or "-"),
        ("fired", counts),
        ("queue", one.task_queue),
    ]
    if one.to and one.agent:
        facts.append(("starts", named(one.agent)))
    if one.note:
        facts.append(("note", one.note))
    return facts


def _next(one: "Schedule") -> str:
    return rough(one.next[0] - now()) if one.next and one.status == "active" else "-"


def _last(one: "Schedule") -> str:
    return f"{rough(now() - one.recent[-1].at)} ago" if one.recent else "-"


def _point_to(caller: Caller, schedule_id: str) -> None:
    if not caller.as_json:
        terminal.say(terminal.err(), "See it: `", command("schedule show", schedule_id), "`.")


_COLUMNS: "tuple[Column[Schedule], ...]" = (
    Column("ID", lambda one: one.id, folds=True),
    Column("STATUS", lambda one: (one.status, _STATUS_STYLES[one.status])),
    Column("WHEN", lambda one: one.when or "-", folds=True),
    Column("NEXT IN", _next, numbers=True),
    Column("DOES", _does, folds=True, left_out=1),
    Column("LAST FIRED", _last, numbers=True, left_out=2),
)
