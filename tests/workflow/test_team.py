"""Teams on a real server: whose each conversation is, with several runs, people and workers at once."""

import asyncio
import secrets
from datetime import datetime, timedelta
from typing import Any, Literal

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import UserError
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.teams import Team, TeamView
from outlast.contract import names, records
from outlast.contract.team_records import TeamInput
from outlast.loop.team.events import DutyChanged
from outlast.loop.team.machine import advance
from outlast.loop.team.state import TeamState
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import Desk
from tests.workflow.laws import replay
from tests.workflow.test_long_runs import true_in_the_end

CLERK = Agent[Any](name="Clerk")


def team_of(desk: Desk, **options: Any) -> Team:
    """A team that no other test has."""
    name = f"billing {secrets.token_hex(4)}"
    return Team(desk.client, name, task_queue=desk.queue, **options)


async def opened(desk: Desk) -> None:
    await desk.open(CLERK, model=ScriptedModel(always=lambda _: say("Hello.")))


async def resting(desk: Desk, **options: Any) -> RunHandle:
    handle = await desk.start(CLERK, "Where is my order?", keep_open=True, **options)
    await desk.until_status(handle, "idle")
    return handle


async def is_with(desk: Desk, handle: RunHandle, *people: str) -> str:
    """Wait until a conversation is assigned to one of these people, and say to whom."""
    state = await desk.until(handle, lambda one: one.case.to in people)
    return state.case.to


async def ended(team: Team, desk: Desk) -> None:
    """Replay what the team's workflow did, and end it."""
    handle = desk.client.get_workflow_handle(team._id)
    events = (await handle.fetch_history()).events
    await replay(desk.client, [(team._id, list(events))])
    await handle.terminate()


async def whose(team: Team) -> dict[str, str]:
    return {one.run_id: one.to for one in (await team.view()).conversations}


async def test_conversations_go_round_and_back_to_the_team_when_their_people_have_answered(
    desk: Desk,
) -> None:
    await opened(desk)
    team = team_of(desk)
    view = await team.on_duty("ann")
    assert [(one.subject, one.on_duty, one.capacity) for one in view.members] == [("ann", True, 5)]
    await team.on_duty("bob")
    handles = [await resting(desk) for _ in range(4)]

    await asyncio.gather(*(one.assign(team=team.name, by="lead") for one in handles))
    got = [await is_with(desk, one, "ann", "bob") for one in handles]
    assert sorted(got) == ["ann", "ann", "bob", "bob"]
    assert await whose(team) == {one.id: to for one, to in zip(handles, got, strict=True)}

    first, to = handles[0], got[0]
    await first.hold(by=to)
    await first.say("I look into it.", by=to)

    async def is_taken() -> bool:
        return [one.taken for one in (await team.view()).conversations].count(True) == 1

    await true_in_the_end(is_taken)
    await first.release(by=to)
    await handles[1].resolve(by="lead")
    await handles[2].cancel(mode="immediate")

    async def has_one() -> bool:
        return await whose(team) == {handles[3].id: got[3]}

    await true_in_the_end(has_one)
    await ended(team, desk)


async def test_many_runs_start_a_team_at_once_and_each_person_gets_no_more_than_they_take(
    desk: Desk,
) -> None:
    await opened(desk)
    team = team_of(desk)
    handles = [await resting(desk) for _ in range(8)]
    await asyncio.gather(*(one.assign(team=team.name, by="lead") for one in handles))

    async def all_wait() -> bool:
        return await whose(team) == dict.fromkeys((one.id for one in handles), "")

    await true_in_the_end(all_wait)
    await asyncio.gather(team.on_duty("ann", capacity=3), team.on_duty("bob", capacity=2))

    async def five_have_somebody() -> bool:
        given = list((await whose(team)).values())
        return sorted(given) == ["", "", "", "ann", "ann", "ann", "bob", "bob"]

    await true_in_the_end(five_have_somebody)

    for handle in handles:
        to = (await whose(team))[handle.id]
        await desk.until(handle, lambda one, to=to: one.case.to == to)
    await ended(team, desk)


async def test_what_nobody_takes_in_time_goes_on_while_no_worker_runs(desk: Desk) -> None:
    await opened(desk)
    team = team_of(desk)
    await team.on_duty("ann")
    await team.on_duty("bob")
    view = await team.assign_by(by="lead", return_after=timedelta(seconds=3))
    assert view.return_after == timedelta(seconds=3)
    handle = await resting(desk)
    await handle.assign(team=team.name, by="lead")
    assert await is_with(desk, handle, "ann") == "ann"

    async def has_a_timer() -> bool:  # the run may know of ann before the team hears that it does
        return await timers(desk, team, "STARTED") > await timers(desk, team, "CANCELED")

    await true_in_the_end(has_a_timer)
    await desk.close_all()

    async def is_due() -> bool:
        return await timers(desk, team, "FIRED") >= 1

    await true_in_the_end(is_due)
    await opened(desk)
    assert await is_with(desk, handle, "bob") == "bob"
    await handle.hold(by="bob")
    await handle.say("Here I am.", by="bob")

    async def is_bobs() -> bool:
        [one] = (await team.view()).conversations
        return (one.to, one.taken, one.due) == ("bob", True, None)

    await true_in_the_end(is_bobs)
    await ended(team, desk)


async def timers(desk: Desk, team: Team, how: Literal["STARTED", "CANCELED", "FIRED"]) -> int:
    history = await desk.client.get_workflow_handle(team._id).fetch_history()
    wanted = EventType.Value(f"EVENT_TYPE_TIMER_{how}")
    return sum(one.event_type == wanted for one in history.events)


@function_tool
async def ask_people(ctx: ToolContext[Any], team: str) -> str:
    """Give the conversation to people."""
    ctx.hand_to_team(team)
    return "A colleague takes over."


async def test_an_agent_gives_the_conversation_to_a_team_whose_person_takes_it(desk: Desk) -> None:
    team = team_of(desk)
    clerk = Agent[Any](name="Clerk", tools=[ask_people])
    hands_over = call("ask_people", "c1", team=team.name)
    await desk.open(clerk, model=ScriptedModel([hands_over], "Back with the agent."))
    await team.on_duty("ann")
    handle = await desk.start(clerk, "I want to speak with somebody.", keep_open=True)
    assert await is_with(desk, handle, "ann") == "ann"
    state = await desk.until_status(handle, "held")
    assert state.hold is not None
    assert state.hold.by == ""

    with pytest.raises(UserError, match="A person has the conversation"):
        await handle.say("Hello.", by="ann")
    await handle.hold(by="ann")  # without force: it waits for anybody of the team
    with pytest.raises(UserError, match="ann has the conversation"):
        await handle.hold(by="bob")
    await handle.say("Ann here. What can I do?", by="ann")
    sent = await handle.send("Thank you, the bot may go on.")
    await handle.release(by="ann")
    answer = await sent.answer()
    assert answer.final_output == "Back with the agent."

    async def is_over() -> bool:
        return await whose(team) == {}

    await true_in_the_end(is_over)
    await ended(team, desk)


async def test_teams_of_two_tenants_with_one_name_are_two(desk: Desk) -> None:
    await opened(desk)
    team = team_of(desk)
    of_acme = Team(desk.client, team.name, tenant="acme", task_queue=desk.queue)
    await team.on_duty("ann")
    await of_acme.on_duty("zoe")
    mine, theirs = await resting(desk), await resting(desk, tenant="acme")
    await mine.assign(team=team.name, by="lead")
    await theirs.assign(team=team.name, by="lead")
    assert await is_with(desk, mine, "ann", "zoe") == "ann"
    assert await is_with(desk, theirs, "ann", "zoe") == "zoe"
    assert list(await whose(of_acme)) == [theirs.id]
    await ended(team, desk)
    await ended(of_acme, desk)


async def test_the_id_of_a_run_that_was_terminated_and_used_again_is_the_new_runs(
    desk: Desk,
) -> None:
    await opened(desk)
    team = team_of(desk)
    await team.on_duty("ann", capacity=1)
    first = await resting(desk)
    await first.assign(team=team.name, by="lead")
    await is_with(desk, first, "ann")
    await desk.workflow(first).terminate()
    again = await resting(desk, id=first.id)
    await again.assign(team=team.name, by="lead")
    assert await is_with(desk, again, "ann") == "ann"
    assert await whose(team) == {again.id: "ann"}
    await ended(team, desk)


async def test_a_team_goes_on_from_the_state_that_its_history_before_has_carried(
    desk: Desk,
) -> None:
    await opened(desk)
    team, conversation = team_of(desk), await resting(desk)
    state = TeamState()
    for event in (
        DutyChanged(subject="ann", at_ms=1),
        DutyChanged(subject="bob", capacity=0, at_ms=2),
    ):
        state, _ = advance(state, event)
    carried = records.write_state(state)
    await desk.client.start_workflow(
        names.WORKFLOW_TEAM,
        records.write(TeamInput(team=team.name, carried=carried)),
        id=team._id,
        task_queue=desk.queue,
    )
    await conversation.assign(team=team.name, by="lead")
    assert await is_with(desk, conversation, "ann", "bob") == "ann"
    assert [one.capacity for one in (await team.view()).members] == [5, 0]
    await ended(team, desk)


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (["x"], "DutyRecord"),
        ({"subject": " "}, "must be a name"),
        ({"subject": "ann", "capacity": -1}, "capacity must be 0 or more"),
        ({"on_duty": True}, "subject"),
    ],
)
async def test_nonsense_from_the_temporal_ui_is_refused_and_the_team_goes_on(
    desk: Desk, payload: Any, why: str
) -> None:
    await opened(desk)
    team = team_of(desk)
    await team.on_duty("ann")
    handle = desk.client.get_workflow_handle(team._id)
    for name in ("report", "duty", "nothing like it"):
        await handle.signal(name, payload)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update("duty", payload)  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
    assert why in str(refused.value.cause)
    assert [one.subject for one in (await team.view()).members] == ["ann"]
    await ended(team, desk)


async def test_an_unreadable_start_ends_at_once_and_the_name_is_free(desk: Desk) -> None:
    await opened(desk)
    team = team_of(desk)
    started = await desk.client.start_workflow(
        names.WORKFLOW_TEAM,
        {"team": 7},
        id=team._id,
        task_queue=desk.queue,
        id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
    )
    with pytest.raises(Exception, match="Workflow execution failed"):
        await started.result()
    assert [one.subject for one in (await team.on_duty("ann")).members] == ["ann"]
    await ended(team, desk)


async def test_what_does_not_fit_is_refused_before_anything_is_sent(desk: Desk) -> None:
    team = team_of(desk)
    with pytest.raises(UserError, match=r"on_duty\(until\) must be a time with a zone"):
        await team.on_duty("ann", until=datetime(2027, 1, 1))  # noqa: DTZ001  that is the mistake
    with pytest.raises(UserError, match="capacity must be 0 or more, not -1"):
        await team.on_duty("ann", capacity=-1)
    with pytest.raises(UserError, match="capacity must be 1 or more, not 0"):
        await team.assign_by(by="lead", capacity=0)
    with pytest.raises(UserError, match="rule= must be round_robin or least_busy"):
        await team.assign_by(by="lead", rule="nobody")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="must be the name of a team"):
        Team(desk.client, " ")
    assert await team.view() == TeamView(
        name=team.name, rule="round_robin", capacity=5, return_after=None
    )
