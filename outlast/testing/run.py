"""Runs agents like functions: `run_in_memory`, with the options of `Runner.run`."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias, Unpack

from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.callables import call
from outlast.agents.context.codec import context_class, write_parts
from outlast.agents.errors import UserError
from outlast.agents.references import RunReferences
from outlast.agents.registry import Registry
from outlast.client.read.run_end import result_or_raise
from outlast.client.recordings.recorder import Recorder
from outlast.client.recordings.recording import Recording
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.client.results.pending_waits import PendingWait
from outlast.client.results.run_result import RunResult
from outlast.client.results.run_state import RunState, is_list_input
from outlast.client.start.options import StartOptions, check_names, run_input
from outlast.client.start.resumed_settings import check_resumed_settings
from outlast.contract import blobs, records
from outlast.edges.newest import keep_newest
from outlast.loop.approvals import ApprovalRequest, Decision, VoteType
from outlast.loop.effects import RunAgent
from outlast.loop.events import MessageReceived
from outlast.loop.items import Message
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.ports.model import Model, ModelProvider
from outlast.ports.session import open_session
from outlast.testing.in_memory import MemoryRun, OnEvent, now_ms
from outlast.testing.waits import NothingComes, as_json
from outlast.tracing.provider import join_current_trace
from outlast.tracing.receivers import REGISTRATION
from outlast.views.acts import decision_about
from outlast.views.run import loop_state

Choice: TypeAlias = bool | str | Decision
"""True approves, False rejects, a text rejects with a message, a `Decision` says any of them."""

Decide: TypeAlias = Callable[[ApprovalRequest], Choice | Awaitable[Choice]]
"""A callback that decides requests."""

Deliver: TypeAlias = Mapping[str, Any] | Callable[[PendingWait], Any]
"""What tools wait for: values by the names of waits, or a sync or async callback."""

RUN_ID = "in-memory"
"""The default id of a run."""

KEPT_RUNS = 100
"""The maximum number of waiting runs kept for resuming."""

_waiting: OrderedDict[int, tuple[LoopState, MemoryRun]] = OrderedDict()
"""Waiting runs, by the identity of the state that their handle holds."""


async def run_in_memory(
    agent: Agent[Any],
    input: str | list[JsonObject] | RunState,
    *,
    model: Model,
    decide: Decide | None = None,
    deliver: Deliver | None = None,
    run_id: str = RUN_ID,
    **options: Unpack[StartOptions],
) -> RunResult:
    """Run an agent to its answer, or until it waits for a person or for something outside.

    `model` serves every agent, for example a `ScriptedModel`. `decide` decides approval requests.
    `deliver` has what tools wait for (`ToolContext.wait_for`): values by the names of waits, or a
    function of a `PendingWait`. `NOTHING_COMES` as a value lets the time pass: a tool with `every=`
    looks for itself again and again, and the wait's deadline comes. Without a decision or a delivery
    that it needs, the run returns with the status `waiting` or `parked`, and resumes with the state
    of its result as `input`. Idempotency keys begin with `run_id`. The
    options are those of `Runner.run`, except those that locate the run.

    Raises:
        DecisionRefused: a decision does not apply, such as a second vote by one person.
        DeliveryRefused: a value does not fit the schema of its wait.
        AgentsException: the run failed; the subclass says why, as with `Runner.run`.
    """
    definitions = definitions_of(agent, input, options, caller="run_in_memory")
    if isinstance(input, RunState):
        run = resumed(agent, input, model, options, run_id)
    else:
        await open_session(options.get("session"))
        run = started(agent, input, model=model, run_id=run_id, **options)
    await execute(run, decide, deliver)
    return result_or_raise(run.state, definitions, None)


def definitions_of(
    agent: Agent[Any],
    input: str | list[JsonObject] | RunState,
    options: StartOptions,
    *,
    caller: str,
) -> LocalDefinitions:
    """Return what results need of a run's definitions, and check the names of the options."""
    check_names(options, StartOptions, caller=caller)
    return LocalDefinitions(
        agent,
        run_config=options.get("run_config"),
        context=options.get("context"),
        input_is_list=is_list_input(input),
    )


def started(
    agent: Agent[Any],
    input: str | list[JsonObject],
    *,
    model: Model,
    run_id: str = RUN_ID,
    stream: bool = False,
    on_event: OnEvent | None = None,
    **options: Unpack[StartOptions],
) -> MemoryRun:
    """Return a run that has received its input."""
    references = RunReferences()
    worker = worker_for(agent, model, options.get("context"), references)
    run = MemoryRun(worker, run_id, on_event=on_event)
    record = run_input(agent, input, references=references, stream=stream, **options)
    record = replace(record, input=_escaped(record.input))
    run.start(replace(record, settings=join_current_trace(record.settings)))
    return run


async def record_in_memory(
    agent: Agent[Any],
    input: str | list[JsonObject],
    *,
    model: Model,
    decide: Decide | None = None,
    deliver: Deliver | None = None,
    run_id: str = RUN_ID,
    **options: Unpack[StartOptions],
) -> Recording:
    """Run an agent in memory and return the recording, also of a run that fails or waits.

    The arguments are those of `run_in_memory`.
    """
    check_names(options, StartOptions, caller="record_in_memory")
    recorder = Recorder()
    await open_session(options.get("session"))
    run = started(agent, input, model=model, run_id=run_id, on_event=recorder.take, **options)
    await execute(run, decide, deliver)
    return recorder.recording()


async def execute(
    run: MemoryRun, decide: Decide | None = None, deliver: Deliver | None = None
) -> None:
    """Execute a run until it ends, or waits for what nobody decides or delivers."""
    try:
        await run.run_until_waiting()
        while await _deliver(run, deliver) or await _decide(run, decide):
            await run.run_until_waiting()
    finally:
        await run.stop()
        await run.worker.registry.release()
        await REGISTRATION.settled()  # the test may read what its processors have received
    if run.state.phase != "closed" and (run.state.pending_approvals or run.pending_waits()):
        _keep(run)


async def _decide(run: MemoryRun, decide: Decide | None) -> bool:
    if decide is None or not run.state.pending_approvals:
        return False
    request = run.state.pending_approvals[0]
    choice: Choice = await call(decide, request)
    run.decide(_decision(request, choice), request.run_id)
    return True


async def _deliver(run: MemoryRun, deliver: Deliver | None) -> bool:
    """Deliver what the first wait is for that has a value; return whether there was one."""
    for wait in run.pending_waits() if deliver is not None else ():
        value: object
        if callable(deliver):
            value = await call(deliver, wait)
        elif deliver is not None and wait.name in deliver:
            value = deliver[wait.name]
        else:
            continue
        if not isinstance(value, NothingComes):
            run.deliver(wait, as_json(value, "deliver"))
            return True
        if not run.is_asked_of_people(wait):
            run.pass_time(wait)
            return True
    return False


def _decision(request: ApprovalRequest, choice: Choice) -> Decision:
    if isinstance(choice, Decision):
        return choice
    kind: VoteType = "approve" if choice is True else "reject"
    said = choice if isinstance(choice, str) else None
    return decision_about(request, kind, message=said, by="test")


def worker_for(
    agent: Agent[Any],
    model: Model,
    context: object,
    references: RunReferences,
    *,
    before: WorkerDeps | None = None,
) -> WorkerDeps:
    """Return worker dependencies with the agent, all agents reachable from it, and one model."""
    registry, chosen = Registry([agent], tell_apart=True), None
    if before is not None:  # a run that resumes keeps the objects that it had
        own, chosen = before.registry.own_references or RunReferences(), before.registry.chosen
        own.update(references)
        references = own
    models = model if isinstance(model, ModelProvider) else _OneModel(model)
    return deps_for(registry.for_run(references, chosen), models, context)


def deps_for(
    registry: Registry,
    models: ModelProvider,
    context: object,
    approvals: ApprovalFile | None = None,
) -> WorkerDeps:
    """Return the dependencies of a worker that carries out a run of this process."""
    if (kind := context_class(context)) is not None:
        registry.add_context_type(kind)
    return WorkerDeps(
        registry=registry,
        models=models,
        live=write_parts(context)[1],
        started_here=True,
        approvals=approvals,
    )


def resumed(
    agent: Agent[Any], waiting: RunState, model: Model, options: StartOptions, run_id: str = RUN_ID
) -> MemoryRun:
    """Return a waiting run of this process with the decisions and input made since."""
    context = options.get("context")
    if waiting.snapshot is None:
        raise UserError(
            f"The run {waiting.run_id} waits on a server: resume it with Runner.run(agent, state)."
        )
    snapshot = loop_state(waiting.snapshot)
    own_id = None if run_id == RUN_ID else run_id
    passed = RunReferences()
    check_resumed_settings(snapshot, agent, options, run_id=own_id, references=passed)
    _, run = _waiting.pop(id(snapshot), (snapshot, None))
    before = None if run is None else run.worker
    worker = worker_for(agent, model, context, passed, before=before)
    if run is None or run.state is not snapshot:
        _require_no_nested_run(snapshot)
        run = MemoryRun(worker, waiting.run_id, state=snapshot)
    run.worker = worker
    run.resume()
    for staged_message in waiting.staged_input():
        content = records.messages_of(_escaped(staged_message.input))
        message = Message(staged_message.message_id, tuple(content))
        run.apply(MessageReceived(at_ms=now_ms(), message=message))
    waiting.clear_pending_input()
    for staged in waiting.staged_decisions():
        run.decide(staged.decision, staged.run_id)
    return run


def _require_no_nested_run(snapshot: LoopState) -> None:
    nested = [one.nested_id for one in snapshot.pending if isinstance(one, RunAgent)]
    if nested:
        raise UserError(
            f"The run {snapshot.run_id} waits for its nested run {nested[0]}, which run_in_memory "
            "keeps in the process that ran it and not in the stored state. Resume it there, from "
            "`result.to_state()`, or use Runner.run, whose server stores nested runs."
        )


def _keep(run: MemoryRun) -> None:
    keep_newest(_waiting, id(run.state), (run.state, run), KEPT_RUNS)


class _OneModel(ModelProvider):
    def __init__(self, model: Model) -> None:
        self._model = model

    def get_model(self, name: str | None) -> Model:
        del name
        return self._model

    async def aclose(self) -> None:
        """Do nothing: the test owns the model."""


def _escaped(messages: str | list[JsonObject]) -> str | list[JsonObject]:
    """Return messages in which nothing reads as a reference to stored content."""
    if isinstance(messages, str):
        return messages
    return [blobs.escape_item(raw) for raw in messages]
