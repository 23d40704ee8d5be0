"""What colleagues do with a conversation in a real browser: a story, by keys and without scripts."""

from datetime import timedelta

import pytest
from playwright.async_api import Page, expect

from outlast import Customer
from outlast.client.handle import RunHandle
from outlast.client.identity import person
from tests.browser.hostile import HOSTILE, marks_on, watch
from tests.browser.stage import ANN, LEE, Stage
from tests.browser.window import (
    DESKTOP,
    PHONE,
    Theme,
    Windows,
    accessibility_faults,
    overflow,
)

ALL = "\n\n".join(HOSTILE)[:9_000]


async def answered(stage: Stage, run_id: str, customer: str = "Anna Lee") -> RunHandle:
    """Start a conversation of a customer, whose question is answered."""
    named = Customer(f"c-{customer}", customer)
    handle = await stage.start_run("Writer", "say Hello.", run_id, customer=named)
    await handle.wait_for_answer("start")
    return handle


async def colleagues(
    windows: Windows, stage: Stage, run_id: str, desk: object = ANN, width: int = DESKTOP
) -> Page:
    """Open what colleagues share of a conversation."""
    window = await windows.open(width)
    await window.goto(f"{stage.url(LEE if desk is LEE else ANN)}/conversations/{run_id}")
    await window.click("label[for=side-team]")
    await expect(window.locator("#case")).to_be_visible()
    return window


async def test_a_day_of_a_conversation(stage: Stage, windows: Windows) -> None:
    handle = await answered(stage, "shared")
    anns = await colleagues(windows, stage, "shared")
    lees = await colleagues(windows, stage, "shared", LEE)
    planted = await watch(lees)
    await expect(anns.locator("h1")).to_have_text("Anna Lee")
    await anns.click("#assign > summary")
    await anns.fill("#assignee", HOSTILE[10])
    await anns.fill("#team", "billing")
    await anns.click("#assign-button")
    await expect(lees.locator("#case")).to_contain_text("onerror=planted()")
    await lees.click("#assign-me")
    await expect(anns.locator("#head")).to_contain_text("lee of billing")

    await anns.fill("#comment-words", f"@lee, look:\n{ALL}")
    await anns.focus("#comment-words")
    await anns.keyboard.press("Control+Enter")
    await expect(anns.locator("#comment-words")).to_have_value("")
    comment = lees.locator("#comments > li")
    await expect(comment.locator(".mention.is-me")).to_have_text("@lee")
    await expect(comment).to_contain_text("<script>planted()</script>")
    await expect(lees.locator("#head")).to_contain_text("mentions you")
    await expect(lees.locator("#view-mentions .view-count")).to_have_text("1")
    assert await marks_on(lees) == planted == []
    assert await accessibility_faults(lees) == []
    customer = await windows.open(PHONE)
    await customer.goto(f"{stage.url()}/chat/open")
    await customer.fill("#token", stage.token("shared"))
    await customer.get_by_role("button", name="Open the conversation").click()
    await expect(customer.locator("#messages")).to_contain_text("Hello.")
    assert "@lee" not in await customer.inner_text("body")
    await lees.fill("#comment-words", "Done.")
    await lees.click("#comment-button")
    await expect(lees.locator("#head")).not_to_contain_text("mentions you")

    await lees.click("#snooze > summary")
    await lees.select_option("#until", "4h")
    await lees.click("#snooze-button")
    await expect(anns.locator("#head")).to_contain_text("snoozed")
    await anns.get_by_role("button", name="Bring back").click()
    await expect(lees.locator("#head")).to_contain_text("waits for the customer")
    await lees.get_by_role("button", name="Resolve").click()
    await expect(anns.locator("#head")).to_contain_text("resolved")
    await customer.get_by_label("Your message").fill("say Thanks.")
    await customer.get_by_role("button", name="Send").click()
    await expect(anns.locator("#head")).to_contain_text("waits for the customer")
    await expect(anns.locator("#talk")).to_contain_text("Thanks.")
    case = (await handle.state()).case
    assert (case.to, case.team, case.resolved_ms, len(case.comments)) == ("lee", "billing", None, 2)


async def test_by_keys_alone(stage: Stage, windows: Windows) -> None:
    handle = await answered(stage, "keys for cases")
    window = await windows.open()
    await window.goto(f"{stage.url()}/conversations/keys%20for%20cases")
    await expect(window.locator("#steps > li").first).to_be_visible()
    await window.keyboard.press("m")
    await window.keyboard.type("From the keyboard.")
    await window.keyboard.press("Control+Enter")
    await expect(window.locator("#comments")).to_contain_text("From the keyboard.")
    await window.keyboard.press("Escape")
    await window.keyboard.press("i")
    await expect(window.locator("#head")).to_contain_text("ann")
    await expect(window.locator("#assign-me")).to_have_count(0)
    await window.keyboard.press("z")
    await expect(window.locator("#until")).to_be_focused()
    await window.keyboard.press("Escape")
    await window.keyboard.press("e")
    await expect(window.locator("#head")).to_contain_text("resolved")
    await window.keyboard.press("e")
    await expect(window.locator("#head")).not_to_contain_text("resolved")
    assert (await handle.state()).case.to == "ann"


async def test_without_scripts(stage: Stage, windows: Windows) -> None:
    handle = await answered(stage, "plain")
    window = await windows.open(java_script_enabled=False)
    await window.goto(f"{stage.url()}/conversations/plain")

    async def colleagues_of_page() -> None:
        await window.click("label[for=side-team]")

    await colleagues_of_page()
    await window.click("#tag > summary")
    await window.fill("#new-tag", "<b>parcel</b>")
    await window.click("#tag-button")
    await colleagues_of_page()
    await expect(window.locator("#case")).to_contain_text("<b>parcel</b>")
    await window.get_by_role("button", name="Take the tag <b>parcel</b> away").click()
    await colleagues_of_page()
    await expect(window.locator("#case")).not_to_contain_text("parcel")
    await window.fill("#comment-words", "Without scripts.")
    await window.click("#comment-button")
    await colleagues_of_page()
    await expect(window.locator("#comments")).to_contain_text("Without scripts.")
    await window.click("#snooze > summary")
    await window.select_option("#until", "")
    await window.fill("#until-at", "2040-01-02T03:04")
    await window.click("#snooze-button")
    await expect(window.locator("#head")).to_contain_text("snoozed")
    assert (await handle.state()).case.snoozed_until_ms == 2209086240000  # in UTC


@pytest.mark.parametrize(
    ("width", "theme"), [(DESKTOP, "light"), (PHONE, "dark"), (DESKTOP, "dark"), (PHONE, "light")]
)
async def test_lists_of_a_person_and_earlier_conversations(
    stage: Stage, windows: Windows, width: int, theme: Theme
) -> None:
    run_id = f"list of {width} {theme}"
    handle = await answered(stage, run_id, run_id)
    await answered(stage, f"before {run_id}", run_id)
    await handle.assign("ann", by=person("lee"), team="billing")
    await handle.tag("parcel", by=person("lee"))
    window = await windows.open(width, theme)
    await window.goto(f"{stage.url()}/conversations?view=mine")
    row = window.locator("#runs [data-row]", has_text=run_id)
    await expect(row).to_contain_text("ann of billing")
    await expect(window.locator("h1")).to_have_text("Mine")
    assert await accessibility_faults(window) == []
    assert await overflow(window) <= 0
    await window.goto(f"{stage.url()}/conversations?customer=c-{run_id}&tag=parcel")
    await expect(window.locator("#runs [data-row]")).to_have_count(1)
    await window.goto(f"{stage.url()}/conversations/{run_id}")
    await window.click("label[for=side-team]")
    await window.locator("#earlier-runs").scroll_into_view_if_needed()
    await expect(window.locator("#earlier-runs .item")).to_have_count(1)
    assert await accessibility_faults(window) == []
    assert await overflow(window) <= 0
    await handle.snooze(timedelta(days=1), by=person("lee"))
