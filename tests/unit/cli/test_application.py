import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.agents.errors import UserError
from outlast.cli.application import load_application

AGENTS = "from outlast import Agent\na = Agent(name='A', instructions='')\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return a function that writes a module, and returns its name."""
    monkeypatch.setattr("sys.path", [])

    def write(source: str) -> str:
        name = f"app_{secrets.token_hex(4)}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


def test_agents_is_what_is_looked_for(module: Callable[[str], str], tmp_path: Path) -> None:
    name = module(AGENTS + "agents = [a]\ncontext_type = dict\ncontext_types = (list,)")

    application = load_application(name, tmp_path)

    assert [agent.name for agent in application.agents] == ["A"]
    assert application.context_types == (dict, list)


def test_one_agent_can_be_named(module: Callable[[str], str], tmp_path: Path) -> None:
    assert load_application(f"{module(AGENTS)}:a", tmp_path).agents[0].name == "A"


@pytest.mark.parametrize(
    ("source", "name", "said"),
    [
        (AGENTS, "", r"has no 'agents'. It has {module}:a\."),
        (AGENTS + "several = [a]", "b", r"It has {module}:a, {module}:several\."),
        ("", "", "It holds no agents at all"),
        ("agents = 5", "", "is of type int, but has to be an Agent or a list"),
        ("agents = ['A']", "", "holds a str, but every entry has to be an Agent"),
        ("agents = []", "", "is empty: a worker needs at least one agent"),
        (AGENTS + "agents = [a]\ncontext_type = 5", "", "context_type has to be a class"),
        ("1 / 0", "", "cannot be imported: ZeroDivisionError: division by zero"),
        ("import not_there_at_all", "", "needs 'not_there_at_all', which is not installed"),
    ],
)
def test_what_is_wrong_with_a_module_is_said(
    module: Callable[[str], str], tmp_path: Path, source: str, name: str, said: str
) -> None:
    written = module(source)

    with pytest.raises(UserError, match=said.format(module=written)):
        load_application(f"{written}:{name}" if name else written, tmp_path)


def test_a_module_that_is_not_there_is_told_from_one_that_lacks_something(
    module: Callable[[str], str], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"no module 'nowhere' in .*--app-dir"):
        load_application("nowhere.agents", tmp_path)


@pytest.mark.parametrize("target", ["app.py", "./app", ":agents"])
def test_a_path_is_no_module(tmp_path: Path, target: str) -> None:
    with pytest.raises(UserError, match="as in an import"):
        load_application(target, tmp_path)


def test_an_app_dir_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a directory"):
        load_application("app", tmp_path / "missing")
