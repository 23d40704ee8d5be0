"""Figures on a server: counted once whatever is fed how often, by day, of a team, of a tenant."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.errors import UserError
from outlast.agents.tools.function_tool import function_tool
from outlast.client.figures import DayFigures, TeamFigures, team_figures
from outlast.client.identity import person
from outlast.client.search import SearchFeed, rebuild_index
from outlast.search import SearchIndex, SearchUnavailable, open_index
from outlast.serve.access import RoleRules
from outlast.temporal.visibility.scopes import RunScope
from outlast.testing import ScriptedModel, call, say
from tests.servers import server_for_tests
from tests.workflow.desk import Desk
from tests.workflow.test_archive import until
from tests.workflow.test_desk_api import PROGRAM, app_of, keys, opened

__all__ = ["keys"]

ANN = person("ann", groups=["billing"])


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[Client]:
    """A client of a server of this file's own: an index has all runs of its namespace."""
    async with server_for_tests(shared=False) as server:
        yield await server.connect()


@pytest.fixture
def index(tmp_path: Path) -> SearchIndex:
    return open_index(tmp_path / "search.db")


@function_tool(needs_approval=ApprovalPolicy(audience="billing"))
def refund(order: str) -> str:
    """Refund an order."""
    return f"{order} is refunded"


CLERK = Agent[Any](name="Clerk", tools=[refund])


def reply(request: Any) -> Any:
    is_over = "output" in str(request.input[-1])
    return say("Done.") if is_over else [call("refund", "c1", order="A")]


async def worked(desk: Desk, **options: Any) -> Any:
    """Start a conversation that people decide about, take over, answer and rate."""
    handle = await desk.start(CLERK, "Refund A.", keep_open=True, **options)
    await desk.until_status(handle, "waiting")
    (request,) = await handle.approvals()
    await handle.approve(request, by=ANN)
    await desk.until_status(handle, "idle")
    await handle.assign(by=ANN, team="billing")
    await handle.hold(by=ANN)
    await handle.send("Are you there?")
    await handle.say("I am.", by=ANN)
    await handle.rate(2, "Slow.")
    await handle.rate(4)
    return handle


async def test_figures_count_once_by_day_of_a_team_and_of_a_tenant(
    desk: Desk, index: SearchIndex
) -> None:
    await desk.open(CLERK, model=ScriptedModel(always=reply))
    feed = SearchFeed(desk.client, index)
    acme = await worked(desk, tenant="acme")

    async def figures(**options: Any) -> TeamFigures:
        return await team_figures(desk.client, index, **options)

    async def fed(ratings: int) -> bool:
        await feed.look()
        return (await figures()).total.ratings == ratings

    await until(lambda: fed(1))
    one = (await figures()).total
    assert (one.decisions, one.takeovers, one.replies) == (1, 1, 1)
    assert (one.ratings, one.good, one.bad, one.score) == (1, 1, 0, 4.0)
    assert one.decision_seconds is not None
    assert one.reply_seconds is not None
    globex = await worked(desk, tenant="globex")
    await until(lambda: fed(2))
    whole = await figures()
    assert (whole.days[0].decisions, whole.days[1], len(whole.days)) == (
        2, DayFigures(day=whole.days[1].day), 14,
    )  # fmt: skip
    scopes = (RunScope(tenants=frozenset({"acme"})),)
    assert (await figures(scopes=scopes)).total.decisions == 1
    billing = (await figures(team="billing")).total
    assert (billing.decisions, billing.takeovers, billing.ratings) == (0, 2, 2)
    assert (await figures(team="none' OR '1'='1")).total == DayFigures()
    # A rebuild, and whatever is fed again, changes no figure.
    await rebuild_index(feed)
    assert (await figures()).days == whole.days
    for wrong in ({"days": 0}, {"days": 367}, {"time_zone": "../etc"}, {"time_zone": "Nowhere"}):
        with pytest.raises(UserError):
            await figures(**wrong)
    # What is deleted on request counts no more.
    assert index.forget([acme.first_execution_id]) == 1
    assert (await figures()).total.decisions == 1
    await feed.look(anew=True)
    assert (await figures()).total.decisions == 1
    for handle in (acme, globex):
        await handle.cancel()


async def test_the_desk_shows_the_same_figures_and_nobody_those_of_another_tenant(
    desk: Desk, index: SearchIndex
) -> None:
    await desk.open(CLERK, model=ScriptedModel(always=reply))
    await worked(desk, tenant="initech")
    feed = SearchFeed(desk.client, index)

    async def is_fed() -> bool:
        await feed.look()
        scopes = (RunScope(tenants=frozenset({"initech"})),)
        return (await team_figures(desk.client, index, scopes=scopes)).total.ratings == 1

    await until(is_fed)
    hers, theirs = (
        app_of(desk, CLERK, roles=RoleRules(anybody=[f"viewer@tenant:{tenant}"]))
        for tenant in ("initech", "umbrella")
    )
    for app, count in ((hers, 1), (theirs, 0)):
        async with opened(app) as http:
            none = await http.get("/api/figures")
            assert (none.status_code, none.json()["error"]["code"]) == (404, "no_search_index")
            assert "This desk has no index of search." in (await http.get("/figures")).text
            object.__setattr__(app.state.desk, "search", index)
            found = (await http.get("/api/figures?days=7")).json()
            assert (found["total"]["decisions"], len(found["days"])) == (count, 7)
            text = (await http.get("/figures?days=7&time_zone=Europe/Berlin")).text
            total = text.partition("<tfoot>")[2].partition("</tfoot>")[0]
            assert total.count(">1</td>") == (4 if count else 0)
            assert (await http.get("/api/figures?days=0")).status_code == 400
            assert "is no time zone" in (await http.get("/figures?time_zone=%3Cb%3E")).text
            assert (await http.get("/api/figures", headers=PROGRAM)).status_code == 403
    missing = open_index(index.path.with_name("none.db"))  # type: ignore[attr-defined]
    with pytest.raises(SearchUnavailable):
        await team_figures(desk.client, missing)
