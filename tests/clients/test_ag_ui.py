"""The real clients of AG-UI and CopilotKit before real processes: each text once, and nobody stuck."""

import asyncio
import base64
import json
import secrets
from typing import Any

import pytest

from outlast.client.identity import person
from outlast.views.run import loop_state
from tests.browser.model import counted
from tests.browser.stage import ANN, LEE, Person, Stage
from tests.clients.front_end import ClientError, FrontEnd
from tests.pictures import PNG, url_of

ANN_DECIDES = person(ANN.name, groups=ANN.groups)
LEE_DECIDES = person(LEE.name, groups=LEE.groups)

KINDS = pytest.mark.parametrize("kind", ["http", "copilotkit"])

LETTER = {"address": "Main Street 1", "text": "Hello", "copies": 2}
CALL = f"call write_letter {json.dumps(LETTER)}"


def new_id() -> str:
    return f"agui-{secrets.token_hex(6)}"


class Page:
    """A page of somebody, with one conversation."""

    def __init__(self, front_end: FrontEnd, name: str, thread: str) -> None:
        self.front_end = front_end
        self.name = name
        self.thread = thread

    async def do(self, what: str, **fields: Any) -> Any:
        return await self.front_end.do(what, name=self.name, **fields)

    def begin(self, what: str, **fields: Any) -> asyncio.Future[Any]:
        return self.front_end.begin(what, name=self.name, **fields)

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        own = [one for one in self.front_end.events if one["from"] == self.name]
        return own if kind is None else [one for one in own if one["type"] == kind]

    async def until_event(self, kind: str, count: int = 1) -> None:
        await self.front_end.until(lambda _: len(self.events(kind)) >= count)

    async def until_text(self, words: int) -> None:
        """Wait for so many words, in pieces, or whole if the answer has ended meanwhile."""

        def has_words(_: object) -> bool:
            pieces = (one["delta"] for one in self.events("TEXT_MESSAGE_CONTENT"))
            snapshots = (one["messages"] for one in self.events("MESSAGES_SNAPSHOT"))
            whole = (str(said.get("content")) for messages in snapshots for said in messages)
            return any(len(text.split()) >= words for text in ("".join(pieces), *whole))

        await self.front_end.until(has_words)


async def customer(
    front_end: FrontEnd, stage: Stage, kind: str, thread: str, **options: Any
) -> Page:
    page = Page(front_end, f"customer-{secrets.token_hex(4)}", thread)
    headers = {"Authorization": f"Bearer {stage.token(thread)}"}
    fields = {"agent": "Writer", "thread": thread, "headers": headers, **options}
    await page.do("open", kind=kind, url=stage.url(), **fields)
    return page


async def staff(
    front_end: FrontEnd, stage: Stage, kind: str, thread: str, person: Person = ANN
) -> Page:
    page = Page(front_end, f"{person.name}-{secrets.token_hex(4)}", thread)
    url = stage.url(person)
    headers = {"Origin": url}
    await page.do("open", kind=kind, url=url, agent="Writer", thread=thread, headers=headers)
    return page


def texts(seen: dict[str, Any]) -> list[tuple[str, str]]:
    """Return who says what; not the desk's remarks, nor activities."""
    return [
        (one["role"], one["content"])
        for one in seen["messages"]
        if one["role"] in {"user", "assistant"} and one.get("content")
    ]


# --- Talking -------------------------------------------------------------------------------------


@KINDS
async def test_a_customer_talks_to_an_agent(front_end: FrontEnd, stage: Stage, kind: str):
    page = await customer(front_end, stage, kind, new_id())
    await page.do("say", text="say Good morning", messageId="m1")
    seen = await page.do("say", text="count to 60", messageId="m2")
    assert texts(seen) == [
        ("user", "say Good morning"),
        ("assistant", "Good morning"),
        ("user", "count to 60"),
        ("assistant", counted(60)),
    ]
    assert [one["id"] for one in seen["messages"]][::2] == ["m1", "m2"]
    assert seen["state"]["outlast"]["working"] is False
    assert page.events("MESSAGES_SNAPSHOT") == []
    assert len(page.events("TEXT_MESSAGE_CONTENT")) > 4
    state = await stage.handle(page.thread).state()
    assert loop_state(state).start.keep_open
    assert len(state.answers) == 2


@KINDS
async def test_a_page_that_is_loaded_again_has_the_conversation(
    front_end: FrontEnd, stage: Stage, kind: str
):
    thread = new_id()
    page = await customer(front_end, stage, kind, thread)
    before = await page.do("say", text="say Hello", messageId="m1")
    again = await customer(front_end, stage, kind, thread)
    seen = await again.do("connect" if kind == "copilotkit" else "run")
    assert texts(seen) == texts(before)
    assert [one["id"] for one in seen["messages"]] == [one["id"] for one in before["messages"]]
    seen = await again.do("say", text="say Again", messageId="m2")
    assert texts(seen)[2:] == [("user", "say Again"), ("assistant", "Again")]


async def test_a_page_that_loses_its_answer_asks_again_and_asks_once(
    front_end: FrontEnd, stage: Stage
):
    page = await customer(front_end, stage, "http", new_id())
    saying = page.begin("say", text="count to 40", messageId="m1")
    await page.until_text(8)
    await page.do("detach")
    await saying
    seen = await page.do("run")
    assert texts(seen) == [("user", "count to 40"), ("assistant", counted(40))]
    assert page.events("MESSAGES_SNAPSHOT") == []


async def test_another_token_opens_nothing(front_end: FrontEnd, stage: Stage):
    thread = new_id()
    page = await customer(front_end, stage, "http", thread)
    await page.do("say", text="say Secret", messageId="m1")
    thief = Page(front_end, "thief", thread)
    headers = {"Authorization": f"Bearer {stage.token(new_id())}"}
    await thief.do(
        "open", kind="http", url=stage.url(), agent="Writer", thread=thread, headers=headers
    )
    with pytest.raises(ClientError, match="401"):
        await thief.do("run")
    with pytest.raises(ClientError, match="401"):
        await thief.do("say", text="say Mine", messageId="m2")
    assert len((await stage.handle(thread).state()).answers) == 1


async def test_an_attachment_reaches_the_run_and_is_not_sent_back(
    front_end: FrontEnd, stage: Stage
):
    page = await customer(front_end, stage, "http", new_id())
    photo = {"type": "data", "value": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
    parts = [{"type": "text", "text": "say Nice"}, {"type": "image", "source": photo}]
    await page.do("say", text=parts, messageId="m1")
    seen = await page.do("run")
    assert seen["messages"][0]["content"] == parts
    assert page.events("MESSAGES_SNAPSHOT") == []
    [item, *_] = (await stage.handle(page.thread).state()).items
    assert item.raw["content"][1]["image_url"] == url_of("image/png", PNG)


async def test_what_cannot_be_sent_is_an_error_and_the_conversation_goes_on(
    front_end: FrontEnd, stage: Stage
):
    page = await customer(front_end, stage, "http", new_id())
    video = {"type": "url", "value": "https://example.com/video.mp4"}
    with pytest.raises(ClientError, match="'video'"):
        await page.do("say", text=[{"type": "video", "source": video}], messageId="m1")
    other = await customer(front_end, stage, "http", page.thread)
    seen = await other.do("say", text="say Hello", messageId="m2")
    assert texts(seen) == [("user", "say Hello"), ("assistant", "Hello")]


async def test_an_agent_that_nobody_serves_is_an_error(front_end: FrontEnd, stage: Stage):
    thread = new_id()
    page = Page(front_end, "lost", thread)
    headers = {"Authorization": f"Bearer {stage.token(thread)}"}
    await page.do(
        "open", kind="http", url=stage.url(), agent="Nobody", thread=thread, headers=headers
    )
    with pytest.raises(ClientError, match="There is no agent 'Nobody'"):
        await page.do("say", text="Hello", messageId="m1")


# --- Approvals -----------------------------------------------------------------------------------


async def asked_for_a_letter(front_end: FrontEnd, stage: Stage, kind: str, thread: str) -> Page:
    """Return a customer's page whose conversation waits for the approval of a letter."""
    page = await customer(front_end, stage, kind, thread)
    seen = await page.do("say", text=CALL, messageId="m1")
    assert seen["interrupts"] == []
    assert texts(seen) == [("user", CALL)]
    assert page.events("TOOL_CALL_START") == []
    return page


@KINDS
async def test_a_person_who_may_decide_is_asked_and_decides(
    front_end: FrontEnd, stage: Stage, kind: str
):
    thread = new_id()
    await asked_for_a_letter(front_end, stage, kind, thread)
    ann = await staff(front_end, stage, kind, thread)
    seen = await ann.do("run")
    [interrupt] = seen["interrupts"]
    assert (interrupt["reason"], interrupt["metadata"]["outlast"]["tool"]) == (
        "tool_call",
        "write_letter",
    )
    assert json.loads(interrupt["metadata"]["outlast"]["arguments"]) == LETTER
    [call] = [call for one in seen["messages"] for call in one.get("toolCalls") or ()]
    assert (call["id"], json.loads(call["function"]["arguments"])) == (
        interrupt["toolCallId"],
        LETTER,
    )
    edited = {**LETTER, "copies": 1}
    payload = {"approved": True, "editedArgs": edited, "message": "One is enough."}
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": payload}]
    seen = await ann.do("run", resume=resume)
    assert seen["interrupts"] == []
    [request] = (await stage.handle(thread).state()).approvals
    assert (request.status, request.settled_by) == ("edited", "ann")
    assert request.decision is not None
    assert (request.decision.channel, request.decision.edited_arguments) == ("ag-ui", edited)
    assert "1 to Main Street 1" in texts(seen)[-1][1]


async def test_a_rejection_is_read_by_the_agent(front_end: FrontEnd, stage: Stage):
    thread = new_id()
    await asked_for_a_letter(front_end, stage, "http", thread)
    ann = await staff(front_end, stage, "http", thread)
    [interrupt] = (await ann.do("run"))["interrupts"]
    payload = {"approved": False, "message": "Not this one."}
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": payload}]
    seen = await ann.do("run", resume=resume)
    assert "Not this one." in texts(seen)[-1][1]
    [request] = (await stage.handle(thread).state()).approvals
    assert (request.status, request.settled_by) == ("rejected", "ann")


@KINDS
async def test_a_customer_writes_while_a_request_is_open_and_reads_the_answer_later(
    front_end: FrontEnd, stage: Stage, kind: str
):
    thread = new_id()
    page = await asked_for_a_letter(front_end, stage, kind, thread)
    seen = await page.do("say", text="say More", messageId="m2")
    assert seen["interrupts"] == []
    assert texts(seen) == [("user", CALL), ("user", "say More")]
    await stage.handle(thread).approve("a1", by=ANN_DECIDES)
    seen = await page.do("connect" if kind == "copilotkit" else "run")
    assert [text for role, text in texts(seen) if role == "user"] == [CALL, "say More"]
    assert texts(seen)[-1][0] == "assistant"
    assert not [one for one in page.events() if "write_letter" in json.dumps(one)]


@KINDS
async def test_a_decision_made_elsewhere_leaves_nobody_stuck(
    front_end: FrontEnd, stage: Stage, kind: str
):
    thread = new_id()
    await asked_for_a_letter(front_end, stage, kind, thread)
    ann = await staff(front_end, stage, kind, thread)
    [interrupt] = (await ann.do("run"))["interrupts"]
    with pytest.raises(ClientError, match="pending interrupt"):
        await ann.do("say", text="Hello?", messageId="m9")
    await stage.handle(thread).reject("a1", by=LEE_DECIDES, message="No.")
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
    seen = await ann.do("run", resume=resume)
    assert seen["interrupts"] == []
    words = [text for role, text in texts(seen) if role == "assistant"]
    assert "Approval a1 is already rejected by lee." in words
    again = await ann.do("run")
    assert again["interrupts"] == []
    assert texts(again) == [one for one in texts(seen) if "Approval a1" not in one[1]]


@KINDS
async def test_after_a_decision_made_elsewhere_a_page_writes_and_connects(
    front_end: FrontEnd, stage: Stage, kind: str
):
    thread = new_id()
    await asked_for_a_letter(front_end, stage, kind, thread)
    ann, other = [await staff(front_end, stage, kind, thread) for _ in range(2)]
    for page in (ann, other):
        assert len((await page.do("run"))["interrupts"]) == 1
    await stage.handle(thread).reject("a1", by=LEE_DECIDES, message="No.")
    connect = "connect" if kind == "copilotkit" else "run"
    with pytest.raises(ClientError, match="pending interrupt"):
        await other.do(connect)  # the client says so; nothing was sent
    seen = await ann.do("say", text="say Anything new?", messageId="m2", resume=left_open(ann))
    assert seen["interrupts"] == []
    assert texts(seen)[-2:] == [("user", "say Anything new?"), ("assistant", "Anything new?")]
    assert "No." in texts(seen)[1][1]
    connected = await other.do(connect, resume=left_open(other))
    assert connected["interrupts"] == []
    assert texts(connected) == texts(seen)
    again = await other.do(connect)
    assert texts(again) == texts(seen)
    [request] = (await stage.handle(thread).state()).approvals
    assert (request.status, request.settled_by, len(request.votes)) == ("rejected", "lee", 1)


@KINDS
async def test_what_is_left_open_is_asked_again_and_a_connection_may_decide(
    front_end: FrontEnd, stage: Stage, kind: str
):
    thread = new_id()
    await asked_for_a_letter(front_end, stage, kind, thread)
    ann = await staff(front_end, stage, kind, thread)
    [interrupt] = (await ann.do("run"))["interrupts"]
    seen = await ann.do("say", text="say More", messageId="m2", resume=left_open(ann))
    assert seen["interrupts"] == []
    [again] = (await ann.do("run"))["interrupts"]
    assert again["id"] == interrupt["id"]
    resume = [{"interruptId": again["id"], "status": "resolved", "payload": {"approved": True}}]
    seen = await ann.do("connect" if kind == "copilotkit" else "run", resume=resume)
    assert seen["interrupts"] == []
    assert "2 to Main Street 1" in json.dumps(seen["messages"])
    [request] = (await stage.handle(thread).state()).approvals
    assert (request.status, request.settled_by) == ("approved", "ann")


def left_open(page: Page) -> list[dict[str, str]]:
    """Return answers to a page's newest interrupts that decide nothing."""
    interrupts = page.events("RUN_FINISHED")[-1]["outcome"]["interrupts"]
    return [{"interruptId": one["id"], "status": "cancelled"} for one in interrupts]


async def test_an_open_stream_closes_its_interrupt_when_somebody_else_decides(
    front_end: FrontEnd, stage: Stage
):
    thread = new_id()
    await asked_for_a_letter(front_end, stage, "http", thread)
    ann = await staff(front_end, stage, "http", thread)
    following = ann.begin("run", forwardedProps={"outlast": {"follow": True}})
    await ann.until_event("RUN_FINISHED")
    [interrupt] = (await ann.do("look"))["interrupts"]
    assert interrupt["id"].startswith("a1~")
    await stage.handle(thread).reject("a1", by=LEE_DECIDES, message="No.")
    await ann.until_event("RUN_FINISHED", 2)
    seen = await ann.do("look")
    assert seen["interrupts"] == []
    assert "No." in texts(seen)[-1][1]
    await ann.do("detach")
    await following


async def test_a_person_who_does_not_decide_goes_on(front_end: FrontEnd, stage: Stage):
    thread = new_id()
    await asked_for_a_letter(front_end, stage, "http", thread)
    ann = await staff(front_end, stage, "http", thread)
    [interrupt] = (await ann.do("run"))["interrupts"]
    resume = [{"interruptId": interrupt["id"], "status": "cancelled"}]
    seen = await ann.do("run", resume=resume)
    assert seen["interrupts"] == []
    activity = next(one for one in seen["messages"] if one["role"] == "activity")
    assert activity["content"]["requests"][0]["why"] == "You have not decided."
    assert (await stage.handle(thread).state()).status == "waiting"


async def test_a_customer_cannot_decide(front_end: FrontEnd, stage: Stage):
    thread = new_id()
    page = await asked_for_a_letter(front_end, stage, "http", thread)
    ann = await staff(front_end, stage, "http", thread)
    [interrupt] = (await ann.do("run"))["interrupts"]
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
    seen = await page.do("run", resume=resume)
    assert texts(seen)[-1] == ("assistant", "Only the team can do this.")
    [request] = (await stage.handle(thread).state()).approvals
    assert (request.status, request.votes) == ("pending", ())


async def test_only_the_audience_is_asked(front_end: FrontEnd, stage: Stage):
    thread = new_id()
    await asked_for_a_letter(front_end, stage, "http", thread)
    lee = await staff(front_end, stage, "http", thread, LEE)
    assert len((await lee.do("run"))["interrupts"]) == 1
    await stage.handle(thread).claim("a1", by=LEE_DECIDES)
    ann = await staff(front_end, stage, "http", thread)
    seen = await ann.do("run")
    assert seen["interrupts"] == []
    [activity] = [one for one in seen["messages"] if one["role"] == "activity"]
    assert "lee is working on it" in activity["content"]["text"]


# --- CopilotKit ----------------------------------------------------------------------------------


async def test_copilotkit_connects_before_the_first_message(front_end: FrontEnd, stage: Stage):
    page = await customer(front_end, stage, "copilotkit", new_id())
    assert (await page.do("connect"))["messages"] == []
    seen = await page.do("say", text="say Hello", messageId="m1")
    assert texts(seen) == [("user", "say Hello"), ("assistant", "Hello")]


async def test_copilotkit_stops_a_run_for_those_who_may(front_end: FrontEnd, stage: Stage):
    thread = new_id()
    page = await customer(front_end, stage, "copilotkit", thread)
    saying = page.begin("say", text="count to 300", messageId="m1")
    await page.until_text(4)
    await page.do("stop")  # refused: the answer goes on
    await page.until_text(30)
    ann = await staff(front_end, stage, "copilotkit", thread)
    await ann.do("stop")
    seen = await saying
    # Its client speaks an earlier version of the protocol, which has no such outcome.
    assert "outcome" not in page.events("RUN_FINISHED")[-1]
    assert seen["state"]["outlast"]["ended"] is True
    assert (await stage.handle(thread).state()).outcome == "cancelled"


# --- Colleagues ----------------------------------------------------------------------------------


async def test_a_colleague_takes_over_and_the_page_reads_what_they_say(
    front_end: FrontEnd, stage: Stage
):
    thread = new_id()
    page = await customer(front_end, stage, "http", thread)
    await page.do("say", text="say Hello", messageId="m1")
    handle = stage.handle(thread)
    await handle.hold(by=LEE_DECIDES)
    # Nobody answers at once, so the request is over, and the message waits for a person.
    await page.do("say", text="Are you there?", messageId="m2")
    following = page.begin("run", forwardedProps={"outlast": {"follow": True}})
    await page.until_event("RUN_FINISHED", 3)
    await handle.say("This is a person.", by=LEE_DECIDES)
    await page.until_event("RUN_FINISHED", 4)
    assert texts(await page.do("look")) == [
        ("user", "say Hello"),
        ("assistant", "Hello"),
        ("user", "Are you there?"),
        ("assistant", "This is a person."),
    ]
    assert "lee" not in json.dumps(page.events())
    await page.do("detach")
    await following


# --- Killing -------------------------------------------------------------------------------------


async def over(command: asyncio.Future[Any], kind: str) -> None:
    """Wait until a client notices that its stream has broken off."""
    try:
        await command
    except ClientError:
        return
    assert kind == "copilotkit"  # it takes a broken connection for the end of a stream


@KINDS
async def test_serve_is_killed_in_mid_answer_and_each_text_is_there_once(
    front_end: FrontEnd, killed_stage: Stage, kind: str
):
    page = await customer(front_end, killed_stage, kind, new_id())
    await page.do("say", text="say Hello", messageId="m1")
    saying = page.begin("say", text="count to 200", messageId="m2")
    await page.until_text(12)
    await killed_stage.kill_serve()
    await over(saying, kind)
    again = page.begin("connect" if kind == "copilotkit" else "run")
    await page.until_text(60)
    await killed_stage.kill_serve()
    await over(again, kind)
    seen = await page.do("connect" if kind == "copilotkit" else "run")
    assert texts(seen) == [
        ("user", "say Hello"),
        ("assistant", "Hello"),
        ("user", "count to 200"),
        ("assistant", counted(200)),
    ]
    assert len((await killed_stage.handle(page.thread).state()).answers) == 2


async def test_the_worker_is_killed_in_mid_answer_and_each_text_is_there_once(
    front_end: FrontEnd, killed_stage: Stage
):
    page = await customer(front_end, killed_stage, "http", new_id())
    saying = page.begin("say", text="count to 120", messageId="m1")
    await page.until_text(12)
    await killed_stage.kill_worker()
    seen = await saying
    assert texts(seen) == [("user", "count to 120"), ("assistant", counted(120))]


async def test_everything_is_killed_in_mid_answer_and_each_text_is_there_once(
    front_end: FrontEnd, killed_stage: Stage
):
    page = await customer(front_end, killed_stage, "http", new_id())
    saying = page.begin("say", text="count to 150", messageId="m1")
    await page.until_text(12)
    await killed_stage.kill_server()
    await killed_stage.kill_worker()
    await killed_stage.kill_serve()
    with pytest.raises(ClientError):
        await saying
    seen = await page.do("run")
    assert texts(seen) == [("user", "count to 150"), ("assistant", counted(150))]
    assert len((await killed_stage.handle(page.thread).state()).answers) == 1
