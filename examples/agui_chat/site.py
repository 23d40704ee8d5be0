"""A site with a chat: its page, a token for each visitor, and the desk that answers.

python -m agui_chat.site
"""

import asyncio
import base64
import os
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from outlast import Agent, ApprovalPolicy, ModelRequest, function_tool
from outlast.client import connect
from outlast.dev import EmbeddedServer
from outlast.serve import ConversationTokens, desk, tokens_from_environment
from outlast.testing import ScriptedModel, call, paced, say
from outlast.worker import AgentWorker

HERE: Final = Path(__file__).parent
PORT: Final = 8000
COOKIE: Final = "conversation"


@function_tool(
    effect="irreversible",
    needs_approval=ApprovalPolicy(
        reason="It costs money.", customer_text="A colleague looks at your refund."
    ),
)
def refund(order: str, euros: int) -> str:
    """Give the customer their money back.

    Args:
        order: The order.
        euros: How much.
    """
    return f"{euros} euros for {order}"


def scripted(request: ModelRequest) -> Sequence[dict[str, Any]]:
    """Return what the model replies where there is none."""
    last = request.input[-1]
    if last.get("type") == "function_call_output":
        return say(f"You get {last['output']}.")
    if "refund" in str(last.get("content")):
        return [call("refund", f"c{len(request.input)}", order="A-17", euros=40)]
    return say(" ".join(f"Word {number}." for number in range(1, 41)))


shop = Agent[Any](
    name="Shop",
    instructions="Help the customers of a shop.",
    tools=[refund],
    model=None if "OPENAI_API_KEY" in os.environ else ScriptedModel(always=paced(0.1, scripted)),
)


def site(pages: Starlette, tokens: ConversationTokens) -> Starlette:
    """Return the site, with the desk in it."""

    async def show_page(_request: Request) -> Response:
        return FileResponse(HERE / "index.html")

    async def give_token(request: Request) -> Response:
        # A real site looks up which conversation is that of the customer who is logged in.
        thread = request.cookies.get(COOKIE) or f"chat-{secrets.token_urlsafe(16)}"
        response = JSONResponse({"thread": thread, "token": tokens.mint(thread)})
        response.set_cookie(COOKIE, thread, httponly=True, samesite="strict")
        return response

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        async with pages.router.lifespan_context(pages):
            yield

    return Starlette(
        routes=[
            Route("/", show_page),
            Route("/token", give_token),
            Mount("/static", StaticFiles(directory=HERE / "static")),
            Mount("/desk", pages),
        ],
        lifespan=lifespan,
    )


async def main(port: int = PORT) -> None:
    """Serve the site until Ctrl-C."""
    if not (HERE / "static" / "chat.js").is_file():
        raise SystemExit("The page is not built: npm ci && npm run build, in this folder.")
    address = f"http://127.0.0.1:{port}"
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    os.environ.setdefault("OUTLAST_CONVERSATION_KEY", key)
    if (tokens := tokens_from_environment(f"{address}/desk")) is None:
        raise SystemExit("OUTLAST_CONVERSATION_KEY is empty.")
    async with EmbeddedServer(ui_port=None) as server:
        client = await connect(server.address)
        async with AgentWorker(client, agents=[shop], task_queue="shop"):
            pages = desk(
                client, agents=[shop], task_queue="shop", url=f"{address}/desk", tokens=tokens
            )
            config = uvicorn.Config(site(pages, tokens), port=port, log_level="warning")
            print(f"The chat is at {address}, and the desk at {address}/desk/inbox", flush=True)
            await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(main(int(os.environ.get("PORT", PORT))))
