"""What a worker loads: `outlast worker support_desk.app --app-dir examples`.

Owns: the names that a worker looks for. Must not know: how a worker is started.
"""

import os

from support_desk.agents import agents
from support_desk.context import Customer

context_type = Customer
"""The type of the run's context: what JSON given at the start of a run is checked against."""

if os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):  # somebody listens, such as a collector
    from outlast import add_trace_processor
    from outlast.otel import OpenTelemetryProcessor

    add_trace_processor(OpenTelemetryProcessor())

__all__ = ["agents", "context_type"]
