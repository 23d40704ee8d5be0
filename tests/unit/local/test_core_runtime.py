"""The runtime of the engine's core: one for each process."""

import os

import pytest
from temporalio.runtime import Runtime, TelemetryConfig

from outlast.agents.errors import UserError
from outlast.local import core_runtime
from outlast.local.core_runtime import have_runtime


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    """The runtime of this process, once it has one; what a test makes the default is forgotten."""
    have_runtime()
    monkeypatch.setattr("temporalio.runtime._runtime_ref._default_runtime", Runtime.default())
    monkeypatch.setattr(core_runtime, "_owner", getattr(core_runtime, "_owner"))  # noqa: B009  private
    return Runtime.default()


def test_a_process_keeps_the_runtime_it_has(first: Runtime) -> None:
    have_runtime()
    assert Runtime.default() is first


def test_a_forked_process_is_refused(first: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for _ in range(2):
        with pytest.raises(UserError, match=r"forked from one that has run agents.*'spawn'"):
            have_runtime()
    assert Runtime.default() is first


def test_a_runtime_that_a_forked_process_has_chosen_is_kept(
    first: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = Runtime(telemetry=TelemetryConfig())
    Runtime.set_default(chosen, error_if_already_set=False)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    have_runtime()
    assert Runtime.default() is chosen
    assert chosen is not first
