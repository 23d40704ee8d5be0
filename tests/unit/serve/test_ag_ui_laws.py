"""Whatever happens in a run, an AG-UI client has each text once, and no event breaks the protocol."""

import random
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from hypothesis import given
from hypothesis import strategies as st

from outlast.loop.machine import advance
from outlast.loop.state import LoopState
from outlast.serve.wires.ag_ui_events import EventWriter, Facts, Pause
from outlast.serve.wires.ag_ui_input import known_parts
from outlast.serve.wires.ag_ui_view import (
    Live,
    View,
    as_messages,
    message_id,
    view_of_customer,
    view_of_team,
)
from outlast.views.run import snapshot_of, turn_in_progress
from tests.laws.strategies import Script, examples, play_script, scripts
from tests.unit.serve.ag_ui_client import Client

CUTS = 0.15
"""How often a stream is cut, and its client comes back."""

VIEWS = {"customer": view_of_customer, "team": view_of_team}


def states(script: Script) -> list[LoopState]:
    state, found = LoopState(), list[LoopState]()
    for event in play_script(script).events:
        state, _ = advance(state, event)
        found.append(state)
    return found


def comparable(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages without the order of calls and their outputs, which a client sets itself."""
    found = [
        {name: value for name, value in one.items() if value and name != "name"}
        for one in messages
        if one["role"] != "activity"
    ]
    outputs = sorted((one for one in found if one["role"] == "tool"), key=lambda one: one["id"])
    return [one for one in found if one["role"] != "tool"] + outputs


def returning(client: Client) -> list[Any]:
    """Return the messages that a client sends back."""
    messages = [one for one in client.messages if one["role"] != "activity"]
    fields = {"threadId": "run", "runId": "again", "messages": messages}
    return RunAgentInput.model_validate(fields).messages


class Front:
    """A front end that reads a run along, and is cut off now and then."""

    def __init__(self, chance: random.Random) -> None:
        self.client = Client()
        self._chance = chance
        self._writer = self._connect()

    def show(self, view: View, live: Live | None) -> None:
        if self._chance.random() < CUTS:
            self.client.connect()
            self._writer = self._connect()
        parts = view.with_live(live)
        own = None if live is None else message_id(live.turn)
        self.client.take_all(self._writer.show(parts, own, Facts({"working": True})))
        wanted = [one.model_dump(by_alias=True) for one in as_messages(parts)]
        assert comparable(self.client.messages) == comparable(wanted)

    def finish(self) -> None:
        self.client.take_all(self._writer.finish(Pause("done")))

    def _connect(self) -> EventWriter:
        if self._chance.random() < 0.5:
            self.client = Client()  # the page was loaded again
        writer = EventWriter("run", "1", list(known_parts(returning(self.client))))
        self.client.take_all(writer.start())
        return writer


@pytest.mark.parametrize("who", ["customer", "team"])
@examples(60)
@given(script=scripts(), seed=st.integers(0, 2**32))
def test_a_client_has_what_its_reader_may_see_after_every_event(
    who: str, script: Script, seed: int
) -> None:
    chance = random.Random(seed)
    front = Front(chance)
    live: Live | None = None
    for state in states(script):
        view = VIEWS[who](snapshot_of(state))
        if turn := turn_in_progress(state):
            for _ in range(chance.randint(0, 3)):
                text = live.text if live is not None and live.turn == turn else ""
                is_void = chance.random() < 0.2
                live = Live(turn, "" if is_void else text + chance.choice(["a", "b ", "\n"]))
                front.show(view, live)
        front.show(view, live)
        # The reader of a text may be behind the state.
        live = live if chance.random() < 0.3 else None
    front.finish()
