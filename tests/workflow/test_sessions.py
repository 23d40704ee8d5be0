"""Sessions: what was said is saved, all of it and once, whatever happens to workers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast.agents.agent import Agent
from outlast.agents.errors import AgentsException
from outlast.agents.tools.function_tool import function_tool
from outlast.contract import names, policies
from outlast.loop.calls import ExecutionOptions
from outlast.loop.items import text_of
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import PATIENCE_SECONDS, QUICK, Desk
from tests.workflow.replies import outputs

EXCHANGE = ["Hello", "function_call", "function_call_output", "Done."]


@pytest.fixture
def session(tmp_path: Path) -> outlast.SQLiteSession:
    return outlast.SQLiteSession("s", tmp_path / "sessions.db")


async def saved(session: Any) -> list[str]:
    items: list[JsonObject] = await session.get_items()
    return [str(item.get("type")) if "call_id" in item else text_of(item) for item in items]


class ApprovalRule:
    """A tool that waits for the test."""

    def __init__(self) -> None:
        self.begun, self.open = asyncio.Event(), asyncio.Event()

    def tool(self) -> Any:
        @function_tool
        async def act() -> str:
            self.begun.set()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.open.wait()
            return "acted"

        return act


async def test_a_worker_that_leaves_in_the_middle_costs_no_item_and_doubles_none(
    desk: Desk, session: Any
):
    gate = ApprovalRule()
    agent = Agent[Any](name="A", tools=[gate.tool()])
    worker = await desk.open(agent, model=ScriptedModel([call("act", "c1")]))
    handle = await desk.start(agent, session=session, run_config=QUICK)
    await asyncio.wait_for(gate.begun.wait(), PATIENCE_SECONDS)
    await desk.close(worker)
    gate.open.set()
    second = ScriptedModel("Done.", "You are welcome.")
    await desk.open(agent, model=second)
    assert (await desk.result(handle)).final_output == "Done."
    assert await saved(session) == EXCHANGE
    again = await desk.run(agent, "Thanks.", session=session)
    assert again.final_output == "You are welcome."
    assert len(second.requests[1].input) == 5
    assert await saved(session) == [*EXCHANGE, "Thanks.", "You are welcome."]


def delete(session: outlast.SQLiteSession) -> None:
    """Delete the file of a session."""
    for name in ("", "-wal", "-shm"):
        Path(f"{session.db_path}{name}").unlink(missing_ok=True)


async def test_a_session_that_is_deleted_meanwhile_costs_no_answer_and_is_missed(
    desk: Desk, session: Any, caplog: pytest.LogCaptureFixture
):
    @function_tool(needs_approval=True)
    async def act() -> str:
        return "acted"

    agent = Agent[Any](name="A", tools=[act])
    model = ScriptedModel("Hi.", [call("act", "c1")], "Done.", "Still here.", "New here.")
    await desk.open(agent, model=model)
    handle = await desk.start(agent, session=session, keep_open=True)
    await desk.until_status(handle, "idle")
    sent = await handle.send("Act.")
    await desk.until_status(handle, "waiting")
    session.close()
    delete(session)
    await handle.approve("a1")
    async with desk.patience(handle):
        assert (await sent.answer()).final_output == "Done."
        assert (await (await handle.send("Sure?")).answer()).final_output == "Still here."
    await desk.settled(handle)
    assert "The session 's' no longer holds the items" in caplog.text
    history = await desk.workflow(handle).fetch_history()
    assert "no longer holds the items" in str(history.events)
    found = outlast.SQLiteSession("s", session.db_path)
    assert await saved(found) == ["function_call_output", "Done.", "Sure?", "Still here."]
    # The next run begins with what stands by itself, and not with half of a call.
    assert (await desk.run(agent, "Hello?", session=found)).final_output == "New here."
    texts = [text_of(item) for item in model.requests[4].input]
    assert texts == ["Done.", "Sure?", "Still here.", "Hello?"]


async def test_what_is_waited_for_days_is_saved_before_and_nothing_twice(desk: Desk, session: Any):
    @function_tool(needs_approval=True)
    async def act() -> str:
        return "acted"

    agent = Agent[Any](name="A", tools=[act])
    await desk.open(agent, model=ScriptedModel([call("act", "c1")], "Done."))
    handle = await desk.start(agent, session=session)
    await desk.until_status(handle, "waiting")
    assert await saved(session) == ["Hello", "function_call"]
    await handle.approve("a1")
    await desk.result(handle)
    assert await saved(session) == EXCHANGE


class Custom:
    """A session of somebody's own, in memory, that breaks down when it has saved something."""

    session_id = "own"
    session_settings = None

    def __init__(self, breaks: int) -> None:
        self.items: list[Any] = []
        self.saves = 0
        self._breaks = breaks

    async def get_items(self, limit: int | None = None) -> list[Any]:
        items = json.loads(json.dumps(self.items))
        return items if limit is None else items[-limit:] if limit else []

    async def add_items(self, items: list[Any]) -> None:
        self.saves += 1
        self.items.extend(items)
        if self.saves <= self._breaks:
            raise ConnectionError("the answer is lost")

    async def pop_item(self) -> Any:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items.clear()


class Keyed(Custom):
    """The same with keys."""

    def __init__(self, breaks: int) -> None:
        super().__init__(breaks)
        self.keys: list[str] = []

    async def add_items_once(self, key: str, items: list[Any]) -> bool:
        if key in self.keys:
            return False
        self.keys.append(key)
        await self.add_items(items)
        return True


@pytest.mark.parametrize("kind", [Custom, Keyed])
async def test_a_save_that_is_tried_again_doubles_nothing(desk: Desk, kind: type[Custom]):
    @function_tool
    async def act() -> str:
        return "acted"

    session = kind(breaks=1)
    agent = Agent[Any](name="A", tools=[act])
    await desk.open(agent, model=ScriptedModel([call("act", "c1")], "Done."))
    result = await desk.run(agent, session=session)
    assert result.final_output == "Done."
    assert await saved(session) == EXCHANGE


class Held(Custom):
    """A session that saves when the test says so."""

    def __init__(self) -> None:
        super().__init__(breaks=0)
        self.asked, self.open = asyncio.Event(), asyncio.Event()

    async def add_items(self, items: list[Any]) -> None:
        self.asked.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.open.wait()
        await super().add_items(items)


@pytest.mark.smoke
async def test_a_run_ends_when_everything_is_saved(desk: Desk):
    session = Held()
    agent = Agent[Any](name="A")
    await desk.open(agent, model=ScriptedModel("Done."))
    handle = await desk.start(agent, session=session)
    await asyncio.wait_for(session.asked.wait(), PATIENCE_SECONDS)
    state = await desk.until(handle, lambda state: state.final_output is not None)
    assert (state.status, state.phase) == ("running", "closing")
    session.open.set()
    await desk.result(handle)
    assert await saved(session) == ["Hello", "Done."]


async def test_a_session_that_never_takes_anything_fails_the_run_in_words(desk: Desk):
    class Broken(Custom):
        async def add_items(self, items: list[Any]) -> None:
            raise TypeError("no table")

    agent = Agent[Any](name="A")
    await desk.open(agent, model=ScriptedModel("Done."))
    handle = await desk.start(agent, session=Broken(breaks=0))
    with pytest.raises((AgentsException, TypeError), match="no table"):
        await desk.result(handle)


@pytest.mark.smoke
async def test_a_session_is_saved_across_histories(desk: Desk, session: Any):
    turns = 5

    @function_tool
    async def act(number: int) -> str:
        return f"acted {number}"

    def reply(request: Any) -> Any:
        done = len(outputs(request))
        if done < turns:
            return [call("act", f"c{done}", number=done)]
        return say("Done.")

    agent = Agent[Any](name="A", tools=[act])
    model = ScriptedModel(always=reply)
    await desk.open(agent, model=model, sessions=[session.db_path])
    handle = await desk.start_short(agent, session=session, events=40)
    await desk.result(handle)
    assert len(await desk.all_events(handle)) >= 2
    assert await saved(session) == [
        "Hello",
        *["function_call", "function_call_output"] * turns,
        "Done.",
    ]
    assert [one["output"] for one in await session.get_items() if "output" in one] == [
        f"acted {number}" for number in range(turns)
    ]


class Failing(outlast.SQLiteSession):
    """A session that takes nothing while it is full."""

    full = False

    async def add_items_once(self, key: str, items: list[Any]) -> bool:
        if self.full:
            raise PermissionError("the disk is full")
        return await super().add_items_once(key, items)


async def test_a_conversation_keeps_what_its_session_does_not_take(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(policies, "SAVE", ExecutionOptions(attempts=1))
    session = Failing("s", tmp_path / "s.db")
    agent = Agent[Any](name="A")
    await desk.open(agent, model=ScriptedModel("One.", "Two.", "Three."))
    handle = await desk.start(agent, "Hello", session=session, keep_open=True)
    await desk.until_status(handle, "idle")
    session.full = True
    assert (await (await handle.send("m2")).answer()).final_output == "Two."
    state = await desk.until(handle, lambda one: one.saving.save_failure is not None)
    view = await desk.workflow(handle).query(names.QUERY_STATE)
    assert "the disk is full" in view["unsaved"]["problem"]
    session.full = False
    assert (await (await handle.send("m3")).answer()).final_output == "Three."
    state = await desk.until(handle, lambda one: len(one.answers) == 3 and not one.saving.to_save)
    assert state.saving.save_failure is None
    texts = [str(item.get("content")) for item in await session.get_items()]
    order = ["Hello", "One.", "m2", "Two.", "m3", "Three."]
    assert all(text in one for text, one in zip(order, texts, strict=True))
