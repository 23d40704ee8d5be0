"""The page of the agents: its picture, its list, and the way of a run."""

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from outlast.agents.agent import Agent
from outlast.loop.items import Item
from outlast.loop.state import LoopState
from outlast.serve.access import RoleRules
from tests.unit.serve.chat_desk import place, team, token
from tests.unit.serve.test_agent_graph import support
from tests.unit.serve.test_chat import COOKIE, HARMFUL, HOSTILE

PICTURE = re.compile(r'<div class="graph">.*?</div>\n</div>\n</div>', re.DOTALL)


def picture(text: str) -> ET.Element:
    """Return the picture in a page; it has to be well-formed."""
    found = PICTURE.search(text)
    assert found is not None
    return ET.fromstring(found[0].removesuffix("\n</div>"))


def named(name: str) -> Agent[Any]:
    """Return an agent whose fields all have a text, as far as that is a name."""
    other = Agent[Any](name=f"Other {name}", handoff_description=name)
    return Agent[Any](name=name, handoff_description=name, handoffs=[other])


async def test_the_page_draws_and_lists_all_agents() -> None:
    async with team(agents=(support(),)).client() as client:
        shown = await client.get("/agents")
    assert shown.status_code == 200
    drawn = picture(shown.text)
    columns = [one for one in drawn.iter("div") if one.get("class") == "graph-column"]
    names = [[one.text for one in column.iter("h2")] for column in columns]
    assert names == [["Triage"], ["Billing", "Orders"], ["Writer"]]
    ways = [
        (one.get("data-way"), one.get("class")) for one in drawn.iter("li") if one.get("data-way")
    ]
    assert ways == [
        ("agent-1", "way"),
        ("agent-2", "way"),
        ("agent-3", "way is-tool"),
        ("agent-0", "way"),
    ]
    assert re.findall(r'id="agent-(\d)-name"', shown.text) == ["0", "1", "2", "3"]
    assert "A person decides before an answer leaves." in shown.text
    assert "style=" not in shown.text


async def test_a_run_marks_its_way() -> None:
    desk = team(agents=(support(),))
    call = {"type": "function_call", "name": "look_up", "arguments": '"SECRET"', "call_id": "c1"}
    items = (Item("tool_call", call, "Orders", 1), Item("tool_call", call, "Orders", 2))
    state = LoopState(
        agent="Elsewhere", handoff_path=("Triage", "Orders", "Elsewhere"), items=items
    )
    desk.play(state, "a/b")
    async with desk.client() as client:
        shown = (await client.get("/agents?run=a%2Fb")).text
        assert (await client.get("/agents?run=none")).status_code == 404
    assert 'href="/conversations/a%2Fb"' in shown
    assert "×2" in shown  # noqa: RUF001
    assert "defined elsewhere" in shown
    assert "has the run" in shown
    assert "SECRET" not in shown
    taken = [one for one in picture(shown).iter() if "is-taken" in (one.get("class") or "")]
    assert len([one for one in taken if one.tag == "section"]) == 3


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_names_do_nothing(text: str) -> None:
    desk = team(agents=(named(text),))
    call = {"type": "function_call", "name": text, "arguments": "{}", "call_id": "c1"}
    state = LoopState(
        agent=text, handoff_path=("Other", text), items=(Item("tool_call", call, text),)
    )
    desk.play(state, text)
    async with desk.client() as client:
        for query in ({}, {"run": text}):
            shown = await client.get("/agents", params=query)
            assert shown.status_code == 200
            assert not HARMFUL.search(shown.text)
            picture(shown.text)
        missing = await client.get("/agents", params={"run": f"none {text}"})
        assert not HARMFUL.search(missing.text)
        listed = await client.get("/chat")
        assert not HARMFUL.search(listed.text)


async def test_a_desk_without_agents_says_how_to_have_them() -> None:
    async with team(agents=()).client() as client:
        assert "outlast serve TARGET" in (await client.get("/agents")).text
        assert "outlast serve TARGET" in (await client.get("/chat")).text


async def test_only_the_team_sees_the_agents() -> None:
    desk = place()
    async with desk.client(Cookie=f"{COOKIE}={token()}") as client:
        refused = await client.get("/agents")
        assert refused.status_code == 303
        assert refused.headers["Location"].startswith("/login")
    async with desk.client(Authorization=f"Bearer {token()}") as client:
        assert (await client.get("/agents")).status_code == 403
    viewer = team(roles=RoleRules(anybody=["viewer"]))
    async with viewer.client() as client:
        shown = await client.get("/agents")
        assert (shown.status_code, "Try an agent" in shown.text) == (200, False)
