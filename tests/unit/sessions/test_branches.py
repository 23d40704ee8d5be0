"""A session with branches: turns, copies and usage, beside what the SDK's session answers."""

import json
import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outlast import Agent, ToolContext, function_tool
from outlast.agents.errors import UserError
from outlast.agents.usage import Usage
from outlast.ports.session import open_session
from outlast.sessions import AdvancedSQLiteSession, SQLiteSession
from outlast.testing import ScriptedModel, call, run_in_memory

SKY = {"role": "user", "content": "Why is the sky blue?"}
SCATTER = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Rayleigh."}],
}
RAIN = {"role": "user", "content": [{"type": "input_text", "text": "Will it RAIN in Oslo?"}]}
LOOK = {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": "{}"}
FOUND = {"type": "function_call_output", "call_id": "c1", "output": "rain"}
YES = {"role": "assistant", "content": "Yes."}
TALK = [SKY, SCATTER, RAIN, LOOK, LOOK, FOUND, YES]


@pytest.fixture
async def session() -> AdvancedSQLiteSession:
    """A session with two turns."""
    made = AdvancedSQLiteSession(session_id="s", create_tables=True)
    await made.add_items(TALK)
    return made


def used(tokens: int, cached: int = 0) -> Any:
    """Return a result of a run with this usage."""
    details: Any = {"cached_tokens": cached, "cache_write_tokens": 1}
    usage = Usage(
        requests=1,
        input_tokens=tokens,
        output_tokens=1,
        total_tokens=tokens + 1,
        input_tokens_details=details,
    )
    return SimpleNamespace(context_wrapper=SimpleNamespace(usage=usage))


def test_it_is_where_the_sdk_has_it() -> None:
    module = import_module("outlast.extensions.memory")
    assert module.AdvancedSQLiteSession is AdvancedSQLiteSession


async def test_a_users_message_begins_a_turn(session: AdvancedSQLiteSession) -> None:
    first, second = await session.get_conversation_turns()
    assert (first["turn"], first["content"], first["can_branch"]) == (1, SKY["content"], True)
    assert first["full_content"] == SKY["content"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", first["timestamp"])
    assert (second["turn"], second["content"]) == (2, json.dumps(RAIN["content"]))
    assert second["full_content"] == RAIN["content"]


async def test_the_list_of_turns_shows_the_beginning_of_long_messages() -> None:
    session = AdvancedSQLiteSession(session_id="s")
    await session.add_items([{"role": "user", "content": "x" * 101}])
    (turn,) = await session.get_conversation_turns()
    assert (turn["content"], turn["full_content"]) == ("x" * 100 + "...", "x" * 101)
    (found,) = await session.find_turns_by_content("xx")
    assert found["content"] == "x" * 101


@pytest.mark.parametrize(
    ("term", "turns"), [("SKY", [1]), ("rain", [2]), ("i", [1, 2]), ("input_text", []), ("Yes", [])]
)
async def test_turns_are_found_by_the_text_of_the_user(
    session: AdvancedSQLiteSession, term: str, turns: list[int]
) -> None:
    assert [one["turn"] for one in await session.find_turns_by_content(term)] == turns


async def test_the_structure_of_turns_names_tools(session: AdvancedSQLiteSession) -> None:
    look = {"type": "function_call", "tool_name": "look_up"}
    assert await session.get_conversation_by_turns() == {
        1: [{"type": "user", "tool_name": None}, {"type": "assistant", "tool_name": None}],
        2: [
            {"type": "user", "tool_name": None},
            look,
            look,
            {"type": "function_call_output", "tool_name": None},
            {"type": "assistant", "tool_name": None},
        ],
    }
    assert await session.get_tool_usage() == [("look_up", 2, 2)]


@pytest.mark.parametrize(
    ("item", "kind", "name"),
    [
        ({"type": "mcp_call", "server_label": "wiki", "name": "find"}, "mcp_call", "wiki.find"),
        ({"type": "web_search_call", "id": "w"}, "web_search_call", "web_search_call"),
        ({"type": "function_call", "namespace": "crm", "name": "f"}, "function_call", "crm.f"),
        ({"type": "function_call", "namespace": "f", "name": "f"}, "function_call", "f"),
        ({"type": "tool_search_call"}, "tool_search_call", "tool_search"),
        ({"type": "tool_search_output", "tools": []}, "tool_search_output", "tool_search"),
        ({"type": "reasoning", "summary": []}, "reasoning", None),
        ({"role": "system", "content": "Be brief."}, "other", None),
    ],
)
async def test_every_kind_of_call_has_a_name(
    item: dict[str, Any], kind: str, name: str | None
) -> None:
    session = AdvancedSQLiteSession(session_id="s")
    await session.add_items([item])
    assert await session.get_conversation_by_turns() == {0: [{"type": kind, "tool_name": name}]}
    assert await session.get_tool_usage() == ([] if name is None else [(name, 1, 0)])


async def test_a_branch_has_what_came_before_the_turn(session: AdvancedSQLiteSession) -> None:
    assert await session.create_branch_from_turn(2, "other") == "other"
    assert await session.get_items() == [SKY, SCATTER]
    await session.add_items([{"role": "user", "content": "And at night?"}, YES])
    assert [one["turn"] for one in await session.get_conversation_turns()] == [1, 2]
    assert await session.get_items(branch_id="main") == TALK
    assert await session.get_items(2, branch_id="main") == TALK[-2:]
    assert await session.get_items(0, branch_id="main") == []
    branches = await session.list_branches()
    shown = [(one["branch_id"], one["message_count"], one["user_turns"]) for one in branches]
    assert shown == [("main", 7, 2), ("other", 4, 2)]
    assert [one["is_current"] for one in branches] == [False, True]
    assert all(one["created_at"] for one in branches)
    await session.switch_to_branch("main")
    assert await session.get_items() == TALK
    assert await session.get_items(branch_id="other") == [
        SKY,
        SCATTER,
        *[
            {"role": "user", "content": "And at night?"},
            YES,
        ],
    ]


async def test_branches_are_named_after_their_turn(session: AdvancedSQLiteSession) -> None:
    one = await session.create_branch_from_content("rain")
    await session.switch_to_branch("main")
    same = await session.create_branch_from_turn(2)
    assert re.fullmatch(r"branch_from_turn_2_\d+", one)
    assert same.startswith("branch_from_turn_2_")
    assert one != same


async def test_a_deleted_branch_is_gone_and_its_name_stays_taken(
    session: AdvancedSQLiteSession,
) -> None:
    await session.create_branch_from_turn(2, "other")
    with pytest.raises(ValueError, match="current branch 'other'"):
        await session.delete_branch("other")
    await session.delete_branch("other", force=True)
    assert await session.get_items() == TALK
    assert [one["branch_id"] for one in await session.list_branches()] == ["main"]
    with pytest.raises(ValueError, match="already been used"):
        await session.create_branch_from_turn(2, "other")
    await session.create_branch_from_turn(1, "empty")
    assert await session.get_items() == []


async def test_a_session_that_is_cleared_has_no_branches(session: AdvancedSQLiteSession) -> None:
    await session.store_run_usage(used(9))
    await session.create_branch_from_turn(2, "other")
    await session.clear_session()
    assert await session.get_items() == []
    (main,) = await session.list_branches()
    assert (main["branch_id"], main["message_count"], main["is_current"]) == ("main", 0, True)
    assert await session.get_session_usage() is None


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        (
            "create_branch_from_turn",
            (3,),
            "Turn 3 does not contain a user message in branch 'main', which has 2 turns",
        ),
        ("create_branch_from_turn", (0,), "Turn 0 does not contain a user message"),
        ("create_branch_from_turn", (1, " "), "cannot be empty"),
        ("create_branch_from_turn", (1, "main"), "'main' has already been used"),
        ("create_branch_from_content", ("moon",), "containing 'moon'"),
        ("switch_to_branch", ("moon",), "'moon' does not exist. There are main."),
        ("delete_branch", ("moon",), "does not exist"),
        ("delete_branch", ("main",), "Cannot delete the 'main' branch"),
        ("get_items", (None, "moon"), "does not exist"),
        ("get_session_usage", ("moon",), "does not exist"),
    ],
)
async def test_what_is_not_there_is_said(
    session: AdvancedSQLiteSession, method: str, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        await getattr(session, method)(*arguments)
    assert isinstance(caught.value, UserError)
    assert await session.get_items() == TALK


async def test_usage_belongs_to_the_newest_turn_of_a_branch(session: AdvancedSQLiteSession) -> None:
    assert await session.get_session_usage() is None
    assert (await session.get_turn_usage(), await session.get_turn_usage(2)) == ([], {})
    await session.store_run_usage(used(3))
    await session.store_run_usage(used(9, cached=4))  # the same turn again: the newest counts
    await session.create_branch_from_turn(2, "other")
    await session.store_run_usage(used(5))
    assert await session.get_turn_usage() == [
        {
            "user_turn_number": 1,
            "requests": 1,
            "input_tokens": 5,
            "output_tokens": 1,
            "total_tokens": 6,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 1},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
    ]
    one: Any = await session.get_turn_usage(2, branch_id="main")
    assert (one["input_tokens"], one["input_tokens_details"]["cached_tokens"]) == (9, 4)
    assert "user_turn_number" not in one
    sums = {"requests": 2, "input_tokens": 14, "output_tokens": 2, "total_tokens": 16}
    assert await session.get_session_usage() == {**sums, "total_turns": 2}
    main = await session.get_session_usage("main")
    assert main is not None
    assert (main["input_tokens"], main["total_turns"]) == (9, 1)


async def test_the_usage_of_a_turn_goes_with_its_items(session: AdvancedSQLiteSession) -> None:
    await session.store_run_usage(used(9))
    for _ in range(4):
        await session.pop_item()
    assert await session.get_turn_usage(2) != {}
    assert await session.pop_item() == RAIN
    assert await session.get_turn_usage(2) == {}
    assert await session.get_items() == [SKY, SCATTER]


async def test_a_worker_elsewhere_adds_to_the_branch(tmp_path: Path) -> None:
    path = tmp_path / "talk.db"
    session = AdvancedSQLiteSession(session_id="s", db_path=path)
    await session.add_items(TALK)
    await session.create_branch_from_turn(2, "other")
    description = session.describe()
    assert description is not None
    theirs = SQLiteSession.from_description(description)
    assert await theirs.get_items() == [SKY, SCATTER]
    await theirs.add_items([YES])
    again = AdvancedSQLiteSession(session_id="s", db_path=path)
    assert await again.get_items() == TALK, "a new object is on main"
    await again.switch_to_branch("other")
    assert await again.get_items() == [SKY, SCATTER, YES]
    assert AdvancedSQLiteSession(session_id="s").describe() is None


async def test_sessions_in_one_file_do_not_share_branches(tmp_path: Path) -> None:
    path = tmp_path / "talk.db"
    one = AdvancedSQLiteSession(session_id="a", db_path=path)
    other = AdvancedSQLiteSession(session_id="b", db_path=path)
    for session in (one, other):
        await open_session(session)
        await session.add_items(TALK)
        await session.create_branch_from_turn(2, "x")
    await one.clear_session()
    assert await other.get_items() == [SKY, SCATTER]


async def test_runs_continue_the_branch() -> None:
    @function_tool
    def look_up(context: ToolContext[Any]) -> str:
        return context.tool_call_id

    session = AdvancedSQLiteSession(session_id="s")
    agent = Agent[Any](name="A", tools=[look_up])
    model = ScriptedModel([call("look_up", "c1")], "one", "two", "three")
    for question in ("first", "second"):
        result = await run_in_memory(agent, question, model=model, session=session)
        await session.store_run_usage(result)
    await session.create_branch_from_turn(2)
    await run_in_memory(agent, "instead", model=model, session=session)
    turns = await session.get_conversation_turns()
    assert [one["content"] for one in turns] == ["first", "instead"]
    assert await session.get_tool_usage() == [("look_up", 1, 1)]
    usage: Any = await session.get_turn_usage(branch_id="main")
    assert [one["requests"] for one in usage] == [2, 1]
