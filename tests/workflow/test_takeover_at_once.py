"""Whoever takes a conversation over speaks next, by whichever surface they came."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.client.handle import RunHandle
from outlast.client.identity import person
from outlast.contract import names
from outlast.contract.identity import new_shared_key
from outlast.loop.state import LoopState
from outlast.testing import ScriptedModel, say, wait_for
from outlast.views.run import loop_state
from tests.workflow.desk import Desk
from tests.workflow.test_conversation_page import ANYBODY
from tests.workflow.test_desk_api import TOKENS, app_of, opened

Way = Callable[[Desk, Any, RunHandle, str], Awaitable[None]]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The desk proves who takes over."""
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())


def _fields(mode: str) -> dict[str, Any]:
    return {"mode": mode} if mode else {}


async def by_python(desk: Desk, http: Any, run: RunHandle, mode: str) -> None:
    await run.hold(by=person("ann"), **_fields(mode))


async def by_temporal(desk: Desk, http: Any, run: RunHandle, mode: str) -> None:
    await desk.workflow(run).signal("hold", {"by": "ann", **_fields(mode)})


async def by_api(desk: Desk, http: Any, run: RunHandle, mode: str) -> None:
    answer = await http.post(f"/api/conversations/{run.id}/hold", json=_fields(mode))
    assert answer.status_code == 200, answer.text


async def by_page(desk: Desk, http: Any, run: RunHandle, mode: str) -> None:
    page = (await http.get(f"/conversations/{run.id}")).text
    assert "withdraws the answer that the agent is writing" in page
    assert "After this answer" in page
    data = {"mode": mode}
    assert (await http.post(f"/conversations/{run.id}/hold", data=data)).status_code in {200, 303}


WAYS: dict[str, Way] = {
    "python": by_python,
    "temporal": by_temporal,
    "api": by_api,
    "page": by_page,
}


def shown(state: LoopState) -> list[str]:
    """Return who wrote each message, in order."""
    roles = [(str(one.raw.get("role")), one.agent) for one in state.items if "role" in one.raw]
    return [agent or role for role, agent in roles if role != "developer"]


@pytest.mark.parametrize("mode", ["", "after_turn"])
@pytest.mark.parametrize("way", WAYS)
async def test_an_unfinished_answer_is_withdrawn_unless_the_person_lets_it_end(
    desk: Desk, way: str, mode: str
) -> None:
    goes_on = asyncio.Event()
    agent = Agent[Any](name="Front")
    await desk.open(agent, model=ScriptedModel(wait_for(goes_on, say("I am a machine."))))
    run = await desk.start(agent, keep_open=True, stream=True, run_config=ANYBODY)
    await desk.pending_activity(run, lambda one: one.activity_type.name == names.ACTIVITY_MODEL)
    async with opened(app_of(desk, agent)) as http:
        await WAYS[way](desk, http, run, mode)
        held = await desk.until(run, lambda state: state.hold is not None)
        if mode:
            assert held.phase == "thinking"
            goes_on.set()
        await desk.until(run, lambda state: state.phase == "held")
        chat = await http.get(f"/chat/c/{run.id}?token={TOKENS.mint(run.id)}")
        assert "A colleague has taken over this conversation." in chat.text
        await run.say("I am Ann.", by=person("ann"))
        goes_on.set()
        state = await run.state()
    assert shown(loop_state(state)) == ["user", *(["Front"] if mode else []), "ann"]
    await run.cancel()
