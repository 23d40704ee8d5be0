"""Where the metrics of a process go, as OpenTelemetry's environment variables say."""

import os
from importlib.util import find_spec
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader

from outlast.agents.errors import UserError
from outlast.contract import names

METRICS_VARIABLE: Final = "OTEL_METRICS_EXPORTER"
"""Lists where metrics go: `otlp` (the default), `prometheus`, `none`."""


def metric_readers() -> list[MetricReader]:
    """Return what sends or serves the metrics of this process.

    Raises:
        UserError: the page for Prometheus cannot be served.
    """
    found: list[MetricReader] = []
    for name in (os.environ.get(METRICS_VARIABLE, "").strip().lower() or "otlp").split(","):
        match name.strip():
            case "none":
                pass
            case "prometheus":
                found.append(_page())
            case _:
                found.append(otlp_reader())
    return found


def otlp_reader() -> MetricReader:
    """Return what sends metrics to a collector, over HTTP."""
    return PeriodicExportingMetricReader(OTLPMetricExporter())


def check_page_installed() -> None:
    """Check that the packages of the extra `monitor` are there.

    Raises:
        UserError: they are not.
    """
    if find_spec("prometheus_client") is None:
        raise UserError('A page of metrics needs more packages: pip install "outlast[monitor]".')


def _page() -> MetricReader:
    check_page_installed()
    from outlast.otel.page import page_from_environment

    return page_from_environment(int(os.environ.get(names.WORKER_INDEX, "0")))
