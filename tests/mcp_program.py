"""An MCP server for tests, as a program: `mcp_program.py stdio`, or `mcp_program.py http PORT`.

What it has is small and real: tools that answer in text, images and structure, that fail, that
take their time, and one that says which process it is.
"""

import asyncio
import base64
import os
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.utilities.types import Image
from mcp.types import CallToolResult, TextContent, ToolAnnotations

KEY = "outlast/idempotency-key"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
server = MCPServer("shelf", log_level="CRITICAL")


@server.tool(annotations=ToolAnnotations(title="Find a book", read_only_hint=True))
def find(title: str, year: int = 0) -> CallToolResult:
    """Find a book by its title."""
    return CallToolResult(content=[TextContent(type="text", text=f"{title} ({year}) is here")])


@server.tool(structured_output=False)
def process_id() -> str:
    """Say which process answers."""
    return str(os.getpid())


@server.tool(structured_output=False)
def key(context: Context[Any]) -> str:
    """Say with which key the call came."""
    meta: Any = context.request_context.meta or {}
    return f"{meta.get(KEY)} {meta.get('tenant')}"


@server.tool(structured_output=False)
def cover() -> list[Any]:
    """Show a cover."""
    return ["A cover:", Image(data=PIXEL, format="png")]


@server.tool()
def count() -> dict[str, int]:
    """Count the books."""
    return {"books": 3}


@server.tool(structured_output=False)
def tear(page: int) -> str:
    """Tear a page out."""
    raise ToolError(f"page {page} is glued in")


@server.tool(structured_output=False)
async def read(seconds: float) -> str:
    """Read for a while."""
    await asyncio.sleep(seconds)
    return "read"


@server.tool(structured_output=False)
def drop(marker: str) -> str:
    """Let this process die in the middle of the first call; the next one answers."""
    path = Path(marker)
    if not path.exists():
        path.write_text(str(os.getpid()), encoding="utf-8")
        os.kill(os.getpid(), 9)
    return f"{path.read_text(encoding='utf-8')} {os.getpid()}"


@server.prompt()
def greeting(name: str) -> str:
    """Greet somebody."""
    return f"Greet {name} kindly."


@server.resource("shelf://rules")
def rules() -> str:
    """Tell the rules."""
    return "No coffee."


if __name__ == "__main__":
    if sys.argv[1] == "http":
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    elif sys.argv[1] == "sse":
        server.run("sse", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
