"""What the customer and the team do and see in their windows."""

import re
from urllib.parse import quote

from playwright.async_api import Page, expect

from tests.browser.stage import ANN, Person, Stage


def path(*parts: str) -> str:
    """Return the path of a page."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


async def come_as_customer(page: Page, stage: Stage, run_id: str, url: str = "") -> None:
    """Open the chat with the link that a customer is given."""
    await page.goto(f"{url or stage.url()}/chat/open#{stage.token(run_id)}")
    await page.wait_for_url(f"**{path('chat', 'c', run_id)}")


async def write(page: Page, text: str) -> None:
    """Write to the team or the agent, in the chat."""
    await page.get_by_label("Your message").fill(text)
    await page.get_by_role("button", name="Send").click()


async def open_conversation(page: Page, stage: Stage, run_id: str, who: Person = ANN) -> None:
    """Open the page of a conversation, as somebody of the team."""
    await page.goto(stage.url(who) + path("conversations", run_id))


async def open_request(
    page: Page, stage: Stage, run_id: str, request_id: str, who: Person = ANN
) -> None:
    """Open the page of a request, as somebody of the team."""
    await page.goto(stage.url(who) + path("conversations", run_id, "requests", request_id))


async def take_over(page: Page) -> None:
    """Take a conversation over, on its page."""
    await page.get_by_role("button", name="Take over").click()
    await expect(page.get_by_text("you have it")).to_be_visible()


async def say(page: Page, text: str) -> None:
    """Write to the customer, on the page of a conversation."""
    await page.get_by_label("Your words to the customer").fill(text)
    await page.locator("#say-button").click()


async def give_back(page: Page, note: str) -> None:
    """Give a conversation back to its agent, on its page."""
    await page.locator("#give-back > summary").click()
    await page.get_by_label("Note for the agent").fill(note)
    await page.locator("#release-button").click()
    await expect(page.get_by_role("button", name="Take over")).to_be_visible()


async def chat_texts(page: Page) -> list[str]:
    """Return the texts of the chat, in order, with the one in progress last."""
    texts = await page.locator("#messages .chat-bubble").all_inner_texts()
    progress = page.locator("#progress .chat-bubble")
    if await progress.is_visible():
        texts.append(await progress.inner_text())
    return [_words(text) for text in texts]


async def conversation_texts(page: Page) -> list[str]:
    """Return the texts of a conversation's page, in order, with the one in progress last."""
    texts = await page.locator("#talk .bubble, #draft-text, #tail .bubble").all_inner_texts()
    return [words for text in texts if (words := _words(text))]


async def until_texts(page: Page, texts: list[str]) -> None:
    """Wait until a page has exactly these texts."""
    read = chat_texts if "/chat/" in page.url else conversation_texts
    for _ in range(600):
        if await read(page) == texts:
            return
        await page.wait_for_timeout(50)
    found = await read(page)
    assert found == texts, f"\n{found}\n{texts}"


def _words(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
