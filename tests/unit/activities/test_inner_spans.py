"""What effects tell of their model calls, guardrails and failures."""

import asyncio
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from outlast.activities.inner_spans import (
    ModelSpan,
    record_failure,
    record_server,
    traced_guardrail,
    traced_listing,
)
from outlast.agents.config.model_settings import ModelSettings
from outlast.loop.values import Usage
from outlast.ports.model import ModelRequest, ModelResponse
from outlast.testing import SpanCollector
from outlast.tracing.effect_spans import NO_SCOPE, TraceScope, around_effect, scope_of
from outlast.tracing.kinds import FunctionSpanData
from outlast.tracing.provider import custom_span, open_span
from tests.mcp_servers import Shelf, tool

REQUEST = ModelRequest(
    instructions="Be brief.",
    input=[{"role": "user", "content": "Why?"}],
    settings=ModelSettings(
        temperature=0.5,
        extra_headers={"Authorization": "key-1"},
        extra_body={"token": "key-1"},
        extra_query={"token": "key-1"},
        extra_args={"token": "key-1"},
        metadata={"token": "key-1"},
    ),
)
RESPONSE = ModelResponse(
    output=[{"type": "message"}],
    usage=Usage(
        requests=1,
        input_tokens=7,
        output_tokens=2,
        total_tokens=9,
        cached_tokens=4,
        reasoning_tokens=3,
    ),
)


@pytest.fixture
def collected() -> Generator[SpanCollector]:
    with SpanCollector() as collector:
        yield collector


def scope(**settings: object) -> TraceScope:
    return scope_of(settings, "r", agent="A")


def ask(within: TraceScope) -> None:
    with around_effect(within, effect=2), ModelSpan("gpt-x", REQUEST) as record_response:
        record_response(RESPONSE)


def test_a_call_of_the_responses_api_has_the_id_of_its_response(collected: SpanCollector) -> None:
    answered = replace(RESPONSE, response_id="resp_1")
    for effect, is_shown in enumerate((True, False)):
        within = scope(trace_include_sensitive_data=is_shown)
        with (
            around_effect(within, effect=effect),
            ModelSpan("gpt-x", REQUEST, SimpleNamespace(api="responses")) as record_response,
        ):
            record_response(answered)
    shown, hidden = collected.spans()
    exported = shown.span_data.export()
    assert (exported["type"], exported["response_id"]) == ("response", "resp_1")
    assert (exported["model"], exported["usage"]["input_tokens"]) == ("gpt-x", 7)
    assert shown.span_data.raw_response["output"] == [{"type": "message"}]
    assert shown.span_data.input[0] == {"role": "system", "content": "Be brief."}
    assert hidden.span_data.export() == exported
    assert (hidden.span_data.input, hidden.span_data.raw_response.get("output")) == (None, None)


def test_a_model_call_tells_what_was_asked_and_answered(collected: SpanCollector) -> None:
    ask(scope())
    (span,) = collected.spans()
    assert span.parent_id == scope().agent_span_id
    exported = span.span_data.export()
    assert exported["input"] == [{"role": "system", "content": "Be brief."}, *REQUEST.input]
    assert exported["output"] == [{"type": "message"}]
    assert exported["model"] == "gpt-x"
    assert exported["usage"] == {
        "requests": 1,
        "input_tokens": 7,
        "output_tokens": 2,
        "total_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 3},
    }


def test_a_model_call_tells_no_keys(collected: SpanCollector) -> None:
    ask(scope())
    (span,) = collected.spans()
    assert span.span_data.model_config == {"temperature": 0.5}
    assert "key-1" not in str(span.export())


def test_settings_that_are_not_json_are_left_out(collected: SpanCollector) -> None:
    request = replace(REQUEST, settings=ModelSettings(extra_args={"callback": print}))
    with around_effect(scope(), effect=2), ModelSpan("gpt-x", request):
        pass
    assert collected.spans()[0].span_data.model_config == {}


def test_a_model_call_without_content_tells_its_usage(collected: SpanCollector) -> None:
    ask(scope(trace_include_sensitive_data=False))
    exported = collected.spans()[0].span_data.export()
    assert (exported["input"], exported["output"]) == (None, None)
    assert exported["usage"]["requests"] == 1


def test_a_model_call_that_fails_says_why(collected: SpanCollector) -> None:
    with (
        pytest.raises(OSError, match="gone"),
        around_effect(scope(), effect=2),
        ModelSpan("gpt-x", REQUEST),
    ):
        raise OSError("gone")
    assert "gone" in str(collected.spans()[0].error)


@pytest.mark.parametrize("trips", [True, False])
async def test_a_guardrail_tells_its_verdict(collected: SpanCollector, trips: bool) -> None:
    async def check() -> bool:
        return trips

    with around_effect(scope(), effect=2):
        assert await traced_guardrail("polite", check, tripped=bool) is trips
    (span,) = collected.spans("guardrail")
    assert span.span_data.export() == {"type": "guardrail", "name": "polite", "triggered": trips}


async def test_a_guardrail_that_is_stopped_before_it_began_leaves_nothing_behind(
    collected: SpanCollector,
) -> None:
    async def check() -> bool:
        return True

    task = asyncio.create_task(traced_guardrail("polite", partial(check), tripped=bool))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert collected.spans() == []


def test_a_failure_that_is_not_raised_is_told(collected: SpanCollector) -> None:
    with around_effect(scope(), effect=2), custom_span("work"):
        record_failure("f", "f raised OSError: no disk", "tool_failed", OSError("no disk"))
    assert collected.spans()[0].error == {
        "message": "f raised OSError: no disk",
        "data": {"tool_name": "f", "error": "no disk", "code": "tool_failed"},
    }


def test_a_failure_may_hold_what_must_not_be_told(collected: SpanCollector) -> None:
    quiet = scope(trace_include_sensitive_data=False)
    with around_effect(quiet, effect=2), custom_span("work"):
        record_failure("f", "no card 4111", "tool_failed", ValueError("no card 4111"))
    assert "4111" not in str(collected.spans()[0].export())


def test_a_run_that_is_not_traced_tells_nothing(collected: SpanCollector) -> None:
    ask(NO_SCOPE)
    with around_effect(NO_SCOPE, effect=2), custom_span("work"):
        record_failure("f", "f raised OSError: no disk", "tool_failed", OSError("no disk"))
    assert collected.spans() == collected.open_spans == []


def test_nobody_listens_and_nothing_happens() -> None:
    record_failure("f", "f raised OSError: no disk", "tool_failed", OSError("no disk"))
    with ModelSpan("gpt-x", REQUEST) as record_response:
        record_response(RESPONSE)


async def test_asking_an_mcp_server_tells_its_tools(collected: SpanCollector) -> None:
    with around_effect(scope(), effect=2):
        assert len(await traced_listing(Shelf(tool("find"), tool("tear")), None, None)) == 2
    (span,) = collected.spans()
    assert span.span_data.export() == {
        "type": "mcp_tools",
        "server": "shelf",
        "result": ["find", "tear"],
    }


def test_a_call_of_an_mcp_tool_tells_its_server(collected: SpanCollector) -> None:
    with around_effect(scope(), effect=2), open_span(FunctionSpanData("find")):
        record_server("shelf")
    (span,) = collected.spans()
    assert span.span_data.mcp_data == {"server": "shelf"}


def test_outside_a_call_no_server_is_told(collected: SpanCollector) -> None:
    with around_effect(scope(), effect=2), custom_span("other"):
        record_server("shelf")
    record_server("shelf")
    assert "shelf" not in str([span.export() for span in collected.spans()])
