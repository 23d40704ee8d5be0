import secrets
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.agents.errors import UserError
from outlast.cli.application import load_config, load_webhooks
from outlast.cli.target import locate

AGENTS = "from outlast import Agent\na = Agent(name='A', instructions='')\n"
THEIRS = "import agents as sdk\ndesk = sdk.Agent(name='Desk')\n"
TWO = AGENTS + "b = Agent(name='B', instructions='')\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return a function that writes a module, and returns its name."""
    monkeypatch.setattr("sys.path", [*sys.path])  # targets add their directories

    def write(source: str) -> str:
        name = f"app_{secrets.token_hex(4)}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


def names_of(target: str, directory: Path) -> list[str]:
    return [agent.name for agent in load_config(target, directory)["agents"]]


def test_agents_is_the_default_name(module: Callable[[str], str], tmp_path: Path) -> None:
    name = module(TWO + "agents = [a]\ncontext_type = dict\ncontext_types = (list,)")

    assert names_of(name, tmp_path) == ["A"]
    assert load_config(name, tmp_path).get("context_types") == [dict, list]


def test_a_name_selects_one_agent(module: Callable[[str], str], tmp_path: Path) -> None:
    assert names_of(f"{module(TWO)}:b", tmp_path) == ["B"]


def test_the_only_agent_of_a_module_needs_no_name(
    module: Callable[[str], str], tmp_path: Path
) -> None:
    assert names_of(module(AGENTS + "same = a"), tmp_path) == ["A"]


@pytest.mark.parametrize("suffix", ["", ":a"])
def test_a_file_is_as_good_as_a_module(
    module: Callable[[str], str], tmp_path: Path, suffix: str
) -> None:
    name = module(AGENTS)

    assert names_of(f"{name}.py{suffix}", tmp_path) == ["A"]
    assert names_of(f"{tmp_path}/{name}.py{suffix}", tmp_path) == ["A"]


def test_a_file_of_a_package_is_imported_as_part_of_it(
    module: Callable[[str], str], tmp_path: Path
) -> None:
    package = tmp_path / module("")
    (package / "inner").mkdir(parents=True)
    for directory in (package, package / "inner"):
        (directory / "__init__.py").touch()
    (package / "words.py").write_text("NAME = 'From inside'")
    (package / "inner" / "desk.py").write_text(
        "from outlast import Agent\nfrom ..words import NAME\na = Agent(name=NAME)"
    )
    target = f"{package.name}/inner/desk.py"

    located = locate(target, tmp_path)

    assert (located.module, located.directory) == (f"{package.name}.inner.desk", tmp_path)
    assert located.shown == target
    (tmp_path / f"{package.name}.py").unlink()
    assert names_of(target, tmp_path) == ["From inside"]


def test_the_modules_of_a_package_without_agents_are_named(
    module: Callable[[str], str], tmp_path: Path
) -> None:
    package = tmp_path / module("")
    (tmp_path / f"{package.name}.py").unlink()
    package.mkdir()
    for name in ("__init__", "agents", "worker"):
        (package / f"{name}.py").touch()

    with pytest.raises(UserError) as refused:
        load_config(package.name, tmp_path)

    name = package.name
    assert f"It is a package: name one of its modules, `{name}.agents` or `{name}.worker`." in str(
        refused.value
    )


def test_a_function_returns_the_arguments_of_the_worker(
    module: Callable[[str], str], tmp_path: Path
) -> None:
    name = module(
        TWO + "context_type = dict\n"
        "def worker_config():\n"
        "    return {'agents': b, 'task_queue': 'desk', 'sessions': ['here'],\n"
        "            'references': [len], 'max_concurrent_activities': 3, 'context_types': [list]}\n"
    )

    config = load_config(name, tmp_path)

    assert names_of(name, tmp_path) == ["B"]
    assert config.get("task_queue") == "desk"
    assert config.get("max_concurrent_activities") == 3
    assert config.get("references") == [len]
    assert config.get("context_types") == [list, dict]


@pytest.mark.parametrize(
    "body", ["def make(): return a", "def make(): return [a]", "make = {'agents': [a]}"]
)
def test_a_name_may_be_a_function_or_a_dict(
    module: Callable[[str], str], tmp_path: Path, body: str
) -> None:
    assert names_of(f"{module(TWO + body)}:make", tmp_path) == ["A"]


@pytest.mark.parametrize(
    ("source", "name", "said"),
    [
        (
            TWO,
            "",
            r"{module} has 2 agents and nothing says which .* `agents = \[a, b\]` .*`{module}:a`",
        ),
        (
            TWO + "several = [a]",
            "c",
            r"has no 'c'. It has {module}:a, {module}:b, {module}:several",
        ),
        ("", "", "neither 'worker_config' nor 'agents'. It holds no agents: define one"),
        ("agents = 5", "", "is of type int, but must be an Agent, a list"),
        ("agents = ['A']", "", "holds a str, but every entry must be an Agent"),
        (THEIRS + "agents = [desk]", "", "'Desk' is an Agent of the OpenAI Agents SDK"),
        (THEIRS, "desk", "'Desk' is an Agent of the OpenAI Agents SDK"),
        (THEIRS, "", "'Desk' is an Agent of the OpenAI Agents SDK .*from outlast import Agent"),
        ("agents = []", "", "is empty: a worker needs at least one agent"),
        (AGENTS + "agents = [a]\ncontext_type = 5", "", "context_type must be a class"),
        ("1 / 0", "", "cannot be imported: ZeroDivisionError: division by zero. Add --debug"),
        ("def (", "", r"cannot be imported: SyntaxError: .*line 1\)"),
        ("import not_there_at_all", "", "needs 'not_there_at_all', which is not installed"),
        ("def make(): 1 / 0", "make", r"make\(\) failed: ZeroDivisionError: .* Add --debug"),
        ("def make(): return 5", "make", r"make\(\) is of type int, but must be"),
        ("def make(): return {{}}", "make", r"make\(\) has no 'agents'. Add them"),
        ("def make(): return {{'agent': 1}}", "make", "option 'agent'. Did you mean 'agents'"),
        ("def make(): return {{'client': 1}}", "make", "unknown option 'client'"),
        ("def make(): return {{'zzz': 1}}", "make", "The options are those of AgentWorker"),
        ("async def make(): ...", "make", "is an async function. Make it a plain one"),
        (
            "from outlast import Agent\ndef make(): return Agent(name='')",
            "make",
            r"make\(\) failed: .*name",
        ),
    ],
)
def test_an_error_names_the_problem_of_a_module(
    module: Callable[[str], str], tmp_path: Path, source: str, name: str, said: str
) -> None:
    written = module(source.replace("{{", "{").replace("}}", "}"))

    with pytest.raises(UserError, match=said.replace("{module}", written)):
        load_config(f"{written}:{name}" if name else written, tmp_path)


def test_a_module_that_is_not_there_is_told_from_one_that_lacks_something(
    module: Callable[[str], str], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"no module 'nowhere' in .*--app-dir"):
        load_config("nowhere.agents", tmp_path)


@pytest.mark.parametrize("target", ["travel.py", "./app", "sub/travel.py:desk"])
def test_a_missing_file_is_named(tmp_path: Path, target: str) -> None:
    with pytest.raises(UserError, match=rf"no Python file {tmp_path}.*or a module as in an import"):
        locate(target, tmp_path)


@pytest.mark.parametrize("target", ["", ":agents"])
def test_a_target_without_a_module_is_refused(tmp_path: Path, target: str) -> None:
    with pytest.raises(UserError, match="names no module"):
        locate(target, tmp_path)


def test_a_file_with_the_name_of_another_module_is_refused(
    module: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "json.py").write_text(AGENTS)

    with pytest.raises(UserError, match=r"another module is named 'json': .* Rename the file"):
        load_config("json.py", tmp_path)


def test_an_app_dir_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a directory"):
        locate("app", tmp_path / "missing")


HOOKS = """
from outlast.deliveries import Webhooks, github
webhooks, empty = Webhooks(), Webhooks()
@webhooks.on("github", github(["a secret of sixteen characters"]))
def merged(event): ...
"""


@pytest.mark.parametrize("suffix", ["", ":webhooks", ".py", ".py:webhooks"])
def test_webhooks_are_loaded_from_a_module_or_a_file(
    module: Callable[[str], str], tmp_path: Path, suffix: str
) -> None:
    loaded = load_webhooks(f"{module(HOOKS)}{suffix}", tmp_path)
    assert loaded.scheme("github")


@pytest.mark.parametrize(
    ("source", "name", "words"),
    [
        (HOOKS, ":others", "others is missing"),
        (HOOKS, ":merged", "merged is of type function"),
        (HOOKS, ":empty", r"takes no webhook. Decorate a function with @empty.on\(...\)"),
        (AGENTS, "", "webhooks is missing"),
        ("1 / 0", "", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_what_holds_no_webhooks_is_refused_in_words(
    module: Callable[[str], str], tmp_path: Path, source: str, name: str, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        load_webhooks(f"{module(source)}{name}", tmp_path)
