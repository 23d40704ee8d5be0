"""What travels: written sparsely, read tolerantly, the same after the journey."""

import base64
import dataclasses
import json
import zlib
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from outlast.contract import effects, history, names, records
from outlast.contract.effects import EffectRequest
from outlast.contract.names import SCHEMA_VERSION
from outlast.contract.records import (
    RunInput,
    RunResultRecord,
    SendRecord,
    UnreadableRecordError,
    read,
    read_state,
    write,
    write_state,
)
from outlast.loop.actions import AttachLineRecord, CancelRecord, NestedRecord
from outlast.loop.approvals import Decision
from outlast.loop.calls import (
    AgentResult,
    ExecutionOptions,
    HandoffResult,
    ModelReply,
    NestedPlan,
    PlannedCall,
    PreparedRun,
    ToolResult,
)
from outlast.loop.checks import CheckResult, FinalizedAnswer
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    FinalizeAnswer,
    KeepLineOpen,
    NotifyPeople,
    OffloadItems,
    PrepareRun,
    RunAgent,
    RunHandoff,
    RunTool,
    SaveSession,
)
from outlast.loop.items import Message
from outlast.loop.start import Parent
from outlast.loop.state import LoopState
from outlast.loop.stored import Offload
from outlast.loop.values import JsonObject, ServerThread, Usage
from tests.laws.driver import SITUATIONS, Play, nested, play_in, said, transfer
from tests.laws.strategies import anything_like, examples, same_json

KINDS: list[Any] = [
    RunInput,
    SendRecord,
    CancelRecord,
    Decision,
    RunResultRecord,
    EffectRequest[CallModel],
    PreparedRun,
    ModelReply,
    ToolResult,
    HandoffResult,
    PrepareRun,
    CallModel,
    RunTool,
    RunHandoff,
    CheckInput,
    CheckResult,
    RunAgent,
    AgentResult,
    FinalizeAnswer,
    FinalizedAnswer,
    SaveSession,
    NestedRecord,
    AttachLineRecord,
    KeepLineOpen,
    EffectRequest[RunHandoff],
    EffectRequest[FinalizeAnswer],
    EffectRequest[SaveSession],
    OffloadItems,
    Offload,
    EffectRequest[OffloadItems],
]
QUICK = examples(15)


def over_the_wire(payload: Any) -> Any:
    return json.loads(json.dumps(payload))


# --- Round trips ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=str)
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
@given(anything_like(LoopState))
def test_a_state_is_the_same_after_the_journey(state: LoopState) -> None:
    assume(state.phase != "new")
    assert read_state(over_the_wire(write_state(state))) == state
    assert records.load(LoopState, [records.dump(state)]) == state


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_run_can_be_carried_from_anywhere(situation: str) -> None:
    state = play_in(situation, keep_open=True, context={"n": 0}).state
    read_back = read_state(over_the_wire(write_state(state)))
    assert read_back == state
    assert [type(one) for one in read_back.pending] == [type(one) for one in state.pending]


OFFLOAD = {"effect": 1, "start": 0, "stop": 2, "run_id": "r"}
EFFECT = {"effect": 3, "agent": "A", "context": 1, "context_type": "T", "settings": {"a": 1}}
CALL = {**EFFECT, "turn": 1, "usage": {"requests": 1}, "run_id": "r"}
ASKED = {
    "id": "e1.a1",
    "call_id": "c",
    "name": "f",
    "agent": "A",
    "arguments": "{}",
    "args_digest": "d",
    "requested_at_ms": 1,
    "run_id": "nested",
}
TOOL = {**CALL, "name": "f", "call_id": "c", "arguments": "{}", "policy": {"attempts": 1}}
NESTED = {
    **EFFECT,
    "target": "B",
    "name": "f",
    "call_id": "c",
    "arguments": "{}",
    "nested_id": "r/f-3",
    "nested": {"max_turns": 3},
    "run_id": "r",
}
SAVE = {"effect": 3, "start": 1, "stop": 3, "dropped": [2], "settings": {"a": 1}, "run_id": "r"}
SMALLEST: dict[Any, dict[str, Any]] = {
    RunInput: {},
    SendRecord: {"input": "x", "message_id": "m"},
    CancelRecord: {},
    Decision: {"request_id": "a1", "type": "reject"},
    RunResultRecord: {"status": "completed", "agent": "A"},
    EffectRequest[CallModel]: {"effect": {**CALL, "input_length": 1}},
    PreparedRun: {},
    ModelReply: {"items": [{"type": "message"}]},
    ToolResult: {"output": "x"},
    HandoffResult: {},
    PrepareRun: EFFECT,
    CallModel: {**CALL, "input_length": 1},
    RunTool: TOOL,
    RunHandoff: {**TOOL, "target": "B"},
    CheckInput: {**CALL, "stage": "added", "items": []},
    CheckResult: {"results": [{"stage": "input", "name": "g"}]},
    RunAgent: NESTED,
    AgentResult: {"final_output": 1, "usage": {"requests": 1}},
    FinalizeAnswer: {**CALL, "candidate": {"output": "x", "item": 1}, "input_length": 2},
    FinalizedAnswer: {"final": False},
    SaveSession: SAVE,
    AttachLineRecord: {"line": "l1"},
    KeepLineOpen: {"effect": 1, "line": "l1"},
    NotifyPeople: {
        "effect": 1,
        "run_id": "r",
        "notices": [{"event": "created", "request": ASKED, "at_ms": 7}],
    },
    OffloadItems: OFFLOAD,
    NestedRecord: {"nested_id": "r/f-1", "requests": [ASKED]},
    EffectRequest[RunHandoff]: {"effect": {**TOOL, "target": "B", "input_length": 1}},
    EffectRequest[FinalizeAnswer]: {
        "effect": {**CALL, "candidate": {"item": 1}, "input_length": 2}
    },
    EffectRequest[SaveSession]: {"effect": SAVE},
    EffectRequest[OffloadItems]: {"effect": OFFLOAD},
    Offload: {"keys": ["k"], "moved": [{"item": 0, "path": ["output", 1], "bytes": 9, "key": 0}]},
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
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
    assert records.first_message_of(started, 7) == Message("start", items, 7)


def test_half_a_character_is_replaced_and_the_rest_is_kept() -> None:
    sent = read(SendRecord, {"input": "a\ud83db é", "message_id": "m1"})
    assert sent.input == "a?b é"


def test_a_conversation_that_begins_with_a_call_is_open_and_has_no_message() -> None:
    started = history.started("run", read(RunInput, {"agent": "A", "awaits_line": True}), 7)
    assert (started.message, started.start.keep_open) == (None, True)


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


def test_each_field_that_does_not_fit_is_named_with_its_problem() -> None:
    with pytest.raises(UnreadableRecordError) as caught:
        read(SendRecord, {})
    required = "Field required"
    assert str(caught.value) == (
        f"This is not a SendRecord: input: {required}; message_id: {required}."
    )
    with pytest.raises(UnreadableRecordError, match=r"^This is not a SendRecord: the payload: "):
        read(SendRecord, 3)
    with pytest.raises(UnreadableRecordError, match=r"^This is not a request of RunHandoff: "):
        read(EffectRequest[RunHandoff], {})


def test_what_no_server_records_is_refused_with_its_size() -> None:
    said_of_it = records.too_large(2_000_000)
    assert said_of_it.startswith("The payload has 2,000,000 bytes, of at most 1,900,000. ")
    assert said_of_it.endswith("send a link.")


def test_a_budget_of_turns_is_not_negative() -> None:
    assert read(RunInput, {"max_turns": 0}).max_turns == 0
    assert read(RunInput, {"max_turns": None}).max_turns is None
    with pytest.raises(UnreadableRecordError, match="max_turns must be a positive number"):
        read(RunInput, {"max_turns": -1})


def test_the_sizes_of_what_travels_are_those_that_a_server_takes() -> None:
    assert records.LARGEST_BYTES == 1_900_000
    assert records.PAGE_BYTES == 1_500_000
    assert records.COMPRESS_ABOVE_BYTES == 250_000
    assert records.COMPRESS_QUICKLY_ABOVE_BYTES == 3_000_000


def test_what_a_run_does_not_say_has_the_meaning_that_older_runs_gave_it() -> None:
    """Recorded histories leave defaults out."""
    record = read(RunInput, {})
    assert (record.agent, record.input, record.message_id) == ("", "", "start")
    flags = record.keep_open, record.visibility, record.unlisted, record.session
    assert flags == (False,) * 4
    assert read(CancelRecord, {}).mode == "immediate"
    assert read(RunResultRecord, {"status": "failed", "agent": "A"}).turns == 0
    assert records.ANY_FAILURE == "*"


def test_a_long_list_of_problems_is_cut() -> None:
    payload = {"items": [1] * 50}
    with pytest.raises(UnreadableRecordError) as caught:
        read(ModelReply, payload)
    assert str(caught.value).count("items.") == 5


# --- Versions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=str)
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


@pytest.mark.parametrize("kind", [RunInput, CancelRecord, PreparedRun, HandoffResult])
def test_fields_that_a_newer_writer_added_are_ignored(kind: Any) -> None:
    assert read(kind, {"added_later": {"a": 1}}) == kind()


def test_a_field_that_a_decision_does_not_have_is_ignored() -> None:
    decision = {"request_id": "a1", "type": "approve"}
    assert read(Decision, {**decision, "added_later": 1}) == read(Decision, decision)


def test_a_state_of_another_version_is_read_as_far_as_it_is_known() -> None:
    written = write_state(Play.ready().state)
    written["added_later"] = 1
    del written["ignored"]
    assert read_state(written) == Play.ready().state


# --- Large and broken states ---------------------------------------------------------------------


def large_state() -> LoopState:
    play = Play.ready(keep_open=True)
    play.replies(said("x" * (records.COMPRESS_ABOVE_BYTES + 1)))
    return play.state


def test_a_large_state_is_compressed() -> None:
    state = large_state()
    written = over_the_wire(write_state(state))
    assert set(written) == {"zlib"}
    assert len(written["zlib"]) < 20_000
    assert read_state(written) == state


def test_a_state_is_compressed_above_a_size_and_quickly_above_a_larger_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    levels: list[int] = []
    compress = zlib.compress

    def noted(data: bytes, level: int) -> bytes:
        levels.append(level)
        return compress(data, level)

    state = Play.ready().state
    size = len(records.adapter(LoopState).dump_json(state))
    monkeypatch.setattr(records.zlib, "compress", noted)
    for above, quickly in ((size, 0), (size - 1, size), (size - 1, size - 1)):
        monkeypatch.setattr(records, "COMPRESS_ABOVE_BYTES", above)
        monkeypatch.setattr(records, "COMPRESS_QUICKLY_ABOVE_BYTES", quickly)
        assert read_state(over_the_wire(write_state(state))) == state
    assert levels == [6, 1]


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


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'"' + b"0" * 60_000_000 + b'"', "more than 48,000,000 bytes"),
        (b"[" + b"[]," * 4_000_000 + b"[]]", "more than 4,000,000 lists and objects"),
        (b"[" * 100_000, "cannot be unpacked"),
    ],
    ids=["long", "wide", "deep"],
)
def test_a_small_payload_never_becomes_a_state_without_bound(data: bytes, problem: str) -> None:
    """Two megabytes may hold two gigabytes, for whoever reads the run."""
    with pytest.raises(UnreadableRecordError, match=problem):
        read_state({"zlib": packed(data)})


def test_a_state_that_was_cut_off_is_refused() -> None:
    whole = zlib.compress(b'{"phase": "idle"}')
    with pytest.raises(UnreadableRecordError, match="it is cut off"):
        read_state({"zlib": base64.b64encode(whole[:-4]).decode()})


# --- Requests and pages --------------------------------------------------------------------------


def test_a_model_request_is_the_call_and_the_items_it_is_about() -> None:
    play = Play.ready()
    call = play.only(CallModel)
    request = effects.request_of(play.state, call)
    assert request == EffectRequest(effect=call, items=play.state.items)
    play.hears("m2")
    assert effects.request_of(play.state, call) == request


@pytest.mark.parametrize("situation", ["preparing", "checking", "running", "nested"])
def test_a_request_without_a_transcript_is_the_effect_itself(situation: str) -> None:
    play = play_in(situation)
    assert play.state.pending
    for effect in play.state.pending:
        assert effects.request_of(play.state, effect) == EffectRequest(effect=effect)


def test_a_handoffs_request_has_the_transcript_only_for_a_filter() -> None:
    play = play_in("transferring")
    run = play.only(RunHandoff)
    assert effects.request_of(play.state, run) == EffectRequest(effect=run)
    play = Play.ready()
    play.replies(transfer("Billing", "h1", callback=True, filters=True))
    run = play.only(RunHandoff)
    assert effects.request_of(play.state, run) == EffectRequest(effect=run, items=play.state.items)


def test_a_conclusions_request_has_the_transcript_and_a_saves_what_is_new() -> None:
    play = Play(session=True)
    play.prepared()
    play.replies(said("Hello."), required_steps=("finalize_answer",))
    conclude, save = play.only(FinalizeAnswer), play.only(SaveSession)
    assert effects.request_of(play.state, conclude) == EffectRequest(
        effect=conclude, items=play.state.items
    )
    assert effects.request_of(play.state, save) == EffectRequest(
        effect=save, items=play.state.items[:1]
    )


# --- Nested runs ---------------------------------------------------------------------------------


def asks_billing(settings: Any = None, **plan: Any) -> RunAgent:
    play = Play.ready(context={"n": 1}, context_type="Desk", settings=settings)
    play.replies(nested("Billing", "c1", **plan))
    return play.only(RunAgent)


def test_a_nested_run_is_asked_for_the_tools_agent_with_the_context_of_the_run() -> None:
    effect = asks_billing(nested=NestedPlan(max_turns=4))
    record = records.nested_input(effect, visibility=True)
    assert (record.agent, record.message_id, record.max_turns) == ("Billing", "c1", 4)
    assert (record.context, record.context_type, record.visibility) == ({"n": 1}, "Desk", True)
    assert record.parent == Parent(run_id="support-42", prefix="e3.")
    assert record.handled == (records.ANY_FAILURE,)
    assert not record.keep_open
    assert not records.nested_input(effect, visibility=False).visibility


def test_a_nested_run_knows_which_call_it_answers() -> None:
    settings = records.nested_input(asks_billing(), visibility=False).settings
    assert settings is not None
    call: JsonObject = {"agent": "Triage", "tool": "ask_billing", "call_id": "c1"}
    call |= {"arguments": "{}", names.TRACE: {"key": "support-42@1000000.0", "effect": 3}}
    assert settings == {names.SETTING_AS_TOOL: call}


@pytest.mark.parametrize(
    ("own", "expected"),
    [(None, {}), ({"workflow_name": "Own"}, {"task": "Own"}), ({}, {"task": None})],
)
def test_a_nested_run_knows_which_question_asks(
    own: JsonObject | None, expected: JsonObject
) -> None:
    effect = dataclasses.replace(
        asks_billing(nested=NestedPlan(settings=own)), started_at_ms=1, question=2
    )
    settings = records.nested_input(effect, visibility=False).settings or {}
    place: JsonObject = {"key": "support-42@1.2", "effect": effect.effect, **expected}
    assert settings[names.SETTING_AS_TOOL][names.TRACE] == place


@pytest.mark.parametrize("around", [{"key": "outermost"}, {"key": "k", "root": "outermost"}])
def test_a_run_nested_twice_knows_the_outermost_question(around: JsonObject) -> None:
    outer: JsonObject = {names.SETTING_AS_TOOL: {names.TRACE: around}}
    settings = records.nested_input(asks_billing(outer), visibility=False).settings or {}
    assert settings[names.SETTING_AS_TOOL][names.TRACE]["root"] == "outermost"


def test_a_nested_run_takes_over_settings_but_not_what_belongs_to_the_run_that_asks() -> None:
    outer: dict[str, Any] = {
        "model": "gpt-5",
        "hooks": "h",
        "session": "s",
        "error_handlers": {},
        "as_tool": {},
    }
    settings = records.nested_input(asks_billing(outer), visibility=False).settings
    assert settings is not None
    assert set(settings) == {"model", "as_tool"}
    assert settings["as_tool"]["hooks"] == "h", "the hooks hear of the tool, not of its run"


def test_a_nested_run_with_settings_of_its_own_takes_over_none() -> None:
    thread = ServerThread(conversation_id="conv")
    plan = NestedPlan(settings={"hooks": "own"}, session=True, thread=thread)
    effect = asks_billing({"model": "gpt-5"}, nested=plan)
    record = records.nested_input(effect, visibility=False)
    assert record.settings is not None
    assert set(record.settings) == {"hooks", "as_tool"}
    assert (record.session, record.thread) == (True, thread)


def test_a_nested_run_with_settings_of_its_own_is_in_the_trace_of_the_run_that_asks() -> None:
    outer = {name: f"outer {name}" for name in names.SETTINGS_OF_TRACE[:3]}
    plan = NestedPlan(settings={"model": "own", "trace_id": "own"})
    settings = records.nested_input(
        asks_billing({**outer, "model": "outer"}, nested=plan), visibility=False
    ).settings
    assert settings is not None
    settings.pop(names.SETTING_AS_TOOL)
    assert settings == {**outer, "model": "own"}


def test_approval_ids_of_runs_nested_in_nested_runs_differ_from_all_others() -> None:
    """People see them side by side, at the run that all the others work for."""
    play = Play.ready(parent=Parent(run_id="root", prefix="e5."))
    play.replies(nested("Billing", "c1"))
    record = records.nested_input(play.only(RunAgent), visibility=False)
    assert record.parent == Parent(run_id="support-42", prefix="e5.e3.")


def test_a_nested_runs_input_survives_the_journey() -> None:
    record = records.nested_input(asks_billing({"model": "m"}), visibility=True)
    assert read(RunInput, over_the_wire(write(record))) == record


@pytest.mark.parametrize(("padding", "small"), [(0, True), (1_000, True), (2_000, False)])
def test_a_request_is_small_when_it_fits(padding: int, *, small: bool) -> None:
    play = Play.ready(context="x" * padding)
    request = effects.request_of(play.state, play.only(CallModel))
    written = records.write_json(request)
    assert json.loads(written) == write(request)
    assert records.small(request, 2_000) == (written if small else None)
    assert records.small(request, len(written)) is not None
    assert records.small(request, len(written) - 1) is None


@pytest.mark.parametrize(("count", "small"), [(12, True), (13, False)])
def test_the_request_of_a_long_conversation_is_not_even_measured(
    count: int, *, small: bool
) -> None:
    call = dataclasses.replace(Play.ready().only(CallModel), input_length=count)
    assert effects.kind_of(call).inline(call) is small


def test_what_is_in_history_already_is_never_written_into_it_again() -> None:
    """Only a model call may bring the first items there: its reply would otherwise stand alone."""
    filters = Play.ready()
    filters.replies(transfer("Billing", "h1", callback=True, filters=True))
    for play in (filters, play_in("finalizing"), play_in("saving")):
        effect = next(one for one in play.outstanding.values() if one.kind != "call_model")
        assert not effects.kind_of(effect).inline(effect)
    run = play_in("transferring").only(RunHandoff)
    assert effects.kind_of(run).inline(run), "without a filter it holds no items"


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
    state = dataclasses.replace(LoopState(), context={"ä": "日本 \U0001f600"})
    assert records.dump(state).isascii()
    assert records.load(LoopState, list(records.dump(state))) == state


@given(
    usage=st.builds(
        Usage,
        **dict.fromkeys(
            ("requests", "input_tokens", "output_tokens", "total_tokens", "cost_micros", "priced"),
            st.integers(0, 2),
        ),
    ),
    fast=st.booleans(),
    defers=st.booleans(),
)
def test_a_reply_comes_back_with_what_its_record_leaves_out(
    usage: Usage, *, fast: bool, defers: bool
) -> None:
    policy = ExecutionOptions(fast=fast, defers=defers)
    calls = (PlannedCall(item=0, kind="tool", policy=policy),)
    reply = ModelReply(items=({"type": "function_call"},), usage=usage, calls=calls)
    assert read(ModelReply, write(reply)) == reply


def test_the_record_of_a_reply_has_no_counts_that_follow_from_others() -> None:
    usage = Usage(requests=1, input_tokens=5, output_tokens=2, total_tokens=7)
    priced = dataclasses.replace(usage, cost_micros=3, priced=1)
    assert write(ModelReply(items=(), usage=priced))["usage"] == {
        "input_tokens": 5,
        "output_tokens": 2,
        "cost_micros": 3,
    }
    whole: JsonObject = {"items": [], "usage": dataclasses.asdict(usage)}
    assert read(ModelReply, whole).usage == usage
