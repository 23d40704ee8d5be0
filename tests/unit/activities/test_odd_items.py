"""Items of any shape, and values with keys like ours, go through a run as they are."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from outlast.activities.content import recorded_result, whole_request
from outlast.agents.agent import Agent
from outlast.agents.config.session_input import merge_history
from outlast.agents.tools.function_tool import function_tool
from outlast.blobs.contents import LargeContent
from outlast.contract import blobs
from outlast.contract.effects import EffectRequest
from outlast.loop.calls import HandoffResult, ModelReply, PreparedRun, ToolResult
from outlast.loop.checks import Candidate, FinalizedAnswer
from outlast.loop.effects import CallModel, FinalizeAnswer, RunTool
from outlast.loop.items import Item
from outlast.loop.values import BLOB, JsonObject, reference
from outlast.loop.view import ViewEdit
from outlast.models.openai.chat_request import UnsupportedItemError, chat_messages
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, run_in_memory, say
from tests.unit.activities.desk import with_content
from tests.unit.blobs.stores import MemoryStore

SECRET = "what another run has stored"
KEY = blobs.key_of(SECRET.encode())
REFERENCE = reference(KEY, len(SECRET))

ODD: list[Any] = [
    {blobs.ESCAPED: 5},
    {blobs.ESCAPED: {"a": 1}},
    {blobs.ESCAPED: REFERENCE},
    {BLOB: 1},
    REFERENCE,
    {"$outlast.else": []},
    {},
    [],
    [5],
    5,
    None,
]
FIELDS: dict[str, Any] = {"effect": 1, "agent": "A", "turn": 1, "run_id": "r"}
CALL = EffectRequest(effect=CallModel(**FIELDS, input_length=1), items=())
TOOL = EffectRequest(effect=RunTool(**FIELDS, name="t", call_id="c", arguments="{}"))
FINAL = EffectRequest(effect=RunTool(**FIELDS, name="t", call_id="c", arguments="{}", final=True))


def odd_items() -> Iterator[JsonObject]:
    message: JsonObject = {"type": "message", "role": "user", "content": "x", "id": "i"}
    output = {"type": "function_call_output", "call_id": "c", "output": "o"}
    thought: JsonObject = {"type": "reasoning", "id": "i", "summary": []}
    for odd in ODD:
        if isinstance(odd, dict):
            yield odd
        for item in ({"role": "user", "content": "x"}, message, output, thought):
            for name in item:
                yield {**item, name: odd}
        for name in ("type", "text", "image_url"):
            part: JsonObject = {"type": "input_text", "text": "x", name: odd}
            yield {"role": "user", "content": [part]}
            yield {**message, "role": "assistant", "content": [part]}
            yield {**output, "output": [part]}


@pytest.mark.parametrize("odd", list(odd_items()), ids=json.dumps)
@pytest.mark.breaks_rules(
    "call-id",
    "content-empty",
    "content-shape",
    "item-fields",
    "item-id",
    "item-type",
    "output-called",
    "part-type",
    "reasoning-followed",
    "role-known",
)
async def test_a_message_of_any_shape_leaves_its_conversation_alive(odd: JsonObject):
    seen: list[ModelRequest] = []

    def reply(request: ModelRequest) -> Any:
        seen.append(request)
        return say("Here.")

    items = [odd, {"role": "user", "content": "Are you there?"}]
    result = await run_in_memory(Agent(name="A"), items, model=ScriptedModel(always=reply))
    assert result.final_output == "Here."
    merge_history([odd], [odd])
    try:
        chat_messages(None, seen[0].input)
    except UnsupportedItemError as error:
        assert "input item 0" in str(error)  # noqa: PT017  either is right


@pytest.fixture(params=["with a store", "without a store"])
async def content(request: pytest.FixtureRequest) -> LargeContent:
    """The worker's store, with another run's content."""
    store = MemoryStore()
    await store.put(SECRET.encode())
    return LargeContent(store if request.param == "with a store" else None)


@pytest.mark.parametrize("odd", ODD, ids=json.dumps)
async def test_what_others_wrote_never_reads_as_a_reference(content: LargeContent, odd: Any):
    """Not in the output of a tool, nor in what a model, a session or a filter wrote."""
    raw = {"role": "user", "content": odd}
    said = {"type": "message", "role": "assistant", "content": [{"text": odd}], "$outlast.x": odd}
    edit = ViewEdit(segments=((0, 1), raw), history=1, added=(raw,))
    results: list[tuple[EffectRequest[Any], Any]] = [
        (TOOL, ToolResult(output=[odd], value=odd)),
        (FINAL, ToolResult(output=odd, value=odd)),
        (CALL, ModelReply(items=(said, raw), value=odd)),
        (CALL, PreparedRun(input=(raw,))),
        (CALL, HandoffResult(edit=edit)),
        (CALL, FinalizedAnswer(output=odd, message=said)),
    ]
    for request, result in results:
        recorded: Any = await recorded_result(content, request, result)
        values, written = _values(result), _values(recorded)
        assert not any(map(blobs.has_references, written))
        assert await content.joined_all(written) == values
        candidate = Candidate(output=written[0])
        answer = FinalizeAnswer(**FIELDS, candidate=candidate, input_length=0)
        items = tuple(Item("input", one) for one in written if one == raw)
        whole = await whole_request(
            with_content(content), EffectRequest(effect=answer, items=items)
        )
        assert whole.effect.candidate.output == values[0]


async def test_the_loop_reads_a_message_with_a_key_like_ours(content: LargeContent):
    said = {"type": "message", "role": "assistant", "content": "Hi", "$outlast.x": REFERENCE}
    reply = await recorded_result(content, CALL, ModelReply(items=(said,)))
    assert (reply.items[0]["type"], reply.items[0]["content"]) == ("message", "Hi")


def _values(result: Any) -> list[Any]:
    match result:
        case ToolResult():
            return [result.output, result.value]
        case ModelReply():
            return [*result.items, result.value]
        case PreparedRun():
            return list(result.input or ())
        case HandoffResult(edit=ViewEdit() as edit):
            return [edit.segments[1], *edit.added]
        case FinalizedAnswer():
            return [result.output, result.message]
        case _:
            raise AssertionError(result)


def test_content_next_to_a_raw_marker_is_not_moved_into_it():
    """A reference there would read as an escape."""
    items = [Item("input", {blobs.ESCAPED: "x" * 5_000}), Item("input", {"content": "y" * 5_000})]
    moved = blobs.offload(items, 0, 1_000, {}).moved
    assert [(one.item, one.path) for one in moved] == [(1, ("content",))]


@pytest.mark.parametrize("odd", ODD[:6])
@pytest.mark.breaks_rules("content-empty", "content-shape")
async def test_a_run_in_memory_reads_no_reference_in_what_others_wrote(odd: JsonObject) -> None:
    @function_tool
    def look_up() -> Any:
        return [odd]

    said: list[JsonObject] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "of": odd}]}
    ]
    model = ScriptedModel([call("look_up", "c1")], "Fine.")
    result = await run_in_memory(Agent(name="A", tools=[look_up]), said, model=model)
    first, second = model.requests
    assert first.input == said
    assert second.input[0] == said[0]
    (output,) = [one for one in second.input if one.get("type") == "function_call_output"]
    assert json.loads(str(output["output"])) == [odd]
    assert result.to_input_list()[0] == said[0]
    assert result.final_output == "Fine."
