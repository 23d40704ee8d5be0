"""The shapes of answers: what only the pure part can show; the typed client checks the rest."""

from itertools import count
from typing import Any

from outlast.dev.offline_request import InvalidRequestError, read_request
from outlast.dev.offline_rules import CallTool, Reply, SayText
from outlast.dev.offline_wire import error_object, response_object, stream_events

REPLIES: list[Reply] = [
    CallTool(name="refund", arguments={"order_id": "A-17", "reason": "zu spät"}),
    SayText(text="One two  three."),
]


def response(**body: Any) -> dict[str, Any]:
    body = {"model": "m", "input": "Hello there", **body}
    ids = count(1)
    return response_object(
        body,
        read_request(body),
        REPLIES,
        new_id=lambda prefix: f"{prefix}{next(ids)}",
        created_at=1_700_000_000,
    )


def test_every_object_has_an_id_of_its_kind():
    made = response()
    assert made["id"].startswith("resp_")
    call, message = made["output"]
    assert call["id"].startswith("fc_")
    assert call["call_id"].startswith("call_")
    assert message["id"].startswith("msg_")


def test_usage_is_an_estimate_that_stays_the_same():
    usage, again, longer = (
        response(input=text)["usage"] for text in ("Hello", "Hello", "Hello there")
    )
    assert usage == again
    assert longer["input_tokens"] > usage["input_tokens"] > 0
    assert usage["output_tokens"] > 0
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_the_settings_of_the_request_are_echoed():
    made = response(temperature=0.2, metadata={"run": "1"}, store=False, instructions="Be kind.")
    assert made["temperature"] == 0.2
    assert made["metadata"] == {"run": "1"}
    assert made["store"] is False
    assert made["instructions"] == "Be kind."


def test_events_are_numbered_and_framed():
    made = response()
    events = list(stream_events(made))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    assert events[0]["response"]["output"] == []
    assert events[0]["response"]["usage"] is None
    assert events[-1] == {
        "type": "response.completed",
        "sequence_number": len(events) - 1,
        "response": made,
    }


def test_chunks_add_up_to_the_whole():
    events = list(stream_events(response()))
    text = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
    assert text == ["One ", "two  ", "three."]
    kind = "response.function_call_arguments"
    chunks = [e["delta"] for e in events if e["type"] == f"{kind}.delta"]
    whole = [e["arguments"] for e in events if e["type"] == f"{kind}.done"]
    assert len(chunks) > 1
    assert ["".join(chunks)] == whole == ['{"order_id": "A-17", "reason": "zu spät"}']


def test_a_refusal_has_the_shape_of_the_real_one():
    error = InvalidRequestError("No.", param="input", code="invalid_type")
    assert error_object(error) == {
        "error": {
            "message": "No.",
            "type": "invalid_request_error",
            "param": "input",
            "code": "invalid_type",
        }
    }
