"""Traces and metrics of runs for OpenTelemetry."""

from outlast.common import lazy

lazy.attach(__name__)
