"""What is in a wheel and a source distribution, and what should be."""

import re
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from email import message_from_bytes
from email.message import Message
from pathlib import Path

STRAY = ("/tests/", "__pycache__", "node_modules", "/.venv", "/site/", "/.git/", "/.outlast/")
STRAY_SUFFIXES = (".pyc", ".db", ".db-shm", ".db-wal", ".log", ".orig", ".rej")
FIELDS = (
    "Name", "Version", "Summary", "License-Expression", "License-File", "Keywords", "Classifier",
    "Requires-Python", "Requires-Dist", "Provides-Extra", "Project-URL", "Description-Content-Type",
)  # fmt: skip
"""The fields of the metadata that an index shows."""


def wheel_files(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel, by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sdist_names(sdist: Path) -> list[str]:
    """Return the names of a source distribution's files, below its folder."""
    with tarfile.open(sdist) as archive:
        return [one.name.partition("/")[2] for one in archive.getmembers() if one.isfile()]


def stray(names: Iterable[str]) -> list[str]:
    """Return the files that do not belong into a package."""
    return [
        name
        for name in names
        if any(part in f"/{name}" for part in STRAY) or name.endswith(STRAY_SUFFIXES)
        if not name.startswith("outlast/cli/new_project/")  # templates of a project, with its tests
    ]


def differences(wheel: Iterable[str], tracked: Iterable[str], written: Iterable[str]) -> list[str]:
    """Return what the wheel lacks, and what it has besides.

    Args:
        wheel: the names of its files.
        tracked: the files of the repository.
        written: the modules that the build writes.
    """
    desk = "examples/support_desk/"
    wanted = {name for name in tracked if name.startswith("outlast/")} | {*written}
    wanted |= {f"outlast/{name}" for name in tracked if name.startswith(desk)}
    there = {name for name in wheel if ".dist-info/" not in name}
    lacks = [f"the wheel lacks {name}" for name in sorted(wanted - there)]
    return lacks + [f"the wheel has {name} besides" for name in sorted(there - wanted)]


def metadata_of(files: Mapping[str, bytes]) -> Message:
    """Return the metadata of a wheel."""
    return next(
        message_from_bytes(text)
        for name, text in files.items()
        if name.endswith(".dist-info/METADATA")
    )


def metadata_problems(metadata: Message, version: str, extras: Iterable[str]) -> list[str]:
    """Return what is missing or wrong in the metadata of a package."""
    problems = [f"the metadata has no {field}" for field in FIELDS if not metadata.get(field)]
    if metadata.get("Version") != version:
        problems.append(f"the version is {metadata.get('Version')}, and not {version}")
    if {*(metadata.get_all("Provides-Extra") or ())} != {*extras}:
        problems.append("the extras are not those of pyproject.toml")
    text = str(metadata.get_payload())
    if "](docs/" in text or "](examples/" in text:
        problems.append("the readme has links that work only in the repository")
    if re.search(r"!\[[^\]]*\]\([^)]*/blob/", text):
        problems.append("a picture of the readme is the address of a page")
    return problems
