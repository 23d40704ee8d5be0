from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from outlast.cli import terminal
from outlast.cli.demo_screen import TerminalNarrator
from outlast.testing.demo import stage as module


def test_everything_is_cleared_away_unless_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    narrator = TerminalNarrator(terminal.out(), as_json=False)
    home = tmp_path / "demo"
    home.mkdir()

    module._clear(home, narrator, keep=True)
    assert home.is_dir()
    assert str(home) in capsys.readouterr().out

    module._clear(home, narrator, keep=False)
    assert not home.exists()


@pytest.mark.parametrize("offline", [True, False])
def test_the_script_answers_without_a_key_or_when_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, offline: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    narrator = TerminalNarrator(terminal.out(), as_json=False)

    with ExitStack() as stack:
        environment = module._model(cast("Any", stack), narrator, offline=offline)

    assert bool(environment) is offline
    assert ("a script for this desk" in capsys.readouterr().out) is offline
