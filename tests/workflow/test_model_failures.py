"""When models fail: what is tried again, how soon, and what the caller is told."""

from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import ModelCallFailed, UserError
from outlast.client.handle import RunHandle
from outlast.testing import ScriptedModel
from tests.workflow.desk import Desk
from tests.workflow.replies import model_error

AGENT = Agent[Any](name="Helper")


@pytest.mark.smoke
async def test_a_refused_request_fails_the_run_at_once_and_says_why(desk: Desk):
    model = ScriptedModel(model_error("unauthorized", retryable=False, status=401))
    await desk.open(AGENT, model=model)
    with pytest.raises(ModelCallFailed, match="The provider failed: unauthorized") as caught:
        await desk.run(AGENT)
    assert caught.value.code == "model_call_failed"
    assert model.calls == 1
    state = await RunHandle(desk.client, desk.ids[0]).state()
    assert state.failure is not None
    assert state.failure.details == {"reason": "unauthorized", "status": 401}


@pytest.mark.smoke
async def test_a_failure_in_passing_is_tried_again_and_leaves_no_trace_in_the_answer(desk: Desk):
    model = ScriptedModel(model_error("overloaded", retryable=True, status=529), "Here I am.")
    await desk.open(AGENT, model=model)
    handle = await desk.start(AGENT)
    result = await desk.result(handle)
    assert (result.final_output, result.turns, result.usage.requests) == ("Here I am.", 1, 1)
    assert model.calls == 2
    types = await desk.event_types(handle)
    assert types.count("EVENT_TYPE_ACTIVITY_TASK_SCHEDULED") == 1


@pytest.mark.parametrize(("asked", "waited"), [(7200, 300)])
async def test_a_provider_that_asks_to_wait_is_heard_within_reason(
    desk: Desk, asked: int, waited: int
):
    limited = model_error("rate_limited", retryable=True, retry_after=timedelta(seconds=asked))
    model = ScriptedModel(limited)
    await desk.open(AGENT, model=model)
    handle = await desk.start(AGENT)
    pending = await desk.pending_activity(handle, lambda one: one.attempt == 2)
    interval = pending.current_retry_interval.ToTimedelta()
    assert timedelta(0) <= interval - timedelta(seconds=waited) < timedelta(seconds=1)
    assert pending.last_failure.message == "The provider failed: rate_limited."
    assert pending.last_failure.application_failure_info.type == "model_call_failed"
    await handle.cancel()


async def test_a_context_that_a_callable_spoils_fails_the_run_but_pays_the_model_once(desk: Desk):
    def spoil(ctx: RunContextWrapper[dict[str, Any]], _agent: Agent[Any]) -> str:
        ctx.context["x"] = "\ud800"
        return "Be brief."

    agent = Agent(name="Helper", instructions=spoil)
    model = ScriptedModel(always="Yes.")
    await desk.open(agent, model=model)
    with pytest.raises(UserError, match="cannot be written as JSON"):
        await desk.run(agent, context={})
    assert model.calls == 1
