"""Search in a real browser: a promise of an archived conversation is found, and opens where it was made."""

from pathlib import Path

from playwright.async_api import expect

from outlast.archive import Archive, use_archive
from outlast.client.deletion import Deletion
from outlast.client.search import search_conversations
from outlast.search import open_index
from outlast.testing.demo.processes import Child
from tests.browser.stage import ANN, Stage
from tests.browser.window import PHONE, Windows, accessibility_faults
from tests.workflow.test_archive import swept, taken_by_retention, until

HOSTILE = "<img src=x onerror=document.title='ran'> <b>promise</b> \u202e"


async def test_a_promise_of_an_archived_conversation_is_found_by_keys(
    tmp_path: Path, windows: Windows
) -> None:
    index, archive = open_index(tmp_path / "search.db"), Archive(tmp_path / "archive")
    variables = {
        "OUTLAST_SEARCH_INDEX": str(tmp_path / "search.db"),
        "OUTLAST_ARCHIVE": str(tmp_path / "archive"),
    }
    async with Stage(tmp_path, people=(ANN,), environment=variables) as stage:
        window = await windows.open()
        await window.goto(f"{stage.url()}/inbox")
        await window.keyboard.press("g")
        await window.keyboard.press("s")
        await expect(window.get_by_text("There is no index at")).to_be_visible()

        role: Child = await stage.role("search", "run")
        talk = await stage.start_run(
            "Writer", f"say {HOSTILE} of a wombat", "may-42", keep_open=False, customer="Ann Öztürk"
        )
        await talk.result()
        use_archive(stage.client, archive)
        entries = await swept(archive, talk)
        await until(lambda: search_conversations(stage.client, index, "wombat"))
        await taken_by_retention(stage.client, entries)
        await role.kill()  # the desk finds without it

        await window.reload()
        await window.get_by_role("searchbox").fill('promise "a wombat"')
        await window.keyboard.press("Enter")
        hit = window.locator(".found .hit")
        await expect(hit).to_have_count(1)
        await expect(hit.locator("mark").first).to_have_text("promise")
        await expect(hit).to_contain_text("Ann Öztürk")
        await expect(hit).to_contain_text("<img src=x")
        assert await window.title() == "Search · outlast"
        assert await window.locator("main img, main b b").count() == 0
        assert await accessibility_faults(window) == []
        await window.keyboard.press("Escape")
        await window.keyboard.press("j")
        await window.keyboard.press("Enter")
        await expect(window).to_have_url(f"{stage.url()}/conversations/may-42?message=1")
        await expect(window.locator("#talk")).to_contain_text("of a wombat")

        phone = await windows.open(PHONE, "dark")
        await phone.goto(f"{stage.url()}/search?q=wombat")
        await expect(phone.locator(".found mark").first).to_have_text("wombat")
        assert await accessibility_faults(phone) == []

        await Deletion(stage.client, archive, by="dpo", search=index).delete_run("may-42")
        await phone.reload()
        await expect(phone.get_by_text("Nothing found")).to_be_visible()
