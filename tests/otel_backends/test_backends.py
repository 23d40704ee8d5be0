"""Runs as a real collector and a real Phoenix see them."""

import asyncio
import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from outlast import Agent, RunConfig, add_trace_processor, function_tool
from outlast.otel import OpenTelemetryProcessor
from outlast.testing import ScriptedModel, call, run_in_memory
from outlast.tracing.receivers import REGISTRATION
from tests.otel_backends.conftest import ask
from tests.otlp import OtlpReceiver, tree

pytestmark = pytest.mark.timeout(400)
"""Phoenix starts slowly, and in `make nightly` beside other tests."""

TREE = """\
invoke_workflow Support
  invoke_agent Triage
    turn 1
      chat gpt-5-mini
      execute_tool look_up_order
    turn 2
      chat gpt-5-mini
      execute_tool transfer_to_billing
  invoke_agent Billing
    turn 3
      chat gpt-5-mini
      execute_tool refund
    turn 4
      chat gpt-5-mini"""

QUERY = """{ projects { edges { node {
    name traceCount costSummary { total { cost tokens } }
    spans(first: 50) { edges { node {
        name spanKind parentId attributes input { value } output { value }
        trace { traceId session { sessionId } }
    } } }
} } } }"""


@function_tool
def look_up_order(order: str) -> str:
    return f"Order {order}: paid on Monday, damaged on arrival."


@function_tool
def refund(order: str) -> str:
    return f"Refunded 49.90 EUR for {order}."


async def ask_support() -> None:
    billing = Agent(name="Billing", model="gpt-5-mini", tools=[refund])
    triage = Agent(name="Triage", model="gpt-5-mini", tools=[look_up_order], handoffs=[billing])
    model = ScriptedModel(
        [call("look_up_order", "c1", order="A-17")],
        [call("transfer_to_billing", "h1")],
        [call("refund", "c2", order="A-17")],
        "Your 49.90 EUR are on their way.",
    )
    model.name = "gpt-5-mini"  # pyright: ignore[reportAttributeAccessIssue]  as a provider's has
    config = RunConfig(workflow_name="Support")
    await run_in_memory(triage, "My order A-17 is broken.", model=model, run_config=config)


@contextmanager
def exporting() -> Generator[None]:
    processor = OpenTelemetryProcessor(include_content=True)
    add_trace_processor(processor)
    try:
        yield
    finally:
        REGISTRATION.flush(20)
        REGISTRATION.remove(processor)
        processor.shutdown()


async def test_a_collector_takes_the_spans_and_the_metrics(
    collector: str, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
    with exporting():
        await ask_support()
    count = len(TREE.splitlines())
    spans = await asyncio.to_thread(receiver.until, lambda found: len(found) >= count)
    assert tree(spans) == TREE
    wanted = {"gen_ai.client.inference.duration", "gen_ai.execute_tool.duration", "outlast.cost"}
    await asyncio.to_thread(receiver.until, lambda _found: wanted <= receiver.metrics)


async def test_phoenix_shows_the_tree_with_tokens_and_cost(
    phoenix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", phoenix)
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    with exporting():
        await ask_support()
    project = await asyncio.to_thread(until_counted, phoenix, 60)
    assert project["traceCount"] == 1
    assert project["costSummary"]["total"]["cost"] == pytest.approx(5e-5)
    spans = [edge["node"] for edge in project["spans"]["edges"]]
    kinds = {span["name"]: span["spanKind"] for span in spans}
    assert sorted(span["name"] for span in spans) == sorted(
        line.strip() for line in TREE.splitlines()
    )
    assert kinds["chat gpt-5-mini"] == "llm"
    assert kinds["execute_tool refund"] == "tool"
    assert kinds["invoke_agent Billing"] == "agent"
    assert kinds["invoke_workflow Support"] == kinds["turn 1"] == "chain"
    (root,) = [span for span in spans if span["parentId"] is None]
    assert root["name"] == "invoke_workflow Support"
    assert root["input"]["value"] == "My order A-17 is broken."
    assert root["output"]["value"] == "Your 49.90 EUR are on their way."
    assert root["trace"]["session"]["sessionId"] == "in-memory"
    calls = [json.loads(one["attributes"]) for one in spans if one["spanKind"] == "llm"]
    ends = [one["gen_ai"]["response"]["finish_reasons"] for one in calls]
    assert sorted(ends) == [["stop"], *[["tool_call"]] * 3]


def until_counted(phoenix: str, tokens: float, seconds: float = 60) -> Any:
    """Return the project with this many tokens: Phoenix prices each span some time after it came."""
    until = time.monotonic() + seconds
    found = None
    while time.monotonic() < until:
        for edge in ask(phoenix, QUERY)["projects"]["edges"]:
            found = edge["node"]
            if found["costSummary"]["total"]["tokens"] == tokens:
                return found
        time.sleep(0.5)
    pytest.fail(f"Phoenix has not counted {tokens} tokens: {found}")
