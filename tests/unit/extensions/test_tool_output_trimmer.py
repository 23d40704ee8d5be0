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
    assert result[2]["output"] == "[Shortened output of search: 1000 characters]\nxxx"
    assert [result[at] for at in (0, 1, 3, 4, 5, 6, 7, 8)] == [
        items[at] for at in (0, 1, 3, 4, 5, 6, 7, 8)
    ]
    assert trimmed(ToolOutputTrimmer(recent_turns=4), *items) == items


@pytest.mark.parametrize(("tools", "is_short"), [("search", True), (["look"], False), (None, True)])
def test_tools_can_be_chosen(tools: Any, *, is_short: bool) -> None:
    trimmer = ToolOutputTrimmer(recent_turns=1, trimmable_tools=tools)
    result = trimmed(trimmer, called("1", "search"), output("1", LONG), said("b"))
    assert (result[1]["output"] != LONG) is is_short


def test_parts_become_one_short_text() -> None:
    parts = [{"type": "input_text", "text": "y" * 300}, {"type": "input_image", "image_url": LONG}]
    trimmer = ToolOutputTrimmer(recent_turns=1, max_output_chars=100)
    _, result, _ = trimmed(trimmer, called("1", "shot"), output("1", parts), said("b"))
    (part,) = result["output"]
    assert part["type"] == "input_text"
    assert part["text"].startswith("[Shortened output of shot: 1300 characters]\nyyy")
    assert len(part["text"]) == 100


def test_an_output_never_grows() -> None:
    trimmer = ToolOutputTrimmer(recent_turns=1, max_output_chars=5)
    items = [called("1", "s"), output("1", "abcdefgh"), said("b")]
    assert trimmed(trimmer, *items) == items


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"recent_turns": 0}, "recent_turns=...) must be a whole number from 1, not 0"),
        ({"max_output_chars": 0}, "max_output_chars"),
        ({"preview_chars": -1}, "preview_chars"),
        ({"trimmable_tools": [1]}, "must be names of tools, not [1]"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError) as caught:
        ToolOutputTrimmer(**options)
    assert problem in str(caught.value)


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
