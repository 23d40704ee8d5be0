"""The wires of the Vercel AI SDK and of OpenAI's Responses on a server: who is asked, and who may."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette

from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.client.handle import RunHandle
from outlast.contract.identity import new_shared_key
from outlast.testing import ScriptedModel
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.people import ANN, clerk, refunds
from tests.workflow.test_desk_api import SECONDS, TOKENS, app_of, bearer, opened, scope_of

STAFF = {"Origin": "http://localhost"}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The desk proves who decides."""
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())


def said(text: str, message_id: str = "m1") -> dict[str, Any]:
    """Return a message of the user, as `useChat` sends it."""
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


class Chat:
    """A chat of `useChat`: it sends its messages, and reads the chunks of the answer."""

    def __init__(self, app: Starlette, run_id: str, headers: dict[str, str]) -> None:
        self.chunks: list[Any] = []
        self.status = 0
        self._app, self._run_id = app, run_id
        self._headers = {**headers, "Content-Type": "application/json"}
        self._news = asyncio.Event()

    async def send(self, *messages: Any, agent: str = "Clerk", **more: Any) -> list[Any]:
        """Send the messages, and return all chunks of the answer."""
        self.chunks, body = [], {"id": self._run_id, "messages": messages, **more}
        sent = json.dumps({"trigger": "submit-message", **body}).encode()

        async def receive() -> Any:
            if self.status == 0:
                return {"type": "http.request", "body": sent, "more_body": False}
            return await asyncio.Event().wait()

        self.status = 0
        scope = scope_of("POST", f"/vercel/{agent}", self._headers)
        async with asyncio.timeout(SECONDS):
            await self._app(scope, receive, self._take)
        return self.chunks

    async def _take(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        for line in message.get("body", b"").decode().split("\n"):
            data = line.removeprefix("data: ")
            if data != line and data != "[DONE]":
                self.chunks.append(json.loads(data))
            elif line.startswith("{"):
                self.chunks.append(json.loads(line))
        self._news.set()

    def of(self, kind: str) -> list[Any]:
        """Return the chunks of a type."""
        return [one for one in self.chunks if one.get("type") == kind]

    async def until(self, condition: "Callable[[Chat], object]") -> None:
        """Wait until the chunks satisfy a condition."""
        async with asyncio.timeout(SECONDS):
            while not condition(self):
                self._news.clear()
                await self._news.wait()


async def test_a_customer_reads_the_policys_words_and_nothing_else(desk: Desk):
    policy = ApprovalPolicy(audience="billing", customer_text="A colleague checks this.")
    agent = clerk(policy)
    await desk.open(agent, model=ScriptedModel(refunds(5), "Refunded."))
    run_id = desk.new_id()
    app = app_of(desk, agent)
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app):
        chat = Chat(app, run_id, bearer(TOKENS.mint(run_id)))
        sending = asyncio.create_task(chat.send(said("Refund A-17.")))
        await chat.until(lambda it: any(not one["data"]["works"] for one in it.of("data-outlast")))
        assert chat.of("data-outlast")[-1] == {
            "type": "data-outlast",
            "data": {"works": False, "waitsFor": "A colleague checks this."},
            "transient": True,
        }
        assert {one["type"] for one in chat.chunks} == {"start", "start-step", "data-outlast"}
        await RunHandle(desk.client, run_id).approve("a1", by=ANN)
        chunks = await sending
        assert chunks[-1] == {"type": "finish", "finishReason": "stop"}
        assert "".join(one["delta"] for one in chat.of("text-delta")) == "Refunded."
        assert "refund" not in json.dumps(chunks).replace("Refunded.", "")
        assert {*chat.of("data-outlast")[-1]["data"]} == {"works", "waitsFor"}
