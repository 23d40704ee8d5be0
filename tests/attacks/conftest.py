"""The attacks use the desk of the workflow tests: real servers, workers and clients."""

from pathlib import Path
from typing import Any, Final

import pytest

from tests.workflow.conftest import cached, desk

__all__ = ["cached", "desk"]

HERE: Final = Path(__file__).parent
HOSTS: Final = ("program", "worker")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave each attack to one host, by turns; `make every-host` tries all on both.

    The turns are not regular, so that each value of a further parameter meets both.
    """
    turns: dict[Any, int] = {}
    for item in items:
        if not isinstance(item, pytest.Function) or not item.path.is_relative_to(HERE):
            continue
        parts = item.callspec.id.split("-") if hasattr(item, "callspec") else []
        if not (host := next((one for one in parts if one in HOSTS), "")):
            continue
        parts.remove(host)
        turn = turns.setdefault((item.path, item.originalname, *parts), len(turns))
        mark = item.get_closest_marker("host")
        if host != (mark.args[0] if mark else HOSTS[turn.bit_count() % 2]):
            item.add_marker(pytest.mark.nightly)
