"""What spans say of a call, a wait and a question, and what they leave out."""

import hashlib
import json
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, TraceIdRatioBased
from opentelemetry.trace import get_current_span

from outlast import (
    Agent,
    ApprovalPolicy,
    ModelRetrySettings,
    ModelSettings,
    OpenAIProvider,
    custom_span,
    function_tool,
)
from outlast.activities.tracing import traced
from outlast.agents.errors import AgentsException, UserError
from outlast.agents.registry import Registry
from outlast.contract.effects import EffectRequest
from outlast.contract.stages import Stage, StageBegun, StageEnded
from outlast.loop.approvals import ApprovalTerms
from outlast.loop.calls import RequiredApproval, ToolResult
from outlast.loop.effects import RunTool
from outlast.loop.start import Start
from outlast.loop.state import LoopState
from outlast.ports.model import ModelError
from outlast.testing import ScriptedModel, call, run_in_memory
from outlast.tracing.stage_spans import StageSpans
from tests.hostile_text import assert_visible
from tests.unit.models.model_server import ModelServer
from tests.unit.models.responses_api import message, response
from tests.unit.otel.test_processor import Exported, exporting

CARD = "4111-1111-1111-1111"


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def told(exported: Exported) -> str:
    spans = exported.spans()
    return json.dumps([[one.name, one.status.description, attributes(one)] for one in spans])


@function_tool(needs_approval=ApprovalPolicy(redact=["card", "pin"], redact_for=["finance"]))
def pay(card: str, pin: int) -> str:
    """Pay."""
    with custom_span("terminal", {"card": card}):
        return f"paid with {card}"


@function_tool
def fail() -> str:
    """Fail with what somebody said before."""
    raise ValueError(f"no money on {CARD}")


def pay_with(card: str) -> str:
    """Pay."""
    return f"paid with {card}"


def payer(**fields: Any) -> Agent[Any]:
    return Agent(name="Payer", tools=[pay, fail], **fields)


def script() -> tuple[Any, ...]:
    return (
        [call("pay", "c1", card=CARD, pin=12)],
        [call("fail", "c2")],
        f"Paid with {CARD.replace('-', ' ')}.",
    )


# --- Hidden values --------------------------------------------------------------------------------


async def test_spans_with_content_hide_what_policies_redact() -> None:
    with exporting(include_content=True) as exported:
        await run_in_memory(
            payer(), f"Pay with {CARD}", model=ScriptedModel(*script()), decide=lambda _: True
        )
        text = told(exported)
        tool = exported.one("execute_tool pay")
        first, *_ = [one for one in exported.spans() if one.name.startswith("chat")]
    assert "4111" not in text
    assert attributes(tool)["gen_ai.tool.call.arguments"] == (
        '{"card": "[redacted]", "pin": "[redacted]"}'
    )
    assert attributes(tool)["gen_ai.tool.call.result"] == "paid with [redacted]"
    assert json.loads(attributes(first)["gen_ai.input.messages"])[0]["parts"] == [
        {"type": "text", "content": "Pay with [redacted]"}
    ]
    (called,) = json.loads(attributes(first)["gen_ai.output.messages"])[0]["parts"]
    assert called["arguments"] == {"card": "[redacted]", "pin": "[redacted]"}


async def test_what_a_run_hides_its_nested_runs_hide_too_and_the_other_way_round() -> None:
    inner = payer().as_tool("ask_payer", "Ask the payer.")
    outer = Agent(name="Desk", tools=[inner, pay])
    model = ScriptedModel(
        [call("pay", "c1", card=CARD, pin=12)],
        [call("ask_payer", "c2", input=f"Is {CARD} charged, and 5500-0000-0000-0004?")],
        [call("pay", "c3", card="5500-0000-0000-0004", pin=13)],
        f"{CARD} and 5500 0000 0000 0004 are charged.",
        "Both, 5500 0000 0000 0004, too.",
    )
    with exporting(include_content=True) as exported:
        await run_in_memory(outer, "Pay.", model=model, decide=lambda _: True)
        text = told(exported)
    assert "4111" not in text
    after = text[text.index("are charged") :]
    assert "5500" not in after
    nested = [one for one in exported.spans() if one.name == "execute_tool ask_payer"]
    assert len(nested) == 1
    assert "[redacted]" in attributes(nested[0])["gen_ai.tool.call.arguments"]


async def test_a_call_that_its_worker_finds_to_need_approval_hides_it_at_once() -> None:
    """During a deploy, the worker of a call may have another policy than that of the reply."""
    effect = RunTool(
        effect=1,
        agent="Payer",
        run_id="r",
        turn=1,
        name="pay",
        call_id="c1",
        arguments=f'{{"card": "{CARD}"}}',
    )
    required = RequiredApproval(terms=ApprovalTerms(redact=("card",)))

    async def work() -> ToolResult:
        return ToolResult(output=None, required=required)

    with exporting(include_content=True) as exported:
        await traced(EffectRequest(effect=effect), work, attempt=1)
        (span,) = exported.spans()
    assert attributes(span)["gen_ai.tool.call.arguments"] == '{"card": "[redacted]"}'


async def test_nothing_is_hidden_where_no_policy_says_so() -> None:
    plain = function_tool(pay_with, name_override="pay")
    with exporting(include_content=True) as exported:
        await run_in_memory(
            Agent(name="A", tools=[plain]),
            "Pay.",
            model=ScriptedModel([call("pay", "c1", card=CARD)], "Done."),
        )
        assert "4111" in told(exported)


async def test_a_program_s_function_redacts_and_what_it_fails_at_is_left_out() -> None:
    def redact(name: str, value: Any) -> Any:
        if name == "gen_ai.tool.call.result":
            raise ValueError
        if name == "outlast.data":
            return None
        return str(value).replace("4111", "****")

    plain = function_tool(pay_with, name_override="pay")
    model = ScriptedModel([call("pay", "c1", card=CARD)], [call("fail", "c2")], "Done.")
    agent = Agent(name="A", tools=[plain, fail])
    with exporting(include_content=True, redact=redact) as exported:
        await run_in_memory(agent, f"Pay with {CARD}.", model=model)
        tool = attributes(exported.one("execute_tool pay"))
        text = told(exported)
    assert "4111" not in text
    assert "****" in tool["gen_ai.tool.call.arguments"]
    assert "gen_ai.tool.call.result" not in tool
    assert "****" in str(exported.one("execute_tool fail").status.description)


# --- Model calls ----------------------------------------------------------------------------------


async def test_a_model_call_says_its_server_its_model_and_how_it_ended() -> None:
    async with ModelServer() as server:
        asked = {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "x",
            "name": "fail",
            "arguments": "{}",
            "status": "completed",
        }
        server.answer(response(asked, model="gpt-5-2026-08-07"))
        server.answer(response(message("Done."), model="gpt-5-2026-08-07"))
        provider = OpenAIProvider(api_key="sk-test", base_url=server.base_url)
        agent = payer(model="gpt-5", instructions="Be brief.")
        with exporting() as exported:
            await run_in_memory(agent, "Hi", model=provider.get_model("gpt-5"))
            calls = [attributes(one) for one in exported.spans() if one.name == "chat gpt-5"]
        await provider.aclose()
    assert [one["gen_ai.response.finish_reasons"] for one in calls] == [("tool_call",), ("stop",)]
    for one in calls:
        assert one["gen_ai.request.model"] == "gpt-5"
        assert one["gen_ai.response.model"] == "gpt-5-2026-08-07"
        assert (one["server.address"], one["server.port"]) == (
            "127.0.0.1",
            int(server.base_url.rpartition(":")[2].split("/")[0]),
        )
        digest = hashlib.sha256(b"Be brief.").hexdigest()
        assert one["outlast.instructions.sha256"] == digest
        assert "gen_ai.request.stream" not in one, "nobody streams"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ModelError("no", code="invalid_request", retryable=False, status=400), "400"),
        (ModelError("no", code="unreachable", retryable=False), "unreachable"),
        (ValueError("no"), "user_error"),
    ],
)
async def test_a_failed_model_call_says_its_status_or_its_code(error: Any, kind: str) -> None:
    settings = ModelSettings(retry=ModelRetrySettings(max_retries=0))
    with exporting() as exported:
        with pytest.raises((AgentsException, ValueError)):
            await run_in_memory(
                Agent(name="A", model_settings=settings), "Hi", model=ScriptedModel(*[error] * 4)
            )
        failed = [one for one in exported.spans() if one.name.startswith("chat")]
    assert {attributes(one)["error.type"] for one in failed} == {kind}
    assert {one.status.description for one in failed} == {kind}


# --- Calls that do not run ------------------------------------------------------------------------


async def test_calls_that_do_not_run_have_spans_that_say_why() -> None:
    hostile = "wipe\x1b[2J" + "x" * 500
    model = ScriptedModel(
        [call(hostile, "c1"), call("pay", "c2", card=CARD)],
        [call("pay", "c3", card=CARD, pin=12)],
        "Nothing.",
    )
    with exporting(include_content=True) as exported:
        await run_in_memory(payer(), "Pay.", model=model, decide=lambda _: False)
        spans = {
            attributes(one)["gen_ai.tool.call.id"]: one
            for one in exported.spans()
            if one.name.startswith("execute_tool")
        }
        turns = {one.context.span_id: one.name for one in exported.spans() if one.context}
    kinds = {key: attributes(one)["error.type"] for key, one in spans.items()}
    assert kinds == {"c1": "unknown_tool", "c2": "invalid_call", "c3": "rejected"}
    assert_visible(spans["c1"].name)
    assert len(spans["c1"].name) < 150
    parents = [turns[one.parent.span_id] for one in spans.values() if one.parent]
    assert parents == ["turn 1", "turn 1", "turn 2"]
    assert "12" not in attributes(spans["c3"])["gen_ai.tool.call.arguments"]


# --- Questions and waits --------------------------------------------------------------------------


async def test_the_root_has_the_question_and_the_answer_where_content_is_wanted() -> None:
    async def root(**options: Any) -> dict[str, Any]:
        with exporting(**options) as exported:
            await run_in_memory(payer(), "Are you there?", model=ScriptedModel("Yes."))
            return attributes(exported.one("invoke_workflow Agent workflow"))

    with_content, without = await root(include_content=True), await root()
    assert (with_content["input.value"], with_content["output.value"]) == ("Are you there?", "Yes.")
    assert json.loads(with_content["gen_ai.input.messages"])[0]["role"] == "user"
    assert json.loads(with_content["gen_ai.output.messages"])[0]["role"] == "assistant"
    assert "Yes." not in str(without)
    assert "there" not in str(without)
    assert without["session.id"] == without["gen_ai.conversation.id"] == "in-memory"


async def test_a_wait_says_who_decided() -> None:
    with exporting() as exported:
        await run_in_memory(payer(), "Pay.", model=ScriptedModel(*script()), decide=lambda _: True)
        wait = attributes(exported.one("wait pay"))
    assert wait["outlast.wait.outcome"] == "approved"
    assert wait["outlast.wait.decided_by"]


# --- Sampling -------------------------------------------------------------------------------------


async def test_traces_are_sampled_as_a_whole_and_counted_all() -> None:
    flags: list[bool] = []

    @function_tool
    def look() -> str:
        flags.append(get_current_span().get_span_context().trace_flags.sampled)
        return "seen"

    async def run(number: int) -> None:
        model = ScriptedModel([call("look", "c1")], "Done.")
        agent = Agent(name="A", tools=[look])
        await run_in_memory(agent, "Hi", model=model, run_id=f"run-{number}")

    with exporting(sampler=TraceIdRatioBased(0.5)) as exported:
        for number in range(24):
            await run(number)
        by_trace: dict[int, int] = {}
        for one in exported.spans():
            assert one.context is not None
            by_trace[one.context.trace_id] = by_trace.get(one.context.trace_id, 0) + 1
        (point,) = exported.metrics()["gen_ai.execute_tool.duration"]
    assert 0 < len(by_trace) < 24
    assert len(set(by_trace.values())) == 1, "a trace is whole"
    assert sum(flags) == len(by_trace), "spans of the program follow"
    assert point.count == 24
    with exporting(sampler=ALWAYS_OFF) as exported:
        await run(0)
        assert exported.spans() == []


@pytest.mark.parametrize(
    ("name", "argument", "sent"),
    [
        ("traceidratio", "0", False),
        ("parentbased_traceidratio", "1", True),
        ("always_off", "", False),
        ("parentbased_always_on", "", True),
    ],
)
async def test_the_environment_chooses_the_sampler(
    monkeypatch: pytest.MonkeyPatch, name: str, argument: str, sent: bool
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", name)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)
    with exporting() as exported:
        await run_in_memory(Agent(name="A"), "Hi", model=ScriptedModel("Hi."))
        assert bool(exported.spans()) is sent


@pytest.mark.parametrize(("name", "argument"), [("mine", ""), ("traceidratio", "half")])
def test_a_sampler_that_there_is_not_is_said(
    monkeypatch: pytest.MonkeyPatch, name: str, argument: str
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", name)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)
    with pytest.raises(UserError, match="OTEL_TRACES_SAMPLER"):
        Exported()


@pytest.mark.parametrize("content", [True, False])
def test_a_rating_is_an_evaluation_and_its_words_are_content(*, content: bool) -> None:
    stage = Stage(
        kind="rating", question=0, agent="A", name="2", arguments=f"Not {CARD}", request="7"
    )
    state = LoopState(run_id="support-42", start=Start(started_at_ms=1_000))

    def redact(_: str, text: str) -> str:
        return text.replace(CARD, "X")

    with exporting(include_content=content, redact=redact) as found:
        StageSpans(Registry([Agent(name="A")]))(
            state, (StageBegun(stage=stage), StageEnded(stage=stage, at_ms=0))
        )
        span = found.one("gen_ai.evaluation.result")
    said = {
        name.removeprefix("gen_ai.evaluation."): value
        for name, value in attributes(span).items()
        if name.startswith("gen_ai.evaluation.")
    }
    words = {"explanation": "Not X"} if content else {}
    assert said == {"name": "customer rating", "score.value": 2, "score.label": "bad", **words}
    assert span.start_time == span.end_time
