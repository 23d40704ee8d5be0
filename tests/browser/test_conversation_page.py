"""The page of a conversation in a real browser: live text, kills, takeovers, keys alone."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Page, expect

from outlast.client.handle import RunHandle
from outlast.views.run import loop_state
from tests.browser.model import counted
from tests.browser.stage import ANN, LEE, Stage
from tests.browser.window import PHONE, Windows, accessibility_faults

NUMBERS = 150
"""How far the model counts: at its pace, about six seconds."""


async def open_conversation(
    stage: Stage, windows: Windows, run_id: str, *, person: object = ANN, width: int = 1280
) -> Page:
    """Open the page of a conversation, and wait until it is live."""
    window = await windows.open(width)
    desk = LEE if person is LEE else ANN
    await window.goto(f"{stage.url(desk)}/conversations/{run_id}")
    await expect(window.locator("#steps > li").first).to_be_attached()
    return window


async def ready(stage: Stage, run_id: str) -> RunHandle:
    """Start a conversation that anybody may take over, and wait for its first answer."""
    handle = await stage.start_run("Writer", "say Hello.", run_id)
    await handle.wait_for_answer("start")
    return handle


async def shown_text(window: Page) -> str:
    """Return all the words of the customer's side."""
    words: str = await window.evaluate(
        "() => [...document.querySelectorAll('#talk .bubble, #draft-text')]"
        ".map(one => one.textContent).join(' ')"
    )
    return " ".join(words.split())


async def watch_until_answered(window: Page, answered: Awaitable[object]) -> list[str]:
    """Return all that the page showed until a question was answered."""
    seen: list[str] = []
    task = asyncio.ensure_future(answered)
    while not task.done():
        seen.append(await shown_text(window))
        await asyncio.sleep(0.05)
    await task
    return seen


def numbers(text: str) -> list[str]:
    return [one for one in text.split() if one.startswith("n") and one[1:].isdecimal()]


async def _kill_serve(stage: Stage) -> None:
    await stage.kill_serve(ANN)


async def _kill_worker(stage: Stage) -> None:
    await stage.kill_worker()


@pytest.mark.parametrize("kill", [_kill_serve, _kill_worker], ids=["serve", "worker"])
async def test_a_text_is_shown_once_though_a_process_is_killed_in_mid_answer(
    killed_stage: Stage, windows: Windows, kill: Callable[[Stage], Awaitable[None]]
) -> None:
    windows.may_lose_server = True
    handle = await ready(killed_stage, "killed")
    window = await open_conversation(killed_stage, windows, "killed")
    message = await handle.send(f"count to {NUMBERS}", stream=True)
    await expect(window.locator("#draft-text")).to_contain_text("n10 ", timeout=20_000)
    watching = asyncio.create_task(watch_until_answered(window, message.answer()))
    await kill(killed_stage)
    seen = await watching
    whole = counted(NUMBERS).split()
    for text in seen:
        found = numbers(text)
        assert found == whole[: len(found)], "a text was shown twice, or a part of it is missing"
    answer = window.locator("#talk .said.is-assistant").last
    await expect(answer).to_contain_text(f"n{NUMBERS}", timeout=20_000)
    await expect(window.locator("#draft-text")).to_be_empty()
    assert numbers(await shown_text(window)) == whole
    # That is how htmx reports a lost stream.
    windows.problems[:] = [one for one in windows.problems if not one.endswith("[object Event]")]


async def test_taking_over_by_keys_alone_while_the_customer_writes(
    stage: Stage, windows: Windows
) -> None:
    handle = await ready(stage, "by keys")
    window = await open_conversation(stage, windows, "by%20keys")
    await window.keyboard.press("t")
    await expect(window.locator("#head")).to_contain_text("you have it")
    await window.keyboard.press("w")
    await window.keyboard.type("Hello, this is ")
    for number in range(3):
        await handle.send(f"customer {number}")
        await expect(window.locator("#talk")).to_contain_text(f"customer {number}")
    await window.keyboard.type("Ann.")
    assert await window.input_value("#words") == "Hello, this is Ann."
    await window.keyboard.press("Control+Enter")
    await expect(window.locator("#talk .is-colleague")).to_contain_text("Hello, this is Ann.")
    await expect(window.locator("#words")).to_have_value("")
    assert await window.evaluate("document.activeElement.id") == "words"
    await window.keyboard.press("Escape")
    await window.keyboard.press("b")
    await window.keyboard.press("Tab")
    await window.keyboard.type("Nothing is left to do.")
    await window.keyboard.press("Tab")
    await window.keyboard.press("Enter")
    await expect(window.locator("#head")).not_to_contain_text("you have it")
    await expect(window.locator("#steps")).to_contain_text("Nothing is left to do.")
    assert (await handle.state()).hold is None


async def test_two_people_see_who_has_it_and_neither_loses_a_draft(
    stage: Stage, windows: Windows
) -> None:
    await ready(stage, "for two")
    anns = await open_conversation(stage, windows, "for%20two")
    lees = await open_conversation(stage, windows, "for%20two", person=LEE)
    await lees.fill("#words", "Lee was about to write this.")
    await anns.click("#hold-button")
    await expect(lees.locator("#head")).to_contain_text("ann has it")
    await expect(lees.locator("#announcement")).to_contain_text("ann has the conversation now.")
    await expect(lees.locator("#say-act")).to_contain_text("ann has the conversation.")
    assert await lees.input_value("#words") == "Lee was about to write this."
    await lees.click("#hold-button")
    await expect(lees.locator("#question")).to_contain_text("ann has the conversation.")
    await lees.get_by_role("button", name="Cancel").click()
    await expect(lees.locator("#head")).to_contain_text("ann has it")
    await lees.click("#hold-button")
    await lees.get_by_role("button", name="Take it", exact=True).click()
    await expect(lees.locator("#head")).to_contain_text("you have it")
    await expect(anns.locator("#head")).to_contain_text("lee has it")
    await lees.focus("#words")
    await lees.keyboard.press("Control+Enter")
    await expect(anns.locator("#talk")).to_contain_text("Lee was about to write this.")


async def test_payloads_open_by_keys(stage: Stage, windows: Windows) -> None:
    handle = await stage.start_run(
        "Triage", "Please refund order A-42, it arrived broken.", "payloads"
    )
    await handle.wait_for_people()
    window = await open_conversation(stage, windows, "payloads")
    await expect(window.locator("#deciding")).to_contain_text("refund_order")
    for _ in range(2):
        await window.keyboard.press("j")
    await window.keyboard.press("Enter")
    await expect(window.locator("#steps details[open] .payload pre").first).to_be_visible()
    assert "A-42" in await window.inner_text("#steps")


async def test_a_long_conversation_shows_earlier_entries_and_stays_where_it_is(
    stage: Stage, windows: Windows
) -> None:
    handle = await ready(stage, "long")
    for number in range(40):
        await (await handle.send(f"say {number}", stream=True)).answer()
    window = await open_conversation(stage, windows, "long")
    await expect(window.locator("#talk > li.said")).to_have_count(50)
    link = window.locator("#earlier-talk a")
    await link.scroll_into_view_if_needed()
    first = window.locator("#talk > li.said").first
    before = await first.bounding_box()
    await link.click()
    await expect(window.locator("#earlier-talk .said")).to_have_count(32)
    assert before is not None
    await window.wait_for_function(  # the place is set right after the new entries are there
        "y => Math.abs(document.querySelector('#talk > li.said').getBoundingClientRect().y - y) < 3",
        arg=before["y"],
    )
    await (await handle.send("say more", stream=True)).answer()
    await expect(window.locator("#talk > li.said")).to_have_count(52)
    await expect(window.locator("#earlier-talk .said")).to_have_count(32)
    # A link to a step leads there, also if the page shows another part.
    await window.goto("about:blank")
    await window.goto(f"{stage.url()}/conversations/long#step-9")
    await expect(window.locator("#step-9")).to_be_in_viewport()
    chat = await windows.open(PHONE)
    await chat.goto(f"{stage.url()}/chat/c/long")
    await expect(chat.locator("#messages > li")).to_have_count(50)
    await chat.locator("#earlier a").click()
    await expect(chat.locator("#earlier .chat-message")).to_have_count(34)
    await expect(chat.locator("#earlier a")).to_have_count(0)


async def test_on_a_phone_the_composer_stays_reachable(stage: Stage, windows: Windows) -> None:
    handle = await ready(stage, "phone")
    window = await open_conversation(stage, windows, "phone", width=PHONE)
    for number in range(12):
        await (await handle.send(f"say {number} and many more words for a long talk")).answer()
    await expect(window.locator("#words")).to_be_in_viewport()
    await expect(window.locator("#talk .said").last).to_be_in_viewport()
    await window.click("label[for=side-run]")
    await expect(window.locator("#words")).to_be_hidden()
    await expect(window.locator("#steps > li").last).to_be_in_viewport()


async def test_the_list_is_live_and_used_by_keys(stage: Stage, windows: Windows) -> None:
    await ready(stage, "list one")
    window = await windows.open()
    await window.goto(f"{stage.url()}/conversations?starts=list")
    await expect(window.locator("#runs")).to_contain_text("list one", timeout=20_000)
    await ready(stage, "list two")
    await expect(window.locator("#runs")).to_contain_text("list two", timeout=20_000)
    await window.keyboard.press("j")
    await window.keyboard.press("Enter")
    await expect(window).to_have_url(f"{stage.url()}/conversations/list%20two")


@pytest.mark.parametrize("has_scripts", [True, False])
async def test_an_item_is_left_out_for_the_model_and_read_again(
    stage: Stage, windows: Windows, has_scripts: bool
) -> None:
    handle = await ready(stage, f"left out {has_scripts}")
    window = await windows.open(java_script_enabled=has_scripts)
    await window.goto(f"{stage.url()}/conversations/{handle.id}")
    customer = await windows.open(PHONE)
    await customer.goto(f"{stage.url()}/chat/open")
    await customer.fill("#token", stage.token(handle.id))
    await customer.get_by_role("button", name="Open the conversation").click()
    note = customer.get_by_text("The assistant could not read this message.")
    await expect(customer.locator("#messages")).to_contain_text("Hello.")
    await expect(note).to_have_count(0)
    question = window.locator("#talk .said.is-customer").first

    await question.get_by_role("button", name="Leave out for the model").click()

    await expect(question).to_contain_text("Left out for the model ann set it aside.")
    await expect(note).to_be_visible()
    again = question.get_by_role("button", name="Let the model read it again")
    if has_scripts:
        await expect(again).to_be_focused()
        assert await accessibility_faults(window) == []
    await again.click()
    await expect(question).not_to_contain_text("ann set it aside")
    await expect(note).to_have_count(0)
    assert (loop_state(await handle.state())).aside == ()
