"""The inbox on a server: what waits, for whom, and what people do about it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy, Audience, Escalation
from outlast.agents.errors import DecisionRefused, UserError
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.inbox import Inbox, InboxEntry
from outlast.client.runs import RunFilter, list_runs
from outlast.loop.approvals import Person
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.people import ANN, BOB, EVE, clerk, refunds
from tests.workflow.replies import outputs

UPSERT = "EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES"


async def waiting(
    desk: Desk, policy: ApprovalPolicy | bool = True, ran: list[int] | None = None, **options: Any
) -> RunHandle:
    """Return a run that waits for people."""
    agent = clerk(policy, ran)
    model = options.pop("model", None) or ScriptedModel(refunds(50), "Done.")
    await desk.open(agent, model=model)
    handle = await desk.start(agent, **options)
    await desk.until_status(handle, "waiting")
    return handle


async def listed(
    desk: Desk, until: Callable[[dict[str, InboxEntry]], bool], **filters: Any
) -> dict[str, InboxEntry]:
    """Return this test's entries, once they are as expected: visibility is a moment behind."""
    inbox = Inbox(desk.client)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = {
                one.run_id: one async for one in inbox.all(**filters) if one.run_id in desk.ids
            }
            if until(found):
                return found
            await asyncio.sleep(0.1)


async def entry_of(desk: Desk, handle: RunHandle, **filters: Any) -> InboxEntry:
    return (await listed(desk, lambda found: handle.id in found, **filters))[handle.id]


# --- What is listed ------------------------------------------------------------------------------


async def test_a_held_conversation_is_listed_with_how_long_its_user_waits(desk: Desk):
    agent = clerk(True)
    await desk.open(agent, model=ScriptedModel("Hello."))
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "idle")
    await handle.hold(by=ANN)
    entry = await entry_of(desk, handle, held=True, mine=ANN)
    assert (entry.status, entry.held_by, entry.pending) == ("held", "ann", 0)
    hold = await entry.hold()
    assert hold is not None
    assert (hold.by, hold.messages, hold.waiting_since) == ("ann", 0, None)
    assert handle.id not in await listed(desk, lambda _: True, held=True, mine=BOB)
    assert handle.id not in await listed(desk, lambda _: True)
    await handle.send("Are you there?")
    hold = await entry.hold()
    assert hold is not None
    assert hold.messages == 1
    assert hold.waiting_since is not None
    assert hold.waiting_since >= hold.since
    await handle.say("Yes.", by=ANN)
    hold = await entry.hold()
    assert hold is not None
    assert hold.messages == 0
    urgent = await Inbox(desk.client).urgent(held=True, mine=ANN, limit=1_000)
    assert handle.id in [one.run_id for one in urgent]


async def test_an_urgent_request_is_found_behind_newer_ones(desk: Desk):
    group = f"group-{desk.queue}"
    audience = Audience(groups=[group])
    soon = clerk(ApprovalPolicy(audience=audience, expires_in=timedelta(hours=1)))
    later = replace(clerk(ApprovalPolicy(audience=audience)), name="Later")
    await desk.open(soon, later, model=ScriptedModel(always=lambda _: refunds(50)))
    urgent = await desk.start(soon)
    await desk.until_status(urgent, "waiting")
    oldest, *_ = [await desk.start(later) for _ in range(5)]
    await listed(desk, lambda found: len(found) == 6, group=group)
    box = Inbox(desk.client)
    found = await box.urgent(group=group, limit=2)
    assert [one.run_id for one in found] == [urgent.id, oldest.id]
    assert (await box.list(group=group, limit=1)).entries[0].run_id != urgent.id


@pytest.mark.smoke
async def test_a_run_is_listed_for_the_people_who_may_decide_until_when_and_at_which_risk(
    desk: Desk,
):
    policy = ApprovalPolicy(
        audience=Audience(groups=["billing"], subjects=["carl"]),
        risk="high",
        expires_in=timedelta(hours=8),
        escalate=[Escalation(after=timedelta(hours=4), to="leads")],
    )
    handle = await waiting(desk, policy)
    entry = await entry_of(desk, handle, mine=ANN)
    assert (entry.agent, entry.status, entry.tools) == ("Clerk", "waiting", ("refund",))
    assert (entry.pending, entry.people, entry.for_anybody) == (1, ("billing", "carl"), False)
    assert entry.risk == "high"
    [request] = await entry.requests()
    assert request == (await handle.approvals())[0]
    due_ms = request.requested_at_ms + 4 * 3_600_000
    due = datetime.fromtimestamp(due_ms / 1000, UTC)
    assert entry.due == due
    soon, late = due + timedelta(milliseconds=1), due - timedelta(milliseconds=1)
    fitting: list[dict[str, Any]] = [
        {"group": "billing"},
        {"mine": "carl"},
        {"risk": "high"},
        {"due_before": soon},
    ]
    for fits in fitting:
        assert handle.id in await listed(desk, lambda found: handle.id in found, **fits)
    for fits in fitting[:1] + fitting[2:]:
        runs = await list_runs(desk.client, RunFilter(id_prefix=handle.id, **fits))
        assert [one.run_id for one in runs] == [handle.id]
    missing: list[dict[str, Any]] = [
        {"group": "leads"},
        {"mine": EVE},
        {"risk": "low"},
        {"due_before": late},
    ]
    for misses in missing:
        assert handle.id not in await listed(desk, lambda _found: True, **misses)
    for misses in missing[:1] + missing[2:]:
        assert not await list_runs(desk.client, RunFilter(id_prefix=handle.id, **misses))
    await entry.handle.approve(request, by=ANN)
    await listed(desk, lambda found: handle.id not in found)
    await desk.result(handle)


async def test_names_that_no_server_can_search_for_are_found(desk: Desk):
    odd = 'the "billing\\team"?'
    handle = await waiting(desk, ApprovalPolicy(audience=Audience(groups=[odd, "o'hara"])))
    assert (await entry_of(desk, handle, group=odd)).people == (odd, "o'hara")
    await entry_of(desk, handle, group="o'hara")
    await entry_of(desk, handle, mine=Person(subject="x", groups=(odd,)))
    assert handle.id not in await listed(desk, lambda _found: True, group='the "other')
    await handle.reject("a1", by=Person(subject="x", groups=(odd,)))
    await desk.result(handle)


async def test_a_request_and_its_settlement_are_one_write_each(desk: Desk):
    policy = ApprovalPolicy(audience="billing", risk="medium", expires_in=timedelta(hours=1))
    handle = await waiting(desk, policy)
    await handle.claim("a1", by=ANN)
    assert (await desk.event_types(handle)).count(UPSERT) == 1
    await handle.approve("a1", by=ANN)
    await desk.result(handle)
    assert (await desk.event_types(handle)).count(UPSERT) == 2


@pytest.mark.smoke
async def test_a_nested_request_is_listed_and_decided_once_at_the_root(desk: Desk):
    inner = clerk(ApprovalPolicy(audience="billing"))
    outer = Agent[Any](name="Desk", tools=[inner.as_tool("ask_clerk", "Ask the clerk.")])
    model = ScriptedModel([call("ask_clerk", "o1", input="Refund.")], refunds(50), "Done.", "All.")
    await desk.open(outer, model=model)
    handle = await desk.start(outer)
    await desk.until_status(handle, "waiting")
    entry = await entry_of(desk, handle, group="billing")
    assert (entry.agent, entry.pending, entry.tools) == ("Desk", 1, ("refund",))
    [nested] = await desk.nested(handle)
    inbox = Inbox(desk.client)
    assert nested.id not in {one.run_id async for one in inbox.all()}
    [request] = await entry.requests()
    receipt = await entry.handle.edit(request, {"order": "A-17", "euros": 20}, by=ANN)
    assert (receipt.run_id, receipt.status, receipt.by) == (nested.id, "edited", "ann")
    assert (await desk.result(handle)).final_output == "All."
    again = await entry.handle.edit(request, {"order": "A-17", "euros": 20}, by=ANN)
    assert again.status == "edited", "a repeated decision is the same one, after the run as well"
    with pytest.raises(DecisionRefused, match="already approved with changes by ann"):
        await entry.handle.approve(request, by=BOB)


async def test_pages_follow_each_other_without_a_gap(desk: Desk):
    policy = ApprovalPolicy(audience=f"pages of {desk.queue}")
    agent = clerk(policy)
    await desk.open(agent, model=ScriptedModel(always=refunds(50)))
    handles = [await desk.start(agent) for _ in range(5)]
    group, inbox = f"pages of {desk.queue}", Inbox(desk.client)
    await listed(desk, lambda found: len(found) == 5, group=group)
    seen: list[str] = []
    page: bytes | None = None
    while True:
        found = await inbox.list(group=group, limit=2, page=page)
        assert 0 < len(found) <= 2
        seen += [entry.run_id for entry in found]
        page = found.next
        if page is None or len(seen) == 5:
            break
    assert sorted(seen) == sorted(handle.id for handle in handles)
    for handle in handles:
        await handle.cancel()


async def test_a_watcher_sees_what_appears_changes_and_goes(desk: Desk):
    group = f"watchers of {desk.queue}"
    policy = ApprovalPolicy(audience=group)
    handle = await waiting(
        desk, policy, model=ScriptedModel(refunds(50, 60), "Done."), keep_open=True
    )
    changes = Inbox(desk.client).watch(group=group, every=timedelta(seconds=0.1))
    by = Person(subject="ann", groups=(group,))

    async def next_one() -> tuple[str, str, int]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            change = await anext(changes)
        return change.kind, change.entry.run_id, change.entry.pending

    assert await next_one() == ("added", handle.id, 2)
    await handle.approve("a1", by=by)
    kinds = [await next_one()]
    while kinds[-1][2] != 1:  # the run also worked for a moment
        kinds.append(await next_one())
    assert {kind for kind, _, _ in kinds} == {"changed"}
    await handle.reject("a2", by=by)
    while kinds[-1][0] == "changed":
        kinds.append(await next_one())
    assert kinds[-1][:2] == ("removed", handle.id)
    await handle.cancel()


# --- What people do ------------------------------------------------------------------------------


@pytest.mark.smoke
async def test_two_people_have_to_agree_to_the_very_same_arguments(desk: Desk):
    ran: list[int] = []
    model = ScriptedModel(refunds(50), "Done.")
    handle = await waiting(desk, ApprovalPolicy(audience="billing", quorum=2), ran, model=model)
    [seen] = await handle.approvals()
    first = await handle.approve(seen, by=ANN)
    assert (first.status, first.votes, first.votes_needed, first.by) == ("pending", 1, 2, None)
    assert await handle.approve(seen, by=ANN) == first
    with pytest.raises(DecisionRefused, match="eve may not do this"):
        await handle.approve(seen, by=EVE)
    with pytest.raises(DecisionRefused, match="do not fit"):
        await handle.edit(seen, {"order": "A-17", "euros": "many"}, by=BOB)
    changed = await handle.edit(seen, {"order": "A-17", "euros": 40}, by=BOB)
    assert (changed.status, changed.votes) == ("pending", 1), "the vote for 50 is void"
    with pytest.raises(DecisionRefused, match="other arguments"):
        await handle.approve(seen, by=ANN, idempotency_key="again")
    [now] = await handle.approvals()
    last = await handle.approve(now, by=ANN)
    assert (last.status, last.votes, last.by) == ("edited", 2, "ann")
    await desk.result(handle)
    assert ran == [40]
    assert "refunded 40" in str(outputs(model.requests[1])["c50"])


async def test_only_what_may_be_decided_together_is(desk: Desk):
    group = f"bulk of {desk.queue}"
    low = ApprovalPolicy(audience=group, risk="low", bulk=True)
    careful = ApprovalPolicy(audience=group, risk="high")

    @function_tool(needs_approval=low)
    async def note(text: str) -> str:
        return text

    @function_tool(needs_approval=careful)
    async def pay(euros: int) -> str:
        return f"paid {euros}"

    agent = Agent(name="Clerk", tools=[note, pay])
    script = [call("note", "n1", text="a"), call("pay", "p1", euros=5)]
    await desk.open(agent, model=ScriptedModel(always=script))
    handle = await desk.start(agent)
    await desk.until_status(handle, "waiting")
    entry = await entry_of(desk, handle, group=group)
    assert entry.risk == "high"
    by = Person(subject="ann", groups=(group,))
    outcomes = await Inbox(desk.client).approve_all([entry], by=by)
    voted, left = outcomes
    assert voted.receipt is not None
    assert (voted.request_id, voted.receipt.status, voted.refused) == ("a1", "approved", None)
    assert (left.request_id, left.receipt) == ("a2", None)
    assert left.refused == "Its risk is high, so it needs a decision of its own."
    await handle.cancel()


async def test_an_inbox_says_which_argument_is_wrong(client: Client):
    inbox = Inbox(client)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"group": ""}, "group= must be the name"),
        ({"risk": "huge"}, "risk= must be 'low', 'medium' or 'high'"),
        ({"mine": 5}, "by= must be a name or a Person"),
        ({"due_before": datetime(2026, 1, 1)}, "with a time zone"),  # noqa: DTZ001  the mistake
        ({"limit": 0}, "limit=0 must be a number from 1 to 1,000"),
    ]
    for arguments, message in wrong:
        with pytest.raises(UserError, match=message):
            await inbox.list(**arguments)
    with pytest.raises(UserError, match=r"timedelta of 0\.1 s or more"):
        await anext(inbox.watch(every=timedelta(0)))
