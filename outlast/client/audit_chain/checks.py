"""Checks chained entries: which are wrong, and how; which signatures and heads prove them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from outlast.client.audit_chain.entries import (
    SEAL_ACTION,
    SEALED,
    Head,
    entries_text,
    entry_hash,
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
from outlast.loop.values import JsonObject

Result: TypeAlias = Literal["wrong", "pinned", "not pinned"]

_LONGEST_AGE_MS: Final = 1 << 62
"""A seal does not age."""

_MOST_NUMBERS: Final = 10**9


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
        return {
            "text": self.text,
            "line": self.line,
            "run_id": self.run_id,
            "number": self.number,
        }


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


@dataclass(frozen=True, slots=True)
class _Row:
    """An entry with what places it in its chain."""

    line: int | None
    entry: JsonObject
    number: int
    hash: str
    is_whole: bool

    def problem(self, text: str) -> Problem:
        """Return a problem of this entry."""
        run_id = str(self.entry["run_id"])
        return Problem(text=text, line=self.line, run_id=run_id, number=self.number)


_Chains: TypeAlias = dict[tuple[str, str], list[_Row]]


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
        heads: hashes of entries that were kept elsewhere.
        earlier: the lines of audits that were kept elsewhere.
    """
    problems = list[Problem]()
    chains, seals = _sorted_out(lines, problems)
    for rows in chains.values():
        problems += _chain_problems(rows)
    found = {key: _head(key, rows) for key, rows in chains.items()}
    sealed_by, sealed_ms, notes = _checked_seal(seals, lines, [*found.values()], keys, problems)
    pinned = Counter[tuple[str, str]]()
    if sealed_by:
        pinned.update({key: head.entries for key, head in found.items()})
    for one in heads:
        _pin(one, chains, pinned, problems)
    for one in earlier:
        _pin_earlier(one, chains, pinned, problems)
    signatures = SignatureCheck(keys)
    for row in (row for rows in chains.values() for row in rows):
        signed = of_entry(row.entry)
        text = signatures.problem(row.entry, signed) or other_than_signed(row.entry, signed)
        if text:
            problems.append(row.problem(text))
    return AuditCheck(
        runs=tuple(CheckedRun(head=head, pinned=pinned[key]) for key, head in found.items()),
        problems=tuple(problems),
        notes=notes,
        sealed_by=sealed_by,
        sealed_ms=sealed_ms,
        signatures=signatures.valid,
        unchecked=signatures.unchecked,
    )


# --- Lines ---------------------------------------------------------------------------------------


def _sorted_out(lines: Sequence[Line], problems: list[Problem]) -> tuple[_Chains, list[Line]]:
    """Return the entries of each chain, in the order of the lines, and the seals."""
    chains, seals = _Chains(), list[Line]()
    for line in lines:
        if line.entry is None:
            problems.append(Problem(text=f"It {line.problem}.", line=line.number))
        elif line.entry.get("event") == SEALED:
            seals.append(line)
        elif (row := _row(line.entry, line.number)) is None:
            text = "It is no entry of a chain: its run, chain, number or hash is missing."
            problems.append(Problem(text=text, line=line.number))
        else:
            key = str(row.entry["run_id"]), str(row.entry["chain"])
            chains.setdefault(key, []).append(row)
    return chains, seals


def _row(entry: JsonObject, line: int | None) -> _Row | None:
    number, hash_ = entry.get("number"), entry.get("hash")
    texts = (entry.get("run_id"), entry.get("chain"), hash_)
    if not all(isinstance(one, str) and one for one in texts):
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < _MOST_NUMBERS:
        return None
    try:
        is_whole = entry_hash(entry) == hash_
    except (ValueError, RecursionError):
        is_whole = False
    return _Row(line, entry, number, cast("str", hash_), is_whole)


def _head(key: tuple[str, str], rows: Sequence[_Row]) -> Head:
    newest = max(rows, key=lambda one: one.number)
    return Head(run_id=key[0], chain_id=key[1], entries=newest.number, hash=newest.hash)


# --- Chains --------------------------------------------------------------------------------------


def _chain_problems(rows: Sequence[_Row]) -> Iterator[Problem]:
    """Yield what is wrong with the entries of one chain."""
    first_of: dict[int, _Row] = {}
    newest = 0
    for row in rows:
        if not row.is_whole:
            yield row.problem("The entry was changed: its hash does not fit what it says.")
        same = first_of.setdefault(row.number, row)
        if same is not row:
            yield row.problem(_twice(row, same))
            continue
        if row.number < newest:
            yield row.problem(f"The entry is not in its place: it stands after entry {newest}.")
        newest = max(newest, row.number)
    yield from _gaps(rows, sorted(first_of))
    for number, row in first_of.items():
        before = first_of.get(number - 1)
        wanted = "" if number == 1 else before and before.hash
        stated = "" if is_empty(row.entry.get("previous")) else row.entry["previous"]
        if row.is_whole and wanted is not None and stated != wanted:
            yield row.problem(
                f"The entry does not follow entry {number - 1}: one of the two was replaced, and its "
                "hash computed again."
                if number > 1
                else "The first entry follows another one, which is missing or was renumbered."
            )


def _twice(row: _Row, same: _Row) -> str:
    if row.hash == same.hash and row.is_whole:
        return f"The entry is a copy of {_place(same)}."
    return (
        f"There is another entry {row.number} of this run, {_place(same)}: one of the two was inserted "
        "or replaced."
    )


def _place(row: _Row) -> str:
    return f"entry {row.number}" if row.line is None else f"line {row.line}"


def _gaps(rows: Sequence[_Row], numbers: Sequence[int]) -> Iterator[Problem]:
    by_number = {row.number: row for row in reversed(rows)}
    for before, after in zip([0, *numbers], numbers, strict=False):
        if after == before + 1:
            continue
        first, last = before + 1, after - 1
        one = f"Entry {first} is" if first == last else f"Entries {first} to {last} are"
        row = by_number[after]
        yield Problem(
            text=f"{one} missing before this one.",
            line=row.line,
            run_id=str(row.entry["run_id"]),
            number=after,
        )


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
    """Note up to where a known hash proves a chain."""
    for key, rows in chains.items():
        for row in rows:
            if row.hash == hash_ and row.is_whole:
                pinned[key] = max(pinned[key], row.number)
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
    for rows in earlier.values():
        damage += _chain_problems(rows)
    if damage:
        where = "" if damage[0].line is None else f", in its line {damage[0].line}"
        text = f"The earlier audit is damaged itself{where}: {damage[0].text}"
        problems.append(Problem(text=text))
        return
    for key, before in earlier.items():
        now = {row.number: row for row in reversed(chains.get(key, []))}
        problem = _changed_since(key[0], before, now)
        if problem is None:
            pinned[key] = max(pinned[key], _head(key, before).entries)
        else:
            problems.append(problem)


def _changed_since(run_id: str, before: Sequence[_Row], now: Mapping[int, _Row]) -> Problem | None:
    if not now:
        text = (
            f"The run has {entries_text(len(before))} in the earlier audit, and none in this one."
        )
        return Problem(text=text, run_id=run_id)
    for row in before:
        present = now.get(row.number)
        if present is None:
            rest = len(before) - row.number + 1
            text = (
                f"The earlier audit has {entries_text(rest)} more of this run, from entry "
                f"{row.number} on: they are missing."
            )
            return Problem(text=text, run_id=run_id, number=row.number)
        if present.hash != row.hash:
            names = [
                one for one in _differs(row.entry, present.entry) if one not in {"hash", "previous"}
            ]
            what = ", ".join(f"`{one:.40}`" for one in names) or "what comes before it"
            return present.problem(
                f"The entry is another one than in the earlier audit: {what} differs."
            )
    return None
