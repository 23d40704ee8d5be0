"""Whether people's actions are proven: by their signatures, which whoever reads a run checks.

What a run says of itself (`verified`) is no proof: anybody who starts a run can write its state,
and a worker of their own accepts what it likes.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final, Literal, TypeAlias

from outlast.contract.identity import (
    LONGEST_AGE_MS,
    LONGEST_VOTE_AGE_MS,
    NO_KEYS,
    IdentityKeys,
    Place,
    proof_problem,
)
from outlast.edges.newest import keep_newest
from outlast.loop.actions import Action
from outlast.loop.approvals import (
    ApprovalRequest,
    Decision,
    Seen,
    Vote,
    reviewed,
    with_redacted,
)
from outlast.loop.canonical import digest, same_person
from outlast.loop.human_actions import row_of
from outlast.loop.values import JsonObject
from outlast.loop.votes import difference
from outlast.views.run import AnyState, loop_state

Proof: TypeAlias = Literal["proven", "accepted", "unproven"]
"""Whether it is proven who did something. `proven`: the reader has checked the signature.
`accepted`: the reader has no key, and the run says that a worker has checked it."""

PROOF_WORDS: Final[Mapping[Proof, str]] = {
    "proven": "proven",
    "accepted": "accepted by a worker",
    "unproven": "not proven",
}
"""What people read."""

MOST_CHECKED: Final = 10_000
"""How many signatures a process remembers the check of."""

_UNREADABLE: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What records of others may raise: anybody may have written them."""


@dataclass(frozen=True)
class ProofReader:
    """Says whether people's actions are proven, by the keys of whoever reads.

    Attributes:
        keys: the keys whose signatures count; none if the reader has none.
        namespace: the namespace of the runs.
    """

    keys: IdentityKeys = NO_KEYS
    namespace: str = ""

    @property
    def signs(self) -> bool:
        """Whether the reader also signs, so that runs take what it sends as proven."""
        return self.keys.signing is not None

    def of_vote(self, vote: Vote, request: ApprovalRequest, state: AnyState) -> Proof:
        """Return whether a vote is proven: signed in this run, for what the request shows.

        Args:
            vote: the vote.
            request: its request, with the arguments that policies hide from people.
            state: the state of the run that made the request, or of the one that it is nested in.
        """
        decision = vote.decision
        try:
            run_id = _decided_in(decision, state) or request.run_id or state.run_id
            place = self._place(state, run_id)
            proof = self.of_signed(decision, place, at_ms=vote.at_ms, verified=vote.verified)
            if proof == "proven" and not _is_about(vote, request):
                return "unproven"
        except _UNREADABLE:
            return "unproven"
        return proof

    def of_votes(self, request: ApprovalRequest, state: AnyState) -> tuple[Proof, ...]:
        """Return whether each vote of a request is proven, in their order; see `of_vote`."""
        return tuple(self.of_vote(vote, request, state) for vote in request.votes)

    def of_action(
        self, action: Action | None, by: str, state: AnyState, *, at_ms: int, verified: bool
    ) -> Proof:
        """Return whether it is proven that a person did something in a run.

        Args:
            action: what they have sent; None if the run's history does not have it.
            by: the person whom readers are told of: who did it, or who got it from them.
            state: a state of the run.
            at_ms: when the run took it, in milliseconds since the epoch.
            verified: whether the run says that a worker has checked the signature.
        """
        if action is None:
            return "unproven"
        try:
            told_of = (action.person.subject, getattr(action, "to", ""))
            if not any(one == by or same_person(one, by) for one in told_of if one):
                return "unproven"
        except _UNREADABLE:
            return "unproven"
        place = self._place(state, state.run_id)
        return self.of_signed(action, place, at_ms=at_ms, verified=verified)

    def of_signed(self, record: Action, place: Place, *, at_ms: int, verified: bool) -> Proof:
        """Return whether the signature of a record is genuine, and made for a run.

        Args:
            record: the record of an action, with its proof.
            place: the run.
            at_ms: when the run took it, in milliseconds since the epoch.
            verified: whether the run says that a worker has checked the signature.
        """
        if verified is not True or getattr(record, "proof", None) is None:
            return "unproven"
        if not self.keys:
            return "accepted"
        try:
            return "proven" if _CHECKS.is_genuine(record, place, at_ms, self.keys) else "unproven"
        except ImportError:  # without the package of these keys, they are no keys
            return "accepted"
        except TypeError:  # a place or a time that is none
            return "unproven"

    def _place(self, state: AnyState, run_id: str) -> Place:
        return Place(namespace=self.namespace, chain_id=state.chain_id, run_id=run_id)


NO_PROOFS: Final = ProofReader()
"""The reader of whoever has no keys, such as a workflow: nothing is proven to it."""


# --- What a decision is about --------------------------------------------------------------------


def _decided_in(decision: Decision, state: AnyState) -> str:
    """Return the other run of the conversation in which a remembered decision was made."""
    if decision.remember is not True:
        return ""
    return next(
        (one.run_id for one in loop_state(state).remembered if one.decision == decision), ""
    )


def _is_about(vote: Vote, request: ApprovalRequest) -> bool:
    """Whether a signed decision was made for a request, and for what the request shows."""
    decision, present = vote.decision, request.seen
    seen = decision.seen
    if seen is None:
        return False
    if decision.request_id != request.id:  # remembered, and made for another call of the tool
        if not decision.remember or request.terms.quorum > 1 or request.kind != "tool":
            return False
        seen = replace(seen, call_id=present.call_id)
        if decision.remember_until == "conversation":
            seen = replace(seen, question=present.question)
        if decision.remember_scope == "tool":
            seen = replace(seen, arguments=present.arguments, shown=present.shown)
    stands = vote.args_digest == request.args_digest
    if stands and not _changes_arguments(decision, request) and decision.type != "withdraw":
        return difference(seen, present) is None
    if decision.type not in {"edit", "withdraw"} and not stands:
        return seen.arguments == vote.args_digest and _same_call(seen, present)
    return _same_call(seen, present) and not (stands and _shows_others(decision, request))


def _same_call(seen: Seen, present: Seen) -> bool:
    """Whether a decision was made for the same call, tool and policy, with whatever arguments."""
    return (
        difference(replace(seen, arguments=present.arguments, shown=present.shown), present) is None
    )


def _changes_arguments(decision: Decision, request: ApprovalRequest) -> bool:
    """Whether a vote gives the call other arguments, or the answer another text, as `voted` does."""
    answers = decision.type == "respond" and request.kind == "output"
    return decision.type == "edit" or (answers and request.terms.quorum > 1)


def _shows_others(decision: Decision, request: ApprovalRequest) -> bool:
    """Whether a request shows other arguments than those that an edit has signed."""
    if decision.type == "withdraw":
        return False
    edited = request.edited
    if edited is None:
        return True
    answer: JsonObject = {"answer": decision.response}
    changed = answer if decision.type == "respond" else decision.edited_arguments or {}
    wanted = json.dumps(with_redacted(changed, edited), ensure_ascii=False)
    is_shown = digest(reviewed(edited, request.terms.redact)) == digest(request.arguments)
    return not is_shown or digest(wanted) != request.args_digest or digest(edited) != digest(wanted)


# --- Checked signatures --------------------------------------------------------------------------


class _Checks:
    """The signatures that this process has checked: records never change, and views are many.

    A record is known by its identity. Records that are equal may differ in what was signed, as 1
    and True do.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], tuple[Action, bool]] = OrderedDict()
        self._lock = Lock()

    def is_genuine(self, record: Action, place: Place, at_ms: int, keys: IdentityKeys) -> bool:
        """Whether a record is signed for a place by one of the keys, not long before a time.

        Raises:
            ImportError: the package that checks this kind of signature is missing.
        """
        ids = tuple(one.id for one in keys.trusted)
        at = (id(record), place, at_ms, ids)
        with self._lock:
            known = self._known.get(at)
            if known is not None and known[0] is record:
                self._known.move_to_end(at)
                return known[1]
        found = _is_genuine(record, place, at_ms, keys)
        with self._lock:
            # This keeps the record, and so its identity.
            keep_newest(self._known, at, (record, found), MOST_CHECKED)
        return found


def _is_genuine(record: Action, place: Place, at_ms: int, keys: IdentityKeys) -> bool:
    longest_ms = LONGEST_VOTE_AGE_MS if isinstance(record, Decision) else LONGEST_AGE_MS
    try:
        action = row_of(record).name
        problem = proof_problem(
            record, place, keys, now_ms=at_ms, action=action, longest_ms=longest_ms
        )
    except _UNREADABLE:
        return False
    return problem is None


_CHECKS: Final = _Checks()
