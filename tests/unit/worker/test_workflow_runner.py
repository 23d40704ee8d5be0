"""Steps of our workflows end before the next begins, and nothing interrupts them."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowInstance

from outlast import Agent
from outlast.contract import names
from outlast.worker import OutlastPlugin
from outlast.worker.workflow_runner import PatientInstance, PatientRunner


class Slow:
    """An instance whose first step waits for a test."""

    def __init__(self) -> None:
        self.told = list[str]()
        self.began, self.may_end = threading.Event(), threading.Event()

    def activate(self, act: str) -> str:
        self.told.append(f"{act} begins")
        if act == "step":
            self.began.set()
            assert self.may_end.wait(10)
        self.told.append(f"{act} ends")
        return act

    def get_thread_id(self) -> int:
        return 1


def test_an_eviction_waits_for_a_step_that_still_runs() -> None:
    slow = Slow()
    instance: Any = PatientInstance(cast("WorkflowInstance", slow))
    assert instance.get_thread_id() is None, "it cannot be interrupted"
    with ThreadPoolExecutor(2) as threads:
        step = threads.submit(instance.activate, "step")
        assert slow.began.wait(10)
        eviction = threads.submit(instance.activate, "eviction")
        assert slow.told == ["step begins"]
        slow.may_end.set()
        assert (step.result(10), eviction.result(10)) == ("step", "eviction")
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
