"""What each provider needs back with an assistant message goes back whole."""

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from outlast.loop.values import JsonObject
from outlast.models import ChatCompletionsModel, ResponsesModel
from outlast.models.openai.chat_reply import ChatReply, response_from_chat
from outlast.models.openai.chat_request import chat_messages
from outlast.models.openai.given_back import refused_fields
from outlast.ports.model import ModelRequest
from tests.unit.models.model_server import ModelServer
from tests.unit.models.responses_api import ask, message, response


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """What a provider needs back.

    Attributes:
        fields: the fields of an assistant message, or of its calls.
        when: when they are needed.
        source: the public page that says so.
    """

    fields: tuple[str, ...]
    when: str
    source: str


NEEDED_BACK: dict[str, Needed] = {
    "Claude and Gemini through LiteLLM": Needed(
        fields=("thinking_blocks", "provider_specific_fields"),
        when="always: the blocks, and the signatures of texts and calls",
        source="https://docs.litellm.ai/docs/reasoning_content",
    ),
    "Gemini": Needed(
        fields=("extra_content",),
        when="always: Gemini 3 refuses a call without its thought_signature",
        source="https://ai.google.dev/gemini-api/docs/thought-signatures",
    ),
    "OpenRouter": Needed(
        fields=("reasoning_details",),
        when="always: the whole list, in its order",
        source="https://openrouter.ai/docs/use-cases/reasoning-tokens",
    ),
    "DeepSeek": Needed(
        fields=("reasoning_content",),
        when="with calls, also if it is empty",
        source="https://api-docs.deepseek.com/guides/thinking_mode",
    ),
    "vLLM": Needed(
        fields=("reasoning", "reasoning_content"),
        when="with calls",
        source="https://docs.vllm.ai/en/v0.17.1/features/interleaved_thinking/",
    ),
    "Ollama": Needed(
        fields=("reasoning",),
        when="with calls",
        source="https://github.com/ollama/ollama/blob/main/openai/openai.go",
    ),
}
"""What each server that the documentation names needs back, as its table says over Chat Completions.

OpenAI and Azure OpenAI show no reasoning there. Over the Responses API, reasoning items go back as
they came, with their `encrypted_content`.
"""

CALL: JsonObject = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"at": 1}'},
}
TEXT: JsonObject = {
    "type": "reasoning.text",
    "text": "Let me look.",
    "signature": "c2ln",
    "format": "anthropic-claude-v1",
    "index": 0,
}
HIDDEN: JsonObject = {
    "type": "reasoning.encrypted",
    "data": "ZGF0YQ==",
    "id": "rs_1",
    "format": "openai-responses-v1",
    "index": 1,
}
THINKING: JsonObject = {"type": "thinking", "thinking": "Let me look.", "signature": "c2ln"}
SIGNED = {"google": {"thought_signature": "c2ln"}}

SAID: dict[str, list[JsonObject]] = {
    "Claude and Gemini through LiteLLM": [
        {"content": "Hm.", "thinking_blocks": [THINKING], "tool_calls": [CALL]},
        {"content": "Hm.", "provider_specific_fields": {"thought_signatures": ["c2ln"]}},
        {
            "content": None,
            "tool_calls": [{**CALL, "provider_specific_fields": {"thought_signature": "c2ln"}}],
        },
    ],
    "Gemini": [
        {"content": None, "tool_calls": [{**CALL, "extra_content": SIGNED}]},
        {"content": "Hm.", "extra_content": SIGNED},
    ],
    "OpenRouter": [
        {"content": "Hm.", "reasoning_details": [TEXT, HIDDEN], "tool_calls": [CALL]},
        {"content": "Hm.", "reasoning_details": [{**TEXT, "signature": None}, HIDDEN]},
    ],
    "DeepSeek": [
        {"content": "Hm.", "reasoning_content": "Let me look.", "tool_calls": [CALL]},
        {"content": None, "reasoning_content": "", "tool_calls": [CALL]},
    ],
    "vLLM": [
        {"content": None, "reasoning": "Let me look.", "tool_calls": [CALL]},
        {"content": None, "reasoning_content": "Let me look.", "tool_calls": [CALL]},
    ],
    "Ollama": [{"content": None, "reasoning": "Let me look.", "tool_calls": [CALL]}],
}
"""Messages of each provider, in which each field that it needs back occurs."""

EACH = [
    pytest.param(said, id=f"{provider} {number}")
    for provider, messages in SAID.items()
    for number, said in enumerate(messages)
]


def choice(**fields: object) -> JsonObject:
    return {"id": "c1", "choices": [{"index": 0, **fields}]}


def given_back(output: list[JsonObject], model: str = "m") -> JsonObject:
    [back] = chat_messages(None, output, model=model)
    return back


@pytest.mark.parametrize("said", EACH)
def test_a_message_goes_back_as_it_came(said: JsonObject) -> None:
    whole = choice(message=said, finish_reason="stop")
    output = response_from_chat(deepcopy(whole), turn=1, model="m")["output"]
    assert given_back(output) == {"role": "assistant", **said}


@pytest.mark.parametrize("said", EACH)
def test_nothing_of_it_goes_to_another_model(said: JsonObject) -> None:
    whole = choice(message=said, finish_reason="stop")
    output = response_from_chat(deepcopy(whole), turn=1, model="m")["output"]
    plain = {name: said[name] for name in ("content", "tool_calls") if name in said}
    if "tool_calls" in said:
        plain["tool_calls"] = [CALL]
    assert given_back(output, "another") == {"role": "assistant", **plain}


@pytest.mark.parametrize("said", EACH)
def test_a_streamed_message_goes_back_as_a_whole_one_does(said: JsonObject) -> None:
    reply = ChatReply(turn=1, model="m")
    for name, value in said.items():
        for piece in pieces(name, value):
            reply.add(choice(delta={name: piece}))
    reply.add(choice(delta={}, finish_reason="stop"))
    output = reply.finish()[-1]["response"]["output"]
    assert given_back(output) == {"role": "assistant", **said}


def pieces(name: str, value: Any) -> list[Any]:
    """Return a field as a stream sends it: texts and blocks in two pieces each."""
    if isinstance(value, str):
        return [value[:2], value[2:]]
    if name == "tool_calls":
        return [[{"index": 0, **CALL, **call}] for call in value]
    if not isinstance(value, list):
        return [value]
    blocks: list[Any] = []
    for block in cast("list[JsonObject]", value):
        field = {"reasoning.text": "text", "thinking": "thinking"}.get(block["type"])
        if field is None:
            blocks.append([block])
            continue
        start = {**block, field: block[field][:3]}
        rest = {"type": block["type"], field: block[field][3:]}
        if "index" in block:
            rest["index"] = block["index"]
        blocks += [[{**start, "signature": None}], [{**rest, "signature": block["signature"]}]]
    return blocks


def test_each_provider_and_field_of_the_table_has_a_message_here() -> None:
    assert SAID.keys() == NEEDED_BACK.keys()
    for provider, needed in NEEDED_BACK.items():
        messages = SAID[provider]
        calls = [call for said in messages for call in said.get("tool_calls", ())]
        named = {name for said in [*messages, *calls] for name in said}
        assert set(needed.fields) <= named, provider


def test_the_documentation_has_the_table() -> None:
    page = Path("docs/how-to/third-party-servers.md").read_text(encoding="utf-8")
    for provider, needed in NEEDED_BACK.items():
        fields = ", ".join(f"`{name}`" for name in needed.fields)
        row = f"| {provider} | {fields} | {needed.when} | [source]({needed.source}) |"
        assert row in page


def test_thoughts_that_nobody_signed_go_back_with_calls_only() -> None:
    said = {"content": "Hm.", "reasoning_content": "Let me look."}
    output = response_from_chat(choice(message=said), turn=1, model="m")["output"]
    assert given_back(output) == {"role": "assistant", "content": "Hm."}


@pytest.mark.parametrize(
    ("host", "model"),
    [
        ("api.groq.com", "qwen3"),
        ("", "groq/qwen3"),
        ("api.cerebras.ai", "gpt-oss"),
        ("", "cerebras/x"),
    ],
)
@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_servers_that_refuse_their_own_thoughts_do_not_get_them(
    host: str, model: str, field: str
) -> None:
    said = {"content": None, field: "Let me look.", "tool_calls": [CALL]}
    output = response_from_chat(choice(message=said), turn=1, model=model)["output"]
    [back] = chat_messages(None, output, model=model, refused=refused_fields(host, model))
    assert back == {"role": "assistant", "content": None, "tool_calls": [CALL]}


async def test_what_a_server_needs_back_reaches_it(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    [said, _] = SAID["OpenRouter"]
    server.answer(choice(message=said))
    asked: JsonObject = {"role": "user", "content": "Look."}
    first = await chat.get_response(ModelRequest(instructions=None, input=[asked]))
    server.answer(choice(message={"content": "Done."}))
    output = {"type": "function_call_output", "call_id": "call_1", "output": "seen"}
    await chat.get_response(ModelRequest(instructions=None, input=[asked, *first.output, output]))
    assert server.requests[-1].body["messages"][1] == {"role": "assistant", **said}


async def test_reasoning_of_the_responses_api_goes_back_with_what_is_encrypted_in_it(
    model: ResponsesModel, server: ModelServer
) -> None:
    thought: JsonObject = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "Z0FB",
    }
    server.answer(response(thought, message("hi")))
    first = await model.get_response(ask())
    server.answer(response(message("ho")))
    await model.get_response(ask([*first.output]))
    assert server.requests[-1].body["input"][0] == thought
