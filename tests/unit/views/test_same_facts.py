"""Every state of the recorded histories has the same facts on every surface, for every viewer.

The facts are read from the state itself, and again from what each surface shows of it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from outlast.cli.report import Report
from outlast.client.identity import person
from outlast.client.people.nested_requests import FoundRequest
from outlast.client.timeline import Timeline
from outlast.loop.state import LoopState
from outlast.serve.access import Caller, Program, Role, Staff
from outlast.serve.pages.conversation_view import BADGES, conversation
from outlast.serve.records import customer_conversation, run_view
from outlast.serve.wires.ag_ui_view import Said, view_of_customer, view_of_team
from outlast.views.customer import customer_view
from outlast.views.proofs import NO_PROOFS
from outlast.views.run import snapshot_of
from outlast.workflows import presentation
from tests.snapshots.catalogue import HISTORIES, runs_of

ALL_ROLES: Final[frozenset[Role]] = frozenset({"viewer", "decider", "operator"})
VIEWERS: Final[dict[str, Caller]] = {
    "an operator": Staff(person("olga", groups=["team"]), ALL_ROLES),
    "a decider of the group": Staff(person("ann", groups=["billing"]), ALL_ROLES - {"operator"}),
    "a decider of another": Staff(person("dan", groups=["x"]), ALL_ROLES - {"operator"}),
    "a viewer": Staff(person("vera"), frozenset({"viewer"})),
    "a program": Program("shop"),
}
STATES: Final = 40
"""The least number of states that are compared."""


@dataclass(frozen=True)
class At:
    """A state of a run, with its timeline."""

    state: LoopState
    timeline: Timeline


Facts = dict[str, Any]


def facts_of(state: LoopState) -> Facts:
    """Return what everybody has to be told, from the state itself."""
    votes = {one.id: [len(one.standing_votes), one.terms.quorum] for one in state.own_requests}
    is_held = state.hold is not None and state.outcome is None
    return {
        "status": state.status,
        "agent": state.agent,
        "requests": sorted(votes),
        "votes": votes,
        "holder": state.hold.by if is_held and state.hold is not None else None,
        "tokens": state.usage.total_tokens,
        "failure": None if state.failure is None else state.failure.code,
        "customer": state.start.customer.id or None,
        "set aside": len(state.aside),
        "unread": [one.id for one in state.inbox],
    }


# --- The team ----------------------------------------------------------------------------------------


def of_api(at: At, viewer: Caller) -> Facts:
    found = [FoundRequest(one, snapshot_of(at.state)) for one in at.state.own_requests]
    view = run_view(snapshot_of(at.state), viewer, requests=found, at_ms=at.state.at_ms)
    said = json.loads(view.model_dump_json())
    return {
        "status": said["status"],
        "agent": said["agent"],
        "requests": sorted(one["id"] for one in said["requests"]),
        "votes": {
            one["id"]: [one["votes_counted"], one["votes_needed"]] for one in said["requests"]
        },
        "holder": said["hold"] and said["hold"]["by"],
        "tokens": said["usage"]["total_tokens"],
        "failure": said["failure"] and said["failure"]["code"],
        "customer": said["customer"] and said["customer"]["id"],
        "set aside": len(said["set_aside"]),
        "unread": [one["id"] for one in said["unread"]],
    }


def of_page(at: At, viewer: Caller) -> Facts:
    state = at.state
    view = conversation(
        snapshot_of(state), at.timeline.steps, viewer, proofs=NO_PROOFS, at_ms=state.at_ms
    )
    words = {badge.word: status for status, badge in BADGES.items()}
    own = [one for one, _ in view.waiting if one.run_id == state.run_id]
    return {
        "status": words.get(view.badge.word, view.badge.word),
        "requests": sorted(one.id for one in own),
        "holder": view.holder or None,
    }


def of_command_line(at: At, _viewer: Caller) -> Facts:
    state = at.state
    report = Report(
        run_id=state.run_id,
        state=snapshot_of(state),
        status=state.status,
        task_queue="desk",
        events=0,
        ui=None,
        requests=state.own_requests,
    )
    said = json.loads(json.dumps(report.record(10)))
    requests = said["approvals"]
    return {
        "status": said["status"],
        "agent": said["agent"],
        "requests": sorted(one["id"] for one in requests),
        "votes": {one["id"]: [_counted(one), one["votes_needed"]] for one in requests},
        "holder": said["held_by"],
        "tokens": said["usage"]["total_tokens"],
        "failure": said["failure"] and said["failure"]["code"],
    }


def of_queries(at: At, _viewer: Caller) -> Facts:
    said = presentation.state_view(at.state)
    approvals = presentation.approvals_view(at.state)
    own = [one for one in approvals if one["run_id"] in {"", at.state.run_id}]
    failure = said["failure"]
    return {
        "status": said["status"],
        "agent": said["agent"],
        "requests": sorted(one["id"] for one in own),
        "holder": said["held_by"],
        "tokens": said["usage"]["total_tokens"],
        "failure": None if failure is None else failure["code"],
        "unread": said["waiting_messages"],
    }


def _counted(request: Facts) -> int:
    counted: dict[str, str] = {}
    for one in request["votes"]:
        counted[one["by"] or ""] = one["type"]
    return sum(kind != "withdraw" for kind in counted.values())


SURFACES: Final[dict[str, Callable[[At, Caller], Facts]]] = {
    "the API": of_api,
    "the page": of_page,
    "outlast show": of_command_line,
    "queries": of_queries,
}


# --- The customer ------------------------------------------------------------------------------------


def customers_texts(at: At) -> dict[str, list[str]]:
    """Return what each surface shows the customer, and the team of the customer's side."""
    state = at.state
    olga = VIEWERS["an operator"]
    page = conversation(
        snapshot_of(state), at.timeline.steps, olga, proofs=NO_PROOFS, at_ms=state.at_ms
    )
    parts = view_of_customer(snapshot_of(state)).parts
    return {
        "the chat page": [one.text for one in customer_view(state).messages],
        "the API": [one.text for one in customer_conversation(snapshot_of(state)).messages],
        "AG-UI": [one.text for one in parts if isinstance(one, Said)],
        "the team's page": [one.text for one in page.bubbles(0)],
    }


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.name.partition(".")[0])
async def test_a_state_has_the_same_facts_everywhere(path: Path) -> None:
    faults: list[str] = []
    for run in await runs_of(path):
        places, timeline = set(run.states().values()), Timeline()
        for number, (event, state) in enumerate(run.steps):
            if event is not None:
                timeline.take(event, state)
            if number in places and state.phase != "new":
                faults += _faults(f"{run.name}, {state.status}", At(state, timeline))
    assert faults == []


def _faults(name: str, at: At) -> list[str]:
    wanted, found = facts_of(at.state), list[str]()
    for surface, read in SURFACES.items():
        for viewer, caller in VIEWERS.items():
            for fact, value in read(at, caller).items():
                if value != wanted[fact]:
                    found.append(
                        f"{name}: {surface} tells {viewer} {fact} {value!r}, not {wanted[fact]!r}"
                    )
    texts = customers_texts(at)
    first, *others = texts
    found += [
        f"{name}: {one} shows the customer {texts[one]!r}, and {first} {texts[first]!r}"
        for one in others
        if texts[one] != texts[first]
    ]
    team = [
        one.text
        for one in view_of_team(snapshot_of(at.state), VIEWERS["an operator"]).parts
        if isinstance(one, Said)
    ]
    found += [
        f"{name}: AG-UI does not show the team {one!r}" for one in texts[first] if one not in team
    ]
    return list(dict.fromkeys(found))


async def test_there_are_as_many_states_as_the_law_needs() -> None:
    found = {
        (run.name, place)
        for path in HISTORIES
        for run in await runs_of(path)
        for place in run.states()
    }
    assert len(found) >= STATES
