"""Checks that an installed outlast says the types of its public names; `make types` runs it.

The package is built and installed as users have it. Its dependencies are those of `.venv`.
"""

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from tests.release import packages
from tests.release.check import ROOT, UV, environment, run
from tests.release.errors import CheckFailedError

LEAST: Final = 0.99
"""The part of the public names whose types do not depend on the type checker."""

MOST_LINES: Final = 40
KEPT: Final = Path(sys.prefix, "type-completeness.json")
"""The last result, for a package that has not changed since."""

CONSEQUENCE: Final = "partially unknown"
"""What Pyright says of a name whose type mentions one without a type of its own."""


def main() -> int:
    """Check the types, and return the exit code."""
    try:
        with tempfile.TemporaryDirectory(prefix="outlast-types-") as folder:
            work = Path(folder).resolve()
            run(UV, "build", "--quiet", "--wheel", "--out-dir", work, ROOT, cwd=work)
            (wheel,) = work.glob("*.whl")
            kept = {"digest": digest_of(wheel)}
            result: dict[str, Any] = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
            if result.get("digest") != kept["digest"]:
                result = kept | summary_of(report_on("outlast", install(wheel, work / "installed")))
                KEPT.write_text(json.dumps(result), encoding="utf-8")
    except CheckFailedError as error:
        print(f"types: {error}", file=sys.stderr)
        return 1
    code, words = verdict(result)
    print(words)
    return code


def digest_of(wheel: Path) -> str:
    """Return a digest of all that the result depends on."""
    files = packages.wheel_files(wheel) | {
        path.name: path.read_bytes() for path in (ROOT / "uv.lock", Path(__file__))
    }
    digest = hashlib.sha256(version("pyright").encode())
    for name, text in sorted(files.items()):
        digest.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(text).digest())
    return digest.hexdigest()


def install(wheel: Path, place: Path) -> Path:
    """Install a package in an environment that finds the dependencies of this one."""
    place.mkdir()
    programs = environment(place, sys.executable, "--no-deps", wheel)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages_there = Path(run(programs / "python", "-c", where, cwd=place).strip())
    # The checkout, which .venv finds by such a file too, is not found by this one.
    dependencies = sysconfig.get_path("purelib")
    (packages_there / "dependencies.pth").write_text(dependencies, encoding="utf-8")
    return programs


def report_on(package: str, programs: Path) -> dict[str, Any]:
    """Return what Pyright says of the types of an installed package.

    Args:
        package: its name.
        programs: the folder of the Python that finds it.

    Raises:
        CheckFailedError: the package was found elsewhere, or not at all.
    """
    options = ("--ignoreexternal", "--outputjson", "--verifytypes", package)
    done = subprocess.run(
        [sys.executable, "-m", "pyright", *options],
        cwd=programs.parent,
        # Pyright asks the first `python` of the path where packages are.
        env={**os.environ, "PATH": os.pathsep.join([str(programs), os.environ["PATH"]])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        report: dict[str, Any] = json.loads(done.stdout)["typeCompleteness"]
    except (ValueError, KeyError):
        raise CheckFailedError(f"pyright failed:\n{done.stdout}{done.stderr}") from None
    place = report.get("packageRootDirectory") or "nowhere"
    if not report.get("pyTypedPath") or not Path(place).is_relative_to(programs.parent):
        raise CheckFailedError(f"pyright looked for the types of {package} in {place}")
    return report


def summary_of(report: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of a report, and the places without types."""
    places: dict[str, str] = {}
    root = Path(report["packageRootDirectory"]).parent
    for symbol in report["symbols"]:
        if symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"]:
            continue
        for one in symbol["diagnostics"]:
            message = one["message"]
            if CONSEQUENCE in message or "docstring" in message:
                continue
            line = one["range"]["start"]["line"] + 1 if "range" in one else 1
            file = Path(one["file"]).relative_to(root) if one.get("file") else "?"
            places.setdefault(f"{file}:{line}: {symbol['name']}", message.splitlines()[0])
    return {
        "score": report["completenessScore"],
        "names": sum(report["exportedSymbolCounts"].values()),
        "places": [f"{place}: {message}" for place, message in sorted(places.items())],
    }


def verdict(summary: dict[str, Any]) -> tuple[int, str]:
    """Return the exit code, and words about it."""
    part, names, places = summary["score"], summary["names"], summary["places"]
    said = f"types: {part:.2%} of the {names:,} public names of the package have types"
    if part >= LEAST:
        return 0, said
    lines = [
        f"{said}, and {LEAST:.0%} have to. Annotate these; others have types that mention them:",
        *places[:MOST_LINES],
    ]
    if len(places) > MOST_LINES:
        lines.append(f"and {len(places) - MOST_LINES:,} more")
    return 1, "\n  ".join(lines)


if __name__ == "__main__":
    sys.exit(main())
