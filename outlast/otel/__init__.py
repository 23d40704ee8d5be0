"""Traces and metrics of runs for OpenTelemetry."""

from outlast import lazy

lazy.attach(__name__)
