"""Histories of every release: they replay, and they fold to the state that they had."""

import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, cast, get_args

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.workflow import NondeterminismError

from outlast.client.read.history import HistoryReader
from outlast.contract import history, names, records
from outlast.contract.effects import KINDS
from outlast.loop import events, phrases
from outlast.loop.human_actions import HUMAN_ACTIONS
from outlast.loop.invariants import violations
from outlast.loop.items import Item
from outlast.loop.state import OUTPUT_KINDS, LoopState
from outlast.workflows.agent_run import AgentRun
from outlast.workflows.errand import Errand
from outlast.workflows.monitor import Monitor
from outlast.workflows.people_notices import PeopleNotices
from outlast.workflows.scheduled_message import QualityCheck, ScheduledMessage
from outlast.workflows.team import Team
from tests.replay import outside_scenarios, releases
from tests.replay.releases import read, replayer
from tests.replay.scenarios import SCENARIOS

RELEASES = releases.releases()
RECORDINGS = [path for one in RELEASES for path in sorted(one.glob("histories/*.json.gz"))]
OTHERS = [path for one in RELEASES for path in sorted(one.glob("workflows/*.json.gz"))]
WORKFLOWS = {
    names.WORKFLOW: AgentRun,
    names.WORKFLOW_NOTICES: PeopleNotices,
    names.WORKFLOW_SCHEDULED: ScheduledMessage,
    names.WORKFLOW_ERRAND: Errand,
    names.WORKFLOW_MONITOR: Monitor,
    names.WORKFLOW_QUALITY: QualityCheck,
    names.WORKFLOW_TEAM: Team,
}


Step: TypeAlias = tuple[events.Event | None, LoopState]
"""An event with the state after it; no event for the first state of a history."""


def name_of(path: Path) -> str:
    return f"{path.parents[1].name}-{path.name.removesuffix('.json.gz')}"


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
async def test_a_recorded_run_replays_and_folds_to_the_state_it_had(path: Path) -> None:
    await check(read(path))


@pytest.mark.parametrize("path", OTHERS, ids=name_of)
async def test_a_recorded_workflow_beside_runs_replays(path: Path) -> None:
    kind = path.name.removesuffix(".json.gz")
    recorded = WorkflowHistory.from_json(kind, read(path))
    await replayer(WORKFLOWS[kind]).replay_workflow(recorded)


async def check(recording: dict[str, Any]) -> None:
    """Make sure that a run, and those nested in it, replay and fold."""
    recorded = WorkflowHistory.from_json(recording["run_id"], recording["history"])
    await replayer(AgentRun).replay_workflow(recorded)
    *_, (_, state) = await folded(recorded.events, recording["run_id"])
    assert_same(state, recording["state"])
    for nested in recording.get("nested", []):
        await check(nested)


async def folded(events: Sequence[HistoryEvent], run_id: str) -> list[Step]:
    """Return the events of a history, each with the state after it; the first one has no event."""
    reader = HistoryReader(DataConverter.default)
    tasks = await reader.feed(events)
    opening = history.opening(reader.start_payload)
    steps: list[Step] = [(None, opening), *history.fold(opening, run_id, tasks)]
    for event, after in steps[1:]:
        assert violations(after) == [], f"after {event}"
    return steps


def assert_same(state: LoopState, recorded: dict[str, Any]) -> None:
    """Make sure that a state is what a release has recorded."""
    had = records.load(LoopState, [json.dumps(recorded)])
    assert told(state, recorded) == told(had, recorded)


def told(state: LoopState, recorded: dict[str, Any]) -> dict[str, Any]:
    """Return what a version knew to tell of a state: later ones have further fields.

    In which order the outputs of one reply stand is up to the version that reads: they are told
    before people are waited for, since a run may have a session that is to have them.
    """
    if "authors" not in recorded["question"]:  # who wrote a question was not known
        unknown = [replace(one, authors=()) for one in state.answers]
        question = replace(state.question, authors=())
        state = replace(state, question=question, answers=tuple(unknown))
    fields = {name: getattr(state, name) for name in recorded}
    return {**fields, "items": sorted(state.items, key=_place)}


def _place(item: Item) -> tuple[int, bool, str]:
    is_output = item.kind in OUTPUT_KINDS
    return item.turn, is_output, str(item.raw["call_id"]) if is_output else ""


# --- Everything that a history may hold is recorded -------------------------------------------------

ENDED_BY_THE_ENGINE = {events.RunEnded}
"""No entry of a history is decoded to it: readers see that a history ends without an event."""

EVENTS = {getattr(one, "__origin__", one) for one in get_args(events.Event)} - ENDED_BY_THE_ENGINE
EFFECTS = set(KINDS)
ACTIONS = {one.record for one in HUMAN_ACTIONS}


async def kinds_in(recording: dict[str, Any]) -> set[type]:
    """Return the kinds of effects, human actions and events in a recording."""
    recorded = WorkflowHistory.from_json(recording["run_id"], recording["history"])
    found: set[type] = set()
    for event, state in await folded(recorded.events, recording["run_id"]):
        found |= {type(one) for one in state.pending} | ({type(event)} if event else set())
        if isinstance(event, events.PersonActed):
            found.add(type(event.action))
    for nested in recording.get("nested", []):
        found |= await kinds_in(nested)
    return found


def lacking(found: set[type]) -> list[str]:
    """Return the kinds without a recorded history."""
    return sorted(one.__name__ for one in (EVENTS | EFFECTS | ACTIONS) - found)


async def test_every_effect_human_action_and_event_is_in_a_recorded_history() -> None:
    found = set[type]().union(*[await kinds_in(read(path)) for path in RECORDINGS])
    assert lacking(found) == [], "make record-release VERSION=unreleased, with a scenario for each"
    assert "CleanUp" in lacking(found - {one for one in found if one.__name__ == "CleanUp"})


def test_every_workflow_is_recorded() -> None:
    assert set(WORKFLOWS) == names.WORKFLOWS
    recorded = {path.name.removesuffix(".json.gz") for path in OTHERS}
    assert recorded | {names.WORKFLOW} == names.WORKFLOWS


def test_every_scenario_of_this_version_is_recorded() -> None:
    recorded = {path.name.removesuffix(".json.gz") for path in RECORDINGS}
    assert SCENARIOS.keys() | outside_scenarios.SCENARIOS.keys() <= recorded


# --- The checks can fail ----------------------------------------------------------------------------


def recorded_run(name: str) -> dict[str, Any]:
    newest = next(path for path in reversed(RECORDINGS) if path.name == f"{name}.json.gz")
    return copy.deepcopy(read(newest))


def fields_named(value: Any, name: str) -> Iterator[dict[str, Any]]:
    """Yield every object in JSON that has a field."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if name in fields:
            yield fields
        value = list(fields.values())
    for one in cast("list[Any]", value) if isinstance(value, list) else []:
        yield from fields_named(one, name)


async def test_a_history_of_another_course_does_not_replay() -> None:
    recording = recorded_run("approved")
    types = [one["activityType"] for one in fields_named(recording["history"], "activityType")]
    tool = next(one for one in types if one["name"] == "tool:refund")
    tool["name"] = "tool:pay_back"
    with pytest.raises(NondeterminismError):
        await check(recording)


async def test_a_workflow_that_would_ask_for_something_else_does_not_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(names, "TOOL_PREFIX", "tools:")
    row = KINDS[next(one for one in KINDS if one.__name__ == "RunTool")]
    monkeypatch.setattr(type(row), "__setattr__", object.__setattr__)
    monkeypatch.setattr(row, "activity", "tools:")
    with pytest.raises(NondeterminismError):
        await check(recorded_run("approved"))


async def test_a_loop_that_would_tell_the_model_something_else_folds_to_another_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recording = recorded_run("handoffs_in_a_circle")
    await check(recording)
    monkeypatch.setattr(phrases, "handed_over", "You have it, {}.".format)
    with pytest.raises(AssertionError):
        await check(recording)
