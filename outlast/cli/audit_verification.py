"""`outlast audit --verify`: what is wrong with an audit, and what proves the rest."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from outlast.agents.errors import UserError, as_user_error
from outlast.cli import terminal
from outlast.cli.exit_codes import ExitCode
from outlast.contract.identity import (
    PUBLIC_KEYS_VARIABLE,
    IdentityKeyError,
    IdentityKeys,
    keys_from_environment,
)
from outlast.edges.clock import time_of
from outlast.edges.rendering import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.cli.caller import Caller
    from outlast.client.audit_chain import AuditCheck, CheckedRun, Head, Problem

MOST_SHOWN: Final = 20

_NOT_PINNED: Final = (
    ": whoever changes a file can compute all its hashes again. Name a hash or a file that was kept "
    "elsewhere, with --head, or the key that has sealed it."
)

_HASH: Final = re.compile(r"[0-9a-f]{64}")
_FILE: Final = re.compile(r"(?s)(?:\.{0,2}|~)/.*|.*\.(?:jsonl|json)", re.IGNORECASE)


async def verify(caller: "Caller", name: str, heads: "Sequence[str]") -> ExitCode:
    """Check a file, or a run; return the exit code."""
    from outlast.client.audit_chain import check_lines, check_run, read_file

    hashes = [one for one in heads if _HASH.fullmatch(one)]
    others = [one for one in heads if not _HASH.fullmatch(one)]
    for one in others:
        if not _FILE.fullmatch(one):
            raise UserError(
                f"--head {one:.80} is no hash, which has 64 characters 0-9 and a-f, and no file: name a "
                "file with .jsonl or ./NAME."
            )
    earlier = [read_file(_path(one)) for one in others]
    is_file = _FILE.fullmatch(name) is not None
    if is_file:
        lines = read_file(_path(name))
        found = check_lines(lines, keys=_keys(), heads=hashes, earlier=earlier)
    else:
        client = (await caller.connect()).client
        async with terminal.waiting(terminal.err(), "reading histories"):
            found = await check_run(client, name, heads=hashes, earlier=earlier)
    if not caller.printed_json(found.record()):
        _show(found, is_file=is_file, is_compared=bool(heads))
    is_good = found.result == "pinned" or (found.result == "not pinned" and not is_file)
    return ExitCode.OK if is_good else ExitCode.FAILED


def say_heads(heads: "Sequence[Head]", *, is_sealed: bool, is_whole: bool) -> None:
    """Say what to keep of an export, on standard error."""
    console = terminal.err()
    for one in heads[:MOST_SHOWN]:
        terminal.say(
            console, (one.run_id, "bold"), f": {counted(one.entries, 'entry')}, head {one.hash}"
        )
    if len(heads) > MOST_SHOWN:
        terminal.say(console, f"and {len(heads) - MOST_SHOWN:,} more runs")
    if is_sealed:
        terminal.say(console, "The last line is signed and covers all of them.")
    elif heads and is_whole:
        terminal.say(
            console,
            "No identity key signs the file: keep the heads, or the file, where nobody changes them.",
        )
    elif heads:
        terminal.say(console, "The file is not signed, because it lacks runs.")


def _path(name: str) -> Path:
    return Path(name).expanduser()


def _keys() -> IdentityKeys:
    with as_user_error(IdentityKeyError):
        return keys_from_environment()


# --- The result ----------------------------------------------------------------------------------


def _show(found: "AuditCheck", *, is_file: bool, is_compared: bool) -> None:
    console = terminal.out()
    for one in found.problems:
        terminal.say(console, *_where(one), one.text)
    bad = {one.run_id for one in found.problems}
    for run in found.runs[:MOST_SHOWN]:
        if run.head.run_id not in bad:
            terminal.say(console, (run.head.run_id, "bold"), ": ", _standing(run))
    if len(found.runs) > MOST_SHOWN:
        terminal.say(console, f"{len(found.runs):,} runs in all.")
    for note in found.notes:
        terminal.say(console, note)
    if found.signatures:
        terminal.say(console, f"Valid signatures: {found.signatures:,}.")
    for why, count in found.unchecked.items():
        terminal.say(console, f"Signatures not checked: {count:,} ({why}).")
    if is_file and "no key is given" in found.unchecked:
        terminal.say(console, f"Set {PUBLIC_KEYS_VARIABLE} to check signatures.")
    if found.sealed_by:
        at = time_of(found.sealed_ms or 0).isoformat("T", "seconds")
        terminal.say(console, f"Sealed with the key {found.sealed_by} at {at}, by its own clock.")
    terminal.say(console, *_verdict(found, is_file=is_file, is_compared=is_compared))


def _where(one: "Problem") -> "list[terminal.Part]":
    parts = [f"line {one.line}"] if one.line is not None else []
    if one.run_id:
        parts.append(one.run_id)
    if one.number is not None:
        parts.append(f"entry {one.number}")
    return [(", ".join(parts), "bold"), ": "] if parts else []


def _standing(run: "CheckedRun") -> str:
    count = run.head.entries
    if run.pinned == count:
        return f"{counted(count, 'entry')}, pinned."
    if run.pinned:
        return f"{counted(count, 'entry')}, consistent; pinned up to entry {run.pinned}."
    return f"{counted(count, 'entry')}, consistent, but not pinned."


def _verdict(
    found: "AuditCheck", *, is_file: bool, is_compared: bool
) -> "tuple[terminal.Part, ...]":
    if found.result == "wrong":
        count = len(found.problems)
        return ("Wrong", "bold red"), f": {count:,} {'problem' if count == 1 else 'problems'}."
    if found.result == "pinned":
        return (("Proven", "bold green"), ": all entries are as they were when they were pinned.")
    if is_file:
        return ("Consistent, but not pinned", "bold yellow"), _NOT_PINNED
    if is_compared:
        return (("Consistent", "bold green"), ": newer entries are not pinned.")
    return (
        ("Consistent", "bold green"),
        " with what the server and the archive have. Nothing was named to compare it with: see --head.",
    )
