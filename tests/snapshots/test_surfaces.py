"""The HTTP API's document, and what each command says of itself, do not move unseen."""

from collections.abc import Iterator
from typing import Any

import typer

from outlast.cli.app import app
from outlast.serve import openapi
from tests.snapshots.kept import compare


def test_the_document_of_the_api() -> None:
    compare("openapi.json", openapi.document())


def test_the_help_of_every_command() -> None:
    compare("help.json", dict(_of_command("outlast", typer.main.get_command(app))))


def _of_command(path: str, command: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what a command and those below it say, without the form that a terminal gives it."""
    parameters = {
        " ".join(one.opts) if one.param_type_name == "option" else one.name: {
            "help": getattr(one, "help", None),
            "required": one.required,
            "several": one.multiple or one.nargs != 1,
        }
        for one in command.params
    }
    yield path, {"help": command.help, "parameters": parameters}
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _of_command(f"{path} {name}", inner)
