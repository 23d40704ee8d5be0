"""The chat in a browser: hostile words, reload and back in mid-answer, several tabs, no scripts."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.browser.model import counted
from tests.browser.people import come_as_customer, until_texts, write
from tests.browser.stage import Stage
from tests.browser.window import PHONE, Windows
from tests.pictures import PNG

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "[a](javascript:alert(1)) ![b](https://evil.example/x.png)",
    "&lt;svg onload=alert(1)&gt; {{7*7}}",
]


@pytest.mark.timeout(90)
async def test_hostile_words_do_nothing_in_a_chat(stage: Stage, windows: Windows) -> None:
    page = await windows.open()
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await stage.start_run("Writer", f"say {HOSTILE[0]}", "hostile")
    await come_as_customer(page, stage, "hostile")
    bubbles = page.locator("#messages .chat-bubble")
    await expect(bubbles).to_have_count(2)
    for count, text in enumerate(HOSTILE[1:], start=2):
        await write(page, f"say {text}")
        await expect(bubbles).to_have_count(2 * count)
    assert await page.locator("#messages img, #messages script, #messages svg").count() == 0
    links = await page.locator("#messages a").evaluate_all("all => all.map(one => one.href)")
    assert not [one for one in links if one.startswith("javascript")]
    assert dialogs == []
    assert not [one for one in asked if "evil.example" in one]
    assert "oc1." not in page.url
    assert await page.evaluate("document.cookie") == ""


@pytest.mark.timeout(90)
async def test_reload_back_and_a_second_tab_show_each_text_once(
    stage: Stage, windows: Windows
) -> None:
    page = await windows.open()
    await stage.start_run("Writer", "say Hello!", "tabs")
    await come_as_customer(page, stage, "tabs")
    await until_texts(page, ["say Hello!", "Hello!"])
    await write(page, "count to 120")
    await _writes(page, "n5 ")
    tab = await page.context.new_page()
    await tab.goto(page.url)
    await _writes(tab, "n9 ")
    await page.reload()
    await _writes(page, "n20 ")
    await page.goto("about:blank")
    await page.go_back()
    texts = ["say Hello!", "Hello!", "count to 120", counted(120)]
    await until_texts(page, texts)
    await until_texts(tab, texts)
    await expect(page.locator("#progress")).to_be_hidden()


@pytest.mark.timeout(90)
async def test_the_chat_works_without_scripts(
    stage: Stage, windows: Windows, tmp_path: Path
) -> None:
    page = await windows.open(PHONE, java_script_enabled=False)
    await page.goto(f"{stage.url()}/chat/open?agent=Writer")
    await page.get_by_label("Code").fill(stage.token("plain-chat"))
    await page.get_by_role("button", name="Open the conversation").click()
    photo = tmp_path / "cup.png"
    photo.write_bytes(PNG)
    await page.locator("#files").set_input_files(photo)
    await page.locator("#text").fill("say Hello!")
    await page.get_by_role("button", name="Send").click()
    await expect(page).to_have_url(re.compile(r"/chat/c/plain-chat$"))
    answer = page.locator("#messages .is-assistant")
    while not await answer.count():
        await page.reload()
    await expect(page.locator("#messages img")).to_have_count(1)
    await expect(answer).to_contain_text("Hello!")


async def _writes(page: Page, text: str) -> None:
    await expect(page.locator("#progress")).to_contain_text(text)
