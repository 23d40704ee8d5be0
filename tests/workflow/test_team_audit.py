"""What people do with teams is in the audit, read from the teams' own histories."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import workflow

from outlast.agents.agent import Agent
from outlast.client.audit import AuditRecord, audit_run, audit_since
from outlast.client.audit_chain import chained, check_lines, check_run, lines_of
from outlast.client.teams import Team
from outlast.contract import names
from outlast.edges.clock import now
from outlast.testing import ScriptedModel, say
from tests.workflow.desk import Desk
from tests.workflow.test_long_runs import true_in_the_end
from tests.workflow.test_team import is_with, resting, team_of

CLERK = Agent[object](name="Clerk")


async def opened(desk: Desk) -> Team:
    await desk.open(CLERK, model=ScriptedModel(always=lambda _: say("Hello.")))
    return team_of(desk)


async def audited(desk: Desk, team: Team) -> list[AuditRecord]:
    """The audit of a team, once the server lists it."""

    async def is_listed() -> bool:
        query = f"WorkflowId = '{team._id}'"
        return (await desk.client.count_workflows(query)).count > 0

    await true_in_the_end(is_listed)
    return list((await audit_run(desk.client, team._id)).records)


async def test_who_went_on_duty_who_left_and_who_changed_the_team_is_in_the_audit(
    desk: Desk,
) -> None:
    team = await opened(desk)
    begun = now()
    await team.on_duty("ann", capacity=2)
    await team.on_duty("bob", by="lead")
    await team.assign_by(by="lead", rule="least_busy", return_after=timedelta(minutes=15))
    handle = await resting(desk)
    await handle.assign(team=team.name, by="lead")  # the run's report is no act of a person
    await is_with(desk, handle, "ann", "bob")
    await team.off_duty("bob", by="cid")
    found = await audited(desk, team)
    assert [(one.event, one.by, one.note, one.verified) for one in found] == [
        ("duty", "ann", "ann on duty, at most 2", False),
        ("duty", "lead", "bob on duty", False),
        ("team", "lead", "least_busy, at most 5 for each, back after 900 s", False),
        ("duty", "cid", "bob off duty", False),
    ]
    assert {(one.run_id, one.root_run_id) for one in found} == {(team._id, team._id)}
    since = await audit_since(desk.client, begun - timedelta(seconds=1))
    assert [one for one in since.records if one.run_id == team._id] == found
    assert not since.unread
    await handle.cancel()
    await desk.client.get_workflow_handle(team._id).terminate()


async def test_its_file_is_verified_and_a_line_that_somebody_changed_is_found(
    desk: Desk, tmp_path: Path
) -> None:
    team = await opened(desk)
    await team.on_duty("ann")
    await team.off_duty("ann", by="lead")
    await audited(desk, team)
    entries = await chained(desk.client, await audit_run(desk.client, team._id))
    head = str(entries[-1]["hash"])
    assert not (await check_run(desk.client, team._id, heads=[head])).problems
    text = "\n".join(map(json.dumps, entries))
    assert not check_lines(list(lines_of(text)), heads=[head]).problems
    forged = text.replace('"lead"', '"ann"')
    assert check_lines(list(lines_of(forged)), heads=[head]).problems
    await desk.client.get_workflow_handle(team._id).terminate()


async def test_what_somebody_sends_from_the_temporal_ui_is_in_it_with_who_sent_it(
    desk: Desk,
) -> None:
    team = await opened(desk)
    await team.on_duty("ann")
    handle = desk.client.get_workflow_handle(team._id)
    await handle.signal(names.UPDATE_DUTY, {"subject": "eve", "by": "lead"})
    await handle.signal(names.UPDATE_DUTY, {"subject": " "})
    await handle.signal("nothing like it", "x" * 5_000)
    report = {"chain_id": "none", "run_id": "no-such-run", "report": 1}
    await handle.signal(names.SIGNAL_REPORT, report)
    _, eve, *others = await audited(desk, team)
    assert (eve.event, eve.by, eve.note, eve.channel) == ("duty", "lead", "eve on duty", "signal")
    assert [one.event for one in others] == ["ignored", "ignored", "team"]
    assert "subject must be a name" in others[0].note
    assert "There is no 'nothing like it' of a team" in others[1].note
    assert others[2].note == "a report about no-such-run that no run has sent"
    assert all(one.by == desk.client.identity for one in others)
    assert all(len(one.note) <= 1_000 and one.verified is False for one in (eve, *others))
    await handle.terminate()


async def test_a_team_whose_history_goes_on_in_another_one_keeps_its_audit(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = await opened(desk)
    await team.on_duty("ann")
    handle = desk.client.get_workflow_handle(team._id)

    def suggested(_: workflow.Info) -> bool:
        return True

    monkeypatch.setattr(workflow.Info, "is_continue_as_new_suggested", suggested)
    await team.on_duty("bob", by="lead")

    async def goes_on() -> bool:
        raw = (await handle.describe()).raw_info
        return raw.first_run_id != raw.execution.run_id

    await true_in_the_end(goes_on)
    monkeypatch.undo()
    await team.off_duty("ann")
    assert [one.note for one in await audited(desk, team)] == [
        "ann on duty",
        "bob on duty",
        "ann off duty",
    ]
    await desk.client.get_workflow_handle(team._id).terminate()


async def test_a_team_whose_input_cannot_be_read_breaks_no_audit(desk: Desk) -> None:
    team = await opened(desk)
    started = await desk.client.start_workflow(
        names.WORKFLOW_TEAM, {"team": 7}, id=team._id, task_queue=desk.queue
    )
    with pytest.raises(Exception, match="Workflow execution failed"):
        await started.result()
    assert await audited(desk, team) == []
