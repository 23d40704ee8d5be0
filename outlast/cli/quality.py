"""`outlast quality`: scores a sample of yesterday's conversations each day, and shows the scores."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from outlast.cli import options, terminal
from outlast.cli.caller import Caller, on_server
from outlast.cli.schedule import ScheduleId
from outlast.cli.search_index import Index, chosen_index
from outlast.cli.terminal import Column
from outlast.edges.rendering import command, named, shown_time

if TYPE_CHECKING:
    from outlast.client.quality import QualityFigures


@on_server
async def create(
    caller: Caller,
    schedule_id: ScheduleId,
    rubric: Annotated[
        str, typer.Argument(metavar="RUBRIC", help="What has to be true of a conversation.")
    ],
    agent: str = "",
    tenant: str = "",
    model: str = "",
    sample: Annotated[int, typer.Option(min=1, max=200)] = 20,
    below: Annotated[float, typer.Option(min=0, max=1)] = 0.0,
    cron: str = "0 5 * * *",
    time_zone: str | None = None,
    task_queue: options.TaskQueue = options.DEFAULT_TASK_QUEUE,
) -> None:
    """Create a schedule that scores a sample of the conversations that ended the day before.

    Workers do it, with the extra `evals`; each score is a model call. `outlast schedule` shows,
    pauses, fires and deletes it.

    Command line:
        agent: Only conversations whose last agent is this one.
        tenant: Only conversations of this tenant.
        model: The judge's model. Default: that of the workers.
        sample: How many conversations a day.
        below: Tell people if a smaller share passes, such as 0.8.
        cron: When.
        time_zone: Such as Europe/Berlin. Default: UTC. Days begin in UTC.
    """
    from outlast.client.quality import schedule_quality_check
    from outlast.client.schedules import Times

    client = (await caller.connect()).client
    chosen: dict[str, Any] = {"agent": agent, "tenant": tenant, "model": model, "sample": sample}
    times = Times(cron=cron, time_zone=time_zone)
    found = await schedule_quality_check(
        client, schedule_id, rubric, **chosen, below=below, times=times, task_queue=task_queue
    )
    caller.show(found.record(), "The quality check ", named(found.id), f" runs at {found.when}.")
    if not caller.as_json:
        shown = command("schedule", "show", schedule_id)
        terminal.say(terminal.err(), "See it: `", shown, "`.")


@on_server
async def scores(
    caller: Caller, days: Annotated[int, typer.Option(min=1, max=366)] = 30, place: Index = None
) -> None:
    """Show the scores of the last days, by check, agent and digest of instructions.

    They come from the index of search, which `outlast search run` feeds.

    Command line:
        days: How many days.
    """
    from outlast.client.quality import quality_scores

    index = chosen_index(place)
    found = await quality_scores((await caller.connect()).client, index, days=days)
    if caller.printed_json(found.record()):
        return
    caller.show_list(_COLUMNS, found.groups, "No scores. Create one with `outlast quality create`.")
    for one in found.worst:
        run = command("show", one.run_id)
        terminal.say(terminal.out(), f"{shown_time(one.at_ms)} does not pass: `", run, "`")
    if found.problem:
        terminal.say(terminal.err(), found.problem)


_COLUMNS: "tuple[Column[QualityFigures], ...]" = (
    Column("CHECK", lambda one: one.check, folds=True),
    Column("AGENT", lambda one: one.agent or "-", widest=32),
    Column("INSTRUCTIONS", lambda one: one.instructions or "-"),
    Column("PASS", lambda one: f"{one.passed:,} of {one.scored:,}", numbers=True),
    Column("SHARE", lambda one: f"{one.share:.0%}", numbers=True),
)
