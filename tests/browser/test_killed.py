"""Everything is killed with SIGKILL in the middle of an answer, and each page has each text once."""

import pytest
from playwright.async_api import expect

from outlast.demo.proof import ledger
from tests.browser.model import counted
from tests.browser.people import (
    come_as_customer,
    give_back,
    open_conversation,
    say,
    take_over,
    until_texts,
    write,
)
from tests.browser.stage import ANN, LEE, Stage
from tests.browser.window import PHONE, Windows

LAST = 200
RUN = "a customer/with an odd id"


@pytest.mark.timeout(120)
async def test_whatever_is_killed_in_mid_answer_each_page_has_each_text_once(
    killed_stage: Stage, windows: Windows
) -> None:
    stage, windows.may_lose_server = killed_stage, True
    handle = await stage.start_run("Writer", "say Hello!", RUN)
    customer, ann = await windows.open(), await windows.open()
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
    await stage.kill_worker()
    await expect(draft).not_to_contain_text("n150 ")
    await expect(draft).to_contain_text("n9 ")
    await stage.kill_server()
    texts += [f"count to {LAST}", counted(LAST)]
    await until_texts(customer, texts)
    await until_texts(ann, texts)

    # A letter, which Lee approves on a phone, while the worker is killed again.
    await write(customer, 'call write_letter {"address": "Dresden", "text": "Hi"}')
    phone = await windows.open(PHONE)
    await phone.goto(f"{stage.url(LEE)}/inbox")
    await phone.locator("a.call", has_text="write_letter").click()
    await stage.kill_worker()
    await phone.get_by_role("button", name="Approve").click()
    await expect(phone.get_by_text("There is nothing left to decide")).to_be_visible()
    texts += [
        'call write_letter {"address": "Dresden", "text": "Hi"}',
        "Done: T-1: 1 to Dresden: Hi",
    ]
    await until_texts(customer, texts)

    # Ann takes over, and gives the conversation back.
    await take_over(ann)
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

    await customer.reload()
    await ann.reload()
    await until_texts(customer, texts)
    await until_texts(ann, texts)
    assert [entry.effect for entry in ledger(stage.database)] == ["ticket"]
    state = await handle.state()
    assert all(answer.failure is None for answer in state.answers)
