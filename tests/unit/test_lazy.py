"""Names that are loaded when they are first used."""

import secrets
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from outlast import lazy

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
