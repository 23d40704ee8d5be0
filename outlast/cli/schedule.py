"""`outlast schedule`: starts runs, and sends messages, at set times."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, cast

import typer

from outlast.agents.errors import UserError
from outlast.cli import options, terminal
from outlast.cli.caller import By, Caller, on_server, sender
from outlast.cli.durations import coming_time, length_option
from outlast.clock import now_ms
from outlast.rendering import command, excerpt, joined, named, rough, shown_time

if TYPE_CHECKING:
    from outlast.client.schedules import Firing, Schedule, Schedules, Times

LONGEST_TEXT: Final = 60

_COLUMNS = (
    terminal.Column(name="ID", folds=True),
    terminal.Column(name="STATUS"),
    terminal.Column(name="WHEN", folds=True),
    terminal.Column(name="NEXT IN", numbers=True),
    terminal.Column(name="DOES", folds=True, left_out=1),
    terminal.Column(name="LAST FIRED", numbers=True, left_out=2),
)
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


Agent: TypeAlias = Annotated[
    str | None, typer.Option("--agent", help="The agent that each firing starts.")
]
To: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="RUN",
        help="The conversation that gets the message. With --agent, the message starts it where "
        "it is not open.",
    ),
]
At: TypeAlias = Annotated[
    str | None,
    typer.Option("--at", help="Once: in 3d, or at a time such as 2026-11-30T09:00."),
]
Cron: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--cron", help="A cron expression, such as '0 9 * * MON'; may be repeated."),
]
Every: TypeAlias = Annotated[
    str | None, typer.Option("--every", help="A length of time, such as 2h.")
]
Offset: TypeAlias = Annotated[
    str | None, typer.Option("--offset", help="How much later than at full lengths of --every.")
]
TimeZone: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--time-zone",
        help="Such as Europe/Berlin. Default: UTC for --cron, this machine's for --at.",
    ),
]
Jitter: TypeAlias = Annotated[
    str | None, typer.Option("--jitter", help="Fire up to this much later, by chance.")
]
Overlapping: TypeAlias = Annotated[
    Overlap,
    typer.Option("--overlap", help="What a firing does while the run before is open."),
]
CatchUp: TypeAlias = Annotated[
    str | None,
    typer.Option("--catch-up", help="How late to fire after the server was down; default: 365d."),
]
PauseOnFailure: TypeAlias = Annotated[
    bool, typer.Option("--pause-on-failure", help="Pause after a run that failed.")
]
Paused: TypeAlias = Annotated[
    bool, typer.Option("--paused", help="Do not fire until `outlast schedule resume`.")
]
FirstNote: TypeAlias = Annotated[str, typer.Option("--note", help="A note for people.")]
Taken: TypeAlias = Annotated[
    Mode | None,
    typer.Option("--mode", help="When a busy conversation takes the message; default: steer."),
]
KeepOpen: TypeAlias = Annotated[
    bool, typer.Option("--keep-open", help="Each run stays open for `outlast send`.")
]
Context: TypeAlias = Annotated[
    str | None,
    typer.Option("--context", metavar="JSON", help="The context that the tools receive."),
]
MaxTurns: TypeAlias = Annotated[
    int | None,
    typer.Option("--max-turns", min=1, help="How many model calls each answer may take."),
]
Tenant: TypeAlias = Annotated[
    str | None, typer.Option("--tenant", help="The tenant that the runs belong to.")
]


@on_server
async def create(
    caller: Caller,
    schedule_id: ScheduleId,
    text: options.Text,
    agent: Agent = None,
    to: To = None,
    at: At = None,
    cron: Cron = None,
    every: Every = None,
    offset: Offset = None,
    time_zone: TimeZone = None,
    jitter: Jitter = None,
    overlap: Overlapping = "skip",
    catch_up: CatchUp = None,
    pause_on_failure: PauseOnFailure = False,
    paused: Paused = False,
    note: FirstNote = "",
    mode: Taken = None,
    keep_open: KeepOpen = False,
    stream: options.Stream = False,
    context: Context = None,
    max_turns: MaxTurns = None,
    tenant: Tenant = None,
    customer: options.Customer = None,
    by: By = None,
    task_queue: options.TaskQueue = options.DEFAULT_TASK_QUEUE,
) -> None:
    """Create a schedule: it starts an agent, or messages a conversation, at set times.

    To create the same schedule again changes nothing. Temporal's server keeps the time, and needs
    no worker for it.
    """
    from outlast.cli.json_values import parse_json
    from outlast.client.schedules import ScheduleOptions, Schedules

    times = _times(at, cron or (), every, offset, time_zone, jitter)
    chosen = ScheduleOptions(
        overlap=overlap,
        catch_up=None if catch_up is None else length_option(catch_up, "--catch-up"),
        pause_on_failure=pause_on_failure,
        paused=paused,
        note=note,
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
    made = await Schedules(client, task_queue=task_queue).create(schedule_id, text, times, **chosen)
    first = made.next[:1]
    due = f" First at {shown_time(_ms(first[0]))}." if first else ""
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
    if caller.as_json:
        terminal.print_json([one.record() for one in found])
    elif found:
        terminal.say_table(terminal.out(), _COLUMNS, [_row(one) for one in found])
    else:
        terminal.say(terminal.err(), "There is no schedule. `outlast schedule create` makes one.")
    if len(found) == limit:
        terminal.say(terminal.err(), f"Limited to {limit}: there may be more, see --limit.")


@on_server
async def show(caller: Caller, schedule_id: ScheduleId) -> None:
    """Show a schedule: its next times, and what has become of its newest firings."""
    found = await (await _schedules(caller)).get(schedule_id)
    if caller.as_json:
        terminal.print_json(found.record())
        return
    from outlast.cli.view import say_facts

    console = terminal.out()
    style = _STATUS_STYLES[found.status]
    terminal.say(console, (found.id, "bold"), " ", (found.status, style), " ", _does(found))
    say_facts(console, _facts(found))
    for one in found.recent:
        what = one.status if not one.problem else joined(one.status, ": ", excerpt(one.problem))
        cells = (shown_time(_ms(one.at)), one.run_id)
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
    overlap: Annotated[
        Overlap | None,
        typer.Option(
            "--overlap", help="What happens while a run is open. Default: as the schedule says."
        ),
    ] = None,
) -> None:
    """Fire a schedule now, also while it is paused."""
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


def _times(
    at: str | None,
    cron: Sequence[str],
    every: str | None,
    offset: str | None,
    time_zone: str | None,
    jitter: str | None,
) -> "Times":
    from outlast.client.schedules import Times

    now = datetime.fromtimestamp(now_ms() / 1000, UTC)
    once = None if at is None else coming_time(at, "--at", now)
    if once is not None and once.tzinfo is None and time_zone is None:
        here = once.astimezone()
        if here.replace(tzinfo=None, fold=0) != once.replace(fold=0):
            raise UserError(f"--at {at} does not exist on this machine: clocks go forward then.")
        once = here
    return Times(
        at=once,
        cron=tuple(cron),
        every=None if every is None else length_option(every, "--every"),
        offset=timedelta() if offset is None else length_option(offset, "--offset"),
        jitter=None if jitter is None else length_option(jitter, "--jitter"),
        time_zone=time_zone,
    )


# --- For people ----------------------------------------------------------------------------------


def _does(one: "Schedule") -> str:
    text = excerpt(one.text, LONGEST_TEXT)
    if one.to:
        return joined("sends ", one.to, ' "', text, '"')
    return joined("starts ", named(one.agent), ' "', text, '"')


def _facts(one: "Schedule") -> list[tuple[str, str]]:
    coming = ", ".join(shown_time(_ms(at)) for at in one.next[:_NEXT_SHOWN])
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


def _row(one: "Schedule") -> terminal.Row:
    # Estimates for people, so the clock of this machine is good enough.
    now = datetime.fromtimestamp(now_ms() / 1000, UTC)
    last: Firing | None = one.recent[-1] if one.recent else None
    return [
        one.id,
        (one.status, _STATUS_STYLES[one.status]),
        one.when or "-",
        rough(one.next[0] - now) if one.next and one.status == "active" else "-",
        _does(one),
        "-" if last is None else f"{rough(now - last.at)} ago",
    ]


def _point_to(caller: Caller, schedule_id: str) -> None:
    if not caller.as_json:
        terminal.say(terminal.err(), "See it: `", command("schedule show", schedule_id), "`.")


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
