"""Tells files that only this user can have written from those that somebody may have planted.

A program that runs a tool, reads an address or keeps a key in a folder trusts whoever can write
there. So owner and mode are checked first, as git does since CVE-2022-24765.
"""

import os
import pwd
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final

_ROOT: Final = 0
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def is_ours(path: Path) -> bool:
    """Whether a file or folder belongs to this user; of a link, both ends have to."""
    try:
        owners = {path.lstat().st_uid, path.stat().st_uid}
    except OSError:
        return False
    return owners == {os.geteuid()}


def problem_of(path: Path, *, owners: Collection[int] = (), named: str = "it") -> str | None:
    """Return why somebody else may have written a file or a folder's entries; None if nobody."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return f"{named} is a link"
    if found.st_uid not in {os.geteuid(), *owners}:
        return f"{named} belongs to {_name(found.st_uid)}, not to {_name(os.geteuid())}"
    if found.st_mode & _OTHERS_WRITE:
        return f"others can write to {named} (mode {stat.S_IMODE(found.st_mode):04o})"
    return None


def problem_of_program(path: Path) -> str | None:
    """Return why a program must not be run: somebody else can have put it there.

    The folders above count as well, since whoever can write to one of them can replace what is in
    it; except in a folder with the sticky bit, such as `/tmp`.
    """
    if problem := problem_of(path, owners={_ROOT}):
        return problem
    for folder in path.parents:
        if folder.stat().st_mode & stat.S_ISVTX and folder.stat().st_uid in {_ROOT, os.geteuid()}:
            continue
        if problem := problem_of(folder, owners={_ROOT}, named=f"the folder {folder}"):
            return problem
    return None


def close_to_others(path: Path) -> None:
    """Take all rights to a file or folder of ours from everybody else."""
    mode = stat.S_IMODE(path.lstat().st_mode)
    if mode & _OTHERS and not path.is_symlink():
        path.chmod(mode & ~_OTHERS)


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read; it is replaced atomically."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(draft, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)


def append_private(path: Path) -> int:
    """Open a file that only this user can read, to append to it; return its descriptor."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"the user {user}"
