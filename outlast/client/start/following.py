"""Conversations that follow resolved ones which have ended: `ID.2` follows `ID`, `ID.3` follows `ID.2`.

The memo of each has the id of the first. Whoever may open a conversation may open what follows it.
"""

import re
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from temporalio.client import Client, WorkflowExecutionDescription

from outlast.agents.errors import RunNotFound, UserError
from outlast.client.runs import listed_run
from outlast.client.start.tenant import Tenant
from outlast.client.transport.executions import first_of, started_payload
from outlast.client.transport.run_address import RunAddress, no_such_run
from outlast.contract import names, records
from outlast.contract.records import RunInput, customer_of

_MARK: Final = "."
"""Stands between the id of the first conversation and the number of one that follows it."""

_LATER: Final = re.compile(r"\.([1-9][0-9]{0,8})", re.ASCII)
"""What such an id has after that of the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A conversation that another one is to follow.

    Attributes:
        run_id: its id.
        base: the first conversation; its own id if it follows none.
        record: what it was started with.
        tenant: whose it is; None for nobody's.
        queue: the task queue of its workers.
        program: the API key by which it began; empty for none.
    """

    run_id: str
    base: str
    record: RunInput
    tenant: Tenant | None
    queue: str
    program: str = ""

    @property
    def next_id(self) -> str:
        """The id of the conversation that follows it."""
        return _id_after(self.run_id, self.base)

    def checked_id(self, given: str | None) -> str:
        """Return the id of the conversation that follows it.

        Raises:
            UserError: another one is given.
        """
        if given not in {None, self.next_id}:
            raise UserError(
                f"id={given!r:.200}: what follows {self.run_id!r:.200} has the id {self.next_id!r:.200}. "
                "Leave id= out."
            )
        return self.next_id

    def owned(self, record: RunInput, tenant: Tenant | None) -> tuple[RunInput, Tenant | None]:
        """Return the start of one that follows, with its customer and tenant if it names none.

        Raises:
            UserError: it names others.
        """
        customer, own = customer_of(record.settings), customer_of(self.record.settings)
        if (customer.id or own.id) != own.id or (tenant is not None and tenant != self.tenant):
            raise UserError(
                f"follows={self.run_id!r:.200}: that conversation has another customer or tenant. "
                "Leave customer= and tenant= out, or begin a conversation that follows none."
            )
        mine = {names.SETTING_CUSTOMER: records.write(own)} if own.id and not customer.id else {}
        follows = {names.SETTING_FOLLOWS: self.run_id}
        return replace(record, settings={**(record.settings or {}), **mine, **follows}), self.tenant


def _id_after(run_id: str, base: str) -> str:
    return f"{base}{_MARK}{_number(run_id, base) + 1}"


def _number(run_id: str, base: str) -> int:
    """Return which of the conversations that began with `base` one is, from 1; 0 if it is none."""
    if run_id == base:
        return 1
    found = _LATER.fullmatch(run_id.removeprefix(base)) if run_id.startswith(base) else None
    return 0 if found is None else int(found[1])


async def followed(client: Client, run_id: str, patience: timedelta | None = None) -> Followed:
    """Return what one needs to know of a conversation to begin one that follows it.

    Raises:
        RunNotFound: there is no such run.
        UserError: the run is open, is nested in another one or a fork, or its input cannot be read.
        ServerUnavailable: the server does not answer.
    """
    address = RunAddress(client, run_id, patience)
    there = address.checked(await address.ask(address.describe))
    run = listed_run(there.raw_description.workflow_execution_info)
    if run.closed is None:
        raise UserError(f"follows={run_id!r:.200}: that conversation is open. Send it the message.")
    payload = await address.ask(lambda: started_payload(client, run_id, first_of(there)))
    try:
        record = records.read(RunInput, payload)
    except records.UnreadableRecordError as error:
        raise UserError(f"follows={run_id!r:.200}: what it began with cannot be read.") from error
    if record.carried or record.parent:
        raise UserError(
            f"follows={run_id!r:.200}: that run is nested in another one, or is a fork."
        )
    weight = there.raw_info.priority.fairness_weight or 1.0
    return Followed(
        run_id=run_id,
        base=await _base(there) or run_id,
        record=record,
        tenant=Tenant(run.tenant, weight) if run.tenant else None,
        queue=there.task_queue,
        program=await there.memo_value(names.MEMO_BEGUN_BY, ""),
    )


async def newest_following(client: Client, run_id: str, patience: timedelta | None = None) -> str:
    """Return the newest of the conversations that follow one; its own id if there is none.

    Raises:
        RunNotFound: there is no such run.
        ServerUnavailable: the server does not answer.
    """
    there = await _described(client, run_id, patience)
    if there is None:
        raise no_such_run(run_id, client.namespace)
    base = await _base(there) or run_id
    while True:
        later_id = _id_after(run_id, base)
        later = await _described(client, later_id, patience)
        if later is None or await _base(later) != base or _owner(later) != _owner(there):
            return run_id
        run_id = later_id


async def follows(
    client: Client, run_id: str, earlier: str, patience: timedelta | None = None
) -> bool:
    """Whether a conversation follows another one, at whatever distance, for the same customer.

    Raises:
        ServerUnavailable: the server does not answer.
    """
    possible = {earlier, earlier.rpartition(_MARK)[0]} - {""}
    if not any(_number(run_id, base) > 1 for base in possible):
        return False  # without a question to the server: most ids have nothing to do with another
    run = await _described(client, run_id, patience)
    base = "" if run is None else await _base(run)
    if run is None or not _number(run_id, base) > _number(earlier, base) > 0:
        return False
    there = await _described(client, earlier, patience)
    return there is not None and _owner(there) == _owner(run)


async def _described(
    client: Client, run_id: str, patience: timedelta | None
) -> WorkflowExecutionDescription | None:
    address = RunAddress(client, run_id, patience)
    try:
        return address.checked(await address.ask(address.describe))
    except RunNotFound:
        return None


async def _base(run: WorkflowExecutionDescription) -> str:
    """Return the first of the conversations of which this is a later one; empty if it is none."""
    base = await run.memo_value(names.MEMO_FOLLOWS, "")
    return base if isinstance(base, str) and base and _number(run.id, base) > 1 else ""


def _owner(run: WorkflowExecutionDescription) -> tuple[str, str]:
    listed = listed_run(run.raw_description.workflow_execution_info)
    return listed.tenant, listed.customer
