"""The program of the guide to local tools, attacked by its model."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from outlast import ApplyPatchOperation
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.extensions.machine.shell import ShellTool
from outlast.loop.call_forms import arguments_of
from outlast.testing import shell_call
from tests.unit.docs.guides import DOCS, blocks
from tests.unit.extensions.machine.test_shell_tools import context

ANY: Any = RunContextWrapper(None)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Return the names of the guide's program, whose runs `test_guides.py` starts."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (page,) = blocks(DOCS / "how-to" / "local-tools.md", "python")
    (folder / "program.py").write_text(page.replace("asyncio.run(main())", ""), encoding="utf-8")
    names = runpy.run_path(str(folder / "program.py"))
    (folder / "work" / "notes.txt").write_text("notes")
    (folder / "secret").write_text("hunter2")
    (folder / "work" / "link").symlink_to(folder / "secret")
    return names


ATTACKS = [
    "cat notes.txt; env; touch ../OWNED",
    "cat notes.txt && env",
    "cat ../secret",
    "cat link",
    "cat /proc/self/environ",
    "cat $(touch ../OWNED)",
    "env",
    "ls ..",
    "rm ../secret",
    "rm -r ..",
    "wc --files0-from=../secret",
]


async def test_its_shell_withstands_its_model(program: dict[str, Any]) -> None:
    tool = next(one for one in program["coder"].tools if isinstance(one, ShellTool))
    read = await tool.on_invoke_tool(context(), arguments_of(shell_call("c1", *ATTACKS)))
    outputs = read["output"]
    assert len(outputs) == len(ATTACKS)
    for command, one in zip(ATTACKS, outputs, strict=True):
        assert one["outcome"]["exit_code"] not in {0, None}, (command, one)
        assert "sk-secret" not in str(one)
        assert "hunter2" not in str(one)
    assert not Path("OWNED").exists()  # noqa: ASYNC240
    assert Path("secret").read_text() == "hunter2"  # noqa: ASYNC240


@pytest.mark.parametrize(
    "command", [one for one in ATTACKS if one.split()[0] not in {"cat", "ls", "wc"} or ";" in one]
)
async def test_people_are_asked_about_more_than_reading(
    program: dict[str, Any], command: str
) -> None:
    tool = next(one for one in program["coder"].tools if isinstance(one, ShellTool))
    assert tool.on_approval is not None

    class Item:
        class raw_item:  # noqa: N801
            action = tool.approval_subject(ANY, arguments_of(shell_call("c1", command)))

    item: Any = Item
    assert tool.on_approval(ANY, item) == {}


@pytest.mark.parametrize("path", ["../OWNED", "/tmp/outlast-OWNED", "link", "a/../../OWNED"])
def test_its_editor_stays_in_the_folder(program: dict[str, Any], path: str) -> None:
    with pytest.raises(PermissionError):
        program["Editor"]().create_file(ApplyPatchOperation("create_file", path, "+x"))
    assert not Path("OWNED").exists()
    assert Path("secret").read_text() == "hunter2"
