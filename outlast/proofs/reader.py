"""Who reads runs with the keys of this process, to check what people have signed."""

from temporalio.client import Client

from outlast.proofs.keys import identity_keys
from outlast.views.proofs import ProofReader


async def proof_reader(client: Client) -> ProofReader:
    """Return the reader of proofs with the keys of this process for a client's server.

    Raises:
        UserError: a key is unusable, or others can read it.
        RPCError: the server does not answer now.
    """
    return ProofReader(await identity_keys(client), client.namespace)
