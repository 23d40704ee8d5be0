"""What somebody who answers customers all day does on the page of a conversation, in a real browser."""

import io
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest
from PIL import Image
from playwright.async_api import Page, expect

from outlast.client.handle import RunHandle
from outlast.client.identity import person
from outlast.loop.start import Customer
from outlast.serve.uploads import part_of
from tests.browser.stage import ANN, LEE, Stage
from tests.browser.test_conversation_page import open_conversation
from tests.browser.window import PHONE, Windows, accessibility_faults, overflow

REFUND = 'call refund {"amount": 389, "customer": "Ann Smith"}'
REPLIES = """
[reply.sent]
title = "It is on its way"
text = "Dear {customer}, your parcel is on its way."

[reply.sorry]
text = "We are sorry, {customer}."
"""


def picture() -> bytes:
    written = io.BytesIO()
    Image.effect_mandelbrot((900, 600), (-2, -1.2, 1, 1.2), 60).save(written, "PNG")
    return written.getvalue()


def with_files(text: str, *files: tuple[str, bytes]) -> Any:
    parts: list[Any] = [{"type": "input_text", "text": text}]
    return [{"role": "user", "content": [*parts, *(part_of(*one) for one in files)]}]


async def asking(stage: Stage, run_id: str) -> RunHandle:
    """Return a conversation with a request that waits."""
    handle = await stage.start_run("Writer", REFUND, run_id)
    await handle.wait_for_people()
    return handle


@pytest.fixture(scope="module")
async def replying(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Processes whose desks have saved replies."""
    home: Path = tmp_path_factory.mktemp("replies")
    place = home / "policies.toml"
    place.write_text(REPLIES, encoding="utf-8")
    environment = {"OUTLAST_APPROVALS": os.fspath(place)}
    async with Stage(home, people=(ANN,), environment=environment) as stage:
        yield stage


# --- The request that waits ----------------------------------------------------------------------


async def test_the_request_is_decided_where_the_conversation_is(
    stage: Stage, windows: Windows
) -> None:
    handle = await asking(stage, "talk-approve")
    window = await open_conversation(stage, windows, handle.id)
    await expect(window.locator("#deciding")).to_contain_text("Refund 389 EUR to")
    assert await accessibility_faults(window) == []
    await window.keyboard.press("c")
    await expect(window.locator("#deciding")).to_contain_text("ann works on it")
    await window.keyboard.press("a")
    await expect(window.locator("#announcement")).to_be_visible()
    await expect(window.locator("#deciding > *")).to_have_count(0)
    await expect(window.locator("#talk")).to_contain_text("Done: refunded")
    assert window.url.endswith("/conversations/talk-approve")


async def test_it_comes_first_on_a_phone(stage: Stage, windows: Windows) -> None:
    handle = await asking(stage, "talk-phone")
    window = await open_conversation(stage, windows, handle.id, width=PHONE)
    button = window.get_by_role("button", name="Approve", exact=False).first
    await expect(button).to_be_in_viewport()
    box, first = await button.bounding_box(), await window.locator("#talk").bounding_box()
    assert box is not None
    assert first is not None
    assert box["y"] < first["y"] + first["height"]
    assert await overflow(window) <= 0
    assert await accessibility_faults(window) == []


async def test_two_people_decide_and_the_second_keeps_what_they_wrote(
    stage: Stage, windows: Windows
) -> None:
    handle = await asking(stage, "talk-two")
    window = await open_conversation(stage, windows, handle.id, person=LEE)
    await window.keyboard.press("r")
    await window.locator("#reject-message").fill("Only with a receipt.")
    [request] = await handle.approvals()
    await handle.approve(request, by=person("ann", groups=["billing"]))
    await expect(window.locator("#deciding-changed")).to_be_visible()
    assert await window.locator("#reject-message").input_value() == "Only with a receipt."
    await window.locator("#decide button.danger").click()
    await expect(window.locator("#deciding")).to_contain_text("already")
    await expect(window.locator("#talk")).to_contain_text("Done: refunded")
    await windows.take_problems()  # the answer 409


# --- Drafts --------------------------------------------------------------------------------------


async def test_a_draft_lives_through_reloads_and_is_gone_when_it_is_sent(
    stage: Stage, windows: Windows
) -> None:
    handle = await stage.start_run("Writer", "say Hello.", "talk-draft")
    await handle.wait_for_answer("start")
    window = await open_conversation(stage, windows, handle.id)
    draft = "<img src=x onerror=alert(1)> \u05e9\u05dc\u05d5\u05dd e\u0301"
    await window.locator("#words").fill(draft)
    await window.reload()
    assert await window.locator("#words").input_value() == draft
    await expect(window.locator("#words-draft")).to_contain_text("this browser has kept")
    assert await accessibility_faults(window) == []
    # Nobody else sees it, in the same browser, nor at another conversation.
    kept: dict[str, str] = await window.evaluate("() => ({...localStorage})")
    assert [one for one in kept.values() if "onerror" in one]
    assert not [one for one in kept if "ann" in one or "talk-draft" in one]
    await window.goto(f"{stage.url(LEE)}/conversations/{handle.id}")
    await window.evaluate("(kept) => Object.assign(localStorage, kept)", kept)
    await window.reload()
    await expect(window.locator("#words")).to_have_value("")
    # It goes with its message.
    await window.goto(f"{stage.url()}/conversations/{handle.id}")
    await window.locator("#hold-button").click()
    await expect(window.locator("#say-button.primary")).to_be_visible()
    await window.locator("#words").press("Control+Enter")
    await expect(window.locator("#talk")).to_contain_text("onerror=alert(1)")
    await expect(window.locator("#words")).to_have_value("")
    await window.reload()
    await expect(window.locator("#words")).to_have_value("")
    await expect(window.locator("#words-draft")).to_have_count(0)


async def test_a_reason_lives_through_a_reload_and_can_be_discarded(
    stage: Stage, windows: Windows
) -> None:
    handle = await asking(stage, "talk-reason")
    window = await open_conversation(stage, windows, handle.id)
    await window.keyboard.press("r")
    await window.keyboard.type("Only with a receipt.")
    await window.reload()
    await expect(window.locator("#reject-message")).to_be_visible()
    await expect(window.locator("#reject-message")).to_have_value("Only with a receipt.")
    await expect(window.locator("#deciding-changed")).to_be_hidden()
    # The page of the request has it, too.
    await window.goto(f"{stage.url()}/conversations/{handle.id}/requests/a1")
    await expect(window.locator("#reject-message")).to_have_value("Only with a receipt.")
    await window.get_by_role("button", name="Discard").click()
    await window.reload()
    await expect(window.locator("#reject-message")).to_have_value("")


# --- Times, pictures and files -------------------------------------------------------------------


async def test_days_stand_between_messages_once_and_times_say_their_zone(
    stage: Stage, windows: Windows
) -> None:
    handle = await stage.start_run("Writer", "say Hello.", "talk-times")
    await handle.wait_for_answer("start")
    window = await open_conversation(stage, windows, handle.id)
    await expect(window.locator("#talk .day")).to_have_count(1)
    await expect(window.locator("#steps .day")).to_have_count(1)
    await (await handle.send("say More.")).answer()
    await expect(window.locator("#talk")).to_contain_text("More.")
    await expect(window.locator("#talk .day")).to_have_count(1)
    time = window.locator("#talk .said-by time").first
    assert len(await time.inner_text()) < 10
    await window.keyboard.press(".")
    await expect(time).to_contain_text("UTC")
    await window.evaluate(
        "() => { const one = document.querySelector('#talk li:last-child time');"
        " one.dateTime = '2031-01-02T03:04:05Z'; }"
    )
    await (await handle.send("say Again.")).answer()
    await expect(window.locator("#talk .day")).to_have_count(3)


async def test_pictures_enlarge_by_keys_and_files_are_saved(stage: Stage, windows: Windows) -> None:
    sent = with_files(
        "say Thanks.",
        ("cup.png", picture()),
        ("<script>alert(1)</script>.txt", b"<script>alert(1)</script>"),
        ("bill.pdf", b"%PDF-1.7 bill"),
    )
    handle = await stage.start_run("Writer", sent, "talk-files")
    await handle.wait_for_answer("start")
    window = await open_conversation(stage, windows, handle.id)
    small = window.locator("#talk .picture")
    await small.focus()
    await window.keyboard.press("Enter")
    await expect(window.locator("#enlarged img")).to_be_visible()
    assert await accessibility_faults(window) == []
    await window.keyboard.press("Escape")
    await expect(window.locator("#enlarged")).to_be_hidden()
    await expect(small).to_be_focused()
    for link in await window.locator("#talk a.file").all():
        async with window.expect_download() as saving:
            await link.click()
        saved = await saving.value
        assert "/" not in saved.suggested_filename
        address = await link.get_attribute("href")
        answer = await window.request.get(f"{stage.url()}{address}")
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["content-type"] in {"application/pdf", "text/plain; charset=utf-8"}


# --- Writing -------------------------------------------------------------------------------------


async def held(stage: Stage, windows: Windows, run_id: str) -> tuple[RunHandle, Page]:
    handle = await stage.start_run(
        "Writer", "say Hello.", run_id, customer=Customer("c-1", name="Zoë <b> {customer}")
    )
    await handle.wait_for_answer("start")
    await handle.hold(by=person("ann", groups=["billing"]))
    window = await open_conversation(stage, windows, run_id)
    await expect(window.locator("#say-button.primary")).to_be_visible()
    return handle, window


async def test_a_colleague_attaches_a_file_that_the_customer_gets(
    stage: Stage, windows: Windows, tmp_path: Path
) -> None:
    handle, window = await held(stage, windows, "talk-attach")
    await window.locator("#words").fill("Here is the plan.")
    await window.locator("#attached").set_input_files(
        [
            {"name": "plan.png", "mimeType": "image/png", "buffer": picture()},
            {"name": "plan.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7 plan"},
        ]
    )
    await expect(window.locator("#attached-names")).to_have_text("plan.png, plan.pdf")
    await window.locator("#words").press("Control+Enter")
    await expect(window.locator("#talk .is-colleague .picture")).to_have_count(1)
    await expect(window.locator("#talk .is-colleague .file")).to_have_text("plan.pdf")
    await expect(window.locator("#attached-names")).to_have_text("")
    token = stage.token(handle.id)
    async with httpx2.AsyncClient(trust_env=False, base_url=stage.url()) as http:
        own = {"Authorization": f"Bearer {token}"}
        read = (await http.get(f"/api/conversations/{handle.id}", headers=own)).json()
        [said] = [one for one in read["messages"] if one["by"] == "colleague"]
        urls = [one["url"] for one in said["attachments"]]
        assert (await http.get(urls[1], headers=own)).content == b"%PDF-1.7 plan"
        other = {"Authorization": f"Bearer {stage.token('talk-files')}"}
        assert (await http.get(urls[1], headers=other)).status_code in {401, 403, 404}
    # What poses as a picture, and what is too large, is refused beside the button.
    for name, content in (
        ("a.png", b"<svg onload=alert(1)>"),
        ("b.pdf", b"%PDF-" + bytes(50_000_000)),
    ):
        (tmp_path / name).write_bytes(content)
        await window.locator("#words").fill("And this.")
        await window.locator("#attached").set_input_files(tmp_path / name)
        await window.locator("#words").press("Control+Enter")
        await expect(window.locator("#say-said .refusal")).to_be_visible()
        await expect(window.locator("#words"), name).to_have_value("And this.")
        await window.locator("#say-said").evaluate("one => one.replaceChildren()")
    await windows.take_problems()  # the answers 413 and 415


async def test_a_saved_reply_is_found_by_keys(replying: Stage, windows: Windows) -> None:
    _, window = await held(replying, windows, "talk-reply")
    await window.keyboard.press("p")
    await expect(window.locator("#reply-find")).to_be_focused()
    assert await accessibility_faults(window) == []
    await window.keyboard.type("sorry")
    await expect(window.locator("#replies li:not([hidden])")).to_have_count(1)
    await window.keyboard.press("Enter")
    await expect(window.locator("#words")).to_be_focused()
    await expect(window.locator("#words")).to_have_value("We are sorry, Zoë <b> {customer}.")
    await expect(window.locator("#talk")).not_to_contain_text("sorry")


async def test_the_agent_suggests_a_draft_that_nobody_sends(stage: Stage, windows: Windows) -> None:
    handle, window = await held(stage, windows, "talk-suggest")
    await handle.send("say It ships today.")
    await expect(window.locator("#suggest-button")).to_be_visible()
    await window.locator("#words").fill("Hello!")
    await window.locator("#words").press("Escape")
    await window.keyboard.press("d")
    await expect(window.locator("#words")).to_have_value("Hello!\n\nIt ships today.")
    await expect(window.locator("#say-said")).to_contain_text("Nothing is sent.")
    assert await accessibility_faults(window) == []
    await expect(window.locator("#talk .is-colleague")).to_have_count(0)
    assert (await handle.state()).hold is not None


async def test_an_answer_is_approved_with_its_difference(stage: Stage, windows: Windows) -> None:
    handle = await stage.start_run("Careful", "say We refund 389 EUR today.", "talk-answer")
    await handle.wait_for_people()
    window = await open_conversation(stage, windows, handle.id)
    await expect(window.locator("#deciding .proposed")).to_have_text("We refund 389 EUR today.")
    await window.locator("#decide summary", has_text="Answer in its place").click()
    await expect(window.locator("#respond-text")).to_have_value("We refund 389 EUR today.")
    await window.locator("#respond-text").fill("We refund 300 EUR today.")
    await window.get_by_role("button", name="Show the difference").click()
    await expect(window.locator("#decide .changed-words del")).to_have_text("389 ")
    await expect(window.locator("#decide .changed-words ins")).to_have_text("300 ")
    assert await accessibility_faults(window) == []
    await window.get_by_role("button", name="Send this answer").click()
    await expect(window.locator("#talk")).to_contain_text("We refund 300 EUR today.")
