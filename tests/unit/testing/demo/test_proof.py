import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from support_desk.shop import Shop
from temporalio.client import Client

from outlast.client.start.runner import Runner
from outlast.contract.names import run_key
from outlast.loop.effects import RunTool
from outlast.testing import ScriptedModel, call
from outlast.testing.demo.proof import Deed, Proof, effects_by_key, key_of, ledger, prove
from tests.unit.cli.conftest import Open

DEED = Deed(key="r:c1", what="change_address()", attempts=2, applied=1, wanted=1)
PROOF = Proof(
    deeds=(DEED,),
    strangers=(),
    message_ids=("start", "m-1"),
    answered=Counter({"start": 1, "m-1": 1}),
    calls=Counter({"c1": 1}),
    webhooks=2,
    counted=Counter({"w1": 1}),
    events=40,
    size_bytes=1_000,
    workers=("1@here",),
    status="completed",
)


def test_when_everything_happened_once_there_is_no_deviation() -> None:
    assert PROOF.deviations(interrupted="r:c1", webhook="w1") == []


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        (replace(PROOF, deeds=(replace(DEED, applied=2),)), "was applied 2 times instead of 1"),
        (replace(PROOF, deeds=(replace(DEED, applied=0),)), "was applied 0 times instead of 1"),
        (
            replace(PROOF, deeds=(replace(DEED, wanted=0),)),
            "was applied 1 times instead of 0",
        ),
        (
            replace(PROOF, deeds=(DEED, replace(DEED, key="r:c2", applied=2, wanted=None))),
            "was applied 2 times instead of at most 1",
        ),
        (replace(PROOF, strangers=("other",)), "the key other, which no call has"),
        (replace(PROOF, answered=Counter({"start": 1})), "the message m-1 has 0 answers"),
        (replace(PROOF, answered=Counter({"start": 2, "m-1": 1})), "message start has 2 answers"),
        (replace(PROOF, calls=Counter({"c1": 0})), "the call c1 has 0 outputs"),
        (replace(PROOF, deeds=(replace(DEED, attempts=1),)), "was not in progress"),
        (replace(PROOF, deeds=()), "was not in progress"),
        (replace(PROOF, webhooks=1), "w1 counted 1 times; the server kept 1 for the run"),
        (replace(PROOF, counted=Counter()), "w1 counted 0 times; the server kept 2 for the run"),
        (replace(PROOF, status="running"), "the run is running"),
    ],
)
def test_each_deviation_is_found_and_named(proof: Proof, said: str) -> None:
    (deviation,) = proof.deviations(interrupted="r:c1", webhook="w1")

    assert said in deviation


def test_what_failed_may_have_happened_once_or_not_at_all() -> None:
    unknown = replace(DEED, key="r:c2", wanted=None)

    for applied in (0, 1):
        proof = replace(PROOF, deeds=(DEED, replace(unknown, applied=applied)))
        assert proof.deviations(interrupted="r:c1", webhook="w1") == []


def test_the_ledger_is_read_as_the_shop_writes_it(tmp_path: Path) -> None:
    database = tmp_path / "shop.db"
    assert ledger(database) == []

    Shop.open(database).change_address("A-18", "Neue Gasse 5, 01067 Dresden", key="r:c1")

    (entry,) = ledger(database)
    assert (entry.key, entry.effect) == ("r:c1", "address_change")
    assert json.loads(entry.arguments)["order_id"] == "A-18"


@pytest.mark.smoke
async def test_the_records_of_a_run_are_brought_together(
    client: Client, open_desk: Open, run_id: str, tmp_path: Path
) -> None:
    database = tmp_path / "shop.db"
    shop = Shop.open(database)
    shop.open_ticket("Who?", key="nobody's")
    queue = await open_desk(
        ScriptedModel([call("look_up", "c1", order_id="A-17"), call("nonsense", "c2")], "Done.")
    )
    await Runner.run("Helper", "Hi", id=run_id, client=client, task_queue=queue)

    proof = await prove(client, run_id, database, ["start"])

    assert proof.deeds == ()
    assert proof.strangers == ("nobody's",)
    assert proof.calls == Counter({"c1": 1, "c2": 1})
    assert proof.answered == Counter({"start": 1})
    assert proof.workers == (client.identity,)
    assert proof.status == "completed"
    assert proof.events > 10
    assert proof.size_bytes > 1_000


async def test_attempts_and_effects_of_a_call_are_counted_apart(
    client: Client,
    open_desk: Open,
    run_id: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("outlast.testing.demo.proof.EFFECT_OF", {"look_up": "refund"})
    database = tmp_path / "shop.db"
    shop = Shop.open(database)
    queue = await open_desk(
        ScriptedModel([call("look_up", one, order_id="A-17") for one in ("c1", "c2")], "Done.")
    )
    handle = await Runner.start("Helper", "Hi", id=run_id, client=client, task_queue=queue)
    key = run_key(run_id, handle.first_execution_id or "")
    shop.refund("A-17", None, "broken", key=f"{key}:c1")
    await handle.result()

    one, two = (await prove(client, run_id, database, ["start"])).deeds

    assert (one.key, one.attempts, one.applied) == (f"{key}:c1", 1, 1)
    assert (two.key, two.attempts, two.applied) == (f"{key}:c2", 1, 0)
    assert one.what == 'look_up(order_id="A-17")'


def a_call(effect: int, call_id: str, name: str = "send_courier") -> RunTool:
    return RunTool(
        effect=effect, agent="A", name=name, call_id=call_id, arguments="{}", turn=1, run_id="r"
    )


def test_a_call_that_goes_on_after_a_wait_is_one_deed() -> None:
    calls = [a_call(1, "c0", "look_up_order"), a_call(2, "c1"), a_call(3, "c2"), a_call(5, "c1")]

    assert effects_by_key({one.effect: one for one in calls}, "") == {"r:c1": [2, 5], "r:c2": [3]}


def test_a_pickup_is_counted_where_it_is_booked(tmp_path: Path) -> None:
    database = tmp_path / "shop.db"
    for _ in range(2):
        Shop.open(database).book_pickup("A-42", "token", key="r:c1")

    with closing(sqlite3.connect(database)) as db:
        assert db.execute("SELECT ledger_key FROM pickups").fetchall() == [("r:c1",)]


def test_a_refund_is_counted_where_the_money_is(tmp_path: Path) -> None:
    database = tmp_path / "shop.db"
    Shop.open(database).refund("A-17", 100, "broken", key="r:c1")

    with closing(sqlite3.connect(database)) as db:
        assert db.execute("SELECT ledger_key FROM refunds").fetchall() == [("r:c1",)]


def test_the_key_of_a_call_is_the_one_that_its_tool_is_given() -> None:
    effect = RunTool(
        effect=1, agent="A", name="t", call_id="c1", arguments="{}", turn=1, run_id="support-42"
    )

    assert key_of(effect, "") == "support-42:c1"
    assert key_of(effect, "0199-1f2e-abcdefabcdef") == "support-42@abcdefabcdef:c1"
