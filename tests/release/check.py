"""Builds the packages of a release, installs them where nothing else is, and uses them.

`make release-check` runs it. It needs the package index, and leaves the packages in the folder that
`--out` names, with their list of components and their checksums.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outlast.edges import sdk
from tests.release import dry_run, packages
from tests.release.errors import CheckFailedError

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
UV = str(Path(sys.executable).with_name("uv"))
TWINE = "twine==7.0.0"
ZIZMOR = "zizmor==1.32.0"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ROOM = re.compile(r"^\| `outlast\.([\w.]+)` \|", re.MULTILINE)
INDEX_OF_THE_API = ROOT / "docs/reference/api/index.md"


def main() -> int:
    """Check the release, and return the exit code."""
    parser = argparse.ArgumentParser(prog="make release-check")
    parser.add_argument("--python", default=sys.executable, help="the Python that installs")
    parser.add_argument("--out", type=Path, help="keep the packages in this folder")
    parser.add_argument("--tag", help="the tag that releases, such as v0.1.0")
    options = parser.parse_args()
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="outlast-release-") as folder:
            work = Path(folder).resolve()
            if options.tag:
                check_tag(options.tag)
            out: Path = options.out.resolve() if options.out else work / "dist"
            wheel, sdist = build(out, work)
            check_packages(wheel, sdist, work)
            check_empty_environment(wheel, work / "empty", options.python)
            check_command(wheel, work / "command", options.python)
            write_components(out)
            write_notes(out)
            dry_run.go_through(out, work / "dry-run")
            check_workflow(work)
    except CheckFailedError as error:
        print(f"release-check: {error}", file=sys.stderr)
        return 1
    print(f"release-check: all is well, in {time.monotonic() - started:.0f} s")
    return 0


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a program that sees nothing of the repository, and return its output."""
    kept = {
        key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "MAKEFLAGS"}
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**kept, "UV_SYSTEM_CERTS": "1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()
        raise CheckFailedError(f"{' '.join(map(str, command))} failed:\n{said}")
    return done.stdout


def build(out: Path, work: Path) -> tuple[Path, Path]:
    """Build the source distribution, and the wheel from it alone."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("outlast-*"):
        old.unlink()
    run(UV, "build", "--quiet", "--sdist", "--out-dir", out, ROOT, cwd=work)
    (sdist,) = out.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(work / "unpacked", filter="data")
    (source,) = (work / "unpacked").iterdir()
    run(UV, "build", "--quiet", "--wheel", "--out-dir", out, source, cwd=work)
    (wheel,) = out.glob("*.whl")
    return wheel, sdist


def check_packages(wheel: Path, sdist: Path, work: Path) -> None:
    """Check what the packages have in them, and their metadata."""
    files = packages.wheel_files(wheel)
    tracked = run("git", "-C", ROOT, "ls-files", cwd=work).splitlines()
    problems = packages.differences(files, tracked, map(sdk.path, sdk.MODULES))
    problems += [
        f"stray file {name}" for name in packages.stray([*files, *packages.sdist_names(sdist)])
    ]
    problems += packages.metadata_problems(
        packages.metadata_of(files), PROJECT["version"], PROJECT["optional-dependencies"]
    )
    if problems:
        raise CheckFailedError("\n  ".join(["the packages are wrong:", *problems]))
    run(UV, "tool", "run", "--from", TWINE, "twine", "check", "--strict", wheel, sdist, cwd=work)
    print(
        f"  {wheel.name}: {len(files)} files, {wheel.stat().st_size / 1e6:.1f} MB, from {sdist.name}"
    )


def environment(place: Path, python: str, *requirements: str | Path) -> Path:
    """Make a virtual environment with some packages, and return its programs' folder."""
    run(UV, "venv", "--quiet", "--no-project", "--python", python, place / "venv", cwd=place.parent)
    programs = place / "venv" / ("Scripts" if os.name == "nt" else "bin")
    run(UV, "pip", "install", "--quiet", "--python", programs / "python", *requirements, cwd=place)
    return programs


def check_empty_environment(wheel: Path, place: Path, python: str) -> None:
    """Use outlast where nothing else is installed: run an agent, and miss each extra."""
    place.mkdir()
    programs = environment(place, python, wheel)
    run(programs / "python", HERE / "run_in_memory.py", cwd=place)
    rooms = ROOM.findall(INDEX_OF_THE_API.read_text(encoding="utf-8"))
    report = json.loads(run(programs / "python", HERE / "without_extras.py", *rooms, cwd=place))
    if report["silent"]:
        raise CheckFailedError(f"no extra is named by {report['silent']}")
    installed = json.loads(
        run(UV, "pip", "list", "--format", "json", "--python", programs / "python", cwd=place)
    )
    print(
        f"  alone, {len(installed)} packages: an agent ran in memory; {report['there']} names are there, "
        f"{len(report['extras'])} others name their extra"
    )


def check_command(wheel: Path, place: Path, python: str) -> None:
    """Use the command: its help, and a new project whose tests pass."""
    place.mkdir()
    programs = environment(place, python, f"outlast[cli,dev] @ {wheel.as_uri()}", "pytest>=8")
    help_text = run(programs / "outlast", "--help", cwd=place, NO_COLOR="1")
    if "init" not in help_text:
        raise CheckFailedError(f"outlast --help does not have init:\n{help_text}")
    run(programs / "outlast", "init", "my-desk", cwd=place)
    said = run(programs / "python", "-m", "pytest", "-q", cwd=place / "my-desk")
    print(f"  outlast init: {said.strip().splitlines()[-1]}")


def check_workflow(work: Path) -> None:
    """Look for what makes the workflow of releases unsafe; the rules of the tests are ours."""
    options = ("--offline", "--no-progress", "--persona=pedantic")
    run(UV, "tool", "run", "--from", ZIZMOR, "zizmor", *options, dry_run.WORKFLOW, cwd=work)
    print(f"  {ZIZMOR} finds nothing in release.yml")


def check_tag(tag: str) -> None:
    """Check that a tag is that of the version, which the list of changes gives a date."""
    if tag != f"v{PROJECT['version']}":
        raise CheckFailedError(f"the tag {tag} is not that of version {PROJECT['version']}")
    if "(unreleased)" in notes().splitlines()[0]:
        raise CheckFailedError(f"CHANGELOG.md says that {PROJECT['version']} is unreleased")


def notes() -> str:
    """Return what the list of changes says of the version, with its heading."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.escape(f"## {PROJECT['version']} ")
    found = re.search(rf"^{heading}.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise CheckFailedError(f"CHANGELOG.md has no heading {PROJECT['version']}")
    return found[0]


def write_notes(out: Path) -> None:
    """Write the text of the release, whose links lead to the files of its tag."""
    place = f"](https://github.com/outlast-dev/outlast/blob/v{PROJECT['version']}/"
    text = re.sub(r"\]\((?!https?://|#)", lambda _: place, notes())
    (out / "NOTES.md").write_text(text, encoding="utf-8")


def write_components(out: Path) -> None:
    """Write the list of components (an SBOM), and the checksums of what is in a folder."""
    bom = out / f"outlast-{PROJECT['version']}.cdx.json"
    export: Sequence[str | Path] = (UV, "export", "--quiet", "--locked", "--all-extras", "--no-dev")
    form = ("--format", "cyclonedx1.5", "--preview-features", "sbom-export", "--output-file", bom)
    run(*export, *form, cwd=ROOT)
    components = json.loads(bom.read_text("utf-8"))["components"]
    print(f"  {bom.name}: {len(components)} components; SHA256SUMS: {write_sums(out)} files")


def write_sums(out: Path) -> int:
    """Write the checksums of a release's files, and return how many there are."""
    names = sorted(path.name for path in out.glob("outlast-*"))
    lines = [f"{hashlib.sha256((out / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    return len(lines)


if __name__ == "__main__":
    sys.exit(main())
