"""The calls in a reply, against what the model was offered."""

from typing import Any

import pytest

from outlast.activities.planning.offered_tools import OfferedTools
from outlast.activities.planning.reply_calls import (
    nonsense,
    program_problem,
    reply_items,
    unknown_call,
    without_repeats,
)
from outlast.agents.agent import Agent
from outlast.agents.handoffs.handoff import handoff
from outlast.agents.tools.custom import CustomTool
from outlast.agents.tools.definition import (
    FunctionTool,
)
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.tools.hosted import HostedTool
from outlast.agents.tools.programs import ProgrammaticToolCallingTool
from outlast.contract import failures
from outlast.extensions.machine.shell import LocalShellTool, ShellTool
from outlast.loop.items import Item, ItemKind, call_id_of
from outlast.loop.values import JsonObject
from outlast.testing import (
    call,
    computer_call,
    custom_call,
    local_shell_call,
    patch_call,
    say,
    shell_call,
)


@function_tool
def look() -> None:
    """Look."""


def run(_request: Any) -> str:
    return ""


def query(_context: Any, text: str) -> str:
    return text


SHELL = ShellTool(run)
SQL = CustomTool("sql", "", query)
HOSTED = ShellTool(environment={"type": "container_auto"})


def offered_tools(
    *tools: FunctionTool, hosted: tuple[HostedTool, ...] = (), unknown_is_fatal: bool = False
) -> OfferedTools:
    return OfferedTools(
        tools={tool.called_name: tool for tool in tools},
        handoffs={"go": handoff(Agent(name="B"), tool_name_override="go")},
        hosted=hosted,
        unknown_is_fatal=unknown_is_fatal,
    )


def output_of(raw: JsonObject) -> JsonObject:
    return {"type": f"{raw['type']}_output", "call_id": raw["call_id"], "output": []}


ALL = [
    call("look", "c1"),
    custom_call("sql", "c2", "x"),
    shell_call("c3", "ls"),
    local_shell_call("c4", "ls"),
    patch_call("c5", "delete_file", "a"),
    computer_call("c6"),
]


@pytest.mark.parametrize("raw", ALL, ids=lambda raw: raw["type"])
def test_a_call_of_any_form_is_to_be_planned(raw: JsonObject) -> None:
    assert reply_items([raw], offered_tools())[0].is_planned


@pytest.mark.parametrize("raw", [*say("Hi"), {"type": "web_search_call", "id": "w1"}])
def test_nothing_else_is(raw: JsonObject) -> None:
    assert not reply_items([raw], offered_tools())[0].is_planned


@pytest.mark.parametrize("raw", ALL[1:], ids=lambda raw: raw["type"])
def test_what_the_provider_has_answered_is_its_own(raw: JsonObject) -> None:
    assert not reply_items([raw, output_of(raw)], offered_tools(SHELL, SQL))[0].is_planned
    other = {**output_of(raw), "call_id": "c9"}
    assert reply_items([raw, other], offered_tools(SHELL, SQL))[0].is_planned


def test_so_is_a_hosted_shell_unless_there_is_one_here() -> None:
    raw = shell_call("c1", "ls")
    assert not reply_items([raw], offered_tools(hosted=(HOSTED,)))[0].is_planned
    assert reply_items([raw], offered_tools(SHELL, hosted=(HOSTED,)))[0].is_planned
    patch = patch_call("c1", "delete_file", "a")
    assert reply_items([patch], offered_tools(hosted=(HOSTED,)))[0].is_planned


@pytest.mark.parametrize(
    ("raw", "tool"),
    [
        (call("look", "c1"), look),
        (shell_call("c1", "ls"), SHELL),
        (custom_call("sql", "c1", "x"), SQL),
        (call("sql", "c1"), None),
        (call("shell", "c1"), None),
        (custom_call("look", "c1", "x"), None),
        (custom_call("shell", "c1", "x"), None),
        (local_shell_call("c1", "ls"), None),
        (call("nothing", "c1"), None),
    ],
)
def test_a_call_is_for_the_tool_of_its_name_and_form(
    raw: JsonObject, tool: FunctionTool | None
) -> None:
    assert reply_items([raw], offered_tools(look, SHELL, SQL))[0].tool is tool


def test_only_functions_hand_over() -> None:
    output = [call("go", "c1"), custom_call("go", "c2", "x")]
    function, other = reply_items(output, offered_tools())
    assert function.handoff is not None
    assert other.handoff is None


@pytest.mark.parametrize("fatal", [False, True])
@pytest.mark.parametrize(
    ("raw", "ends"),
    [
        (call("look", "c1"), (False, False)),
        (call("go", "c1"), (False, False)),
        (call("nothing", "c1"), (False, True)),
        (custom_call("look", "c1", "x"), (False, True)),
        (shell_call("c1", "ls"), (True, True)),
        (computer_call("c1"), (True, True)),
    ],
    ids=["tool", "handoff", "unknown", "form", "shell", "computer"],
)
def test_a_run_ends_with_a_machine_that_was_not_offered(
    raw: JsonObject, ends: tuple[bool, bool], *, fatal: bool
) -> None:
    offer = offered_tools(look, LocalShellTool(run), unknown_is_fatal=fatal)
    failure = unknown_call(reply_items([raw], offer), offer)
    assert (failure is not None) == ends[fatal]


def repeats(
    *output: JsonObject,
    history: tuple[JsonObject, ...] = (),
    renames: bool = True,
    turn: int = 0,
    kind: ItemKind = "tool_call",
) -> tuple[list[JsonObject], str | None]:
    items = [Item(kind, raw, "A", turn) for raw in history]
    replied = reply_items(output, offered_tools(hosted=(HOSTED,)))
    kept, failure = without_repeats(replied, items, renames=renames)
    assert all(one.call_id == call_id_of(one.raw) for one in kept if one.is_planned)
    return [one.raw for one in kept], None if failure is None else failure.message


def test_a_call_that_is_repeated_word_for_word_counts_once() -> None:
    one, again = computer_call("c1"), {**computer_call("c1"), "id": "another"}
    assert repeats(one, again) == ([one], None)
    assert repeats(again, history=(one,), renames=False) == ([], None)
    theirs = shell_call("c1", "ls")
    assert repeats(theirs, theirs) == ([theirs, theirs], None)


@pytest.mark.parametrize(
    "other",
    [
        computer_call("c1", {"type": "wait"}),
        custom_call("computer", "c1", "{}"),
        patch_call("c1", "delete_file", "a"),
    ],
)
def test_one_id_for_two_calls_of_a_thread_is_the_models_error(other: JsonObject) -> None:
    """The provider has the conversation, and knows each call by the id that it gave."""
    start, end = (
        "Each call needs a unique call ID, but the model used the ",
        "for two different calls",
    )
    twice = repeats(computer_call("c1"), other, renames=False)
    assert twice[1] == f"{start}same call ID 'c1' {end} in one response."
    earlier = repeats(other, history=(computer_call("c1"),), renames=False)
    assert earlier[1] == f"{start}completed tool call ID 'c1' {end}."


def test_a_request_of_a_hosted_server_is_known_by_its_own_id() -> None:
    """A model may write any other field, too, such as the id of a function call."""
    asked = {"type": "mcp_approval_request", "id": "r", "server_label": "crm", "name": "delete"}
    other = {**asked, "name": "create"}
    assert repeats(other, history=({**asked, "call_id": "c9"},)) == ([{**other, "id": "r_0"}], None)


LOOK = call("look", "functions.look:0")


def ids_of(*output: JsonObject, **more: Any) -> list[str]:
    kept, failure = repeats(*output, **more)
    assert failure is None
    return [call_id_of(raw) for raw in kept]


@pytest.mark.parametrize("kind", ["tool_call", "handoff_call", "history", "input"])
@pytest.mark.parametrize("raw", [LOOK, {**LOOK, "arguments": '{"at": 1}'}, {**LOOK, "name": "go"}])
def test_a_call_id_of_an_earlier_turn_is_renamed(raw: JsonObject, kind: ItemKind) -> None:
    kept, failure = repeats(raw, history=(LOOK, output_of(LOOK)), turn=3, kind=kind)
    assert (kept, failure) == ([{**raw, "call_id": "functions.look:300"}], None)
    assert raw["call_id"] == "functions.look:0"


def test_ids_that_come_again_in_each_turn_are_all_different() -> None:
    history: tuple[JsonObject, ...] = ()
    for turn in range(20):
        twice = [{**LOOK, "arguments": f'{{"at": {at}}}'} for at in range(3)]
        kept, failure = repeats(*twice, history=history, turn=turn)
        assert failure is None
        history += tuple(kept)
    assert len({raw["call_id"] for raw in history}) == 60


@pytest.mark.parametrize(
    ("used", "new"),
    [("c", "c_0"), ("0", "0_0"), ("call-7", "call-0"), ("x" * 64, "")],
)  # fmt: skip
def test_a_new_id_has_the_style_of_its_own(used: str, new: str) -> None:
    one = call("look", used)
    (renamed,) = ids_of(one, history=(one,))
    assert renamed == new or (len(used) > 40 and renamed.startswith("call_") and len(renamed) <= 40)
    (other,) = ids_of(one, history=(one, {**one, "call_id": renamed}))
    assert other not in {used, renamed}


def test_two_calls_with_one_id_in_one_reply_are_two() -> None:
    other = {**LOOK, "arguments": '{"at": 1}'}
    assert ids_of(LOOK, other, LOOK) == ["functions.look:0", "functions.look:1"]


def test_the_reasoning_before_a_repeated_call_goes_with_it() -> None:
    first: JsonObject = {"type": "reasoning", "id": "r1", "summary": []}
    last: JsonObject = {"type": "reasoning", "id": "r2", "summary": []}
    one = call("look", "c1")
    kept, failure = repeats(first, one, last, {**one, "arguments": "{ }"}, *say("hi"))
    assert failure is None
    assert kept == [first, one, *say("hi")]


def test_a_call_without_an_id_is_the_models_error() -> None:
    assert (
        repeats(computer_call(""))[1]
        == "The model called 'computer' without a non-empty string call ID."
    )


def test_such_an_error_has_the_models_code() -> None:
    assert nonsense("It makes no sense.").code == failures.MODEL_BEHAVIOR


@pytest.mark.parametrize("fatal", [True, False])
def test_a_request_of_a_hosted_server_is_a_call_to_plan_and_no_unknown_tool(*, fatal: bool) -> None:
    raw = {"type": "mcp_approval_request", "id": "r", "server_label": "crm", "name": "delete"}
    offer = OfferedTools(tools={}, handoffs={}, unknown_is_fatal=fatal)
    items = reply_items([raw], offer)
    assert items[0].is_planned
    assert unknown_call(items, offer) is None
    assert (
        repeats({**raw, "id": ""})[1]
        == "The model called 'crm.delete' without a non-empty string call ID."
    )


PROGRAM = {"type": "program", "id": "i", "call_id": "p1", "code": "look()", "fingerprint": "f"}
OUTPUT = {"type": "program_output", "id": "o", "call_id": "p1", "result": "", "status": "completed"}
OF_PROGRAM = {"caller": {"type": "program", "caller_id": "p1"}}


@function_tool(allowed_callers=["programmatic"])
def count() -> str:
    """Count."""
    return "1"


def of_program(raw: JsonObject) -> JsonObject:
    return {**raw, **OF_PROGRAM}


@pytest.mark.parametrize(
    ("output", "history", "problem"),
    [
        ([PROGRAM, of_program(call("count", "c"))], [], None),
        ([of_program(call("count", "c")), OUTPUT], [PROGRAM], None),
        ([of_program(call("count", "c"))], [{**OUTPUT, "status": "incomplete"}], None),
        ([of_program(call("count", "c"))], [of_program(output_of(call("count", "b")))], None),
        ([of_program(call("nothing", "c"))], [PROGRAM], None),
        ([*say("hi"), call("look", "c"), call("nothing", "d")], [PROGRAM], None),
        ([{**PROGRAM, "call_id": ""}], [], "without a valid call_id"),
        ([of_program(call("count", "c"))], [], "'p1' without a parent program item"),
        ([OUTPUT], [], "'p1' without a parent program item"),
        ([OUTPUT], [PROGRAM, OUTPUT], "'p1' without a parent program item"),
        ([PROGRAM, OUTPUT, of_program(call("count", "c"))], [], "without a parent program item"),
        ([call("count", "c")], [], "'count' with the caller 'direct', but the tool allows"),
        ([PROGRAM, of_program(call("look", "c"))], [], "'look' with the caller 'programmatic'"),
        ([PROGRAM, of_program(call("go", "c"))], [], "'go' with the caller 'programmatic'"),
    ],
)
def test_only_a_running_program_calls_only_tools_that_allow_it(
    output: list[JsonObject], history: list[JsonObject], problem: str | None
) -> None:
    offer = offered_tools(look, count, hosted=(ProgrammaticToolCallingTool(),))
    items = [Item("other", raw, "A") for raw in history]

    failure = program_problem(reply_items(output, offer), items, offer)

    if problem is None:
        assert failure is None
    else:
        assert failure is not None
        assert problem in failure.message
        assert failure.code == failures.MODEL_BEHAVIOR


@pytest.mark.parametrize("raw", [PROGRAM, OUTPUT, of_program(call("count", "c"))])
def test_nobody_runs_a_program_without_the_tool_for_it(raw: JsonObject) -> None:
    offer = offered_tools(look, count)
    failure = program_problem(reply_items([raw], offer), [Item("other", PROGRAM, "A")], offer)
    assert failure is not None
    assert "without a programmatic_tool_calling tool" in failure.message
