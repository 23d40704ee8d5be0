"""The next of an agent's models on a real server: who is called, and what a crash changes."""

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, FallbackModel, ModelRetrySettings, ModelSettings, RunConfig
from outlast.agents.errors import ModelCallFailed
from outlast.client.handle import RunHandle, progress_of
from outlast.client.timeline import Timeline
from outlast.ports.model import Model
from outlast.testing import ScriptedModel, fail_after, paced
from tests import forked
from tests.workflow.desk import PATIENCE_SECONDS, QUICK, Desk
from tests.workflow.replies import model_error

WORKER_PROGRAM = Path(__file__).parent / "fallback_worker_program.py"

BUSY = model_error("overloaded", retryable=True, status=529)
NO_QUOTA = model_error("quota_exceeded", retryable=False, status=429)
ONCE = ModelSettings(retry=ModelRetrySettings(max_retries=0))
AGENT = Agent[Any](name="Helper", model=FallbackModel(("first", ONCE), "second"))


@dataclass
class Models:
    """A provider with models by name."""

    models: Mapping[str, Model]

    def get_model(self, name: str | None) -> Model:
        return self.models[str(name)]

    async def aclose(self) -> None: ...


async def steps_of(handle: RunHandle) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Return the model calls of a run, as people see them."""
    timeline = Timeline()
    async for one in progress_of(handle):
        timeline.take(one.event, one.state)
    return [
        (one.model, one.status, "" if one.failure is None else one.failure.message, one.tried)
        for one in timeline.steps
        if one.kind == "model"
    ]


@pytest.mark.smoke
@pytest.mark.replayed
async def test_a_model_that_is_busy_is_followed_and_everybody_sees_why(desk: Desk):
    models: Any = Models({"first": ScriptedModel(BUSY), "second": ScriptedModel("Here.")})
    await desk.open(AGENT, model=models)
    handle = await desk.start(AGENT)
    result = await desk.result(handle)
    assert (result.final_output, list(result.cost.by_model)) == ("Here.", ["second"])
    assert await steps_of(handle) == [
        ("first", "failed", "The provider failed: overloaded.", ()),
        ("second", "done", "", ("first: overloaded",)),
    ]


async def test_a_worker_that_is_killed_while_the_second_model_is_called_changes_nothing(desk: Desk):
    address = desk.client.service_client.config.target_host
    handle = await desk.start("Helper", run_config=QUICK)
    worker = await forked.start(str(WORKER_PROGRAM), address, desk.queue)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await worker.wait() == -signal.SIGKILL
    first, second = ScriptedModel("Not asked again."), ScriptedModel("Here.")
    await desk.open(Agent[Any](name="Helper", model=FallbackModel(first, second)))
    result = await desk.result(handle)
    assert (result.final_output, first.calls, second.calls) == ("Here.", 0, 1)
    types = await desk.event_types(handle)
    assert types.count("EVENT_TYPE_ACTIVITY_TASK_FAILED") == 1


async def test_a_run_of_another_program_names_its_models_as_data(desk: Desk):
    agent = Agent[Any](name="Helper", model="other")
    second = ScriptedModel("Here.")
    models: Any = Models({"first": ScriptedModel(NO_QUOTA), "second": second})
    await desk.open(agent, model=models)
    config = RunConfig(model=FallbackModel("first", ("second", ModelSettings(temperature=0.5))))
    result = await desk.run("Helper", run_config=config)
    assert result.final_output == "Here."
    assert second.requests[0].settings.temperature == 0.5


async def test_no_model_follows_text_that_a_reader_has_seen_before_the_worker_was_lost(desk: Desk):
    long = paced(timedelta(seconds=0.05), "A long answer of a great many words. " * 100)
    first, second = ScriptedModel(long), ScriptedModel("Another answer.")
    models: Any = Models({"first": first, "second": second})
    await desk.open_workflows(AGENT)
    worker = await desk.open_effects(AGENT, model=models)
    stream = desk.stream(AGENT, run_config=QUICK)
    seen = asyncio.Event()

    async def read() -> None:
        async for event in stream.stream_events():
            if event.type == "raw_response_event" and event.data.type.endswith("text.delta"):
                seen.set()

    reading = asyncio.create_task(read())
    async with asyncio.timeout(30):
        await seen.wait()
    await desk.close(worker)
    broken: Any = Models({"first": ScriptedModel(always=NO_QUOTA), "second": second})
    await desk.open_effects(AGENT, model=broken)
    with pytest.raises(ModelCallFailed, match=r"^The provider failed: quota_exceeded"):
        await reading
    assert second.calls == 0


async def test_a_reader_of_a_stream_gets_the_reply_of_the_model_that_answers(desk: Desk):
    first = ScriptedModel(fail_after(1, NO_QUOTA, "Never shown."))
    models: Any = Models({"first": first, "second": ScriptedModel("Here I am.")})
    await desk.open(AGENT, model=models)
    stream = desk.stream(AGENT)
    text = ""
    async with asyncio.timeout(30):
        async for event in stream.stream_events():
            if event.type == "raw_response_event" and event.data.type.endswith("text.delta"):
                text += event.data.delta
    assert (text, stream.final_output) == ("Here I am.", "Here I am.")


async def test_a_conversation_begins_each_question_with_the_first_model(desk: Desk):
    first = ScriptedModel(NO_QUOTA, "From the first.")
    models: Any = Models({"first": first, "second": ScriptedModel("From the second.")})
    await desk.open(AGENT, model=models)
    handle = await desk.start(AGENT, keep_open=True)
    await desk.until_status(handle, "idle")
    await handle.send("And now?")
    state = await desk.until(handle, lambda one: len(one.answers) == 2 and one.status == "idle")
    assert [one.model for one in state.responses] == ["second", "first"]
    assert first.calls == 2
    await handle.cancel()
