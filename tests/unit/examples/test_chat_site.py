"""The shop with a chat: a customer logs in, and gets a conversation of their own."""

import httpx2
import pytest
from chat_site import app
from temporalio.client import Client

from outlast.worker import AgentWorker
from tests.servers import TemporalServer


async def test_a_customer_logs_in_and_chats(
    server: TemporalServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    del server
    monkeypatch.setenv("OUTLAST_CONVERSATION_KEY", "VGhpcyBrZXkgaXMgZm9yIGFuIGV4YW1wbGUgb25seSE=")
    transport = httpx2.ASGITransport(app.site(client), client=("127.0.0.1", 5000))
    headers = {"Origin": app.SITE}
    async with (
        AgentWorker(client, agents=[app.shop], task_queue=app.QUEUE),
        httpx2.AsyncClient(transport=transport, base_url=app.SITE, headers=headers) as http,
    ):
        assert "Log in" in (await http.get("/")).text
        assert (await http.get("/help")).headers["Location"] == "/"
        await http.post("/login", data={"name": "<b>Mara</b>"})
        assert "Hello, &lt;b&gt;Mara" in (await http.get("/")).text
        door, _, token = (await http.get("/help")).headers["Location"].partition("#")
        opened = await http.post(door, data={"token": token})
        page = opened.headers["Location"]
        assert page == f"/desk/chat/c/{app.conversations['<b>Mara</b>']}"
        sent = await http.post(page, data={"text": "Where is it?", "nonce": "number-of-page"})
        assert sent.status_code == 303
        text = ""
        while "A-42</strong>" not in text:
            text = (await http.get(page)).text
        assert "Where is it?" in text
