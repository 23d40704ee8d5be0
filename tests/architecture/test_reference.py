"""The reference lists every public name, command, option and environment variable."""

import re

import typer.main
from typer.core import TyperGroup

import outlast
from outlast.cli.app import app
from outlast.cli.exit_codes import MEANINGS
from tests.architecture.source import ROOT, names_of

REFERENCE = ROOT / "docs" / "reference"
COMMANDS = (REFERENCE / "command-line.md").read_text(encoding="utf-8")


def test_the_api_reference_has_every_public_name_once() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("api/*.md"))
    named = re.findall(r"^(?:::: outlast\.|## )(\w+)$", pages, re.MULTILINE)
    assert sorted(named) == sorted(names_of(outlast))


def test_the_reference_has_every_command_with_its_options() -> None:
    row = r"^\| `outlast ([a-z]+(?: [a-z-]+)*)[^|]*\|([^\n]*)$"
    rows = dict(re.findall(row, COMMANDS, re.MULTILINE))
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    commands = {
        f"{name} {inner}".strip(): one
        for name, command in group.commands.items()
        for inner, one in (
            command.commands.items() if isinstance(command, TyperGroup) else [("", command)]
        )
    }
    alone = {
        name: one
        for name, one in group.commands.items()
        if isinstance(one, TyperGroup) and one.invoke_without_command
    }
    commands |= alone
    assert set(rows) == set(commands)
    everywhere = {"--json", "--help", "--address", "--namespace", "--codec"}
    for name, command in commands.items():
        options = {
            max(one.opts, key=len)
            for one in command.params
            if one.param_type_name == "option" and not one.hidden  # type: ignore[attr-defined]
        }
        assert set(re.findall(r"`(--[\w-]+)`", rows[name])) == options - everywhere, name


def test_the_reference_has_every_exit_code() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", COMMANDS, re.MULTILINE)
    assert {int(code): meaning for code, meaning in rows} == MEANINGS


def test_the_reference_has_every_environment_variable_of_the_package() -> None:
    page = (REFERENCE / "environment.md").read_text(encoding="utf-8")
    source = "".join(
        file.read_text(encoding="utf-8") for file in (ROOT / "outlast").glob("**/*.py")
    )
    read = set(re.findall(r'"(OUTLAST_[A-Z_]+|OPENAI_[A-Z_]+)"', source))
    assert set(re.findall(r"`(OUTLAST_[A-Z_]+|OPENAI_[A-Z_]+)`", page)) == read
