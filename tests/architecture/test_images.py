"""The images that we ship can be built from what their ignore files let through."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from typer.testing import CliRunner

from outlast.cli.app import app
from outlast.edges import sdk
from tests.architecture.source import ROOT


def ignored(path: str, patterns: list[str]) -> bool:
    """Whether Docker leaves a path out of a context: the last pattern that matches decides."""
    names = PurePosixPath(path).parts
    places = ["/".join(names[:count]) for count in range(1, len(names) + 1)]
    is_ignored = False
    for pattern in patterns:
        wanted = _expression(pattern.removeprefix("!"))
        if any(wanted.fullmatch(place) for place in places):
            is_ignored = not pattern.startswith("!")
    return is_ignored


def _expression(pattern: str) -> re.Pattern[str]:
    """Return Docker's pattern: `**` is any number of folders, `*` stays in one."""
    parts = re.split(r"(\*\*/?|\*|\?)", pattern.strip("/"))
    forms = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(forms.get(part, re.escape(part)) for part in parts))


def patterns_of(folder: Path) -> list[str]:
    lines = (folder / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def context_of(folder: Path) -> list[str]:
    """Return the files that Docker sends to a build in a folder."""
    if folder == ROOT:  # a fresh clone; here there are also environments and caches
        listed = subprocess.run(
            ["git", "ls-files"], cwd=folder, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    else:
        listed = [str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()]
    patterns = patterns_of(folder)
    return [one for one in listed if not ignored(one, patterns)]


def copies(dockerfile: Path) -> Iterator[tuple[list[str], str]]:
    """Yield the sources and the target of each COPY from the context."""
    text = dockerfile.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in re.findall(r"^(?:COPY|ADD)\s+(.+)$", text, re.MULTILINE):
        words = line.split()
        if not any(word.startswith("--from=") for word in words):
            *sources, target = [word for word in words if not word.startswith("--")]
            yield sources, target


def copied(folder: Path, place: Path) -> Path:
    """Do what the COPY lines of a folder's Dockerfile do, and return where the files are."""
    context = context_of(folder)
    for sources, target in copies(folder / "Dockerfile"):
        for source in sources:
            prefix = "" if source == "." else f"{source}/"
            found = [one for one in context if one == source or one.startswith(prefix)]
            assert found, f"COPY {source}: the ignore file of {folder.name} leaves nothing of it"
            for one in found:
                is_file = one == source
                to = place / target / (source if is_file else one.removeprefix(prefix))
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(folder / one, to)
    return place


def wheel_of(source: Path) -> list[str]:
    """Build a wheel as the image does, and return the names of its files."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("uv")), "build", "--wheel", "--quiet", str(source)],
        env={**os.environ, "UV_SYSTEM_CERTS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project as `outlast init` writes it, in which somebody has worked."""
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init", "travel-desk"]).exit_code == 0
    folder = tmp_path / "travel-desk"
    (folder / "approvals.toml").write_text("")
    (folder / "outlast-9.9.9-py3-none-any.whl").write_bytes(b"")
    (folder / ".env").write_text("OPENAI_API_KEY=secret")
    (folder / ".outlast").mkdir()
    (folder / ".outlast" / "temporal.db").write_text("runs")
    (folder / "travel_desk" / "__pycache__").mkdir()
    (folder / "travel_desk" / "__pycache__" / "agents.pyc").write_bytes(b"")
    return folder


def test_there_is_no_image_that_these_tests_do_not_know() -> None:
    names = subprocess.run(
        ["git", "ls-files", "*ockerfile*"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert names == ["Dockerfile", "outlast/cli/new_project/Dockerfile.tmpl"]


@pytest.mark.parametrize(
    ("path", "patterns", "is_ignored"),
    [
        ("a.py", ["*"], True),
        ("a/b.py", ["*"], True),
        ("a/b.py", ["*", "!a"], False),
        ("a/__pycache__/b.pyc", ["*", "!a", "**/__pycache__"], True),
        ("__pycache__/b.pyc", ["**/__pycache__"], True),
        ("a/b/c.db", ["**/*.db"], True),
        ("a/b.py", ["*.py"], False),
        ("ab", ["a"], False),
    ],
)
def test_patterns_are_read_as_docker_reads_them(
    path: str, patterns: list[str], is_ignored: bool
) -> None:
    assert ignored(path, patterns) is is_ignored


def test_every_file_that_the_image_copies_is_in_its_context(tmp_path: Path) -> None:
    copied(ROOT, tmp_path)


def test_the_image_of_a_new_project_gets_what_its_worker_reads(
    project: Path, tmp_path: Path
) -> None:
    place = copied(project, tmp_path / "image")

    there = {str(one.relative_to(place)) for one in place.rglob("*") if one.is_file()}
    assert there == {
        "README.md",
        "approvals.toml",
        "outlast-9.9.9-py3-none-any.whl",
        "pyproject.toml",
        *(f"travel_desk/{name}.py" for name in ("__init__", "agents", "offline", "worker")),
    }


@pytest.mark.full
def test_the_wheel_is_built_from_what_the_image_copies(tmp_path: Path) -> None:
    wheel = wheel_of(copied(ROOT, tmp_path / "source"))

    assert set(map(sdk.path, sdk.MODULES)) <= set(wheel)
    assert "outlast/examples/support_desk/app.py" in wheel
    assert "outlast/cli/new_project/dockerignore.tmpl" in wheel


@pytest.mark.full
def test_the_wheel_of_a_new_project_is_too(project: Path, tmp_path: Path) -> None:
    place = copied(project, tmp_path / "image")
    (place / "outlast-9.9.9-py3-none-any.whl").unlink()

    assert "travel_desk/worker.py" in wheel_of(place)
