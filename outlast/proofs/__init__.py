"""Internal. Where identity keys come from, and what the server says about executions."""

from outlast.proofs.keys import identity_keys
from outlast.proofs.lineage import ServerLineage
from outlast.proofs.reader import proof_reader

__all__ = ["ServerLineage", "identity_keys", "proof_reader"]
