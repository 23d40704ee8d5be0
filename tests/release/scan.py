"""Looks for known vulnerabilities in the locked dependencies; `make scan` runs it.

A vulnerability fails. Where the database cannot be reached, nothing is known: the scan says so in plain
words and does not fail, since a build behind a mirror of the package index has no such database.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
UV = str(Path(sys.executable).with_name("uv"))
PIP_AUDIT = "pip-audit==2.10.1"
NOT_SCANNED = (
    "scan: NOT SCANNED. The database of vulnerabilities at the package index cannot be reached from here, "
    "so nothing is known about {count} packages. Run `make scan` where https://pypi.org is reached."
)


def main() -> int:
    """Scan, and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="outlast-scan-") as folder:
        locked = Path(folder) / "locked.txt"
        form = ("--format", "requirements-txt", "--no-hashes", "--no-emit-project")
        export = (UV, "export", "--quiet", "--locked", "--all-extras", "--no-dev")
        environment = {**os.environ, "UV_SYSTEM_CERTS": "1"}
        subprocess.run(
            [*export, *form, "--output-file", locked], cwd=ROOT, env=environment, check=True
        )
        tool = (UV, "tool", "run", "--quiet", "--from", PIP_AUDIT, "pip-audit")
        options = ("--requirement", locked, "--disable-pip", "--no-deps", "--format", "json")
        done = subprocess.run(
            [*tool, *options, "--progress-spinner", "off"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        count = sum("==" in line for line in locked.read_text("utf-8").splitlines())
    code, words = verdict(report_of(done.stdout), count)
    print(words)
    if not done.stdout.strip():
        print(*done.stderr.strip().splitlines()[-1:], sep="\n")
    return code


def report_of(output: str) -> Mapping[str, Any]:
    """Return the report in pip-audit's output, or an empty one."""
    try:
        return json.loads(output)
    except ValueError:
        return {}


def verdict(report: Mapping[str, Any], count: int) -> tuple[int, str]:
    """Return the exit code, and the words for people.

    Args:
        report: pip-audit's report.
        count: how many packages are locked.
    """
    scanned = [one for one in report.get("dependencies", ()) if "vulns" in one]
    found = [
        f"  {one['name']} {one['version']}: {vulnerability['id']}, fixed in "
        f"{', '.join(vulnerability['fix_versions']) or 'no version'}"
        for one in scanned
        for vulnerability in one["vulns"]
    ]
    if found:
        return 1, "\n".join([f"scan: {len(found)} known vulnerabilities", *found])
    if not scanned:
        return 0, NOT_SCANNED.format(count=count)
    if len(scanned) < count:
        return 0, f"scan: no known vulnerability in {len(scanned)} packages; {count} are locked"
    return 0, f"scan: no known vulnerability in {count} packages"


if __name__ == "__main__":
    sys.exit(main())
