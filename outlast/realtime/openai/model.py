"""OpenAI's Realtime API over WebSocket: one model object is one connection."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from outlast.agents.callables import shown
from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.agents.secrets import secret
from outlast.edges.tasks import meanwhile
from outlast.loop.values import JsonObject
from outlast.models.defaults import defaults
from outlast.models.failures import bad_response, reported_failure
from outlast.ports.model import ModelError
from outlast.realtime.agents import RealtimeAgent
from outlast.realtime.openai import messages
from outlast.realtime.openai.exchange import Exchange
from outlast.realtime.openai.payload import initial_settings
from outlast.realtime.openai.playback import Playback
from outlast.realtime.openai.settings import (
    DEFAULT_REALTIME_MODEL,
    session_object,
    tracing_object,
)
from outlast.realtime.openai.socket import (
    TransportConfig,
    check_transport,
    closed_failure,
    open_socket,
    socket_url,
    target_of,
)
from outlast.realtime.port import model_events as events
from outlast.realtime.port import model_inputs as inputs
from outlast.realtime.port.config import RealtimeRunConfig, RealtimeSessionModelSettings
from outlast.realtime.port.model import ListenedModel, RealtimeModelConfig

if TYPE_CHECKING:
    from openai.types.realtime.realtime_session_create_request import RealtimeSessionCreateRequest

logger: Final = get_logger(__name__)

FIRST_EVENT_S = 5.0
"""How long to wait for the provider's first event of a session."""


async def get_api_key(key: str | Callable[[], str | Awaitable[str]] | None) -> str | None:
    """Return an API key: as passed, or of `set_default_openai_key`, or else of OPENAI_API_KEY."""
    if callable(key):
        result = key()
        return await result if inspect.isawaitable(result) else result
    return key or defaults.api_key or secret("OPENAI_API_KEY") or None


class OpenAIRealtimeWebSocketModel(ListenedModel):
    """A realtime model of OpenAI, over a WebSocket."""

    def __init__(self, *, transport_config: TransportConfig | None = None) -> None:
        super().__init__()
        self.model: str = DEFAULT_REALTIME_MODEL
        self._transport = check_transport(transport_config)
        self._socket: ClientConnection | None = None
        self._listening: asyncio.Task[ModelError | None] | None = None
        self._connecting = False
        self._closing = False
        self._attached = False
        self._target = target_of("wss://", model=self.model, key=None)
        self._input_lock = asyncio.Lock()
        self._exchange = Exchange(self._send, self._emit)

    async def connect(self, options: RealtimeModelConfig) -> None:
        """Open a session, or attach to a call.

        Raises:
            ModelError: the provider refused the session, or cannot be reached.
            UserError: an option is invalid, or the model is connected.
        """
        if self._connecting or self._socket is not None:
            raise UserError(
                "This realtime model is connected. Call close() first, or create another model."
            )
        before, self._connecting = self.model, True
        try:
            await self._connect(options)
        except BaseException:  # cancelled or refused, the model has no connection
            self.model = before
            raise
        finally:
            self._connecting = False

    async def send_event(self, event: inputs.RealtimeModelSendEvent) -> None:
        """Send a message to the model.

        A response that is requested while another is in progress starts when that one is done.

        Raises:
            ModelError: the connection was lost.
            UserError: the message is invalid, or the model is not connected.
        """
        match event:
            case inputs.RealtimeModelSendRawMessage():
                message = messages.raw_message(event)
                if message["type"] == "response.create":
                    await self._exchange.responses.request(message)
                else:
                    await self._send(message)
            case inputs.RealtimeModelSendUserInput():
                await self._send_user_input(event, lambda: True)
            case inputs.RealtimeModelSendAudio():
                await self._send_audio(event)
            case inputs.RealtimeModelSendToolOutput():
                await self._send(messages.tool_output_message(event))
                item = messages.finished_call(event)
                await self._emit(events.RealtimeModelItemUpdatedEvent(item=item))
                if event.start_response:
                    await self._exchange.responses.request()
            case inputs.RealtimeModelSendInterrupt():
                await self._exchange.interruptions.interrupt(event)
            case inputs.RealtimeModelSendSessionUpdate():
                await self._send(self._session_update(event.session_settings))
            case _:
                raise UserError(f"A realtime model cannot send {shown(event)}.")

    async def send_event_if(
        self, event: inputs.RealtimeModelSendEvent, send_if: Callable[[], bool]
    ) -> bool:
        """Send the user's input if a condition holds and no other request waits for a response.

        Returns whether it was sent. Other messages are never sent.
        """
        if isinstance(event, inputs.RealtimeModelSendUserInput):
            return await self._send_user_input(
                event, lambda: self._exchange.responses.is_idle and send_if()
            )
        return await super().send_event_if(event, send_if)

    def retire_response_audio(self, response_id: str) -> None:
        """Forget which audio belongs to a response, when no more interruptions name it."""
        self._exchange.playback.retire(response_id)

    async def close(self) -> None:
        """Close the connection; the model can connect again."""
        socket, listening = self._socket, self._listening
        self._closing, self._socket, self._listening = True, None, None
        try:
            if socket is not None:
                await socket.close()
        finally:
            if listening is not None and listening is not asyncio.current_task():
                listening.cancel()
                with suppress(asyncio.CancelledError):
                    await listening
            self._exchange.end()

    async def _connect(self, options: RealtimeModelConfig) -> None:
        settings = options.get("initial_model_settings") or {}
        call_id, name = options.get("call_id"), settings.get("model_name")
        if call_id and name:
            raise UserError(
                "Cannot specify both `call_id` and `model_name`: the model of a call is set when the"
                " call is accepted. Leave model_name out."
            )
        self.model = name or self.model
        self._attached = bool(call_id)
        url = socket_url(options.get("url"), model=self.model, call_id=call_id or None)
        key = await get_api_key(options.get("api_key"))
        self._target = target_of(url, model=self.model, key=key)
        first = self._session_update(settings)  # invalid settings open no connection
        self._exchange = Exchange(
            self._send,
            self._emit,
            Playback(options.get("playback_tracker")),
            tracing=self._tracing_update(settings.get("tracing", "auto")),
        )
        headers = options.get("headers")
        if headers is None:
            headers = _authorization(key)
        socket = await open_socket(url, headers, self._target, self._transport)
        self._closing, self._socket = False, socket
        self._listening = asyncio.create_task(self._listen(socket))
        try:
            with suppress(ModelError):  # the provider's reason is on its way
                await self._send(first)
            await self._wait_for_session(self._listening)
        except BaseException:  # cancelled or refused, the socket is open
            await self.close()
            raise

    async def _wait_for_session(self, listening: "asyncio.Task[ModelError | None]") -> None:
        """Wait until the provider has sent something other than an error.

        A server that sends nothing by itself is waited for no longer than `FIRST_EVENT_S`.

        Raises:
            ModelError: the provider has refused the session.
        """
        with meanwhile(self._exchange.opened.wait()) as opening:
            waiting = {opening, listening}
            await asyncio.wait(waiting, timeout=FIRST_EVENT_S, return_when=asyncio.FIRST_COMPLETED)
        if not listening.done() or self._exchange.opened.is_set():
            return
        report = self._exchange.last_error
        if report is not None:
            raise reported_failure(report, self._target) from listening.result()
        raise listening.result() or bad_response(
            self._target, "The connection was closed before the session began."
        )

    async def _listen(self, socket: ClientConnection) -> ModelError | None:
        failure: ModelError | None = None
        try:
            async for frame in socket:
                await self._exchange.receive_frame(frame)
        except ConnectionClosed as error:
            failure = closed_failure(error, self._target)
            failure.__cause__ = error
        finally:
            self._exchange.responses.forget()
        if self._closing or self._connecting:
            return failure
        await self._emit(events.RealtimeModelConnectionStatusEvent(status="disconnected"))
        if failure is None:
            await self._emit(events.RealtimeModelEndOfStreamEvent())
        else:
            context = "WebSocket connection closed unexpectedly"
            await self._emit(events.RealtimeModelExceptionEvent(failure, context))
        return failure

    async def _send_user_input(
        self, event: inputs.RealtimeModelSendUserInput, send_if: Callable[[], bool]
    ) -> bool:
        message = messages.user_message(event.user_input)
        async with self._input_lock:
            if not send_if():
                return False
            await self._send(message)
            await self._exchange.responses.request()
            return True

    async def _send_audio(self, event: inputs.RealtimeModelSendAudio) -> None:
        message = messages.audio_message(event.audio)
        if event.audio:
            await self._send(message)
        if event.commit:
            await self._send({"type": "input_audio_buffer.commit"})

    def _session_update(self, settings: RealtimeSessionModelSettings) -> JsonObject:
        model = settings.get("model_name")
        return self._session_frame(session_object(settings, model=model, attached=self._attached))

    def _tracing_update(self, tracing: object) -> JsonObject | None:
        if tracing is None:
            return None
        plain = tracing if isinstance(tracing, str) else tracing_object(tracing)
        return self._session_frame({"type": "realtime", "tracing": plain})

    def _session_frame(self, session: JsonObject) -> JsonObject:
        """Return the message for a session object; the model of a call stays as it is."""
        if not self._attached:
            session = {"model": self.model, **session}
        return {"type": "session.update", "session": session}

    async def _send(self, message: JsonObject) -> None:
        if self._socket is None:
            raise UserError("This realtime model is not connected. Call connect() first.")
        try:
            await self._socket.send(to_json(message).decode())
        except ConnectionClosed as error:
            raise closed_failure(error, self._target) from error

    async def _emit(self, event: events.RealtimeModelEvent) -> None:
        """Send an event to each listener; the error of one is logged, and stops no other."""
        for listener in tuple(self._listeners):
            try:
                await listener.on_event(event)
            except Exception:  # a program's own code must not end the call
                logger.exception("A listener of a realtime model failed at %s", event.type)


class OpenAIRealtimeSIPModel(OpenAIRealtimeWebSocketModel):
    """A realtime model of OpenAI that attaches to a phone or browser call by its id."""

    @staticmethod
    async def build_initial_session_payload(
        agent: RealtimeAgent[Any],
        *,
        context: object = None,
        model_config: RealtimeModelConfig | None = None,
        run_config: RealtimeRunConfig | None = None,
        overrides: RealtimeSessionModelSettings | None = None,
    ) -> "RealtimeSessionCreateRequest":
        """Return the session with which to accept a call for an agent.

        Pass its fields to `client.realtime.calls.accept(call_id, ...)` of the `openai` package.

        Args:
            agent: the first agent of the session.
            context: the run's context, for instructions and predicates that are callables.
            model_config: the configuration of the model.
            run_config: the configuration of the run.
            overrides: settings that precede all others.

        Raises:
            UserError: a setting, a tool or a handoff is invalid.
        """
        from openai.types.realtime.realtime_session_create_request import (
            RealtimeSessionCreateRequest,
        )

        settings = await initial_settings(
            agent, context, model_config=model_config, run_config=run_config, overrides=overrides
        )
        model = settings.get("model_name") or DEFAULT_REALTIME_MODEL
        return RealtimeSessionCreateRequest.model_validate(session_object(settings, model=model))

    async def connect(self, options: RealtimeModelConfig) -> None:
        """Attach to a call.

        Raises:
            ModelError: the provider refused the session, or cannot be reached.
            UserError: an option is invalid, or there is no `call_id`.
        """
        if not options.get("call_id"):
            raise UserError(
                "OpenAIRealtimeSIPModel needs the call_id of the call in its configuration. The"
                " provider's webhook realtime.call.incoming has it."
            )
        await super().connect(options)


def _authorization(key: str | None) -> dict[str, str]:
    """Return the header with the key."""
    if not key:
        raise UserError(
            "An API key is required for the realtime model. Set OPENAI_API_KEY, or pass api_key= or"
            " headers= in the model's configuration."
        )
    return {"Authorization": f"Bearer {key}"}
