from typing import Any

import pytest
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent
from pydantic import TypeAdapter

from outlast.loop.values import JsonObject
from outlast.models.openai.chat_reply import (
    MEANINGS,
    ChatReply,
    UnreadableReplyError,
    meaning_of,
    response_from_chat,
)
from outlast.models.openai.chat_request import chat_messages

ITEM: TypeAdapter[Any] = TypeAdapter(ResponseOutputItem)
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)

USAGE = {
    "prompt_tokens": 30,
    "prompt_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 3},
    "completion_tokens": 7,
    "completion_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 37,
}


def completion(message: JsonObject, finish_reason: str | None = "stop") -> JsonObject:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "m-2",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": USAGE,
    }


def tool_call(call_id: str | None, arguments: object = "{}", name: str = "look") -> JsonObject:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def read(message: JsonObject, finish_reason: str | None = "stop", *, turn: int = 1) -> JsonObject:
    response = response_from_chat(completion(message, finish_reason), turn=turn)
    for item in response["output"]:
        ITEM.validate_python(item)
    return response


def chunk(
    delta: JsonObject | None = None, finish_reason: str | None = None, **fields: Any
) -> JsonObject:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish_reason}
    return {"id": "chatcmpl-1", "created": 1700000000, "model": "m-2", "choices": [choice]} | fields


def play(*chunks: JsonObject) -> list[JsonObject]:
    reply = ChatReply(turn=1)
    events = [event for one in chunks for event in reply.add(one)] + reply.finish()
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events[1:-1]:
        EVENT.validate_python(event)
    return events


def kinds(events: list[JsonObject]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def calls(response: JsonObject) -> list[tuple[str, str, str]]:
    return [
        (item["call_id"], item["name"], item["arguments"])
        for item in response["output"]
        if item["type"] == "function_call"
    ]


def test_text_becomes_a_message() -> None:
    response = read({"role": "assistant", "content": "hi"})
    [item] = response["output"]
    assert item["content"] == [
        {"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}
    ]
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    assert (response["id"], response["model"]) == ("chatcmpl-1", "m-2")
    assert response["usage"] == {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 3},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 37,
    }


CITED = {"start_index": 0, "end_index": 2, "title": "Hi", "url": "https://hi.example"}
LIKELY = {"token": "hi", "logprob": -0.1, "bytes": None}


def test_what_an_answer_cites_of_the_web_is_kept() -> None:
    cited = {"type": "url_citation", "url_citation": CITED}
    part: JsonObject = {
        "type": "output_text",
        "text": "hi",
        "annotations": [{"type": "url_citation", **CITED}],
        "logprobs": [],
    }
    [item] = read({"content": "hi", "annotations": [cited]})["output"]
    assert item["content"] == [part]
    events = play(chunk({"content": "hi"}), chunk({"annotations": [cited]}, "stop"))
    assert events[-1]["response"]["output"][0]["content"] == [part]


def test_how_likely_the_tokens_of_an_answer_were_is_kept() -> None:
    given = {"content": [{**LIKELY, "top_logprobs": [LIKELY]}], "refusal": None}
    likely: JsonObject = {**LIKELY, "bytes": []}
    whole = completion({"content": "hi"})
    whole["choices"][0]["logprobs"] = given
    [item] = response_from_chat(whole, turn=1)["output"]
    ITEM.validate_python(item)
    assert item["content"][0]["logprobs"] == [{**likely, "top_logprobs": [likely]}]
    piece = chunk({"content": "hi"}, "stop")
    piece["choices"][0]["logprobs"] = given
    events = play(piece)
    streamed = next(one for one in events if one["type"] == "response.output_text.delta")
    assert streamed["logprobs"] == item["content"][0]["logprobs"]
    assert events[-1]["response"]["output"] == [item]


def test_calls_made_at_once_become_items_of_their_own_behind_the_text() -> None:
    message = {
        "content": "One moment.",
        "tool_calls": [tool_call("a", '{"order": 1}'), tool_call("b", '{"order": 2}', "pay")],
    }
    response = read(message, "tool_calls")
    assert [item["type"] for item in response["output"]] == [
        "message",
        "function_call",
        "function_call",
    ]
    assert calls(response) == [("a", "look", '{"order": 1}'), ("b", "pay", '{"order": 2}')]


def test_an_answer_survives_the_way_there_and_back() -> None:
    message = {
        "role": "assistant",
        "content": "One moment.",
        "tool_calls": [tool_call("a", '{"order": 1}'), tool_call("b", "{}", "pay")],
    }
    assert chat_messages(None, read(message, "tool_calls")["output"]) == [message]


def test_a_refusal_becomes_a_refusal() -> None:
    [item] = read({"content": None, "refusal": "I will not."})["output"]
    assert item["content"] == [{"type": "refusal", "refusal": "I will not."}]


def test_an_answer_of_nothing_is_a_message_of_nothing() -> None:
    [item] = read({"content": None})["output"]
    assert item["content"] == [
        {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    ]


def test_content_in_parts_is_read_for_its_text() -> None:
    parts: list[JsonObject] = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "hi"}]
    [item] = read({"content": parts})["output"]
    assert item["content"][0]["text"] == "hi"


@pytest.mark.parametrize(
    ("finish_reason", "reason"),
    [("length", "max_output_tokens"), ("content_filter", "content_filter")],
)
def test_an_answer_cut_short_says_why(finish_reason: str, reason: str) -> None:
    response = read({"content": "hi"}, finish_reason)
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": reason}
    assert response["output"][0]["status"] == "incomplete"


def test_an_answer_that_the_filter_swallowed_whole_is_a_refusal() -> None:
    [item] = read({"content": ""}, "content_filter")["output"]
    assert item["content"][0]["type"] == "refusal"
    assert "content filter" in item["content"][0]["refusal"]


@pytest.mark.parametrize("finish_reason", ["stop", "tool_calls", "", None])
def test_a_whole_message_is_complete_whatever_the_finish_reason(finish_reason: str | None) -> None:
    assert read({"content": "hi"}, finish_reason)["status"] == "completed"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [("", "{}"), (None, "{}"), ({"order": 1}, '{"order": 1}'), ('{"a": ', '{"a": ')],
)
def test_arguments_are_a_string_in_the_end(arguments: object, expected: str) -> None:
    response = read({"tool_calls": [tool_call("a", arguments)]})
    assert calls(response) == [("a", "look", expected)]


def test_calls_without_an_id_or_with_the_same_one_get_one_that_is_theirs_alone() -> None:
    message = {"tool_calls": [tool_call(None), tool_call(""), tool_call("a"), tool_call("a")]}
    ids = [call_id for call_id, _, _ in calls(read(message))]
    assert len(set(ids)) == 4
    assert "a" in ids
    assert ids == [call_id for call_id, _, _ in calls(read(message))], "ids must be stable"


def test_ids_are_such_as_the_responses_api_takes_back() -> None:
    message = {"content": "hi", "tool_calls": [tool_call(None)]}
    text, call = read(message)["output"]
    assert text["id"].startswith("msg_")
    assert call["id"].startswith("fc_")
    assert call["call_id"].startswith("call_")
    assert all(len(name) <= 64 for name in (text["id"], call["id"], call["call_id"]))


def test_ids_of_two_turns_differ_even_where_the_server_repeats_its_own() -> None:
    first, second = (read({"content": "hi"}, turn=turn)["output"][0]["id"] for turn in (1, 3))
    assert first != second


NO_COMPLETIONS: list[JsonObject] = [
    {},
    {"choices": None},
    {"choices": []},
    {"choices": ["x"]},
    {"choices": [{}]},
    {"choices": [{"message": None}]},
    {"choices": [{"message": "hi"}]},
    completion({"tool_calls": [{"id": "a"}]}),
    completion({"tool_calls": [tool_call("a", name="")]}),
]


@pytest.mark.parametrize("body", NO_COMPLETIONS)
def test_what_is_no_completion_is_told(body: JsonObject) -> None:
    with pytest.raises(UnreadableReplyError):
        response_from_chat(body, turn=1)


def test_an_answer_of_the_other_api_is_recognised() -> None:
    with pytest.raises(UnreadableReplyError, match="speaks the Responses API"):
        response_from_chat({"output": []}, turn=1)


def test_a_completion_without_id_time_and_usage_is_read_all_the_same() -> None:
    response = response_from_chat({"choices": [{"message": {"content": "hi"}}]}, turn=1)
    assert response["id"].startswith("resp_")
    assert response["usage"]["total_tokens"] == 0


def test_streamed_text_becomes_the_events_of_a_responses_stream() -> None:
    events = play(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "h"}),
        chunk({"content": "i"}),
        chunk(finish_reason="stop"),
        chunk() | {"choices": [], "usage": USAGE},
    )
    assert kinds(events) == [
        "created",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["delta"] for event in events if "delta" in event] == ["h", "i"]
    assert events[-1]["response"] == read({"content": "hi"})
    assert events[-2]["item"] == events[-1]["response"]["output"][0]


def test_streamed_calls_are_put_together_from_their_pieces() -> None:
    pieces = [
        {"index": 0, **tool_call("a", "")},
        {"index": 0, "function": {"arguments": '{"order"'}},
        {"index": 1, **tool_call("b", "", "pay")},
        {"index": 0, "function": {"arguments": ": 1}"}},
        {"index": 1, "function": {"arguments": "{}"}},
    ]
    events = play(
        chunk({"content": "One moment."}),
        *(chunk({"tool_calls": [piece]}) for piece in pieces),
        chunk(finish_reason="tool_calls"),
        chunk() | {"choices": [], "usage": USAGE},
    )
    whole = {
        "content": "One moment.",
        "tool_calls": [tool_call("a", '{"order": 1}'), tool_call("b", "{}", "pay")],
    }
    assert events[-1]["response"] == read(whole, "tool_calls")
    deltas = [event for event in events if event["type"].endswith("arguments.delta")]
    assert [(event["output_index"], event["delta"]) for event in deltas] == [
        (1, '{"order"'),
        (1, ": 1}"),
        (2, "{}"),
    ]
    done = [event["item"] for event in events if event["type"].endswith("item.done")]
    assert [item["arguments"] for item in done[1:]] == ['{"order": 1}', "{}"]


@pytest.mark.parametrize(
    "pieces",
    [
        # Whole calls without a number, with and without an id.
        [tool_call("a", '{"n": 1}'), tool_call("b", '{"n": 2}')],
        [tool_call(None, '{"n": 1}'), tool_call(None, '{"n": 2}')],
        # Whole calls that all have the number 0.
        [{"index": 0, **tool_call("a", '{"n": 1}')}, {"index": 0, **tool_call("b", '{"n": 2}')}],
        # Pieces without a number, told apart by the id, or by coming after one another.
        [
            tool_call("a", '{"n"'),
            {"id": "a", "function": {"arguments": ": 1}"}},
            tool_call("b", '{"n"'),
            {"function": {"arguments": ": 2}"}},
        ],
        # The name in a later piece, and again in each piece.
        [
            {"index": 0, "id": "a", "function": {"arguments": '{"n"'}},
            {"index": 0, "id": "a", "function": {"name": "look", "arguments": ": "}},
            {"index": 0, "id": "a", "function": {"name": "look", "arguments": "1}"}},
            {"index": 1, **tool_call("b", '{"n": 2}')},
        ],
    ],
)
def test_servers_that_number_their_calls_oddly_are_understood(pieces: list[JsonObject]) -> None:
    events = play(*(chunk({"tool_calls": [piece]}) for piece in pieces), chunk(None, "tool_calls"))
    found = calls(events[-1]["response"])
    assert [(name, arguments) for _, name, arguments in found] == [
        ("look", '{"n": 1}'),
        ("look", '{"n": 2}'),
    ]
    assert len({call_id for call_id, _, _ in found}) == 2


def test_a_streamed_refusal_has_events_of_its_own() -> None:
    events = play(chunk({"refusal": "I will"}), chunk({"refusal": " not."}), chunk({}, "stop"))
    assert kinds(events)[3:6] == ["refusal.delta", "refusal.delta", "content_part.done"]
    assert events[-1]["response"]["output"] == read({"refusal": "I will not."})["output"]


def test_a_message_may_hold_both_text_and_a_refusal() -> None:
    events = play(chunk({"content": "Hm."}), chunk({"refusal": "No."}), chunk({}, "stop"))
    [item] = events[-1]["response"]["output"]
    assert [part["type"] for part in item["content"]] == ["output_text", "refusal"]
    refusal = next(event for event in events if event["type"] == "response.refusal.delta")
    assert refusal["content_index"] == 1


def test_only_the_first_of_several_choices_is_the_answer() -> None:
    other = chunk({"content": "other"}, "stop")
    other["choices"][0]["index"] = 1
    events = play(chunk({"content": "hi"}), other, chunk({}, "stop"))
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "hi"


def test_a_stream_without_a_finish_reason_has_ended_early() -> None:
    reply = ChatReply(turn=1)
    reply.add(chunk({"content": "hi"}))
    with pytest.raises(UnreadableReplyError, match="ended before"):
        reply.finish()


def test_what_stands_for_no_reason_yet_is_none() -> None:
    events = play(chunk({"content": "h"}, "null"), chunk({"content": "i"}, ""), chunk({}, "stop"))
    assert events[-1]["response"]["status"] == "completed"
    with pytest.raises(UnreadableReplyError, match="ended before"):
        play(chunk({"content": "h"}, "null"))


def test_a_finish_reason_that_is_no_text_is_unknown() -> None:
    whole = completion({"content": "hi"})
    whole["choices"][0]["finish_reason"] = 3
    with pytest.raises(UnreadableReplyError, match="unknown finish_reason '3'"):
        response_from_chat(whole, turn=1)


@pytest.mark.parametrize("word", sorted(MEANINGS))
def test_a_finish_reason_means_the_same_however_it_is_written(word: str) -> None:
    spelled = (word, word.upper(), f"FinishReason.{word.upper()}", f"{word}: DETAIL")
    assert {meaning_of(one) for one in spelled} == {MEANINGS[word]}


@pytest.mark.parametrize("bad", [{"choices": "x"}, {"choices": [1]}])
def test_what_is_no_chunk_is_told(bad: JsonObject) -> None:
    with pytest.raises(UnreadableReplyError, match="chunk"):
        ChatReply(turn=1).add(bad)


CLAUDE = "anthropic/claude"
SIGNED: JsonObject = {"type": "thinking", "thinking": "Let me look.", "signature": "s1"}
HIDDEN: JsonObject = {"type": "redacted_thinking", "data": "d1"}


def given_back(response: JsonObject, model: str) -> JsonObject:
    return chat_messages(None, response["output"], model=model)[0]


def test_signed_thoughts_go_back_to_the_model_that_had_them_and_to_no_other() -> None:
    message = {
        "content": "So.",
        "tool_calls": [tool_call("a")],
        "thinking_blocks": [SIGNED, HIDDEN],
        "reasoning_content": "Let me look.",
    }
    response = response_from_chat(completion(message), turn=1, model=CLAUDE)
    assert [item["type"] for item in response["output"]] == ["message", "function_call"]
    back = given_back(response, CLAUDE)
    assert back["thinking_blocks"] == [SIGNED, HIDDEN]
    assert (back["content"], len(back["tool_calls"])) == ("So.", 1)
    assert "thinking_blocks" not in given_back(response, "anthropic/another")


def test_thoughts_in_pieces_are_put_together() -> None:
    def thought(**fields: str) -> JsonObject:
        return chunk({"thinking_blocks": [{"type": "thinking", **fields}]})

    reply = ChatReply(turn=1, model=CLAUDE)
    for one in (
        thought(thinking="Let me ", signature=""),
        thought(thinking="look."),
        thought(thinking="", signature="s1"),
        thought(thinking="And ", signature=""),
        thought(thinking="here.", signature="s2"),
        chunk({"thinking_blocks": [HIDDEN]}),
        chunk({"tool_calls": [{"index": 0, **tool_call("a")}]}, "tool_calls"),
    ):
        reply.add(one)
    response = reply.finish()[-1]["response"]
    assert given_back(response, CLAUDE)["thinking_blocks"] == [
        SIGNED,
        {"type": "thinking", "thinking": "And here.", "signature": "s2"},
        HIDDEN,
    ]


def test_the_signature_of_a_message_goes_back_with_it() -> None:
    signature = {"google": {"thought_signature": "s1"}}
    message = {"content": "So.", "reasoning": "Let me look.", "extra_content": signature}
    response = response_from_chat(completion(message), turn=1, model="gemini")
    back = given_back(response, "gemini")
    assert back["extra_content"] == signature
    assert "reasoning" not in back


def test_thoughts_that_nobody_signed_are_not_kept() -> None:
    message = {"content": "So.", "reasoning": "Let me look.", "reasoning_content": "Let me look."}
    response = response_from_chat(completion(message), turn=1, model=CLAUDE)
    assert "provider_data" not in response["output"][0]


@pytest.mark.parametrize("where", ["extra_content", "provider_specific_fields"])
def test_the_signature_of_a_call_goes_back_with_it(where: str) -> None:
    calls = [{**tool_call("a__thought__AAAA"), where: {"signature": "AAAA"}}, tool_call("b")]
    response = response_from_chat(completion({"tool_calls": calls}), turn=1, model="gemini")
    assert [item["call_id"] for item in response["output"]] == ["a", "b"]
    first, second = given_back(response, "gemini")["tool_calls"]
    assert first[where] == {"signature": "AAAA"}
    assert where not in second
    assert where not in given_back(response, "gpt")["tool_calls"][0]
