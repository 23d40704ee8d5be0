"""The engine of a program that configures nothing: one server and one worker for its agents."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from contextvars import Context, ContextVar
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    GuardrailFunctionOutput,
    input_guardrail,
    output_guardrail,
)
from outlast.agents.hooks import RunHooks
from outlast.agents.run_objects import RUN_OBJECTS
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.results.run_result import RunResult
from outlast.client.start import runner
from outlast.client.start.runner import Runner
from outlast.dev import running_server
from outlast.local.engine import LocalEngine
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.tracing import get_current_trace, trace
from outlast.views.run import loop_state
from outlast.worker import AgentWorker
from tests.servers import PATIENCE_SECONDS, TemporalServer
from tests.unit.models.model_server import ModelServer


def _response(output: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    return {"id": "resp_1", "status": "completed", "output": output, "usage": usage}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which nothing is configured."""
    for name in ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_PROFILE", "OUTLAST_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path / "data" / "outlast"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    return tmp_path


@pytest.mark.smoke
async def test_agents_of_one_process_share_an_engine_and_can_be_defined_anew(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    @function_tool
    async def look_up() -> str:
        return "found"

    async with ModelServer() as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        try:
            for answer in ("One.", "Two."):
                model.answer(_response([call("look_up", f"c-{answer[:3]}")]))
                model.answer(_response(say(answer)))
                agent = Agent(name="Clerk", instructions=answer, tools=[look_up])
                result = await Runner.run(agent, f"Question {answer}")
                assert result.final_output == answer
            assert [one.body["instructions"] for one in model.requests[1::2]] == ["One.", "Two."]
            attached = await Runner.attach(result.run_id)
            assert (await attached.state()).status == "completed"
            engine = await LocalEngine.shared()
            assert engine is await LocalEngine.shared()
        finally:
            await LocalEngine.close_shared()
    assert running_server(home / "data" / "outlast") is None


async def test_a_program_on_its_way_to_a_run_does_not_say_that_the_run_waits_for_agents(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """A slow one: it serves the queue, and a decision comes, before it has found its run."""

    @function_tool(needs_approval=True)
    async def refund(order: str) -> str:
        return f"refunded {order}"

    model = ScriptedModel([call("refund", "c1", order="A-17")], "Done.")
    agent = Agent[Any](name="Clerk", model=model, tools=[refund])
    find = runner._same_run

    async def slow(client: Client, *arguments: Any) -> Any:
        (request,) = await RunHandle(client, "refund-17").approvals()
        await RunHandle(client, "refund-17").approve(request)
        workflow = client.get_workflow_handle("refund-17")
        while not (await workflow.describe()).raw_description.pending_activities:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        # Whoever does not wait for this start is told within a moment that the effect is blocked.
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await RunHandle(client, "refund-17").wait(
                    lambda state: bool(loop_state(state).blocked)
                )
        return await find(client, *arguments)

    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert (await Runner.run(agent, "Refund A-17", id="refund-17")).interruptions
            await LocalEngine.pause_shared()
            RUN_OBJECTS._kept.clear()  # as in a new process
            monkeypatch.setattr(runner, "_same_run", slow)
            result = await Runner.run(agent, "Refund A-17", id="refund-17")
        assert result.final_output == "Done."
        assert "waits for a worker" not in caplog.text
    finally:
        await LocalEngine.close_shared()


@pytest.mark.parametrize("kind", ["tool", "agent"])
async def test_an_approved_call_whose_tool_is_gone_for_good_is_told_to_the_model(
    home: Path, kind: str
):
    """Nobody else has the tools of a program that hosts its own runs: waiting leads nowhere."""

    @function_tool(needs_approval=True)
    async def refund(order: str) -> str:
        return order

    helper = Agent[Any](name="Helper", model=ScriptedModel(always="Refunded."))
    nested = helper.as_tool("refund", "Refund.", needs_approval=True)
    agent = Agent[Any](
        name="Clerk",
        model=ScriptedModel(
            [call("refund", "c1", **{"order" if kind == "tool" else "input": "A-17"})]
        ),
        tools=[refund if kind == "tool" else nested],
    )
    told: list[Any] = []

    def reads(request: ModelRequest) -> Any:
        told.append(request.input[-1]["output"])
        return say("Sorry.")

    try:
        result = await Runner.run(agent, "Refund A-17")
        state = result.to_state()
        state.approve(result.interruptions[0])
        changed = agent.clone(tools=[], model=ScriptedModel(always=reads))
        async with asyncio.timeout(PATIENCE_SECONDS):
            result = await Runner.run(changed, state)
        assert result.final_output == "Sorry."
        words = "refund no longer exists" if kind == "tool" else "The tool refund failed"
        assert words in told[0]
    finally:
        await LocalEngine.close_shared()


@pytest.mark.smoke
async def test_run_sync_is_for_programs_without_an_event_loop():
    with pytest.raises(RuntimeError, match=r"await Runner\.run"):
        Runner.run_sync(Agent(name="Clerk"), "Hello")


async def test_a_configuration_that_cannot_be_read_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    broken = home / "temporal.toml"
    broken.write_text("this is no TOML")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(broken))
    with pytest.raises(UserError, match="configuration cannot be read"):
        await Runner.run("Clerk", "Hello")


USER: ContextVar[str] = ContextVar("user", default="nobody")


class Seen:
    """An agent whose callables note whom they see in a context variable, and then change it."""

    def __init__(self, meeting: asyncio.Barrier | None = None) -> None:
        self.users: dict[str, set[str]] = {}
        self.traces: list[Any] = []
        model = ScriptedModel(always=self._reply)

        @function_tool
        async def look_up() -> str:
            self.note("an async tool")
            self.traces.append(get_current_trace())
            if meeting is not None:
                await meeting.wait()  # the other runs are at work here at the same time
            return USER.get()

        @function_tool
        def count() -> str:
            self.note("a tool in a thread")
            return "1"

        @function_tool(needs_approval=True)
        async def pay() -> str:
            self.note("an approved tool")
            return "paid"

        @input_guardrail
        def check(_context: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
            self.note("an input guardrail")
            return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

        @output_guardrail
        async def judge(_context: Any, _agent: Any, _output: Any) -> GuardrailFunctionOutput:
            self.note("an output guardrail")
            return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

        inner = Agent[Any](name="Inner", tools=[count], model=model)
        self.agent = Agent[Any](
            name="Clerk",
            instructions=self._instructions,
            tools=[look_up, pay, inner.as_tool("ask_inner", "Ask.")],
            input_guardrails=[check],
            output_guardrails=[judge],
            model=model,
        )

    def note(self, place: str) -> None:
        self.users.setdefault(place, set()).add(USER.get())
        USER.set(place)

    def _instructions(self, _context: Any, _agent: Any) -> str:
        self.note("instructions")
        return "Help."

    def _reply(self, request: Any) -> Any:
        self.note("the model")
        asked = request.input[-1]
        if asked.get("type") == "function_call_output":
            return say("Done.")
        tools = {tool.name for tool in request.tools}
        if "count" in tools:
            return [call("count", "c1")]
        if asked["content"] == "Pay":
            return [call("pay", "c1")]
        return [call("look_up", "c1"), call("ask_inner", "c2", input="Count")]


class SeenByHooks(RunHooks[Any]):
    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        del context, agent, tool
        self._seen.note("a hook")


PLACES = {
    "a hook",
    "a tool in a thread",
    "an async tool",
    "an input guardrail",
    "an output guardrail",
    "instructions",
    "the model",
}


@pytest.fixture
async def engine(
    server: TemporalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """Programs host their own runs at the server of the tests."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", server.namespace)
    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path))
    yield
    await LocalEngine.close_shared()


@pytest.mark.usefixtures("engine")
async def test_user_code_sees_the_context_variables_of_the_program_that_runs_it(client: Client):
    meeting = asyncio.Barrier(3)

    async def ask(user: str, *, streamed: bool = False) -> Seen:
        USER.set(user)
        seen = Seen(meeting)
        if streamed:
            reading = Runner.run_streamed(seen.agent, "Hello", hooks=SeenByHooks(seen))
            USER.set("a later value")
            async for _ in reading.stream_events():
                pass
        else:
            with trace("Mine"):
                await Runner.run(seen.agent, "Hello", hooks=SeenByHooks(seen))
            assert USER.get() == user, "what user code changes is its own"
        return seen

    async with asyncio.timeout(PATIENCE_SECONDS):
        asked = await asyncio.gather(ask("ann"), ask("bob"), ask("cy", streamed=True))
    for seen, user in zip(asked, ("ann", "bob", "cy"), strict=True):
        assert seen.users == {place: {user} for place in PLACES}
        assert seen.traces == [None], (
            "no processor: the run has no trace, and is not in the caller's"
        )

    async def waits_for_a_person() -> RunResult:
        USER.set("ann")
        return await Runner.run(seen.agent, "Pay")

    seen = Seen()
    state = (await asyncio.create_task(waits_for_a_person())).to_state()
    state.approve(state.get_interruptions()[0])
    USER.set("bob")
    await Runner.run(seen.agent, state)
    assert seen.users["an approved tool"] == {"bob"}, "who goes on with a run is its caller"
    assert seen.users["an input guardrail"] == {"ann"}

    elsewhere = Seen()
    await asyncio.create_task(_with_a_worker(client, elsewhere.agent), context=Context())
    assert elsewhere.users == {place: {"nobody"} for place in PLACES - {"a hook"}}


async def _with_a_worker(client: Client, agent: Agent[Any]) -> None:
    async with AgentWorker(client, agents=[agent], task_queue="with-a-worker"):
        USER.set("ann")
        await Runner.run(agent, "Hello", client=client, task_queue="with-a-worker")
