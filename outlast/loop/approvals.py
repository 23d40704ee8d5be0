"""Approvals: what is asked of a person, and what a person decides.

Owns: the records, and the rule which decisions are refused. Must not know: who may decide;
identity is the caller's.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

DecisionType: TypeAlias = Literal["approve", "reject"]
ApprovalStatus: TypeAlias = Literal["pending", "approved", "rejected", "cancelled"]


_PAIRS = "pairs, because a key is repeated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A person's decision about one approval request.

    Attributes:
        request_id: the request it answers.
        type: `approve` runs the call as it is; `reject` does not run it.
        message: what the model reads as the output of a rejected call.
        by: who decided, as a trusted caller says.
        channel: where the decision was made, such as `cli`.
        args_digest: the digest of the arguments the person saw; when given, it has to match.
        remember: the same goes for every further call of this tool by this agent in this run.
    """

    request_id: str
    type: DecisionType
    message: str | None = None
    by: str | None = None
    channel: str | None = None
    args_digest: str | None = None
    remember: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A tool call that waits, or waited, for a person's decision.

    Attributes:
        id: `a1`, `a2` …: unique in the conversation, the same on every replay.
        kind: what waits.
        call_id: the model's id of the call.
        name: the tool's name.
        agent: who wants to call it.
        handoff_path: the agents the conversation went through, the asking one last.
        arguments: the arguments as JSON text.
        args_digest: SHA-256 of the canonical JSON of the arguments.
        reason: why a person is asked.
        requested_at_ms: when, in milliseconds since the epoch.
        status: how it stands.
        decision: what was decided.
        decided_at_ms: when.
        run_id: the nested run in which it waits; empty for the run itself.
    """

    id: str
    kind: Literal["tool"] = "tool"
    call_id: str
    name: str
    agent: str
    handoff_path: tuple[str, ...] = ()
    arguments: str
    args_digest: str
    reason: str | None = None
    requested_at_ms: int
    status: ApprovalStatus = "pending"
    decision: Decision | None = None
    decided_at_ms: int | None = None
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A decision that goes for every further call of a tool by an agent."""

    agent: str
    name: str
    decision: Decision


def digest(arguments: str) -> str:
    """Return the SHA-256 of arguments, the same for every spelling of the same JSON.

    Where an object has a key twice, each of its values counts, in the order in which they are
    written: which of them a tool takes is the tool's affair.
    """
    try:
        value = json.loads(arguments, object_pairs_hook=_fields)
        canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        canonical = arguments
    # A model may write half a character; it is still the same half every time.
    return hashlib.sha256(canonical.encode(errors="surrogatepass")).hexdigest()


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; one with a repeated key as all of its pairs, under a key of our own."""
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else {_PAIRS: pairs}


def refusal(requests: Sequence[ApprovalRequest], decision: Decision) -> str | None:
    """Return why a decision does not count, or None when it does.

    The one rule for both ways in: the update refuses by it, and a signal that it refuses is
    recorded and ignored.
    """
    for request in requests:
        if request.id != decision.request_id:
            continue
        if request.status != "pending":
            by = request.decision.by if request.decision else None
            who = f" by {by}" if by else ""
            return f"Approval {request.id} is already {request.status}{who}."
        if decision.args_digest is not None and decision.args_digest != request.args_digest:
            return (
                f"Approval {request.id}: the decision was made for other arguments than the call "
                "has. Look at the request again and decide anew."
            )
        return None
    known = ", ".join(request.id for request in requests if request.status == "pending")
    return f"No approval {decision.request_id!r} waits here. Waiting: {known or 'none'}."
