"""AG-UI over HTTP on a server: how often a history is read, and who may do what over the wire."""

import asyncio
import json
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.client.handle import RunHandle
from outlast.testing import ScriptedModel
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.test_desk_api import TOKENS, app_of, bearer, keys, opened

__all__ = ["keys"]


def body_of(run_id: str, *messages: tuple[str, str], **fields: Any) -> dict[str, Any]:
    """Return a request with messages of the user."""
    written = [{"id": own, "role": "user", "content": text} for own, text in messages]
    return {"threadId": run_id, "runId": "1", "messages": written, **fields}


def events_in(text: str) -> list[dict[str, Any]]:
    """Return the events of a whole stream, each with its id."""
    found: list[dict[str, Any]] = []
    for part in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in part.split("\n") if line[:1] not in {"", ":"})
        if "data" in fields:
            found.append({**json.loads(fields["data"]), "sse": fields.get("id")})
    return found


def written_in(events: list[dict[str, Any]]) -> str:
    """Return the text that comes in pieces."""
    return "".join(one["delta"] for one in events if one["type"] == "TEXT_MESSAGE_CONTENT")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the runs whose histories were read from their beginning, once for each time."""
    found: list[str] = []
    original: Any = Client.workflow_service.fget

    class Counting:
        def __init__(self, service: Any) -> None:
            self._service = service

        def __getattr__(self, name: str) -> Any:
            return getattr(self._service, name)

        async def get_workflow_execution_history(self, asked: Any, **options: Any) -> Any:
            if not asked.next_page_token and asked.maximum_page_size != 1:
                found.append(asked.execution.workflow_id)
            return await self._service.get_workflow_execution_history(asked, **options)

    monkeypatch.setattr(Client, "workflow_service", property(lambda self: Counting(original(self))))
    return found


async def test_a_request_reads_the_history_once(desk: Desk, reads: list[str]) -> None:
    agent = Agent[Any](name="Helper")
    await desk.open(agent, model=ScriptedModel(always="Yes."))
    app, run_id = app_of(desk, agent), desk.new_id()
    mine = bearer(TOKENS.mint(run_id))
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app) as http:
        first = body_of(run_id, ("m1", "Hello"))
        await http.post("/agui/Helper", json=first, headers=mine)
        reads.clear()
        second = body_of(run_id, ("m1", "Hello"), ("m2", "Again"))
        answer = await http.post("/agui/Helper", json=second, headers=mine)
        assert written_in(events_in(answer.text)) == "Yes.", answer.text
        # Another reader of this process has read it; nothing is read again.
        assert reads == []
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app_of(desk, agent)) as http:
        answer = await http.post("/agui/Helper", json=second, headers=mine)
        assert events_in(answer.text)[-1]["type"] == "RUN_FINISHED"
        # A new follower looks where the present is, and then reads up to it.
        assert reads == [run_id, run_id]
    assert len((await RunHandle(desk.client, run_id).state()).answers) == 2
