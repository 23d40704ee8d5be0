"""OpenAI's Python client before real processes: answers, decisions, cuts and kills."""

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from outlast.client.handle import RunHandle
from outlast.client.identity import person
from tests import forked
from tests.browser.model import counted
from tests.browser.stage import ANN, Person, Stage

pytestmark = pytest.mark.full

Start = Callable[..., Awaitable[asyncio.subprocess.Process]]

EXAMPLES = Path(__file__).parents[2] / "examples"

LETTER = {"address": "Main Street 1", "text": "Hello", "copies": 2}
CALL = f"call write_letter {json.dumps(LETTER)}"
BEN = person("ben", groups=["billing"])
SENT = "2 to Main Street 1: Hello"


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The processes of the tests that kill none of them."""
    async with Stage(tmp_path_factory.mktemp("stage"), people=(ANN,)) as stage:
        yield stage


@pytest.fixture
async def killed_stage(tmp_path: Any) -> AsyncIterator[Stage]:
    """Processes of one test, which kills them."""
    async with Stage(tmp_path, people=(ANN,)) as stage:
        yield stage


def staff(stage: Stage, person: Person = ANN, **options: Any) -> Any:
    """Return the client of a member of the team, whom the desk knows without a key."""

    async def without_key(request: Any) -> None:
        del request.headers["Authorization"]

    return AsyncOpenAI(
        base_url=f"{stage.url(person)}/v1",
        api_key="none",
        default_headers={"Origin": stage.url(person)},
        http_client=openai.DefaultAsyncHttpxClient(event_hooks={"request": [without_key]}),
        **options,
    )


def customer(stage: Stage, run_id: str) -> Any:
    """Return the client of a customer with a token for a conversation."""
    return AsyncOpenAI(base_url=f"{stage.url()}/v1", api_key=stage.token(run_id))


def new_id() -> str:
    return f"oai-{secrets.token_hex(6)}"


def requests_of(response: Any) -> list[Any]:
    return [one for one in response.output if one.type == "mcp_approval_request"]


def decision(request: Any, *, approve: bool = True) -> Any:
    return {
        "type": "mcp_approval_response",
        "approval_request_id": request.id,
        "approve": approve,
    }


async def test_an_answer_and_the_next_one(stage: Stage) -> None:
    client = customer(stage, new_id())
    first = await client.responses.create(model="Writer", input="say Hello there")
    assert (first.status, first.output_text, first.model) == ("completed", "Hello there", "Writer")
    second = await client.responses.create(
        model="Writer", input="say Once more", previous_response_id=first.id
    )
    assert second.output_text == "Once more"
    assert (await client.responses.retrieve(first.id)).output_text == "Hello there"
    again = await client.responses.create(
        model="Writer", input="say Once more", previous_response_id=first.id
    )
    assert again.output_text == "Once more"
    assert again.conversation == second.conversation


async def test_the_example_goes_on_where_it_was_ended(stage: Stage, tmp_path: Path) -> None:
    environment = os.environ | {
        "DESK_URL": stage.url(),
        "DESK_TOKEN": stage.token(new_id()),
        "PYTHONPATH": str(EXAMPLES),
    }

    async def chat(start: Start, said: str) -> str:
        process = await start(
            *("-m", "openai_chat.chat", "Writer"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
            cwd=tmp_path,
        )
        async with asyncio.timeout(60):
            shown, _ = await process.communicate(said.encode())
        assert process.returncode == 0
        return shown.decode()

    said = "say Hello there\n\nsay Once more\n"
    assert await chat(forked.start_anew, said) == "Hello there\nOnce more\n"
    assert await chat(forked.start, "say And again\n") == "Once more\nAnd again\n"


async def test_a_stream_is_what_the_real_client_reads(stage: Stage) -> None:
    client = staff(stage)
    async with client.responses.stream(model="Writer", input="count to 20") as stream:
        pieces = [one.delta async for one in stream if one.type == "response.output_text.delta"]
        final = await stream.get_final_response()
    assert "".join(pieces) == final.output_text == counted(20)
    assert len(pieces) > 3
    async with client.responses.stream(response_id=final.id, starting_after=0) as stream:
        assert (await stream.get_final_response()).output_text == counted(20)


async def test_a_request_is_decided_in_the_next_call(stage: Stage) -> None:
    client = staff(stage)
    asked = await client.responses.create(model="Writer", input=CALL)
    [request] = requests_of(asked)
    assert (asked.status, request.name) == ("completed", "write_letter")
    assert json.loads(request.arguments) == LETTER
    done = await client.responses.create(
        model="Writer", previous_response_id=asked.id, input=[decision(request)]
    )
    assert done.status == "completed"
    assert done.output_text.endswith(SENT)
    [call] = [one for one in done.output if one.type == "mcp_call"]
    assert call.approval_request_id == request.id
    state = await stage.client.get_workflow_handle(asked.conversation.id).describe()
    assert state.id == asked.conversation.id
    # The decision counts once, and a repeated one is the same.
    same = await client.responses.create(
        model="Writer", previous_response_id=asked.id, input=[decision(request)]
    )
    assert same.output_text == done.output_text
    with pytest.raises(openai.ConflictError):
        await client.responses.create(
            previous_response_id=asked.id, input=[decision(request, approve=False)]
        )
    refused = await client.responses.create(model="Writer", input=CALL)
    [request] = requests_of(refused)
    ended = await client.responses.create(
        previous_response_id=refused.id, input=[decision(request, approve=False)]
    )
    assert ended.status == "completed"
    assert SENT not in ended.output_text
    assert not requests_of(ended)


async def test_a_request_of_a_nested_run_is_decided_in_the_next_call(stage: Stage) -> None:
    client, asks = staff(stage), f"call ask_writer {json.dumps({'input': CALL})}"
    asked = await client.responses.create(model="Lead", input=asks)
    [request] = requests_of(asked)
    assert (asked.status, request.name, request.server_label) == (
        "completed",
        "write_letter",
        "Writer",
    )
    assert json.loads(request.arguments) == LETTER
    done = await client.responses.create(previous_response_id=asked.id, input=[decision(request)])
    assert done.status == "completed"
    assert done.output_text.endswith(SENT)
    again = await client.responses.create(
        model="Lead", previous_response_id=done.id, input=asks, stream=True
    )
    [*_, last] = [event async for event in again]
    [request] = requests_of(last.response)
    handle = RunHandle(stage.client, asked.conversation.id)
    await handle.reject((await handle.approvals())[0], by=BEN, message="Not twice.")
    rest = await client.responses.create(previous_response_id=last.response.id, input=[])
    assert "Not twice." in rest.output_text
    assert not requests_of(rest)


async def test_customers_see_no_request_and_cannot_decide(stage: Stage) -> None:
    run_id = new_id()
    client, team = customer(stage, run_id), staff(stage)
    waiting = await client.responses.create(model="Writer", input=CALL)
    assert (waiting.status, waiting.output) == ("in_progress", [])
    with pytest.raises(openai.PermissionDeniedError, match="Only the team"):
        await client.responses.create(
            previous_response_id=waiting.id,
            input=[{"type": "mcp_approval_response", "approval_request_id": "a1", "approve": True}],
        )
    # A decider who reads the same response is asked.
    [request] = requests_of(await team.responses.retrieve(waiting.id))
    await team.responses.create(
        previous_response_id=waiting.id, input=[decision(request)], background=True
    )
    events = [event async for event in await client.responses.retrieve(waiting.id, stream=True)]
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text.endswith(SENT)
    assert {one.type for one in events[-1].response.output} == {"message"}


async def test_a_decision_that_is_made_elsewhere(stage: Stage) -> None:
    client = staff(stage)
    asked = await client.responses.create(model="Writer", input=CALL)
    [request] = requests_of(asked)
    still = await client.responses.create(previous_response_id=asked.id, input=[])
    assert still.id == asked.id
    assert requests_of(still) == [request]
    async with asyncio.timeout(30):
        await RunHandle(stage.client, asked.conversation.id).reject("a1", by=BEN, message="No.")
    rest = await client.responses.create(previous_response_id=asked.id, input=[])
    assert rest.status == "completed"
    assert not requests_of(rest)
    assert "No." in rest.output_text


async def test_a_message_while_a_request_is_open(stage: Stage) -> None:
    client = staff(stage)
    asked = await client.responses.create(model="Writer", input=CALL)
    [request] = requests_of(asked)
    more = await client.responses.create(
        model="Writer", previous_response_id=asked.id, input="say Thanks"
    )
    assert [one.id for one in requests_of(more)] == [request.id]
    done = await client.responses.create(previous_response_id=more.id, input=[decision(request)])
    assert done.status == "completed"
    assert done.output_text
    assert not requests_of(done)


async def test_errors_are_those_of_the_client(stage: Stage) -> None:
    mine, other = customer(stage, new_id()), new_id()
    with pytest.raises(openai.NotFoundError, match="There is no agent 'Nobody'") as unknown:
        await mine.responses.create(model="Nobody", input="Hello")
    assert unknown.value.code == "agent_not_found"
    with pytest.raises(openai.BadRequestError, match="own instructions") as unsupported:
        await mine.responses.create(model="Writer", input="Hello", instructions="Obey")
    assert unsupported.value.code == "unsupported_parameter"
    with pytest.raises(openai.AuthenticationError, match="This token does not open"):
        await mine.responses.create(model="Writer", input="Hello", conversation=other)
    theirs = await customer(stage, other).responses.create(model="Writer", input="say secret")
    with pytest.raises(openai.AuthenticationError):
        await mine.responses.retrieve(theirs.id)
    with pytest.raises(openai.AuthenticationError):
        await mine.responses.create(model="Writer", input="Hi", previous_response_id=theirs.id)
    with pytest.raises(openai.PermissionDeniedError):
        await customer(stage, other).responses.cancel(theirs.id)
    with pytest.raises(openai.NotFoundError) as missing:
        await mine.responses.retrieve("resp_nothing")
    assert missing.value.code == "response_not_found"
    with pytest.raises(openai.AuthenticationError) as key:
        await AsyncOpenAI(base_url=f"{stage.url()}/v1", api_key="wrong").models.list()
    assert key.value.code == "unknown_key"
    models = await staff(stage).models.list()
    assert {"Triage", "Writer"} <= {one.id for one in models.data}


async def test_a_response_is_cancelled_with_its_run(stage: Stage) -> None:
    client = staff(stage)
    begun = await client.responses.create(model="Writer", input="count to 500", background=True)
    assert begun.status in {"queued", "in_progress"}
    assert (await client.responses.cancel(begun.id)).id == begun.id
    [*_, last] = [one async for one in await client.responses.retrieve(begun.id, stream=True)]
    assert (last.type, last.response.status) == ("response.incomplete", "cancelled")
    assert (await client.responses.cancel(begun.id)).status == "cancelled"
    with pytest.raises(openai.ConflictError, match="has ended"):
        await client.responses.create(
            model="Writer", previous_response_id=begun.id, input="say More"
        )


class Reading:
    """A client that reads one response, and comes back to it."""

    def __init__(self) -> None:
        self.response_id = ""
        self.after: int | None = None
        self.texts: dict[int, str] = {}
        self.final: Any = None

    def take(self, event: Any) -> None:
        if event.type == "response.in_progress" and event.sequence_number == self.after:
            assert event.response.status == "in_progress"  # trouble, or that it is over
            return
        assert self.after is None or event.sequence_number > self.after
        self.after = event.sequence_number
        match event.type:
            case "response.created":
                self.response_id = event.response.id
            case "response.output_text.delta":
                self.texts[event.output_index] = (
                    self.texts.get(event.output_index, "") + event.delta
                )
            case "response.output_text.done":
                assert self.texts[event.output_index] == event.text
            case "response.output_item.done" if event.item.type == "message":
                if not event.item.content:
                    self.texts.pop(event.output_index)
            case "response.completed":
                self.final = event.response
            case _:
                pass

    @property
    def words(self) -> int:
        return sum(len(text.split()) for text in self.texts.values())

    async def read(self, stream: Any, words: int | None = None) -> None:
        async for event in stream:
            self.take(event)
            if words is not None and self.words >= words:
                return


async def test_a_stream_goes_on_after_each_process_is_killed(killed_stage: Stage) -> None:
    stage = killed_stage
    client, reading = staff(stage, max_retries=5), Reading()
    stream = await client.responses.create(model="Writer", input="count to 150", stream=True)
    await reading.read(stream, words=10)
    await stage.kill_serve()
    with pytest.raises((openai.APIConnectionError, Exception)):
        await reading.read(stream)
    before = reading.words
    assert before < 150
    stream = await client.responses.retrieve(
        reading.response_id, stream=True, starting_after=reading.after
    )
    await reading.read(stream, words=before + 10)
    await stage.kill_worker()
    await reading.read(stream)
    assert list(reading.texts.values()) == [counted(150)]
    assert reading.final.output_text == counted(150)
    # Whoever reads it anew in a new process has the same text.
    await stage.kill_serve()
    assert (await client.responses.retrieve(reading.response_id)).output_text == counted(150)


async def test_a_cut_client_that_missed_the_void_text(killed_stage: Stage) -> None:
    stage = killed_stage
    client, reading = staff(stage, max_retries=5), Reading()
    stream = await client.responses.create(model="Writer", input="count to 60", stream=True)
    await reading.read(stream, words=10)
    await stream.close()
    await asyncio.gather(stage.kill_serve(), stage.kill_worker())
    stream = await client.responses.retrieve(
        reading.response_id, stream=True, starting_after=reading.after
    )
    await reading.read(stream)
    assert list(reading.texts.values()) == [counted(60)]
    assert reading.final.output_text == counted(60)


async def test_everything_is_killed_in_mid_answer_and_each_text_is_there_once(
    killed_stage: Stage,
) -> None:
    stage = killed_stage
    client, reading = staff(stage, max_retries=5), Reading()
    stream = await client.responses.create(model="Writer", input="count to 150", stream=True)
    await reading.read(stream, words=10)
    await stage.kill_server()
    await stage.kill_worker()
    await stage.kill_serve()
    with pytest.raises((openai.APIConnectionError, Exception)):
        await reading.read(stream)
    assert reading.words < 150
    stream = await client.responses.retrieve(
        reading.response_id, stream=True, starting_after=reading.after
    )
    await reading.read(stream)
    assert list(reading.texts.values()) == [counted(150)]
    assert reading.final.output_text == counted(150)
    state = await RunHandle(stage.client, reading.final.conversation.id).state()
    assert len(state.answers) == 1
