"""Histories of every version since 0.1: they replay, and they fold to the state they had."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import Replayer

from outlast.client.read.history import HistoryReader
from outlast.contract import history, records
from outlast.loop.invariants import violations
from outlast.loop.items import Item
from outlast.loop.state import OUTPUT_KINDS, LoopState
from outlast.workflows.agent_run import AgentRun
from outlast.workflows.scheduled_message import ScheduledMessage
from tests.replay.scenarios import SCENARIOS

RECORDINGS = sorted((Path(__file__).parent / "histories").glob("*/*.json.gz"))


def read(path: Path) -> dict[str, Any]:
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.name}")
async def test_a_recorded_run_replays_and_folds_to_the_state_it_had(path: Path) -> None:
    await check(read(path))


SCHEDULED = sorted((Path(__file__).parent / "scheduled").glob("*.json.gz"))


@pytest.mark.parametrize("path", SCHEDULED, ids=lambda path: path.name)
async def test_a_recorded_scheduled_message_replays(path: Path) -> None:
    recorded = WorkflowHistory.from_json("scheduled-nudge", read(path))
    await Replayer(workflows=[ScheduledMessage], build_id="test").replay_workflow(recorded)


async def check(recording: dict[str, Any]) -> None:
    """Make sure that a run, and those nested in it, replay and fold."""
    recorded = WorkflowHistory.from_json(recording["run_id"], recording["history"])
    await Replayer(workflows=[AgentRun], build_id="test").replay_workflow(recorded)
    reader = HistoryReader(DataConverter.default)
    tasks = await reader.feed(recorded.events)
    state = history.opening(reader.start_payload)
    for event, after in history.fold(state, recording["run_id"], tasks):
        assert violations(after) == [], f"after {event}"
        state = after
    had = records.load(LoopState, [json.dumps(recording["state"])])
    assert told(state, recording["state"]) == told(had, recording["state"])
    for nested in recording.get("nested", []):
        await check(nested)


def told(state: LoopState, recorded: dict[str, Any]) -> dict[str, Any]:
    """Return what a version knew to tell of a state: later ones have further fields.

    In which order the outputs of one reply stand is up to the version that reads: they are told
    before people are waited for, since a run may have a session that is to have them.
    """
    fields = {name: getattr(state, name) for name in recorded}
    return {**fields, "items": sorted(state.items, key=_place)}


def _place(item: Item) -> tuple[int, bool, str]:
    is_output = item.kind in OUTPUT_KINDS
    return item.turn, is_output, str(item.raw["call_id"]) if is_output else ""


def test_every_scenario_of_this_version_is_recorded() -> None:
    recorded = {path.name.removesuffix(".json.gz") for path in RECORDINGS}
    assert set(SCENARIOS) <= recorded
