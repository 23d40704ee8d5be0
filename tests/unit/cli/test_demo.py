import asyncio
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from outlast.cli import demo as module
from outlast.cli import terminal
from outlast.cli.app import app
from outlast.cli.demo_cast import DemoFailed
from outlast.cli.demo_narration import Narrator
from outlast.dev import EmbeddedServer


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replace the play: record its options, or raise an error."""
    seen: dict[str, Any] = {}

    async def play(**options: Any) -> None:
        seen.update(options)
        if "error" in seen:
            raise seen["error"]

    monkeypatch.setattr(module, "_play", play)
    return seen


def test_without_a_terminal_nobody_is_asked(play: Any) -> None:
    assert CliRunner().invoke(app, ["demo"]).exit_code == 0
    assert play == {"asks": False, "offline": False, "keep": False, "as_json": False}


@pytest.mark.parametrize(
    ("arguments", "asks"), [([], True), (["--yes"], False), (["--json"], False)]
)
def test_on_a_terminal_a_person_is_asked_unless_they_do_not_want_to(
    play: Any, monkeypatch: pytest.MonkeyPatch, arguments: list[str], asks: bool
) -> None:
    monkeypatch.setattr(module.sys, "stdin", Terminal())
    monkeypatch.setattr(module.sys, "stdout", Terminal())

    module.demo(yes="--yes" in arguments, as_json="--json" in arguments)

    assert play["asks"] is asks


class Terminal:
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("error", "code"),
    [(DemoFailed("Twice."), 1), (asyncio.CancelledError(), 130), (EOFError(), 130)],
)
def test_an_end_that_is_not_the_right_one_has_its_exit_code(
    play: Any, error: BaseException, code: int
) -> None:
    play["error"] = error

    assert CliRunner().invoke(app, ["demo"]).exit_code == code


def test_everything_is_cleared_away_unless_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    narrator = Narrator(terminal.out(), as_json=False)
    home = tmp_path / "demo"
    home.mkdir()

    module._clear(home, narrator, keep=True)
    assert home.is_dir()
    assert str(home) in capsys.readouterr().out

    module._clear(home, narrator, keep=False)
    assert not home.exists()


async def test_what_keeps_the_stage_from_being_set_is_one_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def no_model(*_arguments: Any) -> str:
        raise DemoFailed("No model today.")

    monkeypatch.setattr("outlast.cli.demo_cast.start_offline_model", no_model)
    narrator = Narrator(terminal.out(), as_json=True)
    server = EmbeddedServer(data_dir=tmp_path)

    with pytest.raises(DemoFailed, match="No model today"):
        await module._start_server_and_model(server, tmp_path, [], narrator, offline=True)
    await server.stop()
