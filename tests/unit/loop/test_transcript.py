"""How replies and calls become transcript and context."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.loop.calls import Call, ModelReply, PlannedCall
from outlast.loop.changes import Change
from outlast.loop.checks import GuardrailRecord, RequiredStep
from outlast.loop.effects import SaveSession
from outlast.loop.items import Item, ItemKind
from outlast.loop.ledger import add_prepared, block_unchecked
from outlast.loop.revision import revised
from outlast.loop.state import ItemsToSave, LoopState
from outlast.loop.stored import weight
from outlast.loop.transcript import (
    KEPT_IGNORED,
    call_of,
    context_before,
    last_message,
    record_outputs,
    record_prepared_input,
    record_reply,
    storing,
    with_call,
    with_ignored,
    withhold_turn,
)
from outlast.loop.values import Json, JsonObject, Usage
from outlast.loop.view import size
from tests.laws.driver import (
    Part,
    Play,
    message,
    play_in,
    refused,
    reply_of,
    said,
    searched,
    thought,
    tool,
    transfer,
    unknown,
)

BEFORE = revised(LoopState(), agent="Triage", model="small", turn=1, turns=7, context={"n": 0})


KIND_OF: list[tuple[Part, str]] = [
    (said("hi"), "message"),
    (refused("no"), "message"),
    (thought(), "reasoning"),
    (searched(), "other"),
    (({"type": "something_new"}, None), "other"),
    (({}, None), "other"),
    (({"type": "function_call_output", "call_id": "x", "output": "y"}, None), "other"),
    (tool("f", "c"), "tool_call"),
    (tool("f", "c", problem="Bad."), "tool_call"),
    (tool("f", "c", needs_approval=True), "tool_call"),
    (unknown("f", "c"), "tool_call"),
    (transfer("Billing", "c"), "handoff_call"),
    (transfer("Billing", "c", problem="Bad."), "handoff_call"),
]


@pytest.mark.parametrize(("part", "kind"), KIND_OF)
def test_an_item_is_kept_raw_and_told_what_it_is(part: Part, kind: str) -> None:
    state = record_reply(BEFORE, reply_of(part))
    (item,) = state.items
    assert (item.kind, item.raw, item.agent, item.turn) == (kind, part[0], "Triage", 7)


@pytest.mark.parametrize(
    ("part", "status", "output"),
    [
        (tool("f", "c"), "planned", None),
        (tool("f", "c", needs_approval=True), "planned", None),
        (tool("f", "c", problem="Bad."), "settled", "Bad."),
        (tool("f", "c", problem=""), "settled", ""),
        (tool("f", "c", problem="Bad.", needs_approval=True), "settled", "Bad."),
        (unknown("f", "c", "None."), "settled", "None."),
        (transfer("Billing", "c"), "held", None),
        (transfer("Billing", "c", callback=True), "held", None),
        (transfer("Billing", "c", problem="Bad."), "settled", "Bad."),
    ],
)
def test_a_call_starts_where_its_plan_puts_it(part: Part, status: str, output: str | None) -> None:
    (call,) = record_reply(BEFORE, reply_of(part)).calls
    assert (call.status, call.output, call.effect, call.approval) == (status, output, None, None)
    assert (call.call_id, call.name, call.arguments) == ("c", part[0]["name"], "{}")


@pytest.mark.parametrize("field", ["call_id", "name", "arguments"])
def test_a_call_without_a_field_has_an_empty_one(field: str) -> None:
    raw, plan = tool("f", "c")
    broken: JsonObject = {key: value for key, value in raw.items() if key != field}
    (call,) = record_reply(BEFORE, reply_of((broken, plan))).calls
    assert getattr(call, field) == ""


def test_a_reply_adds_items_usage_and_changes_and_replaces_the_calls() -> None:
    first = record_reply(BEFORE, reply_of(tool("f", "c1"), usage=Usage(requests=1, total_tokens=5)))
    reply = reply_of(
        thought(),
        tool("g", "c2"),
        said("hi"),
        usage=Usage(requests=1, total_tokens=6),
        changes=(Change("set", ("n",), 1),),
        model="large",
    )
    state = record_reply(first, reply)
    assert [item.kind for item in state.items] == ["tool_call", "reasoning", "tool_call", "message"]
    assert [call.name for call in state.calls] == ["g"]
    assert state.usage == Usage(requests=2, total_tokens=11)
    assert state.context == {"n": 1}
    assert state.model == "large"
    assert BEFORE.context == {"n": 0}


def test_a_reply_that_names_no_model_leaves_the_known_one() -> None:
    assert record_reply(BEFORE, reply_of(said("hi"))).model == "small"


def test_calls_stand_in_the_order_of_the_reply_however_the_plan_lists_them() -> None:
    """The first handoff of the *reply* wins, and outputs follow the order of the calls."""
    reply = reply_of(tool("f", "c1"), said("and"), tool("g", "c2"), transfer("Billing", "h1"))
    shuffled = replace(reply, calls=tuple(reversed(reply.calls)))
    calls = record_reply(BEFORE, shuffled).calls
    assert [call.call_id for call in calls] == ["c1", "c2", "h1"]


@pytest.mark.parametrize(
    ("parts", "index"),
    [
        ([], None),
        ([thought()], None),
        ([said("a")], 1),
        ([said("a"), said("b")], 2),
        ([said("a"), thought()], 1),
        ([said("a"), said("b"), searched(), thought()], 2),
        ([thought(), refused("no")], 2),
    ],
)
def test_the_last_message_is_looked_for_in_the_newest_items_only(
    parts: list[Part], index: int | None
) -> None:
    before = record_reply(BEFORE, reply_of(said("from an earlier turn")))
    assert last_message(record_reply(before, reply_of(*parts)), len(parts)) == index


def call(kind: str = "tool", **fields: Any) -> Call:
    plan = PlannedCall(item=0, kind="handoff" if kind == "handoff" else "tool")
    return Call(plan=plan, call_id="c", name="f", arguments="{}", status="settled", **fields)


@pytest.mark.parametrize(("kind", "item"), [("tool", "tool_output"), ("handoff", "handoff_output")])
def test_an_output_is_an_item_of_the_active_agent(kind: str, item: str) -> None:
    (written,) = record_outputs(BEFORE, [call(kind, output={"a": 1})]).items
    assert (written.kind, written.agent, written.turn) == (item, "Triage", 7)
    assert written.raw == {"type": "function_call_output", "call_id": "c", "output": {"a": 1}}


def test_changes_are_taken_over_in_the_order_of_the_calls() -> None:
    one = call(changes=(Change("set", ("n",), 1), Change("set", ("m",), 1)))
    two = call(changes=(Change("set", ("n",), 2),))
    assert record_outputs(BEFORE, [one, two]).context == {"n": 2, "m": 1}
    assert record_outputs(BEFORE, [two, one]).context == {"n": 1, "m": 1}
    assert record_outputs(BEFORE, []) == BEFORE


@pytest.mark.parametrize(
    ("index", "context"), [(0, {"n": 0}), (1, {"n": 0, "a": 1}), (2, {"n": 0, "a": 1}), (3, {})]
)
def test_a_call_sees_what_the_calls_before_it_have_done_so_far(index: int, context: Json) -> None:
    calls = (
        call(changes=(Change("set", ("a",), 1),)),
        replace(call(), status="running"),
        call(changes=(Change("set", (), {}),)),
        replace(call(), status="planned"),
    )
    assert context_before(replace(BEFORE, calls=calls), index) == context


def test_changes_of_one_object_come_in_the_order_of_their_worker() -> None:
    one, two, three, four = (
        replace(call(changes=(Change("set", ("s",), str(at)),)), host=host, order=order)
        for at, (host, order) in enumerate([("a", 2), ("", 0), ("a", 1), ("b", 1)], 1)
    )
    assert record_outputs(BEFORE, [one, two, three, four]).context == {"n": 0, "s": "4"}
    assert record_outputs(BEFORE, [one, two, three]).context == {"n": 0, "s": "1"}
    assert record_outputs(BEFORE, [one, two]).context == {"n": 0, "s": "2"}


def test_a_call_is_found_by_the_effect_that_runs_it() -> None:
    play = play_in("running")
    assert [call_of(play.state, play.running(name)) for name in ("c1", "c2")] == [0, 1]


def test_notes_are_kept_newest_last_and_not_for_ever() -> None:
    state = BEFORE
    for at_ms in range(KEPT_IGNORED + 2):
        state = with_ignored(state, at_ms, "what", "why")
    assert [note.at_ms for note in state.ignored] == list(range(2, KEPT_IGNORED + 2))
    assert (state.ignored[0].what, state.ignored[0].why) == ("what", "why")


@pytest.mark.parametrize("is_saving", [False, True])
def test_items_that_guardrails_did_not_pass_are_not_saved(*, is_saving: bool) -> None:
    ranges = [(0, 2), (2, 4), (4, 6)]
    save = SaveSession(effect=1, start=0, stop=2, run_id="r")
    state = revised(
        replace(LoopState(), items=(Item("input", {}),) * 6, pending=(save,) if is_saving else ()),
        to_save=tuple(ItemsToSave(start=start, stop=stop) for start, stop in ranges),
        unchecked_from=2,
    )
    dropped = block_unchecked(state)
    assert [(one.start, one.stop) for one in dropped.saving.to_save] == [(0, 2)]
    assert (dropped.blocked_from, dropped.saving.queued_up_to) == (2, 6)
    assert dropped.question.unchecked_from is None


def test_a_range_that_is_being_saved_stays_although_guardrails_did_not_pass_it() -> None:
    save = SaveSession(effect=1, start=0, stop=4, run_id="r")
    state = revised(
        replace(LoopState(), items=(Item("input", {}),) * 6, pending=(save,)),
        to_save=(ItemsToSave(start=0, stop=4), ItemsToSave(start=4, stop=6)),
        unchecked_from=2,
    )
    (left,) = block_unchecked(state).saving.to_save
    assert (left.start, left.stop) == (0, 4)


@pytest.mark.parametrize(("steps", "first"), [((), None), (("check",), 1), (("check_first",), 1)])
def test_guardrails_check_the_prepared_input_from_its_first_new_item_on(
    steps: tuple[RequiredStep, ...], first: int | None
) -> None:
    state = replace(LoopState(), inbox=(message("start"),), required_steps=steps)
    old, new = {"role": "user", "content": "old"}, {"role": "user", "content": "new"}
    state = add_prepared(record_prepared_input(state, [old, new, new], old=[0]))
    assert [item.kind for item in state.items] == ["history", "input", "input"]
    assert state.question.unchecked_from == first
    assert state.inbox == (replace(message("start"), content=()),)


def test_replacing_one_call_leaves_the_others() -> None:
    calls = tuple(replace(call(), call_id=name) for name in "abc")
    state = with_call(replace(BEFORE, calls=calls), 1, replace(calls[1], output="new"))
    assert [one.output for one in state.calls] == [None, "new", None]
    assert state.calls[0] is calls[0]
    assert state.calls[2] is calls[2]


def test_what_guardrails_said_before_people_are_asked_is_kept() -> None:
    said = GuardrailRecord(stage="tool_input", name="g", agent="Triage", tool="f", call_id="c1")
    state = record_reply(LoopState(), ModelReply(items=(), checks=(said,), raw_usage={"cost": 1}))
    assert state.question.guardrails == (said,)
    assert state.responses[-1].raw_usage == {"cost": 1}


KEPT: JsonObject = {"id": "x1", "role": "assistant", "status": "completed"}


WITHHELD: list[tuple[ItemKind, JsonObject, JsonObject]] = [
    (
        "message",
        {"type": "message", **KEPT, "content": "secret", "extra": "secret"},
        {
            "type": "message",
            **KEPT,
            "content": [{"type": "output_text", "text": "[withheld]", "annotations": []}],
        },
    ),
    (
        "tool_output",
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "secret", **KEPT},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "[withheld]"},
    ),
    (
        "tool_output",
        {"type": "function_call_output", "call_id": "c1", "output": "secret"},
        {"type": "function_call_output", "call_id": "c1", "output": "[withheld]"},
    ),
    (
        "reasoning",
        {"type": "reasoning", "id": "x1", "summary": ["secret"], "content": "secret"},
        {"type": "reasoning", "id": "x1", "summary": []},
    ),
    (
        "other",
        {"type": "image_generation_call", **KEPT, "result": "secret"},
        {"type": "image_generation_call", **KEPT},
    ),
    ("tool_call", tool("f", "c1")[0], tool("f", "c1")[0]),
    (
        "note",
        {"role": "developer", "content": "secret"},
        {"role": "developer", "content": "[withheld]"},
    ),
]


@pytest.mark.parametrize(("kind", "raw", "left"), WITHHELD)
def test_of_a_turn_that_is_withheld_only_the_form_is_left(
    kind: ItemKind, raw: JsonObject, left: JsonObject
) -> None:
    earlier = Item("message", {"type": "message", "content": "said before"}, "A", 1)
    state = replace(LoopState(), items=(earlier, Item(kind, raw, "A", 2)), turns=2)
    state = withhold_turn(revised(state, on_server=2), "[withheld]")
    assert state.items == (earlier, Item(kind, left, "A", 2))
    assert (size(state.view, 2), state.server.on_server) == (1, 1)


def test_custom_data_stands_beside_its_output_until_it_is_withheld() -> None:
    play = play_in("running")
    play.returns("c1", custom_data={"chart": 1})
    play.returns("c2")
    *_, one, other = play.state.items
    assert (one.custom_data, other.custom_data) == ({"chart": 1}, None)
    assert "chart" not in str(one.raw)
    newest = replace(LoopState(), items=(replace(one, turn=2),), turns=2)
    (one,) = withhold_turn(newest, "[withheld]").items
    assert one.custom_data is None


def test_a_note_has_the_text_that_the_output_of_a_computer_call_cannot_hold() -> None:
    shot: JsonObject = {"output": {"type": "computer_screenshot", "image_url": "data:"}}
    outputs: list[tuple[Json, int | None]] = [("No.", None), (shot, 1), ("Secret.", 2)]
    calls = [
        Call(
            plan=PlannedCall(item=0, kind="tool"),
            call_id=f"c{at}",
            name="computer",
            arguments="{}",
            form="computer_call",
            status="settled",
            effect=effect,
            output=output,
        )
        for at, (output, effect) in enumerate(outputs)
    ]
    items = record_outputs(BEFORE, calls).items
    assert [item.kind for item in items] == [*["tool_output"] * 3, "note", "note"]
    assert [item.raw["content"] for item in items[3:]] == [
        "The computer call c0 was not run, so its image is empty: No.",
        "The computer call c2 has no screenshot, so its image is empty: Secret.",
    ]
    assert [(item.agent, item.turn) for item in items[3:]] == [("Triage", 7)] * 2


def test_the_newest_twenty_ignored_signals_are_kept() -> None:
    play = Play.ready()
    for _ in range(22):
        play.hears_noise()
    assert len(play.state.ignored) == 20
    assert play.state.ignored[-1].at_ms == play.now_ms - 1_000


def test_content_that_has_moved_does_not_count_again_when_there_is_a_store_again() -> None:
    text = "x" * 500
    kept = Item("input", {"role": "user", "content": text})
    state = storing(revised(LoopState(items=(kept, kept)), offloaded=1))
    assert state.storage.inline == weight((kept,)) > 0


CALLER = {"type": "program", "caller_id": "p1"}


@pytest.mark.parametrize(
    ("output", "gives_object", "expected"),
    [
        ("A person said no.", True, '{"error": "A person said no."}'),
        ("A person said no.", False, "A person said no."),
        ('{"units":42}', True, '{"units":42}'),
        ([{"type": "input_text", "text": "x"}], True, [{"type": "input_text", "text": "x"}]),
    ],
)
def test_an_output_for_a_program_names_it_and_is_the_object_that_it_expects(
    output: Json, gives_object: bool, expected: Json
) -> None:
    plan = PlannedCall(item=0, kind="tool", program="p1", gives_object=gives_object)
    call = Call(plan=plan, call_id="c", name="f", arguments="{}", status="settled", output=output)

    state = record_outputs(BEFORE, [call])

    raw = state.items[-1].raw
    assert raw == {
        "type": "function_call_output",
        "call_id": "c",
        "output": expected,
        "caller": CALLER,
    }
    withheld = withhold_turn(replace(state, items=state.items), "Withheld.")
    assert withheld.items[-1].raw["output"] == "Withheld."
    assert withheld.items[-1].raw["caller"] == CALLER
