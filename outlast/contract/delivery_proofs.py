"""Proofs of deliveries: signatures as those of people's actions, with the same keys."""

import hashlib
import json
from dataclasses import replace
from typing import Final

from outlast.contract.identity import IdentityKeys, Place, proof_problem
from outlast.contract.names import DELIVER
from outlast.loop.actions import DeliverRecord

LONGEST_AGE_MS: Final = 7 * 24 * 3_600_000
"""How long after it was signed a delivery may reach its run: the server keeps it without a worker.

A delivery is for one wait of one call, and counts there once, however old it is.
"""

CLOCK_DIFFERENCE_MS: Final = 15 * 60_000
"""How much the clocks of those who deliver and of workers may differ, as for signed URLs."""


def signed_form(record: DeliverRecord) -> DeliverRecord:
    """Return a delivery as it is signed: with the digest of its value.

    The digest is of the value as JSON in ASCII, which is the same before and after the record is
    sent, also with half a character in it.

    Raises:
        ValueError: the value is no JSON.
    """
    written = json.dumps(record.value, sort_keys=True, allow_nan=False)
    return replace(record, value=hashlib.sha256(written.encode()).hexdigest())


def delivery_proof_problem(
    record: DeliverRecord, place: Place, keys: IdentityKeys, *, at_ms: int
) -> str | None:
    """Return why a delivery's proof does not count, or None if it does.

    Args:
        record: the delivery with its `proof`, as it was sent.
        place: the run that received it.
        keys: the keys that are trusted.
        at_ms: when the run received it, in milliseconds since the epoch.
    """
    try:
        form = signed_form(record)
    except (ValueError, RecursionError):
        return "its value cannot be read as it was signed"
    return proof_problem(
        form,
        place,
        keys,
        now_ms=at_ms,
        action=DELIVER,
        longest_ms=LONGEST_AGE_MS,
        clocks_ms=CLOCK_DIFFERENCE_MS,
    )
