"""The team sees what runs cost; customers, front ends and programs of others never do."""

import json
import random
from typing import Any

import pytest

from outlast.loop.values import ModelUse, Usage
from outlast.serve.access import Caller, Customer, Program
from outlast.serve.records import run_view
from outlast.serve.wires.ag_ui_view import as_messages, view_of_customer
from outlast.views.customer import customer_view
from outlast.views.run import snapshot_of
from tests.laws.driver import Play, nested, said, tool
from tests.unit.serve.random_streams import RandomStreams
from tests.unit.serve.test_redacted_wires import OTTO, wire

MICROS = 7_654_321
TOLD = ("7654321", "7.654321", "cost", "priced")
CUSTOMER = Customer(Play.run_id, 10**15)
PAID = Usage(
    requests=1, input_tokens=9, output_tokens=1, total_tokens=10, cost_micros=MICROS, priced=1
)


def played() -> Play:
    play = Play.ready(keep_open=True)
    play.replies(tool("look", "c1"), nested("Lawyer", "c2"), usage=PAID, model="gpt-5")
    play.returns("c1")
    uses = (ModelUse(agent="Lawyer", model="gpt-5", usage=PAID),)
    play.worked(final_output="Legal.", usage=PAID, uses=uses)
    play.replies(said("It is legal."), usage=PAID, model="gpt-5")
    return play


@pytest.mark.parametrize("name", ["vercel", "responses"])
@pytest.mark.parametrize("caller", [CUSTOMER, Program("shop")], ids=["customer", "program"])
@pytest.mark.parametrize("is_live", [False, True])
def test_no_wire_sends_a_cost(name: str, caller: Caller, *, is_live: bool) -> None:
    streams = RandomStreams.of(played(), random.Random(1))
    shown = streams.live if is_live else streams.late
    sent = json.dumps(wire(name, shown, caller, is_live=is_live))
    assert "It is legal." in sent
    assert not [one for one in TOLD if one in sent]


def test_the_view_of_a_customer_has_no_cost() -> None:
    state = played().state
    views: list[Any] = [
        customer_view(state),
        as_messages(view_of_customer(snapshot_of(state)).parts),
    ]
    for view in views:
        assert "It is legal." in repr(view)
        assert not [one for one in TOLD if one in repr(view)]


def test_the_team_sees_it() -> None:
    assert run_view(snapshot_of(played().state), OTTO).cost.usd == "22.962963"
