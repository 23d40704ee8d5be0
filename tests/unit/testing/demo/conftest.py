"""The workers of the command line's tests, at the server of all tests."""

from tests.unit.cli.conftest import open_desk, open_slow, run_id

__all__ = ["open_desk", "open_slow", "run_id"]
