"""`outlast traces export`: the spans of runs, out of their histories."""

import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client
from typer.testing import CliRunner

from outlast import Agent, add_trace_processor
from outlast.cli.app import app
from outlast.client.start.runner import Runner
from outlast.otel import OpenTelemetryProcessor
from outlast.testing import ScriptedModel, call
from outlast.tracing.receivers import REGISTRATION
from tests.otlp import OtlpReceiver, tree
from tests.unit.cli.conftest import Invoke, Open, helper

TREE = """\
invoke_workflow Agent workflow
  invoke_agent Desk
    turn 1
      chat gpt-5-mini
      execute_tool ask_helper
        invoke_workflow Agent workflow
          invoke_agent Helper
            turn 1
              chat gpt-5-mini
              execute_tool look_up
            turn 2
              chat gpt-5-mini
    turn 2
      chat gpt-5-mini"""


def spans_in(file: Path) -> list[Any]:
    requests = [json.loads(line) for line in file.read_text().splitlines()]
    scopes = [
        one
        for request in requests
        for found in request["resourceSpans"]
        for one in found["scopeSpans"]
    ]
    return [span for one in scopes for span in one["spans"]]


async def test_a_finished_run_is_exported_with_the_ids_of_its_live_spans(
    cli: Invoke,
    client: Client,
    open_desk: Open,
    run_id: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live = InMemorySpanExporter()
    processor = OpenTelemetryProcessor(exporter=live)
    add_trace_processor(processor)
    inner = helper().clone(model="gpt-5-mini")
    desk = Agent[Any](name="Desk", model="gpt-5-mini", tools=[inner.as_tool("ask_helper", "Ask.")])
    model = ScriptedModel(
        [call("ask_helper", "c1", input="Where?")],
        [call("look_up", "c2", order_id="A-17")],
        "There.",
        "Sent.",
    )
    try:
        queue = await open_desk(model, desk)
        handle = await Runner.start("Desk", "Hello", id=run_id, client=client, task_queue=queue)
        await handle.result()
    finally:
        REGISTRATION.flush(10)
        REGISTRATION.remove(processor)
        processor.shutdown()
    ids = {f"{one.context.span_id:016x}" for one in live.get_finished_spans() if one.context}

    with OtlpReceiver() as receiver:
        for _ in range(2):
            done = await cli("traces", "export", run_id, "--endpoint", receiver.endpoint)
            assert done.exit_code == 0, done.stderr
            assert "spans of 1 run" in done.stderr
        first, second = receiver.spans[: len(ids)], receiver.spans[len(ids) :]
    assert first == second
    assert {one.span_id for one in first} == ids
    assert tree(first) == TREE

    file = tmp_path / "spans.jsonl"
    assert (await cli("traces", "export", run_id, "--output", str(file))).exit_code == 0
    assert {one["spanId"] for one in spans_in(file)} == ids
    assert "A-17" not in file.read_text()
    assert "A-17" in (await cli("traces", "export", run_id, "-o", "-", "--content")).stdout
    again = await cli("traces", "export", run_id, "--output", str(file))
    assert again.exit_code == 2
    assert "exists" in again.stderr

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    gone = await cli("traces", "export", run_id, "--endpoint", receiver.endpoint)
    assert gone.exit_code == 2
    assert "did not take the spans" in gone.stderr


async def test_a_run_that_is_not_there_is_an_error(
    cli: Invoke, client: Client, run_id: str
) -> None:
    assert client
    done = await cli("traces", "export", run_id, "-o", "-")
    assert done.exit_code != 0
    assert run_id in done.stderr


def test_a_run_or_a_search_and_one_place_are_needed() -> None:
    done = CliRunner().invoke(app, ["traces", "export"])
    assert done.exit_code == 2
    assert "outlast traces export --since 30d" in done.stderr
    places = ("--endpoint", "http://x", "--output", "y")
    done = CliRunner().invoke(app, ["traces", "export", "r", *places])
    assert done.exit_code == 2
    assert "not both" in done.stderr
