"""What the chat has of its operator: colors, a logo, and the script by which other sites embed it.

    a page of the shop:  <script src="https://desk/chat/embed.js" data-agent="Shop" async></script>
        -> a button and a frame with /chat/open
        -> a token, or a guest's -> a cookie of this frame -> /chat/c/{run_id}

A frame of another site has no cookies but partitioned ones: the browser keeps them for this desk
below that site alone. So it needs no cookies of third parties, and the pages stay what they are.
"""

import json
import secrets
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.deliveries.problems import Refused
from outlast.serve.access import Customer
from outlast.serve.look import Look
from outlast.serve.pages.conversation_cookie import set_token
from outlast.serve.pages.page import PAGE_HEADERS, link, see_other
from outlast.serve.routing import DeskRequest, own_origin, route
from outlast.serve.tokens import ConversationTokens, TokenRefused

GUEST_COOKIE: Final = "outlast_guest"
"""The cookie with a guest's token, at the address where guests come in: they find their chat again."""

_GUEST: Final = "guest-"
_A_WHILE: Final = "public, max-age=300"
_POLICY: Final = "Content-Security-Policy"


def chat_headers(look: Look, caller: object) -> Mapping[str, str]:
    """Return the headers of a page of the chat: sites that the operator lists may frame it.

    Never as it is for a member of the team, whose page has more than a customer's: a login at a
    proxy may come along in a frame.
    """
    if not look.origins or not (caller is None or isinstance(caller, Customer)):
        return {}
    policy = PAGE_HEADERS[_POLICY].removesuffix("'none'")
    return {_POLICY: policy + " ".join(look.origins)}


# --- Colors and the logo -------------------------------------------------------------------------


async def _colors(asked: DeskRequest) -> Response:
    headers = {"Cache-Control": _A_WHILE}
    return Response(asked.desk.look.css(), media_type="text/css", headers=headers)


async def _logo(asked: DeskRequest) -> Response:
    found = asked.desk.look.picture()
    if found is None:
        raise Refused(404, "not_found", "There is no logo.")
    headers = {
        "Cache-Control": _A_WHILE,
        _POLICY: "sandbox; default-src 'none'; style-src 'unsafe-inline'",
    }
    return Response(found[0], media_type=found[1], headers=headers)


# --- Pages of other sites ------------------------------------------------------------------------


async def _embed(asked: DeskRequest) -> Response:
    """Answer with the script that puts the chat into a page of another site."""
    look = asked.desk.look
    if not look.origins:
        raise Refused(404, "not_found", "This desk names no site that may embed the chat.")
    script = (files("outlast.serve.pages") / "static" / "embed.js").read_text("utf-8")
    texts = {one: look.texts[one] for one in ("open", "close", "window")}
    known = {
        "door": own_origin(asked.desk, asked.http) + link(asked, "chat", "open"),
        "origins": look.origins,
        "name": look.name,
        "color": look.color or "#4f46e5",
        "guests": look.guests,
        **texts,
    }
    # A script is no HTML, and JSON with ASCII alone is a literal in it whatever the words are.
    return Response(
        script.replace("__LOOK__", json.dumps(known)),
        media_type="text/javascript",
        headers={"Cache-Control": _A_WHILE, "Cross-Origin-Resource-Policy": "cross-origin"},
    )


# --- Guests --------------------------------------------------------------------------------------


async def begin_as_guest(asked: DeskRequest) -> Response:
    """Let somebody in without a token: into the conversation that they had here, or a new one."""
    tokens = asked.desk.tokens
    if not asked.desk.look.guests or tokens is None:
        raise Refused(401, "not_logged_in", "This desk takes no guests.")
    token = _known_guest(asked.http, tokens) or tokens.mint(_GUEST + secrets.token_urlsafe(16))
    customer = tokens.customer(token)
    agent = asked.http.query_params.get("agent")
    response = see_other(asked, "chat", "c", customer.run_id, agent=agent)
    set_token(asked, response, token, customer)
    set_token(asked, response, token, customer, GUEST_COOKIE, link(asked, "chat", "guest"))
    return response


def _known_guest(http: Request, tokens: ConversationTokens) -> str | None:
    token = http.cookies.get(GUEST_COOKIE, "")
    is_new = http.query_params.get("new") == "yes"
    try:
        is_guest = tokens.customer(token).run_id.startswith(_GUEST)
    except TokenRefused:
        return None
    return token if is_guest and not is_new else None


ROUTES: Final[list[BaseRoute]] = [
    route("/chat/embed.js", _embed, action=None),
    route("/chat/look/colors.css", _colors, action=None),
    route("/chat/look/logo", _logo, action=None),
]
