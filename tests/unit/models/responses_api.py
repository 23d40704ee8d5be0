"""Answers of the Responses API, and a request to it, as the tests of its adapter use them."""

from typing import Any

from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest

HELLO: list[JsonObject] = [{"role": "user", "content": "hello"}]


def message(text: str) -> JsonObject:
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def response(*output: JsonObject, **fields: Any) -> JsonObject:
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "error": None,
        "output": list(output),
        "usage": {
            "input_tokens": 30,
            "input_tokens_details": {"cached_tokens": 20},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": 37,
        },
        **fields,
    }


def ask(items: list[JsonObject] | None = None, **fields: Any) -> ModelRequest:
    return ModelRequest(instructions="Be kind.", input=items or HELLO, **fields)
