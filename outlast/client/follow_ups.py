"""Begins the conversation that follows a resolved one which has ended, for a word of its customer."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from outlast.agents.errors import RunAlreadyStarted
from outlast.blobs import large_content
from outlast.client.handle import RunHandle
from outlast.client.start.following import Followed, followed
from outlast.client.start.runner import NewRun, start_run
from outlast.client.transport.outages import patience_of
from outlast.contract import names
from outlast.contract.records import RunInput
from outlast.loop.start import OWN_AGENTS
from outlast.loop.values import JsonObject

_NOT_COPIED: Final = frozenset({*names.SETTINGS_OF_TRACE, names.SETTING_CALLER, OWN_AGENTS})
"""The settings of a conversation that are its own."""


async def start_follow_up(
    client: Client,
    run_id: str,
    input: str | list[JsonObject],
    *,
    message_id: str,
    patience: timedelta | None = None,
) -> RunHandle:
    """Begin the conversation that follows one, as that one was begun: only its first message differs.

    It has the same agent, settings, context, session, customer and tenant, and the programs that see
    that one see it.

    Args:
        client: connected to the run's server.
        run_id: the conversation that has ended.
        input: the message, by its customer.
        message_id: the id of the message.
        patience: how long to wait for a server that does not answer.

    Raises:
        RunAlreadyStarted: another message has begun it, or another run has its id.
        RunNotFound: there is no such run.
        UserError: it is open, or its input cannot be read.
        ContentUnavailable: a part of its context is in a store, and cannot be read.
        ServerUnavailable: the server does not answer.
    """
    earlier = await followed(client, run_id, patience)
    record, tenant = earlier.owned(await _again(client, earlier, input, message_id), None)
    new = NewRun(
        id=earlier.next_id,
        record=record,
        queue=earlier.queue,
        tenant=tenant,
        program=earlier.program,
        base=earlier.base,
    )
    policy = WorkflowIDReusePolicy.REJECT_DUPLICATE
    try:
        first = await start_run(client, new, policy, patience_of(patience))
    except WorkflowAlreadyStartedError as error:
        raise RunAlreadyStarted(f"There is a run {new.id!r:.200} already.") from error
    return RunHandle(client, new.id, patience=patience, first_execution_id=first)


async def _again(
    client: Client, earlier: Followed, input: str | list[JsonObject], message_id: str
) -> RunInput:
    first = earlier.record
    whole = await large_content(client=client).joined(first.context)
    settings = {
        name: value for name, value in (first.settings or {}).items() if name not in _NOT_COPIED
    }
    return replace(
        first,
        input=input,
        message_id=message_id,
        context=whole,
        settings=settings,
        thread=None,
        authors=(),
        visibility=False,
        unlisted=False,
        awaits_line=False,
        keep_open=True,
        stages=None,
    )
