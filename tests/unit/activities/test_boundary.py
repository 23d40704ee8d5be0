"""Where Temporal calls the effects: requests are found, heartbeats beat, errors are translated."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.client import Client
from temporalio.common import RawValue, RetryPolicy
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from outlast.activities import boundary, worker_deps
from outlast.activities.boundary import EffectActivities
from outlast.activities.errors import EffectError
from outlast.activities.heartbeats.heartbeats import Beat, heartbeats
from outlast.agents.agent import Agent
from outlast.agents.config.fallback_model import FallbackModel
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.config.retry import ModelRetrySettings
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    OutputGuardrail,
)
from outlast.agents.handoffs.handoff import handoff
from outlast.agents.registry import Registry
from outlast.agents.run_objects import RunKey, RunObjects, RunObjectTable
from outlast.agents.tools.function_tool import function_tool
from outlast.contract import names, policies, records
from outlast.contract.effects import EffectRequest
from outlast.contract.streams.call_windows import FinishedCall, call_windows, place_of
from outlast.loop.calls import ExecutionOptions
from outlast.loop.checks import Candidate
from outlast.loop.effects import PrepareRun
from outlast.loop.fallback import NEXT_MODEL
from outlast.loop.items import Item
from outlast.loop.values import JsonObject
from outlast.ports.identity import WorkerIdentity
from outlast.ports.model import ModelError
from outlast.sessions.described import allow_place
from outlast.sessions.sqlite import SQLiteSession
from outlast.testing import ScriptedModel, call, say
from outlast.testing.scripted_model import paced
from tests.unit.activities.desk import (
    HELLO,
    check_request,
    conclusion_request,
    filter_request,
    handoff_request,
    model_request,
    raising,
    save_request,
    tool_request,
    worker_of,
)

PREPARE = EffectRequest(effect=PrepareRun(effect=1, agent="A"))


class QueriedRun:
    """Stands for a client and a handle: the run of an activity, asked by query.

    Each answer is used once: pages, or failures.
    """

    namespace = "default"
    service_client = SimpleNamespace(config=SimpleNamespace(target_host="localhost:7233"))

    def __init__(self, *answers: JsonObject | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    def get_workflow_handle(self, workflow_id: str, *, run_id: str | None) -> "QueriedRun":
        self.asked.append((workflow_id, run_id))
        return self

    async def query(self, name: str, *, args: list[int]) -> JsonObject:
        self.asked.append((name, *args))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def refusal(status: RPCStatusCode) -> RPCError:
    return RPCError("refused", status, b"")


def environment(run: QueriedRun | None = None, **info: Any) -> ActivityEnvironment:
    env = ActivityEnvironment(client=cast("Client", run or QueriedRun()))
    fields: dict[str, Any] = {
        "activity_id": "2",
        "workflow_id": "support-42",
        "workflow_run_id": "run-1",
        "heartbeat_timeout": timedelta(seconds=10),
    }
    env.info = replace(env.info, **{**fields, **info})
    return env


def activities(agent: Agent[Any] | None = None, model: ScriptedModel | None = None) -> Any:
    return EffectActivities(worker_of(agent or Agent(name="A"), model=model))


def inline(request: object) -> JsonObject:
    return records.write(request)


async def run_by_name(
    agent: Agent[Any],
    kind: str,
    payload: JsonObject,
    env: ActivityEnvironment | None = None,
    **info: Any,
) -> JsonObject:
    """Run the dynamic activity as a worker does, with an encoded argument."""
    env = env or environment()
    env.info = replace(env.info, activity_type=kind, **info)
    (encoded,) = await DataConverter.default.encode([payload])
    return await env.run(activities(agent).run_effect, [RawValue(encoded)])


async def perform(
    env: ActivityEnvironment, effects: EffectActivities, kind: str, payload: Any
) -> JsonObject:
    """Run an activity of a type as a worker does."""
    env.info = replace(env.info, activity_type=kind)
    (encoded,) = await DataConverter.default.encode([payload])
    return await env.run(effects.run_effect, [RawValue(encoded)])


# --- Requests -------------------------------------------------------------------------------------------


async def test_a_small_request_comes_with_the_activity() -> None:
    agent = Agent[Any](name="A", model="gpt-5")
    answer = await perform(environment(), activities(agent), "prepare_run", inline(PREPARE))
    assert answer == {"model": "gpt-5"}


async def test_a_claim_is_taken_from_this_process() -> None:
    request = model_request()
    run = QueriedRun()
    effects = activities(model=ScriptedModel("Hello"))
    effects._deps.state.requests.offer("run-1", 2, request)
    answer = await perform(environment(run), effects, "call_model", {"claim": 2})
    assert answer["items"][0]["content"][0]["text"] == "Hello"
    assert run.asked == []


async def test_a_claim_that_is_elsewhere_is_asked_of_the_run_page_by_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(records, "PAGE_BYTES", 100)
    text = records.dump(model_request("A", Item("input", {"role": "user", "content": "x" * 120})))
    pages = [records.page_of(text, page) for page in range(len(text) // 100 + 1)]
    run = QueriedRun(*pages)
    model = ScriptedModel("Hello")
    await perform(environment(run), activities(model=model), "call_model", {"claim": 2})
    assert [item["content"] for item in model.requests[0].input] == ["x" * 120]
    asked = [one for one in run.asked if one[0] == names.QUERY_REQUEST]
    assert asked == [("request", 2, page) for page in range(len(pages))]
    assert run.asked[0] == ("support-42", "run-1")


async def test_a_request_of_another_kind_under_the_same_number_is_not_taken() -> None:
    run = QueriedRun({"data": records.dump(model_request()), "more": False})
    model = ScriptedModel("Hello")
    effects = activities(model=model)
    effects._deps.state.requests.offer("run-1", 2, other := tool_request("look_up"))
    await perform(environment(run), effects, "call_model", {"claim": 2})
    assert model.calls == 1
    assert other.effect.name == "look_up"


async def test_a_busy_run_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundary, "CLAIM_WAIT_SECONDS", 0)
    run = QueriedRun(
        refusal(RPCStatusCode.FAILED_PRECONDITION),
        refusal(RPCStatusCode.RESOURCE_EXHAUSTED),
        {"data": records.dump(model_request()), "more": False},
    )
    model = ScriptedModel("Hello")
    await perform(environment(run), activities(model=model), "call_model", {"claim": 2})
    assert model.calls == 1


async def test_a_run_that_stays_busy_fails_the_attempt_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(boundary, "CLAIM_WAIT_SECONDS", 0)
    run = QueriedRun(*[refusal(RPCStatusCode.UNAVAILABLE)] * 100)
    with pytest.raises(ApplicationError, match="The worker failed: RPCError") as caught:
        await perform(environment(run), activities(), "call_model", {"claim": 2})
    assert (caught.value.type, caught.value.non_retryable) == ("internal_error", False)
    assert 100 - len(run.answers) == boundary.CLAIM_ATTEMPTS


async def test_a_run_that_is_gone_is_not_asked_again() -> None:
    run = QueriedRun(refusal(RPCStatusCode.NOT_FOUND), refusal(RPCStatusCode.NOT_FOUND))
    with pytest.raises(ApplicationError, match="RPCError"):
        await perform(environment(run), activities(), "call_model", {"claim": 2})
    assert len(run.answers) == 1


async def test_a_request_that_nobody_waits_for_any_more_is_given_up() -> None:
    run = QueriedRun({"data": "", "more": False})
    with pytest.raises(ApplicationError, match="The run has ended; this attempt") as caught:
        await perform(environment(run), activities(), "call_model", {"claim": 2})
    assert (caught.value.type, caught.value.non_retryable) == ("cancelled", True)


@pytest.mark.parametrize(
    "payload",
    [{}, [], {"effect": "x"}, {"effect": 5}, {"effect": {}}, {"schema_version": 99}],
)
async def test_a_request_that_cannot_be_read_is_not_tried_again(payload: JsonObject) -> None:
    with pytest.raises(ApplicationError) as caught:
        await perform(environment(), activities(), "prepare_run", payload)
    assert (caught.value.type, caught.value.non_retryable) == ("internal_error", True)


@pytest.mark.parametrize("payload", [{"claim": "x"}, None])
async def test_an_input_that_is_none_of_ours_is_an_error_in_words(payload: Any) -> None:
    with pytest.raises(ApplicationError, match="The worker failed") as caught:
        await perform(environment(), activities(), "prepare_run", payload)
    assert caught.value.type == "internal_error"


# --- Tools and handoffs, by the activity's name -----------------------------------------------------------


async def test_a_tool_runs_under_its_name_and_knows_its_attempt() -> None:
    attempts: list[int] = []

    @function_tool
    async def look_up(ctx: ToolContext[Any], order_id: str) -> str:
        """Look an order up."""
        attempts.append(ctx.attempt)
        return f"order {order_id}"

    agent = Agent[Any](name="A", tools=[look_up])
    request = tool_request("look_up", '{"order_id": "A-17"}')
    answer = await run_by_name(agent, "tool:look_up", inline(request), attempt=3)
    assert answer == {"output": "order A-17"}
    assert attempts == [3]


async def test_a_handoffs_callback_runs_under_its_name() -> None:
    taken: list[str] = []

    def taken_over(ctx: Any) -> None:
        taken.append(ctx.run_id)

    agent = Agent[Any](name="A", handoffs=[handoff(Agent(name="B"), on_handoff=taken_over)])
    request = handoff_request("transfer_to_b")
    assert await run_by_name(agent, "handoff:transfer_to_b", inline(request)) == {}
    assert taken == ["support-42"]


async def test_an_activity_that_nobody_knows_may_be_known_elsewhere() -> None:
    with pytest.raises(ApplicationError, match="This worker has no activity 'charge'") as caught:
        await run_by_name(Agent(name="A"), "charge", {})
    assert (caught.value.type, caught.value.non_retryable) == ("user_error", False)


async def test_a_tool_that_is_gone_is_refused_in_words() -> None:
    with pytest.raises(ApplicationError, match="'A' has no tool 'gone'") as caught:
        await run_by_name(Agent(name="A"), "tool:gone", inline(tool_request("gone")))
    assert (caught.value.type, caught.value.non_retryable) == ("worker_lacks", True)


async def test_a_request_that_waits_for_a_worker_is_tried_until_one_has_it() -> None:
    patient = {**inline(tool_request("gone")), "patient": True}
    with pytest.raises(ApplicationError, match="'A' has no tool 'gone'") as caught:
        await run_by_name(Agent(name="A"), "tool:gone", patient)
    assert (caught.value.type, caught.value.non_retryable) == ("worker_lacks", False)


async def test_a_run_that_its_program_left_is_tried_until_a_program_brings_its_agents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_deps, "RUN_OBJECTS", table := RunObjectTable())
    worker = replace(worker_of(), hosts_runs=True)
    worker.state.lineages.note("run-1", "run-1", None)
    one, env = EffectActivities(worker), environment(namespace="default")
    patient = {**inline(PREPARE), "patient": True}
    for payload, is_final in ((inline(PREPARE), True), (patient, False)):
        with pytest.raises(ApplicationError, match="Start the run again") as caught:
            await perform(env, one, "prepare_run", payload)
        assert (caught.value.type, caught.value.non_retryable) == ("worker_lacks", is_final)
    definitions = Registry([Agent[Any](name="A", model="gpt-5")], tell_apart=True)
    table.bring(RunKey("default", "run-1"), RunObjects(definitions=definitions))
    assert (await perform(env, one, "prepare_run", patient))["model"] == "gpt-5"


async def test_an_effect_is_tried_again_if_the_server_does_not_say_which_run_it_is_of() -> None:
    worker = replace(worker_of(Agent(name="A")), identity=WorkerIdentity())
    with pytest.raises(ApplicationError, match="not connected to a server yet") as caught:
        await perform(environment(), EffectActivities(worker), "prepare_run", inline(PREPARE))
    assert (caught.value.type, caught.value.non_retryable) == ("internal_error", False)


async def test_what_fails_on_the_worker_that_was_waited_for_is_tried_by_the_next_request() -> None:
    async def broken(*_: Any) -> Any:
        raise EffectError("tool_failed", "It broke.", retryable=True)

    patient = {**inline(tool_request("look_up")), "patient": True}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(boundary, "attempt_effect", broken)
        with pytest.raises(ApplicationError, match=r"It broke\.") as caught:
            await run_by_name(Agent(name="A"), "tool:look_up", patient)
    assert (caught.value.type, caught.value.non_retryable) == ("worker_found", True)


def test_one_activity_without_a_name_carries_out_every_effect() -> None:
    defined = [getattr(one, "__temporal_activity_definition") for one in activities().all]
    others = ["refuse_effect", "free_nested_id", "check_quality", "send_scheduled_message"]
    assert [one.name for one in defined] == [None, *others]


@pytest.mark.parametrize("kind", ["fly", "agent_run", "prepare_run:x"])
async def test_an_activity_that_is_no_effect_is_refused_in_words(kind: str) -> None:
    with pytest.raises(ApplicationError, match=f"has no activity '{kind}'") as caught:
        await perform(environment(), activities(), kind, inline(PREPARE))
    assert (caught.value.type, caught.value.non_retryable) == ("user_error", False)


# --- The other effects -----------------------------------------------------------------------------------


def objecting(*_arguments: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info="no", tripwire_triggered=True)


async def test_input_guardrails_are_asked() -> None:
    guardrail = InputGuardrail[Any](objecting, run_in_parallel=False)
    agent = Agent[Any](name="A", input_guardrails=[guardrail])
    answer = await perform(environment(), activities(agent), "check_input", inline(check_request()))
    assert answer["failure"]["code"] == "input_guardrail_tripwire"
    assert [one["name"] for one in answer["results"]] == ["objecting"]


async def test_an_answer_is_concluded() -> None:
    agent = Agent[Any](name="A", output_guardrails=[OutputGuardrail[Any](objecting)])
    request = conclusion_request(Candidate(output="Hi"))
    answer = await perform(environment(), activities(agent), "finalize_answer", inline(request))
    assert answer["failure"]["code"] == "output_guardrail_tripwire"


async def test_a_session_is_saved_once_however_often_it_is_tried(tmp_path: Path) -> None:
    session = SQLiteSession("s", tmp_path / "s.db")
    allow_place(tmp_path)
    request = inline(save_request(HELLO, settings={"session": session.describe()}))
    for attempt in (1, 2):
        assert (
            await perform(environment(attempt=attempt), activities(), "save_session", request) == {}
        )
    assert await session.get_items() == [HELLO.raw]
    session.close()


async def test_a_handoff_with_a_filter_is_asked_with_the_transcript() -> None:
    entry = handoff(
        Agent(name="B"), input_filter=lambda data: data.clone(input_history=(), new_items=())
    )
    request = filter_request(
        "transfer_to_b", HELLO, Item("handoff_call", call("transfer_to_b", "h1"), "A", 1), fresh=1
    )
    agent = Agent[Any](name="A", handoffs=[entry])
    answer = await run_by_name(agent, "handoff:transfer_to_b", inline(request))
    assert answer["edit"]["segments"] == []


# --- What a model says meanwhile --------------------------------------------------------------------------


async def beats_while_it_speaks(settings: JsonObject, **info: Any) -> list[Any]:
    """Return the heartbeats of a model call that speaks for about half a second."""
    env = environment(heartbeat_timeout=timedelta(minutes=1), **info)
    heard: list[Any] = []
    env.on_heartbeat = heard.append
    model = ScriptedModel(paced(0.04, "It is on its way."))
    request = model_request(settings=settings)
    answer = await perform(env, activities(model=model), "call_model", inline(request))
    assert answer["items"] == say("It is on its way.")
    return heard


async def test_what_a_model_says_is_in_the_heartbeats_while_it_says_it() -> None:
    heard = await beats_while_it_speaks({"stream": True, "stream_interval_ms": 40})
    assert len(heard) > 2, "the window was sent on while the model spoke"
    assert "It is on" in "".join(map(json.dumps, heard)).replace('", "', "")


async def test_a_call_that_is_not_streamed_sends_no_text() -> None:
    assert await beats_while_it_speaks({"stream_interval_ms": 20}) == []


@pytest.mark.parametrize("attempt", [1, 3])
async def test_the_runs_cadence_is_that_of_every_attempt(attempt: int) -> None:
    quick = {"stream": True, "stream_interval_ms": 40}
    heard = await beats_while_it_speaks(quick, attempt=attempt)
    assert {(one["attempt"], one["next_ms"]) for one in heard} == {(attempt, 40)}
    rare = {"stream": True, "stream_interval_ms": 60_000}
    assert await beats_while_it_speaks(rare, attempt=attempt) == []


async def test_the_whole_stream_is_kept_for_readers_in_the_process_of_the_call() -> None:
    env = environment()
    model = ScriptedModel(paced(0, "It is on its way."))
    request = model_request(settings={"stream": True})
    answer = await perform(env, activities(model=model), "call_model", inline(request))
    info = env.info
    call = FinishedCall(
        place_of(QueriedRun(), str(info.workflow_id)),
        int(info.activity_id),
        answer.get("response_id"),
    )
    window = call_windows.pop(call)
    assert window is not None
    pieces = [piece for entry in window["events"] for piece in entry.get("deltas", ())]
    assert len(pieces) > 1
    assert "".join(pieces) == "It is on its way."


async def test_a_call_that_is_not_streamed_keeps_no_window() -> None:
    env = environment(workflow_id="unstreamed")
    request = model_request()
    answer = await perform(
        env, activities(model=ScriptedModel("Hi")), "call_model", inline(request)
    )
    info = env.info
    call = FinishedCall(
        place_of(QueriedRun(), str(info.workflow_id)),
        int(info.activity_id),
        answer.get("response_id"),
    )
    assert call_windows.pop(call) is None


# --- Heartbeats -------------------------------------------------------------------------------------------


HANGING = asyncio.Event()


def hanging() -> tuple[Agent[Any], asyncio.Event]:
    leave = asyncio.Event()

    @function_tool
    async def hang(ctx: ToolContext[Any]) -> str:
        """Hang."""
        HANGING.set()
        await leave.wait()
        return "done"

    return Agent(name="A", tools=[hang]), leave


async def test_a_running_effect_beats_three_times_within_its_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent, leave = hanging()
    env = environment(heartbeat_timeout=timedelta(milliseconds=60))
    intervals: list[float] = []
    add = heartbeats.add

    def add_and_note(beat: Beat) -> None:
        intervals.append(beat.interval)
        add(beat)

    monkeypatch.setattr(heartbeats, "add", add_and_note)
    beats: list[Any] = []

    def beat(*details: Any) -> None:
        beats.append(details)
        if len(beats) == 3:
            leave.set()

    env.on_heartbeat = beat
    answer = await run_by_name(agent, "tool:hang", inline(tool_request("hang")), env)
    assert answer == {"output": "done"}
    assert intervals == [0.02]


async def test_an_effect_that_has_ended_beats_no_more() -> None:
    agent, leave = hanging()
    leave.set()
    before = asyncio.all_tasks()
    await run_by_name(agent, "tool:hang", inline(tool_request("hang")))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() <= before


async def test_a_local_effect_does_not_beat() -> None:
    agent, leave = hanging()
    env = environment(is_local=True, heartbeat_timeout=timedelta(milliseconds=1))
    beats: list[Any] = []
    env.on_heartbeat = lambda *_details: beats.append(1)
    asyncio.get_running_loop().call_later(0.02, leave.set)
    await run_by_name(agent, "tool:hang", inline(tool_request("hang")), env)
    assert beats == []


async def hang_in(env: ActivityEnvironment) -> asyncio.Task[Any]:
    """Begin a tool call that does not end, and wait until it has begun."""
    agent, _ = hanging()
    HANGING.clear()
    running = asyncio.create_task(
        run_by_name(agent, "tool:hang", inline(tool_request("hang")), env)
    )
    await HANGING.wait()
    return running


async def test_a_cancel_stops_a_running_effect() -> None:
    env = environment()
    running = await hang_in(env)
    env.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("reason", ["not_found", "timed_out"])
async def test_an_attempt_that_nobody_waits_for_ends_without_a_word(reason: str) -> None:
    env = environment()
    running = await hang_in(env)
    env.cancel(ActivityCancellationDetails(**{reason: True}))
    with pytest.raises(ApplicationError) as caught:
        await running
    assert caught.value.category is ApplicationErrorCategory.BENIGN


# --- Errors -----------------------------------------------------------------------------------------------


def model_that(error: Exception) -> ScriptedModel:
    return ScriptedModel(error)


async def failure_of(model: ScriptedModel) -> ApplicationError:
    with pytest.raises(ApplicationError) as caught:
        await perform(environment(), activities(model=model), "call_model", inline(model_request()))
    return caught.value


async def test_a_failure_that_may_pass_says_when_to_come_back() -> None:
    busy = ModelError(
        "Slow down.",
        code="rate_limited",
        retryable=True,
        retry_after=timedelta(seconds=7),
        status=429,
    )
    error = await failure_of(ScriptedModel(busy))
    assert (error.type, error.message) == ("model_call_failed", "Slow down.")
    assert error.non_retryable is False
    assert error.next_retry_delay == timedelta(seconds=7)
    details = {"reason": "rate_limited", "status": 429, "retry_after_seconds": 7.0}
    assert error.details == (details,)


RETRIES = ModelSettings(retry=ModelRetrySettings(max_retries=5))
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("attempt", "asked", "settings", "patience", "is_last"),
    [
        (1, None, None, 45, False),
        (6, None, None, 45, False),  # the next one follows after 32 s
        (7, None, None, 45, True),  # after 60 s
        (7, None, None, 65, False),
        (1, DAY, None, 45, True),
        (1, DAY, None, 600, False),
        (1, None, None, 0, True),
        (7, None, None, None, False),
        (1, DAY, None, None, False),
        (4, DAY, RETRIES, 45, False),
    ],
)
async def test_a_program_gives_a_failing_model_up_where_the_next_attempt_came_too_late(
    attempt: int,
    asked: timedelta | None,
    settings: ModelSettings | None,
    patience: float | None,
    is_last: bool,
) -> None:
    busy = ModelError("Busy.", code="overloaded", retryable=True, status=503, retry_after=asked)
    agent = Agent(name="A", model_settings=settings or ModelSettings())
    limit = None if patience is None else timedelta(seconds=patience)
    deps = replace(worker_of(agent, model=ScriptedModel(busy)), model_patience=limit)
    policy = RetryPolicy(maximum_interval=timedelta(seconds=60))
    env = environment(attempt=attempt, retry_policy=policy)
    with pytest.raises(ApplicationError) as caught:
        await perform(env, EffectActivities(deps), "call_model", inline(model_request()))
    assert caught.value.non_retryable is is_last
    assert caught.value.details[0]["status"] == 503
    assert ("OUTLAST_MODEL_PATIENCE_SECONDS=600" in caught.value.message) is is_last


@pytest.mark.parametrize(
    ("attempt", "settings", "patience", "is_last"),
    [
        (6, None, None, False),
        (7, None, None, True),  # 45 s, although a worker makes ten attempts of a single model
        (7, None, 65, False),
        (4, RETRIES, None, False),
        (6, RETRIES, None, True),
    ],
)
async def test_a_model_that_another_one_follows_is_given_up_sooner(
    attempt: int, settings: ModelSettings | None, patience: float | None, is_last: bool
) -> None:
    busy = ModelError("Busy.", code="overloaded", retryable=True, status=503)
    models = FallbackModel("first", "second")
    agent = Agent(name="A", model=models, model_settings=settings or ModelSettings())
    limit = None if patience is None else timedelta(seconds=patience)
    deps = replace(worker_of(agent, model=ScriptedModel(busy)), model_patience=limit)
    policy = RetryPolicy(maximum_interval=timedelta(seconds=60))
    env = environment(attempt=attempt, retry_policy=policy)
    with pytest.raises(ApplicationError) as caught:
        await perform(env, EffectActivities(deps), "call_model", inline(model_request()))
    assert (caught.value.message, caught.value.non_retryable) == ("Busy.", is_last)
    assert caught.value.details[0][NEXT_MODEL]["model"] == "second"


async def test_no_other_model_follows_where_an_earlier_attempt_has_shown_text() -> None:
    busy = ModelError("Busy.", code="overloaded", retryable=True)
    agent = Agent[Any](name="A", model=FallbackModel("first", "second"))
    activities = EffectActivities(worker_of(agent, model=ScriptedModel(busy)))
    env = environment(attempt=2, heartbeat_details=[{"effect": 2, "attempt": 1, "shown": True}])
    with pytest.raises(ApplicationError) as caught:
        await perform(env, activities, "call_model", inline(model_request()))
    assert NEXT_MODEL not in caught.value.details[0]


async def test_no_provider_makes_a_run_wait_longer_than_our_bound() -> None:
    busy = ModelError("x", code="overloaded", retryable=True, retry_after=timedelta(days=1))
    assert (await failure_of(ScriptedModel(busy))).next_retry_delay == policies.LONGEST_RETRY_AFTER


async def test_a_failure_for_good_is_not_tried_again() -> None:
    error = await failure_of(ScriptedModel(ModelError("x", code="no_api_key", retryable=False)))
    assert (error.non_retryable, error.next_retry_delay) == (True, None)


async def test_a_failure_of_users_code_names_what_was_raised() -> None:
    error = await failure_of(ScriptedModel(TypeError("x")))
    assert (error.type, error.non_retryable) == ("user_error", True)
    assert error.details == ({"exception": "builtins:TypeError", "text": "x"},)


async def test_a_failure_without_details_has_none() -> None:
    error = await failure_of(ScriptedModel(UserError("x")))
    assert (error.type, error.details, error.non_retryable) == ("user_error", (), True)


@pytest.mark.parametrize(("attempt", "enough"), [(1, False), (2, False), (3, True), (4, True)])
async def test_users_code_is_not_tried_as_often_as_a_model(attempt: int, *, enough: bool) -> None:
    agent = Agent[Any](name="A", instructions=raising(ConnectionError("down")))
    with pytest.raises(ApplicationError, match="ConnectionError") as caught:
        await perform(
            environment(attempt=attempt), activities(agent), "call_model", inline(model_request())
        )
    assert caught.value.non_retryable is enough


@pytest.mark.parametrize(("defect", "again"), [(KeyError("k"), True), (TypeError("t"), False)])
async def test_a_defect_of_ours_has_a_stable_code(
    monkeypatch: pytest.MonkeyPatch, defect: Exception, *, again: bool
) -> None:
    async def broken(*_: Any) -> None:
        raise defect

    monkeypatch.setattr(boundary, "attempt_effect", broken)
    with pytest.raises(ApplicationError, match=f"worker failed: {type(defect).__name__}") as one:
        await perform(environment(), activities(), "prepare_run", inline(PREPARE))
    assert (one.value.type, one.value.non_retryable) == ("internal_error", not again)


async def test_an_answer_is_written_as_the_loop_reads_it() -> None:
    model = ScriptedModel([call("look_up", "c1")])
    answer = await perform(
        environment(), activities(model=model), "call_model", inline(model_request())
    )
    assert answer["calls"] == [
        {
            "item": 0,
            "kind": "unknown",
            "problem": "There is no tool 'look_up'. Available: none.",
        }
    ]
    assert ExecutionOptions() == ExecutionOptions(**answer["calls"][0].get("policy", {}))
