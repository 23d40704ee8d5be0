"""What tests of deployment files ask: whether a command is one of `outlast`, and a document fits a schema."""

from collections.abc import Sequence
from typing import Any

import typer.main

from outlast.cli.app import app


def parse(words: Sequence[str]) -> None:
    """Let `outlast` read a command line, without running it; raises for what it does not know."""
    rest: list[str] = [*words]
    command: Any = typer.main.get_command(app)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    command.make_context("outlast", rest)


def problems(checker: Any, document: Any) -> list[str]:
    """Return what of a document a validator of `jsonschema` refuses."""
    return [f"{error.json_path}: {error.message}" for error in checker.iter_errors(document)]
