"""Responses in the background on a real server: no worker is needed while the provider thinks."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncGenerator, Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client

from outlast import Agent, ModelSettings, OpenAIProvider, function_tool
from outlast.blobs import FileBlobStore
from outlast.client.background import look_for_response
from outlast.client.handle import RunHandle
from outlast.contract import failures, policies
from outlast.deliveries import (
    ResponseReady,
    WebhookEvent,
    Webhooks,
    background_response,
    deliveries_app,
    openai,
)
from tests.background_server import BackgroundServer, called, said
from tests.eventually import eventually
from tests.workflow.desk import QUICK, Desk

SECRET = "whsec_" + base64.b64encode(b"a secret of a webhook").decode()


@pytest.fixture
def provider() -> Generator[BackgroundServer]:
    with BackgroundServer() as server:
        yield server


@pytest.fixture
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set an hour between two looks, so that only a webhook or a person ends the wait."""
    slow = policies.ExecutionOptions(
        timeout_ms=120_000, attempts=0, initial_interval_ms=3_600_000, maximum_interval_ms=3_600_000
    )
    monkeypatch.setattr(policies, "BEGUN", slow)


def thinker(**fields: Any) -> Agent[Any]:
    settings = ModelSettings(background=True, metadata={"team": "support"})
    return Agent(name="Thinker", model="gpt-5-pro", model_settings=settings, **fields)


@pytest.fixture
async def models(provider: BackgroundServer) -> AsyncGenerator[OpenAIProvider]:
    made = OpenAIProvider(api_key="sk-a-key-of-a-test", base_url=provider.base_url)
    yield made
    await made.aclose()


async def until_looked(desk: Desk, handle: RunHandle) -> None:
    """Wait until a worker has looked in vain, and none is needed."""
    await desk.pending_activity(
        handle,
        lambda one: (
            one.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
            and one.last_failure.application_failure_info.type == failures.MODEL_WORKING
        ),
    )


async def thinking(desk: Desk, models: Any, **options: Any) -> RunHandle:
    """Start a run whose response the provider makes in the background."""
    agent = thinker()
    await desk.open(agent, model=models)
    handle = await desk.start(agent, "Think.", **options)
    await until_looked(desk, handle)
    return handle


@function_tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is on its way."


async def test_a_response_in_the_background_is_begun_once_and_read_when_it_is_there(
    desk: Desk, provider: BackgroundServer, models: Any
) -> None:
    agent = thinker(tools=[look_up])
    await desk.open(agent, model=models)
    handle = await desk.start(agent, "Where is A-17?", max_turns=3)
    await until_looked(desk, handle)
    provider.finish("resp_1", called("look_up", "c1", order="A-17"))
    await desk.until(handle, lambda state: len(state.responses) == 1)
    await until_looked(desk, handle)
    provider.finish("resp_2", said("It is on its way."))
    result = await desk.result(handle)
    assert result.final_output == "It is on its way."
    assert list(provider.begun) == ["resp_1", "resp_2"]
    state = await handle.state()
    assert (state.turns, state.usage.total_tokens) == (2, 74)
    metadata = provider.begun["resp_1"]["metadata"]
    assert metadata == {"team": "support", "outlast_run": handle.id}
    assert "is on its way" in str(provider.begun["resp_2"]["input"])


async def test_no_worker_and_no_event_is_needed_while_the_provider_thinks(
    desk: Desk, provider: BackgroundServer, models: Any
) -> None:
    handle = await thinking(desk, models, run_config=QUICK)
    before = (await desk.workflow(handle).fetch_history()).events
    await desk.close_all()
    provider.finish("resp_1", said("Thought."))
    await desk.open(thinker(), model=models)
    assert (await desk.result(handle)).final_output == "Thought."
    after = (await desk.workflow(handle).fetch_history()).events
    # the look that found it, and what follows from the answer
    assert len(before) + 12 >= len(after)
    assert len(provider.begun) == 1


@pytest.mark.usefixtures("_slow")
async def test_a_webhook_wakes_the_model_call(
    desk: Desk, provider: BackgroundServer, models: Any
) -> None:
    handle = await thinking(desk, models)
    assert not await look_for_response(desk.client, "no-such-run")
    provider.finish("resp_1", said("Thought."))
    client = AsyncOpenAI(api_key="sk-a-key-of-a-test", base_url=provider.base_url)
    webhooks = Webhooks()

    @webhooks.on("openai", openai([SECRET]))
    async def ended(event: WebhookEvent) -> ResponseReady | None:
        return await background_response(event, openai_client=client)

    app = deliveries_app(desk.client, webhooks=webhooks)
    body = json.dumps({
        "id": "evt_1", "object": "event", "created_at": 1, "type": "response.completed",
        "data": {"id": "resp_1"},
    }).encode()  # fmt: skip

    transport = httpx2.ASGITransport(app=app)
    async with client, httpx2.AsyncClient(transport=transport, base_url="http://desk") as http:

        async def post(secret: str) -> Any:
            return await http.post("/webhooks/openai", content=body, headers=signed(body, secret))

        assert (await post("whsec_" + "AAAA" * 8)).status_code == 401
        assert (await post(SECRET)).json() == {"done": [{"run_id": handle.id, "woken": True}]}
        assert (await desk.result(handle)).final_output == "Thought."
        assert (await post(SECRET)).json() == {"done": [{"run_id": handle.id, "woken": False}]}


def signed(body: bytes, secret: str) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    at = str(int(time.time()))
    digest = hmac.new(key, f"wh_1.{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": "wh_1",
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
        "content-type": "application/json",
    }


@pytest.mark.usefixtures("_slow")
async def test_a_cancelled_run_stops_its_response(
    desk: Desk, provider: BackgroundServer, models: Any
) -> None:
    handle = await thinking(desk, models)
    provider.broken = 1  # the first try to stop it
    await handle.cancel()
    state = await desk.until(handle, lambda state: state.outcome is not None)
    assert state.outcome == "cancelled"
    assert provider.cancelled == ["resp_1"]


async def test_a_response_that_failed_is_begun_again_up_to_three_times(
    desk: Desk, provider: BackgroundServer, models: Any
) -> None:
    handle = await thinking(desk, models)
    provider.fail("resp_1")
    await desk.until(handle, lambda state: numbers(state) == [2])
    await until_looked(desk, handle)
    provider.forget("resp_2")
    await desk.until(handle, lambda state: numbers(state) == [3])
    await until_looked(desk, handle)
    provider.fail("resp_3")
    state = await desk.until(handle, lambda state: state.outcome is not None)
    assert state.failure is not None
    assert state.failure.code == failures.MODEL_CALL_FAILED
    assert list(provider.begun) == ["resp_1", "resp_2", "resp_3"]


def numbers(state: Any) -> list[int]:
    begun = [getattr(one, "begun", None) for one in state.pending]
    return [one.number for one in begun if one is not None]


async def test_a_provider_that_is_away_for_a_while_is_asked_again(
    desk: Desk, provider: BackgroundServer, models: Any
) -> None:
    handle = await thinking(desk, models)
    provider.broken = 2
    provider.finish("resp_1", said("Thought."))
    async with asyncio.timeout(timedelta(seconds=40).total_seconds()):
        assert (await desk.result(handle)).final_output == "Thought."
    assert len(provider.begun) == 1


class CountingStore(FileBlobStore):
    """Counts how often content is fetched."""

    fetched = 0

    async def get(self, key: str) -> bytes:
        self.fetched += 1
        return await super().get(key)


async def test_a_look_fetches_nothing_of_the_conversation(
    client: Client, provider: BackgroundServer, models: Any, tmp_path: Path
) -> None:
    own = await Client.connect(client.service_client.config.target_host)  # has a store of its own
    desk, store, agent = Desk(own, cached=True), CountingStore(tmp_path), thinker()
    await desk.open(agent, model=models, blob_store=store)
    handle = await desk.start(agent, "Think. " * 20_000, blob_store=store)
    await until_looked(desk, handle)
    await desk.close_all()  # a worker remembers content for a while
    before, looks = store.fetched, provider.looks["resp_1"]
    await desk.open(agent, model=models, blob_store=store)
    await eventually(lambda: provider.looks["resp_1"] > looks)
    assert store.fetched == before
    provider.finish("resp_1", said("Thought."))
    assert (await desk.result(handle)).final_output == "Thought."
    await desk.close_all()
