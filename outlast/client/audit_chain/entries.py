"""Entries of the audit with their running digest, and the seal over all of them."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from outlast.client.audit import AuditedRun, AuditRecord
from outlast.contract.identity import IdentityKey, Place, parse_proof, signed, signed_fields
from outlast.edges.rendering import counted
from outlast.loop.actions import Action
from outlast.loop.approvals import REDACTED, Decision
from outlast.loop.human_actions import row_of
from outlast.loop.values import Json, JsonObject
from outlast.views.redaction import Redaction

SEALED: Final = "sealed"
"""The event of a file's last line, which is signed and covers the heads of all runs."""

LONGEST_SIGNED: Final = 20_000
"""The most characters of a signed action in an entry: its text may have any length."""

SEAL_ACTION: Final = "seal audit 1"
"""The action that a seal's signature names, so that it counts for nothing else."""

_ENTRY: Final = "outlast audit entry 2\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest entry of a run: its digest stands for all entries up to it.

    Attributes:
        run_id: the run.
        chain_id: its first execution.
        entries: the number of entries.
        hash: the digest.
    """

    run_id: str
    chain_id: str
    entries: int
    hash: str

    @property
    def chain(self) -> tuple[str, str]:
        """What tells the run from others of its id."""
        return self.run_id, self.chain_id

    def record(self) -> JsonObject:
        """Return the head as JSON."""
        return {
            "run_id": self.run_id,
            "chain": self.chain_id,
            "entries": self.entries,
            "hash": self.hash,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seal:
    """What the last line of a file signs: the heads of all its runs."""

    heads: tuple[tuple[str, str, int, str], ...]
    proof: str | None = None


def entry_hash(entry: JsonObject, previous: str = "") -> str:
    """Return the digest of a run up to an entry: of the entry and of the digest before it.

    It covers every field that is not empty, but the digest itself.

    Raises:
        ValueError: a field is no JSON.
    """
    content = {
        name: value for name, value in entry.items() if name != "hash" and not is_empty(value)
    }
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(f"{_ENTRY}{previous}\n{canonical}".encode()).hexdigest()


def is_empty(value: Json) -> bool:
    """Whether a field has no value; a table has one spelling for all of these."""
    return value is None or value in ("", [])


def chained_run(run: AuditedRun, place: Place) -> list[JsonObject]:
    """Return the entries of a run with their digests.

    Args:
        run: the run.
        place: for which people's actions in it are signed.
    """
    entries: list[JsonObject] = []
    digest = ""
    for record in run.records:
        entry: JsonObject = {
            **record.record(),
            "signed": _signed(record, run.redaction, place),
            "chain": run.chain_id,
        }
        digest = entry["hash"] = entry_hash(entry, digest)
        entries.append(entry)
    return entries


def heads_of(entries: Iterable[JsonObject]) -> tuple[Head, ...]:
    """Return the head of each run in chained entries."""
    hashes: dict[tuple[str, str], list[str]] = {}
    for one in entries:
        if one.get("event") != SEALED:
            key = str(one["run_id"]), str(one["chain"])
            hashes.setdefault(key, []).append(str(one["hash"]))
    return tuple(
        Head(run_id=run_id, chain_id=chain_id, entries=len(found), hash=found[-1])
        for (run_id, chain_id), found in hashes.items()
    )


# --- Signed actions ------------------------------------------------------------------------------


def _signed(record: AuditRecord, redaction: Redaction, place: Place) -> JsonObject | None:
    """Return a verified action as it was signed, or why it is left out; None without one."""
    action = record.signed
    if action is None or action.proof is None or not record.verified:
        return None
    found = _fields_of(action)
    if redaction.json(found) != found or not _shows_edit(record):
        return {"left_out": "a policy redacts it"}
    if len(json.dumps(found)) > LONGEST_SIGNED:
        return {"left_out": f"it has more than {LONGEST_SIGNED:,} characters"}
    return {
        "namespace": place.namespace,
        "chain": place.chain_id,
        "run_id": place.run_id,
        **(
            {"decision": found}
            if isinstance(action, Decision)
            else {"action": row_of(action).name, "record": found}
        ),
        "proof": action.proof,
    }


def _shows_edit(record: AuditRecord) -> bool:
    """Whether all arguments of an edit may be shown: reviewers have seen them unredacted."""
    if not isinstance(record.signed, Decision) or record.signed.edited_arguments is None:
        return True
    return bool(record.arguments) and REDACTED not in record.arguments


def _fields_of(action: Action) -> JsonObject:
    """Return the fields that a signature covers: those with other values than their defaults."""
    written: JsonObject = json.loads(json.dumps(signed_fields(action)))
    return written


# --- The seal ------------------------------------------------------------------------------------


def seal(heads: Sequence[Head], place: Place, key: IdentityKey, at_ms: int) -> JsonObject:
    """Return the last line of a file: a signature over the heads of all its runs.

    Raises:
        IdentityKeyError: the key cannot sign.
    """
    made = signed(seal_of(heads), place, key, action=SEAL_ACTION, at_ms=at_ms)
    return seal_line(heads, place, made.proof or "")


def seal_of(heads: Sequence[Head], proof: str | None = None) -> _Seal:
    """Return what a seal signs; the order of the runs in the file is no part of it."""
    rows = ((one.run_id, one.chain_id, one.entries, one.hash) for one in heads)
    return _Seal(heads=tuple(sorted(rows)), proof=proof)


def seal_line(heads: Sequence[Head], place: Place, proof: str) -> JsonObject:
    """Return the line of a seal, with the fields of an entry."""
    parts = parse_proof(proof)
    blank = AuditRecord(at_ms=0, event="ignored", run_id=place.run_id, root_run_id=place.run_id)
    blank = replace(blank, at_ms=parts.at_ms if parts else 0)
    note = f"{counted(sum(one.entries for one in heads), 'entry')} of {counted(len(heads), 'run')}"
    return {
        **blank.record(),
        "event": SEALED,
        "note": note,
        "signed": {
            "namespace": place.namespace,
            "chain": place.chain_id,
            "run_id": place.run_id,
            "proof": proof,
        },
        "chain": "",
        "hash": "",
    }
