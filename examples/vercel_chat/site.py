"""A site with a chat for a team: its page, and the desk that answers.

python -m vercel_chat.site
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from outlast import Agent, ApprovalPolicy, ModelRequest, function_tool
from outlast.client import connect
from outlast.dev import EmbeddedServer
from outlast.serve import desk
from outlast.testing import ScriptedModel, call, paced, say
from outlast.worker import AgentWorker

HERE: Final = Path(__file__).parent
PORT: Final = 8001


@function_tool(effect="irreversible", needs_approval=ApprovalPolicy(reason="It costs money."))
def refund(order: str, euros: int) -> str:
    """Give a customer their money back.

    Args:
        order: The order.
        euros: How much.
    """
    return f"{euros} euros for {order}"


def scripted(request: ModelRequest) -> Sequence[dict[str, Any]]:
    """Return what the model replies where there is none."""
    last = request.input[-1]
    if last.get("type") == "function_call_output":
        return say(f"The tool said: {last['output']}")
    if "refund" in str(last.get("content")):
        return [call("refund", f"c{len(request.input)}", order="A-17", euros=40)]
    return say(" ".join(f"Word {number}." for number in range(1, 41)))


shop = Agent[Any](
    name="Shop",
    instructions="Help the team of a shop. Give money back when they ask for it.",
    tools=[refund],
    model=None if "OPENAI_API_KEY" in os.environ else ScriptedModel(always=paced(0.1, scripted)),
)


def site(pages: Starlette) -> Starlette:
    """Return the site, with the desk in it."""

    async def show_page(_request: Request) -> Response:
        return FileResponse(HERE / "index.html")

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        async with pages.router.lifespan_context(pages):
            yield

    return Starlette(
        routes=[
            Route("/", show_page),
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
    async with EmbeddedServer(ui_port=None) as server:
        client = await connect(server.address)
        async with AgentWorker(client, agents=[shop], task_queue="shop"):
            # Without a login, the desk is for the user of this machine, who may do everything.
            pages = desk(client, agents=[shop], task_queue="shop", url=f"{address}/desk")
            config = uvicorn.Config(site(pages), port=port, log_level="warning")
            print(f"The chat is at {address}", flush=True)
            await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(main(int(os.environ.get("PORT", PORT))))
