"""A shop with a chat: `cd examples && python -m chat_site.app`, then http://127.0.0.1:8000.

The shop knows who its customers are. It gives each of them a conversation, and a token for it; the
desk, which is mounted below /desk, shows the chat.
"""

import asyncio
import os
import secrets
from html import escape

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from temporalio.client import Client

from outlast import Agent, function_tool
from outlast.client import connect
from outlast.serve import desk, tokens_from_environment
from outlast.testing import ScriptedModel, paced
from outlast.worker import AgentWorker

PORT = 8000
SITE = f"http://127.0.0.1:{PORT}"
QUEUE = "chat-site"
ANSWER = "I looked it up: order **A-42** left the warehouse *yesterday*, and reaches you on Friday."


@function_tool(effect="read")
def look_up_order(order_id: str) -> str:
    """Look up where an order is.

    Args:
        order_id: Such as A-42.
    """
    return f"{order_id} left the warehouse yesterday, and arrives on Friday."


shop = Agent(
    name="Shop",
    instructions="You help customers of a shop for kitchenware with their orders. Be short.",
    tools=[look_up_order],
    # Without a key, it says the same about every question.
    model=None if "OPENAI_API_KEY" in os.environ else ScriptedModel(*[paced(0.05, ANSWER)] * 1_000),
)

# Tables of your database.
sessions: dict[str, str] = {}  # the session of a browser -> the customer
conversations: dict[str, str] = {}  # the customer -> their conversation


def customer_of(request: Request) -> str | None:
    """Return who has logged in; your own login goes here."""
    return sessions.get(request.cookies.get("shop_session", ""))


async def home(request: Request) -> Response:
    """Show the shop, or the login."""
    customer = customer_of(request)
    if customer is None:
        form = '<form method="post" action="/login"><label>Your name <input name="name" required></label>'
        return HTMLResponse(f"<h1>Shop</h1>{form} <button>Log in</button></form>")
    return HTMLResponse(f'<h1>Hello, {escape(customer)}</h1><p><a href="/help">Get help</a></p>')


async def log_in(request: Request) -> Response:
    """Log a customer in, without a password: this is an example."""
    name = str((await request.form()).get("name", "")).strip()[:100]
    if not name:
        return RedirectResponse("/", 303)
    session = secrets.token_urlsafe(32)
    sessions[session] = name
    response = RedirectResponse("/", 303)
    response.set_cookie("shop_session", session, httponly=True, samesite="lax")
    return response


async def get_help(request: Request) -> Response:
    """Send a customer to the chat with a token for their conversation, and for no other one."""
    customer = customer_of(request)
    tokens = tokens_from_environment(SITE)
    if customer is None or tokens is None:
        return RedirectResponse("/", 303)
    run_id = conversations.setdefault(customer, f"help-{secrets.token_urlsafe(16)}")
    # What follows the # stays in the browser: no log has the token.
    return RedirectResponse(f"/desk/chat/open#{tokens.mint(run_id)}", 303)


def site(client: Client) -> Starlette:
    """Return the shop, with the desk below /desk."""
    pages = desk(client, agents=[shop], task_queue=QUEUE, url=f"{SITE}/desk")
    return Starlette(
        routes=[
            Route("/", home),
            Route("/login", log_in, methods=["POST"]),
            Route("/help", get_help),
            Mount("/desk", pages),
        ]
    )


async def main() -> None:
    """Serve the shop, and host its agent in the same process."""
    # Yours comes from the environment, and stays the same: `openssl rand -base64 32`.
    os.environ.setdefault(
        "OUTLAST_CONVERSATION_KEY", "VGhpcyBrZXkgaXMgZm9yIGFuIGV4YW1wbGUgb25seSE="
    )
    client = await connect()
    async with AgentWorker(client, agents=[shop], task_queue=QUEUE):
        config = uvicorn.Config(site(client), port=PORT, log_level="warning")
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(main())
