"""The attacks use the desk of the workflow tests: real servers, workers and clients."""

from tests.workflow.conftest import cached, desk

__all__ = ["cached", "desk"]
