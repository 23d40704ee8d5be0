"""The port to the engine in the process: found by name, because it stands above its users."""

import inspect

import pytest

from outlast.local.engine import LocalEngine
from outlast.ports import engine
from outlast.ports.engine import Engine, local_engine


def test_the_implementation_is_found_by_its_name() -> None:
    assert local_engine() is LocalEngine


@pytest.mark.parametrize("name", ["shared", "serve", "close_shared"])
def test_the_implementation_does_what_the_port_says(name: str) -> None:
    """The name is a string, so no type checker compares the two."""
    wanted, done = getattr(Engine, name), getattr(LocalEngine, name)
    assert inspect.iscoroutinefunction(done)
    assert [*inspect.signature(done).parameters] == [*inspect.signature(wanted).parameters]


def test_the_implementation_has_a_client() -> None:
    assert "client" in LocalEngine.__init__.__annotations__


def test_an_implementation_that_is_not_there_is_an_import_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "IMPLEMENTATION", "outlast.local.nowhere:LocalEngine")
    with pytest.raises(ImportError):
        local_engine()
