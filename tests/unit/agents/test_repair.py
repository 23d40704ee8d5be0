"""What would make every later request fail is repaired before a model reads it."""

import json
from typing import Any

import pytest

from outlast.agents.items.repair import (
    EMPTY_MESSAGE,
    Links,
    Placed,
    is_empty_message,
    readable,
    whole_pairs,
)
from outlast.loop.values import JsonObject


def said(*texts: str, role: str = "assistant") -> JsonObject:
    kind = "output_text" if role == "assistant" else "input_text"
    parts = [{"type": kind, "text": text} for text in texts]
    return {"type": "message", "role": role, "content": parts}


def called(call_id: str = "a", arguments: Any = "{}", kind: str = "function_call") -> JsonObject:
    return {"type": kind, "call_id": call_id, "name": "look", "arguments": arguments}


def returned(call_id: str = "a", output: Any = "ok") -> JsonObject:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def thought(item_id: str = "rs_1") -> JsonObject:
    return {"type": "reasoning", "id": item_id, "summary": []}


HELLO: JsonObject = {"role": "user", "content": "hello"}
IMAGE: JsonObject = {"type": "input_image", "image_url": "https://example.com/a.png"}


@pytest.mark.parametrize("written", ["{}", '{"zone": "Eur"}', ' {"a": [1]}\n', '{"a": "\\u00e9"}'])
def test_arguments_that_are_an_object_stay_as_the_model_wrote_them(written: str) -> None:
    raw = called(arguments=written)
    assert readable(raw) is raw


@pytest.mark.parametrize(
    "written",
    ['{"zone": "Eur', "Europe", "[1]", "null", '{"a": NaN}', '{"a": 1} {"b": 2}', "\ud800", "[" * 9_999],
)  # fmt: skip
def test_arguments_that_are_no_object_are_quoted_in_one(written: str) -> None:
    raw = called(arguments=written)
    shown = readable(raw)
    assert shown is not None
    assert json.loads(shown.pop("arguments")) == {"invalid_arguments": written}
    assert shown == {name: value for name, value in raw.items() if name != "arguments"}


@pytest.mark.parametrize("written", ["", None, {}])
def test_no_arguments_are_an_empty_object(written: Any) -> None:
    assert readable(called(arguments=written)) == called()


def test_arguments_that_another_program_saved_as_an_object_are_written() -> None:
    assert readable(called(arguments={"a": 1})) == called(arguments='{"a": 1}')


@pytest.mark.parametrize("raw", [HELLO, said("hi"), said("hi", role="user"), returned(output="")])
def test_what_says_something_stays_the_same_object(raw: JsonObject) -> None:
    assert readable(raw) is raw


@pytest.mark.parametrize("content", ["", " \n", [], None, [{"type": "output_text", "text": ""}]])
@pytest.mark.parametrize("role", ["assistant", "system", "developer"])
def test_an_empty_message_is_left_out(role: str, content: Any) -> None:
    assert readable({"type": "message", "role": role, "content": content}) is None


@pytest.mark.parametrize("content", ["", " \n", [], None, [{"type": "input_text", "text": " "}]])
def test_an_empty_message_of_a_user_is_a_question_still(content: Any) -> None:
    raw: JsonObject = {"role": "user", "content": content}
    assert readable(raw) == {"role": "user", "content": EMPTY_MESSAGE}


def test_empty_parts_are_left_out() -> None:
    assert readable(said("", "hi", " ")) == said("hi")
    mixed: JsonObject = {"role": "user", "content": [{"type": "input_text", "text": ""}, IMAGE]}
    assert readable(mixed) == {"role": "user", "content": [IMAGE]}
    refusal = {"type": "refusal", "refusal": "no"}
    refused: JsonObject = {"role": "assistant", "content": [refusal, {**refusal, "refusal": ""}]}
    assert readable(refused) == {"role": "assistant", "content": [refusal]}


@pytest.mark.parametrize(
    ("output", "shown"),
    [([], ""), ([{"type": "input_text", "text": ""}], ""), ([{"type": "input_text", "text": ""}, IMAGE], [IMAGE])],
)  # fmt: skip
def test_an_empty_output_stays_an_output(output: Any, shown: Any) -> None:
    assert readable(returned(output=output)) == returned(output=shown)


@pytest.mark.parametrize("content", ["", [], None, [{"type": "output_text", "text": ""}]])
def test_a_reply_without_a_character_is_empty(content: Any) -> None:
    assert is_empty_message({"type": "message", "role": "assistant", "content": content})


@pytest.mark.parametrize("raw", [said(" "), said("", "x"), thought(), called(arguments="")])
def test_any_other_reply_is_recorded(raw: JsonObject) -> None:
    assert not is_empty_message(raw)


def placed(*raws: JsonObject, turn: int = 1) -> list[Placed]:
    return [(raw, turn) for raw in raws]


@pytest.mark.parametrize(
    ("items", "left"),
    [
        ([HELLO, thought(), called("a"), called("b"), returned("b")], [HELLO, thought(), called("b"), returned("b")]),
        ([thought(), called("a"), HELLO], [HELLO]),
        ([HELLO, returned("a"), said("hi")], [HELLO, said("hi")]),
        ([returned("a"), called("a"), HELLO], [HELLO]),
        ([thought(), HELLO], [HELLO]),
        ([HELLO, thought()], [HELLO]),
        ([thought(), thought("rs_2"), called("a"), said("hi")], [said("hi")]),
        ([thought(), returned("a"), said("hi")], [said("hi")]),
    ],
)  # fmt: skip
def test_halves_of_pairs_go(items: list[JsonObject], left: list[JsonObject]) -> None:
    assert whole_pairs(placed(*items))[0] == left


def test_reasoning_goes_where_a_filter_has_cut_all_else_of_its_reply() -> None:
    items = [*placed(thought("rs_1"), turn=1), *placed(thought("rs_2"), said("hi"), turn=2)]
    assert whole_pairs(items)[0] == [thought("rs_2"), said("hi")]


SEARCH: JsonObject = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
LOOK: JsonObject = {**called("a"), "id": "fc_1"}
REPLY: JsonObject = {**said("hi"), "id": "msg_1"}
TURN = [HELLO, thought("rs_1"), LOOK, returned("a"), thought("rs_2"), SEARCH, thought("rs_3"), REPLY]  # fmt: skip


@pytest.mark.parametrize(
    ("cut", "left"),
    [
        ([], [0, 1, 2, 3, 4, 5, 6, 7]),
        ([1], [0, 2, 3, 4, 5, 6, 7]),
        ([2, 3], [0, 4, 5, 6, 7]),
        ([2, 3, 5], [0, 6, 7]),
        ([4], [0, 1, 2, 3, 6, 7]),
        ([6], [0, 1, 2, 3, 4, 5, 7]),
        ([7], [0, 1, 2, 3, 4, 5]),
        ([0, 1, 2, 3, 4, 5, 6], [7]),
    ],
)
def test_what_user_code_cuts_takes_along_what_it_belonged_to(
    cut: list[int], left: list[int]
) -> None:
    chosen = [raw for at, raw in enumerate(TURN) if at not in cut]
    kept = [raw for raw in Links.of(TURN).kept_in(chosen) if raw is not None]
    lost_ids = {item for item, reasoning in ((2, 1), (7, 6)) if reasoning in cut}
    expected = [
        {name: value for name, value in TURN[at].items() if name != "id"} if at in lost_ids else TURN[at]
        for at in left
    ]  # fmt: skip
    assert kept == expected


def test_what_user_code_adds_or_changes_stays() -> None:
    changed = {**REPLY, "content": [{"type": "output_text", "text": "hello"}]}
    chosen = [HELLO, thought("rs_3"), changed, {"role": "user", "content": "new"}]
    assert Links.of(TURN).kept_in(chosen) == chosen
