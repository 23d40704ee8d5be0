"""Each rule catches a request that breaks it, and requests that keep all rules pass."""

import base64
from collections.abc import Callable
from itertools import product
from typing import Any, get_args

import pytest

from tests.wire_rules.table import EVERY_SERVER, RULES, Api, Server
from tests.wire_rules.validator import faults

Body = dict[str, Any]

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n and so on").decode()
STRICT: Body = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}}},
    "required": ["order", "lines"],
    "additionalProperties": False,
    "$defs": {
        "Line": {
            "type": "object",
            "properties": {"count": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
            "required": ["count"],
            "additionalProperties": False,
        }
    },
}  # fmt: skip


def chat_call(call_id: str = "call_1", name: str = "refund", arguments: str = "{}") -> Body:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def calling(*calls: Body) -> Body:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def refused() -> Body:
    return {"role": "assistant", "content": None, "refusal": "I may not."}


def chat_output(call_id: str = "call_1") -> Body:
    return {"role": "tool", "tool_call_id": call_id, "content": ""}


def chat_tool(name: str = "refund", **fields: Any) -> Body:
    return {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object"}, **fields},
    }


USER: Body = {"role": "user", "content": "Refund A-1."}


def chat(*messages: Body, **fields: Any) -> Body:
    return {"model": "m", "messages": list(messages or [USER]), **fields}


def of_user(*parts: Body) -> Body:
    return {"role": "user", "content": list(parts)}


def call(
    call_id: str = "call_1", name: str = "refund", arguments: str = "{}", **fields: Any
) -> Body:
    return {
        "type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **fields,
    }  # fmt: skip


def output(call_id: str = "call_1", value: Any = "done", **fields: Any) -> Body:
    return {"type": "function_call_output", "call_id": call_id, "output": value, **fields}


def said(text: str = "Done.", **fields: Any) -> Body:
    part: Body = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
        **fields,
    }


def thought(name: str = "rs_1", **fields: Any) -> Body:
    return {"type": "reasoning", "id": name, "summary": [], **fields}


def tool(name: str = "refund", **fields: Any) -> Body:
    return {
        "type": "function",
        "name": name,
        "parameters": {"type": "object"},
        "strict": False,
        **fields,
    }


def responses(*items: Body, **fields: Any) -> Body:
    return {"model": "m", "input": list(items or [USER]), **fields}


KEPT: list[tuple[Api, Body]] = [
    ("chat", chat()),
    ("chat", chat(USER, {**refused(), "content": "No."}, USER)),
    (
        "chat",
        chat(
            {"role": "system", "content": "Be kind."},
            of_user(
                {"type": "text", "text": "Look."},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                {"type": "image_url", "image_url": {"url": "https://example.com/a"}},
                {"type": "file", "file": {"file_id": "file-1"}},
                {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PNG}"}},
            ),
            calling(chat_call("a"), chat_call("b", arguments='{"order": "A-1"}')),
            chat_output("b"),
            chat_output("a"),
            {"role": "assistant", "content": "I may not."},
            USER,
            tools=[chat_tool(), chat_tool("strict", parameters=STRICT, strict=True)],
            tool_choice={"type": "function", "function": {"name": "strict"}},
            parallel_tool_calls=False,
            response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": STRICT, "strict": True}},
            temperature=0.5,
            metadata={"run": "r-1"},
        ),
    ),
    ("responses", {"model": "m", "input": "Refund A-1."}),
    (
        "responses",
        responses(
            of_user(
                {"type": "input_text", "text": "Look."},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
                {"type": "input_image", "file_id": "file-1"},
                {"type": "input_file", "file_url": "https://example.com/a.pdf"},
            ),
            thought(),
            call("a", id="fc_1", status="completed"),
            call("b", id="fc_2", namespace="shop"),
            output("a"),
            output("b", [{"type": "input_text", "text": "done"}]),
            thought("rs_2", encrypted_content="x"),
            said(id="msg_1"),
            {"role": "assistant", "content": "Without an id."},
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
            USER,
            tools=[tool(), tool("strict", parameters=STRICT, strict=True), {"type": "web_search"}],
            tool_choice={"type": "function", "name": "refund"},
            text={"format": {"type": "json_schema", "name": "a", "schema": STRICT, "strict": True}},
            include=["reasoning.encrypted_content"],
        ),
    ),
    ("responses", {"model": "m", "input": [output()], "previous_response_id": "resp_1"}),
    ("responses", {"prompt": {"id": "pmpt_1"}, "tool_choice": "auto"}),
]  # fmt: skip


@pytest.mark.parametrize(("api", "request_body"), KEPT)
def test_a_request_that_keeps_the_rules_has_no_faults(api: Api, request_body: Body) -> None:
    assert faults(request_body, api, servers=EVERY_SERVER) == []


def with_image(url: str) -> Body:
    return chat(of_user({"type": "image_url", "image_url": {"url": url}}))


def strict_tool(**fields: Any) -> Body:
    schema = {**STRICT, **fields}
    return responses(tools=[tool(parameters=schema, strict=True)])


def deep(levels: int) -> Body:
    inner: Body = {"type": "string"}
    for _ in range(levels):
        inner = {
            "type": "object", "properties": {"a": inner}, "required": ["a"],
            "additionalProperties": False,
        }  # fmt: skip
    return inner


BROKEN: list[tuple[str, Api, Body]] = [
    ("text-encodable", "chat", chat({"role": "user", "content": "half of it: \ud83d"})),
    ("text-encodable", "responses", responses(output(value="\udc00"), call())),
    ("text-nul", "responses", responses({"role": "user", "content": "a\0b"})),
    ("text-length", "responses", responses({"role": "user", "content": "a" * 10_485_761})),
    ("model-named", "chat", {"messages": [USER]}),
    ("number-range", "chat", chat(temperature=2.5)),
    ("number-range", "responses", responses(max_output_tokens=15)),
    ("number-range", "responses", responses(top_p=True)),
    ("metadata-size", "responses", responses(metadata={"run": "r" * 513})),
    ("metadata-size", "chat", chat(metadata={str(n): "" for n in range(17)})),
    ("metadata-size", "chat", chat(metadata={"n": 1})),
    ("tools-many", "chat", chat(tools=[chat_tool(f"t{n}") for n in range(129)])),
    ("tools-empty", "chat", chat(tools=[])),
    ("tools-type", "chat", chat(tools=[{"type": "web_search"}])),
    ("tools-type", "responses", responses(tools=[{"type": "telepathy"}])),
    ("tool-name", "chat", chat(tools=[chat_tool("shop.refund")])),
    ("tool-name", "chat", chat(tools=[chat_tool("r" * 65)])),
    ("tool-name", "responses", responses(tools=[tool("")])),
    (
        "tool-name",
        "responses",
        responses(tools=[{"type": "namespace", "name": "shop", "tools": [tool("a b")]}]),
    ),
    ("tool-names-unique", "chat", chat(tools=[chat_tool(), chat_tool()])),
    ("tool-description", "chat", chat(tools=[chat_tool(description="d" * 1_025)])),
    ("tool-parameters", "chat", chat(tools=[chat_tool(parameters={"type": "array"})])),
    ("choice-without-tools", "chat", chat(tool_choice="auto")),
    ("choice-without-tools", "chat", chat(parallel_tool_calls=True)),
    ("choice-without-tools", "responses", responses(tool_choice="required")),
    ("choice-known", "chat", chat(tools=[chat_tool()], tool_choice="refund")),
    (
        "choice-known",
        "chat",
        chat(tools=[chat_tool()], tool_choice={"type": "function", "function": {"name": "pay"}}),
    ),
    (
        "choice-known",
        "responses",
        responses(tools=[tool()], tool_choice={"type": "function", "name": "pay"}),
    ),
    ("choice-known", "responses", responses(tools=[tool()], tool_choice={"type": "web_search"})),
    ("choice-known", "responses", responses(tools=[tool()], tool_choice={"type": "mcp", "server_label": "a"})),
    ("strict-schema", "responses", strict_tool(additionalProperties=True)),
    ("strict-schema", "responses", strict_tool(required=["order"])),
    ("strict-schema", "responses", strict_tool(anyOf=[{"type": "object"}])),
    ("strict-schema", "responses", strict_tool(allOf=[])),
    ("strict-schema", "responses", strict_tool(properties={"order": {}}, required=["order"])),
    ("strict-schema", "responses", strict_tool(properties={"order": {"$ref": "#/$defs/No"}}, required=["order"])),
    ("strict-schema", "responses", strict_tool(properties={"order": {"type": "array"}}, required=["order"])),
    (
        "strict-schema",
        "chat",
        chat(
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": {"type": "array"}, "strict": True},
            }
        ),
    ),
    ("strict-schema-size", "responses", responses(tools=[tool(parameters=deep(11), strict=True)])),
    (
        "strict-schema-size",
        "responses",
        strict_tool(properties={"a": {"enum": list(range(1_001))}}, required=["a"]),
    ),
    (
        "format-name",
        "responses",
        responses(text={"format": {"type": "json_schema", "name": "list[str]", "schema": STRICT}}),
    ),
    ("role-known", "chat", chat({"role": "critic", "content": "No."})),
    ("role-known", "responses", responses({"role": "tool", "content": "No."})),
    ("content-shape", "chat", chat({"role": "user", "content": None})),
    ("content-shape", "chat", chat(of_user())),
    ("content-shape", "responses", responses({**said(), "content": []})),
    ("content-shape", "responses", responses(call(), output(value=[]))),
    ("content-empty", "chat", chat({"role": "user", "content": ""})),
    ("content-empty", "chat", chat(USER, {"role": "assistant", "content": ""}, USER)),
    ("content-empty", "responses", responses(said(" \n"))),
    ("content-empty", "responses", responses(call(), output(value=[{"type": "input_text", "text": ""}]))),
    ("part-type", "chat", chat(of_user({"type": "input_text", "text": "a"}))),
    (
        "part-type",
        "responses",
        responses({"role": "assistant", "content": [{"type": "input_text", "text": "a"}]}),
    ),
    ("image-address", "chat", with_image("blob:1")),
    ("image-address", "chat", with_image("data:image/png;base64,!")),
    ("image-address", "chat", with_image(f"data:image/png,{PNG}")),
    ("image-address", "responses", responses(of_user({"type": "input_image"}))),
    ("image-type", "chat", with_image(f"data:image/heic;base64,{PNG}")),
    ("image-type", "chat", with_image(f"data:image/jpeg;base64,{PNG}")),
    ("image-size", "chat", with_image(f"data:image/png;base64,{PNG}{'A' * 20_971_520}")),
    ("file-data", "chat", chat(of_user({"type": "file", "file": {"filename": "a.pdf"}}))),
    ("file-data", "responses", responses(of_user({"type": "input_file", "file_data": ""}))),
    ("call-id", "chat", chat(USER, calling(chat_call("c" * 41)), chat_output("c" * 41))),
    ("call-id", "responses", responses(call("c" * 65), output("c" * 65))),
    (
        "call-id-unique",
        "chat",
        chat(USER, calling(chat_call()), chat_output(), calling(chat_call()), chat_output()),
    ),
    ("call-id-unique", "responses", responses(call(), output(), call(), output("call_1"))),
    ("call-name", "chat", chat(USER, calling(chat_call(name="")), chat_output())),
    ("call-name", "responses", responses(call(name="shop.refund"), output())),
    ("call-arguments", "chat", chat(USER, calling(chat_call(arguments='{"zone": "Eur')), chat_output())),
    ("call-arguments", "chat", chat(USER, calling(chat_call(arguments="[]")), chat_output())),
    ("call-arguments", "responses", responses(call(arguments=""), output())),
    ("call-arguments", "responses", responses(call(arguments='{"a": NaN}'), output())),
    ("call-answered", "chat", chat(USER, calling(chat_call()))),
    ("call-answered", "chat", chat(USER, calling(chat_call()), USER, chat_output())),
    ("call-answered", "chat", chat(USER, calling(chat_call()), chat_output(), chat_output())),
    ("call-answered", "responses", responses(call(), USER)),
    ("call-answered", "responses", responses(call(), output(), output())),
    ("call-answered", "responses", responses(output(), call())),
    ("output-called", "chat", chat(USER, chat_output())),
    ("output-called", "responses", responses(output())),
    ("messages-empty", "chat", {"model": "m", "messages": []}),
    ("fields-known", "chat", chat({**USER, "type": "message"})),
    ("developer-unknown", "chat", chat({"role": "developer", "content": "Be brief."}, USER)),
    ("answer-readable", "chat", chat(USER, refused(), USER)),
    ("answer-content", "chat", chat(USER, {"role": "assistant", "content": None}, USER)),
    ("calls-empty", "chat", chat(USER, {"role": "assistant", "content": "a", "tool_calls": []}, USER)),
    ("call-shape", "chat", chat(USER, calling({"id": "call_1", "type": "tool"}), chat_output())),
    ("begins-with-call", "chat", chat(calling(chat_call()), chat_output())),
    ("ends-with-answer", "chat", chat(USER, {"role": "assistant", "content": "Done."})),
    ("user-after-output", "chat", chat(USER, calling(chat_call()), chat_output(), USER)),
    ("input-empty", "responses", {"model": "m", "input": []}),
    ("item-type", "responses", responses({"type": "thought"})),
    ("item-fields", "responses", responses(call(provider_data={}), output())),
    ("item-fields", "responses", responses(call(status=None), output())),
    ("item-fields", "responses", responses({"type": "reasoning"}, said())),
    ("item-id", "responses", responses(said(id="item_1"))),
    ("item-id", "responses", responses(call(id="msg_1"), output())),
    ("item-id", "responses", responses(thought("thought_1"), said(id="msg_1"))),
    ("item-id", "responses", responses(said(id="msg_" + "a" * 61))),
    ("item-id-unique", "responses", responses(said(id="msg_1"), said(id="msg_1"))),
    ("reasoning-followed", "responses", responses(thought(), USER)),
    ("reasoning-followed", "responses", responses(USER, thought())),
    ("reasoning-followed", "responses", responses(thought(), said())),
    ("reasoning-readable", "responses", responses(thought(), said(id="msg_1"), store=False)),
    ("reasoning-readable", "responses", responses({"type": "item_reference", "id": "msg_1"}, store=False)),
    (
        "approval-asked",
        "responses",
        responses({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}),
    ),
    ("thread-once", "responses", responses(previous_response_id="resp_1", conversation="conv_1")),
    ("include-known", "responses", responses(include=["everything"])),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "api", "request_body"), BROKEN)
def test_a_request_that_breaks_a_rule_is_caught(rule: str, api: Api, request_body: Body) -> None:
    found = faults(request_body, api, servers=EVERY_SERVER)
    assert rule in {fault.partition(":")[0] for fault in found}


PLACES: list[Callable[[Any], Body]] = [
    *(lambda value, name=name: chat(**{name: value}) for name in (
        "tools", "tool_choice", "messages", "input", "text", "response_format", "metadata", "include",
        "temperature", "model", "store",
    )),
    *(lambda value, name=name: chat({**USER, name: value}) for name in (
        "role", "content", "tool_calls", "refusal", "tool_call_id",
    )),
    *(lambda value, name=name: chat(tools=[chat_tool(**{name: value})]) for name in (
        "name", "description", "parameters", "strict",
    )),
    *(lambda value, name=name: responses(tools=[tool(**{name: value})]) for name in (
        "type", "name", "description", "parameters", "strict",
    )),
    *(lambda value, name=name: responses({**call(), name: value}, output(), thought(), said()) for name in (
        "type", "id", "call_id", "name", "arguments", "status",
    )),
    *(lambda value, name=name: responses(call(), {**output(), name: value}) for name in (
        "type", "id", "call_id", "output",
    )),
    *(lambda value, name=name: responses(thought(), said(), {**said(), name: value}) for name in (
        "type", "id", "role", "content",
    )),
    *(lambda value, name=name: responses({**thought(), name: value}, said(id="msg_1")) for name in (
        "id", "summary", "encrypted_content",
    )),
    *(lambda value, name=name: responses(of_user({"type": "input_image", name: value})) for name in (
        "type", "image_url", "file_id",
    )),
    *(lambda value, name=name: chat(of_user({"type": "file", "file": {name: value}})) for name in (
        "file_id", "file_data",
    )),
    lambda value: chat(USER, calling({"id": value, "type": value, "function": value})),
    lambda value: chat(USER, calling(chat_call(value, value, value))),
    lambda value: responses({"type": "mcp_approval_response", "approval_request_id": value}),
    lambda value: responses(strict_tool(properties=value, required=value)),
    lambda value: strict_tool(properties={"a": {"type": value, "enum": value, "$ref": value}}),
    lambda value: strict_tool(anyOf=value, **{"$defs": value}),
]  # fmt: skip

HISTORY: list[Body] = [
    USER, thought(), call("a", id="fc_1"), call("b", id="fc_2"), output("a"), output("b"),
    thought("rs_2"), said(id="msg_1"), USER, said(id="msg_2"),
]  # fmt: skip

CUTS: list[tuple[str, Callable[[list[Body]], list[Body]], set[str]]] = [
    ("nothing", lambda items: items, set()),
    ("before a call", lambda items: items[2:], {"reasoning-kept"}),
    ("between calls", lambda items: [items[3], items[5], *items[6:]], {"reasoning-kept"}),
    ("before an answer", lambda items: items[7:], {"reasoning-kept"}),
    ("behind reasoning", lambda items: [*items[:7], items[8]], {"reasoning-followed"}),
    ("an answer between", lambda items: [*items[:7], items[9]], {"reasoning-followed"}),
    ("an answer without reasoning", lambda items: items[8:], set()),
    ("reasoning behind its answer", lambda items: [items[7], items[6], items[9]], {
        "reasoning-kept", "reasoning-followed",
    }),
]  # fmt: skip


@pytest.mark.parametrize(("cut", "rules"), [one[1:] for one in CUTS], ids=[one[0] for one in CUTS])
def test_the_history_tells_which_item_belongs_to_which_reasoning(
    cut: Callable[[list[Body]], list[Body]], rules: set[str]
) -> None:
    found = faults(responses(*cut(HISTORY)), "responses", history=HISTORY)
    assert {fault.partition(":")[0] for fault in found} == rules


def test_every_rule_has_a_source_and_a_request_that_breaks_it() -> None:
    tried = {rule for rule, _, _ in BROKEN} | {"reasoning-kept"}
    assert tried == set(RULES)
    assert [name for name, rule in RULES.items() if not rule.source.startswith("https://")] == []
    assert set(get_args(Server)) == EVERY_SERVER


def test_a_value_of_any_type_is_judged() -> None:
    odd: list[Any] = [None, 5, "x", [5], {"a": [5]}, [], {}, True]
    for part, value in product(PLACES, odd):
        for api in get_args(Api):
            body = part(value)
            assert isinstance(faults(body, api, history=[value] if value == {} else []), list)


def test_openai_reads_a_refusal_without_text() -> None:
    assert faults(chat(USER, refused(), USER), "chat", servers=["openai"]) == []


def test_a_rule_counts_for_the_servers_that_have_it() -> None:
    empty = chat(USER, {"role": "assistant", "content": ""}, USER)
    assert faults(empty, "chat", servers=["openai"]) == []
    [fault] = faults(empty, "chat")
    assert fault.startswith("content-empty: messages[1].content.")
