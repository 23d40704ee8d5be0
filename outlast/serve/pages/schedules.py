"""Schedules: what they start, when, what has become of it; and to pause, resume and fire them."""

from typing import Final

from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.agents.errors import UserError
from outlast.client.schedules import Schedule, Schedules
from outlast.deliveries.problems import Refused
from outlast.edges.rendering import joined, named
from outlast.serve.bodies import Query
from outlast.serve.pages.page import form_of, page, query_of, see_other, show_page
from outlast.serve.routing import PATIENCE, DeskRequest, route

MOST_LISTED: Final = 200
"""The most schedules of the list."""

_COLORS: Final = {
    **dict.fromkeys(("active", "completed"), "is-ok"),
    **dict.fromkeys(("paused", "open"), "is-wait"),
    **dict.fromkeys(("failed", "timed_out", "terminated"), "is-bad"),
}


class Wanted(Query):
    """What the address asks for: one schedule, or all."""

    id: str = ""
    done: str = ""


_DONE: Final = {
    "pause": "It is paused: its times pass until it is resumed.",
    "resume": "It is active again. Times that have passed do not count.",
    "trigger": "It has fired, besides its times.",
}


def _schedules(asked: DeskRequest) -> Schedules:
    return Schedules(asked.desk.client, patience=PATIENCE)


async def _show(asked: DeskRequest) -> Response:
    asked.check_sees_all()
    wanted = query_of(asked, Wanted)
    if wanted.id:
        found = await _schedules(asked).get(wanted.id)
        done = _DONE.get(wanted.done, "")
        return page(asked, "schedule.html", found.id, one=found, done=done, colors=_COLORS)
    listed: tuple[Schedule, ...] = await asked.desk.cases.lists.get(
        "schedules", lambda: _schedules(asked).list(limit=MOST_LISTED)
    )
    return page(
        asked,
        "schedules.html",
        "Schedules",
        schedules=sorted(listed, key=lambda one: (not one.next, one.next, one.id)),
        most=MOST_LISTED,
        colors=_COLORS,
    )


async def _act(asked: DeskRequest) -> Response:
    asked.check_sees_all()
    form = await form_of(asked)
    schedule_id, act = form.text("id"), form.exact("act")
    who, schedules = named(asked.person.subject), _schedules(asked)
    try:
        match act:
            case "pause":
                await schedules.pause(schedule_id, note=joined("paused by ", who))
            case "resume":
                await schedules.resume(schedule_id, note=joined("resumed by ", who))
            case "trigger":
                await schedules.trigger(schedule_id)
            case _:
                raise UserError("Choose what to do: pause, resume or trigger.")
    except UnicodeEncodeError:
        raise Refused(404, "not_found", "There is no such schedule.") from None
    return see_other(asked, "schedules", id=schedule_id, done=act)


ROUTES: Final[list[BaseRoute]] = [
    route("/schedules", _show, action="list_runs", show=show_page, soon=True),
    route("/schedules/act", _act, action="change_schedule", methods=["POST"], show=show_page),
]
