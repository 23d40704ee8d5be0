"""Proofs of notes: what a tool has noted as done before its call waits, signed by its worker.

Notes travel in the run's state, which whoever reaches the Temporal server can write. The keys are
those of signed URLs of waits; workers sign the notes of a call and check them before its tool runs
again.
"""

import hashlib
import hmac
import json
import math
import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Final, Literal, TypeAlias, cast

from outlast.contract.identity import Place
from outlast.loop.values import Json, JsonObject

NoteProblem: TypeAlias = Literal["no proof", "unknown key", "forged"]
"""Why notes do not count."""

_SCHEME: Final = "n1"
_PURPOSE: Final = "outlast notes v1"
"""Keeps these signatures apart from all others that are made with the same key."""

_PROOF: Final = re.compile(r"n1\.([0-9a-f]{8})\.([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedCall:
    """The call whose notes are signed: none of another run, turn, tool or arguments has them.

    Attributes:
        place: the run, in the server's words.
        question: how many questions of the run were settled before.
        turn: the number of model calls for the current answer.
        agent: the agent that made the call.
        tool: the tool's name.
        source: the MCP server of the tool; empty for others.
        call_id: the model's id of the call.
        arguments: the arguments of the call.
    """

    place: Place
    question: int
    turn: int
    agent: str
    tool: str
    source: str
    call_id: str
    arguments: str


def notes_proof(notes: JsonObject, call: NotedCall, keys: Sequence[bytes]) -> str:
    """Return the proof of a call's notes, by the first key."""
    key = keys[0]
    return f"{_SCHEME}.{_key_id(key)}.{_signature(key, notes, call)}"


def notes_problem(
    notes: JsonObject, proof: object, call: NotedCall, keys: Sequence[bytes]
) -> NoteProblem | None:
    """Return why the notes of a call do not count, or None if they do.

    Args:
        notes: the notes, as the run has them. Anybody may have written them.
        proof: their proof, likewise.
        call: the call that is about to read them.
        keys: the keys that are trusted.
    """
    if proof is None:
        return "no proof"
    found = _PROOF.fullmatch(proof) if isinstance(proof, str) else None
    if found is None:
        return "forged"
    trusted = [key for key in keys if _key_id(key) == found[1]]
    if not trusted:
        return "unknown key"
    fits = [hmac.compare_digest(_signature(key, notes, call), found[2]) for key in trusted]
    return None if any(fits) else "forged"


def _key_id(key: bytes) -> str:
    """Return a short id of a key, from which nobody learns the key."""
    return hmac.new(key, f"{_PURPOSE} key id".encode(), hashlib.sha256).hexdigest()[:8]


def _signature(key: bytes, notes: JsonObject, call: NotedCall) -> str:
    # Each note is signed as its name and its digest, so that long results are read once.
    digests = {name: _digest(note) for name, note in notes.items()}
    content = _written([_PURPOSE, list(astuple(call)), digests])
    return hmac.new(key, content, hashlib.sha256).hexdigest()


def _digest(value: Json) -> str:
    return hashlib.sha256(_written(_sent(value))).hexdigest()


def _written(value: object) -> bytes:
    """Return JSON in ASCII, which is the same before and after it is sent."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _sent(value: Json) -> Json:
    """Return a value as records are sent: without the numbers that JSON does not have."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case list():
            return [_sent(one) for one in cast("list[Json]", value)]
        case dict():
            return {name: _sent(one) for name, one in cast("JsonObject", value).items()}
        case _:
            return value
