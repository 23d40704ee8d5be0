"""The private parts of the Temporal SDK that outlast uses, and what it does without each.

A new version of the SDK may change them. A worker looks for them when it starts. For one that does
not fit, it logs a warning and sets the metric `outlast_sdk_misfit` to 1, and its runs go on.
"""

import importlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from types import CodeType
from typing import Any, Final

from temporalio.bridge.proto.activity_task import ActivityTask
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.common import MetricMeter
from temporalio.converter import DataConverter
from temporalio.runtime import Runtime
from temporalio.worker import WorkflowInstanceDetails

from outlast.agents.logs import get_logger
from outlast.temporal.payloads.key_order import OrderedPayloadConverter, in_key_order
from outlast.worker.workflow_runner import PatientInstance
from outlast.workflows.agent_run import AgentRun

METRIC: Final = "outlast_sdk_misfit"
"""A gauge by part of the SDK: 1 if it does not fit, otherwise 0."""

logger: Final = get_logger(__name__)

_warned: set[str] = set()


@dataclass(frozen=True)
class SdkPart:
    """A private part of the SDK.

    Attributes:
        name: the part, as in the label `part` of the metric.
        uses: its names in the SDK.
        without: what a worker does if the part does not fit.
        fits: returns whether it is there as outlast needs it, or raises.
    """

    name: str
    uses: str
    without: str
    fits: Callable[[], bool]


def misfits(parts: Iterable[SdkPart]) -> tuple[SdkPart, ...]:
    """Return the parts that this SDK does not have as outlast needs them."""
    return tuple(part for part in parts if not _fits(part))


def report_misfits(meter: MetricMeter, parts: "Iterable[SdkPart] | None" = None) -> None:
    """Warn once in a process of each part that does not fit, and set the metric of all parts."""
    all_parts = PARTS if parts is None else tuple(parts)
    wrong = misfits(all_parts)
    gauge = meter.create_gauge(METRIC, "Private parts of the Temporal SDK that do not fit outlast.")
    for part in all_parts:
        gauge.set(int(part in wrong), {"part": part.name})
    for part in wrong:
        if part.name not in _warned:
            _warned.add(part.name)
            logger.warning("%s", words_of(part))


def words_of(part: SdkPart) -> str:
    """Say what does not fit, and what happens without it."""
    return (
        f"temporalio {version('temporalio')} does not have {part.uses} as outlast "
        f"{version('outlast')} uses it. {part.without} Upgrade outlast, or use an older temporalio."
    )


def meter_of(client: Client | None) -> MetricMeter:
    """Return the meter of a client's runtime, which exports the worker's own metrics."""
    if client is None:
        return MetricMeter.noop
    return (client.service_client.config.runtime or Runtime.default()).metric_meter


def _fits(part: SdkPart) -> bool:
    try:
        return part.fits()
    except Exception:  # noqa: BLE001  whatever is raised, it is not as it was
        return False


# --- What is looked for ----------------------------------------------------------------------------


def _takes_attempts() -> bool:
    sdk = _module("temporalio.worker._activity")
    begun = sdk._RunningActivity()
    worker = sdk._ActivityWorker
    inspect.signature(worker._handle_start_activity_task).bind(None, b"", None, begun)
    inspect.signature(worker._handle_cancel_activity_task).bind(None, b"", None)
    return (
        hasattr(begun, "task")
        and _names(worker) >= {"_running_activities", "_bridge_worker", "poll_activity_task"}
        and {"start", "cancel"} <= set(ActivityTask.DESCRIPTOR.fields_by_name)
    )


def _takes_heartbeats() -> bool:
    sdk = _module("temporalio.worker._activity")
    context = _module("temporalio.activity")._Context
    return (
        "_worker" in _names(sdk._ActivityOutboundImpl)
        and "heartbeat" in context.__dataclass_fields__
        and _names(sdk._ActivityWorker)
        >= {"_bridge_worker", "_data_converter", "record_activity_heartbeat"}
    )


def _steps_in_an_executor() -> bool:
    worker = _module("temporalio.worker._workflow")._WorkflowWorker
    return (
        _names(worker) >= {"run_in_executor", "_workflow_task_executor", "activate"}
        and "is_replaying" in WorkflowActivation.DESCRIPTOR.fields_by_name
    )


def _forwards_all() -> bool:
    return not PatientInstance.forwarded and "defn" in inspect.get_annotations(
        WorkflowInstanceDetails
    )


def _defines_workflows() -> bool:
    definition: Any = vars(AgentRun)["__temporal_workflow_definition"]
    return definition.cls is AgentRun and bool(definition.name)


def _decodes() -> bool:
    converter: Any = DataConverter
    return inspect.iscoroutinefunction(converter._transform_inbound_payloads)


def _describes() -> bool:
    description: Any = WorkflowExecutionDescription
    inspect.signature(description._from_raw_description).bind(None, "namespace", None)
    return inspect.iscoroutinefunction(description._from_raw_description)


def _writes_json() -> bool:
    converter: Any = in_key_order(DataConverter.default).payload_converter
    inner: object = getattr(converter, "_inner_payload_converter", converter)
    return type(inner) is OrderedPayloadConverter


def _module(name: str) -> Any:
    return importlib.import_module(name)


def _names(kind: type) -> set[str]:
    """Return the names that the methods of a class mention, also in functions within them."""
    codes: list[Any] = [getattr(one, "__code__", None) for one in vars(kind).values()]
    found: set[str] = set()
    while codes:
        code = codes.pop()
        if isinstance(code, CodeType):
            found |= set(code.co_names)
            codes += code.co_consts
    return found


PARTS: Final = (
    SdkPart(
        "attempts",
        "_ActivityWorker._handle_start_activity_task",
        "While the event loop is blocked, the worker begins no attempts, and the server tries "
        "them again elsewhere.",
        _takes_attempts,
    ),
    SdkPart(
        "heartbeats",
        "_ActivityWorker._bridge_worker().record_activity_heartbeat",
        "Heartbeats go through the event loop, so one that is blocked sends none.",
        _takes_heartbeats,
    ),
    SdkPart(
        "steps",
        "_WorkflowWorker._workflow_task_executor",
        "Steps of workflows run in threads, at about twice the cost.",
        _steps_in_an_executor,
    ),
    SdkPart(
        "instances",
        "WorkflowInstance",
        "Its new methods go past the order of updates and signals, and past the wait of evictions.",
        _forwards_all,
    ),
    SdkPart(
        "definitions",
        "__temporal_workflow_definition",
        "The worker does not tell its workflows from yours, and keeps the SDK's own options; "
        "workflow_tool() refuses workflows.",
        _defines_workflows,
    ),
    SdkPart(
        "payloads",
        "DataConverter._transform_inbound_payloads",
        "Histories cannot be read, so clients that show runs fail.",
        _decodes,
    ),
    SdkPart(
        "descriptions",
        "WorkflowExecutionDescription._from_raw_description",
        "Runs that only the archive has cannot be described.",
        _describes,
    ),
    SdkPart(
        "json",
        "_inner_payload_converter",
        "JSON that is sent is parsed and written once more.",
        _writes_json,
    ),
)
"""Each private part. `tests/unit/worker/test_sdk_parts.py` finds those that this table lacks."""
