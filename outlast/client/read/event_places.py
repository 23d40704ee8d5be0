"""Where a run's history records the steps of the run."""

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.archive import workflow_handle
from outlast.archive.reading import as_not_found
from outlast.contract import history


async def event_of_effect(client: Client, run_id: str, effect: int) -> tuple[str, int] | None:
    """Return the execution and the number of the event that began an effect.

    The newest execution that has the effect counts. None is returned for effects that have no event
    of their own, such as fast tools, and if the history is gone.

    Args:
        client: connected to the run's server.
        run_id: the run.
        effect: the number of the effect.
    """
    if effect < 1:
        return None
    execution: str | None = None
    while True:
        handle = workflow_handle(client, run_id, execution)
        try:
            events = [event async for event in handle.fetch_history_events()]
        except RPCError as error:
            if as_not_found(error).status == RPCStatusCode.NOT_FOUND:
                return None
            raise
        started = events[0].workflow_execution_started_event_attributes
        for event in reversed(events):
            if _effect_of(event) == effect:
                if execution is None:
                    execution = (await handle.describe()).run_id
                return execution, event.event_id
        execution = started.continued_execution_run_id
        if not execution:
            return None


def _effect_of(event: HistoryEvent) -> int | None:
    match event.event_type:
        case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            number = event.activity_task_scheduled_event_attributes.activity_id
            return int(number) if number.isdigit() else None
        case EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
            nested = event.start_child_workflow_execution_initiated_event_attributes
            return history.effect_of_nested(nested.workflow_id)
        case _:
            return None
