"""The cookie of a chat: it carries a customer's token to the pages of one conversation."""

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from outlast.agents.hosts import is_this_machine
from outlast.edges.clock import now_ms
from outlast.serve.access import Customer
from outlast.serve.pages.page import link
from outlast.serve.routing import CONVERSATION_COOKIE, DeskRequest, own_origin


def is_framed(request: Request) -> bool:
    """Whether a page in a frame sends a request: a browser says it, or the script of the page."""
    headers = request.headers
    return headers.get("Sec-Fetch-Dest") == "iframe" or headers.get("X-Chat-Frame") == "1"


def set_token(
    asked: DeskRequest,
    response: Response,
    token: str,
    customer: Customer,
    name: str = CONVERSATION_COOKIE,
    path: str = "",
) -> None:
    """Let a browser send a token to the pages of its conversation, and nowhere else.

    The token ends by itself; the cookie ends with it. In a frame, the cookie is partitioned: it is
    sent only below the site whose page has the frame, and is no cookie of third parties.

    Args:
        asked: the request.
        response: sets the cookie.
        token: the token.
        customer: whom it lets in.
        name: the name of the cookie.
        path: where the browser sends it; empty for the pages of the conversation.
    """
    in_frame = is_framed(asked.http) and bool(asked.desk.look.origins)
    seconds = max(0, customer.expires_at_ms - now_ms()) // 1000
    host = urlsplit(own_origin(asked.desk, asked.http)).hostname or ""
    response.set_cookie(
        name,
        token,
        max_age=seconds,
        path=path or link(asked, "chat", "c", customer.run_id),
        secure=in_frame or not is_this_machine(host),
        httponly=True,
        samesite="none" if in_frame else "strict",
    )
    if in_frame:  # Starlette can write the attribute from Python 3.14 on
        header, value = response.raw_headers[-1]
        response.raw_headers[-1] = header, value + b"; Partitioned"
