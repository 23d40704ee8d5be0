"""What users of other frameworks reported about approvals, one test for each thread: row 36.

Each test names its thread and the rule that holds here.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client

import outlast
from outlast import Agent, AgentsException, Runner, function_tool
from outlast.testing import ScriptedModel, call, say
from outlast.worker import AgentWorker
from tests.conformance.executors import PATIENCE_SECONDS, Executor, also_on_server, row
from tests.conformance.views import outputs, outputs_among


class Till:
    """Makes agents that pay with a person's approval, and keeps what they paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def agent(self, *, name: str = "Clerk", needs_approval: bool = True) -> Agent[Any]:
        """Return a new agent, as a new process makes it."""

        @function_tool(needs_approval=needs_approval)
        async def pay(amount: int) -> str:
            self.paid.append(amount)
            return f"paid {amount}"

        return Agent(name=name, tools=[pay])

    def three_deep(self) -> Agent[Any]:
        """Return a new agent with three edges of agents as tools above the one that pays."""
        agent = self.agent()
        for name in ("Third", "Second", "First"):
            agent = Agent(name=name, tools=[agent.as_tool(f"below_{name.lower()}", "Ask.")])
        return agent


def _pay(call_id: str, amount: int) -> Any:
    return call("pay", call_id, amount=amount)


def _three_deep_model() -> ScriptedModel:
    return ScriptedModel(
        [call("below_first", "f1", input="Pay")],
        [call("below_second", "s1", input="Pay")],
        [call("below_third", "t1", input="Pay")],
        [_pay("c1", 5)],
        "Paid.",
        "Yes.",
        "It is.",
        "Done.",
    )


@asynccontextmanager
async def served(
    client: Client, queue: str, agent: Agent[Any], model: ScriptedModel
) -> AsyncGenerator[None]:
    """Run a worker, as one process does; several may follow each other on a task queue."""
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        AgentWorker(
            client,
            agents=[agent],
            task_queue=queue,
            model_provider=model,
            graceful_shutdown_timeout=timedelta(milliseconds=100),
        ),
    ):
        yield


@row(36)
async def test_a_declined_call_never_runs_even_if_its_policy_is_gone(executor: Executor) -> None:
    """mastra 20487: a declined call resumed elsewhere, without the policy, does not run."""
    till = Till()
    model = ScriptedModel([_pay("c1", 5)], "Not paid.")
    agent = till.agent()
    result = await executor.execute(agent, model=model)
    elsewhere = till.agent(needs_approval=False)
    state = await executor.round_trip(elsewhere, result.to_state())
    state.reject(state.get_interruptions()[0], rejection_message="No.")
    result = await executor.resume(elsewhere, state)
    assert (result.final_output, till.paid) == ("Not paid.", [])
    assert outputs(model.requests[1]) == {"c1": "No."}


@row(36, 37)
async def test_two_pending_calls_decided_in_reverse_each_get_their_own(executor: Executor) -> None:
    """mastra 20322: each of two calls of agents that wait gets its own decision, in any order."""
    till = Till()
    front = Agent[Any](name="Front", tools=[till.agent().as_tool("ask_clerk", "Ask.")])

    def reply(request: Any) -> Any:
        done = outputs(request)
        if any(spec.name == "ask_clerk" for spec in request.tools):
            calls = [call("ask_clerk", f"o{one}", input=str(one)) for one in (1, 2)]
            return say("Done.") if done else calls
        asked = int(request.input[0]["content"])
        return say(str(done)) if done else [_pay(f"c{asked}", asked)]

    model = ScriptedModel(always=reply)
    result = await executor.execute(front, model=model)
    while len(result.interruptions) < 2:  # the agents work side by side
        result = await executor.resume(front, result.to_state())
    waiting = {json.loads(one.arguments)["amount"]: one for one in result.interruptions}
    assert sorted(waiting) == [1, 2]
    state = result.to_state()
    state.reject(waiting[2], rejection_message="Not two.")
    state.approve(waiting[1])
    result = await executor.resume(front, state)
    assert till.paid == [1]
    assert outputs_among(result.to_input_list()) == {
        "o1": "{'c1': 'paid 1'}",
        "o2": "{'c2': 'Not two.'}",
    }


@pytest.mark.full
@row(36, 39)
async def test_a_decision_after_a_restart_runs_the_call_once(client: Client) -> None:
    """mastra 19301: a request outlives the process that made it, and is decided in the next one."""
    till, queue = Till(), f"queue-{secrets.token_hex(6)}"
    agent, model = till.agent(), ScriptedModel([_pay("c1", 5)])
    async with served(client, queue, agent, model):
        result = await Runner.run(agent, "Pay", client=client, task_queue=queue)
        text = result.to_state().to_string()
    assert till.paid == []
    after, later_model = till.agent(), ScriptedModel("Paid.")
    async with served(client, queue, after, later_model):
        state = await outlast.RunState.from_string(after, text)
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(after, state, client=client, task_queue=queue)
    assert (result.final_output, till.paid) == ("Paid.", [5])
    assert outputs(later_model.requests[0]) == {"c1": "paid 5"}


@also_on_server
@row(36)
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_approval_below_three_agents_runs_the_call_once(
    executor: Executor, streamed: bool
) -> None:
    """openai-agents-python 4414: an approval three agent tools down runs that call, once."""
    till = Till()
    agent = till.three_deep()
    result = await executor.execute(agent, model=_three_deep_model())
    (item,) = result.interruptions
    assert (item.tool_name, item.agent.name, till.paid) == ("pay", "Clerk", [])
    state = result.to_state()
    state.approve(item)
    if streamed:
        result = await executor.resume_streamed(agent, state)
        async for _ in result.stream_events():
            pass
    else:
        result = await executor.resume(agent, state)
    assert (result.final_output, result.interruptions, till.paid) == ("Done.", [], [5])


@pytest.mark.full
@row(36, 39)
@pytest.mark.parametrize("approved", [True, False])
async def test_a_nested_request_is_decided_by_who_has_only_the_stored_state(
    client: Client, approved: bool
) -> None:
    """strands 3076: a nested agent's request is decided after every process was replaced."""
    till, queue = Till(), f"queue-{secrets.token_hex(6)}"
    agent, model = till.three_deep(), _three_deep_model()
    async with served(client, queue, agent, model):
        result = await Runner.run(agent, "Pay", client=client, task_queue=queue)
        text = result.to_state().to_string()
    made_anew = till.three_deep()
    async with served(client, queue, made_anew, model):
        state = await outlast.RunState.from_string(made_anew, text)
        (item,) = state.get_interruptions()
        if approved:
            state.approve(item)
        else:
            state.reject(item)
        result = await Runner.run(made_anew, state, client=client, task_queue=queue)
    assert (result.final_output, result.interruptions) == ("Done.", [])
    assert till.paid == ([5] if approved else [])


@row(36, 39)
@pytest.mark.parametrize("stored", [False, True])
async def test_a_context_given_on_resume_does_not_ask_again(
    executor: Executor, stored: bool
) -> None:
    """openai-agents-python 4244: an approval counts, whether or not the program gives a context."""
    till = Till()
    model = ScriptedModel([_pay("c1", 5)], "Paid.")
    agent = till.agent()
    result = await executor.execute(agent, model=model, context={"customer": "Ann"})
    state = result.to_state()
    if stored:
        state = await executor.round_trip(agent, state)
    state.approve(state.get_interruptions()[0])
    result = await executor.resume(agent, state, context={"customer": "Ann"})
    assert (result.final_output, result.interruptions, till.paid) == ("Paid.", [], [5])


@pytest.mark.full
@row(36, 39)
async def test_a_request_decided_twice_in_two_processes_counts_once(client: Client) -> None:
    """openai-agents-python 5105: a stored state decides once, and cannot change what is decided."""
    till, queue = Till(), f"queue-{secrets.token_hex(6)}"
    agent, model = till.agent(), ScriptedModel([_pay("c1", 5)], "Paid.")

    async def resumed(text: str, *, approves: bool) -> Any:
        state = await outlast.RunState.from_string(agent, text)
        (item,) = state.get_interruptions()
        if approves:
            state.approve(item)
        else:
            state.reject(item)
        return await Runner.run(agent, state, client=client, task_queue=queue)

    async with served(client, queue, agent, model):
        result = await Runner.run(agent, "Pay", client=client, task_queue=queue)
        text = result.to_state().to_string()
        request = result.interruptions[0].request
        changed = text.replace(request.args_digest, "0" * 64)
        assert changed != text
        with pytest.raises(AgentsException, match="other arguments"):
            await resumed(changed, approves=True)
        assert till.paid == []
        first, second = await asyncio.gather(
            resumed(text, approves=True), resumed(text, approves=True)
        )
        assert first.final_output == second.final_output == "Paid."
        assert till.paid == [5]
        with pytest.raises(AgentsException, match="already approved"):
            await resumed(text, approves=False)
    assert (till.paid, model.calls) == ([5], 2)


@row(36)
async def test_a_tool_that_answers_an_error_does_not_pause(executor: Executor) -> None:
    """ADK 5049: the model reads an error at once and tries again; only the valid call pauses."""
    ordered: list[int] = []

    def is_valid(_context: Any, arguments: Any, _call_id: str) -> bool:
        return arguments["quantity"] > 0

    @function_tool(needs_approval=is_valid)
    async def order(quantity: int) -> str:
        if quantity <= 0:
            return "Error: the quantity must be greater than zero."
        ordered.append(quantity)
        return f"ordered {quantity}"

    agent = Agent(name="Clerk", tools=[order])
    model = ScriptedModel(
        [call("order", "c1", quantity=0)], [call("order", "c2", quantity=3)], "Ordered."
    )
    result = await executor.execute(agent, model=model)
    (item,) = result.interruptions
    assert (item.call_id, model.calls, ordered) == ("c2", 2, [])
    assert "greater than zero" in outputs(model.requests[1])["c1"]
    state = result.to_state()
    state.approve(item)
    result = await executor.resume(agent, state)
    assert (result.final_output, ordered) == ("Ordered.", [3])
