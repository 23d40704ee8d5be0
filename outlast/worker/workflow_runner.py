"""Lets a slow step of our workflows end, so that a worker can always stop, and orders its jobs.

The SDK takes a step of two seconds for a deadlock. It then raises an exception in the step's thread,
and evicts the workflow in another thread, although the step may still run. Either can lose the
wake-up of a task. A workflow whose tasks have not ended is never evicted: it keeps its slot, and its
worker waits for it and does not stop.

The steps of our workflows end by themselves. A slow one, such as a replay on a busy machine, still
fails its workflow task, but nothing interrupts it, and its eviction waits for it.
"""

import abc
import json
import threading
from typing import Any, ClassVar

from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.workflow_activation import (
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.converter import DataConverter, WithSerializationContext
from temporalio.worker import (
    UnsandboxedWorkflowRunner,
    WorkflowInstance,
    WorkflowInstanceDetails,
)
from temporalio.workflow import Info

from outlast.contract import names


class PatientRunner(UnsandboxedWorkflowRunner):
    """Creates instances of workflows, and `PatientInstance` for ours.

    Args:
        has_contexts: whether payloads are encoded by what they are for: see `encodes_by_context`.
    """

    def __init__(self, *, has_contexts: bool = True) -> None:
        super().__init__()
        self._has_contexts = has_contexts

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Return an instance of a workflow."""
        instance = super().create_instance(det)
        if det.defn.name not in names.WORKFLOWS:
            return instance
        return PatientInstance(instance, has_contexts=self._has_contexts)


def encodes_by_context(converter: DataConverter) -> bool:
    """Whether a converter encodes payloads by what they are for, such as a key for each workflow.

    For one that does not, the SDK would copy the converter for each command all the same.
    """
    parts = (converter.payload_codec, converter.external_storage)
    return any(isinstance(one, WithSerializationContext) for one in parts)


class PatientInstance(WorkflowInstance):
    """An instance of a workflow whose steps follow each other, and are not interrupted.

    It takes the updates of a step after its signals.
    """

    forwarded: ClassVar[frozenset[str]] = frozenset()
    """The methods of a newer SDK, which go to the SDK's own instance as they are."""

    def __init__(self, instance: WorkflowInstance, *, has_contexts: bool = True) -> None:
        self._instance = instance
        self._has_contexts = has_contexts
        self._turn = threading.Lock()

    def activate(self, act: Any) -> Any:
        """Take a step; called in a thread, or in the event loop."""
        signals_first(act)
        with self._turn:
            return without_stacks(self._instance.activate(act))

    def get_thread_id(self) -> int | None:
        """Return None: there is no thread to interrupt."""
        return None

    def get_info(self) -> Info:
        """Return what the server says of the workflow."""
        return self._instance.get_info()

    def get_serialization_context(self, command_info: Any) -> Any:
        """Return what payloads are encoded by; None where that makes no difference."""
        if not self._has_contexts:
            return None
        return self._instance.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> Any:
        """Return what large payloads are stored with."""
        return self._instance.get_external_store_context(command_info)


def forward_new_methods(kind: type[PatientInstance], interface: type) -> None:
    """Let a class forward the methods that an interface has and the class does not know.

    A new abstract method would otherwise fail the first step of every run.
    """
    new = [name for name in vars(interface) if not name.startswith("_") and name not in vars(kind)]
    for name in new:
        setattr(kind, name, _forward(name))
    kind.forwarded = frozenset(new)
    abc.update_abstractmethods(kind)


def _forward(name: str) -> Any:
    def call(self: PatientInstance, *args: Any, **options: Any) -> Any:
        return getattr(vars(self)["_instance"], name)(*args, **options)

    return call


forward_new_methods(PatientInstance, WorkflowInstance)


def signals_first(activation: WorkflowActivation) -> None:
    """Move updates behind the signals of an activation, where a replay has them.

    After a reset, the server applies updates and signals again in their order, but the SDK replays
    the signals of a workflow task first. A decision by update that a later signal contradicts would
    then be another one in each replay, and the run would be stuck. This is for our workflows alone,
    beside whichever others their worker has: those of users get what the SDK gives them.
    """
    jobs = list(activation.jobs)
    ordered = sorted(jobs, key=_is_update)
    if ordered != jobs:
        del activation.jobs[:]
        activation.jobs.extend(ordered)


def without_stacks(completion: Any) -> Any:
    """Return the outcome of a step without the stacks of what it refuses, answers or ends with.

    They have paths of this machine, and the caller of an update or a query gets them. The failure
    of a workflow task keeps its stack: nobody but operators reads it.
    """
    for command in completion.successful.commands:
        match command.WhichOneof("variant"):
            case "update_response":
                _strip(command.update_response.rejected)
            case "respond_to_query":
                _strip(command.respond_to_query.failed)
            case "fail_workflow_execution":
                _strip(command.fail_workflow_execution.failure)
            case _:
                pass
    return completion


def _strip(failure: Failure) -> None:
    while failure.ByteSize():
        if failure.stack_trace:
            failure.stack_trace = ""
        attributes = failure.encoded_attributes
        if attributes.metadata.get("encoding") == b"json/plain":
            attributes.data = json.dumps(
                {**json.loads(attributes.data), "stack_trace": ""}
            ).encode()
        if not failure.HasField("cause"):
            return
        failure = failure.cause


def _is_update(job: WorkflowActivationJob) -> bool:
    return job.HasField("do_update")
