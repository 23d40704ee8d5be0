"""The page of the agents: its picture, its list, and the way of a run."""

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from outlast.agents.agent import Agent
from outlast.agents.tools.definition import FunctionTool
from outlast.loop.items import Item
from outlast.loop.state import LoopState
from outlast.serve.access import RoleRules
from outlast.serve.pages.agent_graph import graph_of
from outlast.serve.pages.agent_picture import MOST_ROWS, WIDTH, fitted, picture_of
from tests.unit.serve.chat_desk import place, team, token
from tests.unit.serve.test_agent_graph import support
from tests.unit.serve.test_chat import COOKIE, HARMFUL, HOSTILE

SVG = "{http://www.w3.org/2000/svg}"


def picture(text: str) -> ET.Element:
    """Return the picture in a page; it has to be well-formed."""
    found = re.search(r'<svg class="graph".*?</svg>', text, re.DOTALL)
    assert found is not None
    return ET.fromstring(f'<g xmlns="{SVG[1:-1]}">{found[0]}</g>')


async def _invoked(_context: Any, _arguments: str) -> str:
    return ""


def named(name: str) -> Agent[Any]:
    """Return an agent whose fields all have a text, as far as that is a name."""
    other = Agent[Any](name=f"Other {name}", handoff_description=name)
    return Agent[Any](name=name, handoff_description=name, handoffs=[other])


async def test_the_page_draws_and_lists_all_agents() -> None:
    async with team(agents=(support(),)).client() as client:
        shown = await client.get("/agents")
    assert shown.status_code == 200
    drawn = picture(shown.text)
    names = [one.text for one in drawn.iter(f"{SVG}text") if one.get("class") == "node-name"]
    assert names == ["Triage", "Billing", "Orders", "Writer"]
    ways = [one for one in drawn.iter(f"{SVG}path") if (one.get("class") or "").startswith("way")]
    assert len(ways) == 4
    about = drawn.find(f".//{SVG}desc")
    assert about is not None
    assert "Triage hands over to Billing." in (about.text or "")
    assert "Billing runs, as a tool, Writer." in (about.text or "")
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
    assert len([one for one in taken if one.tag == f"{SVG}g"]) == 3


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


def test_a_box_has_few_rows_and_keeps_those_that_ran() -> None:
    tools: list[Any] = [
        FunctionTool(
            name=f"tool_{number}",
            description="",
            params_json_schema={"type": "object", "properties": {}},
            on_invoke_tool=_invoked,
        )
        for number in range(30)
    ]
    (card,) = picture_of(graph_of([Agent[Any](name="A", tools=tools)])).cards
    assert len(card.rows) == MOST_ROWS
    assert card.rows[-1].name == f"and {30 - MOST_ROWS + 1} more"
    assert card.rows[-1].y < card.height


@pytest.mark.parametrize("text", ["A", "W" * 100, "表" * 100, "a\u202eb" * 50, "x y " * 50])
def test_a_name_is_cut_to_the_room_that_it_has(text: str) -> None:
    shown = fitted(text, WIDTH, 14)
    assert len(shown) <= 40
    assert "\u202e" not in shown
    assert shown == text or shown.endswith("…")
