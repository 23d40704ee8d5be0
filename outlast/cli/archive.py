"""`outlast archive`: what is kept after retention, what is missing, and deletion on request."""

import logging
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import typer

from outlast.agents.checks import duration_of
from outlast.agents.errors import UserError
from outlast.cli import options, terminal
from outlast.cli.caller import Caller, on_server, say_limit, sender
from outlast.cli.exit_codes import ExitCode
from outlast.cli.process_log import log_to_standard_error, say_ready
from outlast.cli.search_index import Index, index_at
from outlast.cli.signals import stop_requested, work_until
from outlast.cli.terminal import Column
from outlast.edges.rendering import counted, named, rough, shown_time

if TYPE_CHECKING:
    from temporalio.client import Client

    from outlast.archive import Archive, ArchivedHistory, ArchiveStatus, Tombstone
    from outlast.client.deletion import Deletion, RunsOfPerson
    from outlast.client.restore import ArchiveComparison, Known

H = TypeVar("H", "ArchivedHistory", "Tombstone")

MOST_SHOWN: Final = 20

_KNOWN: Final["dict[Known, str]"] = {
    "gone": "the server does not have it",
    "behind": "it is open again",
    "other": "it has ended otherwise",
}

_HISTORIES: "tuple[Column[ArchivedHistory], ...]" = (
    Column("RUN", lambda one: one.run_id, folds=True),
    Column("HISTORY", lambda one: one.execution_id, left_out=1),
    Column("STATUS", lambda one: one.status.replace("_", " ")),
    Column("CLOSED", lambda one: shown_time(one.closed_ms)),
    Column("EVENTS", lambda one: f"{one.events:,}", numbers=True),
    Column("BYTES", lambda one: f"{one.stored:,}", numbers=True, left_out=2),
)
_DELETIONS: "tuple[Column[Tombstone], ...]" = (
    Column("RUN (DIGEST)", lambda one: one.run, folds=True),
    Column("ASKED", lambda one: shown_time(one.asked_ms)),
    Column("BY", lambda one: one.by, folds=True),
    Column("HISTORIES", lambda one: f"{len(one.removed):,}", numbers=True),
    Column("STATUS", lambda one: "done" if one.finished_ms else "interrupted"),
)

Place: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--archive",
        metavar="PLACE",
        help="The directory or URL of the archive. Default: OUTLAST_ARCHIVE.",
        rich_help_panel="Server",
    ),
]


RunOrAll: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="[ID]", help="A run's id. Default: all.", show_default=False),
]


@on_server
async def run(
    caller: Caller,
    task_queue: str = "",
    keep: Annotated[str | None, typer.Option(show_default=False)] = None,
    place: Place = None,
) -> None:
    """Archive closed histories until Ctrl-C, whoever's they are.

    Any number of these processes take turns. Workers with OUTLAST_ARCHIVE do the same for their task
    queues: beside this process they need none, and no right to write to the archive.

    Command line:
        task_queue: Only histories of this task queue. Default: all of the namespace.
        keep (DURATION): How long a run is kept after its end. Default: until it is deleted.
    """
    from outlast.archive import Archive, use_archive
    from outlast.worker.archiver import archive_histories

    log_to_standard_error(logging.WARNING)
    stop = stop_requested()
    client, archive = await _connected(caller, place)
    if keep is not None:
        archive = Archive(archive.store, keep=duration_of(keep, "--keep"), every=archive.every)
        use_archive(client, archive)
    place, whose = repr(archive.store), named(task_queue) if task_queue else "all task queues"
    sentence = f"archiving histories of {whose} in {place}"
    say_ready(sentence, as_json=caller.as_json, archive=place, namespace=client.namespace)
    await work_until(stop, archive_histories(client, archive, task_queue))


@on_server
async def list_archived(
    caller: Caller,
    run_id: RunOrAll = None,
    deleted: bool = False,
    limit: options.Limit = 1_000,
    place: Place = None,
) -> None:
    """List archived histories, of each run the oldest first.

    Command line:
        deleted: What was deleted on request instead.
    """
    from outlast.archive.archive import RUNS, folder_of

    client, archive = await _connected(caller, place)
    if deleted:
        if run_id is None:
            buried = await archive.tombstones()
        else:
            buried = await archive.tombstones_of(client.namespace, run_id)
        _show_lines(caller, _DELETIONS, buried)
        return
    folder = RUNS if run_id is None else folder_of(client.namespace, run_id)
    entries = [one async for one in archive.entries(folder) if one.namespace == client.namespace]
    _show_lines(caller, _HISTORIES, entries[:limit])
    if len(entries) > limit:
        say_limit(limit, is_sure=True)


def _show_lines(caller: Caller, columns: "Sequence[Column[H]]", found: "Sequence[H]") -> None:
    """Print histories or deletions: a line of JSON for each, or a table."""
    if caller.as_json:
        for one in found:
            terminal.print_json_line(one.record())
    else:
        terminal.say_table(terminal.out(), columns, found)


@on_server
async def status(
    caller: Caller,
    task_queue: str = "",
    place: Place = None,
) -> ExitCode:
    """Show what the archive holds, and what it lacks that the server will delete.

    Exits with 1 if a history has waited for half of the retention, or if one is lost.

    Command line:
        task_queue: Only runs of this task queue. Default: all.
    """
    from temporalio.service import RPCError

    from outlast.archive import archive_status
    from outlast.temporal.visibility.queries import search_error

    client, archive = await _connected(caller, place)
    async with terminal.waiting(terminal.err(), "comparing the server with the archive"):
        try:
            found = await archive_status(client, archive, task_queue)
        except RPCError as error:
            raise search_error(client.namespace, error) from error
    record = {
        "runs": found.runs,
        "histories": found.histories,
        "bytes": found.stored,
        "retention_seconds": found.retention.total_seconds(),
        "missing": [asdict(one) for one in found.missing],
        "late": len(found.late),
        "gaps": [asdict(one) for one in found.gaps],
        "deletions": found.deletions,
        "interrupted_deletions": found.interrupted,
    }
    if not caller.printed_json(record):
        _show_status(found)
    is_bad = found.late or found.gaps or found.interrupted
    return ExitCode.FAILED if is_bad else ExitCode.OK


@on_server
async def verify(caller: Caller, run_id: RunOrAll = None, place: Place = None) -> ExitCode:
    """Read every archived history, and check that it is what was archived.

    It also checks that what was deleted on request is gone. Exits with 1 if something is wrong.
    """
    from outlast.archive import verify as verify_archive
    from outlast.archive.archive import RUNS, folder_of

    client, archive = await _connected(caller, place)
    folder = RUNS if run_id is None else folder_of(client.namespace, run_id)
    async with terminal.waiting(terminal.err(), "reading the archive"):
        found = await verify_archive(archive, folder)
    wrong = [one for one in found if one.problem]
    if not caller.printed_json({"checked": len(found), "problems": [asdict(one) for one in wrong]}):
        for one in wrong:
            run = (f"{one.run_id}: ", "bold") if one.run_id else ""
            terminal.say(terminal.out(), run, one.problem)
        terminal.say(
            terminal.out(), f"Checked {counted(len(found), 'file')}, {len(wrong):,} with problems."
        )
    return ExitCode.FAILED if wrong else ExitCode.OK


@on_server
async def compare(caller: Caller, set_aside: bool = False, place: Place = None) -> ExitCode:
    """Say what the archive knows and the server does not, after it was restored from a backup.

    Lists what people have to decide again, calls that may be made again, and what was deleted on
    request and is there again. Exits with 1 if there is any of it.

    Command line:
        set_aside: Also make room in the archive for the histories that the server continues.
    """
    from outlast.client.restore import compare_archive
    from outlast.client.restore import set_aside as move_aside

    client, archive = await _connected(caller, place)
    async with terminal.waiting(terminal.err(), "comparing the server with the archive"):
        found = await compare_archive(client, archive)
        moved = await move_aside(archive, found.lost, client.namespace) if set_aside else 0
    if not caller.printed_json(found.record()):
        _show_comparison(found)
    if set_aside:
        terminal.say(terminal.err(), f"Set aside {counted(moved, 'history')}.")
    return ExitCode.OK if found.is_same else ExitCode.FAILED


def _show_comparison(found: "ArchiveComparison") -> None:
    console = terminal.out()
    for one in found.lost:
        closed = f", ended {shown_time(one.closed_ms)}: {_KNOWN[one.known]}"
        terminal.say(console, ("Lost: ", "bold red"), named(one.run_id), closed)
        for act in one.acts:
            words = " ".join(filter(None, (act.event, act.decision, act.tool, act.request_id)))
            who = f" by {act.by}" if act.by else ""
            terminal.say(console, "  ", named(words), f" {shown_time(act.at_ms)}", named(who))
        for key, tool in one.calls:
            terminal.say(console, "  call ", named(tool), " ", named(key))
    for gone in found.returned:
        state = "open" if gone.is_open else "closed"
        words = f" was deleted on request {shown_time(gone.deleted_ms)}, and is {state} again"
        terminal.say(console, ("Deleted: ", "bold red"), named(gone.run_id), words)
    if found.returned:
        terminal.say(console, "`outlast archive delete --returned` deletes them again.")
    waiting = sum(one.approvals for one in found.open)
    terminal.say(
        console,
        f"{counted(len(found.open), 'run')} open on the server, {counted(waiting, 'request')} "
        "waiting for people. What they did after the backup may be done again.",
    )
    if found.is_same:
        terminal.say(console, ("The archive knows nothing that the server does not.", "green"))


@on_server
async def delete(
    caller: Caller,
    run_id: Annotated[str | None, typer.Argument(show_default=False)] = None,
    person: str | None = None,
    returned: bool = False,
    why: str = "",
    content: bool = False,
    sessions: Annotated[list[Path] | None, typer.Option(envvar="OUTLAST_SESSIONS")] = None,
    target: str | None = None,
    app_dir: options.AppDir = Path(),
    keep_sessions: bool = False,
    every_run: bool = False,
    by: str | None = None,
    yes: bool = False,
    search_index: Index = None,
    place: Place = None,
) -> None:
    """Delete runs on request: from server, archive and index of search, with the items of sessions.

    A session that other runs use stays. A tombstone stays: who asked, when, and digests of what was
    removed. Runs must have ended.

    Command line:
        run_id ([ID]): The run's id; with --person, none.
        person: All runs that worked for the customer with this id.
        returned: What was deleted before, and what a restored server has again.
        why: The reason, which stays: a number, and no customer's name.
        content: Also large content in the blob store that no other run uses. Reads every run.
        sessions: A SQLite file of sessions, or a directory of them, to remove items from.
        target: Where the agents are, as for `outlast worker`: it opens other sessions.
        keep_sessions: Leave the items in the runs' sessions.
        every_run: With --person: read every run, and not only those that list this person or nobody.
        by: Who asked for it. Default: you.
        yes (--yes -y): Delete without a question.
    """
    from outlast.client.deletion import Deletion

    if [run_id is not None, person is not None, returned].count(True) != 1:
        raise UserError(
            "Name a run, or a person: `outlast archive delete --person ann@example.com`."
        )
    client, archive = await _connected(caller, place)
    config = _config(target, app_dir)
    deletion = Deletion(
        client,
        archive,
        by=sender(by).subject,
        why=why,
        content=content,
        sessions=[*(sessions or ()), *config.get("sessions", ())],
        references=config.get("references", ()),
        keep_sessions=keep_sessions,
        every_run=every_run,
        search=index_at(search_index),
    )
    made = await _deleted(deletion, run_id, person, yes=yes)
    if not caller.printed_json([one.record() for one in made]):
        _show_deleted(made, returned=returned)


def _show_deleted(made: "Sequence[Tombstone]", *, returned: bool) -> None:
    console = terminal.out()
    for one in made:
        terminal.say(
            console,
            f"Deleted {counted(len(one.removed), 'history')}; the tombstone is "
            f"deleted/{one.run}/{one.asked_ms}.json.",
        )
        for session in one.sessions:
            number = int(str(session["items"]))
            terminal.say(console, f"Removed {counted(number, 'item')} of its session.")
        for left in one.left:
            terminal.say(console, "Left: ", left)
    if not made:
        nothing = "Nothing that was deleted is there again."
        terminal.say(terminal.err(), nothing if returned else "No run worked for this person.")


def _config(target: str | None, app_dir: Path) -> dict[str, Any]:
    from outlast.cli.application import load_config

    return {} if target is None else dict(load_config(target, app_dir))


async def _deleted(
    deletion: "Deletion", run_id: str | None, person: str | None, *, yes: bool
) -> "list[Tombstone]":
    if run_id is None and person is None:
        _confirm("Delete again what was deleted on request?", yes=yes)
        return await deletion.delete_returned()
    if run_id is not None:
        _confirm(f"Delete all histories of {run_id}?", yes=yes)
        return [await deletion.delete_run(run_id)]
    async with terminal.waiting(terminal.err(), "reading runs"):
        found = await deletion.find_person(person or "")
    terminal.say(terminal.err(), _searched(found, every_run=deletion.every_run))
    for one in dict.fromkeys(run for run, _ in found.runs):
        terminal.say(terminal.err(), named(one))
    if found.runs:
        _confirm(f"Delete {counted(len(found.runs), 'run')}?", yes=yes)
    return await deletion.delete_person(person or "")


def _searched(found: "RunsOfPerson", *, every_run: bool) -> str:
    """Say how many runs were read to find those of a person."""
    if every_run:
        return f"Read {counted(found.unlisted, 'run')}."
    others = "that list this person, and {} that list no customer. {} of others were not read: --every-run reads them."
    return f"Read {found.listed:,} runs " + others.format(
        f"{found.unlisted:,}", f"{found.skipped:,}"
    )


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not terminal.is_attended():
        raise UserError("Nobody is at a terminal to say yes. Add --yes to delete.")
    if not terminal.confirmed(question):
        raise typer.Exit(ExitCode.FAILED)


async def _connected(caller: Caller, place: str | None) -> "tuple[Client, Archive]":
    from outlast.archive import Archive, archive_of, use_archive

    client = (await caller.connect()).client
    if place is not None:
        use_archive(client, Archive(place))
    found = archive_of(client)
    if found is None:
        raise UserError(
            "There is no archive here. Set OUTLAST_ARCHIVE or --archive to the directory or URL "
            "that the workers use."
        )
    return client, found


def _show_status(found: "ArchiveStatus") -> None:
    console = terminal.out()
    share = f" of {found.size:,}" if found.size else ""
    terminal.say(
        console,
        f"{counted(found.histories, 'history')} of {counted(found.runs, 'run')}, "
        f"{found.stored:,}{share} bytes. The server keeps closed histories for {rough(found.retention)}.",
    )
    if not found.missing:
        terminal.say(console, ("Everything closed that the server has is archived.", "green"))
    else:
        oldest = rough(max(found.left(found.missing[0]), timedelta(0)))
        style = "bold red" if found.late else "yellow"
        words = f"{counted(len(found.missing), 'history')} not archived yet"
        terminal.say(console, (words, style), f"; the server keeps the oldest for {oldest} more:")
        for one in found.missing[:MOST_SHOWN]:
            closed = f", closed {shown_time(one.closed_ms)}, task queue "
            terminal.say(console, "  ", named(one.run_id), closed, named(one.task_queue))
    for gap in found.gaps:
        terminal.say(console, ("Lost: ", "bold red"), f"history {gap.execution_id} of ", gap.run_id)
    if found.deletions:
        terminal.say(console, f"{counted(found.deletions, 'deletion')} on request.")
    if found.interrupted:
        words = f"{counted(found.interrupted, 'deletion')} interrupted: "
        terminal.say(console, (words, "bold red"), "ask for the same deletion again, to finish it.")
