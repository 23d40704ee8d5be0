"""Approval requests, decisions about them, and the rule that refuses a decision.

Identity is the caller's: nothing here checks who may decide.
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
        by: who decided, as reported by a trusted caller.
        channel: where the decision was made, such as `cli`.
        args_digest: the digest of the arguments that the person saw; if set, it must match the
            call.
        remember: also decide every further call of this tool by this agent in this run.
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
        id: `a1`, `a2` …: unique in the conversation, and the same on every replay.
        kind: what waits.
        call_id: the provider's id of the call.
        name: the tool's name.
        agent: the agent that made the call.
        handoff_path: the agents that the conversation went through; the calling agent is last.
        arguments: the arguments as JSON text.
        args_digest: SHA-256 of the canonical JSON of the arguments.
        reason: why a person has to decide.
        requested_at_ms: the time of the request, in milliseconds since the epoch.
        status: pending, decided or cancelled.
        decision: the decision, once there is one.
        decided_at_ms: the time of the decision.
        run_id: the id of the nested run that waits; empty for the run itself.
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
    """A decision that also applies to further calls of a tool by an agent."""

    agent: str
    name: str
    decision: Decision


def digest(arguments: str) -> str:
    """Return the SHA-256 of arguments, the same for every spelling of the same JSON.

    If an object repeats a key, every value counts, in written order: tools differ in which value
    they use.
    """
    try:
        value = json.loads(arguments, object_pairs_hook=_fields)
        canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        canonical = arguments
    # A model may write a lone surrogate; "surrogatepass" encodes it the same way every time.
    return hashlib.sha256(canonical.encode(errors="surrogatepass")).hexdigest()


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; one with a repeated key becomes the list of its pairs under `_PAIRS`."""
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else {_PAIRS: pairs}


def refusal(requests: Sequence[ApprovalRequest], decision: Decision) -> str | None:
    """Return why a decision is refused, or None if it is accepted.

    Updates and signals share this rule: a refused update raises, a refused signal is recorded as
    ignored.
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
                f"Approval {request.id}: the decision was made for other arguments than this call's. "
                "Look at the request again and decide again."
            )
        return None
    pending = ", ".join(request.id for request in requests if request.status == "pending")
    return f"No approval {decision.request_id!r} waits here. Waiting: {pending or 'none'}."
