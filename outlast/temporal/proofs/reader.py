"""Who reads runs with the keys of this process, to check what people have signed."""

from typing import Any

from temporalio.client import Client

from outlast.temporal.proofs.keys import identity_keys
from outlast.views.proofs import ProofReader


async def proof_reader(client: Any) -> ProofReader:
    """Return the reader of proofs with the keys of this process for a client's server.

    Raises:
        UserError: a key is unusable, or others can read it.
        RPCError: the server does not answer now.
    """
    namespace = client.namespace if isinstance(client, Client) else ""  # in memory, there is none
    return ProofReader(await identity_keys(client), namespace)
