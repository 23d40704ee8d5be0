"""Teams in a real browser: duty by keys, seen by two leads at once, on every page."""

from datetime import timedelta

from playwright.async_api import expect

from outlast.client.teams import Team
from tests.browser.stage import LEE, Stage
from tests.browser.window import PHONE, Windows, accessibility_faults, overflow


async def test_two_leads_set_up_a_team_and_see_each_other_change_it(
    stage: Stage, windows: Windows
) -> None:
    anns, lees = await windows.open(), await windows.open(PHONE)
    await anns.goto(f"{stage.url()}/inbox")
    await anns.keyboard.press("g")
    await anns.keyboard.press("t")
    await expect(anns.locator("h1")).to_have_text("Teams")
    if not await anns.locator("#new-team[open]").count():
        await anns.focus("#new-team > summary")
        await anns.keyboard.press("Enter")
    await anns.fill("#name", "night shift")
    await anns.focus("#set-up")
    await anns.keyboard.press("Enter")
    await expect(anns.locator("h1")).to_have_text("night shift")
    await lees.goto(f"{stage.url(LEE)}/teams/night%20shift")

    await anns.focus("#go > summary")
    await anns.keyboard.press("Enter")
    await anns.select_option("#until", "8h")
    await anns.focus("#go-button")
    await anns.keyboard.press("Enter")
    await expect(anns.locator("#duty")).to_contain_text("On duty in night shift until ")
    await expect(lees.locator("#team")).to_contain_text("on duty until ")
    await expect(lees.locator("#duty form")).to_have_count(0)

    # The other lead changes how it assigns, and then takes her off duty: she sees it by herself.
    await lees.click("#rules > summary")
    await lees.fill("#capacity", "0")
    await lees.click("#rule-button")
    await expect(lees.locator("#team-said")).to_contain_text("capacity must be 1 or more, not 0")
    await lees.fill("#capacity", "3")
    await lees.fill("#return-after", "20min")
    await lees.click("#rule-button")
    await expect(anns.locator("#team")).to_contain_text("at most 3 for each, back after 20 min")
    assert await accessibility_faults(lees) == []
    assert await overflow(lees) <= 0
    await lees.locator("#team tr", has_text="ann").get_by_role("button").click()
    await expect(anns.locator("#team .badge")).to_have_text("off duty")
    await expect(anns.locator("#duty form")).to_have_count(0, timeout=15_000)
    refused = await windows.take_problems()
    assert refused
    assert all("409" in one for one in refused)
    view = await Team(stage.client, "night shift").view()
    assert (view.capacity, view.return_after) == (3, timedelta(minutes=20))
    assert [(one.subject, one.on_duty) for one in view.members] == [("ann", False)]


async def test_duty_is_left_on_any_page_also_without_scripts(
    stage: Stage, windows: Windows
) -> None:
    team = Team(stage.client, "day shift")
    await team.assign_by(by="lee")
    await team.on_duty("ann")
    window = await windows.open()
    await window.goto(f"{stage.url()}/agents")
    duty = window.locator("#duty form", has_text="day shift")
    await expect(duty).to_be_visible(timeout=15_000)
    await duty.get_by_role("button").click()
    await expect(duty).to_have_count(0)
    assert [one.on_duty for one in (await team.view()).members] == [False]
    plain = await windows.open(java_script_enabled=False)
    await team.on_duty("ann")
    await plain.goto(f"{stage.url()}/teams/day%20shift")
    await plain.locator("#team tr", has_text="ann").get_by_role("button").click()
    await expect(plain.locator("#team .badge")).to_have_text("off duty")


async def test_a_page_keeps_what_it_shows_while_the_desk_has_no_answer(
    stage: Stage, windows: Windows
) -> None:
    team = Team(stage.client, "late shift")
    await team.on_duty("ann")
    window = await windows.open()
    await window.goto(f"{stage.url()}/teams/late%20shift")
    # The server is away: the desk itself answers so.
    asked = "**/teams/late%20shift/now**"
    await window.route(
        asked, lambda route: route.fulfill(status=503, headers={"HX-Reswap": "none"})
    )
    await expect(window.locator("#team.is-stale")).to_contain_text("ann")
    await window.unroute(asked)
    await team.off_duty("ann")
    await expect(window.locator("#team:not(.is-stale) .badge")).to_have_text("off duty")
    assert all("503" in one for one in await windows.take_problems())
