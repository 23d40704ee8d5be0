"""The feature table is complete, so that it cannot go stale unnoticed."""

import inspect
import re
from collections.abc import Iterable
from dataclasses import fields

import outlast
from outlast.agents.agent_tools.agent_tool import AgentToolOptions
from outlast.agents.tools.function_tool import ToolOptions
from outlast.client.results.result_members import RunResultBase
from tests.architecture.source import PUBLIC, ROOT

TABLE = (ROOT / "docs" / "reference" / "feature-table.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", TABLE))))


def _public(kind: type) -> Iterable[str]:
    return (name for name in dir(kind) if not name.startswith("_"))


THERE_IS: dict[str, Iterable[str]] = {
    "public name": PUBLIC,
    "field of Agent": [one.name for one in fields(outlast.Agent)],
    "field of RunConfig": [one.name for one in fields(outlast.RunConfig)],
    "field of ModelSettings": [one.name for one in fields(outlast.ModelSettings)],
    "argument of Runner.run": [
        *list(inspect.signature(outlast.Runner.run).parameters)[:-1],
        *outlast.RunOptions.__optional_keys__,
    ],
    "member of Runner": _public(outlast.Runner),
    "member of RunResult": [*_public(RunResultBase), *_public(outlast.RunResult), "snapshot"],
    "member of RunResultStreaming": [
        *_public(outlast.RunResultStreaming),
        *("max_turns", "is_complete"),
    ],
    "option of function_tool": ToolOptions.__annotations__,
    "argument of as_tool": [
        *list(inspect.signature(outlast.Agent.as_tool).parameters)[1:-1],
        *AgentToolOptions.__annotations__,
    ],
    "argument of handoff": list(inspect.signature(outlast.handoff).parameters)[1:],
    "field of Handoff": [one.name for one in fields(outlast.Handoff)],
    "field of HandoffInputData": [one.name for one in fields(outlast.HandoffInputData)],
    "field of FunctionTool": [one.name for one in fields(outlast.FunctionTool)],
    "field of ToolContext": [one.name for one in fields(outlast.ToolContext)],
    "field of Usage": [one.name for one in fields(outlast.Usage)],
    "error handler": outlast.RunErrorHandlers.__annotations__,
}


def test_the_table_names_all_there_is() -> None:
    missing = {
        kind: absent
        for kind, names in THERE_IS.items()
        if (absent := sorted(set(names) - NAMED - {"agent"}))
    }
    assert missing == {}, "docs/reference/feature-table.md does not name these"


def _rows() -> list[list[str]]:
    lines = [line for line in TABLE.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_row_says_how_it_is_here_and_why_where_it_is_not_the_same() -> None:
    for row in _rows():
        assert len(row) == 3, row
        feature, here, why = row
        if here == "here":
            continue
        assert here in {"same", "differs", "added", "not offered"}, row
        assert why or here == "same", f"{feature} says {here} and not why"


def test_nothing_is_said_not_to_be_offered_that_has_a_public_name() -> None:
    denied: set[str] = set()
    for feature, here, _ in _rows():
        if here == "not offered":
            denied.update(re.findall(r"`(\w+)`", feature))
    assert sorted(denied & set(PUBLIC)) == []


def _links(page: str) -> list[str]:
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"\]\((?!http)([^)#]+)\)", prose)


def test_a_link_of_a_document_leads_somewhere() -> None:
    dead = {
        f"{page.name} links to {target}"
        for page in [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md"]
        for target in _links(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    }
    assert dead == set()
