"""Starts realtime sessions, and finds their runs again."""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.callables import shown
from outlast.agents.config.run_config import RunConfig, as_run_config
from outlast.agents.context.codec import context_class
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.client.handle import RunHandle
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.client.start.options import Placed, check_place, run_input
from outlast.client.start.run_host import RunHost
from outlast.client.start.runner import Runner
from outlast.client.start.tenant import as_tenant
from outlast.loop.start import Customer
from outlast.loop.values import DEFAULT_MAX_TURNS
from outlast.ports.model import Model
from outlast.realtime.agents import RealtimeAgent, RealtimeRunHooks, check_realtime
from outlast.realtime.line import SESSION_LIMIT, Line, LineOptions, Listener
from outlast.realtime.line_events import SessionEvents
from outlast.realtime.line_run import LineRun
from outlast.realtime.openai.model import OpenAIRealtimeWebSocketModel
from outlast.realtime.port.config import RealtimeRunConfig
from outlast.realtime.port.model import RealtimeModel, RealtimeModelConfig
from outlast.realtime.session import RealtimeSession
from outlast.realtime.session_run import SessionRun
from outlast.realtime.speech_checks import DEBOUNCE

NOTICE_AFTER = timedelta(seconds=10)
"""How long a caller waits for a tool until the agent says that it is still working."""

_OF_A_HANDLE = frozenset({"client", "patience", "blob_store"})
"""The options of `using` that matter for a run that exists."""


class RealtimeRunner(Placed):
    """Starts sessions of realtime agents, and finds their runs again.

    Each session is a line of a durable run, which records what was said, runs the tools and waits
    for people. Where the runs are is decided as for `Runner`: without a client, by an engine of
    this process; with `using`, by the workers of a task queue, which need the same agents and run
    their tools. This process has the line, and the plan of each call.

    Args:
        model: the realtime model; default: OpenAI's, over a WebSocket.
        label: what people read of the lines in the Temporal UI, such as `phone call`.
        notice_after: how long a caller waits for a tool, or for a person's decision, until the
            agent says that it is waiting; None for never.
        session_limit: the age at which a connection is replaced, at the end of a turn; None for
            never. Providers end sessions after 60 minutes.

    Raises:
        UserError: an argument does not fit.
    """

    def __init__(
        self,
        starting_agent: RealtimeAgent[Any],
        *,
        model: RealtimeModel | None = None,
        config: RealtimeRunConfig | None = None,
        label: str = "realtime call",
        notice_after: timedelta | None = NOTICE_AFTER,
        session_limit: timedelta | None = SESSION_LIMIT,
    ) -> None:
        if not isinstance(cast("object", starting_agent), RealtimeAgent):
            raise UserError(
                f"RealtimeRunner() starts with a RealtimeAgent, not {shown(starting_agent)}."
            )
        _check_duration("notice_after", notice_after)
        _check_duration("session_limit", session_limit)
        self._agent = starting_agent
        self._model = model if model is not None else OpenAIRealtimeWebSocketModel()
        self._config: RealtimeRunConfig = {} if config is None else config
        self._label = label
        self._options = LineOptions(
            run_config=self._config, notice_after=notice_after, session_limit=session_limit
        )

    async def run(
        self,
        *,
        context: Any = None,
        model_config: RealtimeModelConfig | None = None,
        id: str | None = None,
        hooks: RealtimeRunHooks[Any] | str | None = None,
        run_config: RunConfig | Mapping[str, Any] | None = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        customer: Customer | str | None = None,
    ) -> RealtimeSession:
        """Return a session, which starts when it is entered.

        With the id of a run that is open, the session continues it: a conversation in text goes on
        as a call, a call that was cut off goes on, and a second session takes the place of the
        first. With a `call_id` in `model_config`, the session attaches to a call that exists at
        the provider, from any process.

        Args:
            context: the application's context, as for `Runner.run`.
            model_config: how to connect to the model.
            id: the run's id; default: a new one. Only a run with an id that the program chose stays
                open after the session, unless something is pending.
            hooks: hooks of the run. Hooks of model calls are called for text turns only.
            run_config: settings of the run, such as the model of text turns.
            max_turns: the maximum number of model calls for one question.
            customer: who speaks, as for `Runner.start`.

        Raises:
            UserError: an argument does not fit.
        """
        client, queue = self._place.get("client"), self._place.get("task_queue")
        check_place(id, client, queue, is_new=True)
        registry = self._registry(context)
        config = self._run_config(run_config)
        definitions = LocalDefinitions(self._agent, run_config=config, context=context)
        host = self._host(definitions)
        record = run_input(
            self._agent,
            "",
            references=host.objects.references,
            keep_open=True,
            context=context,
            hooks=cast("Any", hooks),
            run_config=config,
            max_turns=max_turns,
            customer=customer,
        )
        run = SessionRun(
            id=id or f"call-{secrets.token_hex(6)}",
            is_named=id is not None,
            record=replace(record, awaits_line=True),
            definitions=definitions,
            host=host,
            context=context,
            registry=registry if client or queue else None,
            tenant=as_tenant(self._place.get("tenant")),
        )
        return self._session(run, registry, model_config or RealtimeModelConfig())

    def _host(self, definitions: LocalDefinitions) -> RunHost:
        place = self._place
        return RunHost(
            self._agent,
            place.get("client"),
            place.get("task_queue"),
            definitions.program_context,
            place.get("patience"),
            blob_store=place.get("blob_store"),
        )

    def _registry(self, context: object) -> Registry:
        registry = Registry([self._agent], tell_apart=True)
        for name in registry.names:
            agent = registry.agent(name)
            if isinstance(agent, RealtimeAgent):
                check_realtime(agent)
        kind = context_class(context)
        if kind is not None:
            registry.add_context_type(kind)
        return registry

    def _session(
        self, run: SessionRun, registry: Registry, model_config: RealtimeModelConfig
    ) -> RealtimeSession:
        options = replace(self._options, model_config=model_config)

        async def open_line(events: SessionEvents, tell: Listener) -> Line:
            line_run = LineRun(await run.open(), self._label)
            objects = run.host.objects
            worker = WorkerDeps(
                registry=registry.for_run(objects.references),
                models=_NoModels(),
                live=objects.live,
                started_here=objects.live is not None,
            )
            return Line(self._model, line_run, worker, options, events, tell)

        settings = self._config.get("guardrails_settings") or {}
        return RealtimeSession(
            run=run,
            model=self._model,
            open_line=open_line,
            guardrails=[*self._config.get("output_guardrails", ())],
            debounce=settings.get("debounce_text_length", DEBOUNCE),
        )

    @classmethod
    async def attach(cls, id: str, *, agent: RealtimeAgent[Any] | None = None) -> RunHandle:
        """Return a handle on the run of a call, from any process, during the call or after it.

        The handle reads the conversation, decides about tool calls and sends messages. To speak, run a
        session with the same id. With `agent`, the starting agent, this process hosts the run.

        Raises:
            RunNotFound: there is no such run.
            UserError: an argument does not fit.
        """
        place: dict[str, Any] = {
            name: value for name, value in cls._place.items() if name in _OF_A_HANDLE
        }
        return await Runner.attach(id, agent=agent, **place)

    def _run_config(self, run_config: RunConfig | Mapping[str, Any] | None) -> RunConfig:
        """Return the settings of the run, with those that its text turns share with the line.

        Raises:
            UserError: a setting changes what a model sees of the conversation.
        """
        config = as_run_config(run_config)
        if config.handoff_input_filter is not None or config.nest_handoff_history:
            raise UserError(
                "RunConfig(handoff_input_filter=, nest_handoff_history=) change what the next "
                "agent sees, but the provider keeps the conversation of a session. Leave them out."
            )
        own: dict[str, Any] = {**self._config}
        same = ("tool_error_formatter", "tracing_disabled", "tool_execution")
        changes = {one: own[one] for one in same if own.get(one) not in (None, {})}
        if guardrails := self._config.get("output_guardrails"):
            changes["output_guardrails"] = [*(config.output_guardrails or ()), *guardrails]
        return replace(config, **changes)


class _NoModels:
    def get_model(self, model_name: str | None) -> Model:
        """Refuse.

        Raises:
            UserError: always.
        """
        raise UserError(f"A realtime line calls no other model, such as {model_name!r}.")

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


def _check_duration(name: str, value: object) -> None:
    if value is not None and (not isinstance(value, timedelta) or value <= timedelta(0)):
        raise UserError(f"RealtimeRunner({name}=) is a positive timedelta or None, not {value!r}.")
