"""Documents for tests."""

from typing import Any

from outlast.search.documents import Document, Part
from outlast.search.letters import composed

SPACE = "default 1111"


def document(chain: str = "c1", *texts: str, **fields: Any) -> Document:
    """Return a document in which the customer has said some texts."""
    parts = tuple(Part("customer", composed(one), f"i{at}") for at, one in enumerate(texts))
    known: dict[str, Any] = {
        "run_id": f"run-{chain}",
        "chain_id": chain,
        "execution_id": chain,
        "events": 10,
        "started_ms": 1,
        "changed_ms": 1,
        "is_open": False,
        "parts": parts,
    }
    return Document(**{**known, **fields})
