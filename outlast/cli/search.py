"""The options with which commands choose runs of a server, to read their histories."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from outlast.cli import options
from outlast.cli.durations import past_time
from outlast.contract.names import ListedStatus

if TYPE_CHECKING:
    from temporalio.client import Client

    from outlast.client.recordings import Recording, UnreadRun
    from outlast.client.recordings.reading import Key
    from outlast.client.runs import RunFilter

_Since: TypeAlias = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Open runs, and those that ended since: 30d."),
]
_Status: TypeAlias = Annotated[
    ListedStatus | None, typer.Option("--status", help="Only runs with this status.")
]
_AgentName: TypeAlias = Annotated[
    str | None, typer.Option("--agent", help="Only runs whose current agent is this one.")
]
_Query: TypeAlias = Annotated[
    str, typer.Option("--query", help="Further terms in Temporal's query language.")
]
_Archived: TypeAlias = Annotated[
    bool, typer.Option("--archived", help="Also runs that only the archive has.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Which runs of a server a command reads.

    Attributes:
        begins: the time in `--since`.

    Raises:
        UserError: that is no time.
    """

    since: _Since = None
    status: _Status = None
    agent: _AgentName = None
    query: _Query = ""
    archived: _Archived = False
    limit: options.Limit = 1_000
    begins: datetime | None = field(init=False, default=None)

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
            limit=self.limit,
            redact=redact,
            skip=skip or set(),
            archived=self.archived,
        )
        async with aclosing(runs) as found:
            async for one in found:
                yield one
