"""The real chat client of the Vercel AI SDK before real processes: each text once, nobody stuck."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from outlast.client.handle import RunHandle
from outlast.client.identity import person
from tests.browser.model import counted
from tests.browser.stage import ANN, Stage
from tests.clients.front_end import FrontEnd

LETTER = {"address": "Main Street 1", "text": "Hello", "copies": 2}
CALL = f"call write_letter {json.dumps(LETTER)}"
SENT = "2 to Main Street 1: Hello"
BEN = person("ben", groups=["billing"])
PATIENCE_SECONDS = 30


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The processes of the tests that kill none of them."""
    async with Stage(tmp_path_factory.mktemp("stage"), people=(ANN,)) as stage:
        yield stage


@pytest.fixture
async def killed_stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Processes of one test, which kills them."""
    async with Stage(tmp_path, people=(ANN,)) as stage:
        yield stage


@pytest.fixture(scope="module")
async def node_of_the_sdk() -> AsyncIterator[FrontEnd]:
    """A Node process with the real client."""
    async with FrontEnd("vercel.mjs") as front_end:
        yield front_end


@pytest.fixture
async def node(node_of_the_sdk: FrontEnd) -> AsyncIterator[FrontEnd]:
    """That process, without what other tests have opened."""
    async with node_of_the_sdk.one_test() as front_end:
        yield front_end
        assert front_end.unhandled == []


class Chat:
    """A page with one chat."""

    def __init__(self, node: FrontEnd, run_id: str) -> None:
        self.node = node
        self.run_id = run_id
        self._name = secrets.token_hex(4)

    async def open(self, stage: Stage, headers: dict[str, str], **options: Any) -> "Chat":
        fields = {"agent": "Writer", **options}
        await self.node.do(
            "open", name=self._name, url=stage.url(), chat=self.run_id, headers=headers, **fields
        )
        return self

    async def do(self, what: str, **fields: Any) -> Any:
        return await self.node.do(what, name=self._name, **fields)

    def begin(self, what: str, **fields: Any) -> asyncio.Future[Any]:
        return self.node.begin(what, name=self._name, **fields)

    async def until(self, condition: Callable[[Any], bool]) -> Any:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition(seen := await self.do("look")):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return seen


def texts(seen: Any) -> list[str]:
    """Return what the page shows of the assistant, a text for each of its messages."""
    return [
        "|".join(part["text"] for part in message["parts"] if part["type"] == "text")
        for message in seen["messages"]
        if message["role"] == "assistant"
    ]


def tools(seen: Any) -> list[Any]:
    parts = (part for message in seen["messages"] for part in message["parts"])
    return [part for part in parts if part["type"] == "dynamic-tool"]


def is_asked(seen: Any) -> bool:
    waits = [one for one in tools(seen) if one["state"] == "approval-requested"]
    return bool(waits) and seen["status"] == "ready"


def words(seen: Any) -> int:
    return sum(len(text.split()) for text in texts(seen))


async def customer(node: FrontEnd, stage: Stage, run_id: str, **options: Any) -> Chat:
    headers = {"Authorization": f"Bearer {stage.token(run_id)}"}
    return await Chat(node, run_id).open(stage, headers, **options)


async def staff(node: FrontEnd, stage: Stage, run_id: str, **options: Any) -> Chat:
    return await Chat(node, run_id).open(stage, {"Origin": stage.url()}, **options)


def new_id() -> str:
    return f"vercel-{secrets.token_hex(6)}"


async def test_a_customer_chats(node: FrontEnd, stage: Stage) -> None:
    chat = await customer(node, stage, new_id())
    seen = await chat.do("send", text="count to 12")
    assert (texts(seen), seen["status"], seen["error"]) == ([counted(12)], "ready", None)
    seen = await chat.do("send", text="say Goodbye")
    assert texts(seen) == [counted(12), "Goodbye"]
    state = await RunHandle(stage.client, chat.run_id).state()
    assert len(state.answers) == 2, "each message is sent once"
    again = await customer(node, stage, chat.run_id)
    seen = await again.do("resume")
    assert (seen["messages"], seen["status"]) == ([], "ready"), "nothing to resume"


async def test_a_decider_approves_in_the_chat(node: FrontEnd, stage: Stage) -> None:
    chat = await staff(node, stage, new_id())
    seen = await chat.do("send", text=CALL)
    [tool] = tools(seen)
    assert (tool["state"], tool["input"], seen["status"]) == ("approval-requested", LETTER, "ready")
    await chat.do("approve", approval=tool["approval"]["id"], approved=True)
    seen = await chat.until(lambda one: "Done" in "".join(texts(one)) and one["status"] == "ready")
    [text], [tool] = texts(seen), tools(seen)
    assert tool["state"] == "output-available"
    assert tool["output"].endswith(SENT)
    assert text == f"Done: {tool['output']}"
    state = await RunHandle(stage.client, chat.run_id).state()
    [request] = state.approvals
    assert request.settled_by == "ann"
    # The decision stays in the messages, and is not made again.
    seen = await chat.do("send", text="say Thanks")
    assert (texts(seen)[-1], len(tools(seen))) == ("Thanks", 1)


async def test_a_decider_rejects_in_the_chat(node: FrontEnd, stage: Stage) -> None:
    chat = await staff(node, stage, new_id())
    [tool] = tools(await chat.do("send", text=CALL))
    await chat.do("approve", approval=tool["approval"]["id"], approved=False, reason="Not today.")
    seen = await chat.until(lambda one: bool(texts(one)[-1]) and one["status"] == "ready")
    [tool] = tools(seen)
    assert tool["state"] == "output-denied"
    assert "Not today." in texts(seen)[-1]


async def test_customers_are_not_asked_and_see_no_call(node: FrontEnd, stage: Stage) -> None:
    chat = await customer(node, stage, new_id())
    sending = chat.begin("send", text=CALL)
    seen = await chat.until(lambda one: any(not d["data"]["works"] for d in one["data"]))
    assert (tools(seen), "".join(texts(seen))) == ([], "")
    assert seen["status"] in {"submitted", "streaming"}
    assert all(part["data"].keys() == {"works", "waitsFor"} for part in seen["data"])
    await RunHandle(stage.client, chat.run_id).approve("a1", by=BEN)
    seen = await sending
    [text] = texts(seen)
    assert text.endswith(SENT)
    assert not tools(seen)


async def test_a_decision_that_is_made_elsewhere(node: FrontEnd, stage: Stage) -> None:
    chat = await staff(node, stage, new_id())
    [tool] = tools(await chat.do("send", text=CALL))
    await RunHandle(stage.client, chat.run_id).approve("a1", by=BEN)
    # Deciding now does no harm: the answer goes on.
    await chat.do("approve", approval=tool["approval"]["id"], approved=False)
    seen = await chat.until(lambda one: "Done" in "".join(texts(one)) and one["status"] == "ready")
    [text], [tool] = texts(seen), tools(seen)
    assert tool["state"] == "output-available"
    assert text == f"Done: {tool['output']}"
    other = await staff(node, stage, new_id())
    await other.do("send", text=CALL)
    await RunHandle(stage.client, other.run_id).approve("a1", by=BEN)
    await other.do("resume")
    seen = await other.until(lambda one: "Done" in "".join(texts(one)) and one["status"] == "ready")
    [text], [tool] = texts(seen), tools(seen)
    assert tool["state"] == "output-available"
    assert text == f"Done: {tool['output']}"


async def test_a_message_while_a_request_is_open(node: FrontEnd, stage: Stage) -> None:
    chat = await staff(node, stage, new_id())
    [tool] = tools(await chat.do("send", text=CALL))
    seen = await chat.do("send", text="say Hurry")
    # The newest answer asks again: the client sends decisions of its last message only.
    [_, again] = tools(seen)
    assert (again["toolCallId"], seen["status"], seen["error"]) == (
        tool["toolCallId"],
        "ready",
        None,
    )
    assert again["approval"]["id"] != tool["approval"]["id"]
    await chat.do("approve", approval=again["approval"]["id"], approved=True)
    await asyncio.sleep(0)
    handle = RunHandle(stage.client, chat.run_id)
    await handle.wait(lambda state: [one.status for one in state.approvals] == ["approved"])
    await handle.wait(lambda state: state.status == "idle")
    await chat.until(lambda one: one["status"] == "ready")


async def test_a_request_of_a_nested_run_is_decided_in_the_chat(
    node: FrontEnd, stage: Stage
) -> None:
    chat = await staff(node, stage, new_id(), agent="Lead")
    seen = await chat.do("send", text=f"call ask_writer {json.dumps({'input': CALL})}")
    assert is_asked(seen)
    [outer, tool] = tools(seen)
    assert (outer["toolName"], outer["state"]) == ("ask_writer", "input-available")
    assert (tool["toolName"], tool["state"], tool["input"]) == (
        "write_letter",
        "approval-requested",
        LETTER,
    )
    await chat.do("approve", approval=tool["approval"]["id"], approved=True)
    seen = await chat.until(lambda one: "Done" in "".join(texts(one)) and one["status"] == "ready")
    [text], [outer, tool] = texts(seen), tools(seen)
    assert (outer["state"], tool["state"]) == ("output-available", "output-available")
    assert text.endswith(SENT)
    state = await RunHandle(stage.client, chat.run_id).state()
    assert len(state.answers) == 1, "the client sends nothing again"
    # A colleague decides the next one, while the chat still shows it.
    seen = await chat.do("send", text=f"call ask_writer {json.dumps({'input': CALL})}")
    handle = RunHandle(stage.client, chat.run_id)
    [request] = await handle.approvals()
    await handle.reject(request, by=BEN, message="Not twice.")
    await chat.do("approve", approval=tools(seen)[-1]["approval"]["id"], approved=True)
    seen = await chat.until(lambda one: "Not twice." in texts(one)[-1] and one["status"] == "ready")
    assert tools(seen)[-1]["state"] == "output-denied"


async def test_a_failed_question_is_asked_again_and_an_answered_one_not(
    node: FrontEnd, stage: Stage
) -> None:
    run_id, words = new_id(), secrets.token_hex(4)
    chat = await customer(node, stage, run_id)
    seen = await chat.do("send", text=f"fail once, {words}")
    assert (seen["status"], seen["error"]) == ("error", "The question could not be answered.")
    seen = await chat.do("regenerate")
    assert (seen["status"], "Only the team" in seen["error"]) == ("error", True)
    team = await staff(node, stage, run_id, messages=seen["messages"][:1])
    seen = await team.do("regenerate")
    assert (texts(seen), seen["error"]) == ([words], None)
    seen = await team.do("regenerate")
    assert "This message has an answer" in seen["error"]
    # The page of the customer has the answer, too.
    assert texts(await chat.do("resume")) == [words]
    state = await RunHandle(stage.client, run_id).state()
    assert [one.failure is None for one in state.answers] == [False, True]


async def test_a_message_that_did_not_arrive_is_sent_by_regenerate(
    node: FrontEnd, stage: Stage
) -> None:
    run_id = new_id()
    offline = await Chat(node, run_id).open(stage, {"Authorization": "Bearer oc1.nothing"})
    seen = await offline.do("send", text="say Hello")
    assert seen["status"] == "error"
    chat = await customer(node, stage, run_id, messages=seen["messages"])
    assert texts(await chat.do("regenerate")) == ["Hello"]
    assert len((await RunHandle(stage.client, run_id).state()).answers) == 1


async def test_errors_are_shown(node: FrontEnd, stage: Stage) -> None:
    unknown = await customer(node, stage, new_id(), agent="Nobody")
    seen = await unknown.do("send", text="Hello")
    assert seen["status"] == "error"
    assert "There is no agent" in seen["error"]
    run_id = new_id()
    forbidden = await Chat(node, run_id).open(
        stage, {"Authorization": f"Bearer {stage.token(new_id())}"}
    )
    seen = await forbidden.do("send", text="Hello")
    assert "This token does not open" in seen["error"]
    seen = await forbidden.do("resume")
    assert seen["status"] == "error"
    ended = await customer(node, stage, new_id())
    await ended.do("send", text="say Hi")
    await RunHandle(stage.client, ended.run_id).cancel("after_turn")
    await RunHandle(stage.client, ended.run_id).result()
    seen = await ended.do("send", text="say More")
    assert "has ended" in seen["error"]


async def test_a_chat_goes_on_after_each_process_is_killed(
    node: FrontEnd, killed_stage: Stage
) -> None:
    stage = killed_stage
    chat = await customer(node, stage, new_id())
    stays = chat.begin("send", text="count to 150")
    await chat.until(lambda one: words(one) >= 10)
    await stage.kill_serve()
    seen = await stays
    assert (seen["status"], words(seen) < 150) == ("error", True)
    resuming = chat.begin("resume")
    await chat.until(lambda one: words(one) >= 25)
    await stage.kill_worker()
    seen = await resuming
    assert (texts(seen), seen["status"]) == ([counted(150)], "ready")
    # A page that missed the end has all of it, too.
    missed = await customer(node, stage, chat.run_id, messages=seen["messages"][:1])
    assert texts(await missed.do("resume")) == [counted(150)]


async def test_everything_is_killed_in_mid_answer_and_each_text_is_there_once(
    node: FrontEnd, killed_stage: Stage
) -> None:
    stage = killed_stage
    chat = await customer(node, stage, new_id())
    stays = chat.begin("send", text="count to 150")
    await chat.until(lambda one: words(one) >= 10)
    await stage.kill_server()
    await stage.kill_worker()
    await stage.kill_serve()
    seen = await stays
    assert (seen["status"], words(seen) < 150) == ("error", True)
    seen = await chat.do("resume")
    assert (texts(seen), seen["status"]) == ([counted(150)], "ready")
    state = await RunHandle(stage.client, chat.run_id).state()
    assert len(state.answers) == 1
