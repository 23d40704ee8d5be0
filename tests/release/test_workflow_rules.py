"""The workflow of releases keeps its rules, and each rule finds a planted violation."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.release import check, dry_run
from tests.release.errors import CheckFailedError
from tests.release.workflow_rules import faults

SOUND = yaml.safe_load(dry_run.WORKFLOW.read_text(encoding="utf-8"))


def test_the_workflow_keeps_the_rules() -> None:
    assert faults(SOUND) == []


def step_of(workflow: Any, job: str, word: str) -> Any:
    return next(step for step in workflow["jobs"][job]["steps"] if word in str(step))


def put(workflow: Any, job: str, step: Any) -> None:
    workflow["jobs"][job]["steps"].append(step)


VIOLATIONS: list[tuple[str, Callable[[Any], object]]] = [
    ("more than a tag starts it", lambda w: w[True].update(workflow_dispatch=None)),
    ("its jobs have rights that they do not name", lambda w: w.pop("permissions")),
    ("it has a secret", lambda w: put(w, "build", {"run": "x", "env": {"A": "${{ secrets.A }}"}})),
    ("build: may not write id-token", lambda w: w["jobs"]["build"]["permissions"].update({"id-token": "write"})),
    ("announce: may not write packages", lambda w: w["jobs"]["announce"]["permissions"].update(packages="write")),
    ("build: does not name the version", lambda w: w["jobs"]["build"].update({"runs-on": "ubuntu-latest"})),
    ("attest: has no time-out", lambda w: w["jobs"]["attest"].pop("timeout-minutes")),
    ("publish: has a right to write, and needs no", lambda w: w["jobs"]["publish"].pop("needs")),
    ("build: actions/checkout@v7 is not pinned", lambda w: step_of(w, "build", "checkout").update(uses="actions/checkout@v7")),
    ("build: the checkout keeps a token", lambda w: step_of(w, "build", "checkout").pop("with")),
    ("build: a command has an expression", lambda w: put(w, "build", {"run": "make X=${{ github.ref }}"})),
    ("build: a step that runs our code has a token", lambda w: put(w, "build", {"run": "x", "env": {"T": "${{ github.token }}"}})),
    ("publish: actions/checkout may not be used", lambda w: put(w, "publish", step_of(w, "build", "checkout"))),
    ("publish: pip may not run", lambda w: put(w, "publish", {"run": "cd a && pip install b"})),
    ("packages are published without attestations", lambda w: step_of(w, "publish", "pypi")["with"].update(attestations=False)),
    ("nobody approves", lambda w: w["jobs"]["publish"].pop("environment")),
    ("it publishes nothing", lambda w: w["jobs"].pop("publish")),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "plant"), VIOLATIONS)
def test_a_planted_violation_is_found(fault: str, plant: Callable[[Any], object]) -> None:
    workflow = copy.deepcopy(SOUND)
    plant(workflow)
    assert [one for one in faults(workflow) if one.startswith(fault)], faults(workflow)


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """Return a folder as `make release` leaves it, with small files."""
    folder = tmp_path / "dist"
    folder.mkdir()
    for name in ("outlast-1-py3-none-any.whl", "outlast-1.tar.gz", "outlast-1.cdx.json"):
        (folder / name).write_text(name)
    check.write_sums(folder)
    check.write_notes(folder)
    return folder


def test_the_dry_run_goes_through_all_jobs(
    dist: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dry_run.go_through(dist, tmp_path / "work")
    said = capsys.readouterr().out
    assert "4 commands" in said
    assert "publish: pypa/gh-action-pypi-publish" in said
    assert (tmp_path / "work/announce/dist/image.txt").read_text() == "registry/outlast@sha256:0\n"


@pytest.mark.parametrize(
    ("name", "words"), [("outlast-1.tar.gz", "outlast-1.tar.gz: FAILED"), ("NOTES.md", "not there")]
)
def test_the_dry_run_finds_a_file_that_is_missing_or_another(
    name: str, words: str, dist: Path, tmp_path: Path
) -> None:
    if name == "NOTES.md":
        (dist / name).unlink()
    else:
        (dist / name).write_text("other")
    with pytest.raises(CheckFailedError, match=words):
        dry_run.go_through(dist, tmp_path / "work")


def test_a_tag_is_that_of_the_version_and_the_version_has_a_date() -> None:
    with pytest.raises(CheckFailedError, match="v9 is not that of version"):
        check.check_tag("v9")
    if "(unreleased)" in check.notes().splitlines()[0]:
        with pytest.raises(CheckFailedError, match="is unreleased"):
            check.check_tag(f"v{check.PROJECT['version']}")
    else:
        check.check_tag(f"v{check.PROJECT['version']}")
