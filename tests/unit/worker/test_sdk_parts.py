"""The private parts of the Temporal SDK: all are listed, all fit, and one that does not is told."""

import ast
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig
from temporalio.worker import WorkflowInstance, _activity, _workflow

from outlast.cli import doctor
from outlast.worker import sdk_parts
from outlast.worker.sdk_parts import METRIC, PARTS, SdkPart, meter_of, misfits, report_misfits
from outlast.worker.workflow_runner import PatientInstance, forward_new_methods
from tests.architecture.source import ROOT

OTHERS = {
    # asyncio, pathlib, openai, pydantic and Python itself
    "_register_task", "_unregister_task", "_log_destroy_pending", "_set_running_loop",
    "_get_running_loop", "_current_frames", "_connection", "_get_azure_ad_token",
    "_refresh_api_key", "_replace", "_local", "_loop", "_fields", "_field_defaults", "_request_id",
    "_is_protocol", "_process", "_transport", "_initializing",
    # our own classes
    "_address", "_until", "_state", "_term",
}  # fmt: skip


def private_names(module: Path) -> Iterator[str]:
    """Yield the private names that a module takes from objects that are not its own."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name) if name.startswith("_") and not name.startswith("__"):
                yield name
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(value=str(name)), *_]
            ) if name.startswith(("_", "__temporal")):
                yield name
            case _:
                pass


def test_the_table_names_every_private_part_that_is_used() -> None:
    table = (ROOT / "outlast/worker/sdk_parts.py").read_text(encoding="utf-8")
    used = {
        name: path.relative_to(ROOT).as_posix()
        for path in (ROOT / "outlast").rglob("*.py")
        if "temporalio" in path.read_text(encoding="utf-8")
        for name in private_names(path)
        if not (name.startswith("__") and "temporal" not in name)
    }
    assert used["_bridge_worker"].startswith("outlast/activities/heartbeats/")
    lacking = {one: used[one] for one in used if one not in OTHERS and one not in table}
    assert lacking == {}


def test_the_page_of_versions_names_every_part() -> None:
    page = (ROOT / "docs/reference/versions.md").read_text(encoding="utf-8")
    assert [part.name for part in PARTS if f"| `{part.name}` |" not in page] == []
    assert METRIC in page


def test_this_sdk_fits() -> None:
    assert misfits(PARTS) == ()
    assert doctor.temporal_sdk() == []


BUFFER = MetricBuffer(1_000)
RUNTIME = Runtime(telemetry=TelemetryConfig(metrics=BUFFER))


CLIENT = SimpleNamespace(config=SimpleNamespace(runtime=RUNTIME))


def exported() -> dict[str, float]:
    """Return what the SDK exports of the metric, by part."""
    return {
        str(update.attributes["part"]): update.value
        for update in BUFFER.retrieve_updates()
        if update.metric.name == METRIC
    }


@pytest.mark.parametrize(
    ("part", "of", "name"),
    [
        ("attempts", _activity._ActivityWorker, "_handle_start_activity_task"),
        ("heartbeats", _activity, "_ActivityOutboundImpl"),
        ("steps", _workflow, "_WorkflowWorker"),
        ("payloads", sdk_parts.DataConverter, "_transform_inbound_payloads"),
        ("descriptions", sdk_parts.WorkflowExecutionDescription, "_from_raw_description"),
    ],
)
def test_a_part_that_is_gone_is_warned_of_once_and_measured(
    part: str,
    of: Any,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.delattr(of, name)
    monkeypatch.setattr(sdk_parts, "_warned", set[str]())
    meter = meter_of(cast("Any", SimpleNamespace(service_client=CLIENT)))
    with caplog.at_level(logging.WARNING, logger="outlast"):
        report_misfits(meter)
        report_misfits(meter)
    assert exported() == {one.name: int(one.name == part) for one in PARTS}
    assert [one.level for one in doctor.temporal_sdk()] == ["optional"]
    (line,) = [record.getMessage() for record in caplog.records]
    (wrong,) = [one for one in PARTS if one.name == part]
    assert line.startswith("temporalio ")
    assert f"does not have {wrong.uses} as outlast" in line
    assert line.endswith(f"{wrong.without} Upgrade outlast, or use an older temporalio.")


def test_a_look_that_fails_is_a_misfit() -> None:
    part = SdkPart("x", "y", "z", fits=lambda: bool(1 / 0))
    assert misfits([part]) == (part,)


def test_new_methods_of_an_instance_are_forwarded() -> None:
    class Newer(PatientInstance):
        activate = get_info = get_serialization_context = get_external_store_context = cast(
            "Any", None
        )
        get_thread_id = cast("Any", None)

    class Interface(WorkflowInstance):
        def get_color(self, shade: int) -> str:
            raise NotImplementedError

    forward_new_methods(Newer, Interface)
    inner = SimpleNamespace(get_color="blue {}".format)
    assert cast("Any", Newer(cast("Any", inner))).get_color(3) == "blue 3"
    assert Newer.forwarded == {"get_color"}
    assert PatientInstance.forwarded == frozenset()
