"""Goes through the workflow of a release on this machine, step by step, without the network.

Artifacts are handed from job to job as the workflow says, and commands run where they need no network:
a file that a job does not get, or a checksum that does not fit, is found before a tag is there. What it
leaves out it names.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.release.errors import CheckFailedError

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github/workflows/release.yml"
NETWORK = ("cosign", "docker", "gh", "skopeo")
"""Programs that need another host, or a service that runs containers."""

MADE_BEFORE = ("make",)
"""What builds: its results are the packages that the dry run begins with."""

STANDS_FOR = {"image.tar": "an image", "site.tar.gz": "a site", "digest": "sha256:0"}
"""Files that only a machine with Docker or Node.js makes, and what is there instead."""


def go_through(dist: Path, work: Path) -> None:
    """Go through all jobs of the workflow with the packages of a folder."""
    artifacts = work / "artifacts"
    ran, left_out = 0, list[str]()
    for name, job in ordered(yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]):
        place = work / name
        place.mkdir(parents=True)
        for file, text in STANDS_FOR.items():
            (place / file).write_text(text, encoding="utf-8")
        if name == "build":
            shutil.copytree(dist, place / "dist")
        for step in job["steps"]:
            if "run" in step:
                if _first(step["run"]) in NETWORK:
                    left_out.append(f"{name}: {step['run'][:60]}")
                elif _first(step["run"]) not in MADE_BEFORE:
                    _run(step["run"], place)
                    ran += 1
            elif not _carry(step, place, artifacts):
                left_out.append(f"{name}: {step['uses'].partition('@')[0]}")
    print(f"  dry run of release.yml: {ran} commands; left out: {'; '.join(left_out)}")


def ordered(jobs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the jobs of a workflow, each after those that it needs."""
    left = dict(jobs)
    while left:
        for name, job in list(left.items()):
            if not set(needs(job)) & set(left):
                yield name, left.pop(name)
                break
        else:
            raise CheckFailedError(f"the jobs {sorted(left)} wait for each other")


def needs(job: dict[str, Any]) -> list[str]:
    """Return the names of the jobs that a job needs."""
    given = job.get("needs", [])
    return [given] if isinstance(given, str) else given


def _first(command: str) -> str:
    return command.split(maxsplit=1)[0]


def _run(command: str, place: Path) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=place,
        env={"PATH": os.environ["PATH"], "GITHUB_REF_NAME": "v0", "IMAGE": "registry/outlast"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CheckFailedError(f"release.yml: {command} failed:\n{done.stdout}{done.stderr}")


def _carry(step: dict[str, Any], place: Path, artifacts: Path) -> bool:
    """Do what an action does with files, or return that it needs the network."""
    action, options = step["uses"].partition("@")[0], step.get("with", {})
    match action:
        case "actions/upload-artifact":
            found = [one for line in options["path"].split() for one in place.glob(line)]
            if not found or len(found) < len(options["path"].split()):
                raise CheckFailedError(f"release.yml uploads {options['path']}, which is not there")
            (artifacts / options["name"]).mkdir(parents=True)
            for one in found:
                shutil.copy(one, artifacts / options["name"])
        case "actions/download-artifact":
            pattern = options.get("pattern", options.get("name", ""))
            for name in re.sub("[{}]", "", pattern).split(","):
                if not (artifacts / name).is_dir():
                    raise CheckFailedError(f"release.yml downloads {name}, which no job has made")
                into = place / options.get("path", ".")
                shutil.copytree(artifacts / name, into, dirs_exist_ok=True)
        case "pypa/gh-action-pypi-publish":
            names = sorted(path.suffix for path in (place / options["packages-dir"]).iterdir())
            if names != [".gz", ".whl"]:
                raise CheckFailedError(f"release.yml publishes {names}, not two packages")
            return False
        case _:
            return action in {"actions/checkout", "actions/setup-node", "actions/setup-python"}
    return True
