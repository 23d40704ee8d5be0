"""Facts by which the right to see a run is judged; one call of the server, and no history."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from temporalio.client import Client

from outlast.agents.errors import RunNotFound
from outlast.client.runs import listed_run
from outlast.client.transport.run_address import RunAddress
from outlast.contract import names
from outlast.loop.canonical import digest_of

OWNER_CHARACTERS: Final = 16
"""How many characters `RunFacts.owner` has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Whose a run is: facts of the run, or of the one that all runs above it are nested in.

    Attributes:
        root_id: the run that it is nested in; its own id if it is not.
        tenant: the tenant; empty for none.
        customer: what its customer is listed as; empty for none.
        agent: the active agent.
        people: the groups and people who may decide what it waits for, where not everybody may.
        program: the API key with which it was begun; empty if it was begun otherwise.
        is_nested: whether the run is nested in another one.
    """

    root_id: str
    tenant: str = ""
    customer: str = ""
    agent: str = ""
    people: tuple[str, ...] = ()
    program: str = ""
    is_nested: bool = False

    @property
    def owner(self) -> str:
        """Tells whose the conversation is, by its tenant and its customer, and says neither."""
        return digest_of([self.tenant, self.customer])[:OWNER_CHARACTERS]


async def run_facts(
    client: Client, run_id: str, *, patience: timedelta | None = None
) -> RunFacts | None:
    """Return the facts of a run; None if there is no such run.

    Raises:
        ServerUnavailable: the server does not answer.
    """
    root_id, is_nested = run_id, False
    while True:
        try:
            address = RunAddress(client, root_id, patience)
            description = address.checked(await address.ask(address.describe))
        except RunNotFound:
            # Of a run whose root is gone, nobody can say whose it is.
            return RunFacts(root_id=root_id, is_nested=True) if is_nested else None
        run = listed_run(description.raw_description.workflow_execution_info)
        if not run.is_nested:
            break
        root_id, is_nested = description.parent_id or "", True
    return RunFacts(
        root_id=root_id,
        tenant=run.tenant,
        customer=run.customer,
        agent=run.agent,
        people=run.people,
        program=await description.memo_value(names.MEMO_BEGUN_BY, ""),
        is_nested=is_nested,
    )
