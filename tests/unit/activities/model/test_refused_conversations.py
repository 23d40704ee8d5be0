"""Whatever a provider refuses of a conversation, and wherever it stands, the next question works."""

import asyncio
from typing import Any

from hypothesis import given

from outlast.activities.model.refusals import MOST_PAID, MOST_TRIES
from outlast.agents.agent import Agent
from outlast.agents.config.compaction import Compaction
from outlast.agents.items.tool_output import ToolOutputImage, ToolOutputText
from outlast.agents.tools.function_tool import function_tool
from outlast.loop.aside import Aside
from outlast.loop.events import MessageReceived
from outlast.loop.items import Message
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.sessions.sqlite import SQLiteSession
from outlast.testing import ScriptedModel
from outlast.testing.in_memory import MemoryRun, now_ms
from outlast.testing.run import started
from tests.laws.refused_conversations import (
    DEPLOY,
    LARGE,
    Marks,
    Plan,
    Question,
    Refusing,
    marks_in,
    plans,
    replies_of,
)
from tests.laws.strategies import examples
from tests.wire_rules.watch import WATCH


def agent_of(plan: Plan, marks: Marks) -> Agent[Any]:
    """Return the agent of a conversation; its tool returns what is planned."""
    outputs = {
        f"{number}.{place}": output
        for number, question in enumerate(plan.questions)
        for place, output in enumerate(question.outputs)
    }

    @function_tool
    async def look(at: str) -> list[ToolOutputText | ToolOutputImage]:
        """Look at something."""
        return [
            ToolOutputImage(image_url=part["image_url"], detail="auto")
            if part["type"] == "input_image"
            else ToolOutputText(text=part["text"])
            for part in marks.content(outputs[at])
        ]

    compaction = Compaction(window=16, above=0.1) if plan.summary[0] else None
    return Agent[Any](name="Desk", tools=[look], compaction=compaction)


def session_items(questions: tuple[Question, ...], marks: Marks) -> list[JsonObject]:
    """Return the items that an earlier run left in a session."""
    items: list[JsonObject] = []
    replies = replies_of(questions, marks, "s")
    for number, question in enumerate(questions):
        items.append({"role": "user", "content": marks.content(question.asked)})
        for place, output in enumerate(question.outputs):
            items += next(replies)
            found = {"call_id": f"cs{number}-{place}", "output": marks.content(output)}
            items.append({"type": "function_call_output", **found})
        items += next(replies)
    return items


async def hold(plan: Plan) -> tuple[LoopState, Refusing]:
    """Hold a conversation in memory, and ask one more question at its end."""
    WATCH.forget()
    marks = Marks()
    provider = Refusing(plan, marks, replies_of(plan.questions, marks), limit=4 * LARGE)
    agent, session = agent_of(plan, marks), SQLiteSession("s")
    await session.add_items(session_items(plan.session, marks))
    first, *rest = (
        [{"role": "user", "content": marks.content(one.asked)}] for one in plan.questions
    )
    model = ScriptedModel(always=provider)
    options: Any = {"keep_open": True, "session": session, "stream": plan.streams}
    run: MemoryRun = started(agent, first, model=model, **options)
    try:
        await run.run_until_waiting()
        for number, content in enumerate(rest):
            await hears(run, f"m{number}", content)
        provider.is_deployed = False
        await hears(run, "last", [{"role": "user", "content": "And now?"}])
    finally:
        await run.stop()
        await run.worker.registry.release()
        session.close()
    return run.state, provider


async def hears(run: MemoryRun, message_id: str, content: list[JsonObject]) -> None:
    message = Message(message_id, tuple(content))
    run.apply(MessageReceived(at_ms=now_ms(), message=message))
    await run.run_until_waiting()


def left_out(state: LoopState, aside: Aside) -> object:
    """Return what is left out; empty for what only the view has."""
    if aside.item is None:
        return None
    raw = state.items[aside.item].raw
    if aside.part is None:
        return raw
    content: Any = raw.get("content", raw.get("output"))
    return content[aside.part]


@examples(150)
@given(plans())
def test_a_conversation_goes_on_whatever_its_provider_refuses(plan: Plan) -> None:
    state, provider = asyncio.run(hold(plan))
    assert state.status == "idle"
    failed = [one.failure for one in state.answers if one.failure is not None]
    if plan.what in DEPLOY:
        assert state.aside == (), "a bad deploy costs nobody's words"
        assert len(failed) == len(plan.questions)
    else:
        assert failed == []
    assert state.answers[-1].failure is None
    # A search ends when its requests are used up, and may then leave out more than what is refused.
    turns = max(item.turn for item in state.items)
    is_bounded = provider.taken - turns >= MOST_PAID - 1 or provider.requests - turns >= MOST_TRIES
    if plan.what != "sum" and not is_bounded:
        for one in state.aside:
            found = left_out(state, one)
            assert found is None or marks_in(found), "what is not refused stays"
