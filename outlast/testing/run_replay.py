"""Replays a recorded run against today's agents: the models' replies and tools' results are recorded.

What varies is what today's code decides: which tools there are, whether arguments fit, who has to
approve a call, which guardrails trip, where a handoff leads.
"""

import copy
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias, TypedDict, Unpack, cast

from outlast.agents.agent import Agent
from outlast.agents.agent_tools.agent_tool import AgentTool
from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.callables import call
from outlast.agents.config.fallback_model import FallbackModel, choices_of
from outlast.agents.config.settings import ERROR_HANDLERS, references_in
from outlast.agents.context.live import live_paths
from outlast.agents.context.waits import WaitBegins
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.local import LocalTool
from outlast.client.recordings.comparison import Difference, differences
from outlast.client.recordings.recorder import KIND_OF, Recorder, canonical
from outlast.client.recordings.recording import FROM_OUTSIDE, STEPS, Entry, Recording
from outlast.client.results.pending_waits import pending_waits
from outlast.client.start.options import check_names
from outlast.contract import blobs, history, records
from outlast.edges.rendering import call_line, counted, joined, named
from outlast.loop import invariants
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.loop.call_forms import FUNCTION
from outlast.loop.calls import (
    AgentResult,
    HandoffResult,
    ModelReply,
    PreparedRun,
    ToolResult,
    ViewSummary,
)
from outlast.loop.checks import FinalizedAnswer, GuardrailRecord
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    CleanUp,
    CompactView,
    Effect,
    EffectAnswered,
    EffectFailed,
    FinalizeAnswer,
    KeepLineOpen,
    NotifyPeople,
    OffloadItems,
    PrepareRun,
    RunAgent,
    RunHandoff,
    RunTool,
    SaveSession,
)
from outlast.loop.events import (
    CancelRequested,
    Event,
    MessageReceived,
    MessageWithdrawn,
    PersonActed,
    RetryRequested,
    RunEnded,
    TimePassed,
    ValueDelivered,
)
from outlast.loop.human_actions import ACTION_NAMED, problem_of
from outlast.loop.items import Message, call_id_of
from outlast.loop.machine import advance
from outlast.loop.notices import ALL_DELIVERED
from outlast.loop.state import LoopState
from outlast.loop.stored import Offload
from outlast.loop.values import JsonObject
from outlast.ports.model import (
    BackgroundModel,
    CompactingModel,
    Model,
    ModelProvider,
    ModelRequest,
    ModelResponse,
)
from outlast.ports.model_arguments import CallObjects, answers_both_forms, by_record
from outlast.testing.in_memory import carried_out, delivery_for
from outlast.testing.model_limit import ModelLimit
from outlast.testing.run import deps_for
from outlast.testing.waits import as_json

MOST_STEPS: Final = 20_000
"""A replay that takes more steps does not end by itself."""

_BACKGROUND: Final = (SaveSession, OffloadItems, KeepLineOpen, NotifyPeople, CleanUp)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownCall:
    """A call of a tool whose result the recording does not have.

    Attributes:
        agent: the agent that made it.
        name: the tool.
        arguments: the arguments, as JSON text.
    """

    agent: str
    name: str
    arguments: str

    def __str__(self) -> str:
        return call_line(self.name, self.arguments)


OnUnknown: TypeAlias = Callable[[UnknownCall], Any]
"""Answers calls that are not recorded, sync or async: returns what the tool would return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCall:
    """A model call of a replay: what the model would read today, and the recorded reply.

    Attributes:
        question: the number of the question, from 1.
        turn: the number of the model call for the question, from 1.
        agent: the agent.
        request: the request that today's code makes.
        reply: the items of the reply.
        refused: the ids of its calls that cannot run, such as with invalid arguments.
    """

    question: int
    turn: int
    agent: str
    request: ModelRequest
    reply: tuple[JsonObject, ...]
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What became of a replay.

    Attributes:
        recording: the recorded run.
        now: the recording of the replayed run.
        differences: the decisions that differ, in order.
        unknown: the calls that the recording has no result for.
        stopped: why the replay could not go on; empty if it went on to the end.
        calls: the model calls that the recording has answered.
    """

    recording: Recording
    now: Recording
    differences: tuple[Difference, ...]
    unknown: tuple[UnknownCall, ...] = ()
    stopped: str = ""
    calls: tuple[ReplayedCall, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether the run would decide the same today."""
        return not self.differences and not self.stopped

    def report(self) -> str:
        """Return the differences as text, a line for each, with invisible characters escaped."""
        number = len(self.differences)
        verb = "differs" if number == 1 else "differ"
        what = f"{counted(number, 'decision')} {verb}" if number else "the same decisions"
        lines: list[str] = [joined(f"{self.recording.run_id}: ", what)]
        lines += [f"  {one}" for one in self.differences]
        if self.stopped:
            lines.append(joined("  stopped: ", self.stopped))
        return "\n".join(lines)


class ReplayOptions(TypedDict, total=False):
    """The options of a replay.

    Attributes:
        on_unknown: answers tool calls that are not recorded; by default, they fail.
        model: makes the replies instead of the recording: for example with another prompt.
        real_tools: names of tools that run, even if the recording has a result for the call.
        context: the context, if it has parts that are no JSON.
        approvals: the operators' file of approval policies, if workers have one.
        limit: what `model` may be called for; the replay stops where it is reached.
    """

    on_unknown: OnUnknown | None
    model: Model | ModelProvider | None
    real_tools: Collection[str]
    context: Any
    approvals: str | Path | ApprovalFile | None
    limit: ModelLimit | None


async def replay(
    recording: Recording,
    agents: Agent[Any] | Sequence[Agent[Any]],
    **options: Unpack[ReplayOptions],
) -> Replay:
    """Replay a recorded run against agents, without a server and without calling their tools.

    Models' replies, tools' results, handoffs' callbacks and nested runs are as recorded, and what
    people and programs did is done again. Instructions, guardrails, approval conditions and
    `is_enabled` predicates run. Hooks and MCP servers are left out. A new approval request is
    approved, so that the rest can be compared.

    Args:
        recording: the recorded run.
        agents: today's agents; those that they hand over to are found.
        **options: see `ReplayOptions`.

    Raises:
        UserError: the recording cannot be replayed, or no agent has one of the `real_tools`.
    """
    check_names(options, ReplayOptions, caller="replay")
    replayed = _Replay(recording, [agents] if isinstance(agents, Agent) else agents, options)
    await replayed.run()
    now = replayed.recorder.recording()
    found = differences(recording, now, is_cut=bool(replayed.stopped))
    return Replay(
        recording=recording,
        now=replace(now, complete=recording.complete),
        differences=(*replayed.refused, *found),
        unknown=tuple(replayed.unknown),
        stopped=replayed.stopped,
        calls=tuple(replayed.calls),
    )


class AgentMissingError(UserError):
    """A replay lacks the agent with which the run starts."""


class _ReplayedRegistry(Registry):
    """Agents whose tools answer from a recording, but for the real ones."""

    def __init__(
        self,
        agents: Iterable[Agent[Any]],
        answer: Callable[..., Any],
        real: Collection[str],
        stand_in: Model | None,
    ) -> None:
        """Change the agents.

        Args:
            agents: the agents.
            answer: answers calls of tools.
            real: the names of the tools that run.
            stand_in: replies instead of the models that agents have as objects.
        """
        super().__init__(agents)
        missing = set(real)
        for name, agent in list(self._agents.items()):
            missing -= {one.name for one in agent.tools if isinstance(one, FunctionTool)}
            tools = [one if one.name in real else _answering(one, answer) for one in agent.tools]
            model = agent.model if stand_in is None else _replaced(agent.model, stand_in)
            changed = agent.clone(tools=tools, mcp_servers=[], hooks=None, model=model)
            self._agents[name] = changed
            self._names[id(changed)] = name
        if missing:
            raise UserError(f"No agent has the tool {min(missing)!r}, which is to run in a replay.")


def _replaced(model: Any, stand_in: Model) -> Any:
    """Return the model of an agent, with another one in place of each that is an object."""
    choices = choices_of(model)
    if all(one.model is None or isinstance(one.model, str) for one in choices):
        return model
    if len(choices) == 1 and choices[0].settings is None:
        return stand_in
    named: list[Any] = [
        one.model if one.model is None or isinstance(one.model, str) else stand_in
        for one in choices
    ]
    return FallbackModel(
        *(
            one if other.settings is None else (one, other.settings)
            for one, other in zip(named, choices, strict=True)
        )
    )


def _answering(tool: Any, answer: Callable[..., Any]) -> Any:
    if not isinstance(tool, FunctionTool) or isinstance(tool, AgentTool | LocalTool):
        return tool
    copied = copy.copy(tool)
    copied.on_invoke_tool = answer
    copied.custom_data_extractor = None
    return copied


class _RecordedModel(ModelProvider):
    """Answers with the reply that the replay is at."""

    def __init__(self) -> None:
        self.reply = ModelReply(items=())
        self.request: ModelRequest | None = None

    def get_model(self, name: str | None) -> Model:
        del name
        return cast("Model", self)

    @answers_both_forms
    async def get_response(self, request: ModelRequest) -> ModelResponse:
        self.request = request
        return self._response()

    async def begin_response(self, request: ModelRequest) -> str:
        self.request = request
        return _BEGUN

    async def read_response(self, response_id: str, request: ModelRequest) -> ModelResponse:
        del response_id, request  # the request that began the response has the messages
        return self._response()

    async def cancel_response(self, response_id: str) -> None:
        del response_id

    async def compact(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError  # summaries are as recorded

    def _response(self) -> ModelResponse:
        reply = self.reply
        items = [dict(one) for one in reply.items]
        return ModelResponse(output=items, usage=reply.usage, response_id=reply.response_id)


class _Given(ModelProvider):
    """Models that make the replies of a replay, each as able as the models of the agents."""

    def __init__(self, given: Model | ModelProvider) -> None:
        self._given = given
        self._able: dict[int, _AsAble] = {}

    def get_model(self, name: str | None) -> Model:
        given = self._given
        model = given.get_model(name) if isinstance(given, ModelProvider) else given
        if isinstance(model, BackgroundModel) and isinstance(model, CompactingModel):
            return model
        if not callable(getattr(cast("object", model), "get_response", None)):
            return model  # the worker says what is wrong with it
        return cast("Model", self._able.setdefault(id(model), _AsAble(model)))


class _AsAble:
    """A model that stands in for another one.

    A response in the background is made when it is begun. A conversation is made shorter as
    recorded, so `compact` is there and is not called.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._begun: dict[str, ModelResponse] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def begin_response(self, request: ModelRequest) -> str:
        if isinstance(self._model, BackgroundModel):
            return await self._model.begin_response(request)
        settings = replace(request.settings, background=None)
        model = by_record(self._model, CallObjects())
        response_id = f"{_BEGUN}-{len(self._begun) + 1}"
        self._begun[response_id] = await model.get_response(replace(request, settings=settings))
        return response_id

    async def read_response(self, response_id: str, request: ModelRequest) -> ModelResponse | None:
        if isinstance(self._model, BackgroundModel):
            return await self._model.read_response(response_id, request)
        return self._begun[response_id]

    async def cancel_response(self, response_id: str) -> None:
        if isinstance(self._model, BackgroundModel):
            await self._model.cancel_response(response_id)

    async def compact(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError


_BEGUN: Final = "replayed"
"""The id of a response in the background that a replay makes at once."""


@dataclass
class _Current:
    """The answer of the tool that runs now."""

    result: ToolResult | None
    unknown: UnknownCall
    invoked: bool = False


class _Replay:
    def __init__(
        self, recording: Recording, agents: Sequence[Agent[Any]], options: ReplayOptions
    ) -> None:
        context, model = options.get("context"), options.get("model")
        approvals, limit = options.get("approvals"), options.get("limit")
        if isinstance(approvals, str | Path):
            approvals = ApprovalFile.load(approvals)
        _check(recording, context)
        self.recorder = Recorder()
        self.refused: list[Difference] = []
        self.unknown: list[UnknownCall] = []
        self.calls: list[ReplayedCall] = []
        self.stopped = ""
        self._is_over = False
        self._recording = recording
        self._on_unknown = options.get("on_unknown")
        self._model = _RecordedModel()
        self._calls_model = model is not None
        provider: ModelProvider = self._model
        if model is not None:
            provider = _Given(model)
        self._limit = limit if self._calls_model and limit is not None else ModelLimit()
        self._real_tools = real_tools = options.get("real_tools", ())
        stand_in = None if self._calls_model else self._model.get_model(None)
        registry = _ReplayedRegistry(agents, self._answer, real_tools, stand_in)
        if recording.start.agent not in registry.names:
            raise AgentMissingError(
                joined(f"The run {recording.run_id} cannot be replayed: ")
                + f"its agent {named(recording.start.agent)} is not here, only "
                f"{', '.join(map(named, registry.names))}."
            )
        self._worker = deps_for(registry, provider, context, approvals)
        self._current = _Current(None, UnknownCall(agent="", name="", arguments=""))
        self._state = LoopState()
        kinds = (STEPS | FROM_OUTSIDE) - ({"model"} if self._calls_model else frozenset())
        listed = [one for one in recording.entries if one.kind in kinds][1:]
        self._left = [one for one in listed if not one.is_begun]
        self._at_ms = recording.entries[0].at_ms
        self._settings = self._settings_here(recording.start.settings or {})

    async def run(self) -> None:
        """Replay the run to its end, or as far as the recording goes."""
        self._start()
        for _ in range(MOST_STEPS):
            if self._state.phase == "closed" or self.stopped:
                return
            if self._is_over or not await self._step():
                self._end_as_recorded()
                return
        self.stopped = f"The replay took more than {MOST_STEPS:,} steps."

    def _start(self) -> None:
        first, start = self._recording.entries[0], self._recording.start
        record = records.RunInput(
            agent=start.agent,
            input=[blobs.escape_item(one) for one in first.items],
            message_id=first.id or "start",
            context=start.context,
            context_type=start.context_type,
            max_turns=start.max_turns,
            keep_open=start.keep_open,
            settings=self._settings,
            handled=start.handled,
        )
        run_id = self._recording.run_id
        self._apply(history.started(run_id, record, self._at_ms, f"{run_id}-replayed"))

    def _has_no_more(self) -> bool:
        """Whether the recorded run stopped with steps under way, and the replay is there."""
        last = self._recording.entries[-1]
        is_cut = not self._recording.complete or (last.kind == "end" and last.by == "server")
        if not is_cut:
            return False
        if self._calls_model and self._is_in_recording():
            return False
        return not any(one.kind in STEPS for one in self._left)

    def _is_in_recording(self) -> bool:
        """Whether the recorded run came as far as a replay whose replies a model makes.

        A question that was answered is replayed to its answer, however many turns that takes now.
        """
        entries, question = self._recording.entries, len(self._state.answers)
        by_server = entries[-1].by == "server"
        settled = (one for one in entries if (one.kind, one.question) == ("answer", question))
        if any(one.failure is None or not by_server for one in settled):
            return True
        replied = [one.turn for one in entries if (one.kind, one.question) == ("model", question)]
        calls = any(isinstance(one, CallModel) for one in self._state.pending)
        return calls and self._state.question.turn <= max(replied, default=-1)

    def _end_as_recorded(self) -> None:
        """End a run that the server has ended, such as one that an operator has terminated."""
        end = self._recording.entries[-1]
        if end.kind == "end" and end.by == "server" and not self.stopped:
            at_ms, outcome = max(self._at_ms, end.at_ms), cast("Any", end.name)
            self._apply(RunEnded(at_ms=at_ms, outcome=outcome, failure=end.failure))

    def _settings_here(self, settings: JsonObject) -> JsonObject:
        """Return the settings without the objects that this process does not have."""
        lacking = set(self._worker.registry.unknown_references(references_in(settings)))
        kept = {
            key: value
            for key, value in settings.items()
            if not lacking.intersection(references_in({key: value}))
        }
        return {**kept, "tracing_disabled": True}

    def _apply(self, event: Event) -> None:
        self._state, _ = advance(self._state, event)
        invariants.check(self._state)
        self.recorder.take(event, self._state)

    # --- What comes next --------------------------------------------------------------------------

    async def _step(self) -> bool:
        """Do the next thing; return whether there was one."""
        blocked = {one.effect for one in self._state.blocked}
        pending = [one for one in self._state.pending if one.effect not in blocked]
        for effect in pending:
            if isinstance(effect, _BACKGROUND):
                self._apply(_done(effect, self._at_ms))
                return True
        entry = self._left[0] if self._left else None
        if entry is not None and entry.kind in FROM_OUTSIDE:
            if (self._is_due(entry) or not pending) and self._take(entry):
                return True
            if not pending:
                return True  # it has no place in the run any more
        if pending:
            await self._carry_out(pending)
            return True
        if self._take_any():
            return True
        return self._go_on_alone()

    def _is_due(self, entry: Entry) -> bool:
        place = (len(self._state.answers), self._state.question.turn)
        return place >= (entry.question, entry.turn)

    def _take_any(self) -> bool:
        """Do the next thing that came from outside, wherever the recording has it."""
        left = [entry for entry in self._left if entry.kind in FROM_OUTSIDE]
        return any(self._take(entry) for entry in left)

    async def _carry_out(self, pending: Sequence[Effect]) -> None:
        effect = pending[0]
        if self._left:
            effect = next((one for one in pending if _fits(self._left[0], one)), effect)
        entry = self._entry_for(effect)
        if entry is None and self._has_no_more():
            self._is_over = True
            return
        if entry is not None:
            for one in self._left[: self._left.index(entry)]:
                if one.kind in FROM_OUTSIDE and self._is_due(one) and self._take(one):
                    return  # it came before
        await self._perform(effect, entry)

    def _entry_for(self, effect: Effect) -> Entry | None:
        """Return the recorded entry of an effect: of the same call, or else of an equal one."""
        settled = len(self._state.answers)
        fitting = [one for one in self._left if one.question >= settled and _fits(one, effect)]
        if not isinstance(effect, RunTool | RunAgent | RunHandoff):
            return fitting[0] if fitting else None
        arguments = canonical(effect.arguments)
        same = [one for one in fitting if canonical(one.arguments) == arguments]
        by_id = [one for one in fitting if one.call_id == effect.call_id]
        both = [one for one in same if one in by_id]
        loose = [] if self._calls_model else by_id
        return next(iter([*both, *same, *loose]), None)

    # --- From outside -----------------------------------------------------------------------------

    def _take(self, entry: Entry) -> bool:
        """Let something from outside happen again; return whether it has a place in the run."""
        event = self._event_of(entry)
        can_wait = entry.kind in {"action", "delivery"} and bool(self._state.pending)
        if event is None and can_wait:
            return False
        self._left.remove(entry)
        if event is None:
            return False
        self._at_ms = max(self._at_ms, entry.at_ms)
        if isinstance(event, PersonActed) and (problem := problem_of(self._state, event)):
            self._refuse(entry, problem)
            return False
        self._apply(event)
        return True

    def _refuse(self, entry: Entry, problem: str) -> None:
        what = joined(f"{entry.by or 'somebody'}: {entry.name} {entry.target}".strip())
        self.refused.append(
            Difference(
                kind="decision",
                question=len(self._state.answers) + 1,
                turn=self._state.question.turn,
                agent=self._state.agent,
                was=what,
                now=joined("refused: ", problem),
            )
        )

    def _event_of(self, entry: Entry) -> Event | None:
        at_ms = max(self._at_ms, entry.at_ms)
        match entry.kind:
            case "message":
                content = tuple(blobs.escape_item(one) for one in entry.items)
                message = Message(entry.id, content, at_ms, cast("Any", entry.name or "steer"))
                return MessageReceived(at_ms=at_ms, message=message)
            case "action":
                return self._action(entry, at_ms)
            case "delivery":
                return self._delivery(entry, at_ms)
            case "time":
                return TimePassed(at_ms=at_ms)
            case "cancel":
                return CancelRequested(at_ms=at_ms, mode=cast("Any", entry.name or "immediate"))
            case "retry":
                return RetryRequested(at_ms=at_ms, answers=len(self._state.answers))
            case _:
                return MessageWithdrawn(at_ms=at_ms, message_id=entry.id)

    def _action(self, entry: Entry, at_ms: int) -> PersonActed[Any] | None:
        row = ACTION_NAMED.get(entry.name)
        if row is None:
            return None
        payload = dict(entry.result or {})
        if entry.name == "decide":
            asked = self._state.own_requests
            meant = [one for one in asked if (one.name, one.agent) == (entry.target, entry.agent)]
            exact = [one for one in meant if one.call_id == entry.call_id]
            if not meant:
                return None
            payload["request_id"] = (exact or meant)[0].id
        action: Any = _read(row.record, payload, entry)
        return PersonActed(at_ms=at_ms, action=action, verified=entry.verified)

    def _delivery(self, entry: Entry, at_ms: int) -> ValueDelivered | None:
        waits = [one for one in pending_waits(self._state) if one.name == entry.name]
        exact = [one for one in waits if one.call_id == entry.call_id]
        meant = exact or [one for one in waits if one.tool == entry.target]
        if not meant:
            return None
        return delivery_for(
            meant[0],
            at_ms=at_ms,
            value=entry.value,
            delivery_id=f"recorded-{len(self._state.receipts)}",
            source=entry.by,
            verified=entry.verified,
        )

    def _go_on_alone(self) -> bool:
        """Approve a request that the recording does not have; return whether there was one."""
        if not self._state.own_requests or self._has_no_more():
            return False
        request = self._state.own_requests[0]
        event = _approval(request, len(request.votes), self._at_ms)
        problem = problem_of(self._state, event)
        if problem is not None:
            self.stopped = f"Nobody decides about {request.name}: {problem}"
            return False
        self._apply(event)
        return True

    # --- Steps ------------------------------------------------------------------------------------

    async def _perform(self, effect: Effect, entry: Entry | None) -> None:
        if entry is not None:
            self._at_ms = max(self._at_ms, entry.at_ms)
        if isinstance(effect, CallModel) and entry is None and not self._calls_model:
            self.stopped = (
                f"The recording has no reply of {effect.agent} at question "
                f"{len(self._state.answers) + 1}, turn {effect.turn}."
            )
            return
        if isinstance(effect, CallModel) and (reached := self._limit.reached):
            self.stopped = reached
            return
        event = await self._event_from(effect, entry)
        if entry is not None and not _has_not_happened(event):
            self._left.remove(entry)
        self._apply(replace(event, at_ms=self._at_ms))

    async def _event_from(self, effect: Effect, entry: Entry | None) -> Any:
        is_real = isinstance(effect, RunTool) and effect.name in self._real_tools
        if entry is not None and entry.failure is not None and not is_real:
            return EffectFailed(at_ms=self._at_ms, effect=effect.effect, failure=entry.failure)
        result: Any = None
        match effect:
            case RunTool() if is_real:
                return await self._carried_out(effect)
            case RunTool():
                return await self._tool(effect, _result(ToolResult, entry))
            case RunAgent():
                result = _result(AgentResult, entry)
                if result is None:
                    output = await self._rule(_unknown(effect))
                    result = AgentResult(final_output=as_json(output, "on_unknown"))
            case RunHandoff():
                result = _result(HandoffResult, entry) or HandoffResult()
            case CompactView():
                result = _result(ViewSummary, entry) or ViewSummary()
            case CallModel():
                return await self._model_call(effect, _result(ModelReply, entry))
            case FinalizeAnswer() if entry is not None and self._lacks_handler(effect):
                result = _result(FinalizedAnswer, entry)
            case PrepareRun():
                return _as_prepared(await self._carried_out(effect), _result(PreparedRun, entry))
            case _:
                return await self._carried_out(effect)
        return EffectAnswered(at_ms=self._at_ms, effect=effect.effect, result=result)

    def _lacks_handler(self, effect: FinalizeAnswer) -> bool:
        """Whether a handler of the run's program made the answer, which this process does not have."""
        return effect.candidate.failure is not None and ERROR_HANDLERS not in self._settings

    async def _carried_out(self, effect: Effect) -> Event:
        patient = self._calls_model and isinstance(effect, CallModel)
        return await carried_out(self._worker, self._state, effect, is_patient=patient)

    async def _model_call(self, effect: CallModel, then: ModelReply | None) -> Event:
        self._model.reply = then or ModelReply(items=())
        if effect.begun is None:
            self._model.request = None
        event = await self._carried_out(effect)
        if _is_begun(event):
            return event
        if self._calls_model and isinstance(event, EffectAnswered):
            self._limit.count(cast("ModelReply", event.result))
        if self._model.request is not None:
            replayed = ReplayedCall(
                question=len(self._state.answers) + 1,
                turn=effect.turn,
                agent=effect.agent,
                request=self._model.request,
                reply=self._model.reply.items,
                refused=_refused_in(event),
            )
            self.calls.append(replayed)
        if then is None or not isinstance(event, EffectAnswered):
            return event
        served = {one.item: one for one in then.calls if one.source}
        reply = cast("ModelReply", event.result)
        if then.failure is not None and not then.items:  # the model sent junk, which is not kept
            return replace(event, result=replace(reply, failure=then.failure))
        if not served or reply.unchecked:
            return event
        # MCP servers are left out, so the plans of their tools are as recorded.
        calls = tuple(served.get(one.item, one) for one in reply.calls)
        return replace(event, result=replace(reply, calls=calls))

    async def _tool(self, effect: RunTool, then: ToolResult | None) -> Event:
        if then is not None and any(map(_stops_call, then.checks)):
            then = None  # a guardrail answered instead of the tool
        if effect.form != FUNCTION or effect.source or effect.done:
            result = then
            if result is None:
                output = as_json(await self._rule(_unknown(effect)), "on_unknown")
                result = ToolResult(output=output)
            return EffectAnswered(at_ms=self._at_ms, effect=effect.effect, result=result)
        current = self._current = _Current(result=then, unknown=_unknown(effect))
        event = await self._carried_out(effect)
        if then is None or not isinstance(event, EffectAnswered):
            return event
        if not current.invoked and not effect.output_of:
            return event  # today's code does not let it run
        now = cast("ToolResult", event.result)
        return replace(event, result=_as_recorded(now, then))

    async def _answer(self, context: ToolContext[Any], arguments: str) -> Any:
        """Stand in for every function tool."""
        del context, arguments
        current = self._current
        current.invoked = True
        if current.result is not None:
            if current.result.wait is not None:
                raise WaitBegins(current.result.wait)
            return current.result.output
        return await self._rule(current.unknown)

    async def _rule(self, unknown: UnknownCall) -> Any:
        self.unknown.append(unknown)
        if self._on_unknown is None:
            return f"The recording has no result of {unknown.name} with these arguments."
        return await call(self._on_unknown, unknown)


def _check(recording: Recording, context: Any) -> None:
    if recording.starts_late:
        raise UserError(
            f"The run {recording.run_id} cannot be replayed: its beginning is no longer retained, or "
            "is that of another run, which it was forked from."
        )
    if recording.lost:
        raise UserError(
            f"The run {recording.run_id} cannot be replayed: its history {recording.lost[0]} is lost, "
            "and what happened in it is unknown."
        )
    if any(one.kind == "line" for one in recording.entries):
        raise UserError(
            f"The run {recording.run_id} cannot be replayed: a realtime line made its model calls."
        )
    if not recording.entries or recording.entries[0].kind != "message":
        raise UserError(f"The run {recording.run_id} cannot be replayed: it has no first message.")
    if context is None and (missing := list(live_paths(recording.start.context))):
        names = ", ".join(".".join(path) or "context" for path, _ in missing)
        raise UserError(
            f"The run {recording.run_id} cannot be replayed without its context, which has parts "
            f"that are no JSON: {names}. Pass it: replay(..., context=...)."
        )


def _fits(entry: Entry, effect: Effect) -> bool:
    """Whether an entry may be the record of an effect."""
    if entry.kind != KIND_OF.get(type(effect)):
        return False
    match effect:
        case CallModel():
            return entry.agent == effect.agent
        case CheckInput():
            return entry.name == effect.stage
        case RunTool() | RunAgent() | RunHandoff():
            return entry.name == effect.name
        case _:
            return True


def _result(kind: type[Any], entry: Entry | None) -> Any:
    if entry is None or entry.result is None:
        return None
    return _read(kind, entry.result, entry)


def _read(kind: type[Any], record: JsonObject, entry: Entry) -> Any:
    try:
        return records.read(kind, record)
    except records.UnreadableRecordError as error:
        raise UserError(
            f"The recording cannot be replayed: its {entry.kind} entry at question "
            f"{entry.question + 1}, turn {entry.turn}, was changed or redacted too far: {error}"
        ) from error


def _unknown(effect: RunTool | RunAgent) -> UnknownCall:
    return UnknownCall(agent=effect.agent, name=effect.name, arguments=effect.arguments)


def _done(effect: Effect, at_ms: int) -> Event:
    result: Any = None
    if isinstance(effect, OffloadItems):
        result = Offload()
    elif isinstance(effect, NotifyPeople):
        result = ALL_DELIVERED
    elif isinstance(effect, CleanUp):
        result = ToolResult(output=None)
    return EffectAnswered(at_ms=at_ms, effect=effect.effect, result=result)


def _has_not_happened(event: Event) -> bool:
    """Whether a worker answered without doing what the recording has: people have to approve it."""
    result = event.result if isinstance(event, EffectAnswered) else None
    if isinstance(result, ToolResult):
        return result.required is not None
    return isinstance(result, ModelReply) and (result.unchecked or result.begun is not None)


def _is_begun(event: Event) -> bool:
    """Whether a model makes the reply in the background."""
    result = event.result if isinstance(event, EffectAnswered) else None
    return isinstance(result, ModelReply) and result.begun is not None


def _refused_in(event: Event) -> tuple[str, ...]:
    """Return the ids of the calls of a reply that cannot run."""
    reply = event.result if isinstance(event, EffectAnswered) else None
    if not isinstance(reply, ModelReply):
        return ()
    refused = (one.item for one in reply.calls if one.problem is not None)
    return tuple(call_id_of(reply.items[item]) for item in refused)


def _as_prepared(event: Event, then: PreparedRun | None) -> Event:
    if then is None or not isinstance(event, EffectAnswered):
        return event
    now = cast("PreparedRun", event.result)
    return replace(event, result=replace(now, input=then.input, old=then.old))


def _intervenes(check: GuardrailRecord) -> bool:
    return check.tripped or (check.behavior or {}).get("type") == "reject_content"


def _stops_call(check: GuardrailRecord) -> bool:
    return check.stage == "tool_input" and _intervenes(check)


def _as_recorded(now: ToolResult, then: ToolResult) -> ToolResult:
    """Return the recorded result of a call with what today's guardrails say of it."""
    stopped = now.required is not None or now.failure is not None
    if stopped or any(map(_intervenes, now.checks)):
        return now
    value = then.value if then.value is not None else now.value
    return replace(then, checks=now.checks, value=value)


def _approval(request: ApprovalRequest, number: int, at_ms: int) -> PersonActed[Any]:
    """Return the vote of somebody who may decide."""
    audience = request.terms.audience
    named = audience.subjects[number] if number < len(audience.subjects) else f"replay-{number + 1}"
    decision = Decision(request_id=request.id, type="approve", by=named, groups=audience.groups)
    return PersonActed(at_ms=at_ms, action=decision, verified=True)
