"""The recordings of releases: where they are, how they are read, and that nobody changes them.

A folder of `releases/` has what one release of outlast left behind: `histories`, `workflows`,
`archive`, `exports.jsonl.gz`, `proofs.json.gz`, `sessions` and, of a release, `names.pyi`. Today's
code reads all of them. `unreleased` has what no release has recorded yet.
"""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

from temporalio.worker import Replayer

FOLDER = Path(__file__).parent / "releases"
UNRELEASED = "unreleased"
SUMS = "SHA256SUMS"
LARGEST_BYTES = 2_000_000
"""A release's recordings are in every clone of the repository, for ever."""


def releases() -> list[Path]:
    """Return the folders of all releases, and of what is unreleased."""
    return sorted(path for path in FOLDER.iterdir() if path.is_dir())


def read(path: Path) -> Any:
    """Return the JSON in a compressed file."""
    return json.loads(gzip.decompress(path.read_bytes()))


def write(path: Path, value: Any) -> None:
    """Write JSON into a compressed file, which is the same each time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(value, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(data, mtime=0))


def sums_of(folder: Path) -> str:
    """Return the digests of a release's files, as `sha256sum` writes them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in files
    )


def replayer(*workflows: type) -> Replayer:
    """Return what runs these workflows along a recorded history."""
    # The SDK refuses a step of more than two seconds: so long waits a machine that does much else.
    return Replayer(workflows=workflows, build_id="test", debug_mode=True)
