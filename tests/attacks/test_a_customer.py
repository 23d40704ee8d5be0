"""A customer with a token: it opens their conversation, and none that somebody else has later."""

from pathlib import Path
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.client.handle import RunHandle
from outlast.testing import ScriptedModel
from outlast.views.run import loop_state
from tests.attacks.test_a_partner import SHOP, at, everything, keys, path
from tests.unit.serve.test_api import TOKENS, bearer
from tests.workflow.desk import Desk

__all__ = ["keys", "path"]  # fixtures


@pytest.mark.parametrize("owner", [{"tenant": "globex"}, {"tenant": "acme", "customer": "eve"}])
async def test_a_token_opens_no_conversation_of_another_owner_that_has_the_id_later(
    desk: Desk, path: Path, owner: dict[str, Any]
) -> None:
    front = Agent[Any](name="Front")
    await desk.open(
        front, model=ScriptedModel("Hello, Ann.", "Yes?", "Hello.", "Your PIN is 1234.")
    )
    body = {"agent": "Front", "input": "Hello", "id": desk.new_id()}
    anns = {"tenant": "acme", "customer": {"id": "ann"}}
    async with at(desk, path, front) as http:
        begun = await http.post("/api/conversations", json={**body, **anns}, headers=bearer(SHOP))
        handle = RunHandle(desk.client, begun.json()["id"])
        run = f"/api/conversations/{handle.id}"
        await desk.until_status(handle, "idle")
        minted = await http.post(f"{run}/tokens", json={}, headers=bearer(SHOP))
        tokens = (begun.json()["token"], minted.json()["token"])
        for token in tokens:
            assert (await http.get(run, headers=bearer(token))).status_code == 200
        sent = await http.post(f"{run}/messages", json={"text": "Hi"}, headers=bearer(tokens[0]))
        assert sent.status_code in {200, 202}, sent.text
        await desk.until(handle, lambda state: len(state.answers) == 2)
        # Of another conversation, its holder reads the same whether there is one.
        texts = {
            (await http.get(f"/api/conversations/{one}", headers=bearer(tokens[0]))).text
            for one in (await other(desk, front), "nobody-has-this")
        }
        assert len(texts) == 1
        await handle.cancel()
        await desk.settled(handle)
        again = await desk.start(front, id=handle.id, keep_open=True, **owner)
        before = await desk.until_status(again, "idle")
        for method, place, sent_body in everything(handle.id):
            for token in tokens:
                answer = await http.request(method, place, json=sent_body, headers=bearer(token))
                assert answer.status_code in {401, 403, 404}, (method, place, answer.text)
                assert "PIN" not in answer.text
        unbound = TOKENS.mint(handle.id)  # the backend's own: it counts whoever has begun it
        assert (await http.get(run, headers=bearer(unbound))).status_code == 200
    assert loop_state(await again.state()) == before
    await again.cancel()


async def other(desk: Desk, agent: Agent[Any]) -> str:
    handle = await desk.start(agent, keep_open=True, tenant="globex")
    await desk.until(handle, lambda state: bool(state.items))
    return handle.id
