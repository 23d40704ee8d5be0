import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessageParam
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

from outlast.agents.config.model_settings import MCPToolChoice, ModelSettings
from outlast.agents.tools.hosted import WebSearchTool
from outlast.extensions.machine.shell import ShellTool
from outlast.loop.values import JsonObject
from outlast.models.openai.chat_request import UnsupportedItemError, chat_body, chat_messages
from outlast.ports.model import ModelRequest, OutputSpec, ToolSpec
from outlast.testing import computer_call, custom_call, shell_call

DECLARED: TypeAdapter[Any] = TypeAdapter(list[ChatCompletionMessageParam])


def user(content: object) -> JsonObject:
    return {"role": "user", "content": content}


def said(text: str) -> JsonObject:
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def call(call_id: str, name: str = "look_up", arguments: str = "{}") -> JsonObject:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


def output(call_id: str, value: object) -> JsonObject:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


def tool_call(call_id: str, name: str = "look_up", arguments: str = "{}") -> JsonObject:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def ask(*items: JsonObject, **fields: Any) -> ModelRequest:
    return ModelRequest(instructions=None, input=items or [user("hello")], **fields)


def messages(*items: JsonObject) -> list[JsonObject]:
    made = chat_messages(None, items)
    DECLARED.validate_python(made)
    return made


def test_instructions_come_first_and_only_if_there_are_some() -> None:
    assert chat_messages("Be kind.", [user("hello")]) == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hello"},
    ]
    assert chat_messages("", [user("hello")]) == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("role", "sent"), [("user", "user"), ("system", "system"), ("developer", "system")]
)
def test_the_role_of_a_message_is_one_that_all_servers_know(role: str, sent: str) -> None:
    parts = [{"type": "input_text", "text": "one"}, {"type": "input_text", "text": "two"}]
    assert messages(
        {"type": "message", "role": role, "content": "one"}, {"role": role, "content": parts}
    ) == [{"role": sent, "content": "one"}, {"role": sent, "content": "one\ntwo"}]


def test_images_files_and_sound_become_parts() -> None:
    parts = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"},
        {"type": "input_image", "image_url": "https://example.com/a.png"},
        {"type": "input_file", "file_data": "data:text/plain;base64,AA==", "filename": "a.txt"},
        {"type": "input_file", "file_id": "file_1", "filename": None},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ]
    assert messages(user(parts))[0]["content"] == [
        {"type": "text", "text": "look"},
        {
            "type": "image_url",
            "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"},
        },
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {
            "type": "file",
            "file": {"file_data": "data:text/plain;base64,AA==", "filename": "a.txt"},
        },
        {"type": "file", "file": {"file_id": "file_1"}},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ]


def test_an_answer_becomes_an_assistant_message() -> None:
    assert messages(user("hello"), said("hi"), {"role": "assistant", "content": "there"}) == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "assistant", "content": "there"},
    ]


def test_a_refusal_stays_a_refusal() -> None:
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]}
    assert messages(refusal) == [{"role": "assistant", "content": None, "refusal": "I will not."}]


def test_an_empty_answer_is_not_sent() -> None:
    assert messages(user("hello"), said(""), {**said(""), "content": []}) == [user("hello")]


def test_calls_made_at_once_are_one_message_followed_by_their_outputs() -> None:
    made = messages(
        user("Where are my orders?"),
        said("One moment."),
        call("a", "look_up", '{"order": 1}'),
        {"type": "reasoning", "id": "rs_1", "summary": []},
        call("b", "look_up", '{"order": 2}'),
        output("b", "sent"),
        output("a", "packed"),
        said("Sent and packed."),
    )
    assert made == [
        {"role": "user", "content": "Where are my orders?"},
        {
            "role": "assistant",
            "content": "One moment.",
            "tool_calls": [
                tool_call("a", "look_up", '{"order": 1}'),
                tool_call("b", "look_up", '{"order": 2}'),
            ],
        },
        {"role": "tool", "tool_call_id": "b", "content": "sent"},
        {"role": "tool", "tool_call_id": "a", "content": "packed"},
        {"role": "assistant", "content": "Sent and packed."},
    ]


def test_a_call_without_arguments_has_none_that_are_json() -> None:
    [made, _] = messages(call("a", arguments=""), output("a", "1"))
    assert made["tool_calls"] == [tool_call("a", arguments="{}")]


def test_calls_of_one_turn_after_another_stay_apart() -> None:
    made = messages(call("a"), output("a", "1"), call("b"), output("b", "2"))
    assert [message["role"] for message in made] == ["assistant", "tool", "assistant", "tool"]
    assert made[2] == {"role": "assistant", "content": None, "tool_calls": [tool_call("b")]}


def test_text_after_a_call_joins_its_message_because_nothing_may_come_before_the_output() -> None:
    made = messages(call("a"), said("Looking."), said("Still."), call("b"), output("a", "1"))
    assert made[0] == {
        "role": "assistant",
        "content": "Looking.\nStill.",
        "tool_calls": [tool_call("a"), tool_call("b")],
    }
    assert made[1]["role"] == "tool"


def test_an_output_is_told_as_text_and_with_pictures_where_the_server_takes_them() -> None:
    text = {"type": "input_text", "text": "seen"}
    image = {"type": "input_image", "image_url": "https://example.com/a.png"}
    items = [
        call("a"),
        *(output("a", parts) for parts in ([text, text], [text, image], [image], [])),
    ]
    plain = [message["content"] for message in chat_messages(None, items)[1:]]
    assert plain == ["seen\nseen", "seen", "[tool output omitted]", ""]
    rich = [message["content"] for message in chat_messages(None, items, rich_outputs=True)[1:]]
    shown = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    assert rich == ["seen\nseen", [{"type": "text", "text": "seen"}, shown], [shown], ""]


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ({"type": "item_reference", "id": "msg_1"}, "item 1 is a 'item_reference'"),
        ({"type": ["message"]}, "item 1 is a"),
        ({"content": "hello"}, "item 1 is a None"),
        ({"role": "user"}, "item 1 has no 'content'"),
        ({"type": "message", "content": "x"}, "item 1 has no 'role'"),
        ({"type": "function_call", "name": "x", "arguments": "{}"}, "item 1 has no 'call_id'"),
        ({"type": "function_call_output", "output": "x"}, "item 1 has no 'call_id'"),
        ({"role": "user", "content": 7}, "item 1: the content"),
        ({"role": "user", "content": ["x"]}, "item 1: the content"),
        ({"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}, "image_url"),
        ({"role": "user", "content": [{"type": "input_file", "file_url": "u"}]}, "file_data"),
        ({"role": "user", "content": [{"type": "video"}]}, "item 1: a part of type 'video'"),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "'input_audio'"),
        (
            {"role": "assistant", "content": [{"type": "input_image", "image_url": "u"}]},
            "only text",
        ),
        ({"type": "function_call_output", "call_id": "a", "output": {"x": 1}}, "the content"),
    ],
)
def test_what_has_no_counterpart_is_named(item: JsonObject, says: str) -> None:
    with pytest.raises(UnsupportedItemError, match=says):
        chat_messages(None, [user("hello"), item])


@pytest.mark.parametrize("name", ["previous_response_id", "conversation_id", "prompt"])
def test_what_needs_a_server_with_memory_is_refused(name: str) -> None:
    value = {"id": "pmpt_1"} if name == "prompt" else "id_1"
    with pytest.raises(UnsupportedItemError, match=name):
        chat_body(ask(**{name: value}), "m")


def test_every_setting_reaches_the_body_under_the_name_the_api_knows() -> None:
    settings = ModelSettings(
        temperature=0.5,
        top_p=0.9,
        frequency_penalty=1.0,
        presence_penalty=-1.0,
        tool_choice="refund",
        parallel_tool_calls=False,
        truncation="auto",
        max_tokens=100,
        reasoning={"effort": "low", "summary": "auto"},
        verbosity="low",
        metadata={"team": "support"},
        store=False,
        include=["reasoning.encrypted_content"],
        extra_args={"seed": 1, "top_p": 0.8},
        extra_body={"seed": 2},
    )
    parameters: JsonObject = {"type": "object", "properties": {}}
    tools = [
        ToolSpec(name="refund", description="Pay back.", parameters=parameters),
        ToolSpec(name="look", description="", parameters=parameters, strict=False),
    ]
    schema = OutputSpec(name="answer", schema={"type": "object"})
    body = chat_body(ask(settings=settings, tools=tools, output=schema), "m")
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "refund",
                    "description": "Pay back.",
                    "parameters": parameters,
                    "strict": True,
                },
            },
            {
                "type": "function",
                "function": {"name": "look", "description": "", "parameters": parameters},
            },
        ],
        "tool_choice": {"type": "function", "function": {"name": "refund"}},
        "parallel_tool_calls": False,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
        },
        "temperature": 0.5,
        "top_p": 0.8,
        "frequency_penalty": 1.0,
        "presence_penalty": -1.0,
        "max_tokens": 100,
        "reasoning_effort": "low",
        "verbosity": "low",
        "metadata": {"team": "support"},
        "store": False,
        "seed": 2,
    }
    declared: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsNonStreaming)
    declared.validate_python(body)


def test_what_is_set_of_caches_and_logprobs_is_asked_for() -> None:
    settings = ModelSettings(
        top_logprobs=0,
        prompt_cache_key="desk",
        prompt_cache_retention="24h",
        prompt_cache_options={"mode": "implicit"},
    )
    body = chat_body(ask(settings=settings), "m")
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "logprobs": True,
        "top_logprobs": 0,
        "prompt_cache_key": "desk",
        "prompt_cache_retention": "24h",
        "prompt_cache_options": {"mode": "implicit"},
    }
    declared: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsNonStreaming)
    declared.validate_python(body)


def test_the_bound_of_tokens_goes_by_the_name_this_server_knows() -> None:
    request = ask(settings=ModelSettings(max_tokens=5))
    body = chat_body(request, "m", limit_field="max_completion_tokens")
    assert (body["max_completion_tokens"], "max_tokens" in body) == (5, False)


def test_a_bare_request_sends_the_model_and_the_messages_only() -> None:
    settings = ModelSettings(tool_choice="auto", parallel_tool_calls=True)
    assert chat_body(ask(settings=settings), "m") == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
    }


@pytest.mark.parametrize("choice", ["auto", "required", "none"])
def test_a_tool_choice_that_is_no_tool_goes_out_as_it_is(choice: str) -> None:
    settings = ModelSettings(tool_choice=choice, extra_body={"tools": [{"type": "x"}]})
    assert chat_body(ask(settings=settings), "m")["tool_choice"] == choice


def test_the_items_given_are_not_changed() -> None:
    items = [user([{"type": "input_text", "text": "x"}]), call("a"), said("y"), output("a", "z")]
    before = json.dumps(items)
    chat_messages(None, items)
    assert json.dumps(items) == before


@pytest.mark.parametrize(
    ("asked", "answered", "name", "arguments"),
    [
        (shell_call("a", "ls"), {"output": [{"stdout": "x"}]}, "shell", None),
        (custom_call("sql", "a", "select 1"), {"output": "1"}, "sql", '{"input": "select 1"}'),
        (computer_call("a"), {"output": {"type": "computer_screenshot"}}, "computer", None),
    ],
)  # fmt: skip
def test_other_calls_are_told_as_calls_of_functions(
    asked: JsonObject, answered: JsonObject, name: str, arguments: str | None
) -> None:
    """As after a handoff from a model of the Responses API."""
    returned = {"type": f"{asked['type']}_output", "call_id": "a", **answered}
    _, called, told = messages(user("hello"), asked, returned)
    function = called["tool_calls"][0]["function"]
    assert function["name"] == name
    assert arguments in {None, function["arguments"]}
    assert (told["role"], told["tool_call_id"], bool(told["content"])) == ("tool", "a", True)


@pytest.mark.parametrize(
    "kind",
    ["reasoning", "web_search_call", "file_search_call", "image_generation_call", "mcp_call",
     "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "code_interpreter_call"],
)  # fmt: skip
def test_what_a_provider_did_by_itself_is_not_told(kind: str) -> None:
    assert messages(user("hello"), {"type": kind, "id": "i"}, said("hi"))[0] == user("hello")
    assert len(messages(user("hello"), {"type": kind, "id": "i"}, said("hi"))) == 2


def test_outputs_stand_behind_their_calls() -> None:
    late = [call("a"), call("b"), user("quick"), output("b", "2"), output("a", "1"), user("and?")]
    sent = messages(user("hello"), *late)
    assert [one.get("tool_call_id", one["role"]) for one in sent] == [
        "user", "assistant", "b", "a", "user", "user",
    ]  # fmt: skip


def test_ids_that_are_too_long_for_openai_are_shortened_in_pairs() -> None:
    long, other = ("chatcmpl-tool-" + letter * 32 for letter in "ab")
    _, called, first, second = messages(
        user("hello"), call(long), call(other), output(long, "1"), output(other, "2")
    )
    ids = [one["id"] for one in called["tool_calls"]]
    assert [first["tool_call_id"], second["tool_call_id"]] == ids
    assert len(set(ids)) == 2
    assert all(len(one) <= 40 for one in ids)


@pytest.mark.parametrize("instructions", [None, "Be kind."])
def test_a_conversation_that_begins_with_a_call_has_a_question(instructions: str | None) -> None:
    items = [call("a"), output("a", "1")]
    request = ModelRequest(instructions=instructions, input=items)
    sent = chat_body(request, "m")["messages"]
    left_out = {"role": "user", "content": "(The earlier part of this conversation is left out.)"}
    assert sent[-3] == left_out
    assert len(sent) == (3 if instructions is None else 4)


def test_a_conversation_that_ends_with_an_answer_goes_on() -> None:
    said = {"role": "assistant", "content": "Summary."}
    note = {"role": "developer", "content": "Answer again."}
    for items in ([user("hello"), said], [user("hello"), said, note]):
        sent = chat_body(ModelRequest(instructions=None, input=items), "m")["messages"]
        assert sent[-1] == {"role": "user", "content": "(Go on.)"}
        assert len(sent) == len(items) + 1


def test_instructions_keep_their_words_beside_a_picture() -> None:
    picture = {"type": "input_image", "image_url": "https://shop.example/a.png"}
    parts = [{"type": "input_text", "text": "Be kind."}, picture]
    assert messages({"role": "system", "content": parts}) == [
        {"role": "system", "content": "Be kind.\n(input_image left out)"}
    ]


def test_blank_instructions_are_not_sent() -> None:
    request = ModelRequest(instructions=" \n", input=[user("hello")])
    assert chat_body(request, "m")["messages"] == [user("hello")]


def test_tools_that_are_no_functions_are_refused_by_name() -> None:
    tools = [WebSearchTool(), ShellTool(str)]
    request = ModelRequest(instructions=None, input=[], hosted_tools=tools)
    with pytest.raises(UnsupportedItemError, match=r"web_search, shell .*Use the Responses API"):
        chat_body(request, "m")


def test_what_a_server_wants_back_comes_only_with_words_of_the_model() -> None:
    kept: JsonObject = {
        "model": "m",
        "message": {"thinking_blocks": []},
        "call": {"extra_content": {}},
    }
    asked = {**user("hi"), "provider_data": kept}
    assert chat_messages(None, [asked], model="m") == [user("hi")]
    answer = {**said("hi"), "provider_data": kept}
    assert chat_messages(None, [answer], model="m") == [
        {"role": "assistant", "content": "hi", "thinking_blocks": []}
    ]


def test_a_chosen_tool_of_an_mcp_server_is_refused() -> None:
    settings = ModelSettings(tool_choice=MCPToolChoice("wiki", "search"))
    request = ModelRequest(
        instructions=None,
        input=[],
        tools=[ToolSpec(name="look", description="", parameters={})],
        settings=settings,
    )
    with pytest.raises(UnsupportedItemError, match=r"a tool of an MCP server.*Responses API"):
        chat_body(request, "m")
