"""A page of somebody else before the desk: frames, windows, forms, and files that customers sent."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import expect

from outlast.agents.hosts import LOOPBACK
from tests.browser.people import come_as_customer, path
from tests.browser.stage import Stage
from tests.browser.window import Windows
from tests.pictures import PNG

SCRIPT = b"<script>document.title = 'ran'</script>"
FILES = {
    # The name of a file, its content, and whether it can be sent.
    "a.svg": (b"<svg xmlns='http://www.w3.org/2000/svg'>" + SCRIPT + b"</svg>", False),
    "b.html": (b"<!doctype html>" + SCRIPT, False),
    "c.png": (PNG + SCRIPT, True),
    "d.txt": (b"<!doctype html>" + SCRIPT, True),
    "e.json": (b"<html>" + SCRIPT, True),
    "f.pdf": (b"%PDF-1.4\n<html>" + SCRIPT, True),
}


@asynccontextmanager
async def evil_site(body: str) -> AsyncGenerator[str]:
    """Serve one page of another site; yield its address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        content = f"<!doctype html><title>evil</title>{body}".encode()
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        writer.write(head.encode() + content)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, LOOPBACK, 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://localhost:{port}/"  # another site than that of the desk, at 127.0.0.1


@pytest.mark.timeout(90)
async def test_no_page_shows_in_a_frame_of_another_site(stage: Stage, windows: Windows) -> None:
    run = await stage.start_run("Triage", "Please refund order A-42, it arrived broken.", "framed")
    request = (await run.wait_for_people()).interruptions[0].request
    page = await windows.open()
    await come_as_customer(page, stage, "framed")  # so that the cookie of the chat is there
    pages = [
        "/",
        path("conversations", "framed"),
        path("conversations", "framed", "requests", request.id),
        path("chat", "c", "framed"),
        "/chat/open",
        "/nothing",
        "/health",
    ]
    tags = "".join(
        f"<iframe src='{url}'></iframe><object data='{url}'></object><embed src='{url}'>"
        for url in (stage.url() + one for one in pages)
    )
    async with evil_site(f"<iframe srcdoc='its own'></iframe>{tags}") as evil:
        await page.goto(evil)
        await page.wait_for_timeout(1_000)
        shown = [
            text
            for frame in page.frames[1:]
            if (text := await frame.locator("body").inner_text(timeout=5_000)).strip()
            and "refused to connect" not in text
        ]
        assert len(page.frames) > len(pages)
        assert shown == ["its own"]
    await windows.take_problems()


@pytest.mark.timeout(90)
async def test_a_page_of_another_site_reads_and_changes_nothing(
    stage: Stage, windows: Windows
) -> None:
    run = await stage.start_run("Triage", "Please refund order A-42, it arrived broken.", "posted")
    request = (await run.wait_for_people()).interruptions[0].request
    page = await windows.open()
    await come_as_customer(page, stage, "posted")
    address = stage.url() + path("conversations", "posted", "requests", request.id)
    async with evil_site("") as evil:
        await page.goto(evil)
        found = await page.evaluate(
            """async ([address, icon]) => {
                const opened = window.open(address);
                const read = await fetch(address, {credentials: "include"}).then(() => "read", () => "no");
                const image = await new Promise(done => {
                    const one = new Image();
                    one.onload = () => done("shown");
                    one.onerror = () => done("no");
                    one.src = icon;
                });
                await new Promise(done => setTimeout(done, 1000));
                let seen = "no";
                try { if (opened.document.body.innerText) seen = "seen"; } catch (error) {}
                return [read, image, seen, opened.closed];
            }""",
            [address, stage.url() + "/static/1/icon.svg"],
        )
        assert found == ["no", "no", "no", True]  # the window is cut off from its opener
        async with page.expect_navigation():
            await page.evaluate(
                """address => {
                    document.body.innerHTML = `<form method=post action="${address}/approve"></form>`;
                    document.forms[0].submit();
                }""",
                address,
            )
    assert (await run.wait_for_people()).interruptions[0].request.id == request.id
    await windows.take_problems()


@pytest.mark.timeout(90)
async def test_what_a_customer_sends_runs_nowhere(
    stage: Stage, windows: Windows, tmp_path: Path
) -> None:
    page = await windows.open()
    await stage.start_run("Writer", "say Hello!", "files")
    await come_as_customer(page, stage, "files")
    for name, (content, is_taken) in FILES.items():
        file = tmp_path / name
        file.write_bytes(content)
        await page.locator("#files").set_input_files(file)
        await page.get_by_role("button", name="Send").click()
        if is_taken:
            await expect(page.locator("#messages a[href*='/files/']").last).to_be_attached()
        await page.wait_for_timeout(300)
        await page.reload()
    addresses = await page.locator(
        "#messages [href*='/files/'], #messages [src*='/files/']"
    ).evaluate_all("all => [...new Set(all.map(one => one.href || one.src))]")
    kinds: list[str] = []
    for address in addresses:
        answer = await page.request.get(address)
        headers = answer.headers
        kinds.append(headers["content-type"].partition(";")[0])
        assert headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in headers["content-security-policy"]
        assert headers["cross-origin-resource-policy"] == "same-origin"
        is_picture = headers["content-type"] == "image/png"
        assert is_picture or headers["content-disposition"] == "attachment"
    assert sorted(set(kinds)) == ["application/octet-stream", "image/png"]
    picture = addresses[kinds.index("image/png")]
    await page.goto(picture)
    assert await page.title() != "ran"
    await windows.take_problems()
