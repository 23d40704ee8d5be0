"""The check of an installed package's types, which `make types` runs, finds names without one."""

import sys
import venv
from pathlib import Path

import pytest

from tests.release import type_completeness
from tests.release.errors import CheckFailedError

TYPED = """
from typing import Final
limit: Final = str(1)
class Box:
    def __init__(self, size: int) -> None:
        self.size: int = size
"""
UNTYPED = """
from kit.typed import Box
limit = str(1)
def double(number): return number
class _Base:
    def __init__(self, size: int) -> None:
        self.names = {"size": size}
class Large(_Base): ...
def fill(box: Large) -> Box: return Box(box.names["size"])
"""


@pytest.mark.full
def test_names_without_types_are_found_in_an_installed_package(tmp_path: Path) -> None:
    pytest.importorskip("pyright", reason="it comes with the dependency group lint")
    environment = tmp_path.resolve() / "venv"
    venv.create(environment, with_pip=False, symlinks=True)
    version = "python{}.{}".format(*sys.version_info)
    package = environment / "lib" / version / "site-packages/kit"
    package.mkdir()
    for name, text in {"__init__.py": "", "py.typed": "", "typed.py": TYPED}.items():
        (package / name).write_text(text)

    summary = type_completeness.summary_of(type_completeness.report_on("kit", environment / "bin"))
    assert type_completeness.verdict(summary)[0] == 0

    (package / "untyped.py").write_text(UNTYPED)
    code, words = type_completeness.verdict(
        type_completeness.summary_of(type_completeness.report_on("kit", environment / "bin"))
    )
    assert code == 1
    places = [line.strip().split(": ")[:2] for line in words.splitlines()[1:]]
    assert places == [
        ["kit/untyped.py:3", "kit.untyped.limit"],
        ["kit/untyped.py:4", "kit.untyped.double"],
        ["kit/untyped.py:7", "kit.untyped._Base.names"],
    ]


@pytest.mark.full
def test_a_package_that_is_not_installed_fails_the_check(tmp_path: Path) -> None:
    pytest.importorskip("pyright", reason="it comes with the dependency group lint")
    with pytest.raises(CheckFailedError, match="types of outlast in "):
        type_completeness.report_on("outlast", tmp_path / "bin")


def test_the_check_fails_below_its_bar_and_names_the_first_places() -> None:
    places = [f"outlast/a.py:{line}: outlast.a: no type" for line in range(100)]
    summary = {"score": 0.9901, "names": 1000, "places": places}
    assert type_completeness.verdict(summary)[0] == 0
    code, words = type_completeness.verdict(summary | {"score": 0.98})
    assert code == 1
    assert words.startswith("types: 98.00% of the 1,000 public names of the package have types, ")
    assert places[39] in words
    assert places[40] not in words
    assert words.endswith("and 60 more")
