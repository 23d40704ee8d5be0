"""The agents: who hands over to whom, what each uses, and the way that a run took."""

from typing import Any, Final

from markupsafe import Markup
from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.serve.access import Target, may
from outlast.serve.pages.agent_graph import AgentGraph, graph_of, way_of, with_way
from outlast.serve.pages.agent_picture import picture_of
from outlast.serve.pages.page import fragment, page, show_page
from outlast.serve.routing import Desk, DeskRequest, route
from outlast.views.run import RunSnapshot


async def _show_agents(asked: DeskRequest) -> Response:
    run_id = asked.http.query_params.get("run", "")
    state = None
    if run_id:
        asked = await asked.at(run_id)
        state = await asked.desk.handle(run_id).state()
        asked.check("view_run", Target(run_id=run_id, state=state))
    graph = _graph(asked.desk, state)
    return page(
        asked,
        "agents.html",
        "Agents",
        run_id=run_id,
        state=state,
        may_try=may(asked.caller, "start_run", Target()) is None,
        tried={agent.name for agent in asked.desk.agents},
        **_values(graph),
    )


def way_picture(asked: DeskRequest, state: RunSnapshot) -> Markup:
    """Return the picture of the way that a run took, for other pages about the run."""
    html = fragment(asked, "agents_graph.html", **_values(_graph(asked.desk, state)))
    return Markup(html)  # noqa: S704  the template escapes


def _graph(desk: Desk, state: RunSnapshot | None) -> AgentGraph:
    graph = graph_of(desk.agents)
    return graph if state is None else with_way(graph, way_of(state))


def _values(graph: AgentGraph) -> dict[str, Any]:
    reached: list[list[int]] = [[] for _ in graph.nodes]
    leads: list[list[Any]] = [[] for _ in graph.nodes]
    for edge in graph.edges:
        leads[edge.source].append(edge)
        reached[edge.target].append(edge.source)
    return {"graph": graph, "picture": picture_of(graph), "leads": leads, "reached": reached}


ROUTES: Final[list[BaseRoute]] = [
    route("/agents", _show_agents, action="list_runs", show=show_page, soon=True),
]
