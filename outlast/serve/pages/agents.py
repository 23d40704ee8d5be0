"""The agents: who hands over to whom, what each uses, and the way that a run took."""

from typing import Final

from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.serve.access import Target, may
from outlast.serve.pages.agent_graph import columns_of, graph_of, way_of, with_way
from outlast.serve.pages.page import page, show_page
from outlast.serve.routing import DeskRequest, route


async def _show_agents(asked: DeskRequest) -> Response:
    run_id = asked.http.query_params.get("run", "")
    graph, state = graph_of(asked.desk.agents), None
    if run_id:
        asked = await asked.at(run_id)
        state = await asked.desk.handle(run_id).state()
        asked.check("view_run", Target(run_id=run_id, state=state))
        graph = with_way(graph, way_of(state))
    return page(
        asked,
        "agents.html",
        "Agents",
        run_id=run_id,
        state=state,
        may_try=may(asked.caller, "start_run", Target()) is None,
        tried={agent.name for agent in asked.desk.agents},
        graph=graph,
        columns=columns_of(graph),
    )


ROUTES: Final[list[BaseRoute]] = [
    route("/agents", _show_agents, action="list_runs", show=show_page, soon=True),
]
