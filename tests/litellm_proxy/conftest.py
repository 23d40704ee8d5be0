"""A LiteLLM proxy in a process of its own, before a model server that the tests script.

`make litellm-proxy` installs LiteLLM in an environment of its own and names its command in
`OUTLAST_LITELLM`. Other runs of pytest leave this folder out.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import httpx2
import pytest

from outlast.agents.hosts import free_port
from outlast.models import ChatCompletionsModel, OpenAIProvider, ResponsesModel
from tests.unit.models.model_server import ModelServer

COMMAND: Final = os.environ.get("OUTLAST_LITELLM")
START_SECONDS: Final = 180
POLL_SECONDS: Final = 0.25
KEY: Final = "sk-house"
UPSTREAM_KEY: Final = "sk-upstream"
SUNNY: Final = "It is sunny in Berlin."

Api: TypeAlias = Literal["responses", "chat"]

collect_ignore_glob = [] if COMMAND else ["test_*.py"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A running proxy.

    Attributes:
        base_url: the address of its API.
        upstream: the model server of its models `native` and `bridged`.
    """

    base_url: str
    upstream: ModelServer
    _providers: dict[tuple[Api, str], OpenAIProvider] = field(
        default_factory=dict[tuple[Api, str], OpenAIProvider]
    )

    def model(self, name: str, api: Api, key: str = KEY) -> ResponsesModel | ChatCompletionsModel:
        """Return a model of the proxy."""
        if (api, key) not in self._providers:
            provider = OpenAIProvider(api_key=key, base_url=self.base_url, api=api)
            self._providers[api, key] = provider
        return self._providers[api, key].get_model(name)

    async def aclose(self) -> None:
        """Close the connections to the proxy."""
        for provider in self._providers.values():
            await provider.aclose()


@pytest.fixture(scope="session")
async def running_proxy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxy]:
    """Start the proxy once, which takes seconds."""
    home = tmp_path_factory.mktemp("proxy")
    async with ModelServer() as upstream:
        config = home / "config.yaml"
        # JSON is YAML, too.
        config.write_text(json.dumps(_config(upstream.base_url)), encoding="utf-8")
        with _process(config, home / "log.txt") as (process, base_url):
            await _until_it_answers(process, base_url, home / "log.txt")
            proxy = Proxy(base_url=f"{base_url}/v1", upstream=upstream)
            yield proxy
            await proxy.aclose()


@pytest.fixture
def proxy(running_proxy: Proxy) -> Proxy:
    """The proxy, whose model server has no answers yet."""
    running_proxy.upstream.reset()
    return running_proxy


def _config(upstream: str) -> dict[str, Any]:
    """Return a configuration with models of LiteLLM's own mocks, and of a model server.

    `native` passes Responses requests on; for `bridged`, LiteLLM makes Chat Completions of them.
    """
    served = {"api_base": upstream, "api_key": UPSTREAM_KEY, "max_retries": 0}
    transfer = {"name": "transfer_to_forecaster", "arguments": "{}"}
    models: dict[str, dict[str, Any]] = {
        "plain": {"model": "openai/plain", "mock_response": SUNNY},
        "dispatcher": {
            "model": "openai/dispatcher",
            "mock_response": " ",
            "mock_tool_calls": [{"id": "call_t", "type": "function", "function": transfer}],
        },
        "limited": {"model": "openai/limited", "mock_response": "litellm.RateLimitError"},
        "native": {"model": "openai/house", **served},
        "bridged": {"model": "custom_openai/house", **served},
    }
    return {
        "model_list": [
            {"model_name": name, "litellm_params": {"api_key": "none", **parameters}}
            for name, parameters in models.items()
        ],
        "general_settings": {"master_key": KEY},
        # A failure of one test must not make the next one wait.
        "router_settings": {"disable_cooldowns": True, "num_retries": 0},
        "litellm_settings": {"telemetry": False},
    }


@contextmanager
def _process(config: Path, log: Path) -> Generator[tuple[subprocess.Popen[bytes], str]]:
    assert COMMAND is not None
    port = free_port()
    # The prices of models in the package, instead of a download.
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with log.open("wb") as lines:
        process = subprocess.Popen(
            [COMMAND, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)],
            cwd=config.parent,
            env=environment,
            stdout=lines,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _until_it_answers(process: subprocess.Popen[bytes], base_url: str, log: Path) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http, asyncio.timeout(START_SECONDS):
        while True:
            if process.poll() is not None:
                pytest.fail(f"the LiteLLM proxy ended with {process.returncode}: {_end_of(log)}")
            try:
                if (await http.get(f"{base_url}/health/liveliness")).is_success:
                    return
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(POLL_SECONDS)


def _end_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2000:]
