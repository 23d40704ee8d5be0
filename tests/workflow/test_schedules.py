"""Schedules on a real server: what fires, once, whatever the state of workers and conversations."""

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio import client as temporal
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.client import Client, WorkflowFailureError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Replayer

from outlast.activities import scheduled
from outlast.agents.agent import Agent
from outlast.agents.approvals.budget import Budget
from outlast.agents.config.run_config import RunConfig
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import (
    RunClosed,
    RunNotFound,
    ScheduleNotFound,
    UserError,
)
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.runs import RunFilter, list_runs
from outlast.client.schedules import Firing, Schedule, Schedules, Times
from outlast.client.schedules.tool import schedule_tool
from outlast.contract import names
from outlast.edges.clock import now_ms
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import loop_state
from outlast.workflows.scheduled_message import ScheduledMessage
from tests.workflow.codecs import Sealed, with_codec
from tests.workflow.desk import Desk
from tests.workflow.replies import last_user_text, outputs
from tests.workflow.test_long_runs import true_in_the_end

NEVER = Times(every=timedelta(days=3000))
"""Times that do not come during a test: it triggers its schedules."""

SOON = timedelta(seconds=3)

WITHOUT_AGENT = "the schedule names no agent to start it with. Create it with one, or delete it."


def now() -> datetime:
    return datetime.fromtimestamp(now_ms() / 1000, UTC)


@pytest.mark.parametrize(
    ("zone", "day", "cron", "fires"),
    [
        ("America/New_York", "2026-11-01", "30 1 * * *", ["05:30", "06:30"]),
        ("America/New_York", "2026-11-01", "0 4 * * *", ["09:00"]),
        ("Europe/Berlin", "2026-10-25", "30 2 * * *", ["01:30"]),
        ("Europe/Berlin", "2026-10-25", "*/30 1-3 * * *", ["01:30", "02:00", "02:30"]),
        ("Europe/London", "2026-10-25", "30 1 * * *", ["01:30"]),
        ("America/New_York", "2027-03-14", "30 2 * * *", []),
        ("Europe/Berlin", "2027-03-28", "30 2 * * *", []),
    ],
)
async def test_cron_fires_where_clocks_change_as_the_guide_says(
    desk: Desk, schedules: Schedules, zone: str, day: str, cron: str, fires: list[str]
) -> None:
    name = f"{desk.queue}-clocks"
    times = Times(cron=cron, time_zone=zone)
    await schedules.create(name, "Hello", times, agent=clerk(), paused=True)
    begin, end = Timestamp(), Timestamp()
    begin.FromJsonString(f"{day}T00:00:00Z")
    end.FromJsonString(f"{day}T12:00:00Z")
    asked = ListScheduleMatchingTimesRequest(
        namespace=desk.client.namespace, schedule_id=name, start_time=begin, end_time=end
    )
    found = await desk.client.workflow_service.list_schedule_matching_times(asked)
    assert [f"{one.ToDatetime():%H:%M}" for one in found.start_time] == fires


async def until_the_second_after(at: datetime) -> None:
    """Wait until a firing would have another id."""
    while now().replace(microsecond=0) <= at:  # noqa: ASYNC110  time passes
        await asyncio.sleep(0.05)


@pytest.fixture
async def schedules(desk: Desk) -> AsyncIterator[Schedules]:
    """The schedules of the desk's queue, which are deleted at the end."""
    yield Schedules(desk.client, task_queue=desk.queue)
    for one in await Schedules(desk.client).list():
        if one.id.startswith(desk.queue):
            await Schedules(desk.client).delete(one.id)


def clerk() -> Agent[Any]:
    """Return an agent with a tool that a person approves."""

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    return Agent(name="Clerk", tools=[pay])


def new(desk: Desk) -> str:
    """Return an id for a schedule."""
    return f"{desk.queue}-{secrets.token_hex(3)}"


async def fired(schedules: Schedules, name: str, count: int = 1) -> list[Firing]:
    """Wait until a schedule has fired so often."""
    found: Schedule = await schedules.get(name)
    async with asyncio.timeout(30):
        while len(found.recent) < count:
            await asyncio.sleep(0.05)
            found = await schedules.get(name)
    return list(found.recent)


async def ended(client: Client, firing: Firing) -> Any:
    """Return the result of the workflow that a firing has started."""
    async with asyncio.timeout(30):
        return await client.get_workflow_handle(firing.run_id).result()


async def message_of(client: Client, firing: Firing) -> Any:
    async with asyncio.timeout(30):
        while True:
            try:
                return await ended(client, firing)
            except temporal.RPCError:
                await asyncio.sleep(0.05)


async def open_conversation(desk: Desk, **options: Any) -> RunHandle:
    handle = await desk.start("Clerk", "Hello", keep_open=True, **options)
    await desk.until(handle, lambda state: state.phase == "idle")
    return handle


def said(state: Any) -> list[str]:
    """Return what the user said."""
    return [item.raw["content"] for item in state.items if item.raw.get("role") == "user"]


async def test_a_firing_starts_a_run_like_any_other(desk: Desk, schedules: Schedules) -> None:
    await desk.open(clerk(), model=ScriptedModel("Report."))
    name = new(desk)
    at = (now() + SOON).replace(microsecond=500_000)  # the server fires at the next whole second
    config = RunConfig(budgets=[Budget(model_calls=7)])
    created = await schedules.create(
        name,
        "Report, please.",
        Times(at=at),
        agent="Clerk",
        tenant="acme",
        customer="ann",
        author="bob",
        run_config=config,
        note="for the board",
    )
    due = at.replace(microsecond=0) + timedelta(seconds=1)
    assert created.next == (due,)
    assert (created.agent, created.to, created.text) == ("Clerk", "", "Report, please.")
    assert (created.status, created.note, created.fired) == ("active", "for the board", 0)

    [firing] = await fired(schedules, name)
    desk.ids.append(firing.run_id)

    assert firing.run_id == f"{name}-{due:%Y-%m-%dT%H:%M:%SZ}"
    handle = RunHandle(desk.client, firing.run_id)
    assert (await desk.result(handle)).final_output == "Report."
    state = await handle.state()
    assert [one.limit for one in loop_state(state).start.budgets] == [7]
    assert (loop_state(state).start.customer.id, state.answers[0].authors) == ("ann", ("bob",))
    description = await handle.check()
    assert description.raw_info.priority.fairness_key == "acme"
    assert (await description.static_summary()) == "Clerk: Report, please."
    assert description.typed_search_attributes  # listed by its agent
    found = await schedules.get(name)
    assert (found.status, found.next, found.fired) == ("done", (), 1)
    assert [(one.at, one.status) for one in found.recent] == [(due, "completed")]

    # A start with the same id and input is the same run, as of any run.
    same = await desk.start(
        "Clerk",
        "Report, please.",
        id=firing.run_id,
        customer="ann",
        tenant="acme",
        run_config=config,
    )
    assert (await same.check()).run_id == description.run_id


async def test_a_run_needs_no_worker_when_its_time_comes(desk: Desk, schedules: Schedules) -> None:
    name = new(desk)
    await schedules.create(name, "Report, please.", NEVER, agent="Clerk")
    await schedules.trigger(name)
    [firing] = await fired(schedules, name)
    assert firing.status == "open"
    await schedules.trigger(name)  # skipped: the run of the firing before is open

    async def skipped() -> bool:
        return (await schedules.get(name)).skipped == 1

    await true_in_the_end(skipped)
    await desk.open(clerk(), model=ScriptedModel("Report."))
    desk.ids.append(firing.run_id)
    assert (await desk.result(RunHandle(desk.client, firing.run_id))).final_output == "Report."
    [only] = (await schedules.get(name)).recent
    assert only.status == "completed"


async def test_an_unknown_agent_is_shown_and_the_schedule_goes_on(
    desk: Desk, schedules: Schedules
) -> None:
    await desk.open(clerk())
    name = new(desk)
    await schedules.create(name, "Hello", NEVER, agent="Nobody", overlap="allow_all")
    await schedules.trigger(name)
    [firing] = await fired(schedules, name)
    desk.ids.append(firing.run_id)
    with pytest.raises(UserError, match="no agent 'Nobody'"):
        await desk.result(RunHandle(desk.client, firing.run_id))
    found = await schedules.get(name)
    assert (found.status, found.recent[0].status) == ("active", "failed")
    assert found.recent[0].problem.startswith("This worker has no agent 'Nobody'. It has: 'Clerk'.")


async def test_messages_reach_an_open_conversation_once_each(
    desk: Desk, schedules: Schedules
) -> None:
    await desk.open(clerk(), model=ScriptedModel("Hi.", "No news.", "Still none."))
    handle, name = await open_conversation(desk), new(desk)
    await schedules.create(name, "Any news?", NEVER, to=handle.id)
    await schedules.trigger(name)
    [first] = await fired(schedules, name)
    result = await message_of(desk.client, first)
    assert result == {"run_id": handle.id, "message_id": first.run_id, "started": False}
    assert (await handle.wait_for_answer(first.run_id)).final_output == "No news."

    # The same firing once more, as after a failover or by hand, changes nothing.
    workflow = desk.client.get_workflow_handle(first.run_id)
    described = await workflow.describe()
    assert await described.static_summary() == f"To {handle.id}: Any news?"
    history = await workflow.fetch_history()
    payload = history.events[0].workflow_execution_started_event_attributes.input.payloads[0]
    again = await desk.client.start_workflow(
        names.WORKFLOW_SCHEDULED,
        json.loads(payload.data),
        id=first.run_id,
        task_queue=desk.queue,
    )
    assert await again.result() == result

    await until_the_second_after(first.at)
    await schedules.trigger(name)
    [_, second] = await fired(schedules, name, 2)
    assert (await handle.wait_for_answer(second.run_id)).final_output == "Still none."
    assert said(await handle.state()) == ["Hello", "Any news?", "Any news?"]

    await Replayer(workflows=[ScheduledMessage]).replay_workflow(history)


async def test_a_message_waits_for_a_worker(desk: Desk, schedules: Schedules) -> None:
    worker = await desk.open(clerk(), model=ScriptedModel("Hi."))
    handle, name = await open_conversation(desk), new(desk)
    await desk.close(worker)
    await schedules.create(name, "Any news?", NEVER, to=handle.id)
    await schedules.trigger(name)
    [firing] = await fired(schedules, name)
    assert firing.status == "open"
    await desk.open(clerk(), model=ScriptedModel("No news."))
    assert (await handle.wait_for_answer(firing.run_id)).final_output == "No news."
    assert (await message_of(desk.client, firing))["started"] is False


async def test_a_message_starts_a_conversation_that_is_not_open(
    desk: Desk, schedules: Schedules
) -> None:
    await desk.open(clerk(), model=ScriptedModel("Good morning.", "Good morning again."))
    name, conversation = new(desk), desk.new_id()
    await schedules.create(name, "Stand-up!", NEVER, to=conversation, agent="Clerk", tenant="acme")
    await schedules.trigger(name)
    [first] = await fired(schedules, name)
    assert (await message_of(desk.client, first))["started"] is True
    handle = RunHandle(desk.client, conversation)
    assert (await handle.wait_for_answer(first.run_id)).final_output == "Good morning."
    description = await handle.check()
    assert description.raw_info.priority.fairness_key == "acme"
    assert description.parent_id is None  # a run of its own, which people sign decisions for

    await handle.cancel("after_turn")
    await desk.result(handle)
    await until_the_second_after(first.at)
    await schedules.trigger(name)
    [_, second] = await fired(schedules, name, 2)
    assert (await message_of(desk.client, second))["started"] is True
    assert (await handle.wait_for_answer(second.run_id)).final_output == "Good morning again."
    assert said(await handle.state()) == ["Stand-up!"]

    async def is_listed() -> bool:
        ours = RunFilter(id_prefix=conversation, agent="Clerk", tenant="acme")
        return any(await list_runs(desk.client, ours))

    await true_in_the_end(is_listed)


async def test_a_closed_conversation_without_an_agent_is_a_failure_in_words(
    desk: Desk, schedules: Schedules
) -> None:
    await desk.open(clerk(), model=ScriptedModel("Hi."))
    handle, name = await open_conversation(desk), new(desk)
    await schedules.create(name, "Any news?", NEVER, to=handle.id, pause_on_failure=True)
    await handle.cancel("after_turn")
    await desk.result(handle)
    await schedules.trigger(name)
    [firing] = await fired(schedules, name)
    with pytest.raises(WorkflowFailureError):
        await message_of(desk.client, firing)

    async def is_paused() -> bool:
        return (await schedules.get(name)).status == "paused"

    await true_in_the_end(is_paused)
    [firing] = (await schedules.get(name)).recent
    assert (firing.status, firing.problem) == (
        "failed",
        f"The conversation {handle.id!r} is not open, and {WITHOUT_AGENT}",
    )
    for to, error, words in (
        (handle.id, RunClosed, "has ended. Name an agent"),
        ("nowhere", RunNotFound, "There is no run 'nowhere'"),
        (firing.run_id, RunNotFound, "not a run of an agent, but a workflow of the type"),
    ):
        with pytest.raises(error, match=words):
            await schedules.create(new(desk), "Any news?", NEVER, to=to)
    with pytest.raises(RunNotFound, match="not a run of an agent"):
        await schedules.create(new(desk), "Any news?", NEVER, to=firing.run_id, agent="Clerk")


@pytest.mark.parametrize("was_open", [True, False])
async def test_an_attempt_that_died_after_sending_does_not_send_again(
    desk: Desk, schedules: Schedules, monkeypatch: pytest.MonkeyPatch, *, was_open: bool
) -> None:
    """The conversation has taken the message and ended before the next attempt."""
    await desk.open(clerk(), model=ScriptedModel("Hi.", "Ok.", "Never said."))
    conversation = (await open_conversation(desk)).id if was_open else desk.new_id()
    handle, name = RunHandle(desk.client, conversation), new(desk)
    attempts: list[str] = []

    def dies_after(send: Callable[..., Any]) -> Callable[..., Any]:
        async def sends(*arguments: Any) -> None:
            await send(*arguments)
            attempts.append(conversation)
            await desk.until(handle, lambda state: state.phase == "idle")
            await handle.cancel("after_turn")
            await handle.result()
            raise ConnectionError("the worker is gone")

        return sends

    step = "_send" if was_open else "_start"
    monkeypatch.setattr(scheduled, step, dies_after(getattr(scheduled, step)))
    await schedules.create(name, "Any news?", NEVER, to=conversation, agent="Clerk")
    await schedules.trigger(name)
    [firing] = await fired(schedules, name)
    await message_of(desk.client, firing)
    assert attempts == [conversation]
    state = await handle.state()
    assert loop_state(state).phase == "closed"
    assert said(state) == (["Hello", "Any news?"] if was_open else ["Any news?"])


async def test_a_paused_schedule_lets_its_times_pass(desk: Desk, schedules: Schedules) -> None:
    each = Times(every=timedelta(seconds=1))
    paused, clock = new(desk), new(desk)
    await schedules.create(paused, "Hello", each, agent="Clerk", paused=True, overlap="allow_all")
    await schedules.create(clock, "Hello", each, agent="Clerk", overlap="allow_all")
    desk.ids += [one.run_id for one in await fired(schedules, clock)]
    await schedules.pause(clock, note="enough")
    found = await schedules.get(paused)
    assert (found.status, found.fired, bool(found.next)) == ("paused", 0, True)
    assert (await schedules.get(clock)).note == "enough"

    await schedules.resume(paused, note="ann is back")
    recent = await fired(schedules, paused)
    assert (await schedules.get(paused)).note == "ann is back"
    await schedules.delete(paused)
    with pytest.raises(ScheduleNotFound):
        await schedules.get(paused)
    await desk.open(clerk(), model=ScriptedModel(*["Hi."] * 20))
    desk.ids += [one.run_id for one in recent]


async def test_one_time_that_passed_while_paused_does_not_come_back(
    desk: Desk, schedules: Schedules
) -> None:
    name = new(desk)
    await schedules.create(name, "Hello", Times(at=now() + SOON), agent="Clerk", paused=True)

    async def has_passed() -> bool:
        return not (await schedules.get(name)).next

    await true_in_the_end(has_passed)
    await schedules.resume(name)
    found = await schedules.get(name)
    assert (found.status, found.next, found.fired) == ("done", (), 0)


async def test_a_schedule_is_created_once(desk: Desk, schedules: Schedules) -> None:
    name = new(desk)
    first = await schedules.create(name, "Hello", NEVER, agent="Clerk")
    assert await schedules.create(name, "Hello", NEVER, agent="Clerk") == first
    with pytest.raises(UserError, match="another schedule with the id"):
        await schedules.create(name, "Goodbye", NEVER, agent="Clerk")

    async def is_listed() -> bool:
        return name in [one.id for one in await schedules.list()]

    await true_in_the_end(is_listed)
    [listed] = [one for one in await schedules.list() if one.id == name]
    assert (listed.when, listed.text, listed.next) == ("every 3000d", "Hello", first.next[:5])
    await schedules.delete(name)
    for act in (schedules.get, schedules.pause, schedules.resume, schedules.trigger):
        with pytest.raises(ScheduleNotFound, match=f"There is no schedule '{name}'"):
            await act(name)


async def test_the_schedule_of_another_program_is_left_alone(
    desk: Desk, schedules: Schedules
) -> None:
    name = new(desk)
    action = temporal.ScheduleActionStartWorkflow("Theirs", id=name, task_queue=desk.queue)
    handle = await desk.client.create_schedule(
        name, temporal.Schedule(action=action, spec=NEVER.spec())
    )
    for act in (schedules.get, schedules.pause, schedules.trigger, schedules.delete):
        with pytest.raises(ScheduleNotFound, match="workflows of the type 'Theirs'"):
            await act(name)
    with pytest.raises(UserError, match="workflows of the type 'Theirs'"):
        await schedules.create(name, "Hello", NEVER, agent="Clerk")
    await handle.describe()
    assert name not in [one.id for one in await schedules.list()]
    await handle.delete()


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        (Times(cron="each monday"), "CronString does not have 5-7 fields"),
        (Times(cron="0 9 * * *", time_zone="Mars/Base"), "unknown time zone Mars/Base"),
        (Times(cron="0 0 31 2 *"), "The times of the schedule never come: 0 0 31 2 *"),
    ],
)
async def test_times_that_the_server_refuses(
    desk: Desk, schedules: Schedules, times: Times, problem: str
) -> None:
    name = new(desk)
    with pytest.raises(UserError) as refused:
        await schedules.create(name, "Hello", times, agent="Clerk")
    assert problem in str(refused.value)
    with pytest.raises(ScheduleNotFound):
        await schedules.get(name)


async def test_daylight_saving_skips_a_time_and_never_repeats_one(
    desk: Desk, schedules: Schedules
) -> None:
    async def days(start: datetime) -> list[str]:
        times = Times(cron="30 2 * * *", time_zone="Europe/Berlin", start=start)
        found = await schedules.create(new(desk), "Hello", times, agent="Clerk")
        return [f"{one:%d %H:%M}" for one in found.next[:3]]

    assert await days(datetime(2027, 3, 27, tzinfo=UTC)) == ["27 01:30", "29 00:30", "30 00:30"]
    assert await days(datetime(2027, 10, 30, tzinfo=UTC)) == ["30 00:30", "31 01:30", "01 01:30"]


async def test_an_encrypted_schedule_shows_nothing_to_others(
    desk: Desk, schedules: Schedules, client: Client
) -> None:
    sealed = with_codec(client, Sealed(b"one key"))
    await desk.open(clerk(), model=ScriptedModel("Hi."), client=sealed)
    name, conversation = new(desk), f"{new(desk)}-conversation"
    own = Schedules(sealed, task_queue=desk.queue)
    found = await own.create(name, "a secret", NEVER, agent="Clerk", to=conversation)
    assert (found.text, found.agent) == ("a secret", "Clerk")

    other = await schedules.get(name)
    raw = await client.get_schedule_handle(name).describe()
    assert (other.text, other.agent, other.when) == ("", "", "")
    assert b"secret" not in raw.raw_description.SerializeToString()
    await own.trigger(name)
    [firing] = await fired(own, name)
    await message_of(sealed, firing)
    answer = await RunHandle(sealed, conversation).wait_for_answer(firing.run_id)
    assert answer.final_output == "Hi."
    await RunHandle(sealed, conversation).cancel("after_turn")


# --- The tool -------------------------------------------------------------------------------------


def reminded(**options: Any) -> Agent[Any]:
    """Return an agent that may send itself messages later."""
    return Agent(name="Clerk", tools=[schedule_tool(**options)])


def remind(call_id: str, text: str = "Ask the supplier again.", **when: Any) -> Any:
    return call("remind_me_later", call_id, text=text, **when)


async def test_an_agent_asks_again_later(desk: Desk, schedules: Schedules) -> None:
    heard = asyncio.Event()

    def reply(request: ModelRequest) -> Any:
        if "wrote this to yourself" in last_user_text(request):
            heard.set()
            return say("I have asked again.")
        is_done = "c1" in outputs(request)
        return say("I will.") if is_done else [remind("c1", minutes=0.05)]

    await desk.open(reminded(), model=ScriptedModel(*[reply] * 4))
    handle = await desk.start("Clerk", "Ask again soon.", keep_open=True)
    async with asyncio.timeout(30):
        await heard.wait()
    state = await desk.until(handle, lambda state: len(state.answers) == 2)
    made = [item for item in state.items if item.kind == "tool_output"]
    assert str(made[0].raw["output"]).startswith("Scheduled: the message comes at 20")
    first, second = said(state)
    written = now().strftime("%Y-%m-%dT%H:")
    assert first == "Ask again soon."
    assert second.startswith(f"[You wrote this to yourself on {written}")
    assert second.endswith("; the user did not.]\nAsk the supplier again.")


async def test_calls_side_by_side_do_not_go_beyond_the_bound(
    desk: Desk, schedules: Schedules
) -> None:
    calls = [remind(f"c{n}", f"Do {n}.", minutes=60) for n in range(5)]
    await desk.open(reminded(most=2), model=ScriptedModel(calls, "Done."))
    handle = await desk.start("Clerk", "Remind yourself of five things.", keep_open=True)
    state = await desk.until(handle, lambda state: state.phase == "idle")
    read = [str(one.raw["output"]) for one in state.items if one.kind == "tool_output"]
    assert sum(one.startswith("Scheduled: ") for one in read) == 2
    assert sum(one.startswith("Not scheduled: 2 messages are to come") for one in read) == 3
    await delete_reminders(schedules, handle.id)


async def test_an_attempt_that_is_repeated_plans_one_message(
    desk: Desk, schedules: Schedules
) -> None:
    await desk.open(clerk(), model=ScriptedModel("Hi."))
    handle = await open_conversation(desk)
    tool = schedule_tool()
    environment = ActivityEnvironment(client=desk.client)
    environment.info = replace(environment.info, workflow_id=handle.id, scheduled_time=now())

    async def attempt() -> str:
        context = ToolContext(
            None, tool_name=tool.name, tool_call_id="c1", tool_arguments="{}", run_id=handle.id
        )
        arguments = json.dumps({"text": "Ask again.", "minutes": 60})
        return str(await tool.on_invoke_tool(context, arguments))

    first = await environment.run(attempt)
    assert first.startswith("Scheduled: the message comes at ")
    assert await environment.run(attempt) == first
    assert len(await delete_reminders(schedules, handle.id)) == 1


async def test_an_agent_that_works_as_a_tool_plans_nothing(desk: Desk) -> None:
    inner = Agent[Any](name="Inner", tools=[schedule_tool()])
    outer = Agent[Any](name="Outer", tools=[inner.as_tool("ask_inner", "Ask.")])

    def answer(request: ModelRequest) -> Any:
        return say(str(outputs(request)["c1"]))

    script = [call("ask_inner", "o1", input="x")], [remind("c1", minutes=60)], answer, "Ok."
    await desk.open(outer, model=ScriptedModel(*script))
    handle = await desk.start("Outer", "Go.")
    state = (await desk.result(handle)).snapshot
    [read] = [str(one.raw["output"]) for one in state.items if one.kind == "tool_output"]
    assert read == "Not scheduled: only the agent that speaks with the user can do this."


async def delete_reminders(schedules: Schedules, run_id: str) -> list[Schedule]:
    """Delete what an agent has planned for a conversation, and return it."""
    found: list[Schedule] = []
    for place in range(20):
        name = f"reminder-{hashlib.sha256(run_id.encode()).hexdigest()[:16]}-{place}"
        try:
            found.append(await schedules.get(name))
        except ScheduleNotFound:
            return found
        assert found[-1].to == run_id
        await schedules.delete(name)
    return found
