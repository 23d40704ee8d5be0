"""Checks chained entries: which are wrong, and how; which signatures and heads prove them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from outlast.client.audit_chain.entries import (
    SEAL_ACTION,
    SEALED,
    Head,
    entry_hash,
    heads_of,
    is_empty,
    seal_line,
    seal_of,
)
from outlast.client.audit_chain.files import Line
from outlast.client.audit_chain.signatures import SignatureCheck, of_entry, other_than_signed
from outlast.contract.identity import (
    NO_KEYS,
    IdentityKeys,
    Place,
    parse_proof,
    proof_problem,
)
from outlast.edges.rendering import counted
from outlast.loop.values import JsonObject

Result: TypeAlias = Literal["wrong", "pinned", "not pinned"]

_LONGEST_AGE_MS: Final = 1 << 62
"""A seal does not age."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong with an entry, a run or a file.

    Attributes:
        text: what is wrong, as a sentence.
        line: the line of the file; None without one.
        run_id: the run; empty where no run is meant.
        number: the entry's number in its run; None where no entry is meant.
    """

    text: str
    line: int | None = None
    run_id: str = ""
    number: int | None = None

    def record(self) -> JsonObject:
        """Return the problem as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRun:
    """One run of an audit, and how much of it is proven.

    Attributes:
        head: its newest entry.
        pinned: the number of entries, from the first on, that a seal or a known head covers.
    """

    head: Head
    pinned: int = 0

    def record(self) -> JsonObject:
        """Return the run as JSON."""
        return {**self.head.record(), "pinned": self.pinned}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCheck:
    """The result of checking an audit.

    Attributes:
        runs: its runs.
        problems: what is wrong.
        notes: what else is to be known, such as histories that were deleted on request.
        sealed_by: the id of the key that has sealed the file; empty without a seal that counts.
        sealed_ms: when, by the clock of the sealer, in milliseconds since the epoch.
        signatures: the number of entries whose signatures are valid.
        unchecked: why the signatures of other entries were not checked, and how many.
    """

    runs: tuple[CheckedRun, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    sealed_by: str = ""
    sealed_ms: int | None = None
    signatures: int = 0
    unchecked: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def result(self) -> Result:
        """Whether something is wrong, and if not, whether a seal or a head covers all entries."""
        if self.problems:
            return "wrong"
        is_pinned = self.runs and all(one.pinned == one.head.entries for one in self.runs)
        return "pinned" if is_pinned else "not pinned"

    def record(self) -> JsonObject:
        """Return the result as JSON."""
        return {
            "result": self.result,
            "runs": [one.record() for one in self.runs],
            "problems": [one.record() for one in self.problems],
            "notes": list(self.notes),
            "sealed_by": self.sealed_by,
            "sealed_at_ms": self.sealed_ms,
            "signatures": self.signatures,
            "unchecked": dict(self.unchecked),
        }


_Chains: TypeAlias = dict[tuple[str, str], list[Line]]


def check_lines(
    lines: Sequence[Line],
    *,
    keys: IdentityKeys = NO_KEYS,
    heads: Iterable[str] = (),
    earlier: Iterable[Sequence[Line]] = (),
) -> AuditCheck:
    """Check the lines of an audit, without a server.

    Args:
        lines: the lines.
        keys: the keys whose signatures count.
        heads: digests that were kept elsewhere.
        earlier: the lines of audits that were kept elsewhere.
    """
    problems = list[Problem]()
    chains, seals = _sorted_out(lines, problems)
    for chain in chains.values():
        problems += _chain_problems(chain)
    found = {
        one.chain: one for one in heads_of(_entry(row) for them in chains.values() for row in them)
    }
    sealed_by, sealed_ms, notes = _checked_seal(seals, lines, [*found.values()], keys, problems)
    pinned = Counter[tuple[str, str]]()
    if sealed_by:
        pinned.update({key: head.entries for key, head in found.items()})
    for one in heads:
        _pin(one, chains, pinned, problems)
    for one in earlier:
        _pin_earlier(one, chains, pinned, problems)
    signatures = SignatureCheck(keys)
    for chain in chains.values():
        for number, line in enumerate(chain, start=1):
            entry = _entry(line)
            signed = of_entry(entry)
            text = signatures.problem(entry, signed) or other_than_signed(entry, signed)
            if text:
                problems.append(_problem(text, line, number))
    return AuditCheck(
        runs=tuple(CheckedRun(head=head, pinned=pinned[key]) for key, head in found.items()),
        problems=tuple(problems),
        notes=notes,
        sealed_by=sealed_by,
        sealed_ms=sealed_ms,
        signatures=signatures.valid,
        unchecked=signatures.unchecked,
    )


def _entry(line: Line) -> JsonObject:
    return line.entry or {}


def _problem(text: str, line: Line, number: int) -> Problem:
    """Return a problem of the entry with a number in its run."""
    run_id = str(_entry(line)["run_id"])
    return Problem(text=text, line=line.number, run_id=run_id, number=number)


# --- Digests -------------------------------------------------------------------------------------


def _sorted_out(lines: Sequence[Line], problems: list[Problem]) -> tuple[_Chains, list[Line]]:
    """Return the lines of each run, in their order, and the seals."""
    chains, seals = _Chains(), list[Line]()
    for line in lines:
        entry = _entry(line)
        run_id, chain_id, hash_ = (entry.get(one) for one in ("run_id", "chain", "hash"))
        if line.entry is None:
            problems.append(Problem(text=f"It {line.problem}.", line=line.number))
        elif entry.get("event") == SEALED:
            seals.append(line)
        elif all(isinstance(one, str) and one for one in (run_id, chain_id, hash_)):
            chains.setdefault((str(run_id), str(chain_id)), []).append(line)
        else:
            text = "It is no entry of a chain: its run, chain or hash is missing."
            problems.append(Problem(text=text, line=line.number))
    return chains, seals


def _chain_problems(lines: Sequence[Line]) -> Iterator[Problem]:
    """Yield the entries of one run whose digest does not fit them and the digest before."""
    digest = ""
    for number, line in enumerate(lines, start=1):
        entry = _entry(line)
        try:
            fits = entry_hash(entry, digest) == entry["hash"]
        except (ValueError, RecursionError):
            fits = False
        if not fits:
            yield _problem(
                "The entry was changed, or what stands before it was changed, removed, inserted or "
                "moved: its hash does not fit.",
                line,
                number,
            )
        digest = str(entry["hash"])


# --- The seal ------------------------------------------------------------------------------------


def _checked_seal(
    seals: Sequence[Line],
    lines: Sequence[Line],
    heads: Sequence[Head],
    keys: IdentityKeys,
    problems: list[Problem],
) -> tuple[str, int | None, tuple[str, ...]]:
    """Return the key and the time of a seal that counts, and notes about one that does not."""
    if not seals:
        return "", None, ()
    if len(seals) > 1 or seals[-1] is not lines[-1]:
        text = "A seal is the last line, and there is one. Lines were added, or files were joined."
        problems.append(Problem(text=text, line=seals[0].number))
        return "", None, ()
    entry: Any = seals[0].entry
    signed: Any = entry.get("signed")
    signed = cast("JsonObject", signed) if isinstance(signed, dict) else {}
    proof = parse_proof(signed.get("proof"))
    if proof is None:
        problems.append(Problem(text="The seal cannot be read.", line=seals[0].number))
        return "", None, ()
    if proof.key_id not in {one.id for one in keys.trusted}:
        which = "which is not among the given ones" if keys else "and no key is given to check it"
        return "", None, (f"The file is sealed with the key {proof.key_id}, {which}.",)
    names = ("namespace", "chain", "run_id")
    namespace, chain, run_id = (str(signed.get(one, "")) for one in names)
    place = Place(namespace=namespace, chain_id=chain, run_id=run_id)
    problem = proof_problem(
        seal_of(heads, str(signed["proof"])),
        place,
        keys,
        now_ms=proof.at_ms,
        action=SEAL_ACTION,
        longest_ms=_LONGEST_AGE_MS,
    )
    if problem is None and _differs(entry, seal_line(heads, place, str(signed["proof"]))):
        problem = "its line was changed"
    if problem:
        text = (
            f"The seal does not count ({problem}): runs or entries were added, removed or changed, "
            "and their hashes computed again."
        )
        problems.append(Problem(text=text, line=seals[0].number))
        return "", None, ()
    return proof.key_id, proof.at_ms, ()


def _differs(one: JsonObject, other: JsonObject) -> list[str]:
    """Return the names of the fields that two entries do not have in common."""
    names = dict.fromkeys((*one, *other))
    return [
        name
        for name in names
        if one.get(name) != other.get(name)
        and not (is_empty(one.get(name)) and is_empty(other.get(name)))
    ]


# --- Heads ---------------------------------------------------------------------------------------


def _pin(
    hash_: str, chains: _Chains, pinned: "Counter[tuple[str, str]]", problems: list[Problem]
) -> None:
    """Note up to where a known digest proves a run."""
    for key, chain in chains.items():
        for number, line in enumerate(chain, start=1):
            if _entry(line)["hash"] == hash_:
                pinned[key] = max(pinned[key], number)
                return
    text = (
        f"No entry has the hash {hash_:.64}: entries were cut off at the end, or one was changed "
        "and the hashes computed again."
    )
    problems.append(Problem(text=text))


def _pin_earlier(
    lines: Sequence[Line],
    chains: _Chains,
    pinned: "Counter[tuple[str, str]]",
    problems: list[Problem],
) -> None:
    """Compare with the entries of an earlier audit, and note up to where they are the same."""
    damage = list[Problem]()
    earlier, _ = _sorted_out(lines, damage)
    for chain in earlier.values():
        damage += _chain_problems(chain)
    if damage:
        where = "" if damage[0].line is None else f", in its line {damage[0].line}"
        text = f"The earlier audit is damaged itself{where}: {damage[0].text}"
        problems.append(Problem(text=text))
        return
    for key, before in earlier.items():
        problem = _changed_since(key[0], before, chains.get(key, []))
        if problem is None:
            pinned[key] = max(pinned[key], len(before))
        else:
            problems.append(problem)


def _changed_since(run_id: str, before: Sequence[Line], now: Sequence[Line]) -> Problem | None:
    count = len(before)
    if not now:
        text = f"The run has {counted(count, 'entry')} in the earlier audit, and none in this one."
        return Problem(text=text, run_id=run_id)
    for number, (then, line) in enumerate(zip(before, now, strict=False), start=1):
        if names := _differs(_entry(then), _entry(line)):
            what = ", ".join(f"`{one:.40}`" for one in names if one != "hash") or "its hash"
            text = f"The entry is another one than in the earlier audit: {what} differs."
            return _problem(text, line, number)
    if len(now) < count:
        text = (
            f"The earlier audit has {counted(count - len(now), 'entry')} more of this run, from entry "
            f"{len(now) + 1} on: they are missing."
        )
        return Problem(text=text, run_id=run_id, number=len(now) + 1)
    return None
