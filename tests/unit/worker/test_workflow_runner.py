"""Steps of our workflows end before the next begins, and nothing interrupts them."""

import dataclasses
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverter,
    PayloadCodec,
    PayloadConverter,
    SerializationContext,
    WithSerializationContext,
)
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowInstance

from outlast import Agent
from outlast.contract import names
from outlast.temporal.payloads.readable import readable
from outlast.worker import OutlastPlugin
from outlast.worker.workflow_runner import (
    PatientInstance,
    PatientRunner,
    encodes_by_context,
    without_stacks,
)
from tests.unit.worker.test_worker_options import configured


class Slow:
    """An instance whose first step waits for a test."""

    def __init__(self) -> None:
        self.told = list[str]()
        self.began, self.may_end = threading.Event(), threading.Event()

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        self.told.append(f"{act.run_id} begins")
        if act.run_id == "step":
            self.began.set()
            assert self.may_end.wait(10)
        self.told.append(f"{act.run_id} ends")
        taken = [one.do_update.id or one.signal_workflow.signal_name for one in act.jobs]
        return WorkflowActivationCompletion(run_id=" ".join(taken))

    def get_thread_id(self) -> int:
        return 1


def test_an_eviction_waits_for_a_step_that_still_runs() -> None:
    slow = Slow()
    instance: Any = PatientInstance(cast("WorkflowInstance", slow))
    assert instance.get_thread_id() is None, "it cannot be interrupted"
    with ThreadPoolExecutor(2) as threads:
        step = threads.submit(instance.activate, WorkflowActivation(run_id="step"))
        assert slow.began.wait(10)
        eviction = threads.submit(instance.activate, WorkflowActivation(run_id="eviction"))
        assert slow.told == ["step begins"]
        slow.may_end.set()
        assert (step.result(10).run_id, eviction.result(10).run_id) == ("", "")
    assert slow.told == ["step begins", "step ends", "eviction begins", "eviction ends"]


@pytest.mark.parametrize(("name", "is_ours"), [(names.WORKFLOW, True), ("Users", False)])
def test_workflows_of_users_stay_as_the_sdk_makes_them(
    monkeypatch: pytest.MonkeyPatch, name: str, *, is_ours: bool
) -> None:
    made = Slow()

    def create_instance(_runner: object, _details: object) -> Slow:
        return made

    monkeypatch.setattr(UnsandboxedWorkflowRunner, "create_instance", create_instance)
    details: Any = SimpleNamespace(defn=SimpleNamespace(name=name))
    instance: Any = PatientRunner().create_instance(details)
    assert (instance is made, isinstance(instance, PatientInstance)) == (not is_ours, is_ours)


def mixed_activation() -> WorkflowActivation:
    activation = WorkflowActivation(run_id="r1")
    for kind, name in (("u", "u1"), ("s", "s1"), ("u", "u2"), ("s", "s2")):
        job = activation.jobs.add()
        if kind == "u":
            job.do_update.id = name
        else:
            job.signal_workflow.signal_name = name
    return activation


@pytest.mark.parametrize(
    ("name", "order"),
    [(names.WORKFLOW, ["s1", "s2", "u1", "u2"]), ("Users", ["u1", "s1", "u2", "s2"])],
)
def test_the_updates_of_a_step_of_ours_come_after_its_signals_in_every_worker(
    monkeypatch: pytest.MonkeyPatch, name: str, order: list[str]
) -> None:
    """A worker that has workflows of its user, too, has the SDK's own executor."""

    class Users:
        pass

    def create_instance(_runner: object, _details: object) -> Slow:
        return Slow()

    monkeypatch.setattr(UnsandboxedWorkflowRunner, "create_instance", create_instance)
    options = configured(workflows=[Users])
    assert options["workflow_task_executor"] is None
    details: Any = SimpleNamespace(defn=SimpleNamespace(name=name))
    instance = options["unsandboxed_workflow_runner"].create_instance(details)
    assert instance.activate(mixed_activation()).run_id.split() == order


def test_what_is_refused_or_fails_has_no_stack_of_the_machine() -> None:
    def raised() -> ApplicationError:
        failed = ApplicationError("no")
        try:
            try:
                int("why")
            except ValueError as error:
                raise failed from error
        except ApplicationError:
            pass
        return failed

    made = WorkflowActivationCompletion()
    commands = made.successful.commands
    failures = [
        commands.add().update_response.rejected,
        commands.add().respond_to_query.failed,
        commands.add().fail_workflow_execution.failure,
    ]
    for encodes in (False, True):
        for failure in failures:
            converter = DefaultFailureConverter(encode_common_attributes=encodes)
            converter.to_failure(raised(), PayloadConverter.default, failure)
        assert __file__ in str(made)
        without_stacks(made)
        assert __file__ not in str(made)
    assert '"no"' in str(failures[0].encoded_attributes.data)
    assert commands[0].WhichOneof("variant") == "update_response"

    task = WorkflowActivationCompletion()
    task.failed.failure.stack_trace = "for operators"
    assert without_stacks(task).failed.failure.stack_trace == "for operators"


def test_a_replayer_with_the_plugin_is_patient_and_keeps_a_runner_of_its_own() -> None:
    class Own(UnsandboxedWorkflowRunner):
        pass

    plugin = OutlastPlugin([Agent(name="Clerk")])
    ours = Replayer(workflows=[], plugins=[plugin]).config(active_config=True)
    assert isinstance(ours.get("unsandboxed_workflow_runner"), PatientRunner)
    own = Own()
    theirs = Replayer(workflows=[], plugins=[plugin], unsandboxed_workflow_runner=own).config(
        active_config=True
    )
    assert theirs.get("unsandboxed_workflow_runner") is own


class Codec(PayloadCodec):
    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)


class CodecOfWorkflows(Codec, WithSerializationContext):
    def with_context(self, context: SerializationContext) -> Self:
        return self


@pytest.mark.parametrize(
    ("codec", "is_asked"), [(None, False), (Codec(), False), (CodecOfWorkflows(), True)]
)
def test_only_a_codec_that_looks_what_payloads_are_for_is_told(
    codec: PayloadCodec | None, *, is_asked: bool
) -> None:
    converter = dataclasses.replace(DataConverter.default, payload_codec=codec)
    assert encodes_by_context(readable(converter)) == is_asked

    def context_of(_command: object) -> str:
        return "the workflow"

    asked: Any = SimpleNamespace(get_serialization_context=context_of)
    instance: Any = PatientInstance(asked, has_contexts=is_asked)
    assert instance.get_serialization_context(None) == ("the workflow" if is_asked else None)


@pytest.mark.parametrize(("codec", "is_asked"), [(Codec(), False), (CodecOfWorkflows(), True)])
async def test_a_worker_knows_the_codec_of_its_client(
    codec: PayloadCodec, *, is_asked: bool
) -> None:
    converter = dataclasses.replace(DataConverter.default, payload_codec=codec)
    client = await Client.connect("127.0.0.1:9", lazy=True, data_converter=converter)
    runner: Any = configured(client=client, task_queue="q")["unsandboxed_workflow_runner"]
    assert isinstance(runner, PatientRunner)
    assert vars(runner)["_has_contexts"] == is_asked
