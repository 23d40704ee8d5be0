"""The options with which commands choose runs of a server, to read their histories."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from outlast.cli import options, terminal
from outlast.cli.caller import say_limit
from outlast.cli.durations import past_time
from outlast.contract.names import ListedStatus

if TYPE_CHECKING:
    from temporalio.client import Client

    from outlast.cli.caller import Caller
    from outlast.client.recordings import Recording, UnreadRun
    from outlast.client.recordings.reading import Key
    from outlast.client.runs import RunFilter

Since: TypeAlias = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Open runs, and those that ended since: 30d."),
]
Status: TypeAlias = Annotated[
    ListedStatus | None, typer.Option("--status", help="Only runs with this status.")
]
AgentName: TypeAlias = Annotated[
    str | None, typer.Option("--agent", help="Only runs whose current agent is this one.")
]
Archived: TypeAlias = Annotated[
    bool, typer.Option("--archived", help="Also runs that only the archive has.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Which runs of a server a command reads.

    Attributes:
        begins: the time in `--since`.
        is_cut: `read` has left out runs, because there are more than `--limit` says.

    Raises:
        UserError: that is no time.

    Command line:
        query: Further terms in Temporal's query language.
    """

    since: Since = None
    status: Status = None
    agent: AgentName = None
    query: str = ""
    archived: Archived = False
    limit: options.Limit = 1_000
    begins: datetime | None = field(init=False, default=None)
    is_cut: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        if self.since is not None:
            now = datetime.now(UTC)  # noqa: TID251  the caller's clock
            object.__setattr__(self, "begins", past_time(self.since, now))

    @property
    def is_given(self) -> bool:
        """Whether any of the options is given; a limit alone chooses no runs."""
        chosen = (self.since, self.status, self.agent, self.query, self.archived)
        return chosen != (None, None, None, "", False)

    def criteria(self) -> "RunFilter":
        """Return the filter of the list of runs."""
        from outlast.client.runs import RunFilter

        return RunFilter(status=self.status, agent=self.agent)

    def keys(self, client: "Client") -> "AsyncGenerator[Key]":
        """Yield the keys of all runs that match, without their histories."""
        from outlast.client.recordings.reading import run_keys

        return run_keys(
            client,
            self.criteria(),
            since=self.begins,
            query=self.query,
            archived=self.archived,
        )

    @asynccontextmanager
    async def reading(
        self,
        caller: "Caller",
        run_ids: Sequence[str] = (),
        files: Sequence[Path] | None = None,
        *,
        redact: bool = False,
        skip: "set[Key] | None" = None,
        person: str | None = None,
        what: str = "reading histories",
    ) -> "AsyncGenerator[Reading]":
        """Read the runs in files, the named runs of the server, those of a person, or all that match.

        A spinner says how many were read while the block runs.
        """
        if files:
            runs = _in_files(files)
        else:
            client = (await caller.connect()).client
            if person is not None:
                from outlast.client.recordings import record_person

                runs = record_person(client, person, redact=redact)
            else:
                runs = self._read(client, run_ids, redact=redact, skip=skip or set())
        async with terminal.waiting(terminal.err(), what) as shown, aclosing(runs):
            yield Reading(runs, shown)

    async def _read(
        self, client: "Client", run_ids: Sequence[str], *, redact: bool, skip: "set[Key]"
    ) -> "AsyncGenerator[Recording | UnreadRun]":
        from outlast.client.recordings import record_run, record_runs

        for run_id in dict.fromkeys(run_ids):
            yield await record_run(client, run_id, redact=redact)
        if run_ids:
            return
        runs = record_runs(
            client,
            self.criteria(),
            since=self.begins,
            query=self.query,
            limit=self.limit + 1,
            redact=redact,
            skip=skip,
            archived=self.archived,
        )
        number = 0
        async with aclosing(runs) as found:
            async for one in found:
                if number == self.limit:
                    object.__setattr__(self, "is_cut", True)
                    return
                number += 1
                yield one

    def warn_if_cut(self) -> None:
        """Print on standard error that more runs match than were read."""
        if self.is_cut:
            say_limit(self.limit, " runs", is_sure=True)


@dataclass
class Reading:
    """The runs that a command reads, of which some cannot be read.

    Attributes:
        count: how many came so far.
        unread: how many of them cannot be read.
    """

    runs: "AsyncGenerator[Recording | UnreadRun]"
    shown: terminal.Waiting
    count: int = 0
    unread: int = 0

    async def __aiter__(self) -> "AsyncGenerator[Recording]":
        from outlast.client.recordings import UnreadRun

        async for one in self.runs:
            self.count += 1
            if isinstance(one, UnreadRun):
                self.unread += 1
                terminal.say(terminal.err(), f"Not read: {one.run_id}. ", one.why)
            else:
                yield one
            self.shown.update(f"{self.count:,} runs")


async def _in_files(files: Sequence[Path]) -> "AsyncGenerator[Recording | UnreadRun]":
    from outlast.testing import load_runs

    for file in files:
        for one in load_runs(file):
            yield one
