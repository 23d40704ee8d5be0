"""`outlast policy`: checks an operators' file of approval policies, and tries it on past runs."""

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from outlast.agents.approvals.dry_run import DryRun
from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.agents.approvals.policy_file import ApprovalFile, FilePolicy
from outlast.agents.errors import AgentsException
from outlast.cli import options, server, terminal
from outlast.cli.durations import past_time
from outlast.cli.list_runs import READ_AT_ONCE, READ_SECONDS
from outlast.contract import names
from outlast.visibility.queries import search_error

if TYPE_CHECKING:
    from temporalio.client import Client

File: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FILE", help="The TOML file.", show_default=False)
]

_CHECKED = (
    terminal.Column(name="TABLE", folds=True),
    terminal.Column(name="WHO DECIDES", folds=True),
    terminal.Column(name="WHEN", folds=True),
)

_TRIED = (
    terminal.Column(name="AGENT", left_out=2),
    terminal.Column(name="WHAT", folds=True),
    terminal.Column(name="TABLE", left_out=1),
    terminal.Column(name="CALLS", numbers=True),
    terminal.Column(name="WOULD WAIT", numbers=True),
    terminal.Column(name="UNCLEAR", numbers=True, left_out=3),
    terminal.Column(name="DID WAIT", numbers=True),
)


def check(
    file: File,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[TARGET]",
            help="Where the agents are, as for `outlast worker`; their names are compared.",
            show_default=False,
        ),
    ] = None,
    app_dir: options.AppDir = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Check a file of approval policies, as a worker does when it starts.

    With a target, also check that its agents have the tools, handoffs and arguments.
    """
    policies = ApprovalFile.load(file)
    agents = _compare(policies, target, app_dir) if target is not None else None
    entries = list(policies.entries.values())
    if as_json:
        terminal.print_json(
            {"file": str(file), "policies": [*map(_record, entries)], "agents": agents}
        )
        return
    if entries:
        terminal.say_table(terminal.out(), _CHECKED, [_row(entry) for entry in entries])
    terminal.say(terminal.err(), ("ok", "bold green"), f": {len(entries)} policies in {file}.")
    if agents is None:
        terminal.say(
            terminal.err(), "Names were not compared. Add the target that your worker runs."
        )


def _compare(policies: ApprovalFile, target: str, app_dir: Path) -> list[str]:
    """Compare a file with the agents of a target, and return their names."""
    from outlast.agents.approval_points import approval_points
    from outlast.agents.registry import Registry
    from outlast.cli.application import load_config

    registry = Registry(load_config(target, app_dir)["agents"])
    policies.check(approval_points(registry))
    return registry.names


def _record(entry: FilePolicy) -> dict[str, object]:
    kind, agent, name = entry.key
    policy = entry.policy
    return {
        "table": entry.title,
        "kind": kind,
        "agent": agent or None,
        "name": name or None,
        "needs_approval": policy is not None,
        "when": str(policy.when) if policy is not None and policy.when is not None else None,
        "quorum": policy.quorum if policy is not None else None,
    }


def _row(entry: FilePolicy) -> list[terminal.Part | list[terminal.Part]]:
    if entry.policy is None:
        return [entry.title, "nobody", "never"]
    return [entry.title, _people(entry.policy), str(entry.policy.when or "always")]


def _people(policy: ApprovalPolicy) -> str:
    """Return who decides under a policy, such as `2 of ann, the group billing`."""
    audience = policy.audience
    named: list[str] = []
    if isinstance(audience, Audience):
        named = [*audience.subjects, *(f"the group {one}" for one in audience.groups)]
    number = "anybody" if policy.quorum == 1 else f"{policy.quorum} people"
    if not named:
        return number
    return f"{policy.quorum} of {', '.join(named)}"


def try_on_runs(
    file: File,
    since: Annotated[
        str, typer.Option("--since", help="How far back, such as 12h or 30d, or a date.")
    ] = "30d",
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="The maximum number of runs to read.")
    ] = 1_000,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Count which calls of past runs a file of approval policies would have asked people about.

    Reads the histories of open runs, and of those that ended since then. Changes nothing.
    """
    policies = ApprovalFile.load(file)
    start = past_time(since, datetime.now(UTC))  # noqa: TID251  for a query

    async def read() -> tuple[DryRun, int]:
        connection = await server.connect(address, namespace)
        async with terminal.waiting(terminal.err(), "reading runs"):
            return await try_policies(connection.client, policies, start, limit=limit)

    tried, unread = asyncio.run(read())
    if as_json:
        rows = [asdict(tally) for tally in tried.tallies]
        terminal.print_json({"runs": tried.runs, "unread_runs": unread, "tallies": rows})
    else:
        _show_tried(tried, unread, since, limit)


def _show_tried(tried: DryRun, unread: int, since: str, limit: int) -> None:
    rows = [
        (
            tally.agent,
            f"{tally.kind} {tally.name}".rstrip(),
            tally.table or "-",
            f"{tally.calls:,}",
            f"{tally.asked:,} of {tally.calls:,}" if tally.table else "as in the code",
            f"{tally.unclear:,}" if tally.table else "-",
            f"{tally.were_asked:,}",
        )
        for tally in tried.tallies
    ]
    if rows:
        terminal.say_table(terminal.out(), _TRIED, rows)
    terminal.say(terminal.err(), f"{tried.runs:,} runs, since {since}.")
    if unread:
        terminal.say(
            terminal.err(), ("warning: ", "bold yellow"), f"{unread:,} runs could not be read."
        )
    if tried.runs + unread >= limit:
        terminal.say(terminal.err(), f"Limited to {limit:,} runs: there may be more, see --limit.")


async def try_policies(
    client: "Client", policies: ApprovalFile, since: datetime, *, limit: int
) -> tuple[DryRun, int]:
    """Read runs and apply the policies, and return the counts and the number of unread runs.

    Raises:
        UserError: the namespace does not exist.
        ServerUnavailable: the server does not answer.
    """
    from outlast.client.handle import RunHandle

    tried = DryRun(policies)
    turn = asyncio.Semaphore(READ_AT_ONCE)

    async def add(run_id: str) -> bool:
        try:
            async with turn, asyncio.timeout(READ_SECONDS):
                state = await RunHandle(client, run_id).state()
        except (AgentsException, TimeoutError):  # encrypted, deleted, or too slow
            return False
        tried.add(state)
        return True

    read = await asyncio.gather(*map(add, await _runs_since(client, since, limit)))
    return tried, read.count(False)


async def _runs_since(client: "Client", since: datetime, limit: int) -> list[str]:
    from temporalio.service import RPCError

    query = (
        f"WorkflowType = '{names.WORKFLOW}' AND ExecutionStatus != 'ContinuedAsNew' "
        f"AND (ExecutionStatus = 'Running' OR CloseTime >= '{since.isoformat()}')"
    )
    try:
        return [run.id async for run in client.list_workflows(query, limit=limit)]
    except RPCError as error:
        raise search_error(client.namespace, error) from error
