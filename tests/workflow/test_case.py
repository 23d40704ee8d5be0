"""The case of a conversation on a real server: who has it, what time does, and who hears of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig
from outlast.agents.errors import RunClosed, UserError
from outlast.client.audit import audit_run
from outlast.client.people.cases import CaseReceipt
from outlast.client.read.read_range import is_settled
from outlast.client.runs import RunFilter, list_runs
from outlast.edges.clock import now_ms
from outlast.testing import ScriptedModel, say
from tests.workflow.desk import Desk
from tests.workflow.test_desk_api import app_of, opened
from tests.workflow.test_long_runs import true_in_the_end

CLERK = Agent[Any](name="Clerk")


async def rests(desk: Desk, **options: Any) -> Any:
    """Start a conversation whose question is answered."""
    await desk.open(CLERK, model=ScriptedModel(always=lambda _: say("Hello.")))
    handle = await desk.start(CLERK, "Where is my order?", keep_open=True, **options)
    await desk.until_status(handle, "idle")
    return handle


async def test_colleagues_share_a_conversation_and_a_word_of_the_customer_reopens_it(
    desk: Desk,
) -> None:
    handle = await rests(desk)
    assert await handle.assign("bob", by="ann", team="billing") == CaseReceipt(
        run_id=handle.id, status="idle", team="billing", to="bob"
    )
    for _ in range(2):
        await handle.comment("A known case, @cid.", by="bob", comment_id="c1")
    await handle.tag("vip", "refund", by="bob")
    await handle.tag(by="bob", remove=("refund",))
    receipt = await handle.resolve(by="bob", why="paid")
    assert (receipt.status, receipt.tags) == ("resolved", ("vip",))

    async def is_listed() -> bool:
        listed = await list_runs(desk.client, RunFilter(status="resolved"))
        return handle.id in {one.run_id for one in listed}

    await true_in_the_end(is_listed)
    answer = await (await handle.send("One more thing.")).answer()
    assert answer.final_output == "Hello."
    state = await desk.until_status(handle, "idle")
    assert (state.case.resolved_ms, state.case.to) == (None, "bob")
    assert not any("known case" in str(item.raw) for item in state.items)
    rows = [one for one in (await audit_run(desk.client, handle.id)).records if one.event == "case"]
    assert [(one.by, one.note, one.text) for one in rows] == [
        ("ann", "assigned to bob of billing", ""),
        ("bob", "comment c1", "A known case, @cid."),
        ("bob", "tag vip, refund", ""),
        ("bob", "tag not refund", ""),
        ("bob", "resolved", "paid"),
    ]


async def test_colleagues_find_a_shared_conversation_by_its_search_attributes(desk: Desk) -> None:
    handle = await rests(desk)
    await handle.assign("bob", by="ann", team="billing")
    await handle.tag("parcel", "vip", by="ann")

    query = (
        f"WorkflowId = '{handle.id}' AND OutlastTeam = 'billing' AND OutlastAssignee = 'bob' "
        "AND OutlastTags = 'vip' AND OutlastTags = 'parcel'"
    )
    await counted(desk, query, 1)

    await handle.assign(by="ann")
    await handle.tag(by="ann", remove=("parcel",))
    query = (
        f"WorkflowId = '{handle.id}' AND OutlastTeam IS NULL AND OutlastAssignee IS NULL "
        "AND OutlastTags = 'vip' AND OutlastTags != 'parcel'"
    )
    await counted(desk, query, 1)


async def counted(desk: Desk, query: str, number: int) -> None:
    async def is_true() -> bool:
        return (await desk.client.count_workflows(query)).count == number

    await true_in_the_end(is_true)


async def test_a_customer_rates_a_conversation_and_it_is_found_by_that(desk: Desk) -> None:
    handle = await rests(desk)
    with pytest.raises(UserError, match="score must be 1 to 5, not 7"):
        await handle.rate(7)
    await handle.rate(2, "It took long.")
    await counted(desk, f"WorkflowId = '{handle.id}' AND OutlastRating <= 2", 1)
    await handle.resolve(by="ann")
    await handle.rate(5)
    await counted(desk, f"WorkflowId = '{handle.id}' AND OutlastRating = 5", 1)
    assert (await handle.state()).status == "resolved"
    await handle.cancel(mode="after_turn")
    await desk.result(handle)
    with pytest.raises(RunClosed):
        await handle.rate(1)


async def test_a_snoozed_conversation_comes_back_while_nobody_looks(desk: Desk) -> None:
    handle = await rests(desk)
    with pytest.raises(UserError, match="has passed"):
        await handle.snooze(timedelta(seconds=-1), by="ann")
    with pytest.raises(UserError, match="a time with a zone"):
        await handle.snooze(datetime(2030, 1, 1), by="ann")  # noqa: DTZ001  what is refused
    receipt = await handle.snooze(datetime.fromtimestamp(now_ms() / 1000 + 2, UTC), by="ann")
    assert receipt.status == "snoozed"
    await desk.until_status(handle, "idle")


async def test_a_resolved_conversation_ends_after_its_time(desk: Desk) -> None:
    config = RunConfig(resolved_stays_open=timedelta(minutes=1))
    with pytest.raises(UserError, match="from a minute to a year"):
        RunConfig(resolved_stays_open=timedelta(seconds=1))
    handle = await rests(desk, run_config=config)
    await handle.hold(by="ann")
    with pytest.raises(UserError, match="ann has the conversation"):
        await handle.resolve(by="bob")
    assert (await handle.resolve(by="ann")).status == "resolved"
    state = await desk.until_status(handle, "resolved")
    assert (state.hold, state.start.resolved_stays_ms) == (None, 60_000)


async def test_the_desk_shows_what_colleagues_did_and_readers_take_it_as_at_rest(
    desk: Desk,
) -> None:
    handle = await rests(desk)
    await handle.comment("<b>Look</b>, @cid.", by="bob")
    await handle.resolve(by="bob")
    state = await handle.state()
    assert is_settled(state)
    async with opened(app_of(desk, CLERK)) as web:
        page = await web.get(f"/conversations/{handle.id}")
        listed = await web.get("/conversations")
    assert "bob: comment: &lt;b&gt;Look&lt;/b&gt;, @cid." in page.text
    assert "bob: resolved" in page.text
    assert "resolved" in listed.text


async def test_what_nobody_reopens_ends_as_completed(desk: Desk) -> None:
    await desk.open(CLERK, model=ScriptedModel(always=lambda _: say("Hello.")))
    handle = await desk.start_record(
        agent="Clerk", input="Hello", keep_open=True, settings={"resolved_stays_ms": 2_000}
    )
    await desk.until_status(handle, "idle")
    await handle.resolve(by="ann")
    assert (await desk.result(handle)).final_output == "Hello."
    assert (await handle.state()).status == "completed"
