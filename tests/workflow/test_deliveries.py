"""Deliveries over HTTP to real runs, by receivers that are killed among others."""

import asyncio
import base64
import hashlib
import hmac
import json
import socket
import sys
import time
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wait_urls import wait_url
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.tools.function_tool import function_tool
from outlast.blobs import FileBlobStore, use_blob_store
from outlast.client.deliveries import PendingWait
from outlast.client.handle import RunHandle
from outlast.client.identity import person
from outlast.contract.blobs import key_of
from outlast.deliveries import Deliver, Send, WebhookEvent, Webhooks, deliveries_app, github
from outlast.ports.model import ModelRequest
from outlast.serve.app import desk as desk_app
from outlast.serve.login import ThisMachine
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import loop_state
from tests import forked
from tests.eventually import eventually
from tests.servers import TemporalServer
from tests.workflow import receiver_program
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.replies import outputs
from tests.workflow.test_waits import courier, parked

SECRET = "a secret of GitHub for tests"
DAYS = timedelta(days=2)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_DELIVERY_KEYS", "a key of 32 bytes for these tests")
    monkeypatch.setenv("OUTLAST_DELIVERY_URL", "http://localhost")


def waiter(schema: Any = None, *, awaits: bool = False) -> Agent[Any]:
    """Return an agent whose tool waits for a value, and returns it."""

    @function_tool
    async def wait(ctx: ToolContext[Any]) -> Any:
        """Wait."""
        waits = ctx.wait_for("courier", timeout=DAYS, schema=schema)
        return json.dumps(await waits) if awaits else waits

    return Agent(name="Waiter", tools=[wait])


def script() -> ScriptedModel:
    return ScriptedModel([call("wait", "c1")], "Done.")


def url_of(wait: PendingWait) -> str:
    return wait_url(wait.token, timedelta(hours=1), wait.since.timestamp()).removeprefix(
        "http://localhost"
    )


@asynccontextmanager
async def opened(app: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://localhost", timeout=PATIENCE_SECONDS
    ) as http:
        yield http


@pytest.fixture
async def http(desk: Desk) -> AsyncIterator[httpx2.AsyncClient]:
    async with opened(deliveries_app(desk.client)) as http:
        yield http


# --- A receiver that is killed --------------------------------------------------------------------


@asynccontextmanager
async def receiver(
    server: TemporalServer, *mark: Path, ahead: timedelta = timedelta()
) -> AsyncGenerator[tuple[Process, httpx2.AsyncClient]]:
    """Run a receiver as a process of its own; it is gone afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await forked.start(
        "-m",
        "tests.workflow.receiver_program",
        server.address,
        server.namespace,
        str(port),
        str(ahead.total_seconds()),
        *map(str, mark),
    )
    try:
        async with httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS
        ) as http:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await _answers(http):
                    assert process.returncode is None, "the receiver has ended"
                    await asyncio.sleep(0.05)
            yield process, http
    finally:
        await killed(process)


async def _answers(http: httpx2.AsyncClient) -> bool:
    try:
        return (await http.get("/health")).status_code == 200
    except httpx2.TransportError:
        return False


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def killed(process: Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


async def test_a_receiver_that_is_killed_after_its_answer_loses_nothing(
    desk: Desk, server: TemporalServer
):
    agent, model = waiter(), script()
    worker = await desk.open(agent, model=model)
    handle = await desk.start(agent)
    wait = await parked(handle)
    async with receiver(server) as (process, http):
        answer = await http.post(url_of(wait), json="p1")
        await killed(process)
    await desk.close(worker)
    assert (answer.status_code, answer.json()["run_id"]) == (200, handle.id)
    await desk.open(agent, model=model)
    assert (await handle.result()).final_output == "Done."
    assert list(outputs(model.requests[1]).values()) == ["p1"]


async def test_a_receiver_that_is_killed_before_its_answer_is_asked_again(
    desk: Desk, server: TemporalServer, http: httpx2.AsyncClient, tmp_path: Path
):
    agent, model, mark = waiter(), script(), tmp_path / "mark"
    await desk.open(agent, model=model)
    handle = await desk.start(agent)
    wait = await parked(handle)
    headers = {"Idempotency-Key": "delivery-1"}
    async with receiver(server, mark) as (process, mute):
        lost = asyncio.create_task(mute.post(url_of(wait), json="p1", headers=headers))
        await eventually(lambda: _text(mark))
        await killed(process)
        with pytest.raises(httpx2.TransportError):
            await lost
    assert mark.read_text() == "200"
    assert (await handle.result()).final_output == "Done."
    # The run has ended, and the sender knows nothing of its value: it comes again.
    receipts = [await http.post(url_of(wait), json="p1", headers=headers) for _ in range(2)]
    assert [one.status_code for one in receipts] == [200, 200]
    assert receipts[0].json() == receipts[1].json()
    assert receipts[0].json()["run_id"] == handle.id
    # Another delivery does not.
    other = await http.post(url_of(wait), json="p2", headers={"Idempotency-Key": "delivery-2"})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "run_closed")
    assert list(outputs(model.requests[1]).values()) == ["p1"]


# --- Clocks, keys and ends -------------------------------------------------------------------------


def signed_by_stripe(body: bytes) -> dict[str, str]:
    at = int(time.time())
    digest = hmac.new(receiver_program.SECRET.encode(), b"%d." % at + body, hashlib.sha256)
    return {"Stripe-Signature": f"t={at},v1={digest.hexdigest()}"}


@pytest.mark.full
@pytest.mark.parametrize("ahead", [timedelta(minutes=10)], ids=str)
async def test_a_receiver_whose_clock_is_ten_minutes_off(
    desk: Desk, server: TemporalServer, ahead: timedelta
):
    """URLs count. Webhooks are refused with words about the time, unless their tolerance is wide."""
    agent = waiter()
    await desk.open(agent, model=ScriptedModel(*[[call("wait", "c1")]] * 2, always="Done."))
    first, second = await desk.start(agent), await desk.start(agent)
    url = wait_url((await parked(first)).token, timedelta(minutes=1), time.time())
    body = json.dumps({"token": (await parked(second)).token}).encode()
    async with receiver(server, ahead=ahead) as (_, http):
        answer = await http.post(url.removeprefix("http://localhost"), json="p1")
        assert (answer.status_code, answer.json()["run_id"]) == (200, first.id)
        headers = {"Content-Type": "application/json", **signed_by_stripe(body)}
        refused = await http.post("/webhooks/stripe", content=body, headers=headers)
        problem = refused.json()["error"]
        assert refused.status_code in {400, 401}
        assert "clock" in problem["message"]
        assert [one.name for one in await second.pending_waits()] == ["courier"]
        taken = await http.post("/webhooks/patient", content=body, headers=headers)
        assert taken.status_code == 200, taken.text
        assert taken.json()["done"][0]["run_id"] == second.id
    for handle in (first, second):
        assert len(loop_state((await desk.result(handle)).snapshot).receipts) == 1


async def test_a_key_that_is_replaced_before_the_delivery_counts_until_it_is_taken_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    old, new = "a key of 32 bytes for these tests", "another key of 32 bytes for tests"
    agent, model = waiter(), script()
    await desk.open(agent, model=model)
    handle = await desk.start(agent)
    url = url_of(await parked(handle))
    monkeypatch.setenv("OUTLAST_DELIVERY_KEYS", new)
    async with opened(deliveries_app(desk.client)) as http:
        refused = await http.post(url, json="p1")
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forged")
    monkeypatch.setenv("OUTLAST_DELIVERY_KEYS", f"{new},{old}")
    async with opened(deliveries_app(desk.client)) as http:
        assert (await http.post(url, json="p1")).status_code == 200
    assert (await handle.result()).final_output == "Done."
    assert list(outputs(model.requests[1]).values()) == ["p1"]


async def test_a_delivery_to_a_run_that_was_terminated_is_refused_in_words(
    desk: Desk, http: httpx2.AsyncClient
):
    agent = waiter()
    await desk.open(agent, model=script())
    handle = await desk.start(agent)
    wait = await parked(handle)
    await desk.workflow(handle).terminate("a test")
    answer = await http.post(url_of(wait), json="p1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "run_closed")
    assert "terminated" in answer.json()["error"]["message"]


async def test_without_a_worker_the_server_keeps_the_value_or_the_sender_comes_again(desk: Desk):
    agent, model = waiter(), script()
    worker = await desk.open(agent, model=model)
    handle = await desk.start(agent)
    url = url_of(await parked(handle))
    await desk.close(worker)
    async with opened(deliveries_app(desk.client, patience=0.5)) as http:
        answer = await http.post(url, json="p1")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    async with opened(deliveries_app(desk.client, patience=PATIENCE_SECONDS)) as http:
        kept = await http.post(url, json="p1")
        assert (kept.status_code, kept.json()["at"]) == (202, None)
        await desk.open(agent, model=model)
        assert (await handle.result()).final_output == "Done."
        again = await http.post(url, json="p1")
        assert again.status_code == 200
        assert again.json()["at"] is not None
    assert list(outputs(model.requests[1]).values()) == ["p1"]


# --- Many, early and late -------------------------------------------------------------------------


@pytest.mark.parametrize("same", [True, False])
async def test_of_fifty_deliveries_at_once_one_counts(
    desk: Desk, http: httpx2.AsyncClient, *, same: bool
):
    agent, model = waiter(), script()
    await desk.open(agent, model=model)
    handle = await desk.start(agent)
    url = url_of(await parked(handle))

    async def post(value: str) -> httpx2.Response:
        while True:
            answer = await http.post(url, json=value)
            # On a busy machine, no worker answers in time: as senders do, it comes again.
            if answer.status_code not in {202, 503}:
                return answer

    answers = await asyncio.gather(*(post("p" if same else f"p{number}") for number in range(50)))
    result = await handle.result()
    assert result.final_output == "Done."
    taken = [number for number, answer in enumerate(answers) if answer.status_code == 200]
    if same:
        assert len(taken) == 50
        assert len({answer.text for answer in answers}) == 1
    else:
        [winner] = taken
        assert {answer.status_code for answer in answers} == {200, 409}
        assert list(outputs(model.requests[1]).values()) == [f"p{winner}"]


async def test_a_delivery_that_is_faster_than_the_tool_is_kept(
    desk: Desk, http: httpx2.AsyncClient
):
    @function_tool
    async def wait(ctx: ToolContext[Any]) -> Any:
        """Ask somebody who answers at once."""
        url = ctx.wait_url("courier", expires=timedelta(hours=1))

        async def ask() -> int:
            return (await http.post(url, json={"parcel": "p1"})).status_code

        status = await ctx.once("ask", ask)
        pickup = await ctx.wait_for("courier", timeout=DAYS, schema=dict[str, str])
        return f"{status}: {pickup['parcel']}"

    agent, model = Agent[Any](name="Waiter", tools=[wait]), script()
    await desk.open(agent, model=model)
    result = await desk.run(agent)
    assert result.final_output == "Done."
    assert list(outputs(model.requests[1]).values()) == ["200: p1"]


async def test_what_does_not_fit_is_refused_and_the_call_waits_on(
    desk: Desk, http: httpx2.AsyncClient
):
    agent, model = waiter(dict[str, int], awaits=True), script()
    await desk.open(agent, model=model)
    handle = await desk.start(agent)
    wait = await parked(handle)
    url = url_of(wait)
    nobody = wait_url("WyJub2JvZHkiLDAsMSwiYyIsIngiXQ", timedelta(hours=1), wait.since.timestamp())
    for address, content, status, words in (
        (url, {"weight": "heavy"}, 409, "does not fit"),
        (url, "x" * 300_000, 413, "OUTLAST_BLOB_STORE"),
        (url, json.loads("[" * 101 + "]" * 101), 400, "100 levels"),
        (nobody, {"weight": 1}, 404, "There is no run 'nobody'"),
    ):
        answer = await http.post(address, json=content)
        assert answer.status_code == status
        assert words in answer.json()["error"]["message"]
    large = await http.post(
        url, content=b'{"weight":1e999}', headers={"Content-Type": "a/json+json"}
    )
    assert large.status_code == 400
    assert (await parked(handle)).token == wait.token
    assert (await http.post(url, json={"weight": 10**25})).status_code == 200
    assert (await handle.result()).final_output == "Done."
    assert json.loads(*outputs(model.requests[1]).values()) == {"weight": 10**25}


async def test_half_a_character_and_a_key_like_ours_arrive_as_they_are(
    desk: Desk, http: httpx2.AsyncClient
):
    agent, model = waiter(awaits=True), script()
    await desk.open(agent, model=model)
    handle = await desk.start(agent)
    secret = key_of(b"a text of somebody else")
    value = {
        "half": "\udfff\0",
        "ref": {"$outlast.blob": secret, "bytes": 23},
        "$outlast.json": {},
    }
    url, headers = url_of(await parked(handle)), {"Content-Type": "application/json"}
    answer = await http.post(url, content=rb'{"\ud800": 1}', headers=headers)
    assert (answer.status_code, "half a character" in answer.text) == (400, True)
    answer = await http.post(url, content=json.dumps(value).encode(), headers=headers)
    assert answer.status_code == 200
    assert (await handle.result()).final_output == "Done."
    # No record has half a character in a text: a question mark takes its place.
    assert json.loads(*outputs(model.requests[1]).values()) == {**value, "half": "?\0"}


async def test_a_body_of_twenty_megabytes_is_in_the_store_and_reaches_the_tool(
    desk: Desk, server: TemporalServer, tmp_path: Path
):
    sizes: list[int] = []

    @function_tool
    async def wait(ctx: ToolContext[Any]) -> str:
        """Wait for a picture."""
        picture = await ctx.wait_for("courier", timeout=DAYS, schema=dict[str, str])
        content = base64.b64decode(picture["base64"])
        sizes.append(len(content))
        return hashlib.sha256(content).hexdigest()

    store, client = FileBlobStore(tmp_path), await server.connect()
    use_blob_store(client, store)
    agent, model = Agent[Any](name="Waiter", tools=[wait]), script()
    await desk.open(agent, model=model, blob_store=store, client=client)
    handle = await desk.start(agent)
    url = url_of(await parked(handle))
    picture = bytes(range(256)) * 80_000
    async with opened(deliveries_app(client, patience=PATIENCE_SECONDS)) as http:
        answer = await http.post(url, content=picture, headers={"Content-Type": "image/x-raw"})
    assert answer.status_code == 200
    assert (await handle.result()).final_output == "Done."
    assert sizes == [len(picture)]
    assert list(outputs(model.requests[1]).values()) == [hashlib.sha256(picture).hexdigest()]


# --- Webhooks and the desk ------------------------------------------------------------------------


def signed(body: bytes) -> dict[str, str]:
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={digest}", "Content-Type": "application/json"}


async def test_webhooks_reach_a_wait_and_a_conversation_once(desk: Desk):
    webhooks = Webhooks()

    @webhooks.on("github", github([SECRET]))
    def came(event: WebhookEvent) -> Deliver | Send:
        value: Any = event.value
        if "say" in value:
            return Send(value["run"], value["say"])
        return Deliver(value["number"], run_id=value["run"], name="courier")

    agent = waiter()
    model = ScriptedModel([call("wait", "c1")], "Done.", "Thank you.")
    await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True)
    await parked(handle)
    async with opened(deliveries_app(desk.client, webhooks=webhooks)) as http:

        async def post(value: Any) -> httpx2.Response:
            body = json.dumps(value).encode()
            return await http.post("/webhooks/github", content=body, headers=signed(body))

        other = await post({"run": handle.id, "number": 1, "to": "nobody"})
        assert other.status_code == 200
        answers = [await post({"run": handle.id, "number": 1, "to": "nobody"}) for _ in range(2)]
        assert [one.text for one in answers] == [other.text] * 2
        late = await post({"run": handle.id, "number": 2})
        assert late.status_code == 409
        said = [await post({"run": handle.id, "say": "It rains."}) for _ in range(3)]
        assert {one.status_code for one in said} == {200}
        [message] = said[0].json()["done"]
        assert said[0].text == said[1].text == said[2].text
    result = await handle.wait_for_answer(message["message_id"])
    assert result.final_output == "Thank you."
    assert [item for item in model.requests[2].input if "It rains." in str(item)] != []
    assert str(model.requests[2].input).count("It rains.") == 1
    await handle.cancel("after_turn")


async def test_what_a_nested_run_waits_for_is_read_at_the_outer_run(desk: Desk):
    began: list[str] = []
    inner = courier(began)
    outer = Agent[Any](name="Shop", tools=[inner.as_tool("ship", "Ship an order.")])
    model = ScriptedModel(
        [call("ship", "c1", input="7")], [call("book", "c1", order="7")], "Booked.", "Shipped."
    )
    await desk.open(outer, model=model)
    handle = await desk.start(outer)

    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (found := await handle.pending_waits()):  # noqa: ASYNC110  no event of the run tells
            await asyncio.sleep(0.05)
    [wait] = found
    assert wait.run_id.startswith(f"{handle.id}/ship-")
    assert (wait.agent, wait.tool, wait.name) == ("Courier", "book", "courier")
    assert (await RunHandle(desk.client, wait.run_id).state()).status == "parked"
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in handle.stream_events():
            if event.type == "status_stream_event" and event.status == "parked":
                assert event.reason == "A nested run waits for courier."
                break
    assert (await handle.state()).status == "parked"
    value = {"parcel": "p1", "weight_grams": 900}
    async with opened(desk_app(desk.client, login=ThisMachine(person("ann")))) as http:
        path = f"/api/conversations/{handle.id}/waits"
        [listed] = (await http.get(path)).json()["waits"]
        assert listed["token"] == wait.token
        body = {"token": wait.token, "value": value}
        origin = {"Origin": "http://localhost"}
        elsewhere = "/api/conversations/other/waits/finish"
        refused = await http.post(elsewhere, json=body, headers=origin)
        assert refused.json()["error"]["code"] == "other_run"
        done = await http.post(f"{path}/finish", json=body, headers=origin)
        assert (done.status_code, done.json()["run_id"]) == (200, wait.run_id), done.text
    assert (await handle.result()).final_output == "Shipped."
    assert await handle.pending_waits() == ()


HOOKS = f"""
from outlast.deliveries import Deliver, Webhooks, github

webhooks = Webhooks()


@webhooks.on("github", github([{SECRET!r}]))
def came(event):
    return Deliver(event.value["number"], token=event.value["token"])
"""


@pytest.mark.full
async def test_the_command_serves_the_webhooks_of_a_file(
    desk: Desk, server: TemporalServer, tmp_path: Path
):
    (tmp_path / "hooks.py").write_text(HOOKS)
    agent, model = waiter(), script()
    await desk.open(agent, model=model)
    handle = await desk.start(agent)
    body = json.dumps({"token": (await parked(handle)).token, "number": 7}).encode()
    serve = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "outlast.cli.entry", "serve", "--port", "0", "--json"),
        *("--address", server.address, "--namespace", server.namespace),
        *("--webhooks", "hooks.py", "--app-dir", str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert serve.stdout is not None
        ready = json.loads(await asyncio.wait_for(serve.stdout.readline(), PATIENCE_SECONDS))
        async with httpx2.AsyncClient(base_url=ready["url"], timeout=PATIENCE_SECONDS) as http:
            forged = await http.post("/webhooks/github", content=body, headers=signed(b"other"))
            assert forged.status_code == 401
            assert (await handle.state()).status == "parked"
            answer = await http.post("/webhooks/github", content=body, headers=signed(body))
            assert (answer.status_code, answer.json()["done"][0]["run_id"]) == (200, handle.id)
    finally:
        await killed(serve)
    assert (await handle.result()).final_output == "Done."
    assert list(outputs(model.requests[1]).values()) == ["7"]


async def test_the_desk_receives_without_a_login_and_under_any_name(desk: Desk):
    agent, model = waiter(), script()
    await desk.open(agent, model=model)
    handle = await desk.start(agent)
    url = url_of(await parked(handle))
    app = desk_app(desk.client, login=ThisMachine(person("ann")), task_queue=desk.queue)
    async with opened(app) as http:
        forged = await http.post(f"{url}x", json="p1")
        assert (forged.status_code, forged.json()["error"]["code"]) == (403, "forged")
        headers = {"Host": "hooks.example.com", "Origin": "https://other.example", "Authorization": "Bearer x"}  # fmt: skip
        answer = await http.post(url, json="p1", headers=headers)
        assert answer.status_code == 200
        assert (await http.get(url)).status_code == 405
    assert isinstance(handle, RunHandle)
    assert (await handle.result()).final_output == "Done."


# --- Many at once ---------------------------------------------------------------------------------

MANY = 60
"""How many runs wait; `benchmarks/waits.py` has more."""


@pytest.mark.full
@pytest.mark.timeout(300)
async def test_deliveries_to_many_runs_at_once_while_a_receiver_is_killed(
    desk: Desk, server: TemporalServer
):
    """Each is sent twice at the same time, and again where no answer came: none is lost or doubled."""
    came = Counter[tuple[str, str]]()

    @function_tool
    async def wait(ctx: ToolContext[Any]) -> str:
        """Wait."""
        value = await ctx.wait_for("courier", timeout=DAYS, schema=str)
        came[ctx.run_id, value] += 1
        return value

    def reply(request: ModelRequest) -> Any:
        done = outputs(request)
        return say(done["c1"]) if done else [call("wait", "c1")]

    agent = Agent[Any](name="Waiter", tools=[wait])
    await desk.open(agent, model=ScriptedModel(always=reply))
    turn = asyncio.Semaphore(20)

    async def begin() -> tuple[RunHandle, PendingWait]:
        async with turn:
            handle = await desk.start(agent)
            return handle, await parked(handle)

    runs = await asyncio.gather(*(begin() for _ in range(MANY)))
    answers = Counter[int]()
    async with receiver(server) as (first, doomed), receiver(server) as (_, other):

        async def send(number: int, wait: PendingWait, http: httpx2.AsyncClient) -> None:
            headers = {"Idempotency-Key": f"webhook-{number}"}
            status = 0
            while status not in {200, 202}:
                try:
                    answer = await http.post(url_of(wait), json=f"p{number}", headers=headers)
                except httpx2.TransportError:  # killed: the sender has no answer
                    http = other
                    answers[0] += 1
                    continue
                status = answer.status_code
                assert status in {200, 202, 503}, answer.text
                await asyncio.sleep(0.2 if status == 503 else 0)
            answers[status] += 1
            if answers[200] == MANY // 4:
                first.kill()

        sent = (
            send(number, wait, doomed if number % 2 == 0 else other)
            for number, (_, wait) in enumerate(runs)
            for _ in range(2)
        )
        await asyncio.gather(*sent)
        assert answers[0] > 0, "it was killed while deliveries were under way"
    results = await asyncio.gather(*(desk.result(handle) for handle, _ in runs))
    assert [one.final_output for one in results] == [f"p{number}" for number in range(MANY)]
    assert came == {(handle.id, f"p{number}"): 1 for number, (handle, _) in enumerate(runs)}
    assert answers[200] + answers[202] == 2 * MANY
    for number, (handle, _) in enumerate(runs):
        [receipt] = (loop_state(await handle.state())).receipts
        assert receipt.delivery_id == f"webhook-{number}"
