"""What leaves records before they are recorded, and what an outage of the store means."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlast.activities.content import recorded_result, whole_request
from outlast.activities.effects.offload_items import offload_items
from outlast.activities.errors import EffectError
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.blobs import FileBlobStore
from outlast.blobs.contents import LargeContent
from outlast.contract.blobs import key_of
from outlast.contract.effects import EffectRequest
from outlast.loop.calls import HandoffResult, ModelReply, PlannedCall, PreparedRun, ToolResult
from outlast.loop.checks import Candidate, CheckResult, ToolOutcome
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    FinalizeAnswer,
    OffloadItems,
    PrepareRun,
    RunTool,
)
from outlast.loop.items import Item
from outlast.loop.stored import OFFLOAD_ABOVE
from outlast.loop.values import is_reference, reference
from outlast.loop.view import ViewEdit
from tests.unit.activities.desk import with_content, worker_of

LONG = "x" * 2_000
FIELDS: dict[str, Any] = {"effect": 1, "agent": "A", "turn": 1, "run_id": "r"}
TOOL = EffectRequest(effect=RunTool(**FIELDS, name="t", call_id="c", arguments="{}"))


@pytest.fixture
def content(tmp_path: Path) -> LargeContent:
    return LargeContent(FileBlobStore(tmp_path), threshold=1_000)


def deps_of(content: LargeContent) -> WorkerDeps:
    return replace(worker_of(Agent(name="A")), content=content)


def item(text: Any = LONG) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def test_an_output_is_recorded_as_a_reference(content: LargeContent):
    result = await recorded_result(content, TOOL, ToolResult(output=LONG, value=LONG))
    assert is_reference(result.output)
    assert is_reference(result.value)
    parts = [{"type": "input_image", "image_url": LONG}]
    result = await recorded_result(content, TOOL, ToolResult(output=parts))
    assert is_reference(result.output[0]["image_url"])


async def test_an_output_that_may_be_the_answer_is_stored_whole_or_not(content: LargeContent):
    final = RunTool(**FIELDS, name="t", call_id="c", arguments="{}", final=True)
    value = {"a": LONG}
    result = await recorded_result(
        content, EffectRequest(effect=final), ToolResult(output=value, value=value)
    )
    assert (result.output, result.value) == (value, value)


async def test_a_text_of_a_call_that_says_several_things_stays(content: LargeContent):
    shell = RunTool(**FIELDS, name="s", call_id="c", arguments="{}", form="shell_call")
    assert (
        await recorded_result(content, EffectRequest(effect=shell), ToolResult(output=LONG))
    ).output == LONG
    result = await recorded_result(
        content, EffectRequest(effect=shell), ToolResult(output={"stdout": LONG})
    )
    assert is_reference(result.output["stdout"])


async def test_what_the_loop_reads_of_a_reply_stays(content: LargeContent):
    call = {"type": "function_call", "call_id": "c", "name": "t", "arguments": LONG}
    said = {"type": "message", "role": "assistant", "content": [{"text": LONG}]}
    image = {"type": "image_generation_call", "id": "i", "result": LONG}
    thought = {"type": "reasoning", "id": "r", "encrypted_content": LONG}
    reply = ModelReply(
        items=(call, said, image, thought), calls=(PlannedCall(item=0, kind="tool"),)
    )
    result = await recorded_result(content, TOOL, reply)
    assert result.items[:2] == (call, said)
    assert is_reference(result.items[2]["result"])
    assert is_reference(result.items[3]["encrypted_content"])
    assert not result.stores


async def test_a_briefing_says_that_there_is_a_store(content: LargeContent):
    result = await recorded_result(content, TOOL, PreparedRun(input=(item(),)))
    assert result.stores
    assert result.input is not None
    assert is_reference(result.input[0]["content"])
    assert not (await recorded_result(LargeContent(None), TOOL, PreparedRun())).stores


@pytest.mark.parametrize(("more", "stays"), [(0, True), (1, False)])
async def test_many_short_texts_are_stored_where_they_are_too_much_together(
    content: LargeContent, more: int, *, stays: bool
):
    text = "x" * (1_998 - len(json.dumps(item(""))))
    items = (*[item(text)] * 249, item(text + "x" * more))
    assert len(json.dumps(items)) == 500_000 + more
    patient = LargeContent(content.store, threshold=4_000)
    result = await recorded_result(patient, TOOL, PreparedRun(input=items))
    assert (result.input == items) is stays


async def test_a_long_request_makes_the_reply_tell_of_the_store(content: LargeContent):
    items = (Item("input", item("x" * 600_000)),)
    request = EffectRequest(effect=CallModel(**FIELDS, input_length=1), items=items)
    assert (await recorded_result(content, request, ModelReply(items=()))).stores


@pytest.mark.parametrize(("size", "tells"), [(0, False), (1, True)])
async def test_half_of_what_makes_a_run_store_content_makes_the_reply_tell(
    content: LargeContent, size: int, *, tells: bool
):
    """The store is known before the run holds so much that it has to use it."""
    items = (Item("input", item("x" * (OFFLOAD_ABOVE // 2 + size))),)
    request = EffectRequest(effect=CallModel(**FIELDS, input_length=1), items=items)
    assert (await recorded_result(content, request, ModelReply(items=()))).stores is tells


async def test_a_filters_items_are_stored(content: LargeContent):
    edit = ViewEdit(segments=((0, 1), item()), history=1, added=(item(),))
    result = await recorded_result(content, TOOL, HandoffResult(edit=edit))
    assert result.edit is not None
    put_in: Any = result.edit.segments[1]
    assert is_reference(put_in["content"])
    assert is_reference(result.edit.added[0]["content"])
    checked = CheckResult()
    assert await recorded_result(content, TOOL, checked) is checked


class Away:
    """A store that cannot be reached."""

    async def put(self, data: bytes) -> str:
        raise ConnectionError("no route")

    async def get(self, key: str) -> bytes:
        raise ConnectionError("no route")


async def test_what_was_done_is_not_done_again_because_the_store_is_away(
    caplog: pytest.LogCaptureFixture,
):
    result = ToolResult(output=LONG)
    content = LargeContent(Away(), threshold=1_000)
    assert await recorded_result(content, TOOL, result) == result
    assert "large content stays in the history of the run: no route" in caplog.text


async def test_requests_get_their_content_back(content: LargeContent):
    stored = (await recorded_result(content, TOOL, ToolResult(output=LONG))).output
    whole, referring = (Item("input", item(text)) for text in (LONG, stored))
    check = CheckInput(**FIELDS, stage="added", items=(referring,))
    assert (
        await whole_request(with_content(content), EffectRequest(effect=check))
    ).effect.items == (whole,)
    prepare = PrepareRun(effect=1, agent="A", input=(item(stored),))
    assert (
        await whole_request(with_content(content), EffectRequest(effect=prepare))
    ).effect.input == (item(),)
    outcome = ToolOutcome(name="t", call_id="c", output=stored, value=stored)
    candidate = Candidate(output=stored, outcomes=(outcome,))
    call = FinalizeAnswer(**FIELDS, candidate=candidate, input_length=1)
    asked = EffectRequest(effect=call, items=(referring, whole))
    got = await whole_request(with_content(content), asked)
    assert got.items == (whole, whole)
    assert got.items[1] is whole
    assert got.effect.candidate.output == LONG
    assert got.effect.candidate.outcomes[0].value == LONG
    assert await whole_request(with_content(content), got) == got
    offload = EffectRequest(
        effect=OffloadItems(effect=1, start=0, stop=1, run_id="r"), items=(referring,)
    )
    assert await whole_request(with_content(content), offload) == offload


async def test_each_turn_of_a_conversation_gets_its_content_back(content: LargeContent):
    plain = tuple(Item("input", item(f"{number}")) for number in range(3))
    made = await recorded_result(content, TOOL, ToolResult(output=LONG))
    stored = Item("tool_output", {"type": "function_call_output", "output": made.output}, "A", 1)
    more = Item("input", item("more"))
    effect = CallModel(**FIELDS, input_length=1)
    for items in ((), plain[:1], plain, (*plain, stored), (*plain, stored, more), (*plain, more)):
        whole = await whole_request(
            with_content(content), EffectRequest(effect=effect, items=items)
        )
        outputs = [one.raw["output"] for one in whole.items if one.kind == "tool_output"]
        assert outputs == [LONG] * items.count(stored)
        assert [one.kind for one in whole.items] == [one.kind for one in items]


async def test_each_outcome_that_a_rule_judges_gets_its_own_content_back(content: LargeContent):
    texts = [f"{number}" * 2_000 for number in range(6)]
    stored = [
        (await recorded_result(content, TOOL, ToolResult(output=text))).output for text in texts
    ]
    outcomes = tuple(
        ToolOutcome(name="t", call_id=f"c{at}", output=stored[at], value=stored[at + 3])
        for at in range(3)
    )
    call = FinalizeAnswer(**FIELDS, candidate=Candidate(outcomes=outcomes), input_length=0)
    got = (
        await whole_request(with_content(content), EffectRequest(effect=call))
    ).effect.candidate.outcomes
    assert [(one.output, one.value) for one in got] == list(zip(texts[:3], texts[3:], strict=True))


async def test_a_store_that_is_away_or_missing_is_tried_again(content: LargeContent):
    stored = (await recorded_result(content, TOOL, ToolResult(output=LONG))).output
    check = CheckInput(**FIELDS, stage="added", items=(Item("input", item(stored)),))
    for other in (LargeContent(Away()), LargeContent(None)):
        with pytest.raises(EffectError) as raised:
            await whole_request(with_content(other), EffectRequest(effect=check))
        assert (raised.value.code, raised.value.retryable) == ("content_unavailable", True)


async def test_a_worker_without_a_store_says_how_it_gets_one() -> None:
    call = OffloadItems(effect=1, start=0, stop=1, run_id="r")
    request = EffectRequest(effect=call, items=(Item("input", item()),))
    with pytest.raises(EffectError, match=r"blob_store=.*OUTLAST_BLOB_STORE\.$") as raised:
        await offload_items(deps_of(LargeContent(None)), request)
    assert (raised.value.code, raised.value.retryable) == ("content_unavailable", True)


async def test_items_are_offloaded_where_there_is_a_store(content: LargeContent):
    call = OffloadItems(effect=1, start=3, stop=4, run_id="r")
    request = EffectRequest(effect=call, items=(Item("input", item()),))
    done = await offload_items(deps_of(content), request)
    assert [one.item for one in done.moved] == [3]
    for other in (LargeContent(Away()), LargeContent(None)):
        with pytest.raises(EffectError) as raised:
            await offload_items(deps_of(other), request)
        assert raised.value.retryable


def only_file(directory: Path) -> Path:
    (path,) = [path for path in directory.rglob("*") if path.is_file()]
    return path


async def test_a_conversation_continues_without_content_that_is_gone(tmp_path: Path):
    """Damaged content at once; missing content when no other worker has it."""
    content = LargeContent(FileBlobStore(tmp_path), threshold=1_000, cache_bytes=0)
    part = {"type": "input_image", "image_url": LONG}
    message = {"role": "user", "content": [part]}
    made = await recorded_result(content, TOOL, PreparedRun(input=(message,)))
    assert made.input is not None
    raw = made.input[0]
    call = EffectRequest(effect=CallModel(**FIELDS, input_length=1), items=(Item("input", raw),))
    path = only_file(tmp_path)
    path.write_bytes(b"y" * 2_000)
    (item_,) = (await whole_request(with_content(content), call)).items
    words = "[2,000 bytes of content were here and are lost: the stored copy is damaged.]"
    assert item_.raw == {"role": "user", "content": [{"type": "input_text", "text": words}]}
    path.unlink()
    other = LargeContent(FileBlobStore(tmp_path), cache_bytes=0)
    with pytest.raises(EffectError, match="BlobNotFound") as raised:
        await whole_request(with_content(other), call)
    assert (raised.value.retryable, raised.value.attempts) == (True, None)
    (item_,) = (await whole_request(with_content(other), call, is_last=True)).items
    assert "the store no longer has it" in item_.raw["content"][0]["text"]
    with pytest.raises(EffectError, match="OUTLAST_BLOB_STORE"):
        await whole_request(with_content(LargeContent(None)), call, is_last=True)
    await recorded_result(content, TOOL, ToolResult(output=LONG))
    (item_,) = (await whole_request(with_content(other), call)).items
    assert item_.raw["content"] == [part], "the same content has healed it"


class Hanging(Away):
    """A store that never answers."""

    async def put(self, data: bytes) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async def get(self, key: str) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_store_that_hangs_holds_up_nothing_for_long():
    content = LargeContent(Hanging(), threshold=1_000, patience=0.02)
    result = ToolResult(output=LONG)
    assert await recorded_result(content, TOOL, result) == result
    patient = LargeContent(Hanging(), threshold=1_000)
    assert await recorded_result(patient, TOOL, result, within=0.02) == result
    raw = item(reference(key_of(LONG.encode()), 2_000))
    call = EffectRequest(effect=CallModel(**FIELDS, input_length=1), items=(Item("input", raw),))
    with pytest.raises(EffectError, match="StoreTimeout") as raised:
        await whole_request(with_content(content), call)
    assert (raised.value.retryable, raised.value.attempts) == (True, 4)
