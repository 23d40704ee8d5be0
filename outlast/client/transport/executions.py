"""Finds the executions of one run, whatever other runs have used its id since.

A run is a chain of executions: it continues as new, and a reset begins another one. The server
knows a chain by the id of its first execution, which all of them have.
"""

from typing import Any

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowHistoryEventFilterType,
)
from temporalio.service import RPCError, RPCStatusCode

from outlast.archive import workflow_handle
from outlast.contract.records import Unreadable
from outlast.temporal.payloads.readable import values_of


def first_of(description: WorkflowExecutionDescription) -> str:
    """Return the id of the first execution of a described execution's run."""
    first = description.raw_description.workflow_execution_info.first_run_id
    return first or description.run_id


def is_of(opened: HistoryEvent, first: str) -> bool:
    """Whether a history with this first record belongs to the run that began with `first`."""
    started = opened.workflow_execution_started_event_attributes
    return started.first_execution_run_id in {first, ""}


async def describe_newest(
    client: Client, run_id: str, first: str | None
) -> WorkflowExecutionDescription:
    """Return the server's description of a run's newest execution.

    Args:
        client: connected to the run's server.
        run_id: the workflow id.
        first: the run's first execution; None means the newest run with the id.

    Raises:
        RPCError: there is no such run.
    """
    description = await workflow_handle(client, run_id).describe()
    if first is None or first_of(description) == first:
        return description
    execution = await last_execution(client, run_id, first)
    return await workflow_handle(client, run_id, execution).describe()


async def started_payload(client: Client, run_id: str, execution: str) -> Any:
    """Return what an execution was started with; None if the server no longer has its history.

    Raises:
        RPCError: the server does not answer.
    """
    first = workflow_handle(client, run_id, execution).fetch_history_events(page_size=1)
    try:
        await first.fetch_next_page()
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        return None
    [opened, *_] = first.current_page or [HistoryEvent()]
    payloads = opened.workflow_execution_started_event_attributes.input.payloads
    values = await values_of(client.data_converter, payloads)
    return values[0] if values else Unreadable("It is no JSON.")


async def last_execution(client: Client, run_id: str, first: str) -> str:
    """Return the last execution of a run whose id another run uses now."""
    execution, following = first, first
    while following:
        execution = following
        handle = workflow_handle(client, run_id, execution)
        extended = (await handle.describe()).raw_description.workflow_extended_info
        following = extended.reset_run_id or await _successor(client, run_id, execution)
    return execution


async def _successor(client: Client, run_id: str, execution: str) -> str:
    closing = workflow_handle(client, run_id, execution).fetch_history_events(
        event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
    )
    await closing.fetch_next_page()
    [*_, closed] = closing.current_page or [HistoryEvent()]
    return closed.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
