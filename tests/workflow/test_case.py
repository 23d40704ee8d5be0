"""The case of a conversation on a real server: who has it, what time does, and who hears of it."""

import asyncio
import re
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
from outlast.serve.access import RoleRules
from outlast.testing import ScriptedModel, say
from tests.unit.serve.hostile_pages import active_content
from tests.workflow.desk import Desk
from tests.workflow.test_desk_api import PROGRAM, TOKENS, app_of, keys, opened
from tests.workflow.test_long_runs import true_in_the_end

__all__ = ["keys"]

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
    assert (receipt.status, receipt.tags) == ("resolved", ("@cid", "vip"))

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


async def test_who_shares_a_conversation_at_the_desk(desk: Desk) -> None:
    """A customer's token, a viewer and hostile words; the same comment twice; two at once."""
    handle = await rests(desk)
    path = f"/api/conversations/{handle.id}"
    bodies: dict[str, dict[str, Any]] = {
        "assign": {"to": "eve"},
        "comment": {"text": "Mine."},
        "resolve": {},
        "reopen": {},
        "snooze": {"until": "1h"},
        "tag": {"tags": ["x"]},
        "link": {"conversations": ["x"]},
    }
    customer = {"Authorization": f"Bearer {TOKENS.mint(handle.id)}"}
    before = (await handle.state()).case
    viewer = app_of(desk, CLERK, roles=RoleRules(anybody=["viewer"]))
    async with opened(app_of(desk, CLERK)) as web, opened(viewer) as watching:
        for deed, body in bodies.items():
            refused = await web.post(f"{path}/{deed}", json=body, headers=customer)
            assert (refused.status_code, "Only the team" in refused.text) == (403, True)
            refused = await web.post(f"{path}/{deed}", json=body, headers=PROGRAM)
            assert "that takes a person" in refused.text
            for asked in (
                await watching.post(f"{path}/{deed}", json=body),
                await watching.post(f"/conversations/{handle.id}/{deed}", data={"why": ""}),
            ):
                assert asked.status_code == 403
                assert "that needs the role operator" in asked.text
        assert (await handle.state()).case == before
        for deed, body, words in (
            ("tag", {"tags": ["t" * 1_000]}, "at most 500 characters"),
            ("tag", {}, "tag needs words"),
            ("assign", {"to": "n" * 501}, "at most 500 characters"),
            ("comment", {"text": "c" * 10_001}, "at most 10000 characters"),
            ("comment", {"text": " "}, "comment needs text"),
            ("snooze", {"until": "2020-01-01T00:00Z"}, "has passed"),
        ):
            refused = await web.post(f"{path}/{deed}", json=body)
            assert refused.status_code in {400, 409}
            assert words in refused.text
        hostile = "<script>alert(1)</script> \u202eevil\u2066 " + "c" * 9_000
        said = {"text": hostile, "comment_id": "same"}
        both = await asyncio.gather(*(web.post(f"{path}/comment", json=said) for _ in range(5)))
        assert {one.status_code for one in both} == {200}
        await web.post(f"{path}/assign", json={"to": "<img src=x onerror=alert(1)>"})
        found = (await web.get(path)).json()["case"]
        assert [one["text"] for one in found["comments"]] == [hostile]
        page = (await web.get(f"/conversations/{handle.id}")).text
        assert active_content(page) == []
        both = await asyncio.gather(*(web.post(f"{path}/resolve", json={}) for _ in range(2)))
        assert {one.json()["status"] for one in both} == {"resolved"}
        [first, second] = (one.json()["resolved_at"] for one in both)
        assert first == second
        seen = (await web.get(path, headers=customer)).text
        assert "evil" not in seen
        assert "onerror" not in seen


async def test_earlier_conversations_are_those_of_the_same_customer_and_tenant(
    desk: Desk,
) -> None:
    await desk.open(CLERK, model=ScriptedModel(always=lambda _: say("Hello.")))
    prefix = f"earlier{now_ms()}"

    async def begun(name: str, tenant: str | None, customer: str = "c-1") -> Any:
        handle = await desk.start(
            CLERK, "Hello", id=f"{prefix}-{name}", keep_open=True, tenant=tenant,
            customer=f"{prefix}-{customer}",
        )  # fmt: skip
        await desk.until_status(handle, "idle")
        return handle

    for name in ("a1", "a2"):
        await begun(name, "acme")
    for name, tenant in (("g1", "globex"), ("n1", None)):
        await begun(name, tenant)
    await begun("other", "acme", "c-2")

    async def earlier(app: Any, name: str) -> list[str]:
        async with opened(app) as web:
            answer = await web.get(f"/conversations/{prefix}-{name}/earlier")
        if answer.status_code != 200:
            return [str(answer.status_code)]
        return re.findall(rf'href="/conversations/{prefix}-(\w+)"', answer.text)

    async def are_listed() -> bool:
        return await earlier(app_of(desk, CLERK), "a1") == ["a2"]

    await true_in_the_end(are_listed)
    assert await earlier(app_of(desk, CLERK), "g1") == []
    assert await earlier(app_of(desk, CLERK), "n1") == []
    assert await earlier(app_of(desk, CLERK), "other") == []
    acmes = app_of(desk, CLERK, roles=RoleRules(anybody=["operator@tenant:acme"]))
    assert await earlier(acmes, "a1") == ["a2"]
    assert await earlier(acmes, "g1") == ["404"]
    link = f"/api/conversations/{prefix}-a1/link"
    async with opened(acmes) as web:
        hidden = await web.post(link, json={"conversations": [f"{prefix}-g1"]})
        assert hidden.status_code == 404
        assert (await web.post(link, json={"conversations": ["never-was"]})).status_code == 404
        assert (await web.post(link, json={"conversations": [f"{prefix}-a2"]})).is_success
        listed = (await web.get(f"/conversations?customer={prefix}-c-1")).text
        assert f"{prefix}-a2" in listed
        assert f"{prefix}-g1" not in listed


async def test_lists_of_the_desk_say_whose_a_conversation_is(desk: Desk) -> None:
    handle = await rests(desk)
    team = f"team-{handle.id}"
    await handle.assign("ann", by="bob", team=team)
    await handle.comment("@ann, look.", by="bob")
    app = app_of(desk, CLERK, groups=[team])
    async with opened(app) as web:

        async def has(view: str, count: int = 1) -> None:
            async def is_listed() -> bool:
                page = (await web.get(f"/conversations-list?view={view}&team={team}")).text
                return page.count(f"/conversations/{handle.id}") == count

            await true_in_the_end(is_listed)

        for view in ("mine", "team", "mentions"):
            await has(view)
        await has("nobody", 0)
        await handle.assign(None, by="bob", team=team)
        await has("nobody")
        await has("mine", 0)
        counts = (await web.get("/views")).text
        assert re.search(r"My team.{5,80}1</span>", counts, re.DOTALL)
        others = RoleRules(anybody=["viewer@tenant:globex"])
        async with opened(app_of(desk, CLERK, groups=[team], roles=others)) as elsewhere:
            counts = (await elsewhere.get("/views")).text
            assert re.search(r"My team.{5,80}0</span>", counts, re.DOTALL)
            listed = await elsewhere.get(f"/conversations?view=team&team={team}")
            assert f"/conversations/{handle.id}" not in listed.text
        await handle.snooze(timedelta(days=1), by="bob")
        await has("snoozed")
        await has("team", 0)
        await handle.resolve(by="bob")
        await has("resolved")
        found = (await web.get(f"/api/conversations?team={team}&tag=@ann")).json()
        [one] = found["conversations"]
        assert (one["id"], one["assignee"], one["tags"]) == (handle.id, "", ["@ann"])
        for none in ("assignee=eve", "attention=true", "tag=vip"):
            found = (await web.get(f"/api/conversations?team={team}&{none}")).json()
            assert found["conversations"] == []
    await app.state.desk.close()
