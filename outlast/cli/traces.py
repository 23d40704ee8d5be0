"""`outlast traces`: spans of runs out of their histories."""

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from outlast.agents.errors import AgentsException, UserError
from outlast.cli import terminal
from outlast.cli.caller import Caller, on_server
from outlast.cli.exit_codes import ExitCode
from outlast.cli.search import Search

if TYPE_CHECKING:
    from temporalio.client import Client

    from outlast.otel.exporting import SpanSender
    from outlast.tracing.current import Span

BATCH: Final = 512
"""How many spans are sent at once."""


@on_server
async def export(
    caller: Caller,
    search: Search,
    run_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]",
            help="The run's id; without one, all runs that match.",
            show_default=False,
        ),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            "--endpoint",
            metavar="URL",
            help="A collector, over HTTP. Default: OTEL_EXPORTER_OTLP_ENDPOINT, or port 4318 here.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="A new file of OTLP in JSON lines; - for the terminal."
        ),
    ] = None,
    content: Annotated[
        bool, typer.Option("--content", help="With arguments and results of tools, and replies.")
    ] = False,
) -> ExitCode:
    """Send spans of runs to an OpenTelemetry collector, or write them to a file.

    Read from the runs' histories, with the ids that workers send them with; needs no worker. Exits
    with 1 if spans are missing: a run cannot be read, a history is lost, or there are more runs than
    the limit.
    """
    if run_id is None and not search.is_given:
        raise UserError("Name a run, or which runs: `outlast traces export --since 30d`.")
    if endpoint is not None and output is not None:
        raise UserError("Choose --endpoint or --output, not both.")
    with ExitStack() as stack:
        runs = _Runs(_sender(endpoint, output, content or None, stack))
        client = (await caller.connect()).client
        if run_id is not None:
            await runs.send(client, run_id, None)
        else:
            await runs.send_all(client, search.keys(client), search.limit)
    runs.report()
    return ExitCode.FAILED if runs.unread or runs.lost or runs.is_cut else ExitCode.OK


def _sender(
    endpoint: str | None, output: Path | None, content: bool | None, stack: ExitStack
) -> "SpanSender":
    try:
        from outlast.otel.exporting import SpanSender
    except ImportError as error:
        raise UserError(
            f"`outlast traces` needs {error.name}. Install it: pip install 'outlast[otel]'"
        ) from error
    if output is None:
        return SpanSender(endpoint=endpoint, include_content=content)
    if str(output) == "-":
        return SpanSender(file=sys.stdout, include_content=content)
    try:
        output.touch(mode=0o600, exist_ok=False)
        file = stack.enter_context(output.open("w", encoding="utf-8"))
    except FileExistsError:
        raise UserError(f"{output} exists. Choose another file, or remove it.") from None
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror}.") from error
    return SpanSender(file=file, include_content=content)


class _Runs:
    """Sends the spans of runs, and counts what it sent."""

    def __init__(self, sender: "SpanSender") -> None:
        self._sender = sender
        self.runs = self.spans = self.unread = self.lost = 0
        self.is_cut = False

    async def send_all(
        self, client: "Client", keys: "AsyncGenerator[tuple[str, str]]", limit: int
    ) -> None:
        """Send the spans of several runs; a run that cannot be read is named and left out."""
        async with aclosing(keys) as found:
            async for run_id, execution in found:
                if self.runs + self.unread >= limit:
                    self.is_cut = True
                    words = f"Limited to {limit:,} runs: there are more, see --limit."
                    terminal.say(terminal.err(), words)
                    break
                try:
                    await self.send(client, run_id, execution)
                except _NotSentError:
                    raise
                except AgentsException as error:
                    self.unread += 1
                    terminal.say(terminal.err(), f"Not read: {run_id}. ", error.message)

    async def send(self, client: "Client", run_id: str, execution: str | None) -> None:
        """Send the spans of a run and its nested runs."""
        from outlast.client.traces import read_spans

        async with aclosing(read_spans(client, run_id, execution_id=execution)) as stretches:
            async for one in stretches:
                if one.lost:
                    self.lost += 1
                    lost = f"The history {one.lost} of {one.run_id}, or more before it, is lost."
                    terminal.say(terminal.err(), lost)
                for at in range(0, len(one.spans), BATCH):
                    self._send(one.spans[at : at + BATCH])
        self.runs += 1

    def _send(self, spans: "Sequence[Span[Any]]") -> None:
        if not self._sender.send(spans):
            raise _NotSentError(
                "The collector did not take the spans. Is it there? The address is --endpoint, or "
                "OTEL_EXPORTER_OTLP_ENDPOINT."
            )
        self.spans += len(spans)

    def report(self) -> None:
        """Say what was sent."""
        terminal.say(terminal.err(), f"{self.spans:,} spans of {self.runs:,} runs")


class _NotSentError(UserError):
    """The collector did not take spans."""
