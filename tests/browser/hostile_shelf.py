"""An MCP server whose tool has a hostile title, description and schema, as a program."""

from typing import Any

from mcp.server.mcpserver import MCPServer
from pydantic import Field, create_model

from tests.browser.hostile import HOSTILE

ALL = "\n\n".join(HOSTILE)


def main() -> None:
    """Serve on standard input and output."""
    fields: dict[str, Any] = {
        f"field_{at}": (str, Field("", alias=text, title=text, description=text))
        for at, text in enumerate(HOSTILE[:30])
    }
    body: Any = create_model("Body", **fields)
    server = MCPServer("shelf", log_level="CRITICAL")

    def find(book: Any) -> str:
        return f"{book} {ALL}"

    find.__annotations__["book"] = body
    server.tool(title=HOSTILE[10], description=ALL, structured_output=False)(find)
    server.run("stdio")


if __name__ == "__main__":
    main()
