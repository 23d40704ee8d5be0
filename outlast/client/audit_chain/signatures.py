"""Checks the signatures of decisions in an audit, and that entries say what was signed."""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, cast

from outlast.client.audit import AuditRecord, finished, with_decision
from outlast.client.audit_chain.entries import is_empty
from outlast.contract.identity import (
    LONGEST_VOTE_AGE_MS,
    IdentityKeys,
    Place,
    parse_proof,
    proof_problem,
)
from outlast.loop.approvals import REDACTED, Decision, Seen
from outlast.loop.canonical import digest
from outlast.loop.values import JsonObject
from outlast.rendering import LONGEST_READ
from outlast.views.redaction import NOTHING

_SAID: Final = (
    "by",
    "display",
    "groups",
    "method",
    "decision",
    "channel",
    "remember",
    "note",
    "text",
    "seen",
)
"""The fields of an entry that only its decision decides."""

_BLANK: Final = AuditRecord(at_ms=0, event="vote", run_id="", root_run_id="")


@dataclass(frozen=True, slots=True)
class SignedDecision:
    """A decision with its signature and the run that it was signed for; or why they are missing."""

    decision: Decision | None = None
    place: Place | None = None
    left_out: str = ""


def of_entry(entry: JsonObject) -> SignedDecision | None:
    """Return the signed decision in an entry; None if it has none that can be read."""
    found: Any = entry.get("signed")
    if not isinstance(found, dict):
        return None
    signed = cast("dict[str, Any]", found)
    if isinstance(signed.get("left_out"), str):
        return SignedDecision(left_out=signed["left_out"])
    try:
        fields = dict(signed["decision"])
        if fields.get("seen") is not None:
            fields["seen"] = Seen(**fields["seen"])
        fields["groups"] = tuple(fields.get("groups", ()))
        decision = Decision(**fields, proof=str(signed["proof"]))
        parts = [str(signed[one]) for one in ("namespace", "chain", "run_id")]
        place = Place(namespace=parts[0], chain_id=parts[1], run_id=parts[2])
    except (KeyError, TypeError, ValueError):
        return None
    return SignedDecision(decision, place)


@dataclass
class SignatureCheck:
    """Checks the signatures of decisions, and counts them.

    Attributes:
        keys: the keys whose signatures count.
        valid: the number of votes and ends of requests with a valid signature.
        unchecked: why others were not checked, and how many.
    """

    keys: IdentityKeys
    valid: int = 0
    unchecked: Counter[str] = field(default_factory=Counter[str])

    def problem(self, says: JsonObject, signed: SignedDecision | None) -> str | None:
        """Return what is wrong with an entry that says that its decision was verified.

        Args:
            says: the entry.
            signed: its decision with the signature.
        """
        if not says_verified(says):
            return None
        if signed is None:
            return "The entry says that its decision was verified, and has no signature."
        if signed.decision is None or signed.place is None:
            self.unchecked[signed.left_out[:80]] += 1
            return None
        if not self.keys:
            self.unchecked["no key is given"] += 1
            return None
        if text := self._signature_problem(signed.decision, signed.place, says):
            return text
        self.valid += 1
        return None

    def _signature_problem(self, decision: Decision, place: Place, says: JsonObject) -> str | None:
        proof = parse_proof(decision.proof)
        if proof is None:
            return "The signature of the decision cannot be read."
        if proof.key_id not in {one.id for one in self.keys.trusted}:
            return (
                f"The decision is signed with the key {proof.key_id}, which is not among the given "
                "ones. If it was replaced and you still trust what it signed then, name its public key, too."
            )
        arrived = _milliseconds(says.get("arrived_at"))
        problem = proof_problem(
            decision,
            place,
            self.keys,
            now_ms=proof.at_ms if arrived is None else arrived,
            longest_ms=LONGEST_VOTE_AGE_MS,
        )
        return f"The signature of the decision does not count: {problem}." if problem else None


def says_verified(says: JsonObject) -> bool:
    """Whether an entry says that its decision was verified."""
    event = says.get("event")
    return isinstance(event, str) and event in {"vote", "decided"} and says.get("verified") is True


def other_than_signed(says: JsonObject, signed: SignedDecision | None) -> str | None:
    """Return which field of an entry is not what the person has signed."""
    if signed is None or signed.decision is None or signed.place is None:
        return None
    decision, place, proof = signed.decision, signed.place, parse_proof(signed.decision.proof)
    if proof is None:
        return "The signature of the decision cannot be read."
    if place.run_id != says.get("run_id"):
        return f"The decision was signed for the run {place.run_id:.80}."
    is_nested = says.get("root_run_id") != says.get("run_id")
    if not is_nested and place.chain_id != says.get("chain"):
        return "The decision was signed for another run of the same id."
    try:
        fields = finished(with_decision(_BLANK, decision), NOTHING).record()
        made = replace(_BLANK, made_at_ms=proof.at_ms).record()["made_at"]
    except (TypeError, ValueError, AttributeError, OverflowError, OSError):
        return "The signed decision cannot be read."
    wanted = {one: fields[one] for one in _SAID}
    applied = decision.remember and decision.request_id != says.get("request_id")
    if not applied:
        wanted["request_id"] = decision.request_id
        if decision.args_digest and decision.type in {"approve", "reject"}:
            wanted["args_digest"] = decision.args_digest
    if not is_empty(says.get("made_at")):
        wanted["made_at"] = made
    for name, value in wanted.items():
        found = says.get(name)
        if found != value and not (is_empty(found) and is_empty(value)):
            return f"The entry's `{name}` is not what the person has signed."
    if not applied and not _shows_what_was_seen(decision, says):
        return "The entry's `arguments` are not those that the person has signed."
    return None


def _shows_what_was_seen(decision: Decision, says: JsonObject) -> bool:
    arguments = says.get("arguments")
    if decision.seen is None or decision.type not in {"approve", "reject"}:
        return True
    if not isinstance(arguments, str) or not arguments:
        return True
    is_cut = len(arguments) >= LONGEST_READ or REDACTED in arguments
    return is_cut or digest(arguments) == decision.seen.shown


def _milliseconds(text: object) -> int | None:
    try:
        return (
            round(datetime.fromisoformat(text).timestamp() * 1_000)
            if isinstance(text, str)
            else None
        )
    except (ValueError, OverflowError, OSError):
        return None
