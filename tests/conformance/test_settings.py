"""Settings that change from turn to turn, and the filter of a call: rows 48 and 49."""

from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast import (
    Agent,
    CallModelOutputData,
    ModelOutputData,
    ModelSettings,
    RunConfig,
    SQLiteSession,
    UserError,
    function_tool,
)
from outlast.testing import ScriptedModel, call, say
from tests.conformance.executors import Executor, also_on_server, raises_own, row
from tests.conformance.views import saved, shapes


@function_tool
async def look_up() -> str:
    return "found"


@row(48)
@pytest.mark.parametrize("resets", [True, False])
async def test_a_forced_tool_choice_is_for_the_first_call_only(
    executor: Executor, resets: bool
) -> None:
    agent = Agent(
        name="A",
        tools=[look_up],
        model_settings=ModelSettings(tool_choice="required"),
        reset_tool_choice=resets,
    )
    model = ScriptedModel([call("look_up", "c1")], "done")
    await executor.execute(agent, model=model)
    choices = [request.settings.tool_choice for request in model.requests]
    assert choices == ["required", None if resets else "required"]


@pytest.mark.smoke
@row(48)
async def test_tool_use_of_one_agent_does_not_reset_anothers_choice(executor: Executor) -> None:
    forced = ModelSettings(tool_choice="required")
    billing = Agent(name="Billing", tools=[look_up], model_settings=forced)
    triage = Agent(name="Triage", tools=[look_up], model_settings=forced, handoffs=[billing])
    model = ScriptedModel(
        [call("look_up", "c1")],
        [call("transfer_to_billing", "h1")],
        [call("look_up", "c2")],
        "done",
    )
    await executor.execute(triage, model=model)
    choices = [request.settings.tool_choice for request in model.requests]
    assert choices == ["required", None, "required", None]


@row(49)
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_filter_changes_what_one_call_sees_and_nothing_else(
    executor: Executor, tmp_path: Path, is_async: bool
) -> None:
    given: list[tuple[list[str], str | None, str]] = []

    def trim(data: Any) -> Any:
        before = data.model_data
        given.append((shapes(before.input), before.instructions, data.agent.name))
        return outlast.ModelInputData(input=before.input[-1:], instructions="Be brief.")

    async def trim_later(data: Any) -> Any:
        return trim(data)

    session = outlast.SQLiteSession("s", tmp_path / "sessions.db")
    await session.add_items([{"role": "user", "content": "Long ago."}])
    model = ScriptedModel("Good day.")
    result = await executor.execute(
        Agent(name="A", instructions="Be kind."),
        model=model,
        session=session,
        run_config=RunConfig(call_model_input_filter=trim_later if is_async else trim),
    )
    assert given == [(["Long ago.", "Hello"], "Be kind.", "A")]
    assert shapes(model.requests[0].input) == ["Hello"]
    assert model.requests[0].instructions == "Be brief."
    assert shapes(result.to_input_list()) == ["Long ago.", "Hello", "Good day."]
    assert await saved(session) == ["Long ago.", "Hello", "Good day."]


@row(49)
async def test_a_filter_that_returns_something_else_is_refused(executor: Executor) -> None:
    def wrong(data: Any) -> Any:
        return data.model_data.input

    model = ScriptedModel("never")
    with pytest.raises(UserError, match="list"):
        await executor.execute(
            Agent(name="A"), model=model, run_config=RunConfig(call_model_input_filter=wrong)
        )
    assert model.calls == 0


def _polite(data: CallModelOutputData[Any]) -> ModelOutputData:
    for item in data.model_data.output:
        for part in item.get("content", ()):
            part["text"] = part["text"].replace("darn", "dear")
    return data.model_data


@row(49)
async def test_an_output_filter_changes_what_counts_as_the_reply(
    executor: Executor, tmp_path: Path
) -> None:
    session = SQLiteSession("s", tmp_path / "s.db")
    seen: list[str] = []

    def counted(data: CallModelOutputData[Any]) -> ModelOutputData:
        seen.append(data.agent.name)
        return _polite(data)

    model = ScriptedModel([*say("The darn tool."), call("look_up", "c1")], "Oh darn.")
    agent = Agent(name="A", tools=[look_up])
    config = RunConfig(call_model_output_filter=counted)
    result = await executor.execute(agent, model=model, run_config=config, session=session)
    assert result.final_output == "Oh dear."
    shown = str(model.requests[1].input)
    assert ("The dear tool." in shown, "darn" in shown) == (True, False)
    assert "darn" not in str(await saved(session))
    assert seen == ["A", "A"], "once for each reply, and never on replay"


@also_on_server
@row(49)
async def test_readers_of_a_stream_have_read_what_the_model_wrote(executor: Executor) -> None:
    config = RunConfig(call_model_output_filter=_polite)
    stream = await executor.stream(
        Agent(name="A"), model=ScriptedModel("Oh darn."), run_config=config
    )
    events = [event async for event in stream.stream_events()]
    raw = [event.data for event in events if event.type == "raw_response_event"]
    written = [
        one.delta if one.type == "response.output_text.delta" else "|"
        for one in raw
        if one.type in {"response.output_text.delta", "outlast.attempt_restarted"}
    ]
    *voided, last = "".join(written).split("|")
    if executor.name == "server":  # where a reader may see all of it, some or none
        assert "Oh darn.".startswith("".join(voided))
    assert last == ("Oh dear." if executor.name == "server" else "Oh darn.")
    items = [event.item for event in events if event.type == "run_item_stream_event"]
    assert [item.content[0].text for item in items] == ["Oh dear."]
    assert stream.final_output == "Oh dear."


@also_on_server
@row(49)
async def test_an_output_filter_that_raises_fails_the_run_and_nothing_is_paid_again(
    executor: Executor,
) -> None:
    def broken(_data: CallModelOutputData[Any]) -> ModelOutputData:
        raise ConnectionError("down")

    model = ScriptedModel("Hi.", "never said")
    with raises_own(ConnectionError, "down"):
        await executor.execute(
            Agent(name="A"), model=model, run_config=RunConfig(call_model_output_filter=broken)
        )
    assert model.calls == 1


@row(49)
async def test_an_output_filter_cannot_change_what_a_provider_keeps(executor: Executor) -> None:
    config = RunConfig(call_model_output_filter=_polite)
    with pytest.raises(UserError, match=r"call_model_output_filter=.*cannot change the provider"):
        await executor.execute(
            Agent(name="A"), model=ScriptedModel(), run_config=config, conversation_id="conv_1"
        )
