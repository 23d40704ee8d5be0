"""The inbox as a support lead has it open: dense, in words, and for many decisions a day."""

import json
import re

import pytest
from playwright.async_api import Page, expect

from outlast.client.identity import person
from tests.browser.people import open_request
from tests.browser.stage import ANN, Stage
from tests.browser.window import DESKTOP, Windows, accessibility_faults

COUNT = 12
"""How many requests a support lead sees at once on a desktop."""


async def letters(stage: Stage, name: str, count: int) -> list[str]:
    """Start conversations that wait for a person; return their ids."""
    handles = [
        await stage.start_run(
            "Writer",
            f"call refund {json.dumps({'amount': 5 + at, 'customer': f'{name} {at}'})}",
            f"{name}-{at}",
            customer=f"{name} {at}",
        )
        for at in range(count)
    ]
    for handle in handles:
        await handle.wait_for_people()
    return [one.id for one in handles]


async def seen_rows(page: Page) -> int:
    """Return how many rows are wholly in the window."""
    rows: int = await page.evaluate(
        "() => [...document.querySelectorAll('.inbox-row')].filter("
        "row => row.getBoundingClientRect().bottom <= innerHeight).length"
    )
    return rows


async def test_twelve_requests_are_seen_at_once(stage: Stage, windows: Windows) -> None:
    await letters(stage, "seen", COUNT)
    page = await windows.open(DESKTOP)
    await page.set_viewport_size({"width": 1280, "height": 900})
    await page.goto(f"{stage.url(ANN)}/inbox?show=all")
    await expect(page.get_by_text("Refund 5 EUR to “seen 0”")).to_be_visible()
    await expect(page.locator(".inbox-row").nth(COUNT - 1)).to_be_attached()
    await expect(page.locator(".inbox-row .quick").first).to_be_attached()
    assert await seen_rows(page) >= COUNT
    assert await accessibility_faults(page) == []
    heights: list[int] = await page.evaluate(
        "() => [...document.querySelectorAll('.inbox-row')].map(row => row.offsetHeight)"
    )
    assert sorted(heights)[COUNT // 2] <= 60, "a row has two lines"


async def test_after_a_decision_the_next_request_opens_with_a_receipt(
    stage: Stage, windows: Windows
) -> None:
    first, _ = await letters(stage, "next", 2)
    page = await windows.open()
    await open_request(page, stage, first, "a1")
    await page.clock.install()
    pressed_ms = await page.evaluate("Date.now()")
    await page.keyboard.press("a")
    receipt = page.locator(".receipt")
    await expect(receipt).to_contain_text("next 0: Refund 5 EUR to “next 0”")
    await expect(receipt).to_contain_text("Approved by ann. The call runs.")
    assert first not in page.url.partition("?")[0]
    assert await accessibility_faults(page) == []
    # The clock of the page goes on by itself while the page is looked at: on a slow machine, for seconds.
    spent_ms = await page.evaluate("Date.now()") - pressed_ms
    await page.clock.fast_forward(max(0, 8_500 - spent_ms))
    await expect(receipt).to_be_visible()
    await page.clock.fast_forward(10_000)
    await expect(receipt).to_have_count(0)


async def test_many_are_decided_together_and_the_outcome_survives_a_reload(
    stage: Stage, windows: Windows
) -> None:
    ids = await letters(stage, "bulk", 3)
    page = await windows.open()
    await page.goto(f"{stage.url(ANN)}/inbox")
    for one in ids:
        await page.locator(f"input[value='{one}']").check()
    await expect(page.locator("[data-chosen]")).to_contain_text("3 of")
    await page.get_by_label("Select all").check()
    boxes = await page.locator("input[name=run]:not(:disabled)").count()
    await expect(page.locator("[data-chosen]")).to_have_text(f"{boxes} of {boxes} selected")
    await page.get_by_label("Select all").uncheck()
    await expect(page.locator(".bulk-bar")).to_be_hidden()
    for one in ids:
        await page.locator(f"input[value='{one}']").check()
    await page.get_by_role("button", name="Decide together").click()
    # A colleague was quicker with one of them.
    await stage.handle(ids[0]).approve("a1", by=person("lee", groups=["leads", "billing"]))
    await page.get_by_role("button", name="Approve 3 requests").click()
    title = page.get_by_role("heading", name="2 requests approved, 1 left alone")
    await expect(title).to_be_visible()
    await page.reload()
    await expect(title).to_be_visible()
    await expect(page.get_by_text("It was decided before you by lee.")).to_be_visible()
    assert await accessibility_faults(page) == []


async def test_a_desktop_notice_comes_only_after_somebody_asked_for_it(
    stage: Stage, windows: Windows
) -> None:
    page = await windows.open(permissions=["notifications"])
    await page.add_init_script(
        "window.notices = []; window.Notification = class { static permission = 'granted';"
        " static requestPermission() { return Promise.resolve('granted'); }"
        " constructor(title, options) { window.notices.push([title, options.body]); } close() {} };"
        "document.hasFocus = () => false;"
    )
    await page.goto(f"{stage.url(ANN)}/inbox?show=all")
    await expect(page.locator(".live").first).to_have_text("Live")
    await letters(stage, "quiet", 1)
    await expect(page.locator("input[value='quiet-0']")).to_be_attached()
    assert await page.evaluate("notices") == []
    await page.get_by_role("button", name="Notify me").click()
    await expect(page.get_by_role("button", name="Notices on")).to_be_visible()
    await letters(stage, "loud <b>", 1)
    await expect(page.locator("input[value^='loud']")).to_be_attached()
    notices: list[list[str]] = await page.evaluate("notices")
    assert [title for title, _ in notices] == ["1 new request waits"]
    assert "loud" not in str(notices)
    assert await page.title() == notices[0][1]
    assert (await page.title()).startswith("(")
    await page.reload()
    await page.get_by_role("button", name="Notices on").click()
    await expect(page.get_by_role("button", name="Notify me")).to_be_visible()


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("5 EUR to Ann, not", "Refund “5 EUR to Ann, not” EUR to “Bob”"),
        ("5” EUR to “Ann", "Refund “5' EUR to 'Ann” EUR to “Bob”"),
        ("\u202e5000", "Refund “\\u202e5000” EUR to “Bob”"),
        ("<b>5</b>\n# 6", "Refund “<b>5</b> # 6” EUR to “Bob”"),
    ],
)
async def test_a_value_cannot_pass_for_the_words_around_it(
    stage: Stage, windows: Windows, amount: str, shown: str
) -> None:
    run_id = f"odd {len(shown)}"
    arguments = json.dumps({"amount": amount, "customer": "Bob"})
    handle = await stage.start_run("Writer", f"call refund {arguments}", run_id)
    await handle.wait_for_people()
    page = await windows.open()
    await open_request(page, stage, run_id, "a1")
    what = page.locator(".what")
    await expect(what).to_have_text(shown)
    await expect(what.locator("bdi.value")).to_have_count(2)
    assert await what.locator("bdi.value").last.inner_text() == "“Bob”"


async def test_times_are_local_and_say_their_zone_on_demand(stage: Stage, windows: Windows) -> None:
    await letters(stage, "zone", 1)
    page = await windows.open(timezone_id="Asia/Tokyo", locale="en-GB")
    await open_request(page, stage, "zone-0", "a1")
    asked = page.locator(".facts time").first
    await expect(asked).to_have_text(re.compile(r"^\d+ s$"))
    await asked.hover()
    await expect(asked).to_have_attribute("title", re.compile(r"20\d\d.* (JST|GMT\+9)$"))
    await page.keyboard.press(".")
    await expect(asked).to_have_text(re.compile(r"20\d\d.* (JST|GMT\+9)$"))
    await page.keyboard.press(".")
    await expect(asked).to_have_text(re.compile(r"^\d+ s$"))


async def test_text_of_people_reads_in_its_own_direction(stage: Stage, windows: Windows) -> None:
    arguments = json.dumps({"amount": 5, "customer": "אבג 123"}, ensure_ascii=False)
    handle = await stage.start_run("Writer", f"call refund {arguments}", "rtl")
    await handle.wait_for_people()
    page = await windows.open()
    await open_request(page, stage, "rtl", "a1")
    value = page.locator(".row-value", has_text="אבג")
    assert await value.evaluate("one => getComputedStyle(one).direction") == "rtl"
    await expect(page.locator(".what")).to_have_text("Refund 5 EUR to “אבג 123”")
