"""Several runs of one program over the same WebSockets, under the SDK's name."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig, as_run_config
from outlast.agents.errors import UserError
from outlast.client.read.streaming import RunResultStreaming
from outlast.client.results.run_result import RunResult
from outlast.client.results.run_state import RunState
from outlast.client.start.options import RunOptions
from outlast.client.start.runner import Runner
from outlast.loop.values import JsonObject
from outlast.models.multi_provider import MultiProvider, PrefixMode, UnknownPrefixMode
from outlast.models.openai.provider import OpenAIProvider
from outlast.models.openai.responses_websocket import OpenAIResponsesWebSocketOptions


@dataclass(frozen=True)
class ResponsesWebSocketSession:
    """Runs agents with one provider and keeps its WebSockets open between the runs.

    A run uses the WebSocket of the run before, and can continue its response with
    `previous_response_id`, also with `store=False`. The runs belong to this process. Workers elsewhere have sockets of their own:
    `AgentWorker(model_provider=OpenAIProvider(transport="websocket"))`.

    Attributes:
        provider: the provider of models without a prefix.
        run_config: the configuration of every run; its `model_provider` is a `MultiProvider` with
            this provider.
    """

    provider: OpenAIProvider
    run_config: RunConfig

    if TYPE_CHECKING:

        def __init__(
            self, provider: OpenAIProvider, run_config: RunConfig | Mapping[str, Any]
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "run_config", as_run_config(self.run_config))
        self._models()

    async def run(
        self,
        starting_agent: Agent[Any],
        input: str | list[JsonObject] | RunState,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Call `Runner.run` with the session's configuration."""
        return await Runner.run(starting_agent, input, **self._options("run", options))

    def run_streamed(
        self,
        starting_agent: Agent[Any],
        input: str | list[JsonObject] | RunState,
        **options: Unpack[RunOptions],
    ) -> RunResultStreaming:
        """Call `Runner.run_streamed` with the session's configuration."""
        options = self._options("run_streamed", options)
        return Runner.run_streamed(starting_agent, input, **options)

    async def aclose(self) -> None:
        """Close the WebSockets and the other connections of the session."""
        await self._models().aclose()

    def _options(self, method: str, options: RunOptions) -> RunOptions:
        if "run_config" in options:
            raise UserError(
                f"ResponsesWebSocketSession.{method}() takes no run_config: the session has one."
                " Create the session with ResponsesWebSocketSession(provider, run_config)."
            )
        return {**options, "run_config": self.run_config}

    def _models(self) -> MultiProvider:
        models: object = self.run_config.model_provider
        if not isinstance(models, MultiProvider) or models.openai_provider is not self.provider:
            raise UserError(
                "ResponsesWebSocketSession(provider, run_config) needs"
                " run_config.model_provider=MultiProvider(...) whose openai_provider is the provider."
            )
        return models


@asynccontextmanager
async def responses_websocket_session(
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    websocket_base_url: str | None = None,
    organization: str | None = None,
    project: str | None = None,
    openai_prefix_mode: PrefixMode = "alias",
    unknown_prefix_mode: UnknownPrefixMode = "error",
    responses_websocket_options: OpenAIResponsesWebSocketOptions | None = None,
) -> AsyncGenerator[ResponsesWebSocketSession]:
    """Open a session of runs that share WebSockets, and close them at its end.

    Read streams to their end before: a response in progress loses its connection. Arguments are
    those of `OpenAIProvider`, and the two modes those of `MultiProvider`.

    Raises:
        UserError: an argument is invalid.
    """
    models = MultiProvider(
        openai_api_key=api_key,
        openai_base_url=base_url,
        openai_websocket_base_url=websocket_base_url,
        openai_organization=organization,
        openai_project=project,
        openai_use_responses=True,
        openai_use_responses_websocket=True,
        openai_prefix_mode=openai_prefix_mode,
        unknown_prefix_mode=unknown_prefix_mode,
        openai_responses_websocket_options=responses_websocket_options,
    )
    session = ResponsesWebSocketSession(models.openai_provider, RunConfig(model_provider=models))
    try:
        yield session
    finally:
        await session.aclose()
