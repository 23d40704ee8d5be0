"""Large outputs of older questions are shortened for the model, and for nobody else."""

from typing import Any

import pytest

from outlast import Agent, RunConfig, function_tool
from outlast.agents.config.run_config import CallModelData, ModelInputData
from outlast.agents.errors import UserError
from outlast.extensions import ToolOutputTrimmer
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel, call, run_in_memory

LONG = "x" * 1000


def said(text: str) -> JsonObject:
    return {"role": "user", "content": text}


def called(call_id: str, name: str) -> JsonObject:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}


def output(call_id: str, value: Any) -> JsonObject:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


def trimmed(trimmer: ToolOutputTrimmer, *items: JsonObject) -> list[JsonObject]:
    before = [dict(item) for item in items]
    data = ModelInputData(input=list(items), instructions="Be kind.")
    result = trimmer(CallModelData(model_data=data, agent=None, context=None))
    assert [dict(item) for item in items] == before, "the items themselves stay"
    assert result.instructions == "Be kind."
    return result.input


def test_only_large_outputs_before_the_newest_questions_are_shortened() -> None:
    items = [
        said("a"),
        called("1", "search"),
        output("1", LONG),
        called("2", "look"),
        output("2", "small"),
        said("b"),
        called("3", "search"),
        output("3", LONG),
        said("c"),
    ]
    result = trimmed(ToolOutputTrimmer(preview_chars=3), *items)
    assert result[2]["output"] == "[Trimmed: search; payload 1000 chars; preview 3]\nxxx..."
    assert [result[at] for at in (0, 1, 3, 4, 5, 6, 7, 8)] == [
        items[at] for at in (0, 1, 3, 4, 5, 6, 7, 8)
    ]
    assert trimmed(ToolOutputTrimmer(recent_turns=4), *items) == items


@pytest.mark.parametrize(("tools", "is_short"), [("search", True), (["look"], False), (None, True)])
def test_tools_can_be_chosen(tools: Any, *, is_short: bool) -> None:
    trimmer = ToolOutputTrimmer(recent_turns=1, trimmable_tools=tools)
    result = trimmed(trimmer, called("1", "search"), output("1", LONG), said("b"))
    assert (result[1]["output"] != LONG) is is_short


PARTS = [{"type": "input_text", "text": "y" * 300}, {"type": "input_image", "image_url": LONG}]


@pytest.mark.parametrize(
    ("parts", "limit", "expected"),
    [
        (
            PARTS,
            100,
            "[Trimmed: shot; payload 1300 chars; preview 9; dropped 1 input_image]\nyyyyyyyyy...",
        ),
        (PARTS, 40, "[Trimmed]\nyyyyyyyyy..."),
        (PARTS, 15, "[Trimmed]\nyy..."),
        (PARTS, 5, "[Trim"),
        (PARTS[1:], 22, "[Trimmed: input_image]"),
        ([{"type": "input_text", "text": LONG, "of": "others"}], 10, None),
        ([{"type": "input_image", "file_id": 7}], 10, None),
        (["text"], 1, None),
    ],
)
def test_parts_become_one_short_text(parts: list[Any], limit: int, expected: str | None) -> None:
    trimmer = ToolOutputTrimmer(recent_turns=1, max_output_chars=limit, preview_chars=9)
    _, result, question = trimmed(trimmer, called("1", "shot"), output("1", parts), said("b"))
    assert result["output"] == (expected or parts)
    assert trimmed(trimmer, called("1", "shot"), result, question)[1] == result, "trimmed once"


def test_a_tool_of_a_namespace_goes_by_both_names() -> None:
    of_namespace = {**called("1", "look"), "namespace": "crm"}
    for name in ("look", "crm.look"):
        trimmer = ToolOutputTrimmer(recent_turns=1, trimmable_tools=name)
        _, result, _ = trimmed(trimmer, of_namespace, output("1", LONG), said("b"))
        assert "crm.look" in result["output"]


def test_found_tools_lose_their_prose_and_keep_their_schemas() -> None:
    schema: JsonObject = {
        "type": "object",
        "description": LONG,
        "properties": {
            "title": {"type": "string", "description": LONG, "default": {"title": "x"}},
            "many": {"anyOf": [{"$ref": "#/$defs/title", "examples": [1]}]},
        },
        "$defs": {"title": {"enum": [{"title": "A"}]}},
        "required": ["title"],
    }
    tool = {"type": "function", "name": "look", "description": LONG, "parameters": schema}
    group = {"type": "namespace", "name": "crm", "description": "short", "tools": [tool, 7]}
    found: JsonObject = {"type": "tool_search_output", "call_id": "1", "tools": [group]}
    trimmer = ToolOutputTrimmer(recent_turns=1, preview_chars=3)
    result = trimmed(trimmer, found, said("b"))[0]["tools"][0]
    assert result["tools"] == [
        {
            "type": "function",
            "name": "look",
            "description": "xxx...",
            "parameters": {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "default": {"title": "x"}},
                    "many": {"anyOf": [{"$ref": "#/$defs/title"}]},
                },
                "$defs": {"title": {"enum": [{"title": "A"}]}},
                "required": ["title"],
            },
        },
        7,
    ]
    assert result["description"] == "sho..."
    old: JsonObject = {"type": "tool_search_output", "results": [{"text": LONG}]}
    (result, _) = trimmed(trimmer, old, said("b"))
    assert result["results"][0]["text"].startswith("[Trimmed: tool_search output; payload 1014")
    chosen = ToolOutputTrimmer(recent_turns=1, trimmable_tools="look")
    assert trimmed(chosen, old, said("b"))[0] == old


def test_an_output_never_grows() -> None:
    trimmer = ToolOutputTrimmer(recent_turns=1, max_output_chars=5)
    items = [called("1", "s"), output("1", "abcdefgh"), said("b")]
    assert trimmed(trimmer, *items) == items


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"recent_turns": 0}, "recent_turns must be >= 1, not 0"),
        ({"max_output_chars": 0}, "max_output_chars"),
        ({"preview_chars": -1}, "preview_chars"),
        ({"trimmable_tools": [1]}, "must be a string or iterable of strings, not [1]"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match="ToolOutputTrimmer") as caught:
        ToolOutputTrimmer(**options)
    assert problem in str(caught.value)
    assert isinstance(caught.value, UserError)


async def test_a_run_filters_with_it() -> None:
    @function_tool
    def search() -> str:
        return LONG

    model = ScriptedModel([call("search", "1")], "Found.")
    history = [said("a"), called("0", "search"), output("0", LONG), said("b")]
    config = RunConfig(call_model_input_filter=ToolOutputTrimmer(recent_turns=1))
    agent = Agent(name="A", tools=[search])
    result = await run_in_memory(agent, history, model=model, run_config=config)
    outputs = [item["output"] for item in model.requests[1].input if "output" in item]
    assert [len(one) < 500 for one in outputs] == [True, False]
    assert [len(item["output"]) for item in result.to_input_list() if "output" in item] == [
        1000
    ] * 2
