"""The log of a desk, whose errors may quote what a model or a customer wrote."""

import logging
from io import StringIO

import pytest
from typer.testing import CliRunner

from outlast.cli.app import app
from outlast.serve.problems import problem_of


def test_a_defect_that_quotes_a_model_moves_no_cursor_and_forges_no_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root, shown = logging.getLogger(), StringIO()
    monkeypatch.setattr(root, "handlers", list[logging.Handler]())
    # It refuses to start; the log is there before.
    CliRunner().invoke(app, ["serve", "--host", "10.0.0.7"])
    [handler] = root.handlers
    monkeypatch.setattr(handler, "stream", shown)  # that of the command is closed
    problem_of(RuntimeError("\x1b[2Jgone\u202e\n2026-01-01 ERROR forged"))
    assert "gone" in shown.getvalue()
    assert not {"\x1b", "\u202e"} & {*shown.getvalue()}
    assert all(line.startswith("    ") for line in shown.getvalue().splitlines()[1:])
