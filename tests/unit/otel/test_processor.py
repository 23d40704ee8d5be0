"""Spans and metrics of runs in memory, as an exporter of OpenTelemetry receives them."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, get_current_span

from outlast import (
    Agent,
    FallbackModel,
    GuardrailFunctionOutput,
    RunConfig,
    add_trace_processor,
    custom_span,
    function_tool,
    generation_span,
    input_guardrail,
    trace,
)
from outlast.agents.registry import Registry
from outlast.contract.stages import Stage, StageEnded
from outlast.loop.start import Start
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject, Usage
from outlast.otel import OpenTelemetryProcessor
from outlast.ports.model import ModelError, ModelRequest, ModelResponse
from outlast.pricing import Price, Pricing
from outlast.testing import ScriptedModel, call, costing, run_in_memory
from outlast.tracing.receivers import REGISTRATION
from outlast.tracing.stage_spans import StageSpans

PRICES = Pricing({"scripted": Price(Decimal(100_000), Decimal(200_000))})
SECRET = "the customer's secret"


class Exported:
    """What one processor has exported."""

    def __init__(self, *, pricing: Pricing = PRICES, **options: Any) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.processor = OpenTelemetryProcessor(
            exporter=self.exporter,
            meter_provider=MeterProvider([self.reader]),
            pricing=pricing,
            **options,
        )

    def spans(self) -> list[ReadableSpan]:
        REGISTRATION.flush(10)
        return list(self.exporter.get_finished_spans())

    def one(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans() if span.name == name]
        return found

    def metrics(self) -> dict[str, list[Any]]:
        REGISTRATION.flush(10)
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@contextmanager
def exporting(**options: Any) -> Generator[Exported]:
    exported = Exported(**options)
    add_trace_processor(exported.processor)
    try:
        yield exported
    finally:
        REGISTRATION.remove(exported.processor)
        exported.processor.shutdown()


@function_tool
def look_up(query: str) -> str:
    with custom_span("database", {"rows": 3}):
        return f"found {query}: {SECRET}"


@input_guardrail
def polite(_context: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


def support() -> tuple[Agent[Any], ScriptedModel]:
    billing = Agent(name="Billing", tools=[look_up])
    triage = Agent(name="Triage", tools=[look_up], handoffs=[billing], input_guardrails=[polite])
    model = ScriptedModel(
        [call("look_up", "c1", query="it")],
        [call("transfer_to_billing", "h1")],
        "Paid.",
    )
    model.name = "scripted"  # pyright: ignore[reportAttributeAccessIssue]  as providers' models have
    return triage, model


@pytest.mark.parametrize("is_async", [True, False])
async def test_spans_of_opentelemetry_in_a_tool_are_children_of_the_tools_span(
    is_async: bool,
) -> None:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("the program's own")
    own: list[Any] = []

    def query() -> str:
        with tracer.start_as_current_span("query") as span, tracer.start_as_current_span("rows"):
            own.append(span)
        return "found"

    async def awaited() -> str:
        await asyncio.sleep(0)
        return query()

    tool = function_tool(awaited if is_async else query, name_override="look_up")
    model = ScriptedModel([call("look_up", "c1"), call("look_up", "c2")], "Done.")
    with exporting() as exported:
        await run_in_memory(Agent(name="Clerk", tools=[tool]), "Where?", model=model)
        tools = {
            span.context.span_id: span.context.trace_id
            for span in exported.spans()
            if span.name == "execute_tool look_up" and span.context
        }
    assert {one.parent.span_id: one.context.trace_id for one in own} == tools
    assert len(tools) == 2
    assert not get_current_span().get_span_context().is_valid


async def test_the_current_span_of_opentelemetry_has_the_ids_of_the_exported_span() -> None:
    seen: list[tuple[SpanContext, str]] = []

    @function_tool
    def look() -> str:
        current = get_current_span()
        seen.append((current.get_span_context(), repr(current)))
        return "found"

    model = ScriptedModel([call("look", "c1")], "Done.")
    with exporting() as exported:
        await run_in_memory(Agent(name="Clerk", tools=[look]), "Where?", model=model)
        context = exported.one("execute_tool look").context
    assert context is not None
    assert seen == [(context, f"NonRecordingSpan({context!r})")]


async def test_a_processor_that_cannot_enter_a_span_ends_no_run() -> None:
    with exporting() as exported:

        def refuse(_span: object) -> Any:
            raise RuntimeError("no context here")

        REGISTRATION.active[-1].enter_span = refuse
        agent, model = support()
        result = await run_in_memory(agent, "Where?", model=model)
        assert result.final_output == "Paid."
        assert len(exported.spans()) > 10


async def test_a_question_is_one_tree_with_the_names_of_the_conventions() -> None:
    agent, model = support()
    with exporting() as exported:
        await run_in_memory(
            agent, "Where?", model=model, run_config=RunConfig(workflow_name="Desk")
        )
        spans = exported.spans()
    by_id = {span.context.span_id: span for span in spans if span.context}
    assert len(by_id) == len(spans)
    assert len({span.context.trace_id for span in spans if span.context}) == 1

    def path(span: ReadableSpan) -> str:
        return (
            span.name
            if span.parent is None
            else f"{path(by_id[span.parent.span_id])} > {span.name}"
        )

    root = "invoke_workflow Desk"
    assert sorted(map(path, spans)) == [
        root,
        f"{root} > invoke_agent Billing",
        f"{root} > invoke_agent Billing > turn 3",
        f"{root} > invoke_agent Billing > turn 3 > chat scripted",
        f"{root} > invoke_agent Triage",
        f"{root} > invoke_agent Triage > turn 1",
        f"{root} > invoke_agent Triage > turn 1 > apply_guardrail polite",
        f"{root} > invoke_agent Triage > turn 1 > chat scripted",
        f"{root} > invoke_agent Triage > turn 1 > execute_tool look_up",
        f"{root} > invoke_agent Triage > turn 1 > execute_tool look_up > database",
        f"{root} > invoke_agent Triage > turn 2",
        f"{root} > invoke_agent Triage > turn 2 > chat scripted",
        f"{root} > invoke_agent Triage > turn 2 > execute_tool transfer_to_billing",
    ]
    for span in spans:
        attributes = span.attributes or {}
        assert attributes["gen_ai.conversation.id"] == "in-memory"
        assert attributes["outlast.question"] == 1
        assert (span.start_time or 0) <= (span.end_time or 0)
        is_call = span.name.startswith("chat")
        assert span.kind == (SpanKind.CLIENT if is_call else SpanKind.INTERNAL)


async def test_a_model_call_says_its_tokens_and_its_cost() -> None:
    agent, model = support()
    with exporting() as exported:
        await run_in_memory(agent, "Where?", model=model)
        chat = next(span for span in exported.spans() if span.name == "chat scripted")
        metrics = exported.metrics()
    attributes = dict(chat.attributes or {})
    assert attributes["gen_ai.usage.input_tokens"] == 10
    assert attributes["gen_ai.usage.output_tokens"] == 5
    assert attributes["outlast.cost.usd"] == pytest.approx(2.0)
    assert attributes["gen_ai.response.id"] == "resp_1"
    assert attributes["gen_ai.agent.name"] == "Triage"
    tokens = {
        point.attributes["gen_ai.agent.name"]: point.value
        for point in metrics["gen_ai.client.inference.usage.input_tokens"]
    }
    assert tokens == {"Triage": 20, "Billing": 10}
    assert sum(point.value for point in metrics["outlast.cost"]) == pytest.approx(6.0)
    assert sum(point.count for point in metrics["gen_ai.client.inference.duration"]) == 3
    assert sum(point.count for point in metrics["gen_ai.execute_tool.duration"]) == 1
    assert sum(point.count for point in metrics["gen_ai.invoke_agent.duration"]) == 2


async def test_a_model_call_says_which_models_did_not_answer_before_it() -> None:
    failing = ModelError("Nothing is left.", code="quota_exceeded", retryable=False)
    models = FallbackModel(ScriptedModel(failing), ScriptedModel("Here."))
    with exporting() as exported:
        await run_in_memory(Agent[Any]("Triage", model=models), "Where?", model=ScriptedModel())
        chats = [span for span in exported.spans() if span.name.startswith("chat")]
    tried = [dict(span.attributes or {}).get("outlast.model.tried") for span in chats]
    assert tried == [None, "ScriptedModel: quota_exceeded"]
    assert chats[0].status.status_code is StatusCode.ERROR


async def test_a_question_its_agents_and_its_turns_have_the_cost_that_the_worker_recorded() -> None:
    house = Agent[Any](name="House", model="house-model", instructions="Answer.")
    desk = Agent[Any](name="Desk", model="gpt-5-mini", tools=[house.as_tool("ask_house", "Ask.")])
    used = Usage(requests=1, input_tokens=900, output_tokens=100, total_tokens=1_000)
    steps = [[call("ask_house", "c1", input="?")], "Yes.", "Done."]
    model = ScriptedModel(*(costing(used, step) for step in steps))
    with exporting(pricing=Pricing()) as exported:
        result = await run_in_memory(desk, "Where?", model=model)
        spans = exported.spans()
    found = {span.name: dict(span.attributes or {}) for span in spans}
    whole = float(result.cost.usd)
    root = found["invoke_workflow Agent workflow"]
    assert root["outlast.usage.cost_usd"] == found["invoke_agent Desk"]["outlast.usage.cost_usd"]
    assert (root["outlast.usage.cost_usd"], root["outlast.usage.unpriced_calls"]) == (whole, 1)
    chats = [
        cost
        for span in spans
        if isinstance(cost := (span.attributes or {}).get("outlast.cost.usd"), float)
    ]
    assert sum(chats) == pytest.approx(whole, abs=1e-12)
    assert "outlast.cost.usd" not in root, "a sum over spans counts each call once"
    assert found["turn 2"]["outlast.usage.cost_usd"] == pytest.approx(whole / 2)
    assert "outlast.usage.unpriced_calls" not in found["turn 2"]


@pytest.mark.parametrize("count", [-1, 10**400, 10**30])
async def test_a_span_of_a_program_may_report_any_number_of_tokens(count: int) -> None:
    with exporting(pricing=Pricing()) as exported, trace("program"):
        with generation_span(model="gpt-5-mini", usage={"input_tokens": count, "output_tokens": 1}):
            pass
        with custom_span("after"):
            pass
    assert "after" in {span.name for span in exported.spans()}


async def test_cached_tokens_are_told_and_cost_less() -> None:
    class Cached(ScriptedModel):
        async def get_response(self, request: ModelRequest) -> ModelResponse:
            response = await super().get_response(request)
            usage = Usage(
                requests=1, input_tokens=100, output_tokens=5, total_tokens=105, cached_tokens=90
            )
            return replace(response, usage=usage)

    prices = Pricing({"cached": Price(Decimal(10_000), Decimal(0), Decimal(1_000))})
    with exporting(pricing=prices) as exported:
        await run_in_memory(Agent(name="A", model="cached"), "Hi", model=Cached("Hello."))
        chat = next(span for span in exported.spans() if span.name.startswith("chat"))
    attributes = dict(chat.attributes or {})
    assert attributes["gen_ai.usage.cache_read.input_tokens"] == 90
    assert attributes["outlast.cost.usd"] == pytest.approx(0.1 + 0.09)


def test_a_span_of_the_programs_own_model_call_tells_its_usage() -> None:
    with exporting() as exported:
        usage = {"input_tokens": 7, "input_tokens_details": {"cached_tokens": 4}}
        with trace("Mine"), generation_span(model="scripted", usage=usage):
            pass
        attributes = dict(exported.one("chat scripted").attributes or {})
    assert attributes["gen_ai.usage.input_tokens"] == 7
    assert attributes["gen_ai.usage.cache_read.input_tokens"] == 4


async def test_content_is_exported_on_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def all_told(**options: Any) -> str:
        agent, model = support()
        with exporting(**options) as exported:
            await run_in_memory(agent, "Where is it?", model=model)
            return json.dumps([dict(span.attributes or {}) for span in exported.spans()])

    without = await all_told()
    assert SECRET not in without
    assert "Where is it?" not in without
    assert "found" not in without
    assert SECRET in await all_told(include_content=True)
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    assert SECRET in await all_told()
    assert SECRET not in await all_told(include_content=False)


async def test_a_run_that_hides_its_content_hides_it_from_a_processor_that_wants_it() -> None:
    agent, model = support()
    config = RunConfig(trace_include_sensitive_data=False)
    with exporting(include_content=True) as exported:
        await run_in_memory(agent, "Where is it?", model=model, run_config=config)
        told = json.dumps([dict(span.attributes or {}) for span in exported.spans()])
    assert SECRET not in told
    assert "Where is it?" not in told


async def test_a_failed_call_has_the_kind_of_its_error_and_no_text_of_it() -> None:
    @function_tool(failure_error_function=None)
    def broken() -> str:
        raise ValueError(SECRET)

    agent = Agent(name="A", tools=[broken])
    with exporting() as exported:
        with pytest.raises(Exception, match=SECRET):
            await run_in_memory(agent, "?", model=ScriptedModel([call("broken", "c1")]))
        spans = exported.spans()
    failed = {span.name: span for span in spans if span.status.status_code == StatusCode.ERROR}
    assert {"execute_tool broken", "invoke_agent A", "invoke_workflow Agent workflow"} <= {*failed}
    for span in failed.values():
        assert (span.attributes or {})["error.type"] == span.status.description
    assert SECRET not in str([(span.status.description, span.attributes) for span in spans])


def test_spans_say_for_whom_the_run_works() -> None:
    settings: JsonObject = {"customer": {"id": "c-17", "name": "Maria Olsen"}}
    state = LoopState(run_id="r", start=Start(started_at_ms=1_000, settings=settings))
    stage = Stage(kind="question", question=0, since_ms=1_000)
    with exporting() as exported:
        StageSpans(Registry([Agent(name="A")]))(state, (StageEnded(stage=stage, at_ms=2_000),))
        (span,) = exported.spans()
        assert (span.attributes or {})["user.id"] == "c-17"
        assert "Maria" not in str(span.attributes)


def test_a_repeated_workflow_task_repeats_no_span() -> None:
    state = LoopState(run_id="r", start=Start(started_at_ms=1_000))
    stage = Stage(kind="question", question=0, since_ms=1_000)
    ended = (StageEnded(stage=stage, at_ms=2_000),)
    observe = StageSpans(Registry([Agent(name="A")]))
    with exporting() as exported:
        observe(state, ended, execution="e1", tenant="acme")
        observe(state, (StageEnded(stage=stage, at_ms=2_500),), execution="e1", tenant="acme")
        (span,) = exported.spans()
        assert span.end_time == 2_000_000_000
        assert (span.attributes or {})["outlast.tenant"] == "acme"
        observe(state, ended, execution="e2")  # the run was reset
        assert [one.context for one in exported.spans()] == [span.context]


async def test_the_trace_has_a_link_to_the_span_of_the_caller() -> None:
    agent, model = support()
    tracer = TracerProvider().get_tracer("caller")
    with exporting() as exported:
        with tracer.start_as_current_span("request") as request:
            await run_in_memory(agent, "Where?", model=model)
        root = exported.one("invoke_workflow Agent workflow")
    (link,) = root.links
    assert link.context.span_id == request.get_span_context().span_id
    assert link.context.trace_id == request.get_span_context().trace_id
    assert all(not span.links for span in exported.spans() if span is not root)


async def test_the_group_of_a_trace_is_its_conversation_and_the_service_has_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent, model = support()
    config = RunConfig(group_id="chat-7", trace_metadata={"customer": "A"})
    with exporting() as exported:
        await run_in_memory(agent, "Where?", model=model, run_config=config)
        root = exported.one("invoke_workflow Agent workflow")
    assert (root.attributes or {})["gen_ai.conversation.id"] == "chat-7"
    assert (root.attributes or {})["outlast.metadata"] == '{"customer": "A"}'
    assert root.resource.attributes["service.name"] == "outlast"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "support")
    assert Exported().processor._converter.resource.attributes["service.name"] == "support"
    own = Exported(resource=Resource({"service.name": "desk"}))
    assert own.processor._converter.resource.attributes["service.name"] == "desk"


def test_nothing_of_opentelemetry_is_imported_before_it_is_used() -> None:
    code = (
        "import outlast, sys; import outlast.otel;"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
