"""Checks what people have signed in an audit, and that entries say what was signed."""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, cast

from outlast.client.audit import AuditRecord, finished, with_decision, with_person
from outlast.client.audit_chain.entries import is_empty
from outlast.contract.identity import (
    LONGEST_AGE_MS,
    LONGEST_VOTE_AGE_MS,
    IdentityKeys,
    Place,
    parse_proof,
    proof_problem,
)
from outlast.edges.rendering import LONGEST_READ
from outlast.loop.actions import Action, ClaimAction
from outlast.loop.approvals import REDACTED, Decision, Seen
from outlast.loop.canonical import digest
from outlast.loop.events import PersonActed
from outlast.loop.human_actions import ACTION_NAMED, row_of
from outlast.loop.values import JsonObject
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
"""The fields of an entry that only the signed action decides."""

_SIGNED: Final = frozenset(
    {"vote", "decided", "claimed", "unclaimed", "held", "said", "released", "set_aside", "case"}
)
"""The events of entries whose action is signed where it is verified."""

_BROKEN: Final = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)
"""What the entries of others may raise."""

_BLANK: Final = AuditRecord(at_ms=0, event="vote", run_id="", root_run_id="")


@dataclass(frozen=True, slots=True)
class SignedAction:
    """An action with its signature and the run that it was signed for; or why they are missing."""

    action: Action | None = None
    place: Place | None = None
    left_out: str = ""


def of_entry(entry: JsonObject) -> SignedAction | None:
    """Return the signed action in an entry; None if it has none that can be read."""
    found: Any = entry.get("signed")
    if not isinstance(found, dict):
        return None
    signed = cast("dict[str, Any]", found)
    if isinstance(signed.get("left_out"), str):
        return SignedAction(left_out=signed["left_out"])
    try:
        is_decision = "action" not in signed
        fields = dict(signed["decision"] if is_decision else signed["record"])
        if is_decision and fields.get("seen") is not None:
            fields["seen"] = Seen(**fields["seen"])
        fields["groups"] = tuple(fields.get("groups", ()))
        kind = Decision if is_decision else ACTION_NAMED[signed["action"]].record
        action = kind(**fields, proof=str(signed["proof"]))
        parts = [str(signed[one]) for one in ("namespace", "chain", "run_id")]
        place = Place(namespace=parts[0], chain_id=parts[1], run_id=parts[2])
    except _BROKEN:
        return None
    return SignedAction(action, place)


@dataclass
class SignatureCheck:
    """Checks the signatures of people's actions, and counts them.

    Attributes:
        keys: the keys whose signatures count.
        valid: the number of entries with a valid signature.
        unchecked: why others were not checked, and how many.
    """

    keys: IdentityKeys
    valid: int = 0
    unchecked: Counter[str] = field(default_factory=Counter[str])

    def problem(self, says: JsonObject, signed: SignedAction | None) -> str | None:
        """Return what is wrong with an entry that says that its action was verified.

        Args:
            says: the entry.
            signed: its action with the signature.
        """
        if not says_verified(says):
            return None
        what = _what(says)
        if signed is None:
            return f"The entry says that its {what} was verified, and has no signature."
        if signed.action is None or signed.place is None:
            self.unchecked[signed.left_out[:80]] += 1
            return None
        if not self.keys:
            self.unchecked["no key is given"] += 1
            return None
        if text := self._signature_problem(signed.action, signed.place, says):
            return text
        self.valid += 1
        return None

    def _signature_problem(self, action: Action, place: Place, says: JsonObject) -> str | None:
        proof, what = parse_proof(action.proof), _what(says)
        if proof is None:
            return f"The signature of the {what} cannot be read."
        if proof.key_id not in {one.id for one in self.keys.trusted}:
            return (
                f"The {what} is signed with the key {proof.key_id}, which is not among the given "
                "ones. If it was replaced and you still trust what it signed then, name its public key, too."
            )
        arrived = _milliseconds(says.get("arrived_at"))
        is_decision = isinstance(action, Decision)
        problem = proof_problem(
            action,
            place,
            self.keys,
            now_ms=proof.at_ms if arrived is None else arrived,
            action=row_of(action).name,
            longest_ms=LONGEST_VOTE_AGE_MS if is_decision else LONGEST_AGE_MS,
        )
        return f"The signature of the {what} does not count: {problem}." if problem else None


def _what(says: JsonObject) -> str:
    return "decision" if says.get("event") in ("vote", "decided") else "action"


def says_verified(says: JsonObject) -> bool:
    """Whether an entry says that its action was verified."""
    event = says.get("event")
    return isinstance(event, str) and event in _SIGNED and says.get("verified") is True


def other_than_signed(says: JsonObject, signed: SignedAction | None) -> str | None:
    """Return which field of an entry is not what the person has signed."""
    if signed is None or signed.action is None or signed.place is None:
        return None
    action, place, proof = signed.action, signed.place, parse_proof(signed.action.proof)
    what = _what(says)
    if proof is None:
        return f"The signature of the {what} cannot be read."
    if place.run_id != says.get("run_id"):
        return f"The {what} was signed for the run {place.run_id:.80}."
    is_nested = says.get("root_run_id") != says.get("run_id")
    if not is_nested and place.chain_id != says.get("chain"):
        return f"The {what} was signed for another run of the same id."
    try:
        wanted = _wanted(action, says)
        made = replace(_BLANK, made_at_ms=proof.at_ms).record()["made_at"]
    except _BROKEN:
        return f"The signed {what} cannot be read."
    if not is_empty(says.get("made_at")):
        wanted["made_at"] = made
    for name, value in wanted.items():
        found = says.get(name)
        if found != value and not (is_empty(found) and is_empty(value)):
            return f"The entry's `{name}` is not what the person has signed."
    if isinstance(action, Decision) and not (
        _is_applied(action, says) or _shows_what_was_seen(action, says)
    ):
        return "The entry's `arguments` are not those that the person has signed."
    return None


def _wanted(action: Action, says: JsonObject) -> JsonObject:
    """Return the fields that an entry has to have for a signed action."""
    if isinstance(action, Decision):
        fields = finished(with_decision(_BLANK, action), NOTHING).record()
        wanted = {one: fields[one] for one in _SAID}
        if not _is_applied(action, says):
            wanted["request_id"] = action.request_id
            if action.args_digest and action.type in {"approve", "reject"}:
                wanted["args_digest"] = action.args_digest
        return wanted
    row = row_of(action)
    event = PersonActed(at_ms=_milliseconds(says.get("at")) or 0, action=action)
    told = replace(with_person(_BLANK, action.person), note=row.note(event), text=row.text(action))
    fields = finished(told, NOTHING).record()
    wanted = {one: fields[one] for one in ("by", "display", "groups", "method", "note", "text")}
    if isinstance(action, ClaimAction):
        return {
            **wanted,
            "event": "claimed" if action.minutes > 0 else "unclaimed",
            "request_id": action.request_id,
        }
    return {**wanted, "event": row.told_as}


def _is_applied(decision: Decision, says: JsonObject) -> bool:
    """Whether a remembered decision was made for another request than the entry's."""
    return decision.remember and decision.request_id != says.get("request_id")


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
