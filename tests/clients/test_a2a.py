"""A client of the Agent2Agent protocol that is not ours, before real processes: tasks and kills."""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf import json_format

from outlast.client.handle import RunHandle
from outlast.client.identity import person
from outlast.serve.wires.ids import RequestId
from tests.browser.model import counted
from tests.browser.stage import ANN, Stage

pytestmark = pytest.mark.full

SHOP, BANK = "shop-key-that-nobody-guesses", "bank-key-that-nobody-guesses"
LETTER = {"address": "Main Street 1", "text": "Hello", "copies": 2}
CALL = f"call write_letter {json.dumps(LETTER)}"
SENT = "2 to Main Street 1: Hello"
SECONDS = 60


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The processes of the tests that kill none of them."""
    keys = {"OUTLAST_API_KEYS": f"shop={SHOP},bank={BANK}"}
    home = tmp_path_factory.mktemp("stage")
    async with Stage(home, people=(ANN,), environment=keys) as stage:
        yield stage


@pytest.fixture
async def killed_stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Processes of one test, which kills them."""
    keys = {"OUTLAST_API_KEYS": f"shop={SHOP}"}
    async with Stage(tmp_path, people=(ANN,), environment=keys) as stage:
        yield stage


@asynccontextmanager
async def opened(
    stage: Stage, key: str | None = SHOP, *, binding: str = "JSONRPC", streams: bool = False
) -> AsyncGenerator[Any]:
    """Yield a client of the Writer, as its card says; without a key, one of the team."""
    headers = {"Origin": stage.url()} if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=SECONDS) as http:
        card = await A2ACardResolver(http, f"{stage.url()}/a2a/Writer").get_agent_card()
        config = ClientConfig(
            streaming=streams, httpx_client=http, supported_protocol_bindings=[binding]
        )
        yield ClientFactory(config).create(card)


def saying(*texts: str, message_id: str = "", **fields: Any) -> Any:
    """Return a request with a message."""
    parts = [pb.Part(text=text) for text in texts]
    message = pb.Message(
        message_id=message_id or secrets.token_hex(8), role=pb.ROLE_USER, parts=parts, **fields
    )
    return pb.SendMessageRequest(message=message)


def at_once(request: Any) -> Any:
    request.configuration.return_immediately = True
    return request


async def sent(client: Any, request: Any) -> Any:
    """Send a message, and return its task."""
    [response] = [one async for one in client.send_message(request)]
    return response.task


def text_of(task: Any) -> list[str]:
    return ["".join(part.text for part in one.parts) for one in task.artifacts]


async def until(client: Any, task_id: str, state: int) -> Any:
    """Poll a task until it has a state."""
    async with asyncio.timeout(SECONDS):
        while True:
            task = await client.get_task(pb.GetTaskRequest(id=task_id))
            if task.status.state == state:
                return task
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_a_message_is_a_task_and_its_conversation_goes_on(stage: Stage, binding: str) -> None:
    async with opened(stage, binding=binding) as client:
        first = await sent(client, saying("say Hello there"))
        assert first.status.state == pb.TASK_STATE_COMPLETED
        assert text_of(first) == ["Hello there"]
        assert first.status.timestamp.seconds > 0
        again = saying("say Once more", message_id="m-2", context_id=first.context_id)
        second = await sent(client, again)
        assert (second.context_id, text_of(second)) == (first.context_id, ["Once more"])
        assert second.id != first.id
        assert (await sent(client, again)).id == second.id
        read = await client.get_task(pb.GetTaskRequest(id=first.id))
        assert (read.id, text_of(read)) == (first.id, ["Hello there"])
    assert len((await RunHandle(stage.client, first.context_id).state()).answers) == 2


async def test_a_message_that_is_sent_again_begins_no_second_task(stage: Stage) -> None:
    async with opened(stage) as client:
        request = saying("say Once", message_id=secrets.token_hex(40))
        tasks = await asyncio.gather(*(sent(client, request) for _ in range(3)))
    assert {one.id for one in tasks} == {tasks[0].id}
    assert len((await RunHandle(stage.client, tasks[0].context_id).state()).answers) == 1


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_a_task_is_streamed(stage: Stage, binding: str) -> None:
    async with opened(stage, binding=binding, streams=True) as client:
        events = [one async for one in client.send_message(saying("count to 20"))]
        kinds = [one.WhichOneof("payload") for one in events]
        assert (kinds[0], kinds[-1]) == ("task", "status_update")
        updates = [one.artifact_update for one in events if one.HasField("artifact_update")]
        assert "".join(part.text for one in updates for part in one.artifact.parts) == counted(20)
        assert len(updates) > 3
        assert [one.append for one in updates] == [False] + [True] * (len(updates) - 1)
        assert [one.last_chunk for one in updates] == [False] * (len(updates) - 1) + [True]
        assert events[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
        task_id = events[0].task.id
        with pytest.raises(UnsupportedOperationError):
            [one async for one in client.subscribe(pb.SubscribeToTaskRequest(id=task_id))]


async def test_tasks_are_listed_and_nobody_elses(stage: Stage) -> None:
    async with opened(stage) as shop, opened(stage, BANK) as bank:
        task = await sent(bank, saying("say Mine"))
        later = await sent(bank, saying("say More", context_id=task.context_id))
        other = await sent(shop, saying("say Theirs"))
        async with asyncio.timeout(SECONDS):
            while True:  # a new conversation is found a moment later
                listed = await bank.list_tasks(pb.ListTasksRequest(include_artifacts=True))
                if listed.total_size >= 2:
                    break
                await asyncio.sleep(0.1)
        assert [one.id for one in listed.tasks] == [later.id, task.id]
        assert [text_of(one) for one in listed.tasks] == [["More"], ["Mine"]]
        page = await bank.list_tasks(pb.ListTasksRequest(page_size=1))
        assert ([one.id for one in page.tasks], page.total_size) == ([later.id], 2)
        assert not page.tasks[0].artifacts
        rest = await bank.list_tasks(
            pb.ListTasksRequest(page_size=1, page_token=page.next_page_token)
        )
        assert ([one.id for one in rest.tasks], rest.next_page_token) == ([task.id], "")
        theirs = await bank.list_tasks(pb.ListTasksRequest(context_id=other.context_id))
        assert not theirs.tasks
        working = pb.ListTasksRequest(status=pb.TASK_STATE_WORKING)
        assert not (await bank.list_tasks(working)).tasks
        for use in (
            bank.get_task(pb.GetTaskRequest(id=other.id)),
            bank.cancel_task(pb.CancelTaskRequest(id=other.id)),
            bank.get_task(pb.GetTaskRequest(id="task_nothing")),
            sent(bank, saying("say Let me in", task_id=other.id)),
        ):
            with pytest.raises(TaskNotFoundError):
                await use
        with pytest.raises(Exception, match="There is no context"):
            await sent(bank, saying("say Let me in", context_id=other.context_id))
    assert len((await RunHandle(stage.client, other.context_id).state()).answers) == 1


async def test_a_decider_answers_what_the_task_requires(stage: Stage) -> None:
    async with opened(stage, None) as client:
        asks = await sent(client, saying(CALL))
        assert asks.status.state == pb.TASK_STATE_INPUT_REQUIRED
        said = json_format.MessageToDict(asks.status.message)
        [request] = said["parts"][1]["data"]["requests"]
        assert (request["tool"], json.loads(request["arguments"])) == ("write_letter", LETTER)
        with pytest.raises(Exception, match="needs a data part"):
            await sent(client, saying("Yes, do it", task_id=asks.id))
        answer = saying(task_id=asks.id, context_id=asks.context_id, message_id="yes")
        part = answer.message.parts.add()
        json_format.ParseDict({"requestId": request["requestId"], "approve": True}, part.data)
        done = await sent(client, answer)
        assert (done.id, done.status.state) == (asks.id, pb.TASK_STATE_COMPLETED)
        assert text_of(done)[-1].endswith(SENT)
        with pytest.raises(UnsupportedOperationError):
            await sent(client, answer)


async def test_a_decider_responds_or_rejects(stage: Stage) -> None:
    article = json.dumps({"article": "pens"})
    for answer, words in (
        ({"response": {"count": 3}}, "3"),
        ({"approve": False, "reason": "Not now."}, "Not now."),
    ):
        async with opened(stage, None) as client:
            asks = await sent(client, saying(f"call count_stock {article}"))
            said = json_format.MessageToDict(asks.status.message)
            [request] = said["parts"][1]["data"]["requests"]
            request_id = request["requestId"]
            reply = saying(task_id=asks.id)
            for wrong in ({"requestId": "x", **answer}, {"requestId": request_id}):
                refused = saying(task_id=asks.id)
                json_format.ParseDict(wrong, refused.message.parts.add().data)
                with pytest.raises(Exception, match=r"is none of this desk|either approve"):
                    await sent(client, refused)
            json_format.ParseDict(
                {"requestId": request_id, **answer}, reply.message.parts.add().data
            )
            done = await sent(client, reply)
            assert done.status.state == pb.TASK_STATE_COMPLETED
            assert words in text_of(done)[-1]


async def test_programs_and_customers_wait_for_the_team(stage: Stage) -> None:
    run_id = f"a2a-test-{secrets.token_hex(6)}"
    async with opened(stage, stage.token(run_id)) as customer, opened(stage) as shop:
        waiting = await sent(customer, saying(CALL))
        assert (waiting.context_id, waiting.status.state) == (run_id, pb.TASK_STATE_WORKING)
        assert "letter" not in str(waiting.status)
        answer = saying(task_id=waiting.id)
        request_id = str(RequestId("a1", ""))
        json_format.ParseDict(
            {"requestId": request_id, "approve": True}, answer.message.parts.add().data
        )
        with pytest.raises(Exception, match="403"):
            await sent(customer, answer)
        with pytest.raises(TaskNotFoundError):
            await shop.get_task(pb.GetTaskRequest(id=waiting.id))
        with pytest.raises(Exception, match="403"):
            await customer.cancel_task(pb.CancelTaskRequest(id=waiting.id))
        [listed] = (await customer.list_tasks(pb.ListTasksRequest())).tasks
        assert listed.id == waiting.id
        handle = RunHandle(stage.client, run_id)
        await handle.approve((await handle.approvals())[0], by=person("ann", groups=["billing"]))
        done = await until(customer, waiting.id, pb.TASK_STATE_COMPLETED)
        assert text_of(done)[-1].endswith(SENT)


async def test_a_task_is_cancelled(stage: Stage) -> None:
    async with opened(stage) as client:
        begun = await sent(client, at_once(saying("count to 500")))
        assert begun.status.state == pb.TASK_STATE_WORKING
        cancelled = await client.cancel_task(pb.CancelTaskRequest(id=begun.id))
        assert cancelled.status.state == pb.TASK_STATE_CANCELED
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(pb.CancelTaskRequest(id=begun.id))
        with pytest.raises(UnsupportedOperationError):
            await sent(client, saying("say More", context_id=begun.context_id))
        push = saying("say Hi")
        push.configuration.task_push_notification_config.url = "http://127.0.0.1:1/"
        with pytest.raises(PushNotificationNotSupportedError):
            await sent(client, push)


class Following:
    """A client that follows a task, and comes back to it."""

    def __init__(self) -> None:
        self.task_id = ""
        self.texts: dict[str, str] = {}
        self.state = 0

    async def read(self, events: Any, words: int | None = None) -> None:
        async for one in events:
            match one.WhichOneof("payload"):
                case "task":
                    self.task_id, self.state = one.task.id, one.task.status.state
                    self.texts = {
                        made.artifact_id: "".join(part.text for part in made.parts)
                        for made in one.task.artifacts
                    }
                case "artifact_update":
                    made = one.artifact_update.artifact
                    text = "".join(part.text for part in made.parts)
                    before = self.texts.get(made.artifact_id, "")
                    self.texts[made.artifact_id] = (
                        before + text if one.artifact_update.append else text
                    )
                case _:
                    self.state = one.status_update.status.state
            if words is not None and self.words >= words:
                return

    @property
    def words(self) -> int:
        return sum(len(text.split()) for text in self.texts.values())


async def test_a_task_goes_on_after_each_process_is_killed(killed_stage: Stage) -> None:
    stage, following = killed_stage, Following()
    async with opened(stage, streams=True) as client:
        stream = client.send_message(saying("count to 400"))
        await following.read(stream, words=10)
        await stage.kill_serve()
        with pytest.raises(Exception, match=r".+"):
            await following.read(stream)
        before = following.words
        assert before < 400
        request = pb.SubscribeToTaskRequest(id=following.task_id)
        stream = client.subscribe(request)
        await following.read(stream, words=before + 10)
        await stage.kill_worker()
        await following.read(stream)
        assert following.state == pb.TASK_STATE_COMPLETED
        assert list(following.texts.values()) == [counted(400)]
        task = await client.get_task(pb.GetTaskRequest(id=following.task_id))
        assert text_of(task) == [counted(400)]
