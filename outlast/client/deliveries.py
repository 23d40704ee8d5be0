"""Finishes what tools wait for outside of their runs: `ToolContext.wait_for` begins it."""

import asyncio
import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.client import Client

from outlast.agents.context.wait_address import WaitAddress
from outlast.agents.errors import ServerUnavailable, UserError
from outlast.client.identity import sign
from outlast.client.results.pending_waits import PendingWait, pending_waits
from outlast.client.transport.delivered_value import check_shape, stored_value
from outlast.client.transport.run_address import RunAddress
from outlast.contract import names, records
from outlast.contract.delivery_proofs import signed_form
from outlast.loop.actions import DeliverRecord
from outlast.loop.values import Json

__all__ = ["DeliveryReceipt", "PendingWait", "finish", "pending_waits"]

PATIENCE: Final = timedelta(seconds=5)
"""How long a delivery waits for a worker before the server keeps it."""

LONGEST_ID: Final = 200
"""The maximum length of a delivery's id, and of its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReceipt:
    """The outcome of a delivery; a second one with the same id gets the receipt of the first.

    Attributes:
        run_id: the run that made the call.
        name: what the call waits for.
        at: when the value came; None if no worker was there to take it: the server keeps it, and the
            run takes it, or refuses it, when a worker starts.
    """

    run_id: str
    name: str
    at: datetime | None


async def finish(
    token: str,
    value: Json = None,
    *,
    client: Client,
    delivery_id: str = "",
    source: str = "",
    patience: timedelta = PATIENCE,
) -> DeliveryReceipt:
    """Deliver a value to a call that waits for it; the call goes on as soon as a worker is there.

    The value counts once: a repeated delivery changes nothing. Where no worker answers in time, the
    server keeps the value for the run; what is wrong with it is then found out later, and stands in
    the run's ignored attempts. A process with an identity key signs the delivery.

    Args:
        token: from `ToolContext.wait_token`, or `RunHandle.pending_waits`.
        value: any JSON value that fits the schema of the wait.
        client: connected to the run's server.
        delivery_id: tells the delivery from others, such as the id of a webhook; default: made of
            the token and the value, so that a repetition is the same delivery.
        source: who delivers it, for people to read.
        patience: how long to wait for a worker before the server keeps the value.

    Returns:
        What became of it.

    Raises:
        DeliveryRefused: nothing waits for it, it came too late or after another delivery, or it
            does not fit. What waits goes on waiting.
        RunClosed: the run has ended.
        RunNotFound: there is no such run.
        ServerUnavailable: the server does not answer, or keeps as much for the run as it should
            without a worker; repeat it with the same id.
        ContentUnavailable: the blob store cannot be written.
        RunBusy: a worker is checking the proof of another delivery; repeat it with the same id.
        UserError: the token, the value or the identity key is invalid, or the value is too large.
    """
    address = _address(token)
    _check(value, delivery_id=delivery_id, source=source)
    delivery_id = delivery_id or _digest([address.token, value])
    record = _record(address, await stored_value(client, value), delivery_id, source)
    to_run = RunAddress(client, address.run_id, patience)
    record = await to_run.ask(lambda: _signed(client, record, address.run_id))
    # The id of an update names the wait, too: one sender may use an id for several.
    unique = _digest([address.token, delivery_id])
    payload = records.write(record)
    try:
        async with asyncio.timeout(patience.total_seconds()):  # an update would have longer
            answer = await to_run.update(names.DELIVER, payload, unique)
    except (ServerUnavailable, TimeoutError):
        # No worker: the server keeps signals. If the update arrives, too, it is the same delivery.
        await to_run.keep(names.DELIVER, payload)
        return DeliveryReceipt(run_id=address.run_id, name=address.name, at=None)
    at = datetime.fromtimestamp(answer["at_ms"] / 1000, UTC)
    return DeliveryReceipt(run_id=address.run_id, name=address.name, at=at)


def _check(value: Json, **texts: str) -> None:
    check_shape(value)
    for what, text in texts.items():
        if len(text) > LONGEST_ID:
            raise UserError(f"{what} must have at most {LONGEST_ID} characters, not {len(text)}.")


def _record(address: WaitAddress, value: Json, delivery_id: str, source: str) -> DeliverRecord:
    return DeliverRecord(
        question=address.question,
        turn=address.turn,
        call_id=address.call_id,
        name=address.name,
        value=value,
        delivery_id=delivery_id,
        source=source,
    )


async def _signed(client: Client, record: DeliverRecord, run_id: str) -> DeliverRecord:
    # As it arrives: no record has half a character in a text.
    record = records.read(DeliverRecord, records.write(record))
    form = await sign(client, signed_form(record), run_id, action=names.DELIVER)
    return replace(record, proof=form.proof)


def _address(token: str) -> WaitAddress:
    try:
        return WaitAddress.parse(token)
    except ValueError as error:
        raise UserError(str(error)) from error


def _digest(value: Json) -> str:
    written = json.dumps(value, sort_keys=True, allow_nan=False)
    return hashlib.sha256(written.encode()).hexdigest()
