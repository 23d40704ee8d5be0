"""Everything is killed with SIGKILL in the middle of an answer, and each page has each text once.

The pages are watched in every frame: a text that is there twice for a moment is noticed, too.
"""

import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from playwright.async_api import expect

from outlast.client.handle import RunHandle
from outlast.loop.items import text_of
from outlast.testing.demo.proof import ledger
from tests.browser.model import counted
from tests.browser.people import (
    chat_texts,
    come_as_customer,
    give_back,
    open_conversation,
    say,
    take_over,
    until_texts,
    write,
)
from tests.browser.stage import ANN, LEE, Stage
from tests.browser.watched import Watched
from tests.browser.window import PHONE, Windows

LAST = 200
RUN = "a customer/with an odd id"
SENT = {
    "say Hello!",
    f"count to {LAST}",
    'call write_letter {"address": "Dresden", "text": "Hi"}',
    "Thank you, Ann.",
    "say Goodbye.",
}
"""What the customer writes."""


@pytest.mark.timeout(240)
async def test_whatever_is_killed_in_mid_answer_each_page_has_each_text_once(
    killed_stage: Stage, windows: Windows
) -> None:
    stage, windows.may_lose_server = killed_stage, True
    handle = await stage.start_run("Writer", "say Hello!", RUN)
    customer, ann = await windows.open(), await windows.open()
    watched = [await Watched.begin(page) for page in (customer, ann)]
    await come_as_customer(customer, stage, RUN)
    await open_conversation(ann, stage, RUN)
    texts = ["say Hello!", "Hello!"]
    await until_texts(customer, texts)
    await until_texts(ann, texts)

    # Serve, then the worker, then the Temporal server, each in the middle of the answer.
    await write(customer, f"count to {LAST}")
    draft = ann.locator("#draft-text")
    await expect(draft).to_contain_text("n5 ")
    await stage.kill_serve(ANN)
    await expect(ann.locator(".live").first).to_have_text("Live")
    await expect(draft).to_contain_text("n150 ")
    await expect(customer.locator("#progress")).to_contain_text("n150 ")
    await stage.kill_worker()
    await expect(draft).not_to_contain_text("n150 ")
    await expect(draft).to_contain_text("n9 ")
    await stage.kill_server()
    assert [f"n{LAST}" in text for text in await chat_texts(customer)].count(True) == 0
    texts += [f"count to {LAST}", counted(LAST)]
    await until_texts(customer, texts)
    await until_texts(ann, texts)

    # A letter, which Lee approves on a phone; all that Lee's page depends on is killed before.
    await write(customer, 'call write_letter {"address": "Dresden", "text": "Hi"}')
    phone = await windows.open(PHONE)
    await phone.goto(f"{stage.url(LEE)}/inbox")
    await phone.locator(".one-request", has_text="Dresden").locator("a.call").click()
    await expect(phone.get_by_role("button", name="Approve")).to_be_visible()
    assert _tickets(stage) == 0
    await stage.kill_serve(LEE)
    await stage.kill_server()
    await stage.kill_worker()
    await phone.get_by_role("button", name="Approve").click()
    await expect(phone.locator(".receipt")).to_contain_text("Approved by lee.")
    texts += [
        'call write_letter {"address": "Dresden", "text": "Hi"}',
        "Done: T-1: 1 to Dresden: Hi",
    ]
    await until_texts(customer, texts)

    # Ann takes over, keeps the conversation while all is killed, and gives it back.
    await take_over(ann)
    await stage.kill_worker()
    await stage.kill_serve(ANN)
    await expect(ann.locator(".live").first).to_have_text("Live")
    await expect(ann.get_by_text("you have it")).to_be_visible()
    await say(ann, "This is Ann.")
    texts += ["This is Ann."]
    await until_texts(customer, texts)
    await write(customer, "Thank you, Ann.")
    await until_texts(ann, [*texts, "Thank you, Ann."])
    await give_back(ann, "They were happy.")
    texts += ["Thank you, Ann.", "You wrote: Thank you, Ann."]
    await until_texts(customer, texts)
    await write(customer, "say Goodbye.")
    texts += ["say Goodbye.", "Goodbye."]
    await until_texts(customer, texts)
    await until_texts(ann, texts)

    # What comes late would be here by now; then the pages are loaded again.
    for again in (False, True):
        for page in (customer, ann):
            if again:
                await page.reload()
            await until_texts(page, texts)
            await page.wait_for_timeout(1_000)
            await until_texts(page, texts)
    for one in watched:
        assert len(one.frames) > LAST / 2
        assert one.faults(texts, LAST) == []
    await _each_once(stage, handle, texts)


async def _each_once(stage: Stage, handle: RunHandle, texts: list[str]) -> None:
    """Check the ledger and the run itself: one effect, one answer to each message, each text once."""
    assert [entry.effect for entry in ledger(stage.database)] == ["ticket"]
    assert _tickets(stage) == 1
    state = await handle.state()
    assert all(answer.failure is None for answer in state.answers)
    answered = Counter(message for answer in state.answers for message in answer.to)
    assert set(answered.values()) == {1}
    assert len(answered) == len([text for text in texts if text in SENT])
    assert (state.hold, state.unread, state.pending_approvals) == (None, (), ())
    said = Counter(text_of(item.raw) for item in state.items)
    assert {text: said[text] for text in texts} == dict.fromkeys(texts, 1)


def _tickets(stage: Stage) -> int:
    """Return how many letters were sent; the ledger would have one entry for two of the same key."""
    if not stage.database.exists():
        return 0
    with closing(sqlite3.connect(f"file:{stage.database}?mode=ro", uri=True)) as database:
        return int(database.execute("SELECT count(*) FROM tickets").fetchone()[0])


async def test_a_text_that_is_there_twice_for_a_moment_is_noticed(
    stage: Stage, windows: Windows
) -> None:
    await stage.start_run("Writer", "count to 3", "twice")
    page = await windows.open()
    watched = await Watched.begin(page)
    await come_as_customer(page, stage, "twice")
    texts = ["count to 3", counted(3)]
    await until_texts(page, texts)
    await page.wait_for_timeout(100)
    assert watched.faults(texts, 3) == []
    await page.evaluate(
        """() => {
            const last = document.querySelector("#messages").lastElementChild;
            const copy = last.cloneNode(true);
            last.after(copy);
            requestAnimationFrame(() => requestAnimationFrame(() => copy.remove()));
        }"""
    )
    await page.wait_for_timeout(200)
    await until_texts(page, texts)
    assert watched.faults(texts, 3) == [f"the texts were {[*texts, counted(3)]}"]
