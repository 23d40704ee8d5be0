"""The customers' page in a frame of another site: where it is listed it works, and else it is refused."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.async_api import Frame, Page, expect

from outlast.agents.hosts import LOOPBACK, free_port
from tests.browser.people import path, until_texts, write
from tests.browser.stage import Stage
from tests.browser.test_frames import evil_site
from tests.browser.window import (
    DESKTOP,
    PHONE,
    Theme,
    Windows,
    accessibility_faults,
    overflow,
    picture,
)

MARKUP: Final = "Globex <script>document.title='ran'</script> & Co"
LOOK: Final = """
[chat]
name = "{name}"
color = "#0b6e4f"
logo = "logo.svg"
guests = true
embed = ["{origin}"]
[chat.words]
hello = "<img src=x onerror=alert(1)> How can we help?"
your_turn = "It is your turn."
"""
LOGO: Final = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><script>alert(1)</script><circle cx="10" cy="10" r="9"/></svg>'


@asynccontextmanager
async def site(body: str, port: int) -> AsyncGenerator[str]:
    """Serve one page of a site at a port; yield its address, another site than the desk's."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        content = (
            '<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Shop</title>'
            f"<main><h1>Shop</h1>{body}</main></html>"
        ).encode()
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        writer.write(head.encode() + content)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, LOOPBACK, port)
    async with server:
        yield f"http://localhost:{port}/"


class Shop:
    """A desk that a site at another host and port may embed.

    Attributes:
        desk: the address of the desk.
        port: the port of the site.
    """

    def __init__(self, desk: str, port: int) -> None:
        self.desk = desk
        self.port = port

    def script(self, **data: str) -> str:
        """Return the one line of a page that embeds the chat."""
        given = "".join(f' data-{name}="{value}"' for name, value in data.items())
        return f'<script src="{self.desk}/chat/embed.js"{given} async></script>'


@pytest.fixture(scope="module")
async def shop(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    home: Path = tmp_path_factory.mktemp("look")
    port, listens = free_port(), free_port()
    (home / "logo.svg").write_text(LOGO, encoding="utf-8")
    text = LOOK.format(name=MARKUP, origin=f"http://localhost:{port}")
    (home / "look.toml").write_text(text, encoding="utf-8")
    await stage.serve("--port", str(listens), "--as", "ann", "--look", str(home / "look.toml"))
    return Shop(f"http://{LOOPBACK}:{listens}", port)


async def opened(page: Page) -> Frame:
    """Press the button of the chat, and return the frame once it shows a conversation."""
    await page.get_by_role("button", name="Open the chat").click()
    for _ in range(200):
        found = [one for one in page.frames if "/chat/c/" in one.url]
        if found and await found[0].locator("#text").count():
            return found[0]
        await page.wait_for_timeout(50)
    raise AssertionError([one.url for one in page.frames])


@pytest.mark.timeout(120)
async def test_a_guest_chats_in_a_page_of_another_site_and_comes_back(
    shop: Shop, windows: Windows
) -> None:
    page = await windows.open()
    async with site(shop.script(agent="Writer"), shop.port) as address:
        await page.goto(address)
        frame = await opened(page)
        # What the operator writes is text.
        await expect(frame.get_by_role("heading")).to_have_text(MARKUP)
        await expect(frame.locator(".chat-hello")).to_contain_text("<img src=x onerror=alert(1)>")
        assert await frame.title() == MARKUP
        await write(frame, "say Hello!")  # type: ignore[arg-type]  # a frame has what a page has
        await expect(frame.locator("#messages .is-assistant")).to_have_count(1)
        await until_texts(frame, ["say Hello!", "Hello!"])  # type: ignore[arg-type]
        await expect(frame.locator("#messages time")).to_have_count(2)
        await expect(frame.locator(".chat-team")).to_have_count(0)  # nothing of the team
        cookies: list[Any] = [*await page.context.cookies()]
        assert {one["name"] for one in cookies} == {"outlast_conversation", "outlast_guest"}
        assert all(one.get("partitionKey") for one in cookies)
        assert all(one["httpOnly"] and one["secure"] for one in cookies)
        conversation = frame.url
        await page.reload()
        again = await opened(page)
        assert again.url.partition("?")[0] == conversation.partition("?")[0]
        await until_texts(again, ["say Hello!", "Hello!"])  # type: ignore[arg-type]
        assert await page.evaluate("document.title") == "Shop"


@pytest.mark.timeout(120)
async def test_a_token_opens_its_conversation_and_no_other(
    stage: Stage, shop: Shop, windows: Windows
) -> None:
    page = await windows.open(PHONE, "dark")
    await stage.start_run("Writer", "say Mine", "embedded-mine")
    await stage.start_run("Writer", "say Secret", "embedded-other")
    token = stage.token("embedded-mine")
    async with site(shop.script(agent="Writer", token=token), shop.port) as address:
        await page.goto(address)
        frame = await opened(page)
        await until_texts(frame, ["say Mine", "Mine"])  # type: ignore[arg-type]
        assert "oc1." not in frame.url
        other = path("chat", "c", "embedded-other")
        # Without the cookie it is a page of this machine's user, which no site may frame.
        await frame.evaluate("(url) => location.assign(url)", other)
        await page.wait_for_timeout(500)
        texts = [await one.locator("body").inner_text() for one in page.frames[1:]]
        assert not any("Secret" in one for one in texts)
    await windows.take_problems()


@pytest.mark.timeout(120)
async def test_a_site_that_is_not_listed_is_refused(shop: Shop, windows: Windows) -> None:
    page = await windows.open()
    frames = "".join(
        f"<iframe src='{shop.desk}{one}'></iframe>"
        for one in ("/chat/open", "/chat/c/nothing", "/", "/chat/look/logo")
    )
    async with evil_site(frames + shop.script(agent="Writer")) as address:
        await page.goto(address)
        await page.wait_for_timeout(1_000)
        assert await page.get_by_role("button").count() == 0
        for frame in page.frames[1:]:
            assert "refused to connect" in await frame.locator("body").inner_text()
    said = await windows.take_problems()
    assert any("does not list this site" in one for one in said)
    assert any("frame-ancestors" in one for one in said)


@pytest.mark.timeout(120)
async def test_a_listed_site_frames_the_chat_and_nothing_of_the_team(
    stage: Stage, shop: Shop, windows: Windows
) -> None:
    run = await stage.start_run("Triage", "Please refund order A-42, it arrived broken.", "kept")
    request = (await run.wait_for_people()).interruptions[0].request
    page = await windows.open()
    pages = (
        "/",
        path("conversations", "kept"),
        path("conversations", "kept", "requests", request.id),
        path("chat", "c", "kept"),  # here with the rights of this machine's user
        "/chat",
    )
    frames = "".join(f"<iframe src='{shop.desk}{one}'></iframe>" for one in pages)
    async with site(frames, shop.port) as address:
        await page.goto(address)
        await page.wait_for_timeout(1_000)
        for frame in page.frames[1:]:
            assert "refused to connect" in await frame.locator("body").inner_text(), frame.url
    await windows.take_problems()


@pytest.mark.timeout(120)
async def test_messages_of_other_windows_do_nothing(shop: Shop, windows: Windows) -> None:
    page = await windows.open()
    own = "<iframe id='own' srcdoc='its own'></iframe>"
    async with site(own + shop.script(agent="Writer"), shop.port) as address:
        await page.goto(address)
        frame = await opened(page)
        button = page.get_by_role("button")
        await expect(button).to_have_attribute("aria-expanded", "true")
        await expect(frame.locator("#text")).to_be_focused()  # the page has said that it opened
        # A page and a frame of the site itself say that the chat closes, or is refused.
        await page.evaluate(
            """() => {
                for (const outlast of ["close", "refused"]) {
                    postMessage({ outlast }, "*");
                    document.getElementById("own").contentWindow.eval(
                        `parent.postMessage({ outlast: "${outlast}" }, "*")`);
                }
            }"""
        )
        # The frame hears from a window that is not its parent, and from itself.
        await frame.evaluate(
            "() => { window.heard = 0; window.postMessage({ outlast: 'open' }, '*'); document.activeElement.blur(); }"
        )
        await page.wait_for_timeout(300)
        await expect(button).to_have_attribute("aria-expanded", "true")
        assert await frame.evaluate("document.activeElement.tagName") == "BODY"
        # Escape in the frame closes it, and the keyboard is where it was.
        await frame.locator("#text").press("Escape")
        await expect(button).to_have_attribute("aria-expanded", "false")
        await expect(button).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(frame.locator("#text")).to_be_focused()


@pytest.mark.parametrize(("width", "theme"), [(DESKTOP, "light"), (PHONE, "dark")])
@pytest.mark.timeout(120)
async def test_the_chat_in_a_frame_fits_and_has_no_serious_fault(
    shop: Shop, windows: Windows, width: int, theme: Theme
) -> None:
    page = await windows.open(width, theme)
    async with site(shop.script(agent="Writer"), shop.port) as address:
        await page.goto(address)
        frame = await opened(page)
        await write(frame, "say **Hello**")  # type: ignore[arg-type]
        await expect(frame.locator("#messages .is-assistant")).to_have_count(1)
        assert await overflow(page) <= 0
        assert await accessibility_faults(page) == []
        assert await accessibility_faults(frame) == []  # type: ignore[arg-type]
        await picture(page, f"embed-{width}-{theme}")
