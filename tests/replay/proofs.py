"""What people and programs keep of outlast outside of histories: signatures, tokens, cookies, digests.

Owns: `make`, which writes what this version makes of each, and `problems`, which reads what a
release has made. The keys are of these recordings, and protect nothing.
"""

import base64
import json
from dataclasses import asdict
from typing import Any

from temporalio.api.common.v1 import Payload

from outlast.activities.approvals.gate import tool_digest
from outlast.agents.context.wait_address import WaitAddress
from outlast.client.audit_chain import check_lines, lines_of
from outlast.contract import names, records
from outlast.contract.delivery_proofs import delivery_proof_problem, signed_form
from outlast.contract.identity import (
    IdentityKey,
    IdentityKeys,
    Place,
    proof_problem,
    read_keys,
    signed,
)
from outlast.encryption import EncryptionCodec
from outlast.loop import lines
from outlast.loop.actions import ClaimAction, DeliverRecord, HoldAction, ReleaseAction, SayAction
from outlast.loop.approvals import Decision
from outlast.loop.canonical import digest
from outlast.serve.cursor import Cursor
from outlast.serve.staff_sessions import CookieJar, StaffSession
from outlast.serve.tokens import ConversationTokens
from tests.replay.scenarios import refund

SIGNS = {
    "shared": base64.b64encode(bytes(range(32))).decode(),
    "ed25519": "ed25519:" + base64.b64encode(bytes(range(1, 33))).decode(),
}
"""The keys that sign, by kind."""

PLACE = Place(namespace="default", chain_id="c0ffee", run_id="support-42")
AT_MS = 1_800_000_000_000
PERSON: dict[str, Any] = {"by": "ann", "display": "Ann", "groups": ("billing",), "method": "oidc"}
ACTIONS = {
    "decide": Decision(request_id="a1", type="edit", edited_arguments={"amount": 4}, **PERSON),
    "claim": ClaimAction(request_id="a1", minutes=5, **PERSON),
    "hold": HoldAction(mode="immediate", **PERSON),
    "say": SayAction(text="I am Ann. ✓", message_id="p1", **PERSON),
    "release": ReleaseAction(note="Done.", to="Orders", **PERSON),
}
DELIVERY = DeliverRecord(
    question=1, turn=2, call_id="c1", name="courier", value={"grams": 900.5}, delivery_id="d1"
)
SESSION = StaffSession(
    id="0" * 32, subject="ann", provider_subject="u1", began_at=1e9, checked_at=1e9 + 5
)
DIGESTED = '{"b": [1, 2.50, "é"], "a": {"order": "A-17"}}'
DESK = "https://desk.example.com"


def keys_of(kind: str) -> IdentityKeys:
    """Return the keys of a kind."""
    return IdentityKeys(read_keys(SIGNS[kind]))


def _key(kind: str) -> IdentityKey:
    found = keys_of(kind).signing
    assert found is not None
    return found


async def make() -> dict[str, Any]:
    """Return what this version makes of each."""
    shared = keys_of("shared")
    sealed = await _codec().encode([Payload(metadata={"encoding": b"x"}, data=b"secret")])
    return {
        "actions": {
            kind: {
                name: asdict(signed(one, PLACE, _key(kind), action=name, at_ms=AT_MS))
                for name, one in ACTIONS.items()
            }
            for kind in SIGNS
        },
        "deliveries": {kind: _delivery(kind) for kind in SIGNS},
        "tokens": {
            kind: ConversationTokens(keys_of(kind), audience="desk/default").mint(
                "support-42", now_ms=AT_MS
            )
            for kind in SIGNS
        },
        "key_ids": {kind: _key(kind).id for kind in SIGNS},
        "cookies": CookieJar(DESK, shared, ("issuer",)).session_set(SESSION, seconds=60),
        "cursor": str(Cursor(17, 5, 0xABC)),
        "wait": WaitAddress("support-42", 1, 2, "c1", "courier ✓").token,
        "line_tokens": lines.tokens("secret")[:3],
        "digest": digest(DIGESTED),
        "tool_digest": tool_digest("Billing", refund),
        "encrypted": [one.SerializeToString().hex() for one in sealed],
    }


async def problems(kept: dict[str, Any]) -> list[str]:
    """Return a sentence for each proof of a release that this version refuses."""
    found: list[str] = []
    for kind, actions in kept["actions"].items():
        for name, fields in actions.items():
            action = records.read(type(ACTIONS[name]), _plain(fields))
            why = proof_problem(action, PLACE, keys_of(kind), now_ms=AT_MS, action=name)
            found += [f"{name} signed with {kind}: {why}"] if why else []
    for kind, fields in kept["deliveries"].items():
        record = records.read(DeliverRecord, fields)
        why = delivery_proof_problem(record, PLACE, keys_of(kind), at_ms=AT_MS)
        found += [f"delivery signed with {kind}: {why}"] if why else []
    for kind, token in kept["tokens"].items():
        tokens = ConversationTokens(keys_of(kind), audience="desk/default")
        customer = tokens.customer(token, now_ms=AT_MS + 1)
        found += [] if customer.run_id == "support-42" else [f"a token of {kind}: another run"]
    return found + [
        f"{name}: {was!r} is {now!r} now"
        for name, was, now in [
            ("key ids", kept["key_ids"], {kind: _key(kind).id for kind in SIGNS}),
            ("cookie", SESSION, _session(kept["cookies"])),
            ("cursor", Cursor.parse(kept["cursor"]), Cursor(17, 5, 0xABC)),
            ("wait", WaitAddress.parse(kept["wait"]).name, "courier ✓"),
            ("line tokens", kept["line_tokens"], lines.tokens("secret")[:3]),
            ("digest", kept["digest"], digest(DIGESTED)),
            ("tool digest", kept["tool_digest"], tool_digest("Billing", refund)),
            ("encrypted payload", b"secret", await _decrypted(kept["encrypted"])),
        ]
        if was != now
    ]


def audit_problems(text: str) -> list[str]:
    """Return what is wrong with a signed audit, in words."""
    checked = check_lines(lines_of(text), keys=keys_of("ed25519"))
    found = [one.text for one in checked.problems]
    return found if checked.sealed_by and checked.signatures else [*found, "it is not signed"]


def _delivery(kind: str) -> dict[str, Any]:
    form = signed(signed_form(DELIVERY), PLACE, _key(kind), action=names.DELIVER, at_ms=AT_MS)
    return {**asdict(DELIVERY), "proof": form.proof}


def _session(headers: list[str]) -> StaffSession | None:
    cookies = dict(one.partition(";")[0].split("=", 1) for one in headers)
    return CookieJar(DESK, keys_of("shared"), ("issuer",)).session(cookies)


def _codec() -> EncryptionCodec:
    return EncryptionCodec({"k1": bytes(range(32))}, current="k1", scope="tests")


async def _decrypted(texts: list[str]) -> bytes:
    sealed = [Payload.FromString(bytes.fromhex(one)) for one in texts]
    return (await _codec().decode(sealed))[0].data


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields as they were sent: without those that are empty."""
    return json.loads(json.dumps({k: v for k, v in fields.items() if v is not None}))
