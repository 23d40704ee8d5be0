"""Traces and metrics of runs for OpenTelemetry."""

from outlast.edges import lazy

lazy.attach(__name__)
