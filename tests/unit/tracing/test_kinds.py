"""What spans tell, and what they keep to themselves."""

from typing import Any

import pytest
from openai.types.responses import Response, ResponseOutputMessage

from outlast.tracing.kinds import (
    AgentSpanData,
    CustomSpanData,
    DiscardedData,
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    MCPListToolsSpanData,
    ResponseSpanData,
    SpanData,
    SpanError,
)

ITEM = {"role": "user", "content": "My card is 4111."}

EXPORTS: list[tuple[SpanData, dict[str, Any]]] = [
    (
        AgentSpanData("Billing", handoffs=["Triage"], tools=["refund"], output_type="Refund"),
        {
            "type": "agent",
            "name": "Billing",
            "handoffs": ["Triage"],
            "tools": ["refund"],
            "output_type": "Refund",
        },
    ),
    (
        FunctionSpanData("refund", '{"order": 7}', {"paid": True}),
        {
            "type": "function",
            "name": "refund",
            "input": '{"order": 7}',
            "output": "{'paid': True}",
            "mcp_data": None,
        },
    ),
    (
        GenerationSpanData([ITEM], [ITEM], "gpt-5", {"temperature": 0}, {"input_tokens": 3}),
        {
            "type": "generation",
            "input": [ITEM],
            "output": [ITEM],
            "model": "gpt-5",
            "model_config": {"temperature": 0},
            "usage": {"input_tokens": 3},
        },
    ),
    (
        ResponseSpanData({"id": "resp_1", "usage": {"input_tokens": 3}, "output": [ITEM]}, "Hi"),
        {"type": "response", "response_id": "resp_1", "usage": {"input_tokens": 3}},
    ),
    (
        GuardrailSpanData("no_math", triggered=True),
        {"type": "guardrail", "name": "no_math", "triggered": True},
    ),
    (
        HandoffSpanData("Triage", "Billing"),
        {"type": "handoff", "from_agent": "Triage", "to_agent": "Billing"},
    ),
    (
        MCPListToolsSpanData("shelf", ["find"]),
        {"type": "mcp_tools", "server": "shelf", "result": ["find"]},
    ),
    (
        CustomSpanData("query", {"rows": 3}),
        {"type": "custom", "name": "query", "data": {"rows": 3}},
    ),
]


@pytest.mark.parametrize(("data", "exported"), EXPORTS, ids=lambda value: type(value).__name__)
def test_data_is_exported_with_its_type(data: SpanData, exported: dict[str, Any]) -> None:
    assert data.export() == exported
    assert data.type == exported["type"]


def test_a_function_without_a_result_has_none_and_zero_is_a_result() -> None:
    assert FunctionSpanData("f").export()["output"] is None
    assert FunctionSpanData("f", output=0).export()["output"] == "0"


def test_a_function_keeps_its_name_only() -> None:
    data = FunctionSpanData("refund", "4111", "4111", {"server": "4111"})
    data.drop_content()
    assert data == FunctionSpanData("refund")


def test_a_generation_keeps_model_and_usage() -> None:
    data = GenerationSpanData([ITEM], [ITEM], "gpt-5", None, {"input_tokens": 3})
    data.drop_content()
    assert data == GenerationSpanData(model="gpt-5", usage={"input_tokens": 3})


def test_a_response_keeps_id_model_and_usage() -> None:
    whole = {"id": "resp_1", "model": "gpt-5", "usage": {"input_tokens": 3}, "output": [ITEM]}
    data = ResponseSpanData(whole, [ITEM])
    data.drop_content()
    assert data.input is None
    kept = {"id": "resp_1", "model": "gpt-5", "usage": {"input_tokens": 3}}
    assert data.raw_response == {"object": "response", **kept}
    assert data.response.id == "resp_1"
    assert "output" in whole


def test_a_response_is_the_typed_one() -> None:
    """Processors of the SDK read it so."""
    text: Any = {"type": "output_text", "text": "Hi.", "annotations": []}
    message: Any = {"type": "message", "id": "m", "role": "assistant", "content": [text]}
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    data = ResponseSpanData({"id": "resp_1", "model": "gpt-5", "output": [message], "usage": usage})
    assert isinstance(data.response, Response)
    assert data.response.usage is not None
    assert (data.response.output_text, data.response.usage.input_tokens) == ("Hi.", 3)
    assert isinstance(data.response.output[0], ResponseOutputMessage)
    data.response.model = "hidden"
    assert data.export()["model"] == "hidden"
    assert ResponseSpanData(data.response).export() == data.export()
    data.response = None
    assert (data.response, data.raw_response, ResponseSpanData().response) == (None, {}, None)


@pytest.mark.parametrize(
    "data",
    [
        AgentSpanData("A"),
        GuardrailSpanData("g"),
        HandoffSpanData("A", "B"),
        MCPListToolsSpanData("shelf", ["find"]),
        CustomSpanData("c", {"chosen": 1}),
        ResponseSpanData(),
    ],
)
def test_what_holds_no_content_loses_nothing(data: SpanData) -> None:
    before = data.export()
    data.drop_content()
    assert data.export() == before


def test_an_error_is_a_mapping() -> None:
    assert SpanError(message="No.", data=None) == {"message": "No.", "data": None}


def test_discarded_data_takes_everything_and_keeps_nothing() -> None:
    data: Any = DiscardedData()
    data.output = "secret"
    data.data["key"] = "secret"
    assert (data.output, data.data, data.export()) == (None, {}, {})
    assert vars(data) == {}
    assert not hasattr(data, "__fspath__")
