"""The site of the guide to a chat, served by Uvicorn: a customer, a restart, and a person who takes over."""

import asyncio
import re
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

import httpx2
import pytest
import uvicorn

from outlast.models.openai.provider import OpenAIProvider
from outlast.testing import ScriptedModel
from tests.pictures import PNG
from tests.servers import TemporalServer

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "web-chat.md"
PATIENCE_SECONDS = 60


def load_site(name: str, url: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the program of the page as the process that serves this address does."""
    [code] = re.findall(
        r'^```py title="site.py"\n(.*?)^```$', PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    monkeypatch.setenv("SITE", url)
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(code, "site.py", "exec"), module.__dict__)
    return module


@asynccontextmanager
async def serving(module: ModuleType, listening: socket.socket) -> AsyncGenerator[None]:
    module.__dict__["QUEUE"] = f"site-{listening.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(module.app, log_level="warning"))
    task = asyncio.create_task(server.serve(sockets=[listening.dup()]))
    while not server.started:
        assert not task.done(), task.result()
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        await task


async def shown(http: httpx2.AsyncClient, page: str, words: str) -> str:
    """Return the page as soon as it has these words."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        text = ""
        while words not in text:
            text = (await http.get(page)).text
    return text


async def test_a_customer_chats_over_a_restart_and_with_a_colleague(
    server: TemporalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", server.namespace)
    monkeypatch.setenv("TEAM_PROXY", "127.0.0.1")
    monkeypatch.setenv("OUTLAST_CONVERSATION_KEY", "VGhpcyBrZXkgaXMgZm9yIGEgdGVzdCBvbmx5ISEhISE=")
    model = ScriptedModel("It ships **today**.", "A cup.")
    monkeypatch.setattr(OpenAIProvider, "get_model", staticmethod(model.get_model))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        site = load_site("web_chat_one", url, monkeypatch)

        def browser(**headers: str) -> httpx2.AsyncClient:
            headers = {"Origin": url, **headers}
            return httpx2.AsyncClient(base_url=url, headers=headers, timeout=60)

        as_ann = {"X-Forwarded-User": "ann", "X-Forwarded-Groups": "support"}

        async with browser() as mara, browser() as eve, browser(**as_ann) as colleague:
            async with serving(site, listening):
                assert (await mara.get("/help")).headers["Location"] == "/"
                await mara.post("/login", data={"name": "<b>Mara</b>"})
                await eve.post("/login", data={"name": "Eve"})
                assert "Hello, &lt;b&gt;Mara" in (await mara.get("/")).text
                pages: list[str] = []
                for customer in (mara, eve):
                    door, _, token = (
                        (await customer.get("/help")).headers["Location"].partition("#")
                    )
                    opened = await customer.post(door, data={"token": token})
                    pages.append(opened.headers["Location"])
                page, hers = pages
                sent = await mara.post(
                    page, data={"text": "Where is it?", "nonce": "number-of-a-page"}
                )
                assert sent.status_code == 303
                before = await shown(mara, page, "It ships <strong>today</strong>.")
                assert "Where is it?" not in (await eve.get(page)).text
                assert "Where is it?" not in (await eve.get(hers)).text

            again = load_site("web_chat_two", url, monkeypatch)
            async with serving(again, listening):  # another process, with nothing in memory
                after = await shown(mara, page, "It ships <strong>today</strong>.")
                messages = r'data-message="([^"]+)"'
                assert re.findall(messages, after) == re.findall(messages, before)
                files = [("files", ("cup.png", PNG, "image/png"))]
                data = {"text": "And this?", "nonce": "number-of-another"}
                await mara.post(page, data=data, files=files)
                with_photo = await shown(mara, page, "A cup.")
                [address] = set(re.findall(r'<img[^>]+src="([^"]+)"', with_photo))
                assert (await mara.get(address)).content == PNG

                run = f"/desk/api/conversations/{page.rpartition('/')[2]}"
                assert (await colleague.post(f"{run}/hold", json={})).status_code == 200
                await mara.post(
                    page, data={"text": "A person, please.", "nonce": "number-of-a-third"}
                )
                assert (await colleague.post(f"{run}/say", json={"text": "I am one."})).is_success
                await shown(mara, page, "I am one.")
                assert (await colleague.post(f"{run}/release", json={})).is_success
                assert (await colleague.post(f"{run}/cancel", json={})).is_success
