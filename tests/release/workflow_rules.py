"""What a workflow that releases may and may not do."""

import re
from typing import Any

from tests.release.dry_run import needs

PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40}")
WRITES = {
    "attestations": {"attest"},
    "contents": {"announce"},
    "id-token": {"attest", "publish", "publish-image"},
    "packages": {"publish-image"},
}
"""The jobs that may have a right to write."""

PROGRAMS = {"cd", "cosign", "echo", "gh", "mv", "sha256sum", "skopeo"}
"""What a job with a right to write may run: nothing that runs our code, or a package's."""

ACTIONS = {
    "actions/attest", "actions/download-artifact", "actions/upload-artifact",
    "pypa/gh-action-pypi-publish", "sigstore/cosign-installer",
}  # fmt: skip
"""The actions that such a job may use."""


def faults(workflow: dict[Any, Any]) -> list[str]:
    """Return which rules a workflow breaks, one sentence each."""
    events = workflow.get("on", workflow.get(True))  # YAML 1.1 reads `on` as true
    found = [] if events == {"push": {"tags": ["v[0-9]*"]}} else ["more than a tag starts it"]
    if workflow.get("permissions") != {}:
        found.append("its jobs have rights that they do not name")
    if "secrets." in str(workflow):
        found.append("it has a secret: publishing needs none")
    for name, job in workflow["jobs"].items():
        found += [f"{name}: {fault}" for fault in _faults_of(name, job)]
    publish = [job for job in workflow["jobs"].values() if "gh-action-pypi-publish" in str(job)]
    for job in publish:
        (step,) = [one for one in job["steps"] if "gh-action-pypi-publish" in str(one)]
        if step["with"].get("attestations") is not True:
            found.append("packages are published without attestations")
        if not job.get("environment"):
            found.append("nobody approves the publication")
    return found if publish else [*found, "it publishes nothing"]


def _faults_of(name: str, job: dict[str, Any]) -> list[str]:
    rights = job.get("permissions", {})
    writes = [right for right, level in rights.items() if level != "read"]
    found = [f"may not write {right}" for right in writes if name not in WRITES.get(right, ())]
    if not re.fullmatch(r"ubuntu-\d\d\.\d\d", str(job.get("runs-on"))):
        found.append("does not name the version of its machine")
    if "timeout-minutes" not in job:
        found.append("has no time-out")
    if writes and not needs(job):
        found.append("has a right to write, and needs no job that builds")
    for step in job["steps"]:
        found += _faults_of_step(step, may_write=bool(writes))
    return found


def _faults_of_step(step: dict[str, Any], *, may_write: bool) -> list[str]:
    found: list[str] = []
    uses, run, options = step.get("uses", ""), step.get("run", ""), step.get("with", {})
    action = uses.partition("@")[0]
    if uses and not PINNED.fullmatch(uses):
        found.append(f"{uses} is not pinned to a commit")
    if action == "actions/checkout" and options.get("persist-credentials") is not False:
        found.append("the checkout keeps a token")
    if "${{" in run:
        found.append("a command has an expression in it: pass it by env")
    if not may_write:
        if "token" in str(step.get("env", "")).lower():
            found.append("a step that runs our code has a token")
        return found
    if action and action not in ACTIONS:
        found.append(f"{action} may not be used where something can be written")
    programs = {part.split()[0] for part in re.split(r"&&|\|\||;|\n", run) if part.strip()}
    found += [f"{one} may not run where something can be written" for one in programs - PROGRAMS]
    return found
