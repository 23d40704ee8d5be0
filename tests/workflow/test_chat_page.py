"""The chat on a server: a customer's browser, a real HTTP server, a model that writes slowly."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.blobs import FileBlobStore, large_content
from outlast.client.handle import RunHandle
from outlast.contract.identity import IdentityKeys, new_shared_key, read_keys
from outlast.serve.app import desk as desk_of
from outlast.serve.http_server import serve_desk
from outlast.serve.tokens import ConversationTokens
from outlast.testing import ScriptedModel, paced
from tests.pictures import noise, written
from tests.servers import TemporalServer
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.test_streams import WORDS

A = Agent[Any](name="A")
TOKENS = ConversationTokens(IdentityKeys(read_keys(new_shared_key())), audience="test")
NONCE = "a-page-of-the-test"


@asynccontextmanager
async def browser(desk: Desk, run_id: str, client: Client | None = None) -> AsyncGenerator[Any]:
    """Return the browser of a customer, who has come in with a token."""
    app = desk_of(client or desk.client, agents=[A], task_queue=desk.queue, tokens=TOKENS)
    stop = asyncio.Event()
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve_desk(app, "127.0.0.1", 0, stop, ready.set_result))
    url = f"http://127.0.0.1:{await ready}"
    try:
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            httpx2.AsyncClient(base_url=url, headers={"Origin": url}, timeout=60) as http,
        ):
            opened = await http.post("/chat/open", data={"token": TOKENS.mint(run_id)})
            assert opened.headers["Location"] == f"/chat/c/{run_id}"
            yield http
    finally:
        stop.set()
        await serving


class OpenPage:
    """A page that follows a stream as its script does.

    Attributes:
        messages: the messages, as HTML, by their ids.
        text: the text in progress.
        texts: every text in progress that was shown.
        is_over: whether the stream has said that nothing follows.
    """

    def __init__(self) -> None:
        self.messages: dict[str, str] = {}
        self.text = ""
        self.texts: list[str] = []
        self.is_over = False

    @property
    def words(self) -> list[str]:
        """The words of the messages, in order."""
        return [
            re.sub(r"<time.*?</time>|<[^>]+>|\s+", " ", html).split(":", 1)[-1].strip()
            for html in self.messages.values()
        ]

    def take(self, kind: str, content: Any) -> None:
        """Take an event."""
        match kind:
            case "chat":
                html = self.messages | content["html"]
                self.messages = {name: html[name] for name in content["order"]}
                self._show(content.get("text", self.text))
            case "text":
                self._show(content["text"] if "text" in content else self.text + content["add"])
            case _:
                self.is_over = kind == "end"

    def _show(self, text: str) -> None:
        if text != self.text:
            self.texts.append(text)
        self.text = text
        assert text not in self.words

    async def follow(self, http: Any, run_id: str, until: "Until") -> None:
        """Follow the stream until a condition holds; then the browser goes away."""
        async with http.stream("GET", f"/chat/c/{run_id}/events") as stream:
            assert stream.status_code == 200
            kind = ""
            async for line in stream.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    self.take(kind, json.loads(value))
                    if until(self):
                        return


Until: TypeAlias = Callable[[OpenPage], bool]


async def send(http: Any, run_id: str, text: str, **options: Any) -> Any:
    data = {"nonce": NONCE, "text": text}
    return await http.post(f"/chat/c/{run_id}", data=data, **options)


@pytest.mark.smoke
async def test_each_text_is_shown_once_over_a_reload_in_mid_answer(desk: Desk):
    await desk.open(A, model=ScriptedModel(paced(0.1, WORDS), "Again."))
    run_id = desk.new_id()
    async with browser(desk, run_id) as http:
        for _ in range(2):  # the button was pressed twice
            assert (await send(http, run_id, "Hello")).status_code == 303
        page, other = OpenPage(), OpenPage()
        await page.follow(http, run_id, lambda one: len(one.texts) >= 3)
        assert WORDS.startswith(page.text)
        assert page.text
        # A reload: another page, which begins with what there is; and one that stays open.
        await other.follow(http, run_id, lambda one: len(one.words) == 2)
        assert other.texts[0].startswith(page.text)
        assert (other.words, other.text) == (["Hello", WORDS], "")
        await page.follow(http, run_id, lambda one: len(one.words) == 2)
        assert (page.words, page.text) == (other.words, "")
        shown = (await http.get(f"/chat/c/{run_id}")).text
        assert list(page.messages) == re.findall(r'data-message="([^"]+)"', shown)
        await send(http, run_id, "And again?")
        await page.follow(http, run_id, lambda one: len(one.words) == 4)
        assert page.words == ["Hello", WORDS, "And again?", "Again."]
    state = await RunHandle(desk.client, run_id).state()
    assert [item.kind for item in state.items] == ["input", "message", "input", "message"]


async def test_a_photo_is_in_the_store_and_in_the_page(
    desk: Desk, server: TemporalServer, tmp_path: Path
):
    client = await server.connect()
    large_content(FileBlobStore(tmp_path), client=client)
    await desk.open(A, model=ScriptedModel("A cup."), client=client)
    run_id = desk.new_id()
    photo = written(noise(1_200, 900), "PNG")
    async with browser(desk, run_id, client) as http:
        files = [("files", ("cup.png", photo, "image/png"))]
        assert (await send(http, run_id, "What is it?", files=files)).status_code == 303
        page = OpenPage()
        await page.follow(http, run_id, lambda one: len(one.words) == 2)
        assert page.words[1] == "A cup."
        (address,) = set(re.findall(r'src="([^"]+)"', "".join(page.messages.values())))
        shown = await http.get(address)
        assert (shown.content, shown.headers["Content-Type"]) == (photo, "image/png")
    assert photo_is_stored(tmp_path)


def photo_is_stored(place: Path) -> bool:
    return any(one.stat().st_size > 3_000_000 for one in place.rglob("*"))
