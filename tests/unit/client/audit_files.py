"""An audit in a file, and everything that somebody may do to it.

Owns: `Export`, the entries of two runs with signed decisions, as `outlast audit --chain` writes them.
Must not know: what a check makes of them.
"""

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from outlast.client.audit import AuditedRun, AuditRecord, with_decision
from outlast.client.audit_chain import Head, Line, heads_of, lines_of
from outlast.client.audit_chain.entries import chained_run, entry_hash, seal
from outlast.contract.identity import (
    IdentityKeys,
    Place,
    new_key_pair,
    read_keys,
    signed,
)
from outlast.edges.rendering import json_text
from outlast.loop.approvals import Decision, Seen
from outlast.loop.canonical import digest

START_MS = 1_790_000_000_000
ROOT = Place(namespace="default", chain_id="first", run_id="support-42")
NESTED = Place(namespace="default", chain_id="first", run_id="support-42/c1")
ARGUMENTS = '{"order": "A-17", "euros": 50}'
HOSTILE = '=HYPERLINK("http://eve";"x")\n\u202e;=1 "quoted" \\u000a \ud800, caf\u00e9'

Entries = list[Any]
Edit = Callable[[Entries], Any]


@cache
def keys_of(name: str) -> IdentityKeys:
    """Return a pair of keys: that of somebody."""
    private, _ = new_key_pair()
    return IdentityKeys(read_keys(private), name)


DESK_KEY = keys_of("desk")
"""Signs decisions and files."""


def decision(place: Place = ROOT, keys: IdentityKeys = DESK_KEY, **fields: Any) -> Decision:
    """Return Ann's signed decision."""
    seen = Seen(call_id="c1", arguments="d1", shown=digest(ARGUMENTS), tool="t", policy="p")
    named: dict[str, Any] = {
        "request_id": "a1", "type": "approve", "by": "ann", "display": "Ann", "groups": ("billing",),
        "method": "token", "channel": "desk", "args_digest": "d1", "seen": seen, **fields,
    }  # fmt: skip
    assert keys.signing is not None
    return signed(Decision(**named), place, keys.signing, at_ms=START_MS + 4_000)


def entry(place: Place, at: int, event: Any, **fields: Any) -> AuditRecord:
    """Return an entry of a run, some seconds after the start."""
    named: dict[str, Any] = {
        "run_id": place.run_id, "root_run_id": ROOT.run_id, "request_id": "a1", "tool": "refund",
        "agent": "Clerk", "args_digest": "d1", "arguments": ARGUMENTS, **fields,
    }  # fmt: skip
    return AuditRecord(at_ms=START_MS + at * 1_000, event=event, **named)


def decided(place: Place, made: Decision, at: int, event: Any, **fields: Any) -> AuditRecord:
    """Return the entry of a verified decision."""
    times = {"made_at_ms": START_MS + 4_000, "arrived_at_ms": START_MS + at * 1_000}
    one = entry(place, at, event, verified=True, seconds_to_decide=at - 1.5, **times, **fields)
    return replace(with_decision(one, made), signed=made)


def run_of(place: Place, chain_id: str, *records: AuditRecord) -> AuditedRun:
    root = None if place == ROOT else (ROOT.run_id, ROOT.chain_id)
    return AuditedRun(run_id=place.run_id, chain_id=chain_id, root=root, records=records)


def support(place: Place = ROOT, made: Decision | None = None) -> AuditedRun:
    """Return a run with six entries: hostile texts, a decision, and what a signal tried."""
    made = decision(place) if made is None else made
    return run_of(
        place,
        place.chain_id if place == ROOT else "nested",
        entry(place, 1, "requested", note=HOSTILE, quorum=1),
        entry(
            place, 3, "ignored", by=HOSTILE, groups=("a | b", "c"), verified=False, note="forged"
        ),
        decided(place, made, 5, "vote"),
        decided(place, made, 5, "decided", status="approved"),
        entry(place, 6, "vote", request_id="a2", by="bob", decision="reject", verified=False),
        entry(place, 6, "decided", request_id="a2", by="bob", verified=False, status="rejected"),
    )


@dataclass
class Export:
    """The entries of a file, to be written, and what was kept elsewhere of them."""

    entries: Entries = field(default_factory=Entries)

    @property
    def heads(self) -> Sequence[Head]:
        return heads_of(self.entries)

    def edited(self, edit: Edit | None) -> "Export":
        """Return a copy that somebody has changed."""
        entries = copy.deepcopy(self.entries)
        if edit is not None:
            edit(entries)
        return Export(entries)

    def sealed(self, keys: IdentityKeys = DESK_KEY) -> "Export":
        assert keys.signing is not None
        place = replace(ROOT, chain_id="")
        return Export([*self.entries, seal(self.heads, place, keys.signing, START_MS + 60_000)])

    @property
    def text(self) -> str:
        """The file as the command line writes it."""
        return "".join(f"{json_text(one)}\n" for one in self.entries)

    def lines(self) -> list[Line]:
        return lines_of(self.text)


def export(*runs: AuditedRun) -> Export:
    """Return the file of some runs; without any, of a run and one nested in it."""
    found = runs or (support(), support(NESTED))
    places = {ROOT.run_id: ROOT, NESTED.run_id: NESTED}
    return Export([one for run in found for one in chained_run(run, places[run.run_id])])


def hashed_again(entries: Entries) -> None:
    """Compute all hashes again, as whoever changes a file can."""
    previous = dict[str, str]()
    for one in entries:
        key = json.dumps([one["run_id"], one["chain"]])  # a change may have made a list of either
        previous[key] = one["hash"] = entry_hash(one, previous.get(key, ""))


def and_hashed(edit: Edit) -> Edit:
    """Return a change after which all hashes are computed again."""

    def both(entries: Entries) -> None:
        edit(entries)
        hashed_again(entries)

    return both


def sets(position: int, /, **fields: Any) -> Edit:
    """Return a change of an entry's fields."""
    return lambda entries: entries[position].update(fields)


def moves(source: int, target: int) -> Edit:
    return lambda entries: entries.insert(target, entries.pop(source))


def drops(start: int, stop: int) -> Edit:
    def drop(entries: Entries) -> None:
        del entries[start:stop]

    return drop


def copies(source: int, target: int) -> Edit:
    return lambda entries: entries.insert(target, copy.deepcopy(entries[source]))
