"""An MCP server: a program of its own whose tools an agent uses, with a person before some of them.

The worker starts the program when its tools are first wanted, and again should it die. This file
is both: `python mcp_server.py serve` is the server.
"""

import asyncio
import sys

from outlast import Agent, Runner
from outlast.mcp import MCPServerStdio

stock = MCPServerStdio(
    {"command": sys.executable, "args": [__file__, "serve"]},
    name="stock",
    cache_tools_list=True,
    require_approval={"order": "always"},
    client_session_timeout_seconds=30,
)

clerk = Agent(
    name="Stock clerk",
    instructions="Look before you order. Order only what is missing.",
    mcp_servers=[stock],
)


def serve() -> None:
    """Be the server."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("stock", log_level="CRITICAL")

    @server.tool(structured_output=False)
    def stock_of(article: str) -> str:
        """Say how many of an article there are."""
        return {"wok": "12", "kettle": "0"}.get(article, "unknown")

    @server.tool(structured_output=False)
    def order(article: str, count: int) -> str:
        """Order an article from its maker."""
        return f"{count} x {article}: ordered"

    server.run("stdio")


async def main() -> None:
    """Ask, let a person decide about the order, and go on."""
    result = await Runner.run(clerk, "Have we enough woks and kettles?")
    while result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            print(f"to decide: {item.name}({item.arguments})")
            state.approve(item)
        result = await Runner.run(clerk, state)
    for step in result.new_items:
        if step.type == "tool_call_output_item":
            print(f"the server said: {step.output[0]['text']}")
    print(f"answer: {result.final_output}")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        asyncio.run(main())
