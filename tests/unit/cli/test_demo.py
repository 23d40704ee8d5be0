import asyncio
from typing import Any

import pytest
from typer.testing import CliRunner

from outlast.cli import demo as module
from outlast.cli.app import app
from outlast.testing.demo.processes import DemoFailed


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
    assert play == {"asks": False, "offline": False, "keep": False, "desk": False, "as_json": False}


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
