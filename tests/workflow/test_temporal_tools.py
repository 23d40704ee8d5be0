"""Workflows and Nexus operations as tools, on a real server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import nexusrpc
import pytest
from nexusrpc.handler import StartOperationContext, service_handler, sync_operation
from temporalio import nexus, workflow
from temporalio.api.nexus.v1 import EndpointSpec, EndpointTarget
from temporalio.api.operatorservice.v1 import CreateNexusEndpointRequest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.worker import Worker

from outlast.agents.agent import Agent
from outlast.agents.errors import DeliveryRefused
from outlast.agents.tools.definition import FunctionTool
from outlast.client.deliveries import finish
from outlast.client.handle import RunHandle
from outlast.client.start.runner import Runner
from outlast.contract import names
from outlast.contract.blobs import key_of
from outlast.extensions import temporal_tools
from outlast.extensions.temporal_tools import nexus_tool, workflow_tool
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import loop_state
from tests.workflow.codecs import Sealed, with_codec
from tests.workflow.desk import Desk
from tests.workflow.replies import outputs
from tests.workflow.test_long_runs import in_later_history, true_in_the_end
from tests.workflow.test_waits import parked


@dataclass
class Poster:
    """What is to be printed."""

    title: str
    size: str = "A2"


@dataclass
class Printed:
    """What was printed."""

    title: str
    copies: int


@workflow.defn(sandboxed=False)
class PrintPoster:
    """Print posters."""

    def __init__(self) -> None:
        self.finished = False

    @workflow.run
    async def run(self, poster: Poster, copies: int = 1) -> Printed:
        """Print a poster, when the press is free.

        Args:
            poster: the poster.
            copies: how many of it.
        """
        if poster.title == "slow":
            await workflow.wait_condition(lambda: self.finished)
        if poster.title == "torn":
            raise ApplicationError("the paper is torn", type="TornPaper")
        if poster.title == "odd":
            return {"title": "odd", "copies": "many"}  # pyright: ignore[reportReturnType]
        if poster.title == "large":
            return Printed("x" * 200_000, copies)
        if poster.title == "stolen":
            return {"title": {"$outlast.blob": key_of(b"x"), "bytes": 1}, "copies": 1}  # pyright: ignore[reportReturnType]
        return Printed(poster.title, copies)

    @workflow.signal
    def finish(self) -> None:
        """Let the press be free."""
        self.finished = True


def words_of(_: Any, error: Exception) -> str:
    """Show the model why a tool failed."""
    return f"{type(error).__name__}: {error}"


def printer(**options: Any) -> FunctionTool:
    """Return the workflow as a tool."""
    return workflow_tool(PrintPoster.run, failure_error_function=words_of, **options)


def prints(title: str, tool: str = "print_poster", **arguments: Any) -> ScriptedModel:
    """Return a model that prints once, and then says what came of it."""

    def reply(request: ModelRequest) -> Any:
        done = outputs(request)
        if "c1" in done:
            return say(done["c1"])
        return [call(tool, "c1", **{"poster": {"title": title, "size": "A2"}, **arguments})]

    return ScriptedModel(always=reply)


async def errand_of(desk: Desk, handle: RunHandle) -> WorkflowHandle[Any, Any]:
    """Return the errand of a parked run: the result of its activity names it."""
    state = await handle.state()
    [errand_id] = [str(one.done["errand"]) for one in loop_state(state).calls if one.done]
    return desk.client.get_workflow_handle(errand_id)


def child_of(desk: Desk, errand: WorkflowHandle[Any, Any]) -> WorkflowHandle[Any, Any]:
    """Return the workflow that an errand executes."""
    run_id, _, key = errand.id.rpartition("/errand-")
    return desk.client.get_workflow_handle(f"{run_id}/PrintPoster-{key}")


async def test_a_workflow_is_a_tool_with_the_types_of_its_run_method(desk: Desk):
    agent = Agent[Any](name="Press", tools=[printer()])
    model = prints("Tour", copies=3)
    await desk.open(agent, model=model, workflows=[PrintPoster])
    result = await desk.run(agent)
    assert result.final_output == '{"title":"Tour","copies":3}'
    [tool] = model.requests[0].tools
    assert (tool.name, tool.description) == (
        "print_poster",
        "Print a poster, when the press is free.",
    )
    assert set(tool.parameters["properties"]) == {"poster", "copies"}


async def test_the_run_the_errand_and_the_workflow_name_each_other(desk: Desk):
    agent = Agent[Any](name="Press", tools=[printer()])
    await desk.open(agent, model=prints("slow", copies=1), workflows=[PrintPoster])
    handle = await desk.start(agent, tenant="acme")
    wait = await parked(handle)
    assert (wait.tool, wait.name) == ("print_poster", "PrintPoster")
    errand = await errand_of(desk, handle)
    child = child_of(desk, errand)
    await true_in_the_end(lambda: is_open(child))
    for one in (errand, child):
        described = await one.describe()
        assert await described.memo_value("outlast_run") == handle.id
        assert described.raw_info.priority.fairness_key == "acme"
    described = await child.describe()
    assert described.parent_id == errand.id
    assert await described.static_summary() == f"For the run {handle.id}"
    await child.signal(PrintPoster.finish)
    assert (await desk.result(handle)).final_output == '{"title":"slow","copies":1}'
    assert (await errand.result())["delivered"] is True
    receipt = (loop_state(await handle.state())).receipts[0]
    assert (receipt.name, receipt.source) == ("PrintPoster", "Errand")


async def is_open(one: WorkflowHandle[Any, Any]) -> bool:
    """Whether a workflow is there, and runs."""
    try:
        return (await one.describe()).status is WorkflowExecutionStatus.RUNNING
    except Exception:  # noqa: BLE001  it has not been started yet
        return False


async def test_the_workflow_goes_on_while_no_worker_of_agents_runs(desk: Desk):
    agent = Agent[Any](name="Press", tools=[printer(task_queue=f"{desk.queue}-press")])
    async with Worker(desk.client, task_queue=f"{desk.queue}-press", workflows=[PrintPoster]):
        worker = await desk.open(agent, model=prints("slow", copies=2))
        handle = await desk.start(agent)
        await parked(handle)
        child = child_of(desk, await errand_of(desk, handle))
        await true_in_the_end(lambda: is_open(child))
        await desk.close(worker)
        await child.signal(PrintPoster.finish)
        await child.result()
        await desk.open(agent, model=prints("slow", copies=2))
        assert (await desk.result(handle)).final_output == '{"title":"slow","copies":2}'


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("torn", "failed: TornPaper: the paper is torn."),
        ("odd", "copies: Input should be a valid integer"),
        ("large", "its result has 200,034 bytes as JSON, of at most 200,000. Return the address"),
        ("stolen", "title: Input should be a valid string"),
    ],
)
async def test_a_failure_is_words_for_those_who_may_read_them(desk: Desk, title: str, words: str):
    agent = Agent[Any](name="Press", tools=[printer()])
    await desk.open(agent, model=prints(title, copies=1), workflows=[PrintPoster])
    result = await desk.run(agent)
    assert result.final_output.startswith("ToolFailed: ")
    assert words in result.final_output


@pytest.mark.parametrize(
    ("end", "words"), [("terminate", "it was terminated"), ("cancel", "it was cancelled")]
)
async def test_a_workflow_that_somebody_ends_fails_the_call(desk: Desk, end: str, words: str):
    agent = Agent[Any](name="Press", tools=[printer()])
    await desk.open(agent, model=prints("slow", copies=1), workflows=[PrintPoster])
    handle = await desk.start(agent)
    await parked(handle)
    child = child_of(desk, await errand_of(desk, handle))
    await true_in_the_end(lambda: is_open(child))
    await getattr(child, end)()
    assert words in (await desk.result(handle)).final_output


async def test_an_errand_that_somebody_cancels_cancels_the_workflow_and_fails_the_call(desk: Desk):
    agent = Agent[Any](name="Press", tools=[printer()])
    await desk.open(agent, model=prints("slow", copies=1), workflows=[PrintPoster])
    handle = await desk.start(agent)
    await parked(handle)
    errand = await errand_of(desk, handle)
    child = child_of(desk, errand)
    await true_in_the_end(lambda: is_open(child))
    await errand.cancel()
    assert "it was cancelled" in (await desk.result(handle)).final_output
    with pytest.raises(WorkflowFailureError):
        await errand.result()
    for one in (errand, child):
        assert (await one.describe()).status is WorkflowExecutionStatus.CANCELED


async def test_a_workflow_that_takes_too_long_is_cancelled(desk: Desk):
    tool = printer(timeout=timedelta(seconds=1), task_queue=f"{desk.queue}-without-a-worker")
    agent = Agent[Any](name="Press", tools=[tool])
    await desk.open(agent, model=prints("slow", copies=1))
    handle = await desk.start(agent)
    await desk.ever(handle, lambda state: state.status == "parked")
    errand = await errand_of(desk, handle)
    result = await desk.result(handle)
    assert result.final_output == "WaitTimeout: Nothing came for 'PrintPoster' in time."
    described = await child_of(desk, errand).describe()
    assert described.raw_info.history_length > 2
    assert (await handle.state()).ignored == ()


async def test_a_dropped_call_cancels_its_workflow(desk: Desk):
    agent = Agent[Any](name="Press", tools=[printer()])
    await desk.open(agent, model=prints("slow", copies=1), workflows=[PrintPoster])
    handle = await desk.start(agent, keep_open=True)
    await parked(handle)
    errand = await errand_of(desk, handle)
    child = child_of(desk, errand)
    await true_in_the_end(lambda: is_open(child))
    await handle.cancel()
    for one in (child, errand):
        with pytest.raises(WorkflowFailureError):
            await one.result()
        assert (await one.describe()).status is WorkflowExecutionStatus.CANCELED
    assert (await handle.state()).ignored == ()


async def test_a_result_for_a_run_that_has_ended_stays_with_the_errand(desk: Desk):
    agent = Agent[Any](name="Press", tools=[printer()])
    await desk.open(agent, model=prints("slow", copies=1), workflows=[PrintPoster])
    handle = await desk.start(agent)
    await parked(handle)
    errand = await errand_of(desk, handle)
    child = child_of(desk, errand)
    await true_in_the_end(lambda: is_open(child))
    await desk.workflow(handle).terminate()
    await child.signal(PrintPoster.finish)
    assert await errand.result() == {"result": {"title": "slow", "copies": 1}, "delivered": False}


async def test_the_result_finds_the_run_in_its_next_history(desk: Desk):
    agent = Agent[Any](name="Press", tools=[printer()])
    await desk.open(agent, model=prints("slow", copies=1), workflows=[PrintPoster])
    handle = await desk.start_short(agent, keep_open=True)
    await parked(handle)
    errand = await errand_of(desk, handle)
    for number in range(12):
        await handle.send(f"Hello {number}")
    await true_in_the_end(lambda: in_later_history(desk, handle))
    child = child_of(desk, errand)
    await true_in_the_end(lambda: is_open(child))
    await child.signal(PrintPoster.finish)
    state = await desk.until_status(handle, "idle")
    assert '{"title":"slow","copies":1}' in [
        item.raw["output"] for item in state.items if item.kind == "tool_output"
    ]


async def test_an_attempt_that_is_repeated_starts_the_workflow_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    start, started = temporal_tools._Operation._start, list[str]()

    async def lost(self: Any, *arguments: Any) -> str:
        started.append(await start(self, *arguments))
        if len(started) < 3:  # in the second, the errand has ended
            run_id, _, key = started[0].rpartition("/errand-")
            await desk.client.get_workflow_handle(f"{run_id}/PrintPoster-{key}").result()
            await desk.client.get_workflow_handle(started[0]).result()
            raise ConnectionError("the worker is lost")
        return started[-1]

    monkeypatch.setattr(temporal_tools._Operation, "_start", lost)
    agent = Agent[Any](name="Press", tools=[printer()])
    await desk.open(agent, model=prints("Tour", copies=1), workflows=[PrintPoster])
    assert (await desk.run(agent)).final_output == '{"title":"Tour","copies":1}'
    assert len(started) == 3
    assert len(set(started)) == 1


async def test_a_run_with_the_id_of_one_that_has_ended_starts_a_workflow_of_its_own(desk: Desk):
    agent = Agent[Any](name="Press", tools=[printer()])
    await desk.open(agent, model=prints("Tour", copies=1), workflows=[PrintPoster])
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "idle")
    await desk.workflow(handle).terminate()
    again = await desk.start(agent, id=handle.id)
    assert (await desk.result(again)).final_output == '{"title":"Tour","copies":1}'


async def test_an_id_of_ones_own_that_is_taken_fails_the_call(desk: Desk):
    def own_id(poster: Poster, copies: int) -> str:
        return f"{poster.title}-{desk.queue}"

    taken = own_id(Poster("poster"), 1)
    tool = printer(id=own_id)
    agent = Agent[Any](name="Press", tools=[tool])
    await desk.open(agent, model=prints("poster", copies=1), workflows=[PrintPoster])
    other = await desk.client.start_workflow(
        PrintPoster.run, args=[Poster("slow"), 1], id=taken, task_queue=desk.queue
    )
    result = await desk.run(agent)
    assert f"({taken}) failed: a workflow with this id is running already" in result.final_output
    await other.terminate()
    assert (await desk.run(agent)).final_output == '{"title":"poster","copies":1}'


async def test_an_id_that_no_server_takes_fails_the_call(desk: Desk):
    def own_id(poster: Poster, copies: int) -> str:
        return poster.title

    tool = printer(id=own_id)
    agent = Agent[Any](name="Press", tools=[tool])
    await desk.open(agent, model=prints("x" * 1_001, copies=1), workflows=[PrintPoster])
    assert "has 1,001 bytes, of at most 1,000" in (await desk.run(agent)).final_output


async def test_an_errand_that_cannot_be_read_fails_in_words(desk: Desk):
    await desk.open(Agent[Any](name="Press"))
    with pytest.raises(WorkflowFailureError) as raised:
        await desk.client.execute_workflow(
            names.WORKFLOW_ERRAND, {"run_id": 7}, id=f"errand-{desk.queue}", task_queue=desk.queue
        )
    assert "The errand is unreadable" in str(raised.value.cause)


# --- Nexus ---------------------------------------------------------------------------------------


@nexusrpc.service
class Press:
    """A press of somebody else."""

    price: nexusrpc.Operation[Poster, float]
    print_it: nexusrpc.Operation[Poster, Printed]


@service_handler(service=Press)
class PressHandler:
    """The press."""

    @sync_operation
    async def price(self, _: StartOperationContext, poster: Poster) -> float:
        if poster.title == "free":
            raise nexusrpc.OperationError("no price", state=nexusrpc.OperationErrorState.FAILED)
        return 12.5

    @nexus.workflow_run_operation
    async def print_it(
        self, ctx: nexus.WorkflowRunOperationContext, poster: Poster
    ) -> nexus.WorkflowHandle[Printed]:
        return await ctx.start_workflow(
            PrintPoster.run, args=[poster, 7], id=f"nexus-{ctx.request_id}"
        )


@asynccontextmanager
async def press(desk: Desk) -> AsyncGenerator[str]:
    """Start the press behind an endpoint, and return the endpoint's name."""
    endpoint = desk.queue
    target = EndpointTarget.Worker(namespace=desk.client.namespace, task_queue=f"{endpoint}-press")
    spec = EndpointSpec(name=endpoint, target=EndpointTarget(worker=target))
    await desk.client.operator_service.create_nexus_endpoint(CreateNexusEndpointRequest(spec=spec))
    async with Worker(
        desk.client,
        task_queue=f"{endpoint}-press",
        workflows=[PrintPoster],
        nexus_service_handlers=[PressHandler()],
    ):
        yield endpoint


def asks(tool: str, title: str) -> ScriptedModel:
    """Return a model that uses an operation once, and then says what came of it."""

    def reply(request: ModelRequest) -> Any:
        done = outputs(request)
        poster = {"title": title, "size": "A2"}
        return say(done["c1"]) if "c1" in done else [call(tool, "c1", input=poster)]

    return ScriptedModel(always=reply)


@pytest.mark.parametrize(
    ("operation", "title", "answer"),
    [
        (Press.price, "Tour", "12.5"),
        (Press.print_it, "Tour", '{"title":"Tour","copies":7}'),
        (
            Press.price,
            "free",
            "ToolFailed: The Nexus operation Press.price failed: OperationError: no price.",
        ),
        (
            Press.print_it,
            "torn",
            "ToolFailed: The Nexus operation Press.print_it failed: TornPaper: the paper is torn.",
        ),
    ],
)
async def test_a_nexus_operation_is_a_tool(desk: Desk, operation: Any, title: str, answer: str):
    async with press(desk) as endpoint:
        tool = nexus_tool(endpoint, Press, operation, failure_error_function=words_of)
        agent = Agent[Any](name="Shop", tools=[tool])
        await desk.open(agent, model=asks(tool.name, title))
        assert (await desk.run(agent)).final_output == answer


async def test_an_operation_whose_endpoint_is_missing_waits_for_it(desk: Desk):
    tool = nexus_tool(desk.queue, Press, Press.price, timeout=timedelta(minutes=1))
    agent = Agent[Any](name="Shop", tools=[tool])
    await desk.open(agent, model=asks("price", "Tour"))
    handle = await desk.start(agent)
    await parked(handle)
    errand = RunHandle(desk.client, (await errand_of(desk, handle)).id)

    async def is_refused() -> bool:
        return any("not found" in one for one in await desk._failed_tasks(errand))

    await true_in_the_end(is_refused)
    async with press(desk):
        assert (await desk.result(handle)).final_output == "12.5"


# --- Who may read and who may deliver ------------------------------------------------------------


async def test_with_a_codec_the_server_reads_neither_arguments_nor_results(desk: Desk):
    def own_id(poster: Poster, copies: int) -> str:
        return f"sealed-{desk.queue}"

    client = with_codec(desk.client, Sealed(b"key"))
    agent = Agent[Any](name="Press", tools=[printer(id=own_id)])
    await desk.open(agent, model=prints("secret", copies=1), workflows=[PrintPoster], client=client)
    run_id = f"sealed-run-{desk.queue}"
    handle = await Runner.start(agent, "Hi", id=run_id, client=client, task_queue=desk.queue)
    assert (await handle.result()).final_output == '{"title":"secret","copies":1}'
    [receipt] = (loop_state(await handle.state())).receipts
    ids = [f"sealed-{desk.queue}"]
    ids += [
        one.id async for one in desk.client.list_workflows(f"WorkflowId STARTS_WITH '{run_id}'")
    ]
    for one in ids:
        history = await desk.client.get_workflow_handle(one).fetch_history()
        assert "secret" not in history.to_json()
    assert receipt.source == "Errand"


async def test_people_may_deliver_an_outcome_by_hand_and_nothing_else(desk: Desk):
    agent = Agent[Any](name="Press", tools=[printer()])
    await desk.open(agent, model=prints("slow", copies=1), workflows=[PrintPoster])
    handle = await desk.start(agent)
    wait = await parked(handle)
    for value in ("done", {"title": "slow", "copies": 1}, {"failure": 7}):
        with pytest.raises(DeliveryRefused, match="does not fit"):
            await finish(wait.token, value, client=desk.client)
    errand = await errand_of(desk, handle)
    child = child_of(desk, errand)
    await true_in_the_end(lambda: is_open(child))
    await finish(wait.token, {"failure": "The press burns."}, client=desk.client, source="ann")
    assert (await desk.result(handle)).final_output == "ToolFailed: The press burns."
    await child.terminate()


async def test_a_dropped_call_cancels_its_nexus_operation(desk: Desk):
    async with press(desk) as endpoint:
        tool = nexus_tool(endpoint, Press, Press.print_it)
        agent = Agent[Any](name="Shop", tools=[tool])
        await desk.open(agent, model=asks("print_it", "slow"))
        handle = await desk.start(agent)
        await parked(handle)
        query = f"WorkflowId STARTS_WITH 'nexus-' AND TaskQueue = '{endpoint}-press'"

        async def has_begun() -> bool:
            return (await desk.client.count_workflows(query)).count == 1

        await true_in_the_end(has_begun)
        await handle.cancel()
        [begun] = [one async for one in desk.client.list_workflows(query)]
        with pytest.raises(WorkflowFailureError) as raised:
            await desk.client.get_workflow_handle(begun.id).result()
        assert isinstance(raised.value.cause, CancelledError)
