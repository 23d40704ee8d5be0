"""A customer rates by keys alone, and the desk shows ratings, figures and scores."""

from pathlib import Path

from playwright.async_api import expect

from outlast.client.figures import team_figures
from outlast.client.identity import person
from outlast.client.search import space_of
from outlast.edges.clock import now_ms
from outlast.search import open_index
from outlast.search.scores import Score
from tests.browser.stage import ANN, Stage
from tests.browser.window import DESKTOP, PHONE, Windows, accessibility_faults, overflow, picture
from tests.workflow.test_archive import until

HOSTILE = "<img src=x onerror=document.title='ran'> \u202eslow"


async def test_a_rating_is_given_by_keys_and_counted(tmp_path: Path, windows: Windows) -> None:
    index = open_index(tmp_path / "search.db")
    variables = {"OUTLAST_SEARCH_INDEX": str(tmp_path / "search.db")}
    async with Stage(tmp_path, people=(ANN,), environment=variables) as stage:
        await stage.role("search", "run")
        talk = await stage.start_run("Writer", "say Hello", "rated-1")
        await talk.wait_for_answer("start")
        window = await windows.open(PHONE)
        await window.goto(f"{stage.url()}/chat/c/rated-1")
        bad = window.get_by_role("button", name="Bad")
        await bad.focus()
        await window.keyboard.press("Enter")
        await expect(bad).to_have_attribute("aria-pressed", "true")
        await expect(bad).to_be_focused()
        why = window.get_by_label("Why? (optional)")
        await why.fill(HOSTILE)
        await talk.send("say More")  # what comes meanwhile leaves the word in the field
        await expect(window.locator("#messages")).to_contain_text("More")
        await expect(why).to_have_value(HOSTILE)
        await window.wait_for_timeout(1_100)  # the desk takes one rating a second
        await why.press("Enter")
        await expect(window.locator("#problem")).to_be_hidden()

        async def is_kept() -> bool:
            rating = (await talk.state()).case.rating
            return rating is not None and (rating.score, rating.text) == (1, HOSTILE)

        await until(is_kept)
        await window.reload()
        await expect(window.get_by_label("Why? (optional)")).to_have_value(HOSTILE)
        assert await accessibility_faults(window) == []
        assert await overflow(window) <= 0
        await picture(window, "chat-phone")
        await window.close()

        lee = person("lee", groups=["leads"])
        await talk.hold(by=lee)
        await talk.send("Are you there?")
        await talk.say("I am.", by=lee)

        async def is_counted() -> bool:
            total = (await team_figures(stage.client, index)).total
            return (total.bad, total.replies) == (1, 1)

        await until(is_counted)
        described = await stage.client.get_workflow_handle("rated-1").describe()
        scored = Score(
            check=HOSTILE,
            run_id="rated-1",
            execution_id=described.run_id or "",
            agent="Writer",
            instructions="0123456789ab",
            score=0,
            at_ms=now_ms(),
        )
        index.put_scores(await space_of(stage.client), [scored])
        for width, theme in ((DESKTOP, "light"), (PHONE, "dark")):
            desk = await windows.open(width, theme)  # type: ignore[arg-type]
            await desk.goto(f"{stage.url()}/inbox")
            await desk.keyboard.press("g")
            await desk.keyboard.press("f")
            await expect(desk).to_have_url(f"{stage.url()}/figures")
            await expect(desk.locator("tfoot")).to_contain_text("1")
            assert await accessibility_faults(desk) == []
            assert await overflow(desk) <= 0
            await picture(desk, f"figures-{width}-{theme}")
            await desk.get_by_role("link", name="Quality").click()
            await expect(desk.locator("tbody")).to_contain_text("0123456789ab")
            assert await desk.title() == "Quality · outlast"
            assert await desk.locator("main img").count() == 0
            assert await accessibility_faults(desk) == []
            assert await overflow(desk) <= 0
            await picture(desk, f"quality-{width}-{theme}")
            await desk.get_by_role("link", name="rated-1").click()
            await expect(desk.locator("main")).to_contain_text("1 of 5")
            await picture(desk, f"conversation-{width}-{theme}")
            await desk.goto(f"{stage.url()}/conversations?rated=bad")
            await expect(desk.locator(".runs")).to_contain_text("rated 1 of 5")
            assert await accessibility_faults(desk) == []
            await picture(desk, f"list-{width}-{theme}")
