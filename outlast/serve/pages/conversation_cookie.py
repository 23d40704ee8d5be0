"""The cookie of a chat: it carries a customer's token to the pages of one conversation."""

from urllib.parse import urlsplit

from starlette.responses import Response

from outlast.agents.hosts import is_this_machine
from outlast.edges.clock import now_ms
from outlast.serve.access import Customer
from outlast.serve.pages.page import link
from outlast.serve.routing import CONVERSATION_COOKIE, DeskRequest, own_origin


def set_token(asked: DeskRequest, response: Response, token: str, customer: Customer) -> None:
    """Let a browser send a token to the pages of its conversation, and nowhere else.

    The token ends by itself; the cookie ends with it.
    """
    seconds = max(0, customer.expires_at_ms - now_ms()) // 1000
    host = urlsplit(own_origin(asked.desk, asked.http)).hostname or ""
    response.set_cookie(
        CONVERSATION_COOKIE,
        token,
        max_age=seconds,
        path=link(asked, "chat", "c", customer.run_id),
        secure=not is_this_machine(host),
        httponly=True,
        samesite="strict",
    )
