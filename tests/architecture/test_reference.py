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


API_PAGES = [page for page in sorted(REFERENCE.glob("api/*.md")) if page.stem != "index"]
LINK = re.compile(r"\]\((\.\./[^)#]+\.md)")


def missing_on(page: str) -> list[str]:
    """Return what the introduction of an API page lacks, before the first name."""
    head = page.partition("\n::: ")[0]
    guides = re.search(r"^Guides: .*$", head, re.MULTILINE)
    found = (
        []
        if re.search(r"^```py(thon)?\n.+?^```$", head, re.MULTILINE | re.DOTALL)
        else ["an example"]
    )
    return found if guides and LINK.search(guides[0]) else [*found, "a link to a guide"]


def test_each_page_of_the_api_begins_with_an_example_and_guides() -> None:
    missing = {page.stem: missing_on(page.read_text(encoding="utf-8")) for page in API_PAGES}
    assert {name: parts for name, parts in missing.items() if parts} == {}


def test_a_page_without_an_introduction_is_found() -> None:
    rest = "\n::: outlast.Agent\n\n```python\nAgent()\n```\n\nGuides: [agents](../../how-to/agents.md).\n"
    assert missing_on(f"# Agents\n{rest}") == ["an example", "a link to a guide"]
    assert missing_on(f"# Agents\n\n```py\nAgent()\n```\n{rest}") == ["a link to a guide"]
    assert missing_on(f"# Agents\n\n```py\nA()\n```\n\nGuides: [a](../b.md).\n{rest}") == []


MAIN = {
    *("Agent", "Runner", "RunHandle", "function_tool", "handoff", "input_guardrail", "RunHooks"),
    *("SQLiteSession", "ShellTool", "MaxTurnsExceeded", "ModelSettings", "connect", "person"),
    *("AgentWorker", "Webhook", "MCPServerStdio", "ScriptedModel", "run_in_memory", "desk"),
    *("RealtimeAgent", "dataset_of", "a2a_tool", "Webhooks", "custom_span", "decided_by"),
}
"""The names with which programs begin."""


def test_the_main_names_are_in_an_example_of_the_api_reference() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in API_PAGES)
    code = "".join(re.findall(r"^```py(?:thon)?\n(.*?)^```$", pages, re.MULTILINE | re.DOTALL))
    assert [name for name in sorted(MAIN) if not re.search(rf"[(@]?\b{name}\b[(.\n:)]", code)] == []


def test_the_reference_has_every_command_with_its_options() -> None:
    row = r"^\| `outlast ([a-z-]+(?: [a-z-]+)*)[^|]*\|([^\n]*)$"
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
