"""How many small changes of the core its tests notice: a seeded sample of mutmut's changes.

`make mutate` tries every area; `sample.py --seed 2 contract` another sample of one. All changes of
the loop alone take two hours. Changes of sentences for people do not count: a test that notices one
repeats it.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRATCH = ROOT / ".mutation"
COPIED = ("outlast", "tests", "docs", "examples", "CONTRIBUTING.md", "README.md", "pyproject.toml")

NOTHING = "nothing matches"
"""What mutmut says when it has made all changes and found none of the given name."""

SURVIVED, UNTESTED = 0, 33
"""Exit codes of a change that no test notices, and of one that no test reaches."""


@dataclass(frozen=True)
class Area:
    """A part of the package, its tests, and how much of it has to be noticed.

    Attributes:
        folder: where the modules are.
        tests: what may notice a change.
        sample: how many changes are tried.
        bar: how many of a hundred have to be noticed: what was measured, less twice the chance of a
            sample, because some of mutmut's changes are equivalent.
        leaves_out: modules that are tested with a server.
    """

    folder: str
    tests: Sequence[str]
    sample: int
    bar: int
    leaves_out: Sequence[str] = ()


AREAS = {
    "loop": Area("outlast/loop", ["tests/unit/loop"], 150, 88),
    "contract": Area("outlast/contract", ["tests/unit/contract"], 60, 70),
    "streams": Area(
        "outlast/streams",
        ["tests/unit/streams", "tests/unit/client/read/test_delta_poller.py"],
        30,
        83,
    ),
    "effects": Area(
        "outlast/activities",
        ["tests/unit/activities", "tests/unit/testing", "tests/conformance"],
        60,
        60,
        ["*/boundary.py", "*/engine_heartbeat.py", "*/heartbeats.py", "*/intake.py"],
    ),
}


def settings(area: Area) -> str:
    """Return mutmut's settings for an area."""
    table = {
        "source_paths": [area.folder],
        "do_not_mutate": list(area.leaves_out),
        "also_copy": list(COPIED),
        "pytest_add_cli_args": ["-m", "not full", "-k", "not [server", "-p", "no:cacheprovider"],
        "pytest_add_cli_args_test_selection": list(area.tests),
    }
    return "\n[tool.mutmut]\n" + "".join(f"{key} = {json.dumps(table[key])}\n" for key in table)


def copy_of_the_project(name: str) -> Path:
    """Copy the project into a folder, with the settings of an area, and return the folder."""
    folder = SCRATCH / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for one in COPIED:
        if (ROOT / one).is_dir():
            shutil.copytree(ROOT / one, folder / one, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / one, folder / one)
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as project:
        project.write(settings(AREAS[name]))
    return folder


def mutmut(folder: Path, *names: str) -> None:
    """Try the changes of these names."""
    done = subprocess.run(
        [sys.executable, "-m", "mutmut", "run", *names],
        cwd=folder,
        env={**os.environ, "CI": "mutation"},  # the same examples each time
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and NOTHING not in done.stderr:
        sys.exit(f"mutmut failed: {done.stdout[-3000:]}{done.stderr[-3000:]}")


class WithoutWords(ast.NodeTransformer):
    """Replaces what no test should repeat: sentences, and the types of casts."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """Replace a text of several words."""
        return ast.Constant("") if isinstance(node.value, str) and " " in node.value else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Replace the first argument of `cast`."""
        if isinstance(node.func, ast.Name) and node.func.id == "cast":
            node.args = node.args[1:]
        return self.generic_visit(node)  # type: ignore[return-value]


def meaning(function: ast.AST) -> list[str]:
    """Return what a function does, without its name and words."""
    return [ast.dump(WithoutWords().visit(line)) for line in getattr(function, "body", [])]


def changes(folder: Path, area: Area) -> Iterator[str]:
    """Yield the names of the changes that mutmut has made, but for those of words."""
    mutants = folder / "mutants"
    for path in sorted((mutants / area.folder).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = {
            node.name: node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        module = ".".join(path.relative_to(mutants).with_suffix("").parts)
        meanings = {
            name: meaning(node) for name, node in functions.items() if name.endswith("_orig")
        }
        for name, node in functions.items():
            changed, _, number = name.rpartition("__mutmut_")
            if number.isdigit() and meaning(node) != meanings[f"{changed}__mutmut_orig"]:
                yield f"{module}.{name}"


def measure(name: str, seed: int, sample: int) -> bool:
    """Try a sample of an area's changes and print what came of it; True where the bar is met."""
    area = AREAS[name]
    folder = copy_of_the_project(name)
    mutmut(folder, "nothing")  # but all changes are made
    every = list(changes(folder, area))
    chosen = set(random.Random(seed).sample(every, min(sample, len(every))))
    mutmut(folder, *chosen)
    codes = {
        name: code
        for path in (folder / "mutants" / area.folder).rglob("*.meta")
        for name, code in json.loads(path.read_text())["exit_code_by_key"].items()
        if name in chosen
    }
    unnoticed = [name for name, code in codes.items() if code in {None, SURVIVED, UNTESTED}]
    for one in sorted(unnoticed):
        print(f"  not noticed: {one} (cd {folder} && python -m mutmut show {one})")
    share = 100 * (1 - len(unnoticed) / len(chosen))
    print(f"{area.folder}: {share:.0f} % of {len(chosen)} changes (of {len(every)}) were noticed")
    return share >= area.bar


def main() -> int:
    """Measure the areas that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="|".join(AREAS))
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--sample", type=int, help="instead of the area's own number")
    options = parser.parse_args()
    met = [
        measure(name, options.seed, options.sample or AREAS[name].sample)
        for name in options.areas or AREAS
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
