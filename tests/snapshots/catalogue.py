"""States of runs in which the surfaces are compared: those of every recorded history, by status."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory

from outlast.loop.state import LoopState
from tests.replay import releases
from tests.replay.test_recorded_histories import Step, folded

HISTORIES = sorted(
    {
        path.name: path
        for folder in releases.releases()
        for path in (folder / "histories").glob("*.json.gz")
    }.values()
)
"""The newest recording of each run."""


@dataclass(frozen=True)
class RecordedRun:
    """A run of a recording.

    Attributes:
        name: that of the recording, and behind a dash the place of a run nested in it.
        steps: its events with the states after them.
    """

    name: str
    steps: Sequence[Step]

    def states(self) -> dict[str, int]:
        """Return the index of the last step with each status, and of the last of all."""
        found: dict[str, int] = {
            state.status: at for at, (_, state) in enumerate(self.steps) if state != LoopState()
        }
        return {**found, "end": len(self.steps) - 1}


async def runs_of(path: Path) -> list[RecordedRun]:
    """Return the run of a recording, and those nested in it."""
    name = path.name.removesuffix(".json.gz")
    return await _runs(name, releases.read(path))


async def _runs(name: str, recording: dict[str, Any]) -> list[RecordedRun]:
    recorded = WorkflowHistory.from_json(recording["run_id"], recording["history"])
    found = [RecordedRun(name, await folded(recorded.events, recording["run_id"]))]
    for number, nested in enumerate(recording.get("nested", []), 1):
        found += await _runs(f"{name}-{number}", nested)
    return found
