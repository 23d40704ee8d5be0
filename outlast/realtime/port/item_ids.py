"""The ids that lines choose for items, so that an item that is sent twice is one item."""

import hashlib
from typing import Final

PREFIX: Final = "ol_"
"""The beginning of these ids. Providers allow 32 characters."""


def transcript_item_id(run_id: str, index: int) -> str:
    """Return the id of an item of a run's transcript in a provider's session."""
    return _id(f"{run_id}\0{index}")


def output_item_id(call_id: str) -> str:
    """Return the id of the output of a call in a provider's session."""
    return _id(f"output of\0{call_id}")


def _id(place: str) -> str:
    return PREFIX + hashlib.sha256(place.encode()).hexdigest()[:24]
