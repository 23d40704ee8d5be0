"""Sessions and conversations that the provider keeps: rows 43 to 47 of the table."""

from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast import Agent, RunConfig, UserError, function_tool
from outlast.loop.call_forms import output_item
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel, call, say
from tests.conformance.executors import Executor, also_on_server, row
from tests.conformance.views import asked, outputs, saved, shapes


@function_tool
async def look_up() -> str:
    return "found"


@pytest.fixture
def session(tmp_path: Path) -> Any:
    return outlast.SQLiteSession("s", tmp_path / "sessions.db")


def _user(text: str) -> JsonObject:
    return {"role": "user", "content": text}


@pytest.mark.smoke
@row(43)
async def test_the_second_run_begins_with_what_was_said_in_the_first(
    executor: Executor, session: Any
) -> None:
    agent = Agent(name="A", tools=[look_up])
    model = ScriptedModel([call("look_up", "c1")], "It is here.", "You are welcome.")
    first = await executor.execute(agent, "Where is it?", model=model, session=session)
    assert first.final_output == "It is here."
    exchange = ["Where is it?", "function_call", "function_call_output", "It is here."]
    assert await saved(session) == exchange
    second = await executor.execute(agent, "Thanks.", model=model, session=session)
    assert shapes(model.requests[2].input) == [*exchange, "Thanks."]
    assert await saved(session) == [*exchange, "Thanks.", "You are welcome."]
    assert asked(second) == [*exchange, "Thanks."]
    assert len(second.new_items) == 1


@row(44)
@pytest.mark.parametrize(
    ("limit", "seen"),
    [
        (0, []),
        (1, ["It is here."]),
        (2, ["It is here."]),  # the output whose call was cut off is left out, too
        (3, ["It is here."]),  # and a call whose question was
        (None, ["Where is it?", "function_call", "function_call_output", "It is here."]),
    ],
)
async def test_a_limit_cuts_the_history_and_leaves_no_orphans(
    executor: Executor, session: Any, limit: int | None, seen: list[str]
) -> None:
    history = [
        _user("Where is it?"),
        call("look_up", "c1"),
        output_item("c1", "found"),
        *say("It is here."),
    ]
    await session.add_items(history)
    model = ScriptedModel("You are welcome.")
    config = RunConfig(session_settings=outlast.SessionSettings(limit=limit))
    await executor.execute(
        Agent(name="A", tools=[look_up]), "Thanks.", model=model, session=session, run_config=config
    )
    assert shapes(model.requests[0].input) == [*seen, "Thanks."]
    assert await saved(session) == [*shapes(history), "Thanks.", "You are welcome."]


def _drop(history: list[Any], new: list[Any]) -> list[Any]:
    return [*history[-1:], *new]


def _reorder(history: list[Any], new: list[Any]) -> list[Any]:
    return [*new, *history]


async def _add(history: list[Any], new: list[Any]) -> list[Any]:
    return [*history, _user("It is Monday."), *new]


@row(45)
@pytest.mark.parametrize(
    ("callback", "seen", "new"),
    [
        (_drop, ["two", "three"], ["three"]),
        (_reorder, ["three", "one", "two"], ["three"]),
        (_add, ["one", "two", "It is Monday.", "three"], ["It is Monday.", "three"]),
    ],
    ids=["drop", "reorder", "add"],
)
async def test_a_callback_makes_the_input_and_only_what_is_new_is_saved(
    executor: Executor, session: Any, callback: Any, seen: list[str], new: list[str]
) -> None:
    await session.add_items([_user("one"), *say("two")])
    model = ScriptedModel("four")
    await executor.execute(
        Agent(name="A"),
        "three",
        model=model,
        session=session,
        run_config=RunConfig(session_input_callback=callback),
    )
    assert shapes(model.requests[0].input) == seen
    assert await saved(session) == ["one", "two", *new, "four"]


@row(46)
@pytest.mark.parametrize(
    "ids",
    [
        {"conversation_id": "conv_1"},
        {"previous_response_id": "resp_0"},
        {"auto_previous_response_id": True},
    ],
    ids=["conversation", "response", "automatic"],
)
async def test_a_session_and_a_conversation_of_the_provider_exclude_each_other(
    executor: Executor, session: Any, ids: dict[str, Any]
) -> None:
    model = ScriptedModel("never")
    with pytest.raises(UserError):
        await executor.execute(Agent(name="A"), model=model, session=session, **ids)
    assert model.calls == 0
    assert await saved(session) == []


@row(46)
async def test_two_conversations_of_the_provider_exclude_each_other(executor: Executor) -> None:
    model = ScriptedModel("never")
    with pytest.raises(UserError):
        await executor.execute(
            Agent(name="A"), model=model, conversation_id="conv_1", previous_response_id="resp_0"
        )
    assert model.calls == 0


@row(47)
async def test_a_conversation_of_the_provider_is_sent_what_it_does_not_have(
    executor: Executor,
) -> None:
    model = ScriptedModel([call("look_up", "c1")], [call("look_up", "c2")], "It is here.")
    result = await executor.execute(
        Agent(name="A", tools=[look_up]), model=model, conversation_id="conv_1"
    )
    assert result.final_output == "It is here."
    assert [request.conversation_id for request in model.requests] == ["conv_1"] * 3
    assert [request.previous_response_id for request in model.requests] == [None] * 3
    assert shapes(model.requests[0].input) == ["Hello"]
    assert shapes(model.requests[1].input) == ["function_call_output"]
    assert outputs(model.requests[2]) == {"c2": "found"}
    assert len(model.requests[2].input) == 1


@also_on_server
@row(47)
@pytest.mark.parametrize(
    ("ids", "first"),
    [({"previous_response_id": "resp_0"}, "resp_0"), ({"auto_previous_response_id": True}, None)],
    ids=["given", "automatic"],
)
async def test_responses_of_the_provider_follow_each_other(
    executor: Executor, ids: dict[str, Any], first: str | None
) -> None:
    model = ScriptedModel([call("look_up", "c1")], "It is here.")
    result = await executor.execute(Agent(name="A", tools=[look_up]), model=model, **ids)
    assert [request.previous_response_id for request in model.requests] == [first, "resp_1"]
    assert shapes(model.requests[1].input) == ["function_call_output"]
    assert result.last_response_id == "resp_2"
