"""The environments of the subjects, made from the package index with `uv`."""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.peers.subjects import Subject
from benchmarks.processes import ROOT

HOME = ROOT / ".venv-peers"
_UV = Path(sys.executable).with_name("uv")
_INSTALL_SECONDS = 600

_VERSIONS = """
import json, sys
from importlib.metadata import version
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""


def python_of(subject: Subject) -> Path:
    """Return the interpreter of a subject; install its packages first where they are missing."""
    if not subject.environment:
        return Path(sys.executable)
    home = HOME / subject.environment
    python, stamp = home / "bin" / "python", home / "packages.json"
    wanted = json.dumps(subject.packages)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"installing {', '.join(subject.packages)}", file=sys.stderr)
    _uv("venv", "--quiet", "--clear", "--python", sys.executable, str(home))
    # Compiled now, so that the first start does not do it.
    _uv(
        "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python),
        *subject.packages,
    )  # fmt: skip
    stamp.write_text(wanted)
    return python


def versions_of(subject: Subject) -> dict[str, str]:
    """Return the versions of a subject's packages that are reported."""
    command = [str(python_of(subject)), "-c", _VERSIONS, *subject.shown]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    return json.loads(done.stdout)


def _uv(*arguments: str) -> None:
    environment = {**os.environ, "UV_SYSTEM_CERTS": "1"}
    subprocess.run([_UV, *arguments], check=True, env=environment, timeout=_INSTALL_SECONDS)
