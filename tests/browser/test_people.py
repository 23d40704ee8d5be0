"""What people do on the desk, in several windows at once."""

from playwright.async_api import expect

from outlast.testing.demo.proof import ledger
from tests.browser.people import (
    come_as_customer,
    give_back,
    open_conversation,
    open_request,
    say,
    take_over,
    until_texts,
    write,
)
from tests.browser.stage import ANN, LEE, Stage
from tests.browser.window import PHONE, Windows


def noted(stage: Stage, words: str) -> list[str]:
    """Return what the ledger has with these words."""
    return [one.key for one in ledger(stage.database) if words in one.arguments]


async def test_a_request_comes_and_goes_in_two_inboxes(stage: Stage, windows: Windows) -> None:
    desktop, phone = await windows.open(), await windows.open(PHONE, "dark")
    await desktop.goto(f"{stage.url(ANN)}/inbox")
    await phone.goto(f"{stage.url(LEE)}/inbox")
    await expect(desktop.locator(".live").first).to_have_text("Live")
    handle = await stage.start_run(
        "Writer", 'call write_letter {"address": "Live", "text": "Hi"}', "in two inboxes"
    )
    wanted = "address Live"
    await expect(desktop.get_by_text(wanted)).to_be_visible()
    await expect(phone.get_by_text(wanted)).to_be_visible()
    row = phone.locator("li", has_text="in two inboxes")
    await row.locator("a.call").click()
    await phone.get_by_role("button", name="Approve").click()
    await expect(phone.locator(".receipt")).to_contain_text("Approved by lee. The call runs.")
    await expect(desktop.get_by_text(wanted)).to_have_count(0)
    await handle.wait_for_answer("start")
    assert len(noted(stage, "Live")) == 1


async def test_arguments_are_edited_after_the_difference_is_shown(
    stage: Stage, windows: Windows
) -> None:
    handle = await stage.start_run(
        "Writer", 'call write_letter {"address": "Pirna", "text": "Hi", "copies": 9}', "edited"
    )
    [item] = (await handle.wait_for_people()).interruptions
    page = await windows.open()
    await open_request(page, stage, "edited", item.request.id)
    await page.get_by_text("Change the details").first.click()
    await page.get_by_label("copies").fill("2")
    await page.get_by_role("button", name="Show the difference").click()
    await expect(page.locator(".diff del")).to_have_text("9")
    await expect(page.locator(".diff ins")).to_have_text("2")
    assert noted(stage, "Pirna") == []
    await page.get_by_role("button", name="Approve with these details").click()
    await expect(page.locator(".receipt")).to_contain_text("Approved with changes by ann.")
    await handle.wait_for_answer("start")
    assert len(noted(stage, "2 to Pirna")) == len(noted(stage, "Pirna")) == 1


async def test_two_people_decide_what_needs_two(stage: Stage, windows: Windows) -> None:
    handle = await stage.start_run("Writer", 'call sign_contract {"title": "Lease"}', "by two")
    [item] = (await handle.wait_for_people()).interruptions
    ann, lee = await windows.open(), await windows.open()
    await open_request(ann, stage, "by two", item.request.id, ANN)
    await open_request(lee, stage, "by two", item.request.id, LEE)
    await ann.get_by_role("button", name="Approve").click()
    await expect(lee.get_by_role("button", name="1 of 2 so far")).to_be_visible()
    assert noted(stage, "Lease") == []
    # Nothing has happened yet, so a vote can be taken back, and given again.
    await expect(ann.locator(".receipt")).to_contain_text("1 of 2 votes")
    await ann.locator(".receipt").get_by_role("button", name="Take my vote back").click()
    await expect(lee.get_by_role("button", name="0 of 2 so far")).to_be_visible()
    await open_request(ann, stage, "by two", item.request.id, ANN)
    await ann.get_by_role("button", name="Approve").click()
    await expect(ann.locator(".receipt")).to_contain_text("1 of 2 votes")
    await open_request(ann, stage, "by two", item.request.id, ANN)
    await expect(ann.get_by_role("button", name="Approve")).to_be_disabled()
    await lee.get_by_role("button", name="Approve").click()
    await expect(ann.get_by_text("There is nothing left to decide")).to_be_visible()
    await handle.wait_for_answer("start")
    assert len(noted(stage, "Lease")) == 1


async def test_a_person_answers_in_place_of_a_tool(stage: Stage, windows: Windows) -> None:
    handle = await stage.start_run("Writer", 'call count_stock {"article": "cups"}', "counted")
    [item] = (await handle.wait_for_people()).interruptions
    page = await windows.open(PHONE)
    await open_request(page, stage, "counted", item.request.id)
    await page.get_by_text("Answer in its place").first.click()
    await page.get_by_label("count").fill("many")
    await page.get_by_role("button", name="Show the answer").click()
    await expect(page.locator(".refusal").first).to_be_visible()
    await page.get_by_label("count").fill("12")
    await page.get_by_role("button", name="Show the answer").click()
    await page.get_by_role("button", name="Send this answer").click()
    await expect(page.locator(".receipt")).to_contain_text("Answered by ann.")
    answer = await handle.wait_for_answer("start")
    assert '"count": 12' in str(answer.final_output)


async def test_a_customer_writes_while_a_person_has_the_conversation(
    stage: Stage, windows: Windows
) -> None:
    await stage.start_run("Writer", "say Hello!", "taken over")
    customer, ann, lee = await windows.open(PHONE), await windows.open(), await windows.open()
    await come_as_customer(customer, stage, "taken over")
    await open_conversation(ann, stage, "taken over", ANN)
    await open_conversation(lee, stage, "taken over", LEE)
    texts = ["say Hello!", "Hello!"]
    await until_texts(customer, texts)
    await take_over(ann)
    await expect(lee.get_by_text("ann has it").first).to_be_visible()
    await expect(lee.locator("#say-button")).to_have_attribute("aria-disabled", "true")
    words = ann.get_by_label("Your words to the customer")
    await words.fill("I look into")
    await write(customer, "say Are you there?")
    await expect(ann.get_by_text("say Are you there?").first).to_be_visible()
    assert await words.input_value() == "I look into"
    await words.fill("I look into it.")
    await say(ann, "I look into it.")
    await expect(customer.get_by_text("I look into it.")).to_be_visible()
    await expect(customer.get_by_text("ann")).to_have_count(0)
    await give_back(ann, "Answer them.")
    texts += ["say Are you there?", "I look into it."]
    await expect(customer.locator("#messages > li").nth(3)).to_be_visible()
    seen = await customer.locator("#messages .chat-bubble").all_inner_texts()
    assert seen.count("I look into it.") == seen.count("say Are you there?") == 1


async def test_a_request_is_decided_by_keys_alone(stage: Stage, windows: Windows) -> None:
    handle = await stage.start_run(
        "Writer", 'call write_letter {"address": "Keys", "text": "Hi"}', "decided by keys"
    )
    await handle.wait_for_people()
    page = await windows.open()
    await page.goto(f"{stage.url(ANN)}/inbox")
    await expect(page.get_by_text("address Keys")).to_be_visible()
    keys = page.locator("#keys")
    await page.keyboard.press("?")
    await expect(keys).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(keys).to_be_hidden()
    for _ in range(20):
        await page.keyboard.press("j")
        row = page.locator("[data-row]:focus-within")
        if await row.get_by_text("address Keys").count():
            break
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Write letter")).to_be_visible()
    await page.keyboard.press("a")
    await expect(page.locator(".receipt")).to_contain_text("Approved by ann.")
    await handle.wait_for_answer("start")
    assert len(noted(stage, "Keys")) == 1
    await page.keyboard.press("g")
    await page.keyboard.press("c")
    await expect(page.get_by_role("heading", name="Conversations")).to_be_visible()
