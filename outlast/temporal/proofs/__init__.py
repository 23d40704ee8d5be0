"""Internal. Where identity keys come from, and what the server says about executions."""

from outlast.temporal.proofs.keys import identity_keys
from outlast.temporal.proofs.lineage import ServerLineage
from outlast.temporal.proofs.reader import proof_reader

__all__ = ["ServerLineage", "identity_keys", "proof_reader"]
