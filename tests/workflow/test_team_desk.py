"""Teams in the API and at the desk, on a server: who may do what, and what everybody reads of it."""

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest

from outlast.agents.agent import Agent
from outlast.client.teams import Team
from outlast.serve.access import RoleRules
from outlast.testing import ScriptedModel, say
from tests.unit.serve.hostile_pages import active_content
from tests.workflow.desk import Desk
from tests.workflow.test_desk_api import PROGRAM, TOKENS, app_of, opened
from tests.workflow.test_long_runs import true_in_the_end
from tests.workflow.test_team import is_with, team_of

CLERK = Agent[Any](name="Clerk")
HOSTILE = "<img src=x onerror=alert(1)> \x1b[2J\u202e"


@asynccontextmanager
async def at_desk(
    desk: Desk, name: str = "ann", *roles: str, groups: Collection[str] = ("staff",)
) -> AsyncGenerator[Any]:
    """Yield a client that sends requests as a person with some roles; all roles, if none is named."""
    rules = RoleRules({"staff": roles}) if roles else None
    async with opened(app_of(desk, CLERK, name=name, roles=rules, groups=(*groups,))) as http:
        yield http


@pytest.fixture
async def team(desk: Desk) -> AsyncGenerator[Team]:
    """A team that is there, whose people have not come yet."""
    await desk.open(CLERK, model=ScriptedModel(always=lambda _: say("Hello.")))
    team = team_of(desk)
    await team.assign_by(by="lead", return_after=timedelta(minutes=15))
    yield team
    await desk.client.get_workflow_handle(team._id).terminate()


def api(team: Team, rest: str = "") -> str:
    return f"/api/teams/{quote(team.name, safe='')}{rest}"


def page(team: Team, rest: str = "") -> str:
    return f"/teams/{quote(team.name, safe='')}{rest}"


async def test_people_go_on_duty_and_leave_it_and_every_page_says_so(
    desk: Desk, team: Team
) -> None:
    async with at_desk(desk) as http:
        went = await http.post(api(team, "/duty"), json={"until": "8h", "capacity": 2})
        assert went.status_code == 200, went.text
        [member] = went.json()["members"]
        assert (member["subject"], member["on_duty"], member["capacity"]) == ("ann", True, 2)
        assert member["until"] is not None

        handle = await desk.start(CLERK, "Hello?", keep_open=True)
        await desk.until_status(handle, "idle")
        await handle.assign(team=team.name, by="lead")
        await is_with(desk, handle, "ann")
        found = (await http.get(api(team))).json()
        [one] = found["conversations"]
        assert (one["id"], one["to"], one["taken"]) == (handle.id, "ann", False)
        assert (found["return_after_seconds"], one["due"] is not None) == (900, True)

        for place in ("/api/conversations?", "/conversations?", "/conversations?view=mine&"):

            async def is_due(place: str = place) -> bool:
                return handle.id in (await http.get(f"{place}case_due=1h")).text

            await true_in_the_end(is_due)
            assert handle.id not in (await http.get(f"{place}case_due=overdue")).text
        refused = await http.get("/api/conversations?case_due=soon")
        assert "Write a length, such as 2h" in refused.json()["error"]["message"]

        async def is_listed() -> bool:
            names = [one["name"] for one in (await http.get("/api/teams")).json()["teams"]]
            return team.name in names

        await true_in_the_end(is_listed)
        listed = (await http.get("/teams")).text
        assert team.name in listed
        shown = (await http.get(page(team))).text
        assert handle.id in shown
        # Every page has the person's own duty, and a way to leave it.
        inbox = (await http.get("/inbox")).text
        assert "On duty in" in inbox
        left = await http.post(
            page(team, "/duty"),
            data={"on_duty": "no", "back": "/inbox"},
            headers={"HX-Request": "true"},
        )
        assert "On duty in" not in left.text
        assert "On duty in" not in (await http.get("/inbox")).text
    [member] = (await team.view()).members
    assert (member.on_duty, member.capacity) == (False, 2)


async def test_the_page_of_a_team_changes_it_and_its_list_is_sent_only_if_it_has_changed(
    desk: Desk, team: Team
) -> None:
    async with at_desk(desk) as http:
        form = {"rule": "least_busy", "capacity": "3", "return_after": "2h"}
        plain = await http.post(page(team, "/rule"), data=form)
        assert (plain.status_code, plain.headers["location"]) == (303, page(team))
        view = await team.view()
        assert (view.rule, view.capacity, view.return_after) == (
            "least_busy",
            3,
            timedelta(hours=2),
        )
        shown = (await http.get(page(team))).text
        assert "Looks who has the fewest, at most 3 for each, back after 2 h." in shown
        [seen] = re.findall(r'id="team-seen" name="seen" value="(\w+)"', shown)
        assert (await http.get(page(team, f"/now?seen={seen}"))).status_code == 204
        await team.on_duty("bob")
        newer = await http.get(page(team, f"/now?seen={seen}"))
        assert (newer.status_code, "bob" in newer.text) == (200, True)
        wrong = {"HX-Request": "true"}
        refused = await http.post(page(team, "/rule"), data={"capacity": "many"}, headers=wrong)
        assert "is no number of conversations" in unescape(refused.text)


async def test_an_operator_sets_a_team_up_and_its_name_is_shown_as_text(desk: Desk) -> None:
    await desk.open(CLERK, model=ScriptedModel(always=lambda _: say("Hello.")))
    name = f"{HOSTILE}/{secrets.token_hex(4)}"
    async with at_desk(desk) as http:
        begun = await http.post(
            "/teams", data={"name": name.replace("\x1b", "").replace("\u202e", "")}
        )
        assert begun.status_code == 303
        address = begun.headers["location"]
        await http.post(f"{address}/duty", data={"on_duty": "yes", "person": HOSTILE})
        shown = (await http.get(address)).text
    assert not active_content(shown)
    assert "alert(1)" in shown


# --- Who may do what -----------------------------------------------------------------------------


async def test_a_viewer_looks_a_decider_comes_and_an_operator_says_for_others(
    desk: Desk, team: Team
) -> None:
    async with at_desk(desk, "vic", "viewer") as http:
        assert (await http.get(api(team))).status_code == 200
        shown = (await http.get(page(team))).text
        assert "<form" not in shown.split('id="team"')[1].split("</main>")[0]
        assert "You cannot go on duty in a team: that needs the role decider or operator." in shown
        for rest, body in (("/duty", {}), ("/rule", {})):
            refused = await http.post(api(team, rest), json=body)
            assert refused.status_code == 403, refused.text
            plain = await http.post(page(team, rest), data={"on_duty": "yes"})
            assert plain.status_code == 403
        assert (await http.post("/teams", data={"name": "x"})).status_code == 403
        assert (await http.post("/recount", data={"x": ""})).status_code == 403
    async with at_desk(desk, "dan", "decider") as http:
        assert (await http.post(api(team, "/duty"), json={})).status_code == 200
        for body in ({"person": "bob"}, {"person": "bob", "on_duty": False}):
            refused = await http.post(api(team, "/duty"), json=body)
            assert refused.status_code == 403
            assert "You cannot change a team: that needs the role operator." in refused.text
        # Nobody without the right to set a team up begins one by going on duty in it.
        missing = await http.post(f"/api/teams/{team.name}-2/duty", json={})
        assert missing.json()["error"]["message"] == f"There is no team '{team.name}-2'."
        assert (await http.post(api(team, "/rule"), json={})).status_code == 403
    async with at_desk(desk, "lea", "operator") as http:
        assert (await http.post(api(team, "/duty"), json={"person": "bob"})).status_code == 200
    assert [one.subject for one in (await team.view()).members] == ["dan", "bob"]


async def test_customers_and_programs_learn_nothing_of_teams(desk: Desk, team: Team) -> None:
    token = {"Authorization": f"Bearer {TOKENS.mint('support-1')}"}
    async with at_desk(desk) as http:
        for headers in (token, PROGRAM):
            for path in ("/api/teams", api(team), f"/api/teams/{secrets.token_hex(4)}"):
                answer = await http.get(path, headers=headers)
                assert answer.status_code in {401, 403}, path
                assert team.name not in answer.text
            refused = await http.post(api(team, "/duty"), json={}, headers=headers)
            assert refused.status_code in {401, 403}
    assert (await team.view()).members == ()


async def test_a_team_of_another_tenant_is_as_one_that_is_not_there(desk: Desk, team: Team) -> None:
    of_acme = Team(desk.client, team.name, tenant="acme", task_queue=desk.queue)
    await of_acme.on_duty("zoe")
    await team.on_duty("ann")
    scoped = "operator@tenant:globex"
    async with at_desk(desk, "eve", scoped) as http:
        for tenant, place in (("acme", team.name), ("", team.name), ("acme", "none-such")):
            path, query = f"/{quote(place, safe='')}", f"?tenant={tenant}"
            said = {"error": {"code": "team_not_found", "message": f"There is no team {place!r}."}}
            read = await http.get(f"/api/teams{path}{query}")
            assert (read.status_code, read.json()) == (404, said)
            for rest, body in (("/duty", {}), ("/duty", {"on_duty": False}), ("/rule", {})):
                acted = await http.post(f"/api/teams{path}{rest}{query}", json=body)
                assert (acted.status_code, acted.json()) == (404, said)
                form = await http.post(f"/teams{path}{rest}{query}", data={"on_duty": "yes"})
                assert form.status_code == 404
            for page in ("", "/now"):
                assert (await http.get(f"/teams{path}{page}{query}")).status_code == 404
        refused = await http.post("/teams", data={"name": team.name, "tenant": "acme"})
        assert refused.status_code == 404
        own = await http.post(f"/api/teams/{quote(team.name)}/rule?tenant=globex", json={})
        assert (own.status_code, own.json()["members"]) == (200, [])

        async def only_own() -> bool:
            teams = (await http.get("/api/teams")).json()["teams"]
            assert {one["tenant"] for one in teams} <= {"globex"}
            return team.name in {one["name"] for one in teams}

        await true_in_the_end(only_own)
        assert ">acme<" not in (await http.get("/teams")).text
    async with at_desk(desk, "eve", "viewer@tenant:acme", scoped) as http:
        looked = await http.get(f"{api(team)}?tenant=acme")
        assert (looked.status_code, looked.json()["tenant"]) == (200, "acme")
        refused = await http.post(f"{api(team)}/rule?tenant=acme", json={})
        assert refused.status_code == 403
    assert [one.subject for one in (await of_acme.view()).members] == ["zoe"]
    for tenant in ("acme", "globex"):
        other = Team(desk.client, team.name, tenant=tenant)
        await desk.client.get_workflow_handle(other._id).terminate()


async def test_two_leads_at_once_lose_no_persons_duty(desk: Desk, team: Team) -> None:
    async with at_desk(desk, "lea") as one, at_desk(desk, "leo") as other:
        people = [f"p{at}" for at in range(8)]
        sent = [
            (one if at % 2 else other).post(api(team, "/duty"), json={"person": person})
            for at, person in enumerate(people)
        ]
        rules = [http.post(api(team, "/rule"), json={"capacity": 7}) for http in (one, other)]
        answers = await asyncio.gather(*sent, *rules)
        assert {answer.status_code for answer in answers} == {200}
        assert {answer.json()["capacity"] for answer in answers[-2:]} == {7}
    view = await team.view()
    assert sorted(one.subject for one in view.members if one.on_duty) == people
