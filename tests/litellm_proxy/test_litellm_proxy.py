"""Runs whose models are behind a real LiteLLM proxy, over both APIs.

`plain`, `dispatcher` and `limited` are LiteLLM's own mocks. Those have no tool calls in streams and
no streams of the Responses API, so that `native` and `bridged` go on to a scripted model server.
"""

import asyncio
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from pydantic import BaseModel

from outlast import (
    Agent,
    ModelSettings,
    RunConfig,
    Runner,
    RunResult,
    RunResultStreaming,
    function_tool,
)
from outlast.agents.errors import UserError
from outlast.local.engine import LocalEngine
from outlast.models import ChatCompletionsModel, OpenAIProvider, ResponsesModel
from outlast.ports.model import ModelError, ModelRequest
from outlast.testing import run_in_memory, run_in_memory_streamed
from outlast.worker import AgentWorker
from tests.litellm_proxy.conftest import KEY, SUNNY, UPSTREAM_KEY, Api, Proxy
from tests.servers import TemporalServer
from tests.unit.docs.guides import DOCS, blocks
from tests.unit.models.chat_api import chunks, completion
from tests.unit.models.model_server import ModelServer
from tests.unit.models.responses_api import message, response
from tests.unit.models.streams import collect_until_failure

PAGE = DOCS / "how-to" / "third-party-servers.md"
ASK = ModelRequest(instructions=None, input=[{"role": "user", "content": "Is it sunny?"}])
ARGUMENTS = '{"city":"Berlin"}'
ANSWER = '{"sunny":true}'
RESPONSE_FIELDS: dict[str, Any] = {
    "created_at": 1,
    "model": "house",
    "tool_choice": "auto",
    "tools": [],
}

Route: TypeAlias = Literal["native", "bridged"]


class Forecast(BaseModel):
    sunny: bool


@function_tool
def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


@dataclass(frozen=True, slots=True)
class Access:
    """The models of the proxy over one API."""

    proxy: Proxy
    api: Api

    def model(self, name: str, key: str = KEY) -> ResponsesModel | ChatCompletionsModel:
        """Return a model of the proxy."""
        return self.proxy.model(name, self.api, key)


@pytest.fixture(params=["chat", "responses"])
def access(proxy: Proxy, request: pytest.FixtureRequest) -> Access:
    return Access(proxy, request.param)


async def run(
    agent: Agent[Any], model: ResponsesModel | ChatCompletionsModel, *, stream: bool
) -> RunResult | RunResultStreaming:
    if not stream:
        return await run_in_memory(agent, "Is it sunny?", model=model)
    result = run_in_memory_streamed(agent, "Is it sunny?", model=model)
    async for _ in result.stream_events():
        pass
    return result


def script(upstream: ModelServer, api: Api, *, stream: bool) -> None:
    """Answer with a call of the tool, and then with the forecast."""
    function = {"name": "get_weather", "arguments": ARGUMENTS}
    chat_call = {"index": 0, "id": "call_w", "type": "function", "function": function}
    item = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_w",
        "name": "get_weather",
        "arguments": ARGUMENTS,
        "status": "completed",
    }
    if api == "responses":
        for output in (item, message(ANSWER)):
            whole = response(output, **RESPONSE_FIELDS)
            if stream:
                upstream.stream(events_of(whole))
            else:
                upstream.answer(whole)
    elif stream:
        upstream.stream(chunks({"tool_calls": [chat_call]}, finish_reason="tool_calls"), done=True)
        upstream.stream(chunks({"content": ANSWER[:5]}, {"content": ANSWER[5:]}), done=True)
    else:
        upstream.answer(completion({"tool_calls": [chat_call]}, "tool_calls"))
        upstream.answer(completion({"content": ANSWER}))


def events_of(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a streamed response, each with its number."""
    (item,) = whole["output"]
    place: dict[str, Any] = {"item_id": item["id"], "output_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
    ]
    if item["type"] == "message":
        text: dict[str, Any] = {"content_index": 0, "delta": ANSWER, "logprobs": []}
        events.append({"type": "response.output_text.delta", **place, **text})
    else:
        arguments = {"delta": item["arguments"]}
        events.append({"type": "response.function_call_arguments.delta", **place, **arguments})
    events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("route", ["native", "bridged"])
async def test_a_run_calls_a_tool_and_answers_in_a_schema(
    access: Access, route: Route, stream: bool
) -> None:
    upstream = access.proxy.upstream
    served: Api = "chat" if route == "bridged" else access.api
    script(upstream, served, stream=stream)
    agent = Agent[Any](
        name="Forecaster",
        instructions="Look it up.",
        tools=[get_weather],
        output_type=Forecast,
        model_settings=ModelSettings(tool_choice="required", include_usage=True, max_tokens=50),
    )

    result = await run(agent, access.model(route), stream=stream)

    assert result.final_output == Forecast(sunny=True)
    usage = result.context_wrapper.usage
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (2, 60, 14)
    first, second = upstream.requests
    assert first.headers["authorization"] == f"Bearer {UPSTREAM_KEY}"
    assert first.path == ("/v1/chat/completions" if served == "chat" else "/v1/responses")
    assert first.body["tool_choice"] == "required"
    assert first.body["max_tokens" if served == "chat" else "max_output_tokens"] == 50
    (tool,) = first.body["tools"]
    assert (tool["function"] if served == "chat" else tool)["strict"] is True
    assert sent_output(second.body) == "sunny in Berlin"
    assert sent_schema(second.body)["strict"] is True


def sent_output(body: dict[str, Any]) -> str:
    """Return the tool's output in a request of either API."""
    (output,) = [
        one.get("content", one.get("output"))
        for one in body.get("messages") or body["input"]
        if one.get("role") == "tool" or one.get("type") == "function_call_output"
    ]
    return output


def sent_schema(body: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the answer in a request of either API."""
    return body["text"]["format"] if "text" in body else body["response_format"]["json_schema"]


async def test_a_mock_answers_over_both_apis(access: Access) -> None:
    agent = Agent[Any](name="Forecaster")

    result = await run(agent, access.model("plain"), stream=False)

    assert result.final_output == SUNNY
    assert result.context_wrapper.usage.input_tokens > 0


@pytest.mark.parametrize(("include_usage", "counted"), [(None, False), (True, True)])
async def test_a_stream_has_usage_where_the_settings_request_it(
    proxy: Proxy, include_usage: bool | None, counted: bool
) -> None:
    settings = ModelSettings(include_usage=include_usage)
    agent = Agent[Any](name="Forecaster", model_settings=settings)

    result = await run(agent, Access(proxy, "chat").model("plain"), stream=True)

    assert result.final_output == SUNNY
    assert (result.context_wrapper.usage.total_tokens > 0) is counted


async def test_a_call_that_litellm_mocks_hands_the_run_over(proxy: Proxy) -> None:
    chat = Access(proxy, "chat")
    forecaster = Agent[Any](name="Forecaster", model=chat.model("plain"))
    dispatcher = Agent[Any](
        name="Dispatcher", handoffs=[forecaster], model=chat.model("dispatcher")
    )

    result = await run(dispatcher, chat.model("unused"), stream=False)

    assert (result.last_agent.name, result.final_output) == ("Forecaster", SUNNY)


async def failure_of(
    model: ResponsesModel | ChatCompletionsModel, *, stream: bool = False
) -> ModelError:
    if stream:
        return (await collect_until_failure(model.stream_response(ASK)))[1]
    with pytest.raises(ModelError) as caught:
        await model.get_response(ASK)
    return caught.value


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_rate_limit_is_tried_again(proxy: Proxy, stream: bool) -> None:
    failure = await failure_of(Access(proxy, "chat").model("limited"), stream=stream)

    assert (failure.code, failure.retryable, failure.status) == ("rate_limited", True, 429)
    assert "limits the rate of requests to 'limited'. HTTP 429." in failure.message


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_wrong_key_is_named(access: Access, stream: bool) -> None:
    failure = await failure_of(access.model("plain", key="sk-wrong"), stream=stream)

    assert (failure.code, failure.retryable) == ("unauthorized", False)
    assert "refused the API key. Check OPENAI_API_KEY" in failure.message
    assert "sk-wrong" not in failure.message


async def test_a_model_that_the_proxy_does_not_know_is_named(access: Access) -> None:
    failure = await failure_of(access.model("nothing"))

    assert (failure.code, failure.retryable) == ("invalid_request", False)
    assert "Invalid model name passed in model=nothing" in failure.message


@pytest.mark.parametrize(
    ("status", "error", "code", "retryable"),
    [
        (401, {"message": "No.", "code": "invalid_api_key"}, "unauthorized", False),
        (429, {"message": "Slow.", "code": "rate_limit_exceeded"}, "rate_limited", True),
        (503, {"message": "Busy."}, "overloaded", True),
    ],
)
async def test_the_failure_of_the_model_server_behind_the_proxy_keeps_its_kind(
    access: Access, status: int, error: dict[str, str], code: str, retryable: bool
) -> None:
    access.proxy.upstream.answer({"error": {"type": "x", **error}}, status=status)

    failure = await failure_of(access.model("bridged"))

    assert (failure.code, failure.retryable, failure.status) == (code, retryable, status)


async def test_an_error_in_the_middle_of_a_stream_is_tried_again(access: Access) -> None:
    half = chunks({"content": "It is"})[:1]
    broken = {"error": {"message": "Broken off.", "type": "x", "code": "500"}}
    access.proxy.upstream.stream([*half, broken])

    failure = await failure_of(access.model("bridged"), stream=True)

    assert (failure.code, failure.retryable) == ("server_error", True)
    assert "Broken off." in failure.message


async def test_a_run_answers_after_an_error_in_the_middle_of_a_stream(
    proxy: Proxy, server: TemporalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    broken = {"error": {"message": "Broken off.", "type": "x", "code": "500"}}
    proxy.upstream.stream([*chunks({"content": "It is"})[:1], broken])
    proxy.upstream.stream(chunks({"content": SUNNY}), done=True)
    provider = OpenAIProvider(api_key=KEY, base_url=proxy.base_url, api="chat")
    agent = Agent[Any](name="Forecaster", model="bridged")

    try:
        config = RunConfig(model_provider=provider)
        result = Runner.run_streamed(agent, "Is it sunny?", run_config=config)
        async for _ in result.stream_events():
            pass
    finally:
        await LocalEngine.close_shared()
        await provider.aclose()

    assert result.final_output == SUNNY
    assert len(proxy.upstream.requests) == 2


async def test_a_worker_finds_a_wrong_key_before_it_starts(
    proxy: Proxy, server: TemporalServer
) -> None:
    client = await server.connect()
    agent = Agent[Any](name="Desk", model="plain")

    right = OpenAIProvider(api_key=KEY, base_url=proxy.base_url)
    wrong = OpenAIProvider(api_key="sk-wrong", base_url=proxy.base_url)

    worker = AgentWorker(client, agents=[agent], task_queue="right", model_provider=right)
    assert await worker.check_models() == (proxy.base_url,)
    worker = AgentWorker(client, agents=[agent], task_queue="wrong", model_provider=wrong)
    with pytest.raises(UserError, match=r"'Desk' has no model\. .* refused the API key\."):
        await worker.check_models()
    await right.aclose()
    await wrong.aclose()


def program_of_the_page(part: int, proxy: Proxy, model: str = "plain") -> str:
    """Return a program of the page's section on LiteLLM, for this proxy and model."""
    program = blocks(PAGE, "py")[part]
    assert "http://localhost:4000/v1" in program or part == 1
    return program.replace("http://localhost:4000/v1", proxy.base_url).replace("house-model", model)


def environment_of_the_page(proxy: Proxy, model: str = "plain") -> dict[str, str]:
    """Return the variables that the page's section on LiteLLM exports, for this proxy and model."""
    lines = re.findall(r"^export (\w+)=(\S+)", blocks(PAGE, "sh")[0], re.MULTILINE)
    exported = dict(lines)
    assert exported["OPENAI_BASE_URL"] == "http://localhost:4000/v1"
    assert exported["OPENAI_API_KEY"] == KEY
    return {**exported, "OPENAI_BASE_URL": proxy.base_url, "OUTLAST_MODEL": model}


class Terminal:
    """A terminal in an empty folder, with the page's programs in files."""

    def __init__(self, server: TemporalServer, home: Path, exported: dict[str, str]) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TEMPORAL_", "OPENAI_"))}
        engine = {"TEMPORAL_ADDRESS": server.address, "TEMPORAL_CONFIG_FILE": os.devnull}
        self._environment = {**kept, **engine, "OUTLAST_DATA_DIR": str(home), **exported}
        self._home = home

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._home,
            env=self._environment,
        )

    async def run(self, *arguments: str) -> tuple[int | None, str, str]:
        process = await self.start(*arguments)
        out, err = await asyncio.wait_for(process.communicate(), 60)
        return process.returncode, out.decode(), err.decode()


async def test_the_program_of_the_page_runs(
    proxy: Proxy, server: TemporalServer, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(program_of_the_page(0, proxy), encoding="utf-8")

    code, out, err = await Terminal(server, tmp_path, {}).run("program.py")

    assert (code, out) == (0, f"{SUNNY}\n"), err


async def test_the_worker_of_the_page_runs_and_refuses_a_wrong_key(
    proxy: Proxy, server: TemporalServer, tmp_path: Path
) -> None:
    (tmp_path / "desk.py").write_text(program_of_the_page(1, proxy), encoding="utf-8")
    exported = environment_of_the_page(proxy)
    outlast = ("-m", "outlast.cli.entry")
    queue = ("--task-queue", "litellm-page")

    wrong = Terminal(server, tmp_path, {**exported, "OPENAI_API_KEY": "sk-wrong"})
    code, _, err = await wrong.run(*outlast, "worker", "desk.py", *queue)
    assert code != 0
    assert "refused the API key" in " ".join(err.split())

    terminal = Terminal(server, tmp_path, exported)
    worker = await terminal.start(*outlast, "worker", "desk.py", *queue, "--json")
    try:
        assert worker.stdout is not None
        assert b"Desk" in await asyncio.wait_for(worker.stdout.readline(), 60)
        code, out, err = await terminal.run(*outlast, "run", "Desk", "Is it sunny?", *queue)
        assert (code, out.strip()) == (0, SUNNY), err
    finally:
        worker.terminate()
        await worker.communicate()
