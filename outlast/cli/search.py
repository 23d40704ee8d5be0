"""The options with which commands choose runs of a server, to read their histories."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from outlast.cli import options, terminal
from outlast.cli.durations import past_time
from outlast.contract.names import ListedStatus

if TYPE_CHECKING:
    from temporalio.client import Client

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
_Query: TypeAlias = Annotated[
    str, typer.Option("--query", help="Further terms in Temporal's query language.")
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
    """

    since: Since = None
    status: Status = None
    agent: AgentName = None
    query: _Query = ""
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

    async def read_runs(
        self, client: "Client", run_ids: Sequence[str], *, redact: bool
    ) -> "AsyncGenerator[Recording | UnreadRun]":
        """Yield the recordings of the named runs, or of all that match if none is named."""
        for run_id in dict.fromkeys(run_ids) or (None,):
            async with aclosing(self.read(client, run_id, redact=redact)) as found:
                async for one in found:
                    yield one

    async def read(
        self, client: "Client", run_id: str | None, *, redact: bool, skip: "set[Key] | None" = None
    ) -> "AsyncGenerator[Recording | UnreadRun]":
        """Yield the recording of one run, or those of all that match, without those to skip."""
        from outlast.client.recordings import record_run, record_runs

        if run_id is not None:
            yield await record_run(client, run_id, redact=redact)
            return
        runs = record_runs(
            client,
            self.criteria(),
            since=self.begins,
            query=self.query,
            limit=self.limit + 1,
            redact=redact,
            skip=skip or set(),
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
            words = f"Limited to {self.limit:,} runs: there are more, see --limit."
            terminal.say(terminal.err(), words)


async def in_files(files: list[Path]) -> "AsyncGenerator[Recording | UnreadRun]":
    """Yield the recordings in files."""
    from outlast.testing import load_runs

    for file in files:
        for one in load_runs(file):
            yield one
