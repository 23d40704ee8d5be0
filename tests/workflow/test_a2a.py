"""Agent2Agent on a server, both ends ours: a tool of one agent is another agent at a desk."""

import asyncio
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from outlast.a2a import a2a_tool, remote
from outlast.agents.agent import Agent
from outlast.client.handle import RunHandle
from outlast.client.runs import RunFilter, find_runs
from outlast.contract.identity import new_shared_key
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.people import ANN, clerk, refunds
from tests.workflow.test_desk_api import PROGRAM, app_of, opened


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The desk proves who decides."""
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())


def courier(**options: Any) -> Agent[Any]:
    """Return an agent that asks the clerk of the desk, as if it were somebody else's."""
    tool = a2a_tool(
        "http://localhost/a2a/Clerk",
        name="ask_clerk",
        description="Refunds.",
        every=timedelta(seconds=1),
        headers=PROGRAM,
        **options,
    )
    return Agent(name="Front desk", tools=[tool])


@pytest.mark.smoke
async def test_a_task_waits_for_the_people_of_the_other_end(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, agent = clerk(), courier()
    app = app_of(desk, other)

    def http_client() -> Any:
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(app, client=("127.0.0.1", 5000)))

    monkeypatch.setattr(remote, "http_client", http_client)
    monkeypatch.setattr("outlast.a2a.tool._FIRST_LOOKS", ())
    asks = [call("ask_clerk", "o1", message="Refund A-17.")]
    model = ScriptedModel(asks, refunds(5), "Refunded 5 EUR.", "Your money is on its way.")
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app):
        await desk.open(agent, other, model=model)
        handle = await desk.start(agent)
        await desk.until_status(handle, "parked")
        inner = await _waiting(desk)
        await inner.approve("a1", by=ANN)
        result = await desk.result(handle)
        assert result.final_output == "Your money is on its way."
        output = str(model.requests[-1].input[-1]["output"])
        assert '"state": "completed"' in output
        assert '"text": "Refunded 5 EUR."' in output
        assert len((await inner.state()).answers) == 1
        await inner.cancel()


async def _waiting(desk: Desk) -> RunHandle:
    """Return the conversation with the clerk, when it waits for a person."""
    while True:
        runs = await find_runs(desk.client, RunFilter(id_prefix="a2a-", waiting=True), limit=1)
        if runs:
            return RunHandle(desk.client, runs[0].run_id)
        await asyncio.sleep(0.05)
