"""`outlast monitor`: counts the runs of a namespace for dashboards and alerts."""

import asyncio
import logging
import os
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from outlast.agents.durations import parse_duration
from outlast.agents.errors import UserError
from outlast.agents.hosts import LARGEST_PORT, LOOPBACK
from outlast.cli.caller import Caller
from outlast.cli.described import described
from outlast.cli.process_log import log_to_standard_error, say_ready
from outlast.cli.signals import EndOfInput, stop_requested

if TYPE_CHECKING:
    from outlast.monitor.process import MonitorProcess
    from outlast.otel.page import PageReader

DEFAULT_METRICS_PORT: Final = 9464
SHORTEST_EVERY: Final = timedelta(seconds=1)
LONGEST_EVERY: Final = timedelta(seconds=25)
"""What was counted counts for 30 seconds."""

_LONGEST_END: Final = timedelta(seconds=10)
_OTLP: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")


@described
def monitor(
    host: str = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=LARGEST_PORT)] = DEFAULT_METRICS_PORT,
    token_file: Annotated[
        Path | None, typer.Option(envvar="OUTLAST_METRICS_TOKEN_FILE", show_default=False)
    ] = None,
    group: Annotated[list[str] | None, typer.Option(show_default=False)] = None,
    task_queue: Annotated[list[str] | None, typer.Option(show_default=False)] = None,
    desk: Annotated[list[str] | None, typer.Option(show_default=False)] = None,
    every: str = "15s",
    until_eof: Annotated[bool, typer.Option(hidden=True)] = False,
    *,
    caller: Caller,
) -> None:
    """Count the runs of a namespace until Ctrl-C, for Prometheus and OpenTelemetry.

    Start two, for instance beside two desks: one counts, and the other takes over within 40 seconds.
    Where OTEL_EXPORTER_OTLP_ENDPOINT is set, the gauges also go there.

    Command line:
        host: The address of the page /metrics; one that others reach needs --token-file.
        port: The port of the page; 0 for a free one.
        token_file (FILE): The file with the token that readers of the page send.
        group (NAME): A group whose requests are counted by name. Repeatable.
        task_queue (NAME): A task queue that is looked at also while it has no run. Repeatable.
        desk (ADDRESS): A desk that is asked whether it is there. Repeatable.
        every (DURATION): The time between two counts, up to 25s.
        until_eof: Also stop when standard input ends.
    """
    log_to_standard_error(logging.WARNING)
    _check_installed()
    interval = _interval(every)

    async def work() -> None:
        from outlast.archive import archive_from_environment
        from outlast.monitor.process import MonitorProcess, check_desk
        from outlast.monitor.reading import NamespaceReader
        from outlast.otel.page import PageReader

        stop = stop_requested()
        if until_eof:
            EndOfInput(stop, within=_LONGEST_END)
        client = (await caller.connect()).client
        reader = NamespaceReader(
            client,
            groups=frozenset(group or ()),
            queues=tuple(task_queue or ()),
            archive=archive_from_environment(),
        )
        desks = tuple(map(check_desk, desk or ()))
        process = MonitorProcess(reader=reader, every=interval, desks=desks)
        page = PageReader(host, port, token_file)
        with_meters(process, page)
        async with process.running():
            _say_where(host, page.port, as_json=caller.as_json)
            await stop.wait()

    asyncio.run(work())


def with_meters(process: "MonitorProcess", page: "PageReader") -> None:
    """Serve the gauges of a process, and send them where the environment says so."""
    from opentelemetry.sdk.metrics import MeterProvider

    import outlast
    from outlast.monitor.gauges import observe
    from outlast.otel.readers import otlp_reader

    sends = any(os.environ.get(one) for one in _OTLP)
    provider = MeterProvider([page, *([otlp_reader()] if sends else [])])
    namespace = process.reader.client.namespace
    observe(provider.get_meter("outlast", outlast.__version__), namespace, process.counts)


def _check_installed() -> None:
    if find_spec("prometheus_client") is None or find_spec("opentelemetry") is None:
        raise UserError('The monitor needs more packages: pip install "outlast[monitor]".')


def _interval(text: str) -> timedelta:
    found = parse_duration(text)
    if found is None or not SHORTEST_EVERY <= found <= LONGEST_EVERY:
        raise UserError(f"--every {text!r:.40} must be a duration from 1s to 25s.")
    return found


def _say_where(host: str, port: int, *, as_json: bool) -> None:
    where = f"http://[{host}]:{port}/metrics" if ":" in host else f"http://{host}:{port}/metrics"
    say_ready(f"The metrics are at {where}", as_json=as_json, metrics=where)
