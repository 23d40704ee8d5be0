"""What travels: written sparsely, read tolerantly, the same after the journey."""

import base64
import dataclasses
import json
import zlib
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from outlast.contract import records
from outlast.contract.names import SCHEMA_VERSION
from outlast.contract.records import (
    CancelRecord,
    ModelRequestRecord,
    RunInput,
    RunResultRecord,
    SendRecord,
    UnreadableRecordError,
    read,
    read_state,
    write,
    write_state,
)
from outlast.loop.approvals import Decision
from outlast.loop.calls import Briefing, HandoffResult, ModelReply, ToolResult
from outlast.loop.commands import CallModel, PrepareRun, RunHandoff, RunTool
from outlast.loop.items import Item, Message
from outlast.loop.state import RunState
from tests.loop_driver import SITUATIONS, Play, play_in, said
from tests.loop_strategies import anything_like, examples, same_json

KINDS: list[Any] = [
    RunInput,
    SendRecord,
    CancelRecord,
    Decision,
    RunResultRecord,
    ModelRequestRecord,
    Briefing,
    ModelReply,
    ToolResult,
    HandoffResult,
    PrepareRun,
    CallModel,
    RunTool,
    RunHandoff,
]
QUICK = examples(15)


def over_the_wire(payload: Any) -> Any:
    return json.loads(json.dumps(payload))


# --- Round trips ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_record_is_the_same_after_the_journey(kind: Any) -> None:
    @QUICK
    @given(anything_like(kind))
    def travels(record: Any) -> None:
        payload = over_the_wire(write(record))
        assert read(kind, payload) == record
        assert records.load(kind, [records.dump(record)]) == record
        assert same_json(
            json.loads(records.dump(read(kind, payload))), json.loads(records.dump(record))
        )

    travels()


@QUICK
@given(anything_like(RunState))
def test_a_state_is_the_same_after_the_journey(state: RunState) -> None:
    assume(state.phase != "new")
    assert read_state(over_the_wire(write_state(state))) == state
    assert records.load(RunState, [records.dump(state)]) == state


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_run_can_be_carried_from_anywhere(situation: str) -> None:
    state = play_in(situation, keep_open=True, context={"n": 0}).state
    read_back = read_state(over_the_wire(write_state(state)))
    assert read_back == state
    assert [type(one) for one in read_back.pending] == [type(one) for one in state.pending]


EFFECT = {"effect": 3, "agent": "A", "context": 1, "context_type": "T", "settings": {"a": 1}}
CALL = {**EFFECT, "turn": 1, "usage": {"requests": 1}, "run_id": "r"}
TOOL = {**CALL, "name": "f", "call_id": "c", "arguments": "{}", "policy": {"attempts": 1}}
SMALLEST: dict[Any, dict[str, Any]] = {
    RunInput: {},
    SendRecord: {"input": "x", "message_id": "m"},
    CancelRecord: {},
    Decision: {"request_id": "a1", "type": "reject"},
    RunResultRecord: {"status": "completed", "agent": "A"},
    ModelRequestRecord: {"call": {**CALL, "input_length": 1}, "items": []},
    Briefing: {},
    ModelReply: {"items": [{"type": "message"}]},
    ToolResult: {"output": "x"},
    HandoffResult: {},
    PrepareRun: EFFECT,
    CallModel: {**CALL, "input_length": 1},
    RunTool: TOOL,
    RunHandoff: {**TOOL, "target": "B"},
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_has_its_default_is_not_written(kind: Any) -> None:
    """But for the version, which only helps where it is written."""
    written = write(read(kind, SMALLEST[kind]))
    written.pop("schema_version", None)
    assert written == SMALLEST[kind]


# --- Input typed by hand -------------------------------------------------------------------------


def test_a_run_can_be_started_with_two_fields_typed_by_hand() -> None:
    record = read(RunInput, {"agent": "Triage", "input": "Hello"})
    assert record == RunInput(agent="Triage", input="Hello")
    assert (record.max_turns, record.keep_open, record.message_id) == (10, False, "start")


SAID: list[tuple[Any, tuple[Any, ...]]] = [
    ("Hello", ({"role": "user", "content": "Hello"},)),
    ("", ({"role": "user", "content": ""},)),
    ([], ()),
    ([{"role": "developer", "content": "a"}, {}], ({"role": "developer", "content": "a"}, {})),
]


@pytest.mark.parametrize(("content", "items"), SAID)
def test_what_was_said_is_a_text_or_items(content: Any, items: tuple[Any, ...]) -> None:
    assert records.messages_of(content) == items
    sent = read(SendRecord, {"input": content, "message_id": "m1"})
    assert records.message_of(sent, 7) == Message("m1", items, 7)
    started = read(RunInput, {"agent": "A", "input": content})
    assert records.message_of(started, 7) == Message("start", items, 7)


UNREADABLE: list[tuple[Any, Any, str]] = [
    (RunInput, None, "the payload"),
    (RunInput, "Hello", "the payload"),
    (RunInput, [], "the payload"),
    (RunInput, 3, "the payload"),
    (RunInput, {"agent": 3}, "agent"),
    (RunInput, {"agent": "A", "input": 3}, "input"),
    (RunInput, {"agent": "A", "input": ["x"]}, "input"),
    (RunInput, {"agent": "A", "max_turns": "many"}, "max_turns"),
    (RunInput, {"agent": "A", "settings": []}, "settings"),
    (RunInput, {"agent": "A", "schema_version": "new"}, "schema_version"),
    (SendRecord, {"input": "x"}, "message_id"),
    (SendRecord, {"message_id": "x"}, "input"),
    (SendRecord, {"input": None, "message_id": "x"}, "input"),
    (CancelRecord, {"mode": "softly"}, "mode"),
    (CancelRecord, "immediate", "the payload"),
    (Decision, {"type": "approve"}, "request_id"),
    (Decision, {"request_id": "a1"}, "type"),
    (Decision, {"request_id": "a1", "type": "maybe"}, "type"),
    (Decision, {"request_id": 1, "type": "approve"}, "request_id"),
    (ToolResult, {}, "output"),
    (ToolResult, {"output": 1, "changes": [{"op": "replace", "path": []}]}, "op"),
    (ModelReply, {}, "items"),
    (ModelReply, {"items": ["text"]}, "items.0"),
    (ModelReply, {"items": [{"type": "function_call"}]}, "exactly one entry"),
]


@pytest.mark.parametrize(("kind", "payload", "named"), UNREADABLE)
def test_what_does_not_fit_is_refused_by_name(kind: type[Any], payload: Any, named: str) -> None:
    with pytest.raises(UnreadableRecordError) as caught:
        read(kind, payload)
    assert str(caught.value).startswith(f"This is not a {kind.__name__}: ")
    assert named in str(caught.value)


def test_a_long_list_of_problems_is_cut() -> None:
    payload = {"items": [1] * 50}
    with pytest.raises(UnreadableRecordError) as caught:
        read(ModelReply, payload)
    assert str(caught.value).count("items.") == 5


# --- Versions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_record_of_a_newer_schema_is_refused_in_words(kind: Any) -> None:
    with pytest.raises(UnreadableRecordError, match=r"newer version.*Upgrade the worker"):
        read(kind, {"schema_version": SCHEMA_VERSION + 1})


def test_a_record_says_which_schema_it_was_written_by() -> None:
    """Or an older reader could never tell; the version is worth its bytes."""
    assert write(RunInput(agent="A"))["schema_version"] == SCHEMA_VERSION


@pytest.mark.parametrize("version", range(SCHEMA_VERSION + 1))
def test_a_record_of_this_or_an_older_schema_is_read(version: int) -> None:
    record = read(RunInput, {"agent": "A", "schema_version": version})
    assert record.agent == "A"


@pytest.mark.parametrize("kind", [RunInput, CancelRecord, Briefing, HandoffResult])
def test_fields_that_a_newer_writer_added_are_ignored(kind: Any) -> None:
    assert read(kind, {"added_later": {"a": 1}}) == kind()


def test_a_state_of_another_version_is_read_as_far_as_it_is_known() -> None:
    written = write_state(Play.ready().state)
    written["added_later"] = 1
    del written["ignored"]
    assert read_state(written) == Play.ready().state


# --- Large and broken states ---------------------------------------------------------------------


def large_state() -> RunState:
    play = Play.ready(keep_open=True)
    play.replies(said("x" * (records.COMPRESS_ABOVE_BYTES + 1)))
    return play.state


def test_a_large_state_is_compressed() -> None:
    state = large_state()
    written = over_the_wire(write_state(state))
    assert set(written) == {"zlib"}
    assert len(written["zlib"]) < 20_000
    assert read_state(written) == state


def test_a_small_state_can_be_read_by_people() -> None:
    assert write_state(Play.ready().state)["phase"] == "thinking"


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize(
    "payload",
    [
        {"zlib": "xx"},
        {"zlib": None},
        {"zlib": "é"},
        {"zlib": base64.b64encode(b"not compressed").decode()},
        {"zlib": packed(b"{cut")},
        {"zlib": packed(b"[]")},
        {"zlib": packed(b'{"phase": "asleep"}')},
        {"phase": "asleep"},
        {"turn": "first"},
        {"pending": [{"kind": "fly"}]},
    ],
)
def test_a_state_that_cannot_be_read_is_refused_in_words(payload: dict[str, Any]) -> None:
    with pytest.raises(UnreadableRecordError, match=r"RunState|cannot be unpacked"):
        read_state(payload)


# --- Requests and pages --------------------------------------------------------------------------


def test_a_model_request_is_the_call_and_the_items_it_is_about() -> None:
    play = Play.ready()
    call = play.only(CallModel)
    request = records.request_of(play.state, call)
    assert request == ModelRequestRecord(call=call, items=play.state.items)
    play.hears("m2")
    assert records.request_of(play.state, call) == request


def test_any_other_request_is_the_effect_itself() -> None:
    play = play_in("running")
    for effect in play.state.pending:
        assert records.request_of(play.state, effect) is effect


@pytest.mark.parametrize(("padding", "small"), [(0, True), (1_000, True), (2_000, False)])
def test_a_request_is_small_when_it_fits(padding: int, *, small: bool) -> None:
    play = Play.ready(context="x" * padding)
    request = records.request_of(play.state, play.only(CallModel))
    assert records.is_small(request, 2_000) is small
    written = len(json.dumps(write(request), separators=(",", ":")))
    assert records.is_small(request, written + 1)
    assert not records.is_small(request, written - 100)


@pytest.mark.parametrize(("count", "small"), [(12, True), (13, False)])
def test_a_conversation_of_many_items_is_not_even_measured(count: int, *, small: bool) -> None:
    call = Play.ready().only(CallModel)
    request = ModelRequestRecord(call=call, items=(Item("input", {}),) * count)
    assert records.is_small(request, 1_000_000) is small


@given(text=st.text("abé日", max_size=20), size=st.integers(1, 7))
@QUICK
def test_pages_add_up_to_the_whole(text: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "PAGE_BYTES", size)
        pages = [records.page_of(text, 0)]
        while pages[-1]["more"]:
            pages.append(records.page_of(text, len(pages)))
        assert "".join(page["data"] for page in pages) == text
        assert all(len(page["data"]) <= size for page in pages)
        assert records.page_of(text, len(pages)) == {"data": "", "more": False}


def test_a_page_is_as_many_bytes_as_characters() -> None:
    state = dataclasses.replace(RunState(), context={"ä": "日本 \U0001f600"})
    assert records.dump(state).isascii()
    assert records.load(RunState, list(records.dump(state))) == state
