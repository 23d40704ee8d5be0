"""What people meet beside the code: the workflow of pull requests, issue forms, and texts for registries."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.source import ROOT

FOLDER = ROOT / ".github"
WORKFLOW = FOLDER / "workflows" / "check.yml"
PINNED = re.compile(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def commands(workflow: Any) -> list[str]:
    """Return what the jobs of a workflow run."""
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    return [step["run"] for step in steps if "run" in step]


def unpinned(text: str) -> list[str]:
    """Return the actions that are not pinned to a commit, with the version in a comment."""
    lines = [line.strip(" -") for line in text.splitlines() if "uses:" in line]
    return [line for line in lines if not PINNED.fullmatch(line)]


def test_the_workflow_runs_what_the_readme_says_and_what_ci_runs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    ran = commands(read(WORKFLOW))
    assert "bash .ci/run" in ran
    for command in ("make demo", "make test"):
        assert f"\n{command}\n" in readme
        assert command in ran


def test_every_make_target_of_the_workflow_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    ran = [one for one in commands(read(WORKFLOW)) if one.startswith("make ")]
    targets = [one.split()[1] for one in ran if one != "make ${{ matrix.part }}"]
    targets += nightly_parts_of_workflow()
    assert targets
    for target in targets:
        name = re.sub(r"\$\{\{.*", "%", target)
        assert re.search(rf"^{re.escape(name)}:", makefile, re.MULTILINE), target


def test_the_workflow_takes_the_servers_that_make_servers_takes() -> None:
    matrix = read(WORKFLOW)["jobs"]["servers"]["strategy"]["matrix"]["server"]
    assert matrix == sorted(path.stem for path in (ROOT / "tests/server_versions").glob("*.txt"))


def nightly_parts_of_workflow() -> list[str]:
    return read(WORKFLOW)["jobs"]["nightly"]["strategy"]["matrix"]["part"]


def test_the_workflow_runs_all_parts_of_make_nightly_by_night_and_nothing_else_then() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    parts = re.findall(r"^NIGHTLY := (.*)$", makefile, re.MULTILINE)[0].split()
    # Where a runner has Go, `otel` leaves nothing out. The job `install` runs all Pythons.
    assert sorted(parts) == sorted([
        "otel-where-possible" if one == "otel" else one
        for one in [*nightly_parts_of_workflow(), "pythons", "servers", "every-page"]
    ])  # fmt: skip
    assert "make every-page" in commands(read(WORKFLOW))
    conditions = {name: job.get("if") for name, job in read(WORKFLOW)["jobs"].items()}
    night, day = "needs.changed.outputs.nightly == 'true'", "github.event_name != 'schedule'"
    assert conditions == {
        "check": day, "install": day, "windows": day, "changed": None,
        "nightly": night, "pages": night, "servers": night, "temporalio-main": night,
    }  # fmt: skip


def test_every_path_that_starts_the_nightly_parts_exists() -> None:
    steps = read(WORKFLOW)["jobs"]["changed"]["steps"]
    paths = steps[1]["run"].partition(" -- ")[2].partition("||")[0].replace("\\", "").split()
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", ["check.yml", "release.yml"])
def test_actions_are_pinned_to_commits(name: str) -> None:
    assert unpinned((WORKFLOW.parent / name).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("action", ["actions/checkout@v7", "actions/checkout@main # v7.0.1"])
def test_an_action_by_tag_is_found(action: str) -> None:
    assert unpinned(f"      - uses: {action}") == [f"uses: {action}"]


@pytest.mark.parametrize("name", ["bug.yml", "feature.yml", "config.yml"])
def test_issue_forms_are_read(name: str) -> None:
    form = read(FOLDER / "ISSUE_TEMPLATE" / name)
    assert form.get("body") or form.get("contact_links")


def test_links_of_forms_lead_to_files_of_the_repository() -> None:
    pages = [*FOLDER.rglob("*.yml"), *FOLDER.rglob("*.md")]
    links = [
        link
        for page in pages
        for link in re.findall(r"outlast/blob/main/([^)\s#\"]+)", page.read_text(encoding="utf-8"))
    ]
    assert links
    assert [one for one in links if not (ROOT / one).exists()] == []
