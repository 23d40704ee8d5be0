"""The names of `outlast.realtime` are those of the SDK, with the same fields."""

import importlib
import inspect
import pkgutil
from typing import Any

import pytest

from outlast import realtime
from outlast.edges import lazy
from tests.architecture.source import PACKAGE, names_of
from tests.unit.realtime.sdk_parity import shape

HOMES = lazy.homes((PACKAGE / "realtime" / "__init__.pyi").read_text(encoding="utf-8"))

PLAIN = ("config", "items", "model", "model_events", "model_inputs")
"""Modules of the SDK that hold only records and abstract classes."""


def test_every_name_is_the_one_of_its_home() -> None:
    assert names_of(realtime) == list(HOMES)
    for name, home in HOMES.items():
        assert getattr(realtime, name) is pkgutil.resolve_name(home), name


def test_an_event_is_created_by_position_or_by_name() -> None:
    call = realtime.RealtimeModelToolCallEvent("look_up", "call_1", "{}", "item_1")
    assert call == realtime.RealtimeModelToolCallEvent(
        name="look_up", call_id="call_1", arguments="{}", id="item_1"
    )
    assert call.type == "function_call"


@pytest.mark.parametrize("module", PLAIN)
def test_the_records_have_the_fields_of_the_sdk(module: str) -> None:
    theirs = pytest.importorskip(f"agents.realtime.{module}", reason="the SDK is not installed")
    found = 0
    for name, record in _defined_in(theirs):
        ours = getattr(realtime, name)
        assert shape(ours) == shape(record), name
        if shape(record) is None:
            methods: list[str] = [one for one in dir(record) if not one.startswith("_")]
            assert {one for one in methods if not hasattr(ours, one)} == set(), name
        found += 1
    assert found >= 5


def test_every_public_name_of_the_sdk_is_here() -> None:
    package = pytest.importorskip("agents.realtime", reason="the SDK is not installed")
    assert len(package.__all__) > 80
    assert [name for name in package.__all__ if name not in HOMES] == []


INNER = {
    "get_server_event_type_adapter",
    "collect_enabled_handoffs",
    "filter_enabled_handoffs",
}
"""Functions of the SDK's modules that only its own session and model call."""


def test_every_module_of_the_sdk_is_here_with_its_names() -> None:
    package = pytest.importorskip("agents.realtime", reason="the SDK is not installed")
    missing: list[str] = []
    for found in pkgutil.iter_modules(package.__path__):
        if found.name.startswith("_"):
            continue
        theirs = importlib.import_module(f"agents.realtime.{found.name}")
        ours = importlib.import_module(f"outlast.realtime.{found.name}")
        missing += [
            f"{found.name}.{name}"
            for name, one in vars(theirs).items()
            if not name.startswith("_") and getattr(one, "__module__", "") == theirs.__name__
            if not hasattr(ours, name) and name not in INNER
        ]
    assert missing == []


def _defined_in(module: Any) -> list[tuple[str, Any]]:
    return [
        (name, one)
        for name, one in inspect.getmembers(module, inspect.isclass)
        if one.__module__ == module.__name__ and not name.startswith("_")
    ]
