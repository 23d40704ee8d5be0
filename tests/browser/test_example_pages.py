"""The example pages with npm clients, as their READMEs build and run them, in a browser."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page, expect

from outlast.agents.hosts import free_port
from outlast.testing.demo.processes import Child
from tests.browser.stage import ROOT
from tests.browser.window import Windows

EXAMPLES = ROOT / "examples"
ANSWER = " ".join(f"Word {number}." for number in range(1, 41))
PATIENCE_SECONDS = 30
REFUND = "40 euros for A-17"


async def until_it_listens(port: int) -> None:
    """Wait until a server takes connections."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


@asynccontextmanager
async def site_of(example: str, home: Path) -> AsyncGenerator[str]:
    """Build a page, run its site, and yield the address."""
    building = await asyncio.create_subprocess_exec("npm", "run", "build", cwd=EXAMPLES / example)
    assert await building.wait() == 0
    port = free_port()
    paths = os.pathsep.join([str(ROOT), str(EXAMPLES)])
    environment = {"PORT": str(port), "PYTHONPATH": paths}
    site = await Child.start(
        f"{example}.site", [f"{example}.site"], home=home, environment=environment
    )
    try:
        assert str(port) in await site.first_line()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await until_it_listens(port)  # it prints its address a moment before
        yield f"http://127.0.0.1:{port}"
    finally:
        await site.kill()


async def write(page: Page, text: str) -> None:
    await page.get_by_label("Your message").fill(text)
    await page.get_by_role("button", name="Send").click()


async def texts(page: Page) -> list[str]:
    """Return what the chat shows, a text for each message."""
    return [one.strip() for one in await page.locator("#log > li").all_inner_texts()]


async def reload_in_mid_answer(page: Page) -> None:
    """Ask, reload while the answer is written, and see each text once."""
    await write(page, "Hello")
    log = page.locator("#log")
    await expect(log).to_contain_text("Word 6.")
    await page.reload()
    await expect(log).to_contain_text("Word 12.")
    await expect(log).not_to_contain_text("Word 40.")
    await expect(log.locator("li").last).to_have_text(ANSWER)
    assert await texts(page) == ["Hello", ANSWER]
    await page.reload()
    await expect(log.locator("li")).to_have_count(2)
    assert await texts(page) == ["Hello", ANSWER]


async def test_a_page_with_use_chat(windows: Windows, tmp_path: Path) -> None:
    async with site_of("vercel_chat", tmp_path) as url:
        page = await windows.open()
        await page.goto(url)
        await reload_in_mid_answer(page)
        await write(page, "refund, please")
        call = page.locator(".call")
        await expect(call).to_contain_text('refund({"order":"A-17","euros":40})')
        await page.reload()
        await call.get_by_role("button", name="Approve").click()
        await expect(page.locator("#log > li").last).to_contain_text(f"The tool said: {REFUND}")
        await expect(call).to_contain_text("done")
        assert len(await texts(page)) == 4
        await write(page, "refund, please")
        await call.last.get_by_role("button", name="Reject").click()
        await expect(call.last).to_contain_text("rejected")
        assert windows.problems == []
        # Without the desk, the page says so, and stays as it was.
        windows.may_lose_server = True
        await page.route("**/desk/**", lambda route: route.abort())
        await write(page, "Hello again")
        await expect(page.get_by_role("alert")).to_be_visible()
        await expect(page.locator("#log > li").last).to_have_text("Hello again")


async def test_a_page_with_the_client_of_ag_ui(windows: Windows, tmp_path: Path) -> None:
    async with site_of("agui_chat", tmp_path) as url:
        page, desk = await windows.open(), await windows.open()
        await page.goto(url)
        await reload_in_mid_answer(page)
        await write(page, "refund, please")
        await expect(page.locator("#note")).to_have_text("A colleague looks at your refund.")
        await desk.goto(f"{url}/desk/inbox")
        await desk.locator(".one-request", has_text="order").locator("a.call").click()
        await desk.get_by_role("button", name="Approve").click()
        await expect(page.locator("#log > li").last).to_have_text(f"You get {REFUND}.")
        await expect(page.locator("#note")).to_be_empty()
        assert (await texts(page))[2:] == ["refund, please", f"You get {REFUND}."]
        # Words that arrive while the stream of an earlier request is open are there once, too.
        await write(page, "Hello")
        await expect(page.locator("#log > li").last).to_have_text(ANSWER)
        assert (await texts(page))[4:] == ["Hello", ANSWER]
        assert windows.problems == []
        await windows.close()  # before the site ends, which its page would report
