"""What the API, the command line and customers say of each recorded run does not move unseen."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from outlast.cli.report import Report
from outlast.client.identity import person
from outlast.client.people.nested_requests import FoundRequest
from outlast.client.read.events import changes
from outlast.client.timeline import Timeline
from outlast.loop.state import LoopState
from outlast.serve.access import Caller, Program, Staff
from outlast.serve.records import customer_conversation, run_view
from outlast.views.run import snapshot_of
from tests.snapshots.catalogue import HISTORIES, RecordedRun, runs_of
from tests.snapshots.kept import FOLDER, compare
from tests.unit.serve.played import SIGNING

OPERATOR = Staff(person("olga", groups=["team"]), frozenset({"viewer", "decider", "operator"}))
VIEWERS: dict[str, Caller] = {
    "decider of another group": Staff(
        person("dan", groups=["x"]), frozenset({"viewer", "decider"})
    ),
    "viewer": Staff(person("vera"), frozenset({"viewer"})),
    "program": Program("shop"),
}


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.name.partition(".")[0])
async def test_what_is_said_of_a_recorded_run(path: Path) -> None:
    found = {run.name: said_of(run) for run in await runs_of(path)}
    compare(f"runs/{path.name.partition('.')[0]}.json", found)


def test_every_file_is_that_of_a_recording() -> None:
    kept = {path.stem for path in (FOLDER / "runs").iterdir()}
    assert kept == {path.name.partition(".")[0] for path in HISTORIES}


def said_of(run: RecordedRun) -> dict[str, Any]:
    """Return what the surfaces say of a run: its numbered events, and each kept state of it."""
    places = {at: name for name, at in run.states().items()}
    timeline, before, events, states = Timeline(), LoopState(), list[str](), dict[str, Any]()
    for at, (event, state) in enumerate(run.steps):
        events += (f"{one.id} {_told(one)}" for one in changes(before, state, len(events)))
        before = state
        if event is not None:
            timeline.take(event, state)
        if at in places:
            states[places[at]] = state_said(state, timeline, whole=places[at] == "end")
    return {"events": events, "states": states}


def state_said(state: LoopState, timeline: Timeline, *, whole: bool) -> dict[str, Any]:
    """Return what the surfaces say of a state; of other viewers, what differs for them.

    Not `whole` is a state on the way: what was said and done by then is left out.
    """
    full = _api(state, OPERATOR, timeline, whole=whole)
    others = {
        name: dict(_differences(full, _api(state, viewer, timeline, whole=whole)))
        for name, viewer in VIEWERS.items()
    }
    report = Report(
        run_id=state.run_id,
        state=snapshot_of(state),
        status=state.status,
        task_queue="desk",
        events=0,
        ui=None,
        requests=state.own_requests,
    )
    return {
        "api": full,
        "others": others,
        **(
            {"customer": customer_conversation(snapshot_of(state)).model_dump(mode="json")}
            if whole
            else {}
        ),
        "outlast show": report.record(10 if whole else 0),
    }


def _api(state: LoopState, viewer: Caller, timeline: Timeline, *, whole: bool) -> dict[str, Any]:
    requests = [FoundRequest(one, snapshot_of(state)) for one in state.own_requests]
    seen = run_view(
        snapshot_of(state),
        viewer,
        requests=requests,
        steps=timeline.steps if whole else None,
        proofs=SIGNING,
        at_ms=state.at_ms,
    )
    return seen.model_dump(mode="json", exclude=set() if whole else {"items", "steps"})


def _told(event: Any) -> str:
    name = getattr(event, "name", "") or getattr(event, "status", "")
    return f"{event.type} {name}".strip()


def _differences(full: object, seen: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield the parts of a JSON value that differ from another one, each with its path."""
    if full == seen:
        return
    one, other = _named(full), _named(seen)
    if one.keys() != other.keys() or not one:
        yield path, seen
        return
    for name, value in one.items():
        yield from _differences(value, other[name], f"{path}.{name}".lstrip("."))


def _named(value: object) -> dict[object, object]:
    """Return the members of an object or a list by what names them."""
    if isinstance(value, list):
        return dict(enumerate(cast("list[object]", value)))
    return cast("dict[object, object]", value) if isinstance(value, dict) else {}
