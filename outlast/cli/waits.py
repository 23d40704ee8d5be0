"""`outlast waits` and `finish`: what tools wait for outside of their runs, and its delivery."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.agents.errors import DeliveryRefused, RunNotFound, UserError
from outlast.cli import options, server, terminal
from outlast.cli.caller import Caller, on_server, say_limit, sender
from outlast.cli.json_values import json_option
from outlast.cli.terminal import Column
from outlast.edges.clock import ms_of, now
from outlast.edges.rendering import command, excerpt, joined, json_text, named, rough, shown_time
from outlast.views.records import Json, JsonObject

if TYPE_CHECKING:
    from temporalio.client import Client

    from outlast.client.results.pending_waits import PendingWait

_COLUMNS: "tuple[Column[PendingWait], ...]" = (
    # An id and a token stay whole for copying, even if they do not fit into a line.
    Column("RUN", lambda one: one.run_id, folds=True),
    Column("CALL", lambda one: one.call_id, folds=True),
    Column("TOOL", lambda one: one.tool, widest=32, left_out=3),
    Column("WAITS FOR", lambda one: one.name, folds=True),
    Column("FOR", lambda one: rough(now() - one.since), numbers=True, left_out=2),
    Column(
        "ENDS IN",
        lambda one: "never" if one.until is None else rough(one.until - now()),
        numbers=True,
    ),
    Column("TOKEN", lambda one: one.token, folds=True, left_out=1),
)


@on_server
async def waits(
    caller: Caller,
    run_id: Annotated[str | None, typer.Argument(show_default=False)] = None,
    limit: options.Limit = 50,
) -> None:
    """List what tools wait for outside of their runs: of a run, or of all runs that are parked.

    A run is parked when it waits for nothing else. Needs no worker. `outlast finish` delivers what
    a tool waits for.

    Command line:
        run_id ([ID]): The run's id; default: all parked runs.
    """
    from outlast.client.handle import RunHandle

    client = (await caller.connect()).client
    async with terminal.waiting(terminal.err(), "reading what runs wait for"):
        if run_id is not None:
            found = list(await RunHandle(client, run_id).pending_waits())
            unread = list[str]()
        else:
            found, unread = await _of_parked_runs(client, limit)
    if run_id is not None and found and not caller.as_json:
        show_how_to_finish(terminal.out(), found)
    else:
        whose = "No run is parked." if run_id is None else f"The run {run_id} does not wait."
        caller.show_list(_COLUMNS, found, whose, record=record)
    for one in unread:
        terminal.say(terminal.err(), f"Not read: {one}. It is encrypted, deleted or slow to read.")


async def _of_parked_runs(client: "Client", limit: int) -> "tuple[list[PendingWait], list[str]]":
    """Return the waits of all parked runs, the longest first, and the runs that were not read."""
    from outlast.client import runs
    from outlast.client.read.in_turn import read_each
    from outlast.client.results.pending_waits import pending_waits

    criteria = runs.RunFilter(status="parked", nested=True)
    listed = await runs.find_runs(client, criteria, limit=limit)
    if len(listed) == limit:
        say_limit(limit, " runs")
    states = await read_each(
        listed, lambda one: runs.state_of(client, one.run_id, one.execution_id)
    )
    unread = [one.run_id for one, state in zip(listed, states, strict=True) if state is None]
    found = [wait for state in states if state is not None for wait in pending_waits(state)]
    return sorted(found, key=lambda one: one.since), unread


@on_server
async def finish(
    caller: Caller,
    target: str,
    value: str | None = None,
    value_file: str | None = None,
    delivery_id: str = "",
    source: str | None = None,
) -> None:
    """Deliver what a tool waits for: its call goes on.

    The run refuses a value that comes too late, after another one, or that does not fit the tool's
    schema; then the tool goes on waiting. Without a worker, the server keeps the value until one starts.

    Command line:
        target (TOKEN|ID[/CALL]): The token of the wait, or the run's id, with the id of the call if
            several wait.
        value (JSON): What the tool waits for: JSON, or @FILE.
        value_file (FILE): A file with the JSON; - for standard input.
        delivery_id: Tells the delivery from others: a second one with this id changes nothing.
            Default: made of the wait and the value.
        source: Who delivers it; proves nothing. Default: you.
    """
    from outlast.client import deliveries
    from outlast.client.handle import RunHandle

    delivered = _value(value, value_file)
    client = (await caller.connect()).client
    run_id, token = await _token(client, target)
    async with server.waiting_for_worker(RunHandle(client, run_id), f"delivering to {run_id}"):
        receipt = await deliveries.finish(
            token,
            delivered,
            client=client,
            delivery_id=delivery_id,
            source=sender(None).subject if source is None else source,
        )
    at = receipt.at and receipt.at.isoformat()
    kept = f"No worker runs: the server keeps {receipt.name} for {run_id} until one starts."
    done = f"Delivered {receipt.name} to {run_id}; its tool goes on."
    facts = {"run_id": run_id, "name": receipt.name, "at": at, "token": token}
    caller.show(facts, done if at else kept)
    if not caller.as_json:
        terminal.say(terminal.err(), "See the run: `", command("show", run_id), "`.")


def _value(value: str | None, value_file: str | None) -> Json:
    if (value is None) == (value_file is None):
        raise UserError(
            "Write what the tool waits for: --value with JSON, such as --value '{\"ok\": true}', or "
            "--value-file with a file, - for standard input."
        )
    if value is not None:
        return json_option(value, "--value")
    return json_option(f"@{value_file}", "--value-file")


async def _token(client: "Client", target: str) -> tuple[str, str]:
    """Return the run and the token of the wait that an argument names."""
    from outlast.agents.context.wait_address import WaitAddress

    try:
        return WaitAddress.parse(target).run_id, target
    except ValueError:
        pass
    run_id, call_id, found = await _waits_of(client, target)
    if call_id:
        matching = [one for one in found if one.call_id == call_id]
        if not matching:
            calls = ", ".join(one.call_id for one in found) or "none"
            raise DeliveryRefused(
                f"The run {run_id} has no call {call_id!r:.80} that waits. Calls that wait: {calls}."
            )
        found = matching
    if not found:
        raise DeliveryRefused(f"The run {run_id} waits for nothing from outside.")
    if len(found) > 1:
        listed = "".join(
            f"\n  {command('finish', f'{one.run_id}/{one.call_id}', options='--value JSON')}: {one.what}"
            for one in found
        )
        raise UserError(f"The run {run_id} waits for {len(found)} values. Name the call:{listed}")
    return found[0].run_id, found[0].token


async def _waits_of(client: "Client", target: str) -> "tuple[str, str, Sequence[PendingWait]]":
    """Return the run, the call and the waits that `ID[/CALL]` names; ids may have slashes, too."""
    from outlast.client.handle import RunHandle

    try:
        return target, "", await RunHandle(client, target).pending_waits()
    except RunNotFound as error:
        run_id, slash, call_id = target.rpartition("/")
        if slash and run_id and call_id:
            return run_id, call_id, await RunHandle(client, run_id).pending_waits()
        error.add_note("The argument is no token of a wait, either. `outlast waits` lists tokens.")
        raise


# --- For people and programs ---------------------------------------------------------------------


def record(one: "PendingWait") -> JsonObject:
    """Return a wait for programs."""
    return {
        "run_id": one.run_id,
        "agent": one.agent,
        "tool": one.tool,
        "call_id": one.call_id,
        "waits_for": one.name,
        "since": one.since.isoformat(timespec="milliseconds"),
        "until": None if one.until is None else one.until.isoformat(timespec="milliseconds"),
        "schema": one.schema,
        "token": one.token,
    }


def show_how_to_finish(console: terminal.Screen, found: "Sequence[PendingWait]") -> None:
    """Print what a run waits for, and the commands that finish it."""
    for one in found:
        headline = joined(one.run_id, " waits for ", named(one.name))
        terminal.say(console, (headline, "bold yellow"))
        until = "without an end" if one.until is None else shown_time(ms_of(one.until))
        schema = [("schema", excerpt(json_text(one.schema)))] if one.schema is not None else []
        from outlast.cli.view import say_facts  # imports what is slow

        say_facts(
            console,
            [
                ("tool", joined(named(one.tool), ", called by ", named(one.agent))),
                ("since", shown_time(ms_of(one.since))),
                ("until", until),
                *schema,
                ("token", one.token),
            ],
        )
        target = one.run_id if len(found) == 1 else f"{one.run_id}/{one.call_id}"
        terminal.say(console, "  ", command("finish", target, options="--value JSON"))
